# SPDX-License-Identifier: MIT
"""Steps whose episodes the library tracks: refusals that change nothing, resets, interrupts, writers, threads, files,
and random episodes against a model."""

import copy
import threading

import gpureplay
import numpy as np
import pytest
from hypothesis import given, strategies as st
from steps_model import MODES, TRACKED, World, check, give, make, step_of
from support import needs_files

# Refusals that change nothing; resets, interrupts, writers and threads.


@pytest.fixture(params=TRACKED)
def way(request):
    return TRACKED[request.param]


def refused(buffer, error, text, **values):
    before = buffer.stats.appended
    with pytest.raises(error, match=text):
        buffer.add(**values)
    assert buffer.stats.appended == before


def test_an_array_that_the_environment_writes_into_is_found_out():
    """A vector may reuse one array: the array given as `obs` has the values of `next_obs` when `add` is called."""
    buffer, world = make(TRACKED["n steps"], num_envs=1)
    with buffer:
        held = step_of(buffer, world)
        while world.over[0]:
            held = step_of(buffer, world)
        buffer.add(**held)
        given = step_of(buffer, world)
        held["next_obs"][...] = given["next_obs"]
        refused(buffer, ValueError, "obs of environment 0 is not", **{**given, "obs": held["next_obs"]})


def test_after_an_end_the_new_episode_must_follow():
    """Under "same_step" its first observation was given with the end."""
    buffer, world = make(TRACKED["n steps"], "same_step")
    with buffer:
        ends = 0
        while ends < 5:
            given = step_of(buffer, world)
            buffer.add(**given)
            ended = given["terminated"] | given["truncated"]
            if ended.any():
                ends += 1
                given = step_of(buffer, world)
                given["obs"][ended] += 1
                refused(buffer, ValueError, f"obs of environment {ended.argmax()} is not the next_obs", **given)
                given["obs"][ended] -= 1
                buffer.add(**given)
        check(buffer, world)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["obs", "next_obs", "reward", "final_obs"])
def test_nan_is_refused(name, mode):
    buffer, world = make(TRACKED["linked frames of n steps"], mode)
    with buffer:
        for _ in range(40):
            if name == "obs":
                buffer.reset()
                world.reset()
            given = step_of(buffer, world)
            bad = {**given, name: np.full_like(given[name], np.nan)}
            is_read = name != "final_obs" or (mode == "same_step" and (given["terminated"] | given["truncated"]).any())
            if is_read:
                refused(buffer, ValueError, f"{name} has NaN", **bad)
            buffer.add(**given)
        check(buffer, world)


def test_what_the_library_refuses_changes_nothing():
    buffer, world = make(TRACKED["linked stacks"], "disabled")
    with buffer:
        give(buffer, world, 20)
        for _ in range(20):
            over = list(world.over)
            given = step_of(buffer, world)
            wrong = given["next_obs"].copy()
            wrong[:, 1] += 1
            refused(buffer, gpureplay.InvalidArgument, "next_obs of environment 0 has a frame 1 of its stack",
                    **{**given, "next_obs": wrong})
            if not all(over):
                refused(buffer, ValueError, "obs of environment [01] is not", **{**given, "obs": given["obs"] + 1})
            buffer.add(**given)
        check(buffer, world)


def test_an_ended_episode_cannot_end_again():
    buffer, world = make(TRACKED["n steps"], "next_step", num_envs=1)
    with buffer:
        while not world.over[0] or not world.rows:
            give(buffer, world, 1)
        given = step_of(buffer, world)
        refused(buffer, gpureplay.InvalidArgument, "it ends again", **{**given, "terminated": np.ones(1, bool)})
        assert buffer.add(**given) == 0
        give(buffer, world, 30)
        check(buffer, world)


def test_what_a_step_fills_in_is_not_given():
    buffer, world = make(({"n_step": 3}, {"previous": "int64", "discount": "float32"}))
    with buffer:
        for name in ("discount", "previous"):
            refused(buffer, TypeError, rf"unknown \['{name}'\]; the fields are obs, action", **step_of(buffer, world),
                    **{name: np.zeros(2)})
        given = step_of(buffer, world)
        del given["reward"]
        refused(buffer, TypeError, r"missing \['reward'\]", **given)
        refused(buffer, ValueError, r"obs has shape \(2, 2\)",
                **{**step_of(buffer, world), "obs": np.zeros((2, 2), np.uint8)})
    assert [field.name for field in buffer.fields][-2:] == ["previous", "discount"]


