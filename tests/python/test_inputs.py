# SPDX-License-Identifier: MIT
"""What may be given, that it arrives as the numbers it was, and what is refused."""

import array
import contextlib
import copy
import itertools
import re
import warnings

import gpureplay
import gymnasium
import numpy as np
import pytest
from gpureplay import _inputs
from support import FORMS, TRANSITION, CudaDlpack, CudaInterface, block

# Accepted forms. Each arrives with the same numbers.


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


@pytest.mark.parametrize("method", ["add", "extend"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("times", [1, 500])
def test_every_form_arrives_as_the_same_numbers(times, form, method):
    """500: more bytes than are staged."""
    wanted = {name: np.concatenate([values] * times) for name, values in plain().items()}
    with gpureplay.ReplayBuffer(10_000, FIELDS, device="cpu", num_envs=times * ROWS, autoreset="disabled") as buffer:
        given = {name: FORMS[form](values.copy()) for name, values in wanted.items()}
        assert getattr(buffer, method)(**given) == times * ROWS
        batch = buffer.gather(range(times * ROWS))
        for name, values in wanted.items():
            assert batch[name].dtype == values.dtype and (batch[name] == values).all(), name


@pytest.mark.parametrize("method", ["add", "extend"])
def test_tensors_of_other_libraries_arrive(buffer, method):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here")
    wanted = plain()
    getattr(buffer, method)(**{name: torch.from_numpy(values) for name, values in wanted.items()})
    turned = {**wanted, "f32": torch.from_numpy(wanted["f32"].T.copy()).T, "f16": wanted["f16"].astype("f8")}
    getattr(buffer, method)(**turned)
    batch = buffer.gather([*range(ROWS, 2 * ROWS)])
    assert all((batch[name] == values).all() for name, values in wanted.items())
    with pytest.raises(ValueError, match=r"f32 is a tensor that needs a gradient; it must .*: f32.detach\(\)"):
        getattr(buffer, method)(**{**wanted, "f32": torch.zeros(ROWS, 3, requires_grad=True)})
    for wrong, given in ((torch.zeros(ROWS, 3, dtype=torch.bfloat16), "torch.bfloat16"),
                         (torch.zeros(ROWS, 3).to("meta"), "torch.float32")):
        with pytest.raises(ValueError, match=f"f32 cannot be .* a Tensor of {given}, and must be float32, dense, in"):
            getattr(buffer, method)(**{**wanted, "f32": wrong})


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


@pytest.mark.parametrize("method", ["add", "extend"])
@pytest.mark.parametrize("form", ["arrays", "strided", "lists of the view", "DLPack"])
def test_bools_of_any_byte_arrive_as_0_and_1(buffer, form, method):
    """Also in fields of numbers that take bools, where they are 0 and 1 as NumPy has them."""
    odd, wanted = [0, 1, 2, 255, 128, 0], [0, 1, 1, 1, 1, 0]
    for name in ("flag", "u8", "f16", "f32"):
        given = as_bools(np.repeat(odd, 3).reshape(ROWS, 3) if name == "f32" else odd)
        given = list(given) if form == "lists of the view" else FORMS[form](given)
        number = buffer.stats.appended
        getattr(buffer, method)(**{**plain(), name: given})
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


@pytest.mark.parametrize("settings", [{"n_step": 2}, {"layout": "frames"}, {}], ids=["n_step", "frames", "plain"])
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


# NaN and infinity are refused at any position, and finite numbers never are.


NAN_FIELDS = {"before": ((), "int32"), "x": ((27,), "float32"), "half": ((3,), "float16"), "reward": ((), "float32")}
NAN = float("nan")


def rows(count, value=1.0):
    return {"before": np.zeros(count, np.int32), "x": np.full((count, 27), value, np.float32),
            "half": np.full((count, 3), 1, np.float16), "reward": np.full(count, value, np.float32)}


def make_nan(num_envs, fields=NAN_FIELDS, **settings):
    return gpureplay.ReplayBuffer(30_000, fields, device="cpu", num_envs=num_envs, autoreset="disabled", **settings)


@pytest.mark.parametrize("name", ["x", "half", "reward", "x as float64", "x as a list"])
@pytest.mark.parametrize("method", ["add", "extend"])
@pytest.mark.parametrize("count", [1, 2, 5, 64, 500, 9000])
def test_what_is_not_finite_is_found_anywhere(count, method, name):
    name, _, form = name.partition(" as ")
    change = {"": lambda values: values, "float64": np.float64, "a list": np.ndarray.tolist}[form]
    values = itertools.cycle([(NAN, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")])
    with make_nan(count) as buffer:
        width = rows(1)[name].size
        for row, at in sorted({(0, width - 1), (count // 2, 0), (count - 1, width // 2), (count - 1, width - 1)}):
            given, (value, word) = rows(count), next(values)
            given[name].reshape(count, -1)[row:, at] = value
            text = f'"{name}" is {word} in row {row} of {count}; its numbers must be finite, or say check_nan=False'
            with pytest.raises(ValueError, match=text):
                getattr(buffer, method)(**{**given, name: change(given[name])})
        assert len(buffer) == 0 == buffer.stats.appended


@pytest.mark.parametrize("value", [3e38, -3e38, 1e-45, 0.0])
@pytest.mark.parametrize("method", ["add", "extend"])
@pytest.mark.parametrize("count", [2, 9000])
def test_every_other_number_goes_in(count, method, value):
    with make_nan(count) as buffer, warnings.catch_warnings():
        warnings.simplefilter("error")
        given = rows(count, value)
        given["x"][::2] *= np.float32(-1)
        given["half"][:] = np.float16(65504)
        assert getattr(buffer, method)(**given) == count
        got = buffer.gather([0, 1])
        assert (got.x == given["x"][:2]).all() and (got.half == 65504).all()


@pytest.mark.parametrize("method", ["add", "extend"])
def test_the_search_can_be_left_out(method):
    with make_nan(3, check_nan=False) as buffer:
        assert buffer.check_nan is False
        with pytest.raises(AttributeError):
            buffer.check_nan = True  # writers were made with it
        given = rows(3)
        given["x"][1], given["half"][2] = NAN, np.inf
        assert getattr(buffer, method)(**given) == 3
        assert np.isnan(buffer.gather([1]).x).all() and np.isinf(buffer.gather([2]).half).all()


# Bad input: an exception states the value given and the value wanted, and nothing changes.


ENVS = 4


@pytest.fixture
def vector():
    with replay(num_envs=ENVS, max_batch=20, autoreset="disabled") as made:
        made.add(**block(TRANSITION, 0, ENVS))
        yield made


def unchanged(vector, before):
    got, _ = vector.stats._replace(append_seconds=0, wait_seconds=0), len(vector)
    assert got == before and vector.gather(range(ENVS)).obs.tolist() == block(TRANSITION, 0, ENVS)["obs"].tolist()


BAD_ROWS = {  # (field, value, exception, its text)
    "obs as text": ("obs", np.full((ENVS, 3), "a"), TypeError, "obs is <U1; it must be float32"),
    "obs as long text": ("obs", np.full((ENVS, 3), "a" * 69), TypeError, "obs is <U69; it must be float32"),
    "obs as nothing": ("obs", None, TypeError, "obs is object; it must be float32"),
    "obs masked": ("obs", np.ma.masked_array(np.zeros((ENVS, 3)), mask=np.eye(ENVS, 3)), TypeError,
                   r"obs is a masked array; it must be an array without a mask, say obs.filled\(0\)"),
    "obs masked, of its dtype": ("obs", np.ma.zeros((ENVS, 3), np.float32), TypeError, "obs is a masked array"),
    "obs complex": ("obs", np.zeros((ENVS, 3), complex), TypeError, "obs is complex128; it must be float32"),
    "action as floats": ("action", np.zeros(ENVS), TypeError, "action is float64; it must be int32"),
    "action too large": ("action", np.full(ENVS, 2**31), ValueError, "action has 2147483648 .* int32 holds -"),
    "terminated of 2": ("terminated", np.full(ENVS, 2), ValueError, r"terminated has 2 to 2; bool holds 0 to 1"),
    "terminated of -1": ("terminated", np.full(ENVS, -1), ValueError, r"terminated has -1 to -1; bool holds 0 to 1"),
    "terminated as floats": ("terminated", np.zeros(ENVS), TypeError, "terminated is float64; it must be bool"),
    "obs too large": ("obs", np.full((ENVS, 3), 1e39), ValueError, r"obs has 1e\+39 .* float32 holds -3.40"),
    "integers a float rounds": ("obs", np.full((ENVS, 3), 2**24 + 1), ValueError, "obs has 16777217 .* float32 holds"),
    "obs ragged": ("obs", [[1, 2, 3], [1], [1], [1]], ValueError, "obs cannot be made an array"),
    "obs transposed": ("obs", np.zeros((3, ENVS)), ValueError, r"obs has shape \(3, 4\); it must be \((4|count), 3\)"),
    "obs flat": ("obs", np.zeros(12), ValueError, r"obs has shape \(12,\); it must be \((4|count), 3\)"),
    "obs for one": ("obs", np.zeros(3), ValueError, r"obs has shape \(3,\); it must be \((4|count), 3\)"),
    "reward of a number": ("reward", 1.0, ValueError, r"reward has shape \(\); it must be \((4|count),\)"),
    "CUDA interface": ("obs", CudaInterface((ENVS, 3)), TypeError,
                       'obs is in the memory of a CUDA device; a buffer on "cpu" takes host arrays'),
    "CUDA DLPack": ("obs", CudaDlpack(), TypeError, 'obs is in the memory of a CUDA device; a buffer on "cpu"'),
}


@pytest.mark.parametrize("method", ["add", "extend"])
@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_field_is_refused(vector, case, method):
    name, value, error, text = BAD_ROWS[case]
    before = vector.stats._replace(append_seconds=0, wait_seconds=0)
    with pytest.raises(error, match=text):
        getattr(vector, method)(**{**block(TRANSITION, ENVS, ENVS), name: value})
    unchanged(vector, before)


@pytest.mark.parametrize("method", ["add", "extend"])
def test_missing_and_unknown_fields_are_named(vector, method):
    before, rows = vector.stats._replace(append_seconds=0, wait_seconds=0), block(TRANSITION, 0, ENVS)
    del rows["reward"]
    with pytest.raises(TypeError, match=r"missing \['reward'\], unknown \['rewrd'\]; the fields are obs, action"):
        getattr(vector, method)(**rows, rewrd=np.zeros(ENVS))
    unchanged(vector, before)


def test_columns_must_be_as_long(vector):
    before = vector.stats._replace(append_seconds=0, wait_seconds=0)
    with pytest.raises(ValueError, match="reward has 3 transitions and obs 4; they must be as many"):
        vector.extend(**{**block(TRANSITION, 0, ENVS), "reward": np.zeros(3)})
    unchanged(vector, before)


BAD_SAMPLES = {
    "beyond max_batch": (lambda b: b.sample(21), gpureplay.InvalidArgument, "21.*20"),
    "none": (lambda b: b.sample(0), gpureplay.InvalidArgument, "0"),
    "negative": (lambda b: b.sample(-1), gpureplay.InvalidArgument, "-1"),
    "beyond an int64": (lambda b: b.sample(2**64 + 5), gpureplay.InvalidArgument, "batch_size is 18446744073709551621"),
    "half": (lambda b: b.sample(2.5), TypeError, "batch_size is 2.5; it must be an integer"),
    "text": (lambda b: b.sample("8"), TypeError, "batch_size is '8'; it must be an integer"),
    "stream": (lambda b: b.sample(8, stream=3), gpureplay.InvalidArgument, "stream"),
    "stream of host arrays": (lambda b: b.extend(stream=3, **block(TRANSITION, 0, 4)), gpureplay.InvalidArgument,
                              "stream"),
    "id beyond": (lambda b: b.gather([0, 4]), gpureplay.InvalidArgument, "4.*0"),
    "id before": (lambda b: b.gather([-1]), gpureplay.InvalidArgument, "-1"),
    "ids of two axes": (lambda b: b.gather([[0]]), ValueError, r"ids has shape \(1, 1\); it must be \(batch_size,\)"),
    "ids of floats": (lambda b: b.gather([0.5]), TypeError, "ids is float64; it must be integers"),
    "an id of 2^63": (lambda b: b.gather([0, 2**63]), gpureplay.InvalidArgument, f"ids.1. is {2**63}; no transition"),
    "ids beyond": (lambda b: b.gather([-1, 2**63]), gpureplay.InvalidArgument, f"ids.1. is {2**63}; no transition"),
    "an id of 2^64": (lambda b: b.gather([2**64 + 1]), gpureplay.InvalidArgument, f"ids.0. is {2**64 + 1}; no"),
    "an id of uint64": (lambda b: b.gather(np.array([3, 2**64 - 1], np.uint64)), gpureplay.InvalidArgument,
                        f"ids.1. is {2**64 - 1}; no transition"),
    "ids of bools": (lambda b: b.gather([True]), TypeError, "ids is bool; it must be integers"),
    "no ids": (lambda b: b.gather([]), gpureplay.InvalidArgument, "0"),
}


@pytest.mark.parametrize("case", BAD_SAMPLES)
def test_a_bad_sample_is_refused(vector, case):
    call, error, text = BAD_SAMPLES[case]
    before = vector.stats
    with pytest.raises(error, match=text):
        call(vector)
    assert vector.stats._replace(append_seconds=before.append_seconds) == before


def test_an_empty_buffer_cannot_be_sampled():
    with gpureplay.ReplayBuffer(100, TRANSITION, device="cpu", min_size=5) as vector:
        with pytest.raises(gpureplay.TooFew, match="empty.*at least 5 transitions"):
            vector.sample(4)
        assert vector and not vector.can_sample and len(vector) == 0 and not vector.is_full
        vector.extend(**block(TRANSITION, 0, 4))
        assert not vector.can_sample
        with pytest.raises(gpureplay.TooFew, match="4 transitions.*min_size = 5"):
            vector.sample(1)
        assert (vector.gather([3]).id == 3).all()  # no sample
        vector.extend(**block(TRANSITION, 4, 1))
        assert vector.can_sample and len(vector.sample(8).id) == 8


def test_an_overwritten_transition_has_an_exception_of_its_own():
    with gpureplay.ReplayBuffer(8, TRANSITION, device="cpu", block_rows=2, max_batch=4) as vector:
        vector.extend(**block(TRANSITION, 0, 20))
        oldest = vector.stats.first_id
        for ids in ([0], [oldest, oldest - 1]):
            with pytest.raises(gpureplay.Evicted, match="overwritten; the visible transitions are"):
                vector.gather(ids)
        with pytest.raises(gpureplay.InvalidArgument, match="20; the visible"):
            vector.gather([20])


MAKERS = {
    "capacity of none": (lambda: replay(0), gpureplay.InvalidArgument, "capacity"),
    "capacity half": (lambda: replay(1.5), TypeError, "capacity is 1.5; it must be an integer"),
    "capacity text": (lambda: replay("many"), TypeError, "capacity is 'many'; it must be an integer"),
    "capacity beyond": (lambda: replay(2**70), gpureplay.InvalidArgument, "capacity is 1180591620717411303424; it"),
    "memory beyond": (lambda: replay(2**44), gpureplay.OutOfMemory, "bytes"),
    "no environments": (lambda: replay(num_envs=0), gpureplay.InvalidArgument, "num_envs is 0; it must be 1 to"),
    "wrapping environments": (lambda: replay(num_envs=2**32 + 1), gpureplay.InvalidArgument, "num_envs is 4294967297"),
    "gamma": (lambda: replay(gamma=1.5), gpureplay.InvalidArgument, "gamma is 1.5"),
    "gamma NaN": (lambda: replay(gamma=float("nan")), gpureplay.InvalidArgument, "gamma is nan"),
    "gamma text": (lambda: replay(gamma="a"), TypeError, "gamma is 'a'; it must be a number"),
    "seed": (lambda: replay(seed=-1), gpureplay.InvalidArgument, "seed is -1; it must be 0 to 18446744073709551615"),
    "flush": (lambda: replay(flush="later"), ValueError, "flush is 'later'; it must be one of 'auto', 'manual'"),
    "autoreset": (lambda: replay(autoreset="maybe"), ValueError, "autoreset is 'maybe'; it must be one of 'disabled'"),
    "device": (lambda: replay(device="gpu"), gpureplay.InvalidArgument, "gpu.*cpu"),
    "device of a number": (lambda: replay(device=0), TypeError, "device is 0; it must be .*or a gpureplay.Device"),
    "Device of nothing": (lambda: gpureplay.Device(None), TypeError, "device is None; it must be"),
    "no fields": (lambda: gpureplay.ReplayBuffer(10, {}, device="cpu"), gpureplay.InvalidArgument, "0.*1.*64"),
    "65 fields": (lambda: fields({f"f{n}": "uint8" for n in range(65)}), gpureplay.InvalidArgument, "65.*64"),
    "long name": (lambda: fields({"a" * 64: "uint8"}), gpureplay.InvalidArgument, "63"),
    "cut name": (lambda: fields({"a\0b": "uint8"}), TypeError, r"called 'a\\x00b'; it must be a str without NUL"),
    **{f"field called {name}": (lambda name=name: fields({name: "uint8"}), ValueError,
                                f"field is called '{name}', as an argument of `add` or `extend`; choose another name")
       for name in ("self", "info", "final_obs", "stream")},
    "number as a name": (lambda: fields({3: "uint8"}), TypeError, "called 3; it must be a str"),
    "dtype": (lambda: fields({"x": "float64"}), TypeError, "field 'x' has dtype 'float64'; it must be one of float32"),
    "no dtype": (lambda: fields({"x": "number"}), TypeError, "field 'x' has dtype 'number'"),
    "shape": (lambda: fields({"x": ((0,), "uint8")}), ValueError, r"'x' has shape \(0,\); it must be at most 6"),
    "7 axes": (lambda: fields({"x": ((1,) * 7, "uint8")}), ValueError, "at most 6 axes"),
    "wrapping shape": (lambda: fields({"x": ((2**32 + 1,), "uint8")}), ValueError, "has shape .4294967297"),
    "no shape": (lambda: fields({"x": (None, "uint8")}), ValueError, "field 'x' has shape None"),
    "triple": (lambda: fields({"x": (1, 2, 3)}), ValueError, r"field 'x' is \(1, 2, 3\); it must be \(shape, dtype\)"),
    "list": (lambda: fields(["obs"]), TypeError, r"fields is \['obs'\] and action_space None; they must be a dict"),
}


def replay(capacity=100, **settings):
    return gpureplay.ReplayBuffer(capacity, TRANSITION, **{"device": "cpu", **settings})


def fields(given):
    return gpureplay.ReplayBuffer(100, given, device="cpu")


@pytest.mark.parametrize("case", MAKERS)
def test_a_buffer_that_cannot_be_is_refused(case):
    call, error, text = MAKERS[case]
    with pytest.raises(error, match=text):
        call()


def test_a_gpu_that_is_not_here_says_what_is_missing():
    try:
        gpureplay.Device("cuda:0").close()
    except gpureplay.Unavailable as error:
        assert "CUDA" in str(error) or "driver" in str(error)
    with pytest.raises((gpureplay.Unavailable, gpureplay.InvalidArgument), match="cuda:99|CUDA|driver"):
        gpureplay.Device("cuda:99")
    for settings, text in (({"executor": "both"}, "executor is 'both'"), ({"threads": -1}, "threads"),
                           ({"stream": 5}, "stream")):
        with pytest.raises(ValueError, match=text):
            gpureplay.Device("cpu", **settings)
    with pytest.raises(TypeError, match="deterministic is 2; it must be True or False"):
        gpureplay.Device("cpu", deterministic=2)
    assert gpureplay.Device("cpu", deterministic=True).deterministic


@pytest.mark.parametrize("stream", ["x", b"x", 1.5, [1]])
def test_a_stream_is_an_address_or_none(vector, stream):
    """Without a check ctypes would pass the address of a str's characters."""
    rows = block(TRANSITION, 0, ENVS)
    learner = gpureplay.DQN(vector, num_actions=2, trunk=[4], batch_size=4)
    held = vector.sample(2)
    for _ in range(2):  # the second sample would be into a batch that is there
        vector.sample(4)
    for call in (lambda: vector.sample(4, stream=stream), lambda: vector.sample(3, stream=stream),
                 lambda: vector.gather([0], stream=stream), lambda: vector.extend(stream=stream, **rows),
                 lambda: learner.act(rows["obs"], stream=stream), lambda: held.wait(stream),
                 lambda: learner.q_values(rows["obs"], stream=stream), lambda: gpureplay.Device("cpu", stream=stream)):
        with pytest.raises(TypeError, match="stream is .*it must be an integer"):
            call()
    assert len(vector) == ENVS


# obs and next_obs of the same memory, as environments give them that show one array.


STEP = {"obs": ((2,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((2,), "float32"),
        "terminated": "bool"}
DOORS = {
    "add": ({}, lambda buffer: buffer.add),
    "extend": ({}, lambda buffer: buffer.extend),
    "add of a writer": ({}, lambda buffer: buffer.writer(3, "disabled").add),
    "extend of a writer": ({}, lambda buffer: buffer.writer(3, "disabled").extend),
    "n steps": ({"n_step": 2}, lambda buffer: buffer.add),
    "frames": ({"layout": "frames"}, lambda buffer: buffer.add),
    "sequences": ({"sequences": True}, lambda buffer: buffer.add),
}
SHOWN = {  # what an environment has, and what it gives of it each time
    "an array": (lambda array: array, lambda shown: shown),
    "a view": (lambda array: array, lambda shown: shown[...]),
    "a view of another shape": (lambda array: array, lambda shown: shown.reshape(1, 3, 2)[0]),
    "an array to be converted": (lambda array: array.astype(np.float64), lambda shown: shown),
    "a buffer": (lambda array: array, lambda shown: memoryview(shown)),
    "a tensor": (lambda array: pytest.importorskip("torch").from_numpy(array), lambda shown: shown[...]),
    "a list": (lambda array: array.tolist(), lambda shown: shown),
    "a list of arrays": (list, lambda shown: shown),
    "another list of arrays": (list, list),
    "another list of lists": (lambda array: array.tolist(), list),
    "a list of one new row": (list, lambda shown: [shown[0], shown[1], shown[2].copy()]),
}


@pytest.mark.parametrize("form", SHOWN)
@pytest.mark.parametrize("door", DOORS)
def test_a_next_obs_in_the_memory_of_obs_is_refused_at_each_step(door, form):
    settings, method_of = DOORS[door]
    make, give = SHOWN[form]
    with gpureplay.ReplayBuffer(64, STEP, device="cpu", num_envs=3, autoreset="disabled", **settings) as buffer:
        method, shown = method_of(buffer), make(np.arange(6, dtype=np.float32).reshape(3, 2))
        step = {"action": [0, 1, 2], "reward": np.ones(3)}
        refused = r"obs and next_obs are the same memory.* keep obs = (next_obs\.copy|copy\.deepcopy)\(.*\) for"
        for ended in ([True] * 3, [False] * 3, [False] * 3):  # at first, in another episode, and in none that has begun
            buffer.flush()
            added = buffer.stats.appended
            with pytest.raises(ValueError, match=refused):
                method(obs=give(shown), next_obs=give(shown), terminated=[False] * 3, **step)
            assert buffer.stats.appended == added
            for _ in range(4):  # as the message says
                obs = copy.deepcopy(shown)
                shown[0][0] += 1
                method(obs=obs, next_obs=give(shown), terminated=[False] * 3, **step)
            obs = copy.deepcopy(shown)
            shown[0][0] += 1
            method(obs=obs, next_obs=give(shown), terminated=ended, **step)
        buffer.flush()
        batch = buffer.gather(np.arange(len(buffer) - 9, len(buffer)))
        changed = np.asarray(batch.next_obs) - np.asarray(batch.obs)
        assert (changed.reshape(-1, 3, 2)[:, 0, 0] == settings.get("n_step", 1)).all()


class ShowsOneArray(gymnasium.Env):
    """Episodes of one step. Every observation is the same array, or the same dict of numbers."""

    def __init__(self, is_dict):
        self.action_space, number = gymnasium.spaces.Discrete(2), gymnasium.spaces.Box(-1, 1000, (1,))
        self.observation_space = gymnasium.spaces.Dict({"x": gymnasium.spaces.Discrete(9)}) if is_dict else number
        self._shown = {"x": 0} if is_dict else np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        self._shown["x" if isinstance(self._shown, dict) else 0] = 1
        return self._shown, {}

    def step(self, action):
        self._shown["x" if isinstance(self._shown, dict) else 0] = 2
        return self._shown, 1.0, True, False, {}


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("is_dict", [False, True])
def test_episodes_of_one_step_in_one_memory_are_refused_and_the_advice_helps(is_dict, flatten):
    env = ShowsOneArray(is_dict)
    with gpureplay.ReplayBuffer.for_env(9, env, device="cpu", flatten=flatten) as buffer:
        for helps in (False, True) * 2:
            obs, _ = env.reset()
            obs = copy.deepcopy(obs) if helps else obs
            next_obs, reward, terminated, truncated, _ = env.step(0)
            with contextlib.nullcontext() if helps else pytest.raises(ValueError, match="a copy of what `reset` gives"):
                buffer.add(obs=obs, action=0, reward=reward, next_obs=next_obs, terminated=terminated,
                           truncated=truncated)
        assert len(buffer) == 2


def test_a_run_copies_what_an_environment_shows():
    with gpureplay.ReplayBuffer.for_env(64, ShowsOneArray(False), device="cpu") as buffer, \
            gpureplay.DQN(buffer, trunk=[4], batch_size=4) as agent:
        with gpureplay.Run(agent, lambda lane: ShowsOneArray(False), num_envs=2, prepopulation=8, eval_period=0) as run:
            run.advance(16)
        rows = buffer.gather(np.arange(8))
        assert (np.asarray(rows.obs) == 1).all() and (np.asarray(rows.next_obs) == 2).all()


GOAL = gymnasium.spaces.Dict({"at": gymnasium.spaces.Box(-9, 9, (2,)), "goal": gymnasium.spaces.Box(-9, 9, (2,))})


@pytest.mark.parametrize("flatten", [False, True])
def test_a_goal_may_be_the_same_array_each_time_and_the_advice_for_a_dict_helps(flatten):
    goal, rest = np.ones(2, np.float32), {"action": 0, "reward": 0.0, "terminated": False}
    with gpureplay.ReplayBuffer(64, GOAL, gymnasium.spaces.Discrete(2), device="cpu", flatten=flatten) as buffer:
        for at in range(5):
            next_obs = {"at": np.full(2, at + 1), "goal": goal}
            buffer.add(obs={"at": np.full(2, at), "goal": goal}, next_obs=next_obs, **rest)
        many = {name: np.zeros((3, 2), np.float32) for name in ("at", "goal")}
        ends = {"action": [0] * 3, "reward": [0] * 3, "terminated": [False] * 3, "truncated": [False] * 3}
        buffer.extend(obs=many, next_obs={**many, "at": np.ones((3, 2))}, **ends)
        with pytest.raises(ValueError, match=r"^obs and next_obs are the same memory, so .* keep obs = copy"):
            buffer.extend(obs=many, next_obs=many, **ends)
        assert buffer.stats.appended == 8
        for shared in ({"at": np.ones(2, np.float32), "goal": goal}, next_obs):
            with pytest.raises(ValueError, match="^obs and next_obs are the same memory, so .* keep obs = copy"):
                buffer.add(obs=shared, next_obs=dict(shared), **rest)
        goal += 1
        next_obs = {"at": np.full(2, 6), "goal": goal}
        with pytest.raises(ValueError, match=r"same memory in obs.goal, and its numbers .* in that step, too") as error:
            buffer.add(obs={"at": np.full(2, 5), "goal": goal}, next_obs=next_obs, **rest)
        given = {"copy": copy, "next_obs": next_obs}
        exec(re.search(r"keep (.*) for the next", str(error.value)).group(1), given)
        goal += 1
        buffer.add(obs=given["obs"], next_obs=next_obs, **rest)
        assert buffer.stats.appended == 9


def test_every_pair_of_a_schema_counts_but_numbers_and_parts_of_a_trajectory_do_not():
    with gpureplay.ReplayBuffer(64, {"state": "int64", "next_state": "int64"}, device="cpu") as buffer:
        state, states = np.int64(3), np.arange(10)
        buffer.add(state=state, next_state=state)
        buffer.add(state=7, next_state=7)
        buffer.extend(state=states[:-1], next_state=states[1:])
        buffer.extend(state=states[:0], next_state=states[:0])
        with pytest.raises(ValueError, match="state and next_state are the same memory"):
            buffer.extend(state=states, next_state=states)
        assert len(buffer) == 11
        with pytest.raises(ValueError, match="state and next_state are the same memory"):
            buffer.add(state=states[:1], next_state=states[:1])


def test_the_search_for_one_memory_looks_at_each_row_of_a_list_once(monkeypatch):
    looks, count = [], 400

    class Pair(_inputs._Pair):
        @property
        def row(self):
            looks.append(self[1])
            return self[1]

    monkeypatch.setattr(_inputs, "_Pair", Pair)
    rest = {"action": np.zeros(count, int), "reward": np.zeros(count), "terminated": np.zeros(count, bool)}

    def arrays():
        return [np.zeros(2, np.float32) for _ in range(count)]

    with gpureplay.ReplayBuffer(2000, STEP, device="cpu") as buffer:
        obs, next_obs = arrays(), arrays()
        buffer.extend(obs=obs, next_obs=next_obs, **rest)
        with pytest.raises(ValueError, match="same memory in row 7, so"):
            buffer.extend(obs=obs, next_obs=[*next_obs[:7], *obs[7:9], *next_obs[9:]], **rest)
    with gpureplay.ReplayBuffer(2000, STEP, device="cpu", num_envs=count, autoreset="disabled") as buffer:
        buffer.add(obs=arrays(), next_obs=arrays(), **rest)
    assert count <= len(looks) <= 20 * count


def test_a_vector_that_shows_one_array_is_refused_and_the_advice_helps():
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("gymnasium:CartPole-v1")] * 40, copy=False)
    for helps in (False, True):
        with gpureplay.ReplayBuffer.for_env(4000, envs, device="cpu") as buffer:
            obs, _ = envs.reset(seed=0)
            obs = obs.copy() if helps else obs
            steps = 0
            with contextlib.nullcontext() if helps else pytest.raises(ValueError, match="vectors made with copy=True"):
                for steps in range(60):
                    next_obs, reward, terminated, truncated, info = envs.step(np.ones(40, int))
                    buffer.add(obs=obs, action=np.ones(40, int), reward=reward, next_obs=next_obs,
                               terminated=terminated, truncated=truncated, info=info)
                    obs = next_obs.copy() if helps else next_obs
            assert steps == (59 if helps else 0) and (len(buffer) > 0) == helps
            rows = buffer.gather(np.arange(len(buffer))) if helps else None
            assert not helps or (np.asarray(rows.obs) != np.asarray(rows.next_obs)).any(axis=1).all()


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("door", DOORS)
def test_one_number_may_have_an_axis_of_its_own(door, shape):
    settings, method_of = DOORS[door]
    shapes = {**STEP, "reward": ((), "float32") if settings else (shape, "float32")}
    with gpureplay.ReplayBuffer(64, shapes, device="cpu", num_envs=3, autoreset="disabled", **settings) as buffer:
        method, obs = method_of(buffer), np.zeros((3, 2), np.float32)
        step = {"obs": obs, "next_obs": obs.copy(), "action": [0, 1, 2]}
        for forms in ((3,), (3, 1), (3,)):
            for dtype in (np.float32, np.float64):
                method(reward=np.arange(3, dtype=dtype).reshape(forms), terminated=np.zeros(forms, bool), **step)
        with pytest.raises(ValueError, match=r"reward has shape \(1, 3\); it must be"):
            method(reward=np.zeros((1, 3)), terminated=[False] * 3, **step)
        buffer.flush()
        rewards = np.asarray(buffer.gather(range(len(buffer))).reward).reshape(-1, 3)
        assert len(rewards) >= 5 and (rewards == rewards[0]).all() and rewards[0, 1] > rewards[0, 0] == 0
    with gpureplay.ReplayBuffer(64, shapes, device="cpu", **settings) as buffer:
        for reward in (1.0, [1.0], np.ones((1, 1), np.float32)):
            buffer.add(obs=obs[0], next_obs=obs[1], action=0, reward=reward, terminated=False)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("as_keyword", ["truncated", "left out"])
def test_truncated_beside_terminated_whether_it_is_a_field_or_not(n_step, as_keyword):
    with gpureplay.ReplayBuffer(64, STEP, device="cpu", n_step=n_step) as buffer:
        for step in range(7):
            is_last = step == 3 and as_keyword == "truncated"
            buffer.add(obs=[step, 0], next_obs=[step + 1, 0], action=0, reward=1.0, terminated=False,
                       **({"truncated": is_last} if as_keyword == "truncated" else {}))
        buffer.flush()
        rewards = np.asarray(buffer.gather(range(len(buffer))).reward).tolist()
        three = [1 + 0.99 + 0.99**2]
        cut = [1 + 0.99, 1.0] if as_keyword == "truncated" else three * 2
        wanted = [1.0] * 7 if n_step == 1 else three * 2 + cut + three
        assert np.allclose(rewards, wanted)
