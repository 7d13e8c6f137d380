# SPDX-License-Identifier: MIT
"""Lanes from Python: arrays of each library, their names, what is refused, and functions that PyTorch compiles. That
each row is right is shown in C (tests/replay/lanes)."""

import contextlib
import gc
import importlib
import re
import subprocess
import sys
import threading
import types
import warnings

import gymnasium
import numpy as np
import pytest

import gpureplay
from support import CudaDlpack, CudaInterface, blocks_of_page, needs_files, read_only, unaligned

LANES, STEPS = 6, 16
FIELDS = {"obs": ((3,), "float32"), "action": ((), "int32"), "tag": ((), "int64")}


def make(**settings):
    return gpureplay.LaneBuffer(LANES, STEPS, **{"fields": FIELDS, "device": "cpu", "seed": 1, **settings})


def step_of(t):
    """Step t: values that tell step and lane. Lane 1 terminates at every fifth step, lane 2 is truncated at every
    seventh."""
    ids = t * LANES + np.arange(LANES)
    ends = np.zeros((2, LANES), bool)
    ends[0, 1], ends[1, 2] = t % 5 == 4, t % 7 == 6
    obs = np.repeat(ids[:, None], 3, axis=1).astype(np.float32)
    return {"obs": obs, "action": ids.astype(np.int32), "tag": ids, "reward": np.ones(LANES, np.float32),
            "terminated": ends[0], "truncated": ends[1], "final_obs": -obs}


def filled(steps=40, convert=lambda x: x, **settings):
    buffer = make(**settings)
    for t in range(steps):
        buffer.add(**{name: convert(array) for name, array in step_of(t).items()})
    return buffer


def is_known(t, lane, steps):
    """Whether it is known what came after step t: the newest one must have ended the episode."""
    step = step_of(t)
    return t < steps - 1 or step["terminated"][lane] or step["truncated"][lane]


def check_rows(batch, steps, n_step=1):
    """Every row of a batch, by its id. `steps` were added."""
    batch = {name: np.asarray(array) for name, array in batch.items()}
    for at, row in enumerate(batch["id"]):
        t, lane = divmod(int(row), LANES)
        assert steps - STEPS <= t < steps
        count = 0
        while True:
            step, count = step_of(t + count), count + 1
            ended = step["terminated"][lane], step["truncated"][lane]
            if any(ended) or count == n_step or not is_known(t + count, lane, steps):
                break
        last = (t + count - 1) * LANES + lane
        assert batch["tag"][at] == batch["action"][at] == row and (batch["obs"][at] == row).all()
        assert (batch["next_obs"][at] == (-last if any(ended) else last + LANES)).all()
        assert (batch["terminated"][at], batch["truncated"][at]) == ended
        assert batch["steps"][at] == count
        assert batch["reward"][at] == pytest.approx(sum(0.5 ** k for k in range(count)))
        assert batch["discount"][at] == (0 if ended[0] else np.float32(0.5 ** count))


@pytest.mark.parametrize("n_step", [1, 3])
def test_batches_have_what_was_added(n_step):
    buffer = filled(gamma=0.5, n_step=n_step)
    check_rows(buffer.sample(200), 40, n_step)
    assert buffer.stats.steps == 40 and buffer.stats.draws == 1 and buffer.stats.finals == 8 + 5
    assert len(buffer) == buffer.stats.transitions == (STEPS - 1) * LANES + 1  # lane 1 ended with the newest step
    check_rows(buffer.sample(200, n_step=2, gamma=0.5), 40, 2)


def test_the_same_seed_draws_the_same_and_others_do_not():
    first, second, other = filled(), filled(), filled(seed=2)
    for _ in range(3):
        ids = first.sample(64)["id"]
        assert (second.sample(64)["id"] == ids).all() and (other.sample(64)["id"] != ids).any()


def test_a_batch_can_be_filled_again_and_ids_find_their_rows():
    buffer = filled()
    batch = buffer.sample(32)
    assert (list(batch) == [*FIELDS, "reward", "terminated", "truncated", "next_obs", "id", "discount", "steps"])
    before = {name: array.copy() for name, array in batch.items()}
    assert buffer.sample(32, out=batch) is batch and (before["id"] != batch["id"]).any()
    again = buffer.gather(before["id"])
    assert all((again[name] == before[name]).all() for name in before)
    some = {"reward": np.empty(2, np.float32), "id": np.empty(2, np.int64)}
    assert buffer.gather(np.array([-5, 40 * LANES - 5]), out=some)["id"].tolist() == [-1, 40 * LANES - 5]
    assert some["reward"].tolist() == [0, 1]


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
def test_without_truncated_none_is(autoreset):
    given, left_out = make(autoreset=autoreset), make(autoreset=autoreset)
    for t in range(2 * STEPS):
        step = changed(truncated=np.zeros(LANES, bool), **({"final_obs": None} if autoreset == "next_step" else {}))
        step["terminated"] = step_of(t)["terminated"]
        given.add(**step)
        left_out.add(**{name: step[name] for name in step if name != "truncated"})
    assert state_of(given) == state_of(left_out) and not left_out.sample(50)["truncated"].any()


def test_an_empty_buffer_gives_rows_that_say_so():
    batch = make().sample(4)
    assert (batch["id"] == -1).all() and not batch["obs"].any() and not batch["discount"].any()


def test_priorities_are_followed():
    buffer = filled(prioritized=True, alpha=1.0, priority_offset=0.0)
    ids = np.unique(buffer.sample(500)["id"])
    buffer.update_priorities(ids, np.where(ids % LANES == 3, -8, 1).astype(np.float32))  # absolute values count
    batch = buffer.sample(2000)
    share = (batch["id"] % LANES == 3).mean()
    assert abs(share - 8 / 13) < 0.05
    high = batch["weight"][batch["id"] % LANES == 3]
    assert (batch["weight"] <= 1).all() and high.max() < batch["weight"].max()
    with pytest.raises(gpureplay.InvalidArgument, match="this buffer has no priorities"):
        make().update_priorities(ids, ids.astype(np.float32))


def test_spaces_with_parts_give_a_field_for_each():
    spaces = gymnasium.spaces
    buffer = gpureplay.LaneBuffer(2, 4, spaces.Dict(a=spaces.Box(-9, 9, (2,)), b=spaces.Discrete(5)),
                                  spaces.Box(-1, 1, (1,)), device="cpu")
    for t in range(3):
        obs = {"a": np.full((2, 2), t, np.float32), "b": np.full(2, t)}
        final = {"a": np.full((2, 2), 8, np.float32), "b": np.full(2, 4)}
        buffer.add(obs=obs, action=np.zeros((2, 1), np.float32), reward=np.zeros(2, np.float32),
                   terminated=np.array([t == 0, False]), final_obs=final)
    batch = buffer.gather(np.array([0, 1, 2]))
    assert batch["next_obs.a"].tolist() == [[8, 8], [1, 1], [2, 2]] and batch["next_obs.b"].tolist() == [4, 1, 2]


def test_other_pairs_are_stored_once_too():
    fields = {"obs": ((2,), "float32"), "critic_obs": ((4,), "float16"), "next_critic_obs": ((4,), "float16"),
              "action": ((), "int32")}
    buffer = gpureplay.LaneBuffer(1, 8, fields, device="cpu")
    for t in range(4):
        buffer.add(obs=np.full((1, 2), t, np.float32), critic_obs=np.full((1, 4), t, np.float16),
                   action=np.zeros(1, np.int32), reward=np.zeros(1, np.float32), terminated=np.array([t == 1]),
                   final_obs=np.full((1, 2), 50, np.float32), final_critic_obs=np.full((1, 4), 60, np.float16))
    with pytest.raises(TypeError, match="final_critic_obs is missing and final_obs is given"):
        buffer.add(obs=np.zeros((1, 2), np.float32), critic_obs=np.zeros((1, 4), np.float16),
                   action=np.zeros(1, np.int32), reward=np.zeros(1, np.float32), terminated=np.array([True]),
                   final_obs=np.full((1, 2), 50, np.float32))
    batch = buffer.gather(np.arange(3))
    assert batch["next_critic_obs"][:, 0].tolist() == [1, 60, 3] and batch["next_obs"][:, 0].tolist() == [1, 50, 3]


