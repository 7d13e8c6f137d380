# SPDX-License-Identifier: MIT
"""This repository's buffer, its draws by priority."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Rows
from .ours import Ours
from .priorities import ALPHA, BETA, INDEX, MOST, WEIGHT, Prioritized


class OursPriorities(Prioritized, Ours):
    as_used = ("ReplayBuffer(capacity, fields, prioritized=True, alpha=0.6, beta=0.4, max_batch=65536), stratified, "
               "weights by the batch's largest; `update_priorities` is given the ids that a draw gave and float32.")

    def options(self) -> dict[str, Any]:
        return {"prioritized": True, "alpha": ALPHA, "beta": BETA, "max_batch": min(MOST, self.capacity // 2)}

    def places(self, slots: np.ndarray) -> np.ndarray:
        """Ids: the newest of each slot."""
        newest = self._buffer.stats.appended - 1
        return newest - (newest - slots) % self.capacity

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)

    def sample(self, count: int) -> Any:
        batch = self._buffer.sample(count)
        return [getattr(batch, name) for name in self._names], batch.weights, batch.indices

    def indices_of(self, drawn: Any) -> Any:
        return drawn[2]

    def read(self, drawn: Any) -> Rows:
        fields, weights, indices = drawn
        return {**super().read(fields), WEIGHT: np.asarray(weights), INDEX: np.asarray(indices)}


CONTESTANT = OursPriorities
