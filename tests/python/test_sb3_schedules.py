# SPDX-License-Identifier: MIT
"""gpureplay.sb3 by random schedules: batches of many sizes are sampled, held and dropped while steps are added, and no
tensor changes. Skipped where PyTorch is missing."""

import os
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
spaces = pytest.importorskip("gymnasium").spaces

import gpureplay  # noqa: E402 (after the skips)
from gpureplay import sb3  # noqa: E402

DEVICES = os.environ.get("GPUR_TEST_DEVICES", "cpu,cuda:0").split(",")
BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (2, 5), np.uint8)
DICT = spaces.Dict({"felt": BOX, "seen": IMAGE})
ARM = spaces.Box(-1.0, 1.0, (2,), np.float32)
SIZES = (1, 31, 32, 33, 64, 65, 100, 128, 129, 256, 300, 511)
KINDS = {
    "plain": lambda **more: sb3.ReplayBuffer(900, BOX, ARM, n_envs=3, max_batch=256, **more),
    "dict": lambda **more: sb3.ReplayBuffer(900, DICT, ARM, n_envs=3, max_batch=256, **more),
    "once": lambda **more: sb3.ReplayBuffer(900, BOX, ARM, n_envs=3, optimize_memory_usage=True, **more),
    "by priority": lambda **more: sb3.PrioritizedReplayBuffer(900, BOX, ARM, n_envs=3, **more),
    "by priority, dict": lambda **more: sb3.PrioritizedReplayBuffer(900, DICT, ARM, n_envs=3, **more),
    "by priority, once": lambda **more: sb3.PrioritizedReplayBuffer(900, BOX, ARM, n_envs=3, optimize_memory_usage=True,
                                                                    **more),
}


def felt(numbers):
    """The observation of each number, (count, 3)."""
    return np.stack([numbers, numbers + 1000, numbers * 0.5], axis=-1).astype(np.float32)


def seen(numbers):
    return (np.asarray(numbers)[:, None, None] * 7 + np.arange(10).reshape(2, 5)).astype(np.uint8)


def observations(buffer, numbers):
    return {"felt": felt(numbers), "seen": seen(numbers)} if buffer._keys else felt(numbers)


class Steps:
    """Transition `number` is of environment number % 3; the reward is its number. Transition number + 3 follows it."""

    def __init__(self, buffer):
        self.buffer, self.next = buffer, 0

    def add(self):
        numbers = np.arange(self.next, self.next + 3)
        done = numbers % 10 == 0
        self.buffer.add(observations(self.buffer, numbers), observations(self.buffer, numbers + 3),
                        np.stack([numbers, -numbers], axis=-1) / 1e4, numbers.astype(np.float32), done,
                        [{"TimeLimit.truncated": bool(cut)} for cut in numbers % 20 == 0])
        self.next += 3

    def check(self, batch, size):
        numbers = batch.rewards[:, 0].cpu().numpy().astype(int)
        assert len(numbers) == size and (0 <= numbers).all() and (numbers < self.next).all()
        for found, wanted in ((batch.observations, numbers), (batch.next_observations, numbers + 3)):
            assert_same(found, observations(self.buffer, wanted))
        assert_same(batch.actions, (np.stack([numbers, -numbers], axis=-1) / 1e4).astype(np.float32))
        assert_same(batch.dones, ((numbers % 10 == 0) & (numbers % 20 != 0)).astype(np.float32)[:, None])
        if isinstance(self.buffer, sb3.PrioritizedReplayBuffer):
            assert_same(batch.indices, numbers)
            assert batch.weights.shape == (size, 1) and bool(((batch.weights > 0) & (batch.weights <= 1)).all())


def assert_same(found, wanted):
    if isinstance(wanted, dict):
        for key in wanted:
            assert_same(found[key], wanted[key])
    else:
        assert found.shape == wanted.shape and (found.cpu().numpy() == wanted).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("device", DEVICES)
def test_every_tensor_is_what_its_reward_says(device, kind, seed):
    if device.startswith("cuda") and not torch.cuda.is_available():
        pytest.skip(f"PyTorch has no {device} here")
    try:
        buffer = KINDS[kind](device=device)
    except gpureplay.Unavailable as error:
        pytest.skip(str(error))
    draw, held, steps = random.Random(seed), [], Steps(buffer)
    for _ in range(100):
        steps.add()
    for _ in range(250):
        call = draw.choice(("add", "sample", "sample", "sample", "positions", "release"))
        size = min(draw.choice(SIZES), buffer._max_batch if "priority" in kind else 10**9)
        if call == "add":
            for _ in range(draw.choice((1, 1, 20))):
                steps.add()
        elif call == "release" and held:
            held.pop(draw.randrange(len(held)))
        elif call != "release":
            positions = np.array([draw.randrange(buffer.size()) for _ in range(size)])
            by_positions = call == "positions" and "once" not in kind
            batch = buffer._get_samples(positions) if by_positions else buffer.sample(size)
            steps.check(batch, size)
            assert batch.rewards.min() >= steps.next - 900  # of the last steps alone
            if "priority" in kind and call == "sample":
                buffer.update_priorities(batch.indices, torch.rand(size, 1).to(batch.weights.device))
            if draw.random() < 0.5 and len(held) < 9:
                held.append((batch, size))
        if draw.random() < 0.2:
            for each in held:
                steps.check(*each)
    buffer.close()
    for each in held:
        steps.check(*each)