NEXT_FIELDS = [("next_reward", (), "float32"), ("next_terminated", (), "bool"), ("next_truncated", (), "bool"),
               ("next_next_obs", (3,), "float32"), ("next_action", (), "float32"), ("next_next_action", (), "float32")]


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
@pytest.mark.parametrize(("name", "shape", "dtype"), NEXT_FIELDS)
def test_a_field_next_x_beside_an_x_that_has_no_pair_is_stored(autoreset, name, shape, dtype):
    """The reward, flags and next_obs have none, nor has a field of another shape or dtype."""
    buffer, rng = make(autoreset=autoreset, fields={**FIELDS, name: (shape, dtype)}), np.random.default_rng(1)
    added = [(rng.random((LANES, *shape)) < 0.5).astype(dtype) for _ in range(10)]
    for t in range(10):
        step = {**step_of(t), name: added[t]}
        if autoreset == "next_step":
            del step["final_obs"]
        buffer.add(**step)
    with refused(buffer, TypeError, f"{name} is missing; `add` needs obs, .*{name}"):
        buffer.add(**{other: value for other, value in step.items() if other != name})
    for batch in buffer.sample(100), buffer.sample(100, n_step=2, gamma=0.5):
        assert (batch["id"] >= 0).all() and batch[name].dtype == dtype
        assert (batch[name] == np.reshape(added, (10 * LANES, *shape))[batch["id"]]).all()
    if autoreset == "same_step":
        check_rows(buffer.sample(100, n_step=2, gamma=0.5), 10, 2)


def test_a_field_next_next_x_is_of_a_pair_where_next_x_is_stored():
    """There is no x."""
    buffer = gpureplay.LaneBuffer(1, 8, {"next_x": "int32", "next_next_x": "int32", "action": "int32"}, device="cpu")
    for t in range(3):
        zero = np.zeros(1, np.int32)
        buffer.add(next_x=zero + t, action=zero, reward=np.zeros(1, np.float32), terminated=np.array([t == 1]),
                   final_next_x=zero + 9)
    batch = buffer.gather(np.arange(2))
    assert batch["next_x"].tolist() == [0, 1] and batch["next_next_x"].tolist() == [1, 9]


def test_environments_that_reset_in_the_next_step():
    buffer = make(autoreset="next_step")
    for t in range(10):
        step = step_of(t)
        buffer.add(**{name: step[name] for name in step if name != "final_obs"})
    batch = buffer.sample(300)
    assert 4 * LANES + 1 in batch["id"] and 5 * LANES + 1 not in batch["id"]  # the step that resets
    at = batch["id"].tolist().index(4 * LANES + 1)
    assert batch["terminated"][at] and (batch["next_obs"][at] == 5 * LANES + 1).all()
    with pytest.raises(gpureplay.InvalidArgument, match='final_obs is given and autoreset is "next_step"'):
        buffer.add(**step_of(10))


def test_a_truncation_without_its_final_observation_is_left_out_and_said():
    buffer = make()
    with pytest.warns(RuntimeWarning, match="`add` was given no final_obs: a step that was truncated is left out"):
        for t in range(10):
            step = step_of(t)
            buffer.add(**{name: step[name] for name in step if name != "final_obs"})
    assert buffer.stats.without_final == 1 and 6 * LANES + 2 not in buffer.sample(300)["id"]


def libraries():
    """What makes arrays of each library that is here, on the CPU."""
    found = [lambda array: array]
    for name, convert in ("torch", "from_numpy"), ("jax.numpy", "asarray"):
        if importlib.util.find_spec(name.partition(".")[0]):
            found.append(getattr(importlib.import_module(name), convert))
    return found


def test_the_warning_comes_with_the_first_truncation_that_needs_it():
    """Not with a step in which nothing is truncated, nor with one that has its final observations; and once."""
    none, all_ = np.zeros(LANES, bool), np.ones(LANES, bool)
    for convert in libraries():
        buffer = gpureplay.LaneBuffer(LANES, STEPS, {"obs": ((3,), "float32")}, device="cpu")

        def add(*left_out, buffer=buffer, convert=convert, **changes):
            step = {**step_of(0), **changes}
            buffer.add(**{name: convert(step[name]) for name in step if name not in ("action", "tag", *left_out)})

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            add(truncated=all_)
            add("final_obs", truncated=none)
            add("final_obs", "truncated", terminated=all_)
            add("final_obs", truncated=all_, terminated=all_)  # the task has ended: nothing is left out
            assert buffer.stats.without_final == 0
        with pytest.warns(RuntimeWarning, match="given no final_obs") as caught:
            add("final_obs", truncated=np.arange(LANES, dtype=np.uint8))
            add("final_obs", truncated=all_)
        assert len(caught) == 1 and caught[0].filename == __file__ and buffer.stats.without_final == 2 * LANES - 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(autoreset="next_step").add(**changed(final_obs=None, truncated=all_))
        gpureplay.LaneBuffer(LANES, STEPS, {"state": ((3,), "float32")}, device="cpu").add(
            state=step_of(0)["obs"], reward=np.ones(LANES, np.float32), terminated=none, truncated=all_)


def test_buffers_that_are_given_no_seed_draw_the_same_in_each_test():
    """The first two of a test have the seeds 0 and 1, whatever ran before it."""
    for seed in 0, 1:
        assert (filled(seed=None).sample(50)["id"] == filled(seed=seed).sample(50)["id"]).all()


def changed(**changes):
    values = {**step_of(0), **changes}
    return {name: value for name, value in values.items() if value is not None}


def state_of(buffer):
    """Its counts, and every transition."""
    rows = buffer.gather(np.arange(60 * LANES))
    counts = buffer.priority_stats if buffer._is_prioritized else None
    return buffer.stats, counts, {name: np.asarray(array).tobytes() for name, array in rows.items()}


@contextlib.contextmanager
def refused(buffer, error, words):
    """A call is refused, and changes nothing."""
    before = state_of(buffer)
    with pytest.raises(error, match=words):
        yield
    assert state_of(buffer) == before


class OnlyAsArray:
    """NumPy can make an array of it, which nothing else keeps."""

    def __array__(self, *_, **__):
        return np.ones(LANES, np.float32)


