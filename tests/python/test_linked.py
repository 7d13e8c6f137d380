# SPDX-License-Identifier: MIT
"""Frames that are stored once: the same batches as of whole stacks, and as Gymnasium's own wrapper makes."""

import gpureplay
import numpy as np
import pytest
from rows import same
from steps_model import World, give

gymnasium = pytest.importorskip("gymnasium", minversion="1.1")
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402 (after the skip)
from gymnasium.wrappers import FrameStackObservation  # noqa: E402
from worlds import WORLDS  # noqa: E402

MODES = [pytest.param(mode, id=mode.name.lower()) for mode in AutoresetMode]
PADS = {"zero": "zero", "repeat": "reset"}  # ours: Gymnasium's
ENVS, STACK = 3, 4


def same_batches(*buffers):
    """Bit for bit, of the same draws."""
    assert len({len(buffer) for buffer in buffers}) == 1 and len(buffers[0]) > 100
    for size in (1, 32, 100) * 4:
        first, *others = (buffer.sample(size) for buffer in buffers)
        for batch in others:
            assert batch.keys() == first.keys()
            for name in batch.keys():
                assert same(batch[name], first[name]), name


@pytest.mark.parametrize("mode", ["disabled", "next_step", "same_step"])
@pytest.mark.parametrize("prioritized", [False, True, "plain"])
def test_packed_and_linked_give_the_same_batches(mode, prioritized):
    for seed, (axis, pad, n_step) in enumerate((("first", "zero", 1), ("last", "repeat", 3), ("first", "repeat", 6))):
        worlds = [World(seed, num_envs=ENVS, mode=mode, stack=STACK, axis=axis, pad=pad, n_step=n_step, gives=gives)
                  for gives in ("stacks", "stacks", "frames")]
        packed, stacks, frames = (
            gpureplay.ReplayBuffer(5000, world.fields(), layout=layout, max_batch=100, prioritized=prioritized, seed=3,
                                   **world.settings())
            for world, layout in zip(worlds, ("packed", "linked", None)))
        with packed, stacks, frames:
            for buffer, world in zip((packed, stacks, frames), worlds):
                give(buffer, world, 120)
                if prioritized:
                    buffer.gather([0])  # from now on they are seen
                    buffer.update_priorities(np.arange(0, 100), np.arange(0, 100))
            same_batches(packed, stacks, frames)
            assert not prioritized or frames.priority_stats[-3:] == (100, 0, 0)


def test_the_slack_is_as_many_environments_need():
    """Of the default that is for 64, a hundred would store most frames again and again."""
    settings = {"frame_stack": 4, "layout": "linked", "num_envs": 100}
    fields = {"obs": ((4, 2), "uint8"), "action": "int32", "reward": "float32", "next_obs": ((4, 2), "uint8"),
              "terminated": "bool"}
    assert gpureplay.ReplayBuffer.plan(300, fields, **settings).frame_reach == 100 * (4 + 2)
    assert gpureplay.ReplayBuffer.plan(300, fields, **{**settings, "num_envs": 64}).frame_reach == 64 * (4 + 2)
    assert gpureplay.ReplayBuffer.plan(300, fields, **settings, frame_slack=700).frame_reach == 700
    obs = np.zeros((100, 4, 2), np.uint8)
    zeros = {name: np.zeros(100, fields[name]) for name in ("action", "reward", "terminated")}
    with gpureplay.ReplayBuffer(300, fields, device="cpu", autoreset="disabled", **settings) as buffer:
        for step in range(1, 12):
            after = np.concatenate([obs[:, 1:], np.full((100, 1, 2), step, np.uint8)], axis=1)
            buffer.add(obs=obs, next_obs=after, **zeros)
            obs = after
        assert (len(buffer), buffer.stats.frames_stored) == (300, 12 * 100)


def test_each_frame_is_stored_once():
    """One more an episode than it has transitions; and what is stored is what was planned."""
    world = World(1, num_envs=ENVS, stack=STACK, gives="frames", mode="same_step")
    with gpureplay.ReplayBuffer(5000, world.fields(), **world.settings()) as buffer:
        give(buffer, world, 300)
        episodes = sum(bool(row["terminated"] or row["truncated"]) for row in world.rows)
        # An episode that has begun stores its first frame with its first transition.
        begun = episodes + sum(len(episode.frames) > 1 for episode in world.episodes)
        assert buffer.stats.frames_stored == len(world.rows) + begun
    plan = gpureplay.ReplayBuffer.plan(5000, world.fields(), **world.settings())
    assert (plan.frame_bytes, plan.frame_pitch, plan.frames) == (6, 16, 5000 + 64 * (STACK + 2))
    assert plan.frame_ring_bytes == plan.frames * plan.frame_pitch and plan.frame_reach >= 5000 // 64


def vector(mode, wrap):
    return SyncVectorEnv([lambda: wrap(WORLDS["CartPole"]())] * ENVS, autoreset_mode=mode)


def drive(env, buffer, steps=80):
    """The same actions for every call."""
    random = np.random.default_rng(5)
    obs, _ = env.reset(seed=11)
    for number in range(steps):
        action = random.integers(0, 2, ENVS)
        next_obs, reward, terminated, truncated, info = env.step(action)
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated,
                   truncated=truncated, info=info)
        obs, ended = next_obs, terminated | truncated
        if env.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})
        if number == 40:
            obs, _ = env.reset(seed=12)
            buffer.reset()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("n_step", [1, 3])
def test_stacks_are_gymnasiums(pad, mode, n_step):
    """Frames of the bare environments, and stacks of wrapped ones that step alike: packed, or taken apart again."""
    bare = vector(mode, lambda env: env)
    stacked = vector(mode, lambda env: FrameStackObservation(env, STACK, padding_type=PADS[pad]))
    options = {"device": "cpu", "max_batch": 100, "n_step": n_step, "seed": 1}
    of_frames = gpureplay.ReplayBuffer.for_env(3000, bare, frame_stack=STACK, observations="frames", stack_pad=pad,
                                               **options)
    of_stacks = gpureplay.ReplayBuffer.for_env(3000, stacked, frame_stack=STACK, stack_pad=pad, **options)
    packed = gpureplay.ReplayBuffer.for_env(3000, stacked, layout="packed", **options)
    with of_frames, of_stacks, packed:
        for env, buffer in ((bare, of_frames), (stacked, of_stacks), (stacked, packed)):
            drive(env, buffer)
        assert of_frames.sample(7).obs.shape == of_stacks.sample(7).obs.shape == packed.sample(7).obs.shape == \
            (7, STACK, 4)
        same_batches(of_frames, of_stacks, packed)
    for env in (bare, stacked):
        env.close()
