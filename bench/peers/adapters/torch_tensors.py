# SPDX-License-Identifier: MIT
"""Plain PyTorch, without a replay library: a tensor a field on the device, and an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from workloads import Schema, step_of

from .base import ALPHA, BETA, INDEX, WEIGHT, Adapter, Prioritized, Rows, Settings


class Tensors(Adapter):
    name = package = "torch"
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
        self._advance(1)

    def extend(self, transitions: Any) -> None:
        count, first = len(transitions[0]), 0
        while first < count:
            part = min(count - first, self.capacity - self._next)
            for tensor, values in zip(self._tensors.values(), transitions):
                tensor[self._next:self._next + part].copy_(values[first:first + part])
            self._advance(part)
            first += part

    def _advance(self, count: int) -> None:
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


class TensorsGraph(Tensors):
    name, devices = "torch graph", ("cuda",)
    as_used = ("the same tensors; a draw is a torch.cuda.CUDAGraph of `randint` and `index_select`, replayed. Its "
               "arrays are always the same ones: the next draw overwrites them, as in no other library.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._graphs: dict[tuple[int, int], tuple[Any, Any]] = {}

    def _captured(self, count: int) -> tuple[Any, Any]:
        """Warmed up on a stream of its own first, as PyTorch's documentation wants."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            super().sample(count)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            arrays = super().sample(count)
        return graph, arrays

    def sample(self, count: int) -> Any:
        """The number of rows is a constant of the graph."""
        key = count, self._size
        graph, arrays = self._graphs.get(key) or self._graphs.setdefault(key, self._captured(count))
        graph.replay()
        return arrays


class TensorsPriorities(Prioritized, Tensors):
    as_used = ("no replay library: the same tensors, and one of priorities: a draw is `cumsum` in float64 of "
               "all, `searchsorted` of a point from each of as many equal parts, and `index_select`; an update "
               "`index_put_`. What it costs grows with the capacity. New transitions have priority 1.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._powers = torch.ones(capacity, device=settings.device)  # priority^ALPHA

    def indices_as(self, indices: np.ndarray) -> Any:
        return torch.from_numpy(indices).to(self.settings.device)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return torch.from_numpy(priorities).to(self.settings.device)

    def update(self, indices: Any, priorities: Any) -> None:
        self._powers.index_put_((indices,), priorities**ALPHA)

    def sample(self, count: int) -> Any:
        sums = self._powers.cumsum(0, dtype=torch.float64)
        points = torch.arange(count, dtype=torch.float64, device=sums.device)
        points = (points + torch.rand_like(points)) * (sums[-1] / count)
        ids = torch.searchsorted(sums, points, right=True).clamp_max(len(sums) - 1)
        powers = self._powers[ids]
        return self._gathered(ids), (powers / powers.min())**-BETA, ids

    def drawn_indices(self, drawn: Any) -> Any:
        return drawn[2]

    def read(self, drawn: Any) -> Rows:
        fields, weights, ids = drawn
        return {**super().read(fields), WEIGHT: weights.cpu().numpy(), INDEX: ids.cpu().numpy()}


ADAPTERS = (Tensors, TensorsGraph, TensorsPriorities)
