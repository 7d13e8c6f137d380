# SPDX-License-Identifier: MIT
"""Bad input: an exception that says what was given and what is wanted, and nothing has changed."""

import gpureplay
import numpy as np
import pytest
from fakes import CudaDlpack, CudaInterface
from rows import TRANSITION, block

ENVS = 4


@pytest.fixture
def buffer():
    with make(num_envs=ENVS, max_batch=20, autoreset="disabled") as made:
        made.add(**block(TRANSITION, 0, ENVS))
        yield made


def unchanged(buffer, before):
    got, _ = buffer.stats._replace(append_seconds=0, wait_seconds=0), len(buffer)
    assert got == before and buffer.gather(range(ENVS)).obs.tolist() == block(TRANSITION, 0, ENVS)["obs"].tolist()


ROWS = {  # what replaces a field: exception, and what its text says
    "obs as text": ("obs", np.full((ENVS, 3), "a"), TypeError, "obs is <U1; it must be float32"),
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


@pytest.mark.parametrize("way", ["add", "extend"])
@pytest.mark.parametrize("case", ROWS)
def test_a_bad_field_is_refused(buffer, case, way):
    name, value, error, text = ROWS[case]
    before = buffer.stats._replace(append_seconds=0, wait_seconds=0)
    with pytest.raises(error, match=text):
        getattr(buffer, way)(**{**block(TRANSITION, ENVS, ENVS), name: value})
    unchanged(buffer, before)


@pytest.mark.parametrize("way", ["add", "extend"])
def test_missing_and_unknown_fields_are_named(buffer, way):
    before, rows = buffer.stats._replace(append_seconds=0, wait_seconds=0), block(TRANSITION, 0, ENVS)
    del rows["reward"]
    with pytest.raises(TypeError, match=r"missing \['reward'\], unknown \['rewrd'\]; the fields are obs, action"):
        getattr(buffer, way)(**rows, rewrd=np.zeros(ENVS))
    unchanged(buffer, before)


def test_columns_must_be_as_long(buffer):
    before = buffer.stats._replace(append_seconds=0, wait_seconds=0)
    with pytest.raises(ValueError, match="reward has 3 transitions and obs 4; they must be as many"):
        buffer.extend(**{**block(TRANSITION, 0, ENVS), "reward": np.zeros(3)})
    unchanged(buffer, before)


DRAWS = {
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


@pytest.mark.parametrize("case", DRAWS)
def test_a_bad_draw_is_refused(buffer, case):
    call, error, text = DRAWS[case]
    before = buffer.stats
    with pytest.raises(error, match=text):
        call(buffer)
    assert buffer.stats._replace(append_seconds=before.append_seconds) == before


def test_an_empty_buffer_cannot_be_drawn_from():
    with gpureplay.ReplayBuffer(100, TRANSITION, device="cpu", min_size=5) as buffer:
        with pytest.raises(gpureplay.TooFew, match="empty.*at least 5 transitions"):
            buffer.sample(4)
        assert not buffer.can_sample and len(buffer) == 0 and not buffer.is_full
        buffer.extend(**block(TRANSITION, 0, 4))
        assert not buffer.can_sample
        with pytest.raises(gpureplay.TooFew, match="4 transitions.*min_size = 5"):
            buffer.sample(1)
        assert (buffer.gather([3]).id == 3).all()  # is no draw
        buffer.extend(**block(TRANSITION, 4, 1))
        assert buffer.can_sample and len(buffer.sample(8).id) == 8


def test_an_overwritten_transition_has_an_exception_of_its_own():
    with gpureplay.ReplayBuffer(8, TRANSITION, device="cpu", update_size=2, max_batch=4) as buffer:
        buffer.extend(**block(TRANSITION, 0, 20))
        oldest = buffer.stats.first_id
        for ids in ([0], [oldest, oldest - 1]):
            with pytest.raises(gpureplay.Evicted, match="overwritten; the visible transitions are"):
                buffer.gather(ids)
        with pytest.raises(gpureplay.InvalidArgument, match="20; the visible"):
            buffer.gather([20])


@pytest.mark.parametrize("prioritized", [True, "plain"])
def test_beta_stays_where_the_burn_in_refuses_the_draw(prioritized):
    with gpureplay.ReplayBuffer(100, TRANSITION, device="cpu", min_size=5, prioritized=prioritized) as buffer:
        buffer.extend(**block(TRANSITION, 0, 4))
        before = buffer.beta
        with pytest.raises(gpureplay.TooFew, match="min_size = 5"):
            buffer.sample(1, beta=0.9)
        assert buffer.beta == before


MAKERS = {
    "capacity of none": (lambda: make(0), gpureplay.InvalidArgument, "capacity"),
    "capacity half": (lambda: make(1.5), TypeError, "capacity is 1.5; it must be an integer"),
    "capacity text": (lambda: make("many"), TypeError, "capacity is 'many'; it must be an integer"),
    "capacity beyond": (lambda: make(2**70), gpureplay.InvalidArgument, "capacity is 1180591620717411303424; it"),
    "memory beyond": (lambda: make(2**44), gpureplay.OutOfMemory, "bytes"),
    "no environments": (lambda: make(num_envs=0), gpureplay.InvalidArgument, "num_envs is 0; it must be 1 to"),
    "wrapping environments": (lambda: make(num_envs=2**32 + 1), gpureplay.InvalidArgument, "num_envs is 4294967297"),
    "gamma": (lambda: make(gamma=1.5), gpureplay.InvalidArgument, "gamma is 1.5"),
    "gamma NaN": (lambda: make(gamma=float("nan")), gpureplay.InvalidArgument, "gamma is nan"),
    "gamma text": (lambda: make(gamma="a"), TypeError, "gamma is 'a'; it must be a number"),
    "seed": (lambda: make(seed=-1), gpureplay.InvalidArgument, "seed is -1; it must be 0 to 18446744073709551615"),
    "flush": (lambda: make(flush="later"), ValueError, "flush is 'later'; it must be one of 'auto', 'manual'"),
    "autoreset": (lambda: make(autoreset="maybe"), ValueError, "autoreset is 'maybe'; it must be one of 'disabled'"),
    "device": (lambda: make(device="gpu"), gpureplay.InvalidArgument, "gpu.*cpu"),
    "device of a number": (lambda: make(device=0), TypeError, "device is 0; it must be .*or a gpureplay.Device"),
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


def make(capacity=100, **settings):
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


@pytest.mark.parametrize("stream", ["x", b"x", 1.5, [1]])
def test_a_stream_is_an_address_or_none(buffer, stream):
    """ctypes alone would pass the address of a str's characters."""
    rows = block(TRANSITION, 0, ENVS)
    learner = gpureplay.DQN(buffer, outputs=2, trunk=[4], batch_size=4)
    held = buffer.sample(2)
    for _ in range(2):  # the second draw would be into a batch that is there
        buffer.sample(4)
    for call in (lambda: buffer.sample(4, stream=stream), lambda: buffer.sample(3, stream=stream),
                 lambda: buffer.gather([0], stream=stream), lambda: buffer.extend(stream=stream, **rows),
                 lambda: learner.act(rows["obs"], stream=stream), lambda: held.wait(stream),
                 lambda: learner.q_values(rows["obs"], stream=stream), lambda: gpureplay.Device("cpu", stream=stream)):
        with pytest.raises(TypeError, match="stream is .*it must be an integer"):
            call()
    assert len(buffer) == ENVS


def test_a_buffer_without_a_transition_is_true():
    with make() as empty:
        assert empty and len(empty) == 0