def test_a_last_observation_is_asked_for():
    buffer, world = make(TRACKED["linked frames of n steps"], "same_step")
    with buffer:
        for _ in range(40):
            given = step_of(buffer, world)
            if (given["terminated"] | given["truncated"]).any():
                refused(buffer, ValueError, "its last next_obs is not given",
                        **{name: value for name, value in given.items() if name != "final_obs"})
            buffer.add(**given)
        check(buffer, world)


def test_an_episode_is_cut_without_a_field_for_it():
    """`truncated` ends an episode even if it is not stored."""
    world = World(3, n_step=3, mode="disabled")
    fields = {name: of for name, of in world.fields().items() if name != "truncated"}
    with gpureplay.ReplayBuffer(1000, fields, **world.settings()) as buffer:
        give(buffer, world, 60)
        assert any(row["truncated"] for row in world.rows)
        check(buffer, world)


def test_finished_rows():
    """A packed buffer takes them, `discount` with them, beside open episodes. A linked one has no place for them."""
    buffer, world = make(TRACKED["n steps"], num_envs=1)
    rows = {field.name: np.ones((5, *field.shape), field.dtype) for field in buffer.fields}
    with buffer:
        assert buffer.extend(**rows) == 5
        given = step_of(buffer, world)
        assert buffer.add(**given) == 0 and buffer.extend(**rows) == 5
        assert buffer.gather(range(10)).discount.tolist() == [1] * 10
        with pytest.raises(TypeError, match="missing.*discount"):
            buffer.extend(**{name: rows[name] for name in rows if name != "discount"})
    buffer, _ = make(TRACKED["linked stacks"])
    with buffer, pytest.raises(gpureplay.InvalidArgument, match="finished rows do not tell to which episode"):
        buffer.extend(**{field.name: np.ones((5, *field.shape), field.dtype) for field in buffer.fields})


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_when_the_library_is_done(way, mode, monkeypatch):
    """The library has done the call, and the package does not know: the episodes go on, and the next step is checked
    like any other."""
    buffer, world = make(way, mode)
    real, calls, checked = buffer._writer._call, [], 0

    def call(function, *arguments):
        real(function, *arguments)
        calls.append(function)
        if len(calls) % 7 == 0:
            raise KeyboardInterrupt

    with buffer:
        for _ in range(80):
            given, is_done = step_of(buffer, world), False
            buffer._writer._tracker.forget()  # the extension module leaves such a step to Python
            while not is_done:
                try:
                    with monkeypatch.context() as patch:
                        patch.setattr(buffer._writer, "_call", call)
                        buffer.add(**given)
                    is_done = True
                except KeyboardInterrupt:
                    is_done = calls[-1] is gpureplay.lib.gpur_writer_step_ex
            if mode == "same_step" or not world.over[1]:
                given = step_of(buffer, copy.deepcopy(world))
                given["obs"][1] += 1
                refused(buffer, ValueError, "obs of environment 1 is not the next_obs", **given)
                checked += 1
        assert checked > 10
        check(buffer, world)


def test_writers_in_threads_have_episodes_of_their_own(way):
    buffer, _ = make(way, n_step=2)
    counts = []

    def run(seed):
        writer, added = buffer.writer(3, "same_step"), 0
        world = World(seed, num_envs=3, mode="same_step", **{**way[0], "n_step": 2})
        for _ in range(50):
            added += writer.add(**step_of(buffer, world))
        counts.append((added, world, writer))

    with buffer:
        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [added for added, *_ in counts] == [len(world.rows) for _, world, _ in counts] and len(counts) == 3
        got, rows = buffer.gather(range(len(buffer))), [row for _, world, _ in counts for row in world.rows]
        found = sorted(one.tobytes() + other.tobytes() for one, other in zip(got.obs, got.next_obs))
        assert found == sorted(row["obs"].tobytes() + row["next_obs"].tobytes() for row in rows)


