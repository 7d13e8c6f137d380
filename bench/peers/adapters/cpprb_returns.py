# SPDX-License-Identifier: MIT
"""cpprb, by priority and of returns of several steps."""

from __future__ import annotations

from typing import Any

import cpprb
from workloads import Schema

from .base import Rows, Settings
from .cpprb_priorities import CpprbPriorities
from .priorities import ALPHA
from .returns import GAMMA, STEPS, Returns


class CpprbReturns(Returns, CpprbPriorities):
    as_used = ("cpprb.PrioritizedReplayBuffer(capacity, env_dict, alpha=0.6, Nstep={size: 3, gamma: 0.5}); "
               "`terminated` is called `done`, as it wants; `on_episode_end` after an episode's last step. Of an "
               "episode's last transitions 11.0.0 gives other next_obs, and done not in all that end there: the two "
               "are not compared. Always in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self.add = self._step

    def make(self, fields: dict[str, Any]) -> Any:
        fields = {("done" if name == "terminated" else name): field for name, field in fields.items()}
        returns = {"size": STEPS, "gamma": GAMMA, "rew": "reward", "next": "next_obs"}
        return cpprb.PrioritizedReplayBuffer(self.capacity, fields, alpha=ALPHA, Nstep=returns)

    def _step(self, values: Any) -> None:
        obs, action, reward, next_obs, done, truncated = values
        self._buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, done=done, truncated=truncated)
        if done:
            self._buffer.on_episode_end()

    def expected(self, rows: Rows) -> Rows:
        return {name: array for name, array in super().expected(rows).items() if name not in ("next_obs", "terminated")}

    def read(self, drawn: Any) -> Rows:
        return super().read({**drawn, "terminated": drawn["done"]})


CONTESTANT = CpprbReturns
