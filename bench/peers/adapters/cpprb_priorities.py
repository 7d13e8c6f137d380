# SPDX-License-Identifier: MIT
"""cpprb: draws by priority, out of two segment trees in C++."""

from __future__ import annotations

from typing import Any

import cpprb

from .base import Rows
from .cpprb_buffer import Cpprb
from .priorities import ALPHA, BETA, INDEX, WEIGHT, Prioritized


class CpprbPriorities(Prioritized, Cpprb):
    as_used = ("cpprb.PrioritizedReplayBuffer(capacity, env_dict, alpha=0.6), `sample(n, beta=0.4)`: stratified, "
               "weights by the buffer's smallest priority; `update_priorities` is given the indexes that a draw gave "
               "and float32. Always in host memory.")

    def make(self, fields: dict[str, Any]) -> Any:
        return cpprb.PrioritizedReplayBuffer(self.capacity, fields, alpha=ALPHA)

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)

    def sample(self, count: int) -> Any:
        return self._buffer.sample(count, beta=BETA)

    def indices_of(self, drawn: Any) -> Any:
        return drawn["indexes"]

    def read(self, drawn: Any) -> Rows:
        return {**{name: drawn[name] for name in self._names}, WEIGHT: drawn["weights"], INDEX: drawn["indexes"]}


CONTESTANT = CpprbPriorities
