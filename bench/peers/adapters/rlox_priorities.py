# SPDX-License-Identifier: MIT
"""rlox: draws by priority, out of a sum tree in Rust."""

from __future__ import annotations

from typing import Any

import numpy as np
import rlox
from workloads import Schema, step_of

from .base import Rows, Settings
from .priorities import ALPHA, BETA, INDEX, WEIGHT, Prioritized
from .rlox_buffer import Rlox


class RloxPriorities(Prioritized, Rlox):
    as_used = ("PrioritizedReplayBuffer(capacity, obs_dim, 1, alpha=0.6, beta=0.4), which has no way in for many: "
               "`push` one by one; stratified; `update_priorities` is given the uint64 indices that a draw gave and "
               "float64, which is what it takes. Each draw is given the next seed. Always in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        width = int(np.prod(schema.fields["obs"][0]))
        self._buffer = rlox.PrioritizedReplayBuffer(capacity, width, 1, ALPHA, BETA)
        self._push = self._buffer.push

    def many(self, rows: Rows) -> Any:
        count = len(rows["reward"])
        return [self.one({name: array[i:i + 1] for name, array in rows.items()}) for i in range(count)]

    def one(self, rows: Rows) -> Any:
        step = step_of(self.schema, rows)
        action = np.full(1, step["action"], np.float32)
        return step["obs"], action, step["reward"], step["terminated"], step["truncated"], step["next_obs"]

    def extend(self, transitions: Any) -> None:
        for transition in transitions:
            self._push(*transition)

    def indices_as(self, places: np.ndarray) -> Any:
        return places.astype(np.uint64)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return priorities.astype(np.float64)

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)

    def sample(self, count: int) -> Any:
        self._seed += 1
        return self._buffer.sample(count, self._seed)

    def indices_of(self, drawn: Any) -> Any:
        return drawn["indices"]

    def read(self, drawn: Any) -> Rows:
        fields = super().read([drawn[name] for name in self.names])
        return {**fields, WEIGHT: drawn["weights"], INDEX: drawn["indices"].astype(np.int64)}


CONTESTANT = RloxPriorities
