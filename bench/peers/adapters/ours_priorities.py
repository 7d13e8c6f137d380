# SPDX-License-Identifier: MIT
"""This repository's buffer, its draws by priority."""

from __future__ import annotations

from typing import Any

import device_arrays
import numpy as np

from .base import Rows
from .ours import Ours
from .priorities import ALPHA, BETA, INDEX, MOST, WEIGHT, Prioritized


class OursPriorities(Prioritized, Ours):
    as_used = ("ReplayBuffer(capacity, fields, prioritized=True, alpha=0.6, beta=0.4, max_batch=65536), stratified, "
               "weights by the batch's largest; `update_priorities` is given the ids that a draw gave and float32; on "
               "CUDA tensors of PyTorch's on the device, or CuPy's arrays.")

    def options(self) -> dict[str, Any]:
        return {"prioritized": True, "alpha": ALPHA, "beta": BETA, "max_batch": min(MOST, self.capacity // 2)}

    def places(self, slots: np.ndarray) -> np.ndarray:
        """Ids: the newest of each slot."""
        newest = self._buffer.stats.appended - 1
        return newest - (newest - slots) % self.capacity

    def indices_as(self, places: np.ndarray) -> Any:
        return self._placed(places.astype(np.int64))

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return self._placed(priorities)

    def _placed(self, array: np.ndarray) -> Any:
        """Where a draw's ids lie: an update takes both from one memory."""
        return device_arrays.on(self.settings.device, array) if self.on_cuda else array

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
