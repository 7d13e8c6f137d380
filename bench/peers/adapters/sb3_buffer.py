# SPDX-License-Identifier: MIT
"""Stable-Baselines3: NumPy arrays, drawn into PyTorch tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from workloads import Schema, step_of

from .base import Adapter, Rows, Settings


def _box(shape: tuple[int, ...], dtype: np.dtype) -> spaces.Box:
    low, high = (0, 255) if dtype.kind == "u" else (-np.inf, np.inf)
    return spaces.Box(low, high, shape, dtype.type)


class Sb3(Adapter):
    package = "stable-baselines3"
    as_used = ("ReplayBuffer(..., n_envs=chunk): one transition is given as a Gymnasium environment's step returned "
               "it, `done` and `infos` made before the clock runs; many at once are one step of so many environments, "
               "which is the only way in. It keeps actions as int64, and done and time-out as two float32, of which "
               "a draw gives one column, terminated: five tensors, not six. Draws from NumPy's global generator. "
               "Rows in host memory always, draws on the device.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        np.random.seed(settings.seed)
        self._buffer = self.make(_box(*schema.fields["obs"]), spaces.Discrete(2**31 - 1))

    def make(self, observations: spaces.Box, actions: spaces.Discrete) -> Any:
        """The buffer."""
        return ReplayBuffer(self.capacity, observations, actions, self.settings.device, n_envs=self.chunk)

    @classmethod
    def refusal(cls, schema: Schema) -> str:
        return "" if "obs" in schema.fields else "its rows are observation, action, reward, next observation and done"

    def one(self, rows: Rows) -> Any:
        step = step_of(self.schema, rows)
        if self.schema.envs > 1:
            return self.many(step)
        cut = step["truncated"] and not step["terminated"]
        infos = [{"TimeLimit.truncated": True}] if cut else [{}]
        done = step["terminated"] or step["truncated"]
        return step["obs"], step["next_obs"], step["action"], step["reward"], done, infos

    def many(self, rows: Rows) -> Any:
        cut = rows["truncated"] & ~rows["terminated"]
        infos = [{"TimeLimit.truncated": True} if one else {} for one in cut]
        done = rows["terminated"] | rows["truncated"]
        return rows["obs"], rows["next_obs"], rows["action"], rows["reward"], done, infos

    def add(self, transition: Any) -> None:
        self._buffer.add(*transition)

    def extend(self, transitions: Any) -> None:
        self._buffer.add(*transitions)

    def fill(self, rows: Rows) -> None:
        columns = self.many(rows)
        for start in range(0, len(columns[0]), self.chunk):
            self._buffer.add(*(column[start:start + self.chunk] for column in columns))

    def sample(self, count: int) -> Any:
        drawn = self._buffer.sample(count)
        return drawn.observations, drawn.actions, drawn.rewards, drawn.next_observations, drawn.dones

    def read(self, drawn: Any) -> Rows:
        names = ("obs", "action", "reward", "next_obs", "terminated")
        return {name: tensor.cpu().numpy() for name, tensor in zip(names, drawn)}

    def expected(self, rows: Rows) -> Rows:
        return {name: array for name, array in rows.items() if name != "truncated"}


CONTESTANT = Sb3
