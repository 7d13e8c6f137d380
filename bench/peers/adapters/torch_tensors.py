# SPDX-License-Identifier: MIT
"""Plain PyTorch: a tensor a field on the device, and an index: what anybody could write in a page."""

from __future__ import annotations

from typing import Any

import torch
from workloads import Schema, step_of

from .base import Adapter, Rows, Settings


class Tensors(Adapter):
    package = "torch"
    as_used = ("no replay library: a tensor a field, `tensor[i] = value` for one transition and `copy_` of slices for "
               "many; a draw is `randint` on the device and `index_select` of each field.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        torch.manual_seed(settings.seed)
        if self.on_cuda:
            torch.cuda.set_device(settings.device)
        self._tensors = {
            name: torch.zeros((capacity, *shape), dtype=getattr(torch, dtype.name), device=settings.device)
            for name, (shape, dtype) in schema.fields.items()}
        self._next = self._size = 0

    def one(self, rows: Rows) -> Any:
        return tuple(step_of(self.schema, rows).values())

    def many(self, rows: Rows) -> Any:
        return tuple(torch.from_numpy(array) for array in rows.values())

    def add(self, transition: Any) -> None:
        if self.schema.envs > 1:
            self.extend(tuple(torch.from_numpy(value) for value in transition))
            return
        for tensor, value in zip(self._tensors.values(), transition):
            tensor[self._next] = torch.as_tensor(value)
        self._went_on(1)

    def extend(self, transitions: Any) -> None:
        count, first = len(transitions[0]), 0
        while first < count:
            part = min(count - first, self.capacity - self._next)
            for tensor, values in zip(self._tensors.values(), transitions):
                tensor[self._next:self._next + part].copy_(values[first:first + part])
            self._went_on(part)
            first += part

    def _went_on(self, count: int) -> None:
        self._next = (self._next + count) % self.capacity
        self._size = min(self._size + count, self.capacity)

    def finish(self) -> None:
        if self.on_cuda:
            torch.cuda.synchronize()

    def _gathered(self, ids: torch.Tensor) -> list[torch.Tensor]:
        return [tensor.index_select(0, ids) for tensor in self._tensors.values()]

    def sample(self, count: int) -> Any:
        return self._gathered(torch.randint(0, self._size, (count,), device=self.settings.device))

    def read(self, drawn: Any) -> Rows:
        return {name: tensor.cpu().numpy() for name, tensor in zip(self._tensors, drawn)}


CONTESTANT = Tensors
