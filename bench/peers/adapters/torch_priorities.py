# SPDX-License-Identifier: MIT
"""Plain PyTorch tensors, draws by priority out of running sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_ranks import Ranks
from workloads import Schema

from .base import Rows, Settings
from .priorities import INDEX, WEIGHT, Prioritized
from .torch_tensors import Tensors


class TensorsPriorities(Prioritized, Tensors):
    as_used = ("no replay library: the tensors of `torch`, and one of priorities: a draw is `cumsum` in float64 of "
               "all, `searchsorted` of a point from each of as many equal parts, and `index_select`; an update "
               "`index_put_`. What it costs grows with the capacity. New transitions have priority 1.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._ranks = Ranks(capacity, settings.device)

    def indices_as(self, places: np.ndarray) -> Any:
        return torch.from_numpy(places).to(self.settings.device)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return torch.from_numpy(priorities).to(self.settings.device)

    def update(self, indices: Any, priorities: Any) -> None:
        self._ranks.update(indices, priorities)

    def sample(self, count: int) -> Any:
        ids, weights = self._ranks.draw(count)
        return self._gathered(ids), weights, ids

    def indices_of(self, drawn: Any) -> Any:
        return drawn[2]

    def read(self, drawn: Any) -> Rows:
        fields, weights, ids = drawn
        return {**super().read(fields), WEIGHT: weights.cpu().numpy(), INDEX: ids.cpu().numpy()}


CONTESTANT = TensorsPriorities