def test_a_closed_writer_says_so(way):
    buffer, world = make(way)
    with buffer:
        writer = buffer.writer(2, "next_step")
        writer.add(**step_of(buffer, world))
        writer.close()
        for call in (lambda: writer.add(**step_of(buffer, world)), writer.reset):
            with pytest.raises(gpureplay.Closed, match="this writer was closed"):
                call()
        assert buffer.stats.truncated_on_close == 2
    with pytest.raises(gpureplay.Closed):
        buffer.add(**step_of(buffer, world))


def test_one_environment_needs_no_axis(way):
    buffer, world = make(way, None, num_envs=1)
    with buffer:
        world.mode = "disabled"
        for _ in range(60):
            given = {name: value[0] for name, value in step_of(buffer, world).items()}
            before = len(buffer)
            added = buffer.add(**given)
            assert len(buffer) == before + added
        check(buffer, world)


# Environments that the caller resets.


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_without_a_call_is_refused(way, mode):
    """Only open episodes are checked. After an end any observation may come."""
    buffer, world = make(way, mode, num_envs=1)
    with buffer:
        give(buffer, world, 20)
        while world.over[0]:
            give(buffer, world, 1)
        given = step_of(buffer, world)
        refused(buffer, ValueError, "obs of environment 0 is not the next_obs that was given last, and its episode "
                                    "has not ended; call `reset`", **{**given, "obs": given["obs"] + 1})
        buffer.add(**given)
        check(buffer, world)
        for _ in range(3):  # the first finds nothing to end, or an episode without a step
            buffer.reset()
            world.reset()
            check(buffer, world)
        give(buffer, world, 30)
        check(buffer, world)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("say", [lambda envs: envs, lambda envs: np.isin(np.arange(4), envs)],
                         ids=["numbers", "a mask"])
def test_some_environments_are_reset_and_the_others_go_on(way, mode, say):
    buffer, world = make(way, mode, num_envs=4)
    draw = np.random.default_rng(1)
    with buffer:
        for _ in range(40):
            give(buffer, world, 3)
            envs = np.flatnonzero(draw.integers(0, 3, 4) == 0)
            buffer.reset(say(envs))
            world.reset(envs)
        give(buffer, world, 10)
        check(buffer, world)


BAD_ENVS = {
    "a shape": (np.ones(3, bool), ValueError, r"envs is a mask of shape \(3,\); it must be \(2,\)"),
    "one too high": ([0, 2], ValueError, "envs has 2; it must be 0 to 1"),
    "one too low": ([-1], ValueError, "envs has -1; it must be 0 to 1"),
    "no numbers": ([0.5], TypeError, r"envs is \[0.5\]; it must be None, a mask of \(2,\) bool, or numbers"),
    "a word": ("all", TypeError, "envs is 'all'; it must be"),
    "two axes": ([[0, 1]], TypeError, r"envs is \[\[0, 1\]\]; it must be"),
}


@pytest.mark.parametrize("case", BAD_ENVS)
def test_environments_that_are_none_are_refused(way, case):
    envs, error, text = BAD_ENVS[case]
    buffer, world = make(way)
    with buffer:
        give(buffer, world, 20)
        with pytest.raises(error, match=text):
            buffer.reset(envs)
        buffer.reset([])
        give(buffer, world, 20)
        check(buffer, world)


def test_ctrl_c_in_a_reset(way, monkeypatch):
    """The library has ended an episode, and the package does not know."""
    buffer, world = make(way, "disabled")
    with buffer:
        for _ in range(20):
            give(buffer, world, 5)
            with monkeypatch.context() as patch:
                real = buffer._writer._call

                def call(function, *arguments, real=real):
                    real(function, *arguments)
                    if function is gpureplay.lib.gpur_writer_reset:
                        raise KeyboardInterrupt

                patch.setattr(buffer._writer, "_call", call)
                is_open = not world.over[0]
                try:
                    buffer.reset([0])
                    assert not is_open
                except KeyboardInterrupt:
                    assert is_open
            world.reset([0])
        give(buffer, world, 10)
        check(buffer, world)


