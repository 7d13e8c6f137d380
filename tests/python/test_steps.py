# SPDX-License-Identifier: MIT
"""Feeding by steps: what is refused, and that nothing has changed then; resets, interrupts, writers and threads."""

import threading

import gpureplay
import numpy as np
import pytest
from steps_model import World, check, give

MODES = ("disabled", "next_step", "same_step")
WAYS = {
    "n steps": ({"n_step": 3}, {}),
    "linked stacks": ({"stack": 3}, {}),
    "linked frames of n steps": ({"stack": 3, "n_step": 3, "gives": "frames", "dtype": "float32"}, {}),
    "previous": ({}, {"previous": "int64"}),
}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def make(way, mode="next_step", seed=5, num_envs=2, **settings):
    of, fields = way
    world = World(seed, mode=mode, num_envs=num_envs, **of)
    return gpureplay.ReplayBuffer(10_000, world.fields(**fields), **{**world.settings(), **settings}), world


def step_without(world, *names):
    return {name: value for name, value in world.step().items() if name not in ("tag", *names)}


def refused(buffer, error, text, **values):
    before = buffer.stats.appended
    with pytest.raises(error, match=text):
        buffer.add(**values)
    assert buffer.stats.appended == before


def test_an_array_that_the_environment_writes_into_is_found_out():
    """A vector that gives one array again and again: what was `obs` is `next_obs` by the time of `add`."""
    buffer, world = make(WAYS["n steps"], num_envs=1)
    with buffer:
        held = step_without(world)
        while world.over[0]:
            held = step_without(world)
        buffer.add(**held)
        given = step_without(world)
        held["next_obs"][...] = given["next_obs"]
        refused(buffer, ValueError, "obs of environment 0 is not", **{**given, "obs": held["next_obs"]})


def test_after_an_end_the_new_episode_must_follow():
    """Under "same_step" its first observation was given with the end."""
    buffer, world = make(WAYS["n steps"], "same_step")
    with buffer:
        ends = 0
        while ends < 5:
            given = step_without(world)
            buffer.add(**given)
            ended = given["terminated"] | given["truncated"]
            if ended.any():
                ends += 1
                given = step_without(world)
                given["obs"][ended] += 1
                refused(buffer, ValueError, f"obs of environment {ended.argmax()} is not the next_obs", **given)
                given["obs"][ended] -= 1
                buffer.add(**given)
        check(buffer, world)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["obs", "next_obs", "reward", "final_obs"])
def test_nan_is_refused(name, mode):
    buffer, world = make(WAYS["linked frames of n steps"], mode)
    with buffer:
        for _ in range(40):
            if name == "obs":
                buffer.reset()
                world.reset()
            given = step_without(world)
            bad = {**given, name: np.full_like(given[name], np.nan)}
            is_read = name != "final_obs" or (mode == "same_step" and (given["terminated"] | given["truncated"]).any())
            if is_read:
                refused(buffer, ValueError, f"{name} has NaN", **bad)
            buffer.add(**given)
        check(buffer, world)


def test_the_first_observation_of_all_must_be_numbers():
    buffer, world = make(WAYS["linked frames of n steps"])
    with buffer:
        given = step_without(world)
        refused(buffer, ValueError, "obs has NaN", **{**given, "obs": np.full_like(given["obs"], np.nan)})
        buffer.add(**given)
        give(buffer, world, 20)


def test_what_the_library_refuses_changes_nothing():
    buffer, world = make(WAYS["linked stacks"], "disabled")
    with buffer:
        give(buffer, world, 20)
        for _ in range(20):
            over = list(world.over)
            given = step_without(world)
            wrong = given["next_obs"].copy()
            wrong[:, 1] += 1
            refused(buffer, gpureplay.InvalidArgument, "next_obs of environment 0 has a frame 1 of its stack",
                    **{**given, "next_obs": wrong})
            if not all(over):
                refused(buffer, ValueError, "obs of environment [01] is not", **{**given, "obs": given["obs"] + 1})
            buffer.add(**given)
        check(buffer, world)


def test_who_ended_may_not_end_again():
    buffer, world = make(WAYS["n steps"], "next_step", num_envs=1)
    with buffer:
        while not world.over[0] or not world.rows:
            give(buffer, world, 1)
        given = step_without(world)
        refused(buffer, gpureplay.InvalidArgument, "it ends again", **{**given, "terminated": np.ones(1, bool)})
        assert buffer.add(**given) == 0
        give(buffer, world, 30)
        check(buffer, world)


def test_what_a_step_fills_in_is_not_given():
    buffer, world = make(({"n_step": 3}, {"previous": "int64", "discount": "float32"}))
    with buffer:
        for name in ("discount", "previous"):
            refused(buffer, TypeError, rf"unknown \['{name}'\]; the fields are obs, action", **step_without(world),
                    **{name: np.zeros(2)})
        refused(buffer, TypeError, r"missing \['reward'\]", **step_without(world, "reward"))
        refused(buffer, ValueError, r"obs has shape \(2, 2\)",
                **{**step_without(world), "obs": np.zeros((2, 2), np.uint8)})
    assert [field.name for field in buffer.fields][-2:] == ["previous", "discount"]


