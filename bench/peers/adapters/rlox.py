# SPDX-License-Identifier: MIT
"""rlox: a ring in Rust, of float32 vectors, always in host memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import rlox
from workloads import Schema, step_of

from .base import ALPHA, BETA, INDEX, WEIGHT, Adapter, Prioritized, Rows, Settings

NAMES = {"obs": "obs", "action": "actions", "reward": "rewards", "next_obs": "next_obs", "terminated": "terminated",
         "truncated": "truncated"}


class Rlox(Adapter):
    name = package = "rlox"
    devices = ("cpu",)
    as_used = ("ReplayBuffer(capacity, obs_dim, act_dim=1); `push` for one transition, `push_batch` of flat arrays "
               "for many and for a step of several environments. It keeps actions as float32 and is given such, made "
               "before the clock runs; the flags of many as uint8. Each sample is given the next seed. Always "
               "in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._seed = settings.seed
        self._buffer = self.make(int(np.prod(schema.fields["obs"][0])))
        self._push = self._buffer.push_batch if schema.envs > 1 else self._buffer.push

    def make(self, width: int) -> Any:
        """The buffer."""
        return rlox.ReplayBuffer(self.capacity, width, 1)

    @classmethod
    def refusal(cls, schema: Schema) -> str:
        obs = schema.fields.get("obs")
        if obs is None:
            return "its rows are observation, action, reward, next observation, terminated and truncated"
        return "" if obs[1] == np.float32 else f"it keeps observations as float32 only, not as {obs[1]}"

    def one(self, rows: Rows) -> Any:
        step = step_of(self.schema, rows)
        if self.schema.envs > 1:
            return self.many(step)
        action = np.full(1, step["action"], np.float32)
        return step["obs"], action, step["reward"], step["terminated"], step["truncated"], step["next_obs"]

    def many(self, rows: Rows) -> Any:
        flags = rows["terminated"].view(np.uint8), rows["truncated"].view(np.uint8)
        action = rows["action"].astype(np.float32)
        return rows["obs"].ravel(), rows["next_obs"].ravel(), action, rows["reward"], *flags

    def add(self, transition: Any) -> None:
        self._push(*transition)

    def extend(self, transitions: Any) -> None:
        self._buffer.push_batch(*transitions)

    names = tuple(NAMES.values())

    def sample(self, count: int) -> Any:
        self._seed += 1
        sampled = self._buffer.sample(count, self._seed)
        return [sampled[name] for name in self.names]

    def read(self, sampled: Any) -> Rows:
        return dict(zip(NAMES, sampled))


class RloxPriorities(Prioritized, Rlox):
    as_used = ("PrioritizedReplayBuffer(capacity, obs_dim, 1, alpha=0.6, beta=0.4), which takes no batches: "
               "`push` one by one; stratified; `update_priorities` is given the uint64 indices that a sample gave and "
               "float64, which is what it takes. Each sample is given the next seed. Always in host memory.")

    def make(self, width: int) -> Any:
        return rlox.PrioritizedReplayBuffer(self.capacity, width, 1, ALPHA, BETA)

    def many(self, rows: Rows) -> Any:
        count = len(rows["reward"])
        return [self.one({name: array[i:i + 1] for name, array in rows.items()}) for i in range(count)]

    def extend(self, transitions: Any) -> None:
        for transition in transitions:
            self._push(*transition)

    def indices_as(self, indices: np.ndarray) -> Any:
        return indices.astype(np.uint64)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return priorities.astype(np.float64)

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)

    def sample(self, count: int) -> Any:
        self._seed += 1
        return self._buffer.sample(count, self._seed)

    def sampled_indices(self, sampled: Any) -> Any:
        return sampled["indices"]

    def read(self, sampled: Any) -> Rows:
        fields = super().read([sampled[name] for name in self.names])
        return {**fields, WEIGHT: sampled["weights"], INDEX: sampled["indices"].astype(np.int64)}


ADAPTERS = (Rlox, RloxPriorities)
