# SPDX-License-Identifier: MIT
"""Saving and loading in the midst of episodes: they go on, in another buffer or in the same one."""

import copy

import gpureplay
import pytest
from steps_model import World, check, give

pytestmark = pytest.mark.skipif("files: none" in gpureplay.lib.gpur_build_info().decode(),
                                reason="the library was built without cJSON or xxHash")
MODES = ("disabled", "next_step", "same_step")
WAYS = {
    "n steps": {"n_step": 4},
    "stacks": {"stack": 3, "pad": "repeat"},
    "frames": {"stack": 3, "n_step": 3, "gives": "frames", "axis": "last", "dtype": "float32"},
}


def make(world):
    return gpureplay.ReplayBuffer(10_000, world.fields(previous="int64"), layout="linked" if world.stack > 1 else None,
                                  **world.settings())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_open_episodes_go_on(way, mode, tmp_path):
    """Saved at 12 moments one after the other, of which some have environments that ended, and some have not."""
    world = World(7, num_envs=3, mode=mode, **WAYS[way])
    with make(world) as saved:
        give(saved, world, 15)
        ends = set()
        for number in range(12):
            saved.save(tmp_path / "buffer")
            ends.add(sum(world.over))
            went_on = copy.deepcopy(world)
            with make(world) as other:
                other.load(tmp_path / "buffer")
                give(other, went_on, 1 + number)
                give(other, went_on, 20)
                check(other, went_on)
            give(saved, world, 1)
        assert len(ends) > 1 or mode == "same_step"


@pytest.mark.parametrize("way", WAYS)
def test_a_loaded_buffer_and_its_writers_are_where_they_were(way, tmp_path):
    world = World(8, num_envs=2, mode="next_step", **WAYS[way])
    with make(world) as buffer:
        second = World(9, num_envs=2, mode="next_step", **WAYS[way])
        writer = buffer.writer(2, "next_step")
        give(buffer, world, 20)
        writer.add(**{name: value for name, value in second.step().items() if name != "tag"})
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
    """What `add` says it completed, which the model must say too."""
    added, before = 0, len(world.rows)
    for _ in range(steps):
        added += target.add(**{name: value for name, value in world.step().items() if name != "tag"})
    assert added == len(world.rows) - before
    return added


@pytest.mark.parametrize("mode", MODES)
def test_after_a_load_a_reset_ends_what_was_open(mode, tmp_path):
    world = World(4, num_envs=2, mode=mode, n_step=4)
    with make(world) as saved, make(world) as other:
        give(saved, world, 18)
        saved.save(tmp_path / "buffer")
        other.load(tmp_path / "buffer")
        other.reset()
        world.reset()
        check(other, world)
        give(other, world, 20)
        check(other, world)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_after_a_load_the_first_step_is_checked_like_any_other(way, mode, tmp_path):
    world, checked = World(11, num_envs=3, mode=mode, **WAYS[way]), 0
    with make(world) as saved:
        give(saved, world, 9)
        for _ in range(8):
            give(saved, world, 1)
            saved.save(tmp_path / "buffer")
            went_on = copy.deepcopy(world)
            with make(world) as other:
                other.load(tmp_path / "buffer")
                is_open = [mode == "same_step" or not over for over in went_on.over]
                given, before = next_step(went_on), other.stats.appended
                for env in range(3):
                    obs = given["obs"].copy()
                    obs[env] += 1
                    if is_open[env]:
                        with pytest.raises(ValueError, match=f"obs of environment {env} is not the next_obs that was"):
                            other.add(**{**given, "obs": obs})
                        checked += 1
                assert other.stats.appended == before
                other.add(**given)
                give(other, went_on, 20)
                check(other, went_on)
    assert checked > 10


def next_step(world):
    return {name: value for name, value in world.step().items() if name != "tag"}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_reset_before_a_save_begins_with_whatever_comes(way, tmp_path):
    """The library was told to begin with zeros, since nobody knew with what."""
    world = World(12, num_envs=2, mode="next_step", **WAYS[way])
    with make(world) as saved, make(world) as other:
        give(saved, world, 12)
        saved.reset()
        world.reset()
        saved.save(tmp_path / "buffer")
        other.load(tmp_path / "buffer")
        give(other, world, 20)
        check(other, world)


def test_a_writer_made_after_a_load_takes_over_what_the_file_had_open(tmp_path):
    worlds = [World(4, num_envs=2, mode="next_step", n_step=4), World(6, num_envs=3, mode="next_step", n_step=4)]
    with make(worlds[0]) as saved, make(worlds[0]) as other:
        writer = saved.writer(3, "next_step")
        for target, world in zip((saved, writer), worlds):
            give_only(target, world, 3)
        assert sum(len(episode.waiting) for episode in worlds[1].episodes) > 1
        saved.save(tmp_path / "buffer")
        other.load(tmp_path / "buffer")
        writer = other.writer(3, "next_step")
        for target, world in zip((other, writer), worlds):
            give_only(target, world, 20)
        got, rows = other.gather(range(len(other))), worlds[0].rows + worlds[1].rows
        found = sorted(one.tobytes() + last.tobytes() for one, last in zip(got.obs, got.next_obs))
        assert found == sorted(row["obs"].tobytes() + row["next_obs"].tobytes() for row in rows)


@pytest.mark.parametrize("way", WAYS)
def test_after_a_file_that_is_refused_the_episodes_go_on(way, tmp_path):
    world = World(5, num_envs=2, mode="next_step", **WAYS[way])
    with make(world) as buffer:
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