def test_a_last_observation_is_asked_for():
    buffer, world = make(WAYS["linked frames of n steps"], "same_step")
    with buffer:
        for _ in range(40):
            given = step_without(world)
            if (given["terminated"] | given["truncated"]).any():
                refused(buffer, ValueError, "its last next_obs is not given",
                        **{name: value for name, value in given.items() if name != "final_obs"})
            buffer.add(**given)
        check(buffer, world)


def test_an_episode_is_cut_without_a_field_for_it():
    """`truncated` tells the writer, stored or not."""
    world = World(3, n_step=3, mode="disabled")
    fields = {name: of for name, of in world.fields().items() if name != "truncated"}
    with gpureplay.ReplayBuffer(1000, fields, **world.settings()) as buffer:
        give(buffer, world, 60)
        assert any(row["truncated"] for row in world.rows)
        check(buffer, world)


def test_finished_rows():
    """A packed buffer takes them, `discount` with them, beside open episodes. A linked one has no place for them."""
    buffer, world = make(WAYS["n steps"], num_envs=1)
    rows = {field.name: np.ones((5, *field.shape), field.dtype) for field in buffer.fields}
    with buffer:
        assert buffer.extend(**rows) == 5
        given = step_without(world)
        assert buffer.add(**given) == 0 and buffer.extend(**rows) == 5
        assert buffer.gather(range(10)).discount.tolist() == [1] * 10
        with pytest.raises(TypeError, match="missing.*discount"):
            buffer.extend(**{name: rows[name] for name in rows if name != "discount"})
    buffer, _ = make(WAYS["linked stacks"])
    with buffer, pytest.raises(gpureplay.InvalidArgument, match="finished rows do not tell to which episode"):
        buffer.extend(**{field.name: np.ones((5, *field.shape), field.dtype) for field in buffer.fields})


@pytest.mark.parametrize("mode", MODES)
def test_ctrl_c_at_the_worst_moment(way, mode, monkeypatch):
    """The library has taken the step, and nobody was told: the episodes go on all the same."""
    buffer, world = make(way, mode)
    real, calls = buffer._writer._call, []

    def call(function, *arguments):
        real(function, *arguments)
        calls.append(function)
        if len(calls) % 7 == 0:
            raise KeyboardInterrupt

    with buffer:
        monkeypatch.setattr(buffer._writer, "_call", call)
        for _ in range(80):
            given = step_without(world)
            while True:
                try:
                    buffer.add(**given)
                    break
                except KeyboardInterrupt:
                    if calls[-1] is gpureplay.lib.gpur_writer_step_with:
                        break
        check(buffer, world)


@pytest.mark.parametrize("mode", MODES)
def test_after_ctrl_c_the_next_step_is_checked_like_any_other(way, mode, monkeypatch):
    buffer, world = make(way, mode)
    real, checked = buffer._writer._call, 0

    def call(function, *arguments):
        real(function, *arguments)
        if function is gpureplay.lib.gpur_writer_step_with:
            raise KeyboardInterrupt

    with buffer:
        for _ in range(30):
            with monkeypatch.context() as patch:
                patch.setattr(buffer._writer, "_call", call)
                buffer._writer._by_steps.forget()  # the extension leaves it to Python
                with pytest.raises(KeyboardInterrupt):
                    buffer.add(**step_without(world))
            is_open = [mode == "same_step" or not over for over in world.over]
            given = step_without(world)
            if is_open[1]:
                obs = given["obs"].copy()
                obs[1] += 1
                refused(buffer, ValueError, "obs of environment 1 is not the next_obs", **{**given, "obs": obs})
                checked += 1
            buffer.add(**given)
        assert checked > 10
        check(buffer, world)


def test_writers_in_threads_have_episodes_of_their_own(way):
    buffer, _ = make(way, n_step=2)
    counts = []

    def run(seed):
        writer, added = buffer.writer(3, "same_step"), 0
        world = World(seed, num_envs=3, mode="same_step", **{**way[0], "n_step": 2})
        for _ in range(50):
            added += writer.add(**step_without(world))
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
        writer.add(**step_without(world))
        writer.close()
        for call in (lambda: writer.add(**step_without(world)), writer.reset):
            with pytest.raises(gpureplay.Closed, match="this writer was closed"):
                call()
        assert buffer.stats.episodes_cut == 2
    with pytest.raises(gpureplay.Closed):
        buffer.add(**step_without(world))


def test_one_environment_needs_no_axis(way):
    buffer, world = make(way, None, num_envs=1)
    with buffer:
        world.mode = "disabled"
        for _ in range(60):
            given = {name: value[0] for name, value in step_without(world).items()}
            before = len(buffer)
            added = buffer.add(**given)
            assert len(buffer) == before + added
        check(buffer, world)