@pytest.mark.parametrize(("values", "error", "words"), [
    (changed(obs=np.zeros((LANES, 3))), TypeError, "obs is float64; it must be float32"),
    (changed(obs=np.zeros((LANES, 4), np.float32)), ValueError, r"obs has shape \(6, 4\); it must be \(6, 3\)"),
    (changed(obs=np.zeros((LANES + 1, 3), np.float32)), ValueError, r"obs has shape \(7, 3\); it must be \(6, 3\)"),
    (changed(obs=np.zeros((3, LANES), np.float32).T), ValueError, "obs has strides .* np.ascontiguousarray"),
    (changed(obs=None), TypeError, "obs is missing; `add` needs obs, action, tag, reward, terminated"),
    (changed(terminated=None), TypeError, "terminated is missing"),
    (changed(next_obs=np.zeros((LANES, 3), np.float32)), TypeError, "next_obs is given; it is the obs of the next"),
    (changed(colour=np.zeros(LANES)), TypeError, "colour is given, and the buffer has no such field; `add` takes obs"),
    (changed(obs=(same := np.zeros((LANES, 3), np.float32)), final_obs=same), ValueError,
     "obs and final_obs are the same memory, so that one has overwritten the other"),
    (changed(stream=5), gpureplay.InvalidArgument, "stream is 5; on the CPU it must be None"),
    (changed(obs=np.zeros((LANES, 3), np.float32)[::-1]), ValueError, r"obs has strides \(-12, 4\); .* contiguous"),
    (changed(obs=np.broadcast_to(np.zeros(3, np.float32), (LANES, 3))), ValueError, r"obs has strides \(0, 4\)"),
    (changed(obs=np.zeros((LANES, 3), ">f4")), TypeError, "obs is >f4; it must be float32"),
    (changed(obs=np.ma.zeros((LANES, 3), np.float32)), TypeError, r"obs is a masked array; .*obs.filled\(0\)"),
    (changed(reward=1.0), TypeError, "reward is a float; it must be an array, which is read where it is"),
    (changed(reward=[1.0] * LANES), TypeError, r"reward is a list; .* numpy.asarray\(reward, 'float32'\)"),
    (changed(terminated=[False] * LANES), TypeError, "terminated is a list; it must be an array"),
    (changed(reward=OnlyAsArray()), TypeError, "reward is a OnlyAsArray; it must be an array"),
    (changed(reward=unaligned(np.ones(LANES, np.float32))), ValueError, '"reward" is at .* must be a multiple of 4'),
    (changed(truncated=np.zeros(LANES, np.int64)), TypeError, "truncated is int64; it must be bool"),
    (changed(obs={"a": np.zeros(LANES)}), TypeError, "obs.a is given, and the buffer has no such field"),
    (changed(obs=CudaInterface((LANES, 3))), TypeError, "obs is in the memory of a CUDA device; a buffer on \"cpu\""),
    (changed(obs=CudaDlpack()), TypeError, "obs is in the memory of a CUDA device"),
])
@pytest.mark.parametrize("prioritized", [False, True])
def test_arrays_that_do_not_fit_are_refused(values, error, words, prioritized):
    with refused(buffer := filled(prioritized=prioritized), error, words):
        buffer.add(**values)


def advised(values, name, buffer):
    """The array that the message of its refusal advises, by the code in it."""
    with pytest.raises((TypeError, ValueError)) as raised:
        buffer.add(**values)
    call = re.search(rf"(numpy\.stack|np\.ascontiguousarray|numpy\.asarray|{name}\.\w+)\(.*\)", str(raised.value))
    return eval(call[0], {"np": np, "numpy": np, "torch": sys.modules.get("torch"), name: values[name]})


def test_what_the_messages_advise_works():
    buffer, count = filled(), 40
    nothing = np.array([None] * LANES)
    some = nothing.copy()
    some[2] = np.ones(3, np.float32)
    for name, array in (("obs", np.zeros((3, LANES), np.float32).T), ("reward", [1.0] * LANES),
                        ("reward", np.ones(LANES)), ("action", np.zeros(LANES, np.int64)),
                        ("truncated", np.zeros(LANES, np.int64)), ("terminated", np.zeros(LANES, np.float32)),
                        ("reward", np.ones((LANES, 1), np.float32)), ("reward", np.ones((1, LANES), np.float32)),
                        ("final_obs", some), ("final_obs", nothing)):
        values = changed(**{name: array})
        buffer.add(**{**values, name: advised(values, name, buffer)})
        count += 1
    buffer.add(**changed(truncated=(ends := np.zeros(LANES, bool)), terminated=ends))  # they are only read
    assert buffer.stats.steps == count + 1
    with refused(buffer, ValueError, r"obs has shape \(3, 6\); it must be \(6, 3\)$"):  # reshaping would mix it up
        buffer.add(**changed(obs=np.zeros((3, LANES), np.float32)))


def test_what_the_messages_advise_for_tensors_works():
    torch = pytest.importorskip("torch")
    buffer = filled(convert=torch.from_numpy)
    step = {name: torch.from_numpy(array) for name, array in step_of(0).items()}
    for name, tensor in (("reward", torch.ones(LANES, dtype=torch.float64)), ("action", torch.zeros(LANES)),
                         ("reward", torch.ones(LANES, 1)), ("obs", torch.zeros(3, LANES).T),
                         ("obs", torch.zeros(LANES, 3, requires_grad=True)), ("obs", torch.zeros(LANES, 3).to_sparse()),
                         ("obs", torch._neg_view(torch.zeros(LANES, 3)))):
        values = {**step, name: tensor}
        buffer.add(**{**values, name: advised(values, name, buffer)})
    assert buffer.stats.steps == 47
    with refused(buffer, ValueError, r"obs is on meta; it must be on cpu: obs.to\('cpu'\)"):
        buffer.add(**{**step, "obs": torch.zeros(LANES, 3, device="meta")})


def test_spaces_of_all_environments_together_are_told_apart():
    spaces = gymnasium.spaces.Box(-1, 1, (LANES, 3)), gymnasium.spaces.MultiDiscrete([4] * LANES)
    buffer = gpureplay.LaneBuffer(LANES, STEPS, *spaces, device="cpu")
    with pytest.raises(ValueError, match=r"obs has shape \(6, 3\); it must be \(6, 6, 3\). Shapes of fields are those "
                                         "of one lane, as single_observation_space"):
        buffer.add(**{**changed(tag=None, final_obs=None), "action": np.zeros(LANES, np.int64)})


def test_sizes_that_do_not_fit_are_refused_in_words_of_the_buffer():
    with pytest.raises(gpureplay.OutOfMemory, match="^capacity is 1099511627776, 16777216 steps of 65536 lanes, "
                                                    "which takes .*: it must be at most [0-9]+, [0-9]+ steps$"):
        gpureplay.LaneBuffer(65536, 1 << 24, {"obs": ((300,), "float32")}, device="cpu")
    with pytest.raises(gpureplay.OutOfMemory, match="^num_lanes is 65536; with 2 steps of each, the least, it takes"):
        gpureplay.LaneBuffer(65536, 1 << 12, {"obs": ((1 << 22,), "float32")}, device="cpu")
    with pytest.raises(ValueError, match="distinct is True; it must be below capacity = 96"):
        make(distinct=True, max_batch=100)


@pytest.mark.parametrize("convert", ["numpy", "torch"])
def test_a_step_before_a_reset_by_the_caller_is_left_out(convert):
    convert = np.asarray if convert == "numpy" else pytest.importorskip("torch").from_numpy
    which = np.arange(LANES) % 2 == 0
    buffer = make()
    buffer.reset()
    for t in range(3):
        buffer.add(**{name: convert(array) for name, array in step_of(t).items()})
    buffer.reset(convert(which))
    buffer.reset(convert(which.view(np.uint8)))
    assert buffer.stats.without_final == which.sum() and len(buffer) == 2 * LANES
    buffer.add(**{name: convert(array) for name, array in step_of(3).items()})
    rows = buffer.gather(convert(2 * LANES + np.arange(LANES)))
    assert np.asarray(rows["id"]).tolist() == [-1 if cut else 2 * LANES + lane for lane, cut in enumerate(which)]
    found = buffer.gather(convert(LANES + np.arange(LANES)), n_step=3)
    assert np.asarray(found["steps"]).tolist() == [1 if cut else 2 for cut in which]
    assert (np.asarray(found["next_obs"])[which] == (2 * LANES + np.arange(LANES))[which, None]).all()
    buffer.reset(stream=None)
    assert buffer.stats.without_final == which.sum() + LANES
    late = make(autoreset="next_step")
    for t in range(2):
        late.add(**changed(final_obs=None, terminated=np.ones(LANES, bool) * (t == 1)))
    late.reset(which)  # the environments of these lanes do not reset themselves any more
    late.add(**changed(final_obs=None))
    late.add(**changed(final_obs=None))
    assert late.stats.without_final == which.sum() and len(late) == LANES + which.sum() + (~which).sum()


@pytest.mark.parametrize(("lanes", "error", "words"), [
    ([True] * LANES, TypeError, r"lanes is a list; .* numpy.asarray\(lanes, 'bool'\)"),
    (np.zeros(LANES, np.int64), TypeError, r"lanes is int64; it must be bool: lanes.astype\('bool'\)"),
    (np.zeros(LANES + 1, bool), ValueError, r"lanes has shape \(7,\); it must be \(6,\)"),
    (np.zeros(2 * LANES, bool)[::2], ValueError, "lanes has strides"),
    (3, TypeError, "lanes is a int; it must be an array"),
    (CudaInterface((LANES,)), TypeError, "lanes is in the memory of a CUDA device"),
])
def test_resets_that_do_not_fit_are_refused(lanes, error, words):
    with refused(buffer := filled(), error, words):
        buffer.reset(lanes)
    with refused(buffer, gpureplay.InvalidArgument, "stream is 5; on the CPU it must be None"):
        buffer.reset(stream=5)


