# SPDX-License-Identifier: MIT
"""`add` by steps goes through C where a step is ordinary, and gives what Python alone gives: counts, refusals, rows,
and where each environment stands then."""

import threading
import time

import gpureplay
import numpy as np
import pytest
from gpureplay._accelerator import fast
from steps_model import World, check, give

pytestmark = pytest.mark.skipif(fast is None, reason="the extension module is not here, or is switched off")
has_files = pytest.mark.skipif("files: none" in gpureplay.lib.gpur_build_info().decode(),
                               reason="the library was built without cJSON or xxHash")
MODES = ("disabled", "next_step", "same_step")
WAYS = {
    "n steps": ({"n_step": 3}, {}),
    "linked stacks": ({"stack": 3}, {"tag": "float32"}),
    "linked frames of n steps": ({"stack": 3, "n_step": 3, "gives": "frames", "dtype": "float32"}, {}),
    "halves": ({"n_step": 2, "dtype": "float16"}, {}),
    "previous": ({}, {"previous": "int64", "tag": "float32"}),
}
FLOATS = {"obs": ((2,), "float32"), "action": "int64", "reward": "float32", "next_obs": ((2,), "float32"),
          "terminated": "bool", "truncated": "bool"}


def make(way, mode, num_envs=3, seed=5, count=1, **settings):
    of, more = WAYS[way]
    world = World(seed, mode=mode, num_envs=num_envs, **of)
    made = [gpureplay.ReplayBuffer(10_000, world.fields(**more), **{**world.settings(), **settings})
            for _ in range(count)]
    for plain in made[1:]:
        for one in (plain, plain._writer):
            one._rows = one._steps = None
    return made, world


def given_to(buffer, world):
    """A step of the world's, without what is no field."""
    names = [field.name for field in buffer.fields]
    return {name: value for name, value in world.step().items() if name == "final_obs" or name in names}


@pytest.fixture
def in_c(monkeypatch):
    """From its call on, what comes to Python fails."""
    return lambda: monkeypatch.setattr(gpureplay.Writer, "_add", lambda *_: pytest.fail("it came to Python"))


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize("way", WAYS)
def test_episodes_that_begin_go_on_and_end_never_come_to_python(way, mode, num_envs, in_c):
    (buffer,), world = make(way, mode, num_envs)
    with buffer:
        give(buffer, world, 1)  # the library is asked where everyone stands
        in_c()
        give(buffer, world, 80)
        assert sum(row["terminated"] or row["truncated"] for row in world.rows) > 4
        check(buffer, world)


def test_under_same_step_only_ends_come_to_python(monkeypatch):
    (buffer,), world = make("n steps", "same_step")
    real, came = gpureplay.Writer._add, []
    monkeypatch.setattr(gpureplay.Writer, "_add", lambda *of: came.append(of) or real(*of))
    with buffer:
        give(buffer, world, 1)
        for _ in range(60):
            given, before = given_to(buffer, world), len(came)
            buffer.add(**given)
            assert len(came) - before == (given["terminated"] | given["truncated"]).any()
        check(buffer, world)


def test_numbers_of_one_environment_never_come_to_python(in_c):
    with gpureplay.ReplayBuffer(100, FLOATS, n_step=2, device="cpu", autoreset="disabled") as buffer:
        place = np.zeros(2)
        step = {"obs": place, "action": np.int32(1), "reward": 0.5, "next_obs": place, "terminated": False,
                "truncated": np.bool_(0)}
        assert buffer.add(**step) == 0
        in_c()
        del step["truncated"]
        assert [buffer.add(**step, info={}) for _ in range(3)] == [1, 1, 1]
        assert buffer.add(**{**step, "terminated": 1}) == 2
        assert buffer.add(**step) == 0 and buffer._writer.add(**step) == 1
        assert np.allclose(buffer.gather(range(6)).reward, [0.995] * 4 + [0.5, 0.995])


def outcome(buffer, given):
    """What `add` returns or raises, and all that is different afterwards."""
    try:
        result = buffer.add(**given)
    except Exception as error:  # noqa: BLE001
        result = type(error), str(error)
    state = buffer._writer._by_steps._state
    held = buffer.gather(range(max(0, len(buffer) - 9), len(buffer))) if len(buffer) else {}
    return (result, buffer.stats.appended, state.standing.tolist(), state.pending.tolist(),
            state.last[state.standing == 1].tobytes(), [held[name].tobytes() for name in held.keys()])


