# SPDX-License-Identifier: MIT
"""What a run can look at while it goes: whether the replay has what the agent saw, and whether the agent learns."""

import numpy as np

from atari_env import pushed


def check_stacks(buffer, seen, next_obs):
    """What the agent saw, and what that led to, are what the replay makes of the frames that it stores."""
    stats = buffer.stats
    batch = buffer.gather(np.arange(len(seen)) + stats.first_id + stats.visible - len(seen))
    for name, wanted in ("obs", seen), ("next_obs", pushed(seen, next_obs)):
        if not np.array_equal(np.asarray(batch[name]), wanted):
            raise AssertionError(f"{name} is not what the agent saw")


def check_loss(agent, buffer, rounds=10, steps=10, batch=32):
    """On transitions that do not change, those with a reward first, the loss falls."""
    agent.sync()
    stats, losses = buffer.stats, [agent.stats.mean_loss]  # of the run; then of the steps since the stats before
    ids = stats.first_id + np.arange(stats.visible)
    rewards = np.concatenate([np.asarray(buffer.gather(part).reward) for part in np.array_split(ids, 16)])
    ids = ids[np.argsort(-np.abs(rewards), kind="stable")][:batch]
    for _ in range(rounds):
        for _ in range(steps):
            agent.train_ids(ids)
        agent.sync()
        losses.append(agent.stats.mean_loss)
    print("loss on a fixed replay:", *(f"{loss:.4f}" for loss in losses[1:]))
    if not losses[-1] < 0.9 * losses[1]:
        raise AssertionError("the loss does not fall")