@pytest.mark.parametrize(("settings", "error", "words"), [
    ({"num_lanes": 0}, ValueError, "num_lanes is 0; it must be 1 to 65536"),
    ({"num_lanes": 65537}, ValueError, "num_lanes is 65537; it must be 1 to 65536"),
    ({"steps": 1}, ValueError, "steps is 1; it must be 2"),
    ({"n_step": 65}, ValueError, "n_step is 65; it must be 1 to 64"),
    ({"gamma": 1.5}, ValueError, "gamma is 1.5"),
    ({"autoreset": "later"}, ValueError, "autoreset is 'later'; it must be one of 'disabled', 'next_step'"),
    ({"alpha": 0.5}, ValueError, "alpha is 0.5 and the buffer is not prioritized"),
    ({"fields": {"obs": ((3,), "float32"), "reward": "int32"}}, ValueError, '"reward" is int32 of 4 bytes'),
    ({"fields": {"obs": ((3,), "float32"), "discount": "float32"}}, ValueError, "is called 'discount', as an array"),
    ({"fields": {"obs": ((3,), "float32"), "steps": "float32"}}, ValueError, "is called 'steps', as an array"),
    ({"fields": {"obs": ((3,), "float32"), "id": "int64"}}, ValueError, "is called 'id', as an array that"),
    ({"fields": {"mask": "bool"}}, ValueError, "a field is called 'mask', .* beside the fields; choose another name"),
    ({"fields": {"x": "int32", "next_x": "int32", "final_x": "int32"}}, ValueError,
     "a field is called 'final_x', as what `add` takes in place of next_x; choose another name"),
    ({"fields": {"final_x": "int32", "x": "int32", "next_x": "int32"}}, ValueError, "a field is called 'final_x', as"),
])
def test_settings_that_do_not_fit_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        gpureplay.LaneBuffer(**{"num_lanes": LANES, "steps": STEPS, "fields": FIELDS, "device": "cpu", **settings})


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda b: b.sample(0), ValueError, "batch_size is 0; it must be 1 to 65536"),
    (lambda b: b.sample(65537), ValueError, "batch_size is 65537; it must be 1 to 65536"),
    (lambda b: b.sample(4, n_step=0), ValueError, "n_step is 0; it must be 1 to 64"),
    (lambda b: b.sample(4, gamma=-0.1), ValueError, "gamma is -0.1; it must be 0 to 1"),
    (lambda b: b.sample(4, out={"obs": np.zeros((5, 3), np.float32)}), ValueError,
     r'out\["obs"\] has shape \(5, 3\); it must be \(4, 3\)'),
    (lambda b: b.sample(4, out={"colour": np.zeros(4)}), TypeError, "out has colour; it may have obs, "),
    (lambda b: b.sample(4, out={"obs": bytearray(48)}), TypeError, r'out\["obs"\] is a bytearray; .* NumPy'),
    (lambda b: b.sample(4, out={"obs": (o := np.zeros((4, 3), np.float32)), "next_obs": o}), ValueError,
     '"obs", .*, and "next_obs", .*, have memory in common; they must be arrays of their own'),
    (lambda b: b.sample(4, out={"obs": (o := np.zeros((5, 3), np.float32))[:4], "next_obs": o[1:]}), ValueError,
     "have memory in common"),
    (lambda b: b.gather(i := np.arange(8), out={"tag": i}), ValueError, '"tag", .*, and "ids", .* memory in common'),
    (lambda b: b.sample(4, out={}), TypeError, "out is {}; it must be a dict of arrays by name, or None"),
    (lambda b: b.sample(4, out=[np.zeros((4, 3))]), TypeError, "out is a list; it must be a dict of arrays by name"),
    (lambda b: b.sample(4, out={"obs": np.zeros((4, 3))}), TypeError, r'out\["obs"\] is float64; it must be float32'),
    (lambda b: b.sample(4, out={"obs": read_only(np.zeros((4, 3), np.float32))}), ValueError,
     r'out\["obs"\] is read-only; it must be an array that can be written'),
    (lambda b: b.sample(4, out={"reward": np.zeros(4, np.float32)[::-1]}), ValueError, "strides .-4,.; .* contiguous"),
    (lambda b: b.gather(np.zeros(3, np.int32)), TypeError, "ids is int32; it must be int64"),
    (lambda b: b.gather(np.zeros((2, 2), np.int64)), ValueError, r"ids has shape \(2, 2\); it must be \(2,\)"),
    (lambda b: b.gather([60, 61]), TypeError, r"ids is a list; it must be an array \(count,\) of int64"),
    (lambda b: b.gather(np.array(5)), TypeError, r"ids is of shape \(\); it must be an array \(count,\) of int64"),
    (lambda b: b.gather(5), TypeError, "ids is a int; it must be an array"),
    (lambda b: b.gather(np.zeros(0, np.int64)), ValueError, "ids has 0 numbers; they must be 1 to max_batch = 65536"),
    (lambda b: b.gather(np.zeros(65537, np.int64)), ValueError, "ids has 65537 numbers; they must be 1 to max_batch"),
    (lambda b: b.sample_sequences(2, 2, last_ids=[1, 2]), TypeError, "last_ids is a list; it must be an array"),
    (lambda b: b.sample("a", per_lane=True), TypeError, "batch_size is 'a'; it must be an integer"),
    (lambda b: b.sample(2.5, per_lane=True), TypeError, "batch_size is 2.5; it must be an integer"),
    (lambda b: b.sample(4, per_lane=1), TypeError, "per_lane is 1; it must be True or False"),
    (lambda b: b.sample(4, n_step=65), ValueError, "n_step is 65; it must be 1 to 64"),
    (lambda b: b.sample(4, n_step=2.5), TypeError, "n_step is 2.5; it must be an integer"),
    (lambda b: b.sample(4, gamma=float("nan")), ValueError, "gamma is nan; it must be 0 to 1"),
    (lambda b: b.sample(4, stream=3), ValueError, "stream is 3; on the CPU it must be None"),
])
def test_draws_that_do_not_fit_are_refused(call, error, words):
    with refused(buffer := filled(), error, words):
        call(buffer)


@pytest.mark.parametrize(("ids", "priorities", "error", "words"), [
    ([60], np.ones(1, np.float32), TypeError, r"ids is a list; it must be an array \(count,\) of int64"),
    (np.arange(2), [1.0, 2.0], TypeError, "priorities is a list; it must be an array"),
    (np.arange(2), np.ones(3, np.float32), ValueError, r"priorities has shape \(3,\); it must be \(2,\)"),
    (np.arange(2), np.ones(2), TypeError, "priorities is float64; it must be float32"),
    (np.arange(0), np.ones(0, np.float32), ValueError, "ids has 0 numbers; they must be 1 to max_batch = 65536"),
])
def test_priorities_that_do_not_fit_are_refused(ids, priorities, error, words):
    with refused(buffer := filled(prioritized=True), error, words):
        buffer.update_priorities(ids, priorities)


