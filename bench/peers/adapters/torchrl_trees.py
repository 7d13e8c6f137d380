# SPDX-License-Identifier: MIT
"""TorchRL's two segment trees alone, by their Python door: no rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torchrl._torchrl import MinSegmentTreeFp32, SumSegmentTreeFp32
from workloads import Schema

from .base import Rows, Settings
from .priorities import ALPHA, BETA, INDEX, WEIGHT, Prioritized


class TorchRLTrees(Prioritized):
    package, devices = "torchrl", ("cpu",)
    as_used = ("SumSegmentTreeFp32 and MinSegmentTreeFp32 of torchrl._torchrl with tensors, as PrioritizedSampler uses "
               "them, and no buffer around: `scan_lower_bound` of uniform numbers, `pow` for weights; `pow` and both "
               "trees' items for an update. Nothing is gathered: a row is its index. On the CPU.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        torch.manual_seed(settings.seed)
        self._sum, self._min, self._given = SumSegmentTreeFp32(capacity), MinSegmentTreeFp32(capacity), 0

    @classmethod
    def refusal(cls, schema: Schema) -> str:
        return "" if tuple(schema.fields) == (schema.tag,) else "trees have no rows"

    def one(self, rows: Rows) -> Any:
        return len(rows[self.schema.tag])

    many = one

    def add(self, transition: int) -> None:
        self.extend(transition)

    def extend(self, transitions: int) -> None:
        slots = torch.arange(self._given, self._given + transitions) % self.capacity
        self._given += transitions
        self._sum[slots] = self._min[slots] = torch.ones(transitions)

    def indices_as(self, places: np.ndarray) -> Any:
        return torch.from_numpy(places)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return torch.from_numpy(priorities)

    def update(self, indices: Any, priorities: Any) -> None:
        power = torch.pow(priorities, ALPHA)
        self._sum[indices] = power
        self._min[indices] = power

    def sample(self, count: int) -> Any:
        mass = torch.rand(count) * self._sum.query(0, self.capacity)
        index = self._sum.scan_lower_bound(mass).clamp_max_(self.capacity - 1)
        return index, torch.pow(self._sum[index] / self._min.query(0, self.capacity), -BETA)

    def indices_of(self, drawn: Any) -> Any:
        return drawn[0]

    def read(self, drawn: Any) -> Rows:
        """The tag that would be there."""
        slots, newest = drawn[0].numpy(), self._given - 1
        tags = newest - (newest - slots) % self.capacity
        return {self.schema.tag: tags.astype(np.float32), WEIGHT: drawn[1].numpy(), INDEX: slots}


CONTESTANT = TorchRLTrees
