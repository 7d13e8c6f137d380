# SPDX-License-Identifier: MIT
"""This repository's buffer in the place of Stable-Baselines3's."""

from __future__ import annotations

from typing import Any

import gpureplay
from gpureplay import sb3
from gymnasium import spaces

from .sb3_buffer import Sb3


class OursSb3(Sb3):
    package = "gpureplay"
    as_used = ("gpureplay.sb3.ReplayBuffer, given what Stable-Baselines3's is given; draws on the device. Steps "
               "are checked for NaN.")

    @classmethod
    def version(cls) -> str:
        return gpureplay.__version__

    def options(self) -> dict[str, Any]:
        """Of the buffer, beside Stable-Baselines3's."""
        return {}

    def make(self, observations: spaces.Box, actions: spaces.Discrete) -> Any:
        return sb3.ReplayBuffer(self.capacity, observations, actions, self.settings.device, n_envs=self.chunk,
                                seed=self.settings.seed, **self.options())

    def close(self) -> None:
        self._buffer.close()


CONTESTANT = OursSb3
