# SPDX-License-Identifier: MIT
"""What may be handed in, and that it arrives as the numbers it was."""

import array

import gpureplay
import numpy as np
import pytest

FIELDS = {"f32": ((3,), "float32"), "f16": ((), "float16"), "u8": ((), "uint8"), "i32": ((), "int32"),
          "i64": ((), "int64"), "flag": ((), "bool")}
ROWS = 6


@pytest.fixture
def buffer():
    with gpureplay.ReplayBuffer(64, FIELDS, device="cpu", num_envs=ROWS, autoreset="disabled") as made:
        yield made


def plain():
    row = np.arange(ROWS)
    return {"f32": np.arange(3 * ROWS, dtype=np.float32).reshape(ROWS, 3), "f16": row.astype(np.float16),
            "u8": row.astype(np.uint8), "i32": -row.astype(np.int32), "i64": row << 40, "flag": row % 2 == 1}


def read_only(values):
    values.setflags(write=False)
    return values


def strided(values):
    return np.repeat(values, 2, axis=0)[::2]


FORMS = {
    "arrays": lambda values: values,
    "wide": lambda values: values.astype({"f": "f8", "i": "i8", "u": "i8", "b": "i4"}[values.dtype.kind]),
    "big-endian": lambda values: values.astype(values.dtype.newbyteorder(">")),
    "Fortran": np.asfortranarray,
    "strided": strided,
    "backwards": lambda values: values[::-1].copy()[::-1],
    "read-only": read_only,
    "lists": lambda values: values.tolist(),
    "tuples": lambda values: tuple(map(tuple, values.tolist())) if values.ndim > 1 else tuple(values.tolist()),
    "memoryview": lambda values: memoryview(values) if values.dtype != np.float16 else values,
    "subclass": lambda values: values.view(np.recarray),
    "DLPack": lambda values: type("Exporter", (), {"__dlpack__": lambda _, **more: values.__dlpack__(**more),
                                                   "__dlpack_device__": lambda _: (1, 0)})(),
    "object with an array": lambda values: type("Holder", (), {"__array__": lambda _, *a, **more: values})(),
}