def spoil(given, turn, random):
    """The step as callers may get it wrong, or write it otherwise."""
    env, kind = random.integers(len(given["reward"])), turn % 23
    other = {name: value.copy() for name, value in given.items()}
    if kind == 0:
        other["reward"][env] = np.nan
    elif kind == 1:
        other["obs"][env] += 1
    elif kind == 2:
        other["next_obs"][env].flat[0] += 7  # of stacks, a frame that was not there
    elif kind == 3 and other["obs"].dtype.kind == "f":
        other[random.choice(["obs", "next_obs"])][env] = np.nan
    elif kind == 4:
        other["terminated"] = other["terminated"].astype(np.uint8) * 3
    elif kind == 5:
        del other["truncated"]
    elif kind == 6:
        other = {name: value.astype(np.float64) if value.dtype == np.float32 else value
                 for name, value in other.items()}
    elif kind == 7:
        other["obs"], other["reward"] = np.asfortranarray(other["obs"]), np.repeat(other["reward"], 2)[::2]
    elif kind == 8:
        other["terminated"] = np.ones_like(other["terminated"])
    elif kind == 9:
        other["obs"] = other["obs"][..., :-1]
    elif kind == 10:
        other.pop("final_obs")
    elif kind == 11:
        other["action"] = None
    elif kind == 12:
        other["info"] = {"final_obs": other.pop("final_obs")}
    return other


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_given_ends_alike(way, mode):
    random = np.random.default_rng(3)
    (quick, plain), world = make(way, mode, count=2)
    kinds = set()
    for turn in range(200):
        given = given_to(quick, world)
        for step in (spoil(given, turn, random), given):
            found = outcome(quick, step)
            assert found == outcome(plain, step), turn
            kinds.add(type(found[0]))
            if isinstance(found[0], int):
                break
        if turn % 23 in (2, 4, 8) or turn % 29 == 0:  # what was taken may not be what the world did
            for buffer in (quick, plain):
                buffer.reset()
            world.reset()
    assert kinds == {int, tuple} and len(quick) > 300
    quick.close(), plain.close()


def test_no_steps_without_the_fields_of_a_step():
    (buffer,), _ = make("n steps", "disabled", num_envs=2)
    steps, rows = buffer._writer._by_steps, buffer._writer._rows_of
    state = steps._state
    of = rows(2, steps._fields)
    for arguments, text in (
            ((rows(2, steps._fields[1:]), state.standing, state.pending, state.last, 0, 3, []), 'no field "obs"'),
            ((of, state.standing[:1], state.pending, state.last, 0, 3, []), "no contiguous array of 2 times 1 bytes"),
            ((of, state.standing, state.pending[::2], state.last, 0, 3, []), "no contiguous array of 2 times 8 bytes"),
            ((of, state.standing, state.pending, None, 0, 3, []), "None is no contiguous array"),
            ((of, state.standing, state.pending, state.last, 0, 3, [99]), "extra 99 of 6 fields")):
        with pytest.raises(ValueError, match=text):
            fast.Steps(*arguments)
    with pytest.raises(TypeError, match="append.writer, values. was given 1 arguments"):
        buffer._writer._steps.append(buffer._writer)
    assert buffer._writer._steps.append(buffer._writer, None) is None


def test_a_writer_that_threads_share_counts_every_step():
    """An environment that stands still: whoever adds, it follows."""
    step = {"obs": np.zeros(2, np.float32), "action": 1, "reward": 1.0, "next_obs": np.zeros(2, np.float32),
            "terminated": False, "truncated": False}
    counts = []
    with gpureplay.ReplayBuffer(10_000, FLOATS, n_step=3, device="cpu", autoreset="disabled") as buffer:
        def run():
            counts.append(sum(buffer.add(**{**step, "terminated": number % 5 == 0}) for number in range(2000)))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(counts) == buffer.stats.appended
        buffer.reset()
        assert buffer.stats.appended == 8000


def test_a_step_waits_for_its_turn():
    (buffer,), world = make("n steps", "disabled")
    with buffer:
        give(buffer, world, 1)
        thread = threading.Thread(target=lambda: buffer.add(**given_to(buffer, world)))
        with buffer._writer._turn:
            before = buffer._writer._by_steps._state.last.copy()
            thread.start()
            thread.join(0.1)
            assert thread.is_alive() and (buffer._writer._by_steps._state.last == before).all()
        thread.join()
        give(buffer, world, 20)


@has_files
def test_a_step_that_waits_lets_others_go_on(tmp_path):
    """It comes in the midst of a save, which goes on only when Python's other thread does."""
    (buffer,), world = make("n steps", "disabled")
    added = threading.Event()

    def add():
        buffer.add(**given_to(buffer, world))
        added.set()

    def progress(*_):
        if not thread.is_alive() and not added.is_set():
            thread.start()
            time.sleep(0.1)
            seen.append(added.is_set())
        return True

    thread, seen = threading.Thread(target=add), []
    with buffer:
        give(buffer, world, 20)
        buffer.save(tmp_path / "buffer", progress)
        thread.join()
        assert seen == [False] and added.is_set()
        check(buffer, world)