def test_ids_of_no_transition_and_numbers_that_are_none():
    """What is on a device is not searched. Such ids belong to no row, and such priorities are skipped; a reward that is
    NaN stays NaN, also if rewards are clipped, in the transitions that it is part of."""
    never = np.array([-2**63, -1, 40 * LANES, 2**62, 2**63 - 1])
    buffer = filled(prioritized=True)
    assert (buffer.gather(never)["id"] == -1).all()
    assert (buffer.sample_sequences(5, 2, last_ids=never)["id"] == -1).all()
    before = buffer.priority_stats
    buffer.update_priorities(never, np.ones(5, np.float32))
    buffer.update_priorities(np.array([200, 201]), np.array([np.nan, np.inf], np.float32))
    assert buffer.priority_stats == before._replace(stale=5, invalid=2)
    with pytest.raises(gpureplay.InvalidArgument, match="this buffer has no priorities"):
        print(make().priority_stats)
    buffer = filled(reward_clip=0.5, n_step=3)
    buffer.add(**changed(reward=np.full(LANES, np.nan, np.float32), obs=np.full((LANES, 3), np.nan, np.float32)))
    buffer.add(**step_of(41))
    batch = buffer.gather(np.arange(36 * LANES, 41 * LANES, LANES))
    assert np.isnan(batch["reward"]).tolist() == [False, False, True, True, True]
    assert np.isnan(batch["obs"][:, 0]).tolist() == [False] * 4 + [True]
    assert np.isnan(batch["next_obs"][:, 0]).tolist() == [False, True, False, False, False]


