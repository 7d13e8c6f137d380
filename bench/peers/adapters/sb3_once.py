# SPDX-License-Identifier: MIT
"""Stable-Baselines3's buffer that keeps each observation once."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer

from .sb3_buffer import Sb3


class Sb3Once(Sb3):
    as_used = ("ReplayBuffer(..., optimize_memory_usage=True, handle_timeout_termination=False), which it wants "
               "together: an episode's last observation is overwritten, and time limits count as ends.")

    def make(self, observations: spaces.Box, actions: spaces.Discrete) -> Any:
        return ReplayBuffer(self.capacity, observations, actions, self.settings.device, n_envs=self.chunk,
                            optimize_memory_usage=True, handle_timeout_termination=False)


CONTESTANT = Sb3Once