@pytest.mark.parametrize("way", ["add", "extend"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_arrives_as_the_same_numbers(buffer, form, way):
    wanted = plain()
    assert getattr(buffer, way)(**{name: FORMS[form](values.copy()) for name, values in wanted.items()}) == ROWS
    batch = buffer.gather(range(ROWS))
    for name, values in wanted.items():
        assert batch[name].dtype == values.dtype and (batch[name] == values).all(), name


@pytest.mark.parametrize("way", ["add", "extend"])
def test_tensors_of_other_libraries_arrive(buffer, way):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
    wanted = plain()
    getattr(buffer, way)(**{name: torch.from_numpy(values) for name, values in wanted.items()})
    turned = {**wanted, "f32": torch.from_numpy(wanted["f32"].T.copy()).T, "f16": wanted["f16"].astype("f8")}
    getattr(buffer, way)(**turned)
    batch = buffer.gather([*range(ROWS, 2 * ROWS)])
    assert all((batch[name] == values).all() for name, values in wanted.items())
    with pytest.raises(ValueError, match=r"f32 is a tensor that needs a gradient; it must .*: f32.detach\(\)"):
        getattr(buffer, way)(**{**wanted, "f32": torch.zeros(ROWS, 3, requires_grad=True)})
    for wrong, given in ((torch.zeros(ROWS, 3, dtype=torch.bfloat16), "torch.bfloat16"),
                         (torch.zeros(ROWS, 3).to("meta"), "torch.float32")):
        with pytest.raises(ValueError, match=f"f32 cannot be .* a Tensor of {given}, and must be float32, dense, in"):
            getattr(buffer, way)(**{**wanted, "f32": wrong})


@pytest.mark.parametrize("way", ["add", "extend"])
def test_arrays_of_jax_arrive(buffer, way):
    jax = pytest.importorskip("jax", reason="JAX is not installed here")
    wanted = plain()
    with jax.enable_x64(True):
        getattr(buffer, way)(**{name: jax.numpy.asarray(values) for name, values in wanted.items()})
    batch = buffer.gather(range(ROWS))
    assert all((batch[name] == values).all() for name, values in wanted.items())


def test_batches_go_into_another_buffer(buffer):
    buffer.extend(**plain())
    batch = buffer.gather(range(ROWS))
    with gpureplay.ReplayBuffer(64, FIELDS, device="cpu") as other:
        other.extend(**{name: batch[name] for name in FIELDS})
        other.extend(**{name: batch.array(name) for name in FIELDS})
        got = other.gather(range(2 * ROWS))
        assert all((got[name] == np.concatenate([batch[name], batch[name]])).all() for name in FIELDS)


@pytest.mark.parametrize("way", ["add", "extend"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_too_large_to_be_staged_arrives_in_every_form(form, way):
    rows = {name: np.concatenate([values] * 500) for name, values in plain().items()}
    with gpureplay.ReplayBuffer(10_000, FIELDS, device="cpu", num_envs=500 * ROWS, autoreset="disabled") as buffer:
        assert buffer._writer._stage is None
        getattr(buffer, way)(**{name: FORMS[form](values.copy()) for name, values in rows.items()})
        batch = buffer.gather(range(500 * ROWS))
        assert all((batch[name] == values).all() for name, values in rows.items())


def test_single_numbers_are_a_step_of_one_environment():
    with gpureplay.ReplayBuffer(64, FIELDS, device="cpu") as buffer:
        assert buffer.add(f32=(1, 2.5, True), f16=0.5, u8=255, i32=np.int8(-3), i64=2**62, flag=1) == 1
        of_one = {"f32": [[1, 2.5, 1]], "f16": [0.5], "u8": array.array("B", [255]), "i32": [-3], "i64": [2**62],
                  "flag": [True]}
        assert buffer.add(**of_one) == 1
        batch = buffer.gather([0, 1])
        assert all(batch[name].tolist() == 2 * list(value) for name, value in of_one.items())


def test_what_is_given_may_change_afterwards(buffer):
    given, wanted = plain(), plain()
    for _ in range(5):
        buffer.extend(**given)
        buffer.add(**given)
    for values in given.values():
        values.fill(0)
    batch = buffer.gather(range(5 * ROWS))
    assert all((batch[name] == np.concatenate([values] * 5)).all() for name, values in wanted.items())


def test_a_missing_truncated_is_nowhere_truncated():
    fields = {"terminated": "bool", "truncated": "bool"}
    with gpureplay.ReplayBuffer(64, fields, device="cpu", num_envs=2) as buffer:
        buffer.add(terminated=[True, False])
        buffer.extend(terminated=np.ones(3, bool))
        assert buffer.gather(range(5)).truncated.tolist() == [False] * 5


def test_nothing_is_added_by_nothing(buffer):
    assert buffer.extend(**{name: values[:0] for name, values in plain().items()}) == 0
    assert len(buffer) == 0 == buffer.stats.appended


def as_bools(bytes_of_them):
    """A view of other memory, which NumPy takes for bools."""
    return np.array(bytes_of_them, np.uint8).view(np.bool_)


@pytest.mark.parametrize("way", ["add", "extend"])
@pytest.mark.parametrize("form", ["arrays", "strided", "lists of the view", "DLPack"])
def test_bools_of_any_byte_arrive_as_0_and_1(buffer, form, way):
    """Also in fields of numbers that take bools, where they are 0 and 1 as NumPy has them."""
    odd, wanted = [0, 1, 2, 255, 128, 0], [0, 1, 1, 1, 1, 0]
    for name in ("flag", "u8", "f16", "f32"):
        given = as_bools(np.repeat(odd, 3).reshape(ROWS, 3) if name == "f32" else odd)
        given = list(given) if form == "lists of the view" else FORMS[form](given)
        number = buffer.stats.appended
        getattr(buffer, way)(**{**plain(), name: given})
        found = buffer.gather(range(number, number + ROWS))[name]
        assert found.reshape(ROWS, -1)[:, 0].tolist() == wanted, name
        assert name != "flag" or found.tobytes() == bytes(wanted)


@pytest.mark.parametrize("count", [2000, 20_000])
def test_a_single_odd_bool_of_many_is_found(count):
    for at in (0, count // 2, count - 1):
        with gpureplay.ReplayBuffer(20_000, {"flag": "bool"}, device="cpu", max_batch=10_000) as buffer:
            given = np.zeros(count, np.uint8)
            given[at] = 64
            buffer.extend(flag=given.view(np.bool_))
            first = max(at - 5, 0)
            assert buffer.gather(range(first, at + 1)).flag.tobytes() == bytes(at - first) + b"\1"


@pytest.mark.parametrize("settings", [{"n_step": 2}, {"layout": "linked"}, {}], ids=["n_step", "linked", "plain"])
def test_ends_of_any_byte_are_ends(settings):
    fields = {"obs": ((2,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((2,), "float32"),
              "terminated": "bool", "truncated": "bool", "mark": ((3,), "bool")}
    with gpureplay.ReplayBuffer(64, fields, device="cpu", num_envs=4, autoreset="disabled", max_batch=24,
                                **settings) as buffer:
        obs = np.zeros((4, 2), np.float32)
        for step in range(6):
            buffer.add(obs=obs, action=np.zeros(4, np.int32), reward=np.zeros(4, np.float32), next_obs=obs + 1,
                       terminated=as_bools([0, 0, 2, 0]), truncated=as_bools([0, 4, 0, 0]),
                       mark=as_bools([[0, 1, 7]] * 4))
            obs = np.where(as_bools([0, 4, 2, 0])[:, None], 0, obs + 1).astype(np.float32)
        batch = buffer.gather(range(len(buffer)))
        for name in ("terminated", "truncated", "mark"):
            assert set(batch[name].tobytes()) == {0, 1}, name
        assert (batch.mark == [[0, 1, 1]]).all() and step == 5


class Negative:
    """A tensor of PyTorch's whose memory has minus its numbers, as of `z.conj().imag`."""

    def __init__(self, memory, is_neg=True):
        self._memory, self._is_neg = memory, is_neg

    def is_neg(self):
        return self._is_neg

    def resolve_neg(self):
        return Negative(-self._memory, False) if self._is_neg else self

    def __dlpack__(self, **more):
        return self._memory.__dlpack__(**more)

    def __dlpack_device__(self):
        return 1, 0


def test_numbers_that_are_negated_when_read_arrive_negated(buffer):
    given = plain()
    buffer.extend(**{**given, "f32": Negative(given["f32"]), "i32": Negative(given["i32"])})
    batch = buffer.gather(range(ROWS))
    assert (batch.f32 == -given["f32"]).all() and (batch.i32 == -given["i32"]).all()


def test_tensors_with_the_negative_bit_arrive_negated(buffer):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
    numbers = torch.complex(torch.zeros(ROWS, 3), torch.arange(3.0 * ROWS).reshape(ROWS, 3))
    negative = numbers.conj().imag
    assert negative.is_neg()
    buffer.extend(**{**plain(), "f32": negative})
    assert (buffer.gather(range(ROWS)).f32 == -np.arange(3 * ROWS).reshape(ROWS, 3)).all()
    with pytest.raises((TypeError, ValueError), match="f32"):
        buffer.extend(**{**plain(), "f32": numbers.conj()})