def test_a_reset_of_some_counts_where_steps_are_transitions_as_they_come():
    """Under "next_step" the step after an end is left out, unless that environment was reset by the caller."""
    fields = {"obs": ((1,), "float32"), "reward": "float32", "next_obs": ((1,), "float32"), "terminated": "bool"}
    with gpureplay.ReplayBuffer(100, fields, num_envs=3, device="cpu") as buffer:
        step = {"obs": np.zeros((3, 1)), "reward": np.arange(3), "next_obs": np.zeros((3, 1))}
        for envs, left in (([], []), ([1], [1]), ([False, True, True], [1, 2]), (None, [0, 1, 2])):
            buffer.add(**step, terminated=np.ones(3, bool))
            buffer.reset(envs)
            assert buffer.add(**step, terminated=np.zeros(3, bool)) == len(left)
            newest = np.arange(len(left)) + len(buffer) - len(left)
            assert not left or buffer.gather(newest).reward.tolist() == left


# Random episodes: n steps, stacks and frames, several environments, three autoreset modes, resets in between.


WORLDS = st.fixed_dictionaries({
    "seed": st.integers(0, 2**32), "num_envs": st.integers(1, 4), "mode": st.sampled_from(MODES),
    "n_step": st.integers(1, 5), "stack": st.integers(1, 4), "pad": st.sampled_from(("zero", "repeat")),
    "axis": st.sampled_from(("first", "last")), "gives": st.sampled_from(("stacks", "frames")),
    "dtype": st.sampled_from(("uint8", "float32")), "clip": st.sampled_from((0.0, 0.5))})
SCHEDULE = st.lists(st.one_of(st.integers(1, 30), st.just("reset")), min_size=1, max_size=6)
MORE = {"tag": "float32", "previous": "int64"}


def play(buffer, world, schedule):
    for part in schedule:
        if part == "reset":
            buffer.reset()
            world.reset()
        else:
            give(buffer, world, part)


@pytest.mark.parametrize("layout", ["frames", "rows"])
@given(WORLDS, SCHEDULE, st.sampled_from((20, 64, 2000)))
def test_random_episodes(layout, settings, schedule, capacity):
    world = World(**{**settings, "gives": settings["gives"] if layout == "frames" else "stacks"})
    more = {"block_rows": 1} if layout == "frames" else {}
    with gpureplay.ReplayBuffer(capacity, world.fields(**MORE), layout=layout, max_batch=2, **more,
                                **world.settings()) as buffer:
        play(buffer, world, [*schedule, 20])
        check(buffer, world, most=2)


# Files with open episodes, which continue in another buffer or in the same one.


SAVED_WAYS = {
    "rows": {},  # the library does not track episodes
    "n steps": {"n_step": 4},
    "stacks": {"stack": 3, "pad": "repeat"},
    "frames": {"stack": 3, "n_step": 3, "gives": "frames", "axis": "last", "dtype": "float32"},
}


def make_saved(world):
    more = {"previous": "int64"} if world.n_step > 1 or world.stack > 1 else {}
    return gpureplay.ReplayBuffer(10_000, world.fields(**more), layout="frames" if world.stack > 1 else None,
                                  **world.settings())


@needs_files
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", SAVED_WAYS)
def test_open_episodes_go_on(way, mode, tmp_path):
    """Saved after each of 12 steps, of which some ended episodes. The first step after a load is checked like any
    other."""
    world, ends, checked = World(7, num_envs=3, mode=mode, **SAVED_WAYS[way]), set(), 0
    with make_saved(world) as saved:
        give(saved, world, 15)
        for number in range(12):
            saved.save(tmp_path / "buffer")
            ends.add(sum(world.over))
            went_on = copy.deepcopy(world)
            with make_saved(world) as other:
                other.load(tmp_path / "buffer")
                is_open = [mode == "same_step" or not over for over in went_on.over]
                given = step_of(other, copy.deepcopy(went_on))
                for env in np.flatnonzero(is_open) if way != "rows" else ():
                    obs = given["obs"].copy()
                    obs[env] += 1
                    refused(other, ValueError, f"obs of environment {env} is not the next_obs", **{**given, "obs": obs})
                    checked += 1
                give(other, went_on, 21 + number)
                check(other, went_on)
            give(saved, world, 1)
        assert (checked > 10 or way == "rows") and (len(ends) > 1 or mode == "same_step")


