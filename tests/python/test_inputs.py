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
