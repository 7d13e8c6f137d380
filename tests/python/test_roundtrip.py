# SPDX-License-Identifier: MIT
"""Every dtype and shape, in and out, and a batch's own arrays."""

import gpureplay
import numpy as np
import pytest
from rows import DTYPES, TRANSITION, block, same

SHAPES = [(), (1,), (27,), (4, 3), (2, 3, 2), (8, 8, 4), (1, 2, 1, 2, 1, 3)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_field_comes_out_as_it_went_in(shape, dtype):
    fields = {"x": (shape, dtype), "beside": ((), "uint8")}
    with gpureplay.ReplayBuffer(64, fields, device="cpu", update_size=5) as buffer:
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


def test_discount_is_gamma_but_where_it_terminated():
    with gpureplay.ReplayBuffer(64, TRANSITION, device="cpu", gamma=0.5, reward_clip=2.0) as buffer:
        rows = block(TRANSITION, 0, 40)
        buffer.extend(**rows)
        batch = buffer.sample(16)
        assert (batch.discount == np.where(rows["terminated"][batch.id], 0, 0.5)).all()
        assert same(batch.reward, np.clip(rows["reward"], -2, 2)[batch.id])


def test_a_distinct_draw_has_no_row_twice():
    with gpureplay.ReplayBuffer(64, TRANSITION, device="cpu", distinct=True, max_batch=32, min_size=32) as buffer:
        buffer.extend(**block(TRANSITION, 0, 31))
        assert not buffer.can_sample
        buffer.extend(**block(TRANSITION, 31, 9))
        assert buffer.can_sample
        for _ in range(50):
            assert len(set(buffer.sample(32).id.tolist())) == 32


def test_the_same_seed_draws_the_same():
    def draws(seed):
        with gpureplay.ReplayBuffer(64, TRANSITION, device="cpu", seed=seed) as buffer:
            buffer.extend(**block(TRANSITION, 0, 64))
            return [buffer.sample(16).id.tolist() for _ in range(5)]

    assert draws(4) == draws(4) != draws(5)


def test_a_batch_is_read_by_name():
    fields = {"obs": ((2,), "float32"), "keys": ((), "int32"), "device": ((), "int64"), "_views": ((), "uint8"),
              "weights": ((), "float32")}
    with gpureplay.ReplayBuffer(64, fields, device="cpu") as buffer:
        rows = block(fields, 0, 20)
        buffer.extend(**rows)
        batch = buffer.sample(8)
        assert batch.keys() == [*fields, "discount", "weight", "id"]
        assert all(same(batch[name], rows[name][batch.id]) for name in fields)
        assert batch.obs is batch["obs"] and batch.ids is batch.id is batch.indices and batch.device == "cpu"
        assert batch.weights is batch["weights"] and batch.weights is not batch.weight
        assert {*dict(batch)} == {*batch.keys()} and "obs" in batch and "nothing" not in batch
        again = buffer.sample(8)
        assert all(same(again[name], rows[name][again.id]) for name in fields)


def test_names_that_a_batch_has_twice_are_one_array():
    with gpureplay.ReplayBuffer(64, TRANSITION, device="cpu") as buffer:
        buffer.extend(**block(TRANSITION, 0, 20))
        batch = buffer.sample(8)
        assert batch.weights is batch.weight is batch["weights"] and batch.ids is batch.indices is batch["id"]


def test_a_plan_tells_what_a_buffer_takes():
    plan = gpureplay.ReplayBuffer.plan(1_000_000, TRANSITION)
    assert plan.row_bytes == 36 and plan.row_pitch == 64 and plan.ring_bytes == 64_000_000
    assert plan.device_bytes >= plan.ring_bytes
