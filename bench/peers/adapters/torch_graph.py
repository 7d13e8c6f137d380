# SPDX-License-Identifier: MIT
"""Plain PyTorch tensors, a draw of them as a CUDA graph made by hand."""

from __future__ import annotations

from typing import Any

import torch
from workloads import Schema

from .base import Settings
from .torch_tensors import Tensors


class TensorsGraph(Tensors):
    devices = ("cuda",)
    as_used = ("the same tensors; a draw is a torch.cuda.CUDAGraph of `randint` and `index_select`, replayed. Its "
               "arrays are always the same ones: the next draw overwrites them, as with no other contestant.")

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
        """The graph has the number of rows in it."""
        key = count, self._size
        graph, arrays = self._graphs.get(key) or self._graphs.setdefault(key, self._captured(count))
        graph.replay()
        return arrays


CONTESTANT = TensorsGraph
