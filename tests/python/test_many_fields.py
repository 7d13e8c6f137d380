# SPDX-License-Identifier: MIT
"""Dict spaces of many leaves with long names, as robot simulators give them."""

import gymnasium
import numpy as np
import pytest

import gpureplay

LEAVES = ["robot0_joint_pos_cos", "robot0_joint_pos_sin", "robot0_joint_vel", "robot0_eef_pos", "robot0_eef_quat",
          "robot0_gripper_qpos", "robot0_gripper_qvel", "robot0_eye_in_hand_image", "object-state"]


def space_of(names):
    return gymnasium.spaces.Dict({name: gymnasium.spaces.Box(-10, 10, (1 + at % 7,), np.float32)
                                  for at, name in enumerate(names)})


def observation(names, count, first):
    """Every number of the step `first + i` is that number plus its leaf's place."""
    steps = first + np.arange(count, dtype=np.float32)[:, np.newaxis]
    return {name: np.repeat(steps + at / 64, 1 + at % 7, axis=1) for at, name in enumerate(names)}


@pytest.mark.parametrize("names", [LEAVES[:7], LEAVES, [f"leaf_{at}_{'x' * 40}" for at in range(30)]],
                         ids=["7", "robosuite", "30"])
def test_every_leaf_comes_back(names):
    action = gymnasium.spaces.Discrete(4)
    buffer = gpureplay.ReplayBuffer(100, space_of(names), action, num_envs=2, device="cpu", max_batch=32,
                                    autoreset="disabled")
    for step in range(0, 80, 2):
        buffer.add(obs=observation(names, 2, step), action=np.arange(2) + step, reward=np.arange(2.0) + step,
                   next_obs=observation(names, 2, step + 1), terminated=np.zeros(2, bool), truncated=np.zeros(2, bool))
    for size in (32, 8):
        batch = buffer.sample(size)
        steps = batch.id.astype(np.float32)[:, np.newaxis]
        assert np.array_equal(batch.reward, batch.id) and np.array_equal(batch.action, batch.id)
        for at, name in enumerate(names):
            assert np.all(batch[f"obs.{name}"] == steps + at / 64), name
            assert np.all(batch[f"next_obs.{name}"] == steps + 1 + at / 64), name


def test_a_linked_buffer_has_many_fields_beside_the_observation():
    extras = {f"extra_{at}": ((1 + at % 3,), np.float32) for at in range(40)}
    fields = {"obs": ((2, 3), np.uint8), "action": ((), np.int64), "reward": ((), np.float32),
              "next_obs": ((2, 3), np.uint8), "terminated": ((), np.bool_), "truncated": ((), np.bool_), **extras}
    buffer = gpureplay.ReplayBuffer(200, fields, device="cpu", frame_stack=2, n_step=3, max_batch=16,
                                    autoreset="disabled")
    frames = np.arange(60, dtype=np.uint8)[:, np.newaxis] + np.zeros(3, np.uint8)
    for step in range(1, 58):
        values = {name: np.full(shape, step + at / 64, np.float32)
                  for at, (name, (shape, _)) in enumerate(extras.items())}
        buffer.add(obs=frames[step - 1:step + 1], action=step, reward=1.0, next_obs=frames[step:step + 2],
                   terminated=False, truncated=False, **values)
    batch = buffer.sample(16)
    assert np.array_equal(batch.obs[:, 1, 0], batch.action)
    assert np.array_equal(batch.next_obs[:, 1, 0], batch.action + 3)
    for at, name in enumerate(extras):
        assert np.all(batch[name].T == batch.action + at / 64), name


def test_too_many_fields_and_too_long_a_name_are_refused():
    with pytest.raises(gpureplay.InvalidArgument, match="field_count is 65; it must be 1 to 64"):
        gpureplay.ReplayBuffer(100, {f"f{at}": np.float32 for at in range(65)}, device="cpu")
    with pytest.raises(gpureplay.InvalidArgument, match="it must have 1 to 63"):
        gpureplay.ReplayBuffer(100, {"x" * 64: np.float32}, device="cpu")