def test_threads_do_not_mix_up_their_arrays():
    """Calls of several threads come one after the other, each with its own arrays."""
    buffer, wrong = make(max_batch=512), []

    def add():
        for t in range(400):
            buffer.add(**step_of(t))

    def draw():
        for _ in range(400):
            batch = buffer.sample(512)
            wrong.append(int((batch["tag"] != np.maximum(batch["id"], 0)).sum()))
            wrong.append(int((batch["tag"] != batch["action"]).sum()))

    threads = [threading.Thread(target=function) for function in (add, draw, draw)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(wrong) == 0 and len(wrong) == 1600 and buffer.stats.steps == 400 and buffer.stats.draws == 800


def test_a_closed_buffer_says_so():
    buffer = filled(prioritized=True)
    buffer.close()
    ids, values = np.zeros(2, np.int64), np.zeros(2, np.float32)
    for call in (lambda: buffer.add(**step_of(0)), lambda: buffer.sample(2), lambda: buffer.stats, lambda: len(buffer),
                 lambda: buffer.gather(ids), lambda: buffer.sample_sequences(1, 2), lambda: buffer.save("lanes"),
                 lambda: buffer.load("lanes"), lambda: buffer.update_priorities(ids, values),
                 lambda: buffer.priority_stats):
        with pytest.raises(gpureplay.Closed, match="this buffer was closed"):
            call()


def test_arrays_of_jax_are_read_where_they_are():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        check_rows(filled(convert=jax.numpy.asarray, gamma=0.5).sample(100), 40)


def test_tensors_are_read_and_given():
    torch = pytest.importorskip("torch")
    assert isinstance(make(device=torch.device("cpu")).sample(2)["id"], torch.Tensor)
    buffer = filled(convert=torch.from_numpy, gamma=0.5, n_step=2)
    batch = buffer.sample(100)
    assert all(isinstance(array, torch.Tensor) for array in batch.values())
    check_rows(batch, 40, 2)
    for values, error, words in (
            ({"obs": torch.zeros((LANES, 3), dtype=torch.float64)}, TypeError,
             "obs is torch.float64; it must be torch."),
            ({"obs": torch.zeros((3, LANES)).T}, ValueError, r"obs has strides .*obs.contiguous\(\)"),
            ({"obs": torch.zeros((LANES, 3), requires_grad=True)}, ValueError,
             r"obs is a tensor that needs a gradient; it must be one that does not: obs.detach\(\)"),
            ({"obs": torch._neg_view(torch.zeros(LANES, 3))}, ValueError, r"obs is a tensor whose .* obs.resolve_neg"),
            ({"obs": torch.zeros(3).expand(LANES, 3)}, ValueError, r"obs has strides \(0, 1\); .* obs.contiguous\("),
            ({"obs": torch.zeros(LANES, 3, device="meta")}, ValueError, "obs is on meta; it must be on cpu"),
            ({"obs": torch.zeros(LANES, 3).to_sparse()}, ValueError, r"obs is torch.sparse_coo; .* obs.to_dense\(\)"),
            ({"reward": [1.0] * LANES}, TypeError, "reward is a list; it must be an array")):
        with refused(buffer, error, words):
            buffer.add(**{**{name: torch.from_numpy(array) for name, array in step_of(0).items()}, **values})


def test_a_function_that_pytorch_compiles_does_what_its_calls_do():
    torch = pytest.importorskip("torch")

    def loop(buffer, step, out):
        buffer.add(**step)
        buffer.reset(step["tag"] % 11 == 0)
        batch = buffer.sample(32)
        buffer.update_priorities(batch["id"], batch["obs"].abs().sum(1) + 1)
        buffer.sample(32, n_step=2, out=out)
        return {**batch, "sequences": buffer.sample_sequences(4, 3, across_episodes=False)["obs"]}

    called, compiled = make(prioritized=True, n_step=3), make(prioritized=True, n_step=3)
    outs = [{name: torch.from_numpy(array) for name, array in buffer.sample(32).items()}
            for buffer in (called, compiled)]
    run = torch.compile(loop, fullgraph=True)
    for t in range(1000):
        step = {name: torch.from_numpy(array) for name, array in step_of(t).items()}
        one, other = loop(called, step, outs[0]), run(compiled, step, outs[1])
        for batch, same in ((one, other), outs):
            assert all(torch.equal(batch[name], same[name]) for name in batch)
    assert called.stats == compiled.stats and compiled.stats.draws == 3001


@pytest.mark.parametrize("eager", [False, True])
def test_a_buffer_that_was_made_before_pytorch_was_imported_is_compiled(eager):
    pytest.importorskip("torch")
    program = f"""
import numpy as np, gpureplay
buffer = gpureplay.LaneBuffer(4, 10, {{"obs": ((3,), "float32")}}, device="cpu")
import torch
def add(obs):
    buffer.add(obs=obs, reward=torch.ones(4), terminated=torch.zeros(4, dtype=torch.bool))
    return buffer.sample(8)["obs"]
if {eager}:
    add(torch.ones(4, 3))
run = torch.compile(add, fullgraph=True, backend="aot_eager")
for t in range(3):
    obs = run(torch.ones(4, 3))
assert isinstance(obs, torch.Tensor) and (obs == 1).all() and buffer.stats.steps == 3 + {eager}, buffer.stats
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_a_function_that_pytorch_compiles_is_refused():
    """While it is traced, in PyTorch's words with the buffer's among them; or when it runs, by the buffer itself."""
    torch = pytest.importorskip("torch")
    buffer, step = filled(), {name: torch.from_numpy(array) for name, array in step_of(0).items()}
    many, four, leaf = torch.zeros(8), torch.zeros(4), torch.zeros(8, 4, requires_grad=True)
    for call, words in (
            (lambda: buffer.sample(0)["id"], "batch_size is 0; it must be 1 to 65536"),
            (lambda: buffer.sample(4, stream=5)["id"], "stream is 5 in a function that torch.compile takes"),
            (lambda: buffer.sample(4, out={}), "out is {}; it must be a dict"),
            (lambda: buffer.gather([1])["id"], "ids is a list; it must be an array"),
            (lambda: buffer.add(colour=four), "colour is given, and the buffer has no such field"),
            (lambda: buffer.sample(4, out={"reward": many})["reward"], r'out\["reward"\] has shape \(8,\); it must be'),
            (lambda: buffer.sample(4, out={"reward": four, "discount": four}), "reward and discount of out are one"),
            (lambda: buffer.add(**{**step, "obs": leaf[:LANES, :3] + 1}), r"obs is a tensor that "
             r"needs a gradient; .* obs.detach\(\)"),
            (lambda: buffer.sample(4, out={"reward": leaf[0, :4] * 2})["reward"],
             r'out\["reward"\] is a tensor that needs a gradient'),
            (lambda: buffer.reset(four), "lanes is torch.float32; it must be torch.bool"),
            (lambda: buffer.reset(stream=5), "stream is 5 in a function that torch.compile takes"),
            (lambda: buffer.add(**{**step, "obs": torch.zeros(3, LANES).T}), r"obs has strides .*obs.contiguous\(\)"),
            (lambda: buffer.add(**{**step, "final_obs": step["obs"]}), "obs and final_obs are the same memory")):
        torch._dynamo.reset()
        before = state_of(buffer)
        with pytest.raises(Exception) as raised:  # noqa: PT011, B017: of PyTorch's own kind while it traces
            torch.compile(call, fullgraph=True, backend="aot_eager")()
        assert re.search(words, f"{raised.value} {raised.value.__cause__}")
        assert state_of(buffer) == before


def test_an_operator_of_a_buffer_that_is_closed_or_gone_says_so():
    torch = pytest.importorskip("torch")
    buffer, other = filled(), filled()
    run = torch.compile(lambda: buffer.sample(4)["reward"], fullgraph=True, backend="aot_eager")
    assert run().tolist() == [1] * 4
    buffer.close()
    with pytest.raises(gpureplay.Closed, match="this buffer was closed; make a new one"):
        run()
    token, number = other._torch._token, other._torch._number
    del other
    gc.collect()
    with pytest.raises(gpureplay.Closed, match="the buffer .* compiled with is gone; compile it with another"):
        torch.ops.gpureplay.add_lanes(token, number, [])


def test_as_many_transitions_of_each_lane():
    buffer = filled()
    ids = buffer.sample(50 * LANES, per_lane=True)["id"].reshape(LANES, 50)
    assert (ids % LANES == np.arange(LANES)[:, None]).all() and len(np.unique(ids)) > 50
    with pytest.raises(gpureplay.InvalidArgument, match="batch_size is 50; it must be a multiple of num_lanes = 6"):
        buffer.sample(50, per_lane=True)
    with pytest.raises(gpureplay.InvalidArgument, match="the buffer is distinct or prioritized; it must be neither"):
        filled(prioritized=True).sample(6, per_lane=True)


def test_distinct_transitions():
    buffer = filled(distinct=True)
    for _ in range(20):
        ids = buffer.sample(30)["id"]
        assert len(np.unique(ids)) == 30 and ids.min() >= 0
    ids = buffer.sample(95)["id"]
    assert len(np.unique(ids[ids >= 0])) == (ids >= 0).sum() > 60


def test_sequences_are_successive_steps_of_a_lane():
    buffer = filled(gamma=0.5)
    batch = buffer.sample_sequences(50, 4)
    assert batch["obs"].shape == (50, 4, 3) and batch["mask"].shape == (50, 4) and batch["mask"].all()
    assert (np.diff(batch["id"], axis=1) == LANES).all()
    check_rows({name: array.reshape(200, *array.shape[2:]) for name, array in batch.items()}, 40)
    t, lane = batch["id"] // LANES, batch["id"] % LANES
    first = (t == 0) | ((lane == 1) & (t % 5 == 0)) | ((lane == 2) & (t % 7 == 0))
    assert (batch["is_first"] == first).all() and first.any()
    within = buffer.sample_sequences(2, 4, across_episodes=False, last_ids=np.array([36 * LANES + 1, 35 * LANES]))
    assert within["id"].tolist() == [[35 * LANES + 1, 36 * LANES + 1, -1, -1], [t * LANES for t in (32, 33, 34, 35)]]
    assert within["mask"].tolist() == [[True, True, False, False], [True] * 4]
    assert buffer.sample_sequences(50, 4, out=batch) is batch
    for call, words in ((lambda: buffer.sample_sequences(0, 4), "batch_size is 0; it must be 1"),
                        (lambda: buffer.sample_sequences(2, 40_000), "at most max_batch = 65536"),
                        (lambda: buffer.sample_sequences(2, 4, min_length=5), "min_length is 5; it must be 1 to 4"),
                        (lambda: buffer.sample_sequences(2, 4, last_ids=np.zeros(3, np.int64)), "last_ids has 3 ids")):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_dqn_trains_on_lanes():
    """In an environment of one step whose reward tells the right action: obs 0 is 1 or -1, and the right action is its
    sign."""
    fields = {"obs": ((4,), "float32"), "action": ((), "int32")}
    buffer = gpureplay.LaneBuffer(32, 64, fields, device="cpu", seed=1)
    agent = gpureplay.DQN(buffer, num_actions=2, trunk=[16], batch_size=64, learning_rate=1e-2, target_period=10,
                          seed=1)
    rng = np.random.default_rng(1)
    for _ in range(60):
        obs = np.stack([rng.choice([-1, 1], 32), *rng.random((3, 32))], axis=1).astype(np.float32)
        action = rng.integers(0, 2, 32, dtype=np.int32)
        reward = (action == (obs[:, 0] > 0)).astype(np.float32)
        buffer.add(obs=obs, action=action, reward=reward, terminated=np.ones(32, bool), final_obs=0 * obs)
        agent.train(5)
    assert agent.act(np.array([[1, 0.5, 0.5, 0.5], [-1, 0.5, 0.5, 0.5]], np.float32)).tolist() == [1, 0]
    assert agent.stats.steps == 300 and buffer.stats.draws == 0  # the learner's draws have numbers of their own
    with pytest.raises(gpureplay.InvalidArgument, match="that of a LaneBuffer"):
        agent.train_ids(np.zeros(64, np.int64))
    with pytest.raises(gpureplay.InvalidArgument, match="that of a LaneBuffer"):
        gpureplay.Run(agent, "CartPole-v1")
    with pytest.raises(gpureplay.InvalidArgument, match="the buffer is a LaneBuffer.*; actors, .*need a Replay"):
        gpureplay.Apex(agent, "CartPole-v1")
    buffer.close()
    with pytest.raises(gpureplay.Closed, match="was closed with its buffer"):
        agent.train()


@pytest.mark.parametrize("settings", [{"estimator": "peng", "lambda_": 0.9, "storage": "physical"},
                                      {"estimator": "watkins-median", "draw": "replacement", "prioritization": 0.5}])
def test_a_dqn_with_a_cache_of_returns_trains_on_lanes(settings):
    """An episode has four steps, in which the same action is right, as obs 0 tells; only the last one has a reward, for
    all of them. Its return is the same for each of its steps. A fifth step resets, and its reward is no one's."""
    fields = {"obs": ((4,), "float32"), "action": ((), "int32")}
    buffer = gpureplay.LaneBuffer(32, 64, fields, device="cpu", seed=1, gamma=1.0, autoreset="next_step")
    cache = {"cache_size": 320, "block_length": 8, **settings}
    agent = gpureplay.DQN(buffer, num_actions=2, trunk=[16], batch_size=64, learning_rate=1e-2, seed=1, **cache)
    with pytest.raises(gpureplay.TooFew, match="no transition can be drawn yet, after 0 steps"):
        agent.refresh()
    rng = np.random.default_rng(1)
    for episode in range(60):
        side, action = rng.choice([-1, 1], 32), rng.integers(0, 2, 32, dtype=np.int32)
        for t in range(5):
            obs = np.stack([side, *rng.random((3, 32))], axis=1).astype(np.float32)
            reward = (t == 3) * (action == (side > 0)).astype(np.float32) - 100 * (t == 4)
            buffer.add(obs=obs, action=action, reward=reward.astype(np.float32), terminated=np.full(32, t == 3))
        if episode > 3:
            agent.refresh()
            agent.train(5)
    agent.sync()
    assert agent.act(np.array([[1, 0.5, 0.5, 0.5], [-1, 0.5, 0.5, 0.5]], np.float32)).tolist() == [1, 0]
    assert agent.stats.refreshes == 56 and agent.stats.empty_refreshes == 0 and agent.stats.missing_rows == 0
    with pytest.raises(gpureplay.InvalidArgument, match="block_length is 64; .* the replay's steps of a lane, 64"):
        gpureplay.DQN(buffer, num_actions=2, **{**cache, "cache_size": 64, "block_length": 64})
    with make(n_step=3) as other, pytest.raises(gpureplay.InvalidArgument, match="n_step is 3; a cache"):
        gpureplay.DQN(other, num_actions=2, **cache)


def test_a_ddpg_trains_on_lanes():
    """The reward is minus the squared distance of the action from obs."""
    fields = {"obs": ((1,), "float32"), "action": ((1,), "float32")}
    buffer = gpureplay.LaneBuffer(32, 64, fields, device="cpu", seed=1)
    agent = gpureplay.DDPG(buffer, batch_size=64, seed=1, actor={"trunk": [32], "learning_rate": 3e-3},
                           critic={"trunk": [32], "learning_rate": 3e-3})
    with pytest.raises(gpureplay.TooFew, match="no transition can be drawn yet, after 0 steps"):
        agent.train()
    rng = np.random.default_rng(1)
    for _ in range(100):
        obs = rng.uniform(-0.8, 0.8, (32, 1)).astype(np.float32)
        action = rng.uniform(-1, 1, (32, 1)).astype(np.float32)
        reward = -((action - obs) ** 2)[:, 0]
        buffer.add(obs=obs, action=action, reward=reward, terminated=np.ones(32, bool), final_obs=0 * obs)
        agent.train(10)
    policy = agent.policy()
    wanted = np.array([[-0.6], [0.0], [0.6]], np.float32)
    assert np.abs(policy.act_vectors(wanted) - wanted).max() < 0.25


class Stacks:
    """Environments that show stacks of `count` frames, and a model of them in NumPy that keeps whole stacks. Where an
    episode begins the older frames are zeros, or like the newest one."""

    def __init__(self, count, axis, pad, autoreset, seed=3):
        self.count, self.axis, self.pad, self.autoreset = count, axis, pad, autoreset
        self.rng = np.random.default_rng(seed)
        self.obs = self.first()
        self.has_ended = np.zeros(LANES, bool)
        self.rows = []  # of each step: obs, and what came after it; None: the step is no transition
        self.waiting = [None] * LANES

    def frame(self):
        return self.rng.integers(1, 255, (LANES, 2, 3), np.uint8)

    def first(self):
        frame = self.frame()
        older = np.zeros_like(frame) if self.pad == "zero" else frame
        return np.stack([older] * (self.count - 1) + [frame], axis=1)

    def shown(self, stacks):
        return np.ascontiguousarray(stacks if self.axis == "first" else np.moveaxis(stacks, 1, -1))

    def step(self):
        """What `add` takes."""
        after = np.concatenate([self.obs[:, 1:], self.frame()[:, None]], axis=1)
        resets = self.has_ended if self.autoreset == "next_step" else np.zeros(LANES, bool)
        terminated, truncated = (~resets & (self.rng.random(LANES) < 0.12) for _ in range(2))
        ends = terminated | truncated
        begins = resets if self.autoreset == "next_step" else ends
        obs, self.has_ended = self.obs, ends
        self.obs = np.where(begins[:, None, None, None], self.first(), after)
        self.rows.append([None if reset else (one, other) for reset, one, other in
                          zip(resets, self.shown(obs), self.shown(after))])
        given = {"obs": self.shown(obs), "reward": np.ones(LANES, np.float32), "terminated": terminated,
                 "truncated": truncated, "action": np.zeros(LANES, np.int32)}
        return given if self.autoreset == "next_step" else {**given, "final_obs": self.shown(after)}


@pytest.mark.parametrize(("autoreset", "count", "axis", "pad"), [
    ("same_step", 4, "first", "zero"), ("next_step", 3, "last", "repeat"), ("disabled", 2, "first", "repeat"),
    ("same_step", 4, "last", "zero")])
@needs_files
def test_stacks_of_frames_that_are_stored_once(tmp_path, autoreset, count, axis, pad):
    shape = (count, 2, 3) if axis == "first" else (2, 3, count)
    fields = {"obs": (shape, "uint8"), "action": ((), "int32")}
    buffer, other = (gpureplay.LaneBuffer(LANES, kept, fields, autoreset=autoreset, frame_stack=count, stack_axis=axis,
                                          device="cpu") for kept in (STEPS, STEPS + 9))
    envs = Stacks(count, axis, pad, autoreset)
    for t in range(5 * STEPS):
        buffer.add(**envs.step())
        if t == 3 * STEPS:
            buffer.save(tmp_path / "stacks")
            other.load(tmp_path / "stacks")
            buffer = other
        batch, n_step = buffer.sample(50, n_step=1 + t % 3), 1 + t % 3
        for row, obs, next_obs, steps in zip(batch["id"], batch["obs"], batch["next_obs"], batch["steps"]):
            at, lane = divmod(int(row), LANES)
            assert row < 0 or (1 <= steps <= n_step and (obs == envs.rows[at][lane][0]).all() and
                               (next_obs == envs.rows[at + steps - 1][lane][1]).all())
    assert buffer.stats.broken_stacks == 0 and len(buffer) > STEPS * LANES // 2
    plain = gpureplay.LaneBuffer(LANES, STEPS, fields, autoreset=autoreset, device="cpu")
    plain.save(tmp_path / "plain")
    for reader, name, words in ((plain, "stacks", "^frame_stack is . in the file; this buffer has no frame_stack$"),
                                (buffer, "plain", "^frame_stack is not in the file; this buffer has .$")):
        with pytest.raises(gpureplay.InvalidArgument, match=words):
            reader.load(tmp_path / name)


def test_stacks_that_are_none_are_counted_and_left_out():
    buffer = gpureplay.LaneBuffer(LANES, STEPS, {"obs": ((3, 2, 3), "uint8"), "action": ((), "int32")}, frame_stack=3,
                                  device="cpu")
    envs = Stacks(3, "first", "repeat", "same_step")
    for _ in range(STEPS):
        step = envs.step()
        step["obs"], step["final_obs"] = (step[name][:, ::-1].copy() for name in ("obs", "final_obs"))  # newest first
        buffer.add(**step)
    assert buffer.stats.broken_stacks > STEPS
    known = [row is not None for step in envs.rows for row in step]
    assert 0 < len(buffer) < sum(known) - buffer.stats.broken_stacks / 2


def test_stacks_beside_other_parts_of_a_space():
    spaces = gymnasium.spaces
    space = spaces.Dict(image=spaces.Box(0, 255, (3, 2, 3), np.uint8), state=spaces.Box(-9, 9, (3,)))
    buffer = gpureplay.LaneBuffer(LANES, STEPS, space, spaces.Discrete(2), frame_stack=3, device="cpu")
    envs = Stacks(3, "first", "zero", "disabled")
    for t in range(STEPS):
        step = envs.step()
        state = np.full((LANES, 3), t, np.float32)
        final = {"image": step.pop("final_obs"), "state": -state}
        buffer.add(**{**step, "obs": {"image": step["obs"], "state": state}, "action": np.zeros(LANES, np.int64),
                      "final_obs": final})
    batch = buffer.sample(50)
    for row, image, state in zip(batch["id"], batch["next_obs.image"], batch["obs.state"]):
        at, lane = divmod(int(row), LANES)
        assert (image == envs.rows[at][lane][1]).all() and (state == at).all()
    assert buffer.stats.broken_stacks == 0


@pytest.mark.parametrize(("settings", "words"), [
    ({"frame_stack": 4}, "^frame_stack is 4 and the first axis of \"obs\" is 3 long; they must be the same$"),
    ({"frame_stack": 17}, "^frame_stack is 17; it must be 1 to 16$"),
    ({"frame_stack": 0}, "^frame_stack is 0; it must be 1"),
    ({"stack_axis": "last"}, "^stack_axis is \"last\" and frame_stack 1; with lanes stack_axis must be its default"),
    ({"frame_stack": 3, "fields": {"image": ((3, 2), "uint8"), "action": ((), "int32")}},
     "frame_stack is 3, and the schema has no pair of fields \"obs\" and \"next_obs\""),
])
def test_stacks_that_do_not_fit_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        gpureplay.LaneBuffer(**{"num_lanes": LANES, "steps": STEPS, "fields": FIELDS, "device": "cpu", **settings})


def test_a_dqn_trains_on_stacks_of_images():
    """The reward tells the right action: whether the newest frame is brighter than the one before."""
    fields = {"obs": ((2, 6, 6), "uint8"), "action": ((), "int32")}
    buffer = gpureplay.LaneBuffer(32, 64, fields, frame_stack=2, gamma=0.0, device="cpu", seed=1)
    agent = gpureplay.DQN(buffer, num_actions=2, trunk=[("conv", 8, 3), 16], batch_size=64, learning_rate=2e-3,
                          target_period=10, seed=1)
    rng = np.random.default_rng(1)
    obs = np.zeros((32, 2, 6, 6), np.uint8)
    for t in range(80):
        frame = np.broadcast_to(rng.integers(1, 255, (32, 1, 1, 1), np.uint8), (32, 1, 6, 6))
        obs = np.concatenate([obs[:, 1:], frame], axis=1)
        action = rng.integers(0, 2, 32, dtype=np.int32)
        reward = (action == (obs[:, 1, 0, 0] > obs[:, 0, 0, 0])).astype(np.float32)
        buffer.add(obs=obs, action=action, reward=reward, terminated=np.zeros(32, bool), final_obs=0 * obs)
        agent.train(5 if t > 0 else 0)
    dark, bright = np.full((6, 6), 60, np.uint8), np.full((6, 6), 190, np.uint8)
    assert agent.act(np.array([[dark, bright], [bright, dark]])).tolist() == [1, 0]
    assert buffer.stats.broken_stacks == 0


def outputs(buffer, size=64):
    batch = buffer.sample(size)
    return {name: np.array(array) for name, array in batch.items()}


@needs_files
@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_buffer_goes_on_from_a_file_bit_for_bit(tmp_path, autoreset, prioritized):
    def step(buffer, t):
        values = step_of(t)
        if autoreset == "next_step":
            del values["final_obs"]
        buffer.add(**values)
        batch = outputs(buffer)
        if prioritized:
            buffer.update_priorities(batch["id"], (batch["id"] % 7 + t).astype(np.float32))
        return batch

    settings = {"autoreset": autoreset, "prioritized": prioritized, "n_step": 2}
    first, second = make(**settings), make(**settings)
    for t in range(3 * STEPS + 5):
        step(first, t)
    step(second, 1000)
    first.save(tmp_path / "lanes")
    second.load(tmp_path / "lanes")
    assert second.stats == first.stats
    for t in range(3 * STEPS + 5, 5 * STEPS):
        expected, found = step(first, t), step(second, t)
        assert all((expected[name] == found[name]).all() for name in expected)
    info = gpureplay.file_info(tmp_path / "lanes")
    assert (info.kind, info.capacity, info.first_id, info.envs, info.writers) == (
        "replay", LANES * STEPS, (2 * STEPS + 5) * LANES, LANES, -1)


@needs_files
@pytest.mark.parametrize("steps", [STEPS // 2, 2 * STEPS])
def test_a_file_is_loaded_into_another_number_of_steps(tmp_path, steps):
    filled(gamma=0.5).save(tmp_path / "lanes")
    other = gpureplay.LaneBuffer(LANES, steps, FIELDS, device="cpu", gamma=0.5, n_step=3)
    other.load(tmp_path / "lanes")
    kept = min(steps, STEPS)
    assert len(other) == (kept - 1) * LANES + 1 and other.stats.steps == 40 and other.stats.lost_finals == 0
    batch = other.sample(300)
    assert batch["id"].min() >= (40 - kept) * LANES
    check_rows(batch, 40, 3)
    for t in range(40, 40 + 3 * STEPS):
        other.add(**step_of(t))
    assert len(other) == sum(is_known(t, lane, 40 + 3 * STEPS) for t in range(40 + 3 * STEPS - steps, 40 + 3 * STEPS)
                             for lane in range(LANES))


@needs_files
def test_files_that_do_not_fit_or_are_stopped_change_nothing(tmp_path):
    buffer, before, reported = filled(), None, []
    buffer.save(tmp_path / "lanes", lambda done, in_all: reported.append((done, in_all)))
    assert reported[-1][0] == reported[-1][1] == (tmp_path / "lanes").stat().st_size
    before = buffer.stats
    with pytest.raises(gpureplay.Interrupted):
        buffer.load(tmp_path / "lanes", lambda done, in_all: False)
    with pytest.raises(ZeroDivisionError):
        buffer.save(tmp_path / "other", lambda done, in_all: 1 / 0)
    assert [path.name for path in tmp_path.iterdir()] == ["lanes"]
    (tmp_path / "bad").write_bytes((tmp_path / "lanes").read_bytes()[:-1] + b"?")
    with pytest.raises(gpureplay.FileError, match="not what was written"):
        buffer.load(tmp_path / "bad")
    assert buffer.stats == before
    fewer = gpureplay.LaneBuffer(4, STEPS, FIELDS, device="cpu")
    with pytest.raises(gpureplay.InvalidArgument, match="^num_lanes is 6 in the file; this buffer has 4$"):
        fewer.load(tmp_path / "lanes")
    with pytest.raises(gpureplay.InvalidArgument,
                       match='^autoreset is "same_step" in the file; this buffer has "next_step"$'):
        make(autoreset="next_step").load(tmp_path / "lanes")
    rows = gpureplay.ReplayBuffer(64, {"obs": ((3,), "float32")}, device="cpu")
    with pytest.raises(gpureplay.InvalidArgument, match='^layout is "lanes" in the file; this buffer has "rows"$'):
        rows.load(tmp_path / "lanes")
    rows.save(tmp_path / "rows")
    with pytest.raises(gpureplay.InvalidArgument, match='^layout is "rows" in the file; this buffer has "lanes"$'):
        buffer.load(tmp_path / "rows")
    assert buffer.stats == before


@needs_files
def test_a_dqn_goes_on_from_the_files_of_its_buffer_and_its_own(tmp_path):
    def run(buffer, agent, first, last):
        for t in range(first, last):
            buffer.add(**{**step_of(t), "action": np.arange(LANES, dtype=np.int32) % 2})
            agent.train(3 if t > 0 else 0)  # of the first step no transition can be drawn yet

    def made():
        buffer = make(prioritized=True, n_step=3)
        return buffer, gpureplay.DQN(buffer, num_actions=2, trunk=[8], batch_size=16, seed=1)

    (buffer, agent), (other_buffer, other) = made(), made()
    run(buffer, agent, 0, 50)
    buffer.save(tmp_path / "buffer")
    agent.save(tmp_path / "agent")
    other_buffer.load(tmp_path / "buffer")
    other.load(tmp_path / "agent")
    run(buffer, agent, 50, 80)
    run(other_buffer, other, 50, 80)
    for name, saves in (("buffer", (buffer, other_buffer)), ("agent", (agent, other))):
        for i, each in enumerate(saves):
            each.save(tmp_path / f"{name}{i}")
        assert (tmp_path / f"{name}0").read_bytes() == (tmp_path / f"{name}1").read_bytes()


@needs_files
def test_the_blocks_of_the_page_run(tmp_path, monkeypatch):
    """All but JAX's, which test_jax.py has, in their order, with one set of names. That of the CUDA graph runs on the
    CPU, with a stand-in for torch.cuda that notes the captures: so it fits what stands before it. It is captured, and
    the graph launched, by test_cuda.py."""
    blocks = [block for block in blocks_of_page("simulators.md") if "jax" not in block]
    graphs, captured = [], []

    @contextlib.contextmanager
    def graph(which):
        before = names["buffer"].stats
        yield
        captured.append((which, before, names["buffer"].stats))

    torch = types.SimpleNamespace(cuda=types.SimpleNamespace(
        CUDAGraph=lambda: graphs.append("graph") or graphs[-1], graph=graph))
    names = {"torch": torch}
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in blocks:
            names["truncated"] = np.zeros(64, bool)
            names["reward"] = np.zeros(64, np.float32)
            exec(compile(block, "simulators.md", "exec"), names)
    (which, before, after), = captured
    assert which == "graph" and len(blocks) == 4
    assert (after.steps, after.draws) == (before.steps + 1, before.draws + 1)