@needs_files
@pytest.mark.parametrize("way", SAVED_WAYS)
def test_a_loaded_buffer_and_its_writers_are_where_they_were(way, tmp_path):
    world = World(8, num_envs=2, mode="next_step", **SAVED_WAYS[way])
    with make_saved(world) as buffer:
        second = World(9, num_envs=2, mode="next_step", **SAVED_WAYS[way])
        writer = buffer.writer(2, "next_step")
        give(buffer, world, 20)
        writer.add(**step_of(buffer, second))
        buffer.save(tmp_path / "buffer")
        state = copy.deepcopy(world), copy.deepcopy(second)
        give_only(writer, second, 7)
        give_only(buffer, world, 7)
        buffer.load(tmp_path / "buffer")
        world, second = state
        before = buffer.stats.appended
        given = [give_only(buffer, world, 9), give_only(writer, second, 9)]
        assert buffer.stats.appended - before == sum(given)


def give_only(target, world, steps):
    """Adds steps. Returns the sum of what `add` returned, which the model must confirm."""
    added, before = 0, len(world.rows)
    for _ in range(steps):
        added += target.add(**{name: value for name, value in world.step().items() if name != "tag"})
    assert added == len(world.rows) - before
    return added


@needs_files
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", SAVED_WAYS)
@pytest.mark.parametrize("is_before", [True, False], ids=["before the save", "after the load"])
def test_a_reset_beside_a_file_ends_what_was_open(is_before, way, mode, tmp_path):
    """Before a save the library is told to begin episodes of zeros, because their first observation is not known."""
    world = World(12, num_envs=2, mode=mode, **SAVED_WAYS[way])
    with make_saved(world) as saved, make_saved(world) as other:
        give(saved, world, 15)
        if is_before:
            saved.reset()
        saved.save(tmp_path / "buffer")
        other.load(tmp_path / "buffer")
        if not is_before:
            other.reset()
        world.reset()
        check(other, world)
        give(other, world, 20)
        check(other, world)


@needs_files
@pytest.mark.parametrize("way", SAVED_WAYS)
def test_a_writer_made_after_a_load_takes_over_what_the_file_had_open(way, tmp_path):
    worlds = [World(seed, num_envs=envs, mode="next_step", **SAVED_WAYS[way]) for seed, envs in ((4, 2), (6, 3))]
    with make_saved(worlds[0]) as saved, make_saved(worlds[0]) as other:
        writer = saved.writer(3, "next_step")
        for target, world in zip((saved, writer), worlds):
            give_only(target, world, 3)
            while not any(world.over):
                give_only(target, world, 1)
        saved.save(tmp_path / "buffer")
        other.load(tmp_path / "buffer")
        writer = other.writer(3, "next_step")
        for target, world in zip((other, writer), worlds):
            give_only(target, world, 20)
        got, rows = other.gather(range(len(other))), worlds[0].rows + worlds[1].rows
        found = sorted(one.tobytes() + last.tobytes() for one, last in zip(got.obs, got.next_obs))
        assert found == sorted(row["obs"].tobytes() + row["next_obs"].tobytes() for row in rows)


@needs_files
@pytest.mark.parametrize("way", SAVED_WAYS)
def test_after_a_file_that_is_refused_the_episodes_go_on(way, tmp_path):
    world = World(5, num_envs=2, mode="next_step", **SAVED_WAYS[way])
    with make_saved(world) as buffer:
        give(buffer, world, 13)
        buffer.save(tmp_path / "buffer")
        file = bytearray((tmp_path / "buffer").read_bytes())
        file[-3] ^= 1
        (tmp_path / "buffer").write_bytes(file)
        for _ in range(3):
            with pytest.raises(gpureplay.FileError):
                buffer.load(tmp_path / "buffer")
            give(buffer, world, 7)
        check(buffer, world)
