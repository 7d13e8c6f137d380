# SPDX-License-Identifier: MIT
"""The replay in other people's agents: buffers with the signature of Stable-Baselines3's and CleanRL's.

Stable-Baselines3, any off-policy algorithm (DQN, SAC, TD3, DDPG; Box and Dict observations):

    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=gpureplay.sb3.ReplayBuffer)

CleanRL, dqn.py and what else has `rb = ReplayBuffer(...)`: one import changes.

    from cleanrl_utils.buffers import ReplayBuffer              # as it was; before 2025:
    from stable_baselines3.common.buffers import ReplayBuffer   # as it was
    from gpureplay.sb3 import ReplayBuffer                      # as it is now

Each observation kept once, and returns of several steps:

    model = DQN(..., replay_buffer_class=gpureplay.sb3.ReplayBuffer, optimize_memory_usage=True,
                replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99})

By priority: PrioritizedReplayBuffer, which says what an agent must do for it.

Needs PyTorch; Stable-Baselines3 only where it is the one that asks.
"""

from __future__ import annotations

from ._sb3_buffer import ReplayBuffer
from ._sb3_priority import PrioritizedReplayBuffer
from ._sb3_types import PrioritizedReplayBufferSamples

__all__ = ["PrioritizedReplayBuffer", "PrioritizedReplayBufferSamples", "ReplayBuffer"]

for _kind in (ReplayBuffer, PrioritizedReplayBuffer, PrioritizedReplayBufferSamples):
    _kind.__module__ = __name__  # where pickles look for them
