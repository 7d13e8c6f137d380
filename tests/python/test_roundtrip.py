# SPDX-License-Identifier: MIT
"""Transitions in and out: every dtype and shape, and Dict spaces of many leaves. test_batches.py has random calls."""

import gpureplay
import gymnasium
import numpy as np
import pytest
from support import DTYPES, TRANSITION, block, same

# Every dtype and shape, in and out, and a batch's own arrays.


SHAPES = [(), (1,), (27,), (4, 3), (2, 3, 2), (8, 8, 4), (1, 2, 1, 2, 1, 3)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_field_comes_out_as_it_went_in(shape, dtype):
    fields = {"x": (shape, dtype), "beside": ((), "uint8")}
    with gpureplay.ReplayBuffer(64, fields, device="cpu", block_rows=5) as buffer:
        rows = block(fields, 0, 100)
        buffer.extend(**rows)
        batch = buffer.sample(32)
        assert all(same(batch[name], rows[name][batch.id]) for name in fields)
        ids = np.arange(36, 100)[::-2]
        assert all(same(buffer.gather(ids)[name], rows[name][ids]) for name in fields)


@pytest.mark.parametrize("num_envs", [1, 5, 3000])
def test_a_step_of_every_environment_goes_in_at_once(num_envs):
    """3000: more bytes than are staged."""
    with gpureplay.ReplayBuffer(20_000, TRANSITION, device="cpu", num_envs=num_envs, autoreset="disabled") as buffer:
        for step in range(3):
            assert buffer.add(**block(TRANSITION, step * num_envs, num_envs)) == num_envs
        rows, ids = block(TRANSITION, 0, 3 * num_envs), range(0, 3 * num_envs, max(1, num_envs // 100))
        batch = buffer.gather(ids)
        assert all(same(batch[name], rows[name][list(ids)]) for name in TRANSITION)


def test_the_same_seed_draws_the_same():
    def draws(seed):
        with gpureplay.ReplayBuffer(64, TRANSITION, device="cpu", seed=seed) as buffer:
            buffer.extend(**block(TRANSITION, 0, 64))
            batch = buffer.sample(16)
            assert batch.weights is batch.weight is batch["weights"] and batch.ids is batch["id"]
            return [buffer.sample(16).id.tolist() for _ in range(5)]

    assert draws(4) == draws(4) != draws(5)


def test_a_batch_is_read_by_name():
    fields = {"obs": ((2,), "float32"), "keys": ((), "int32"), "device": ((), "int64"), "_views": ((), "uint8"),
              "weights": ((), "float32")}
    with gpureplay.ReplayBuffer(64, fields, device="cpu") as buffer:
        rows = block(fields, 0, 20)
        buffer.extend(**rows)
        batch = buffer.sample(8)
        assert batch.keys() == [*fields, "discount", "weight", "id"] == [name for name, _ in batch.items()]
        assert all(array is batch[name] for name, array in batch.items())
        assert all(same(batch[name], rows[name][batch.id]) for name in fields)
        assert batch.obs is batch["obs"] and batch.ids is batch.id is batch.indices and batch.device == "cpu"
        assert batch.weights is batch["weights"] and batch.weights is not batch.weight
        assert {*dict(batch)} == {*batch.keys()} and "obs" in batch and "nothing" not in batch
        again = buffer.sample(8)
        assert all(same(again[name], rows[name][again.id]) for name in fields)


# Dict spaces of many leaves with long names, as robot simulators give them.


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


def test_the_first_single_step_is_drawn():
    with gpureplay.ReplayBuffer(100, {"x": "int64"}, device="cpu") as buffer:
        for row in range(250):
            buffer.add(x=row)
            assert len(buffer) == min(row + 1, 100)
            assert buffer.gather([row]).x.tolist() == [row]
            assert buffer.sample(32).x.max() <= row
