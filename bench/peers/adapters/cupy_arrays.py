# SPDX-License-Identifier: MIT
"""Plain CuPy: an array a field on the GPU, and an index."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from workloads import Schema, step_of

from .base import Adapter, Rows, Settings


class CupyArrays(Adapter):
    package, devices = "cupy", ("cuda",)
    as_used = ("no replay library: an array a field, slices assigned; a draw is `integers` of a "
               "`random.default_rng`, which does not wait for the host, and `take` of each field. What is added are "
               "NumPy arrays.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._device = cupy.cuda.Device(int(settings.device.partition(":")[2] or 0))
        self._device.use()
        self._rng = cupy.random.default_rng(settings.seed)
        self._arrays = {name: cupy.zeros((capacity, *shape), dtype) for name, (shape, dtype) in schema.fields.items()}
        self._next = self._size = 0

    @classmethod
    def version(cls) -> str:
        """Its package is called after CUDA's version."""
        return str(cupy.__version__)

    def one(self, rows: Rows) -> Any:
        step = step_of(self.schema, rows)
        return {name: np.asarray(value)[np.newaxis] for name, value in step.items()} if self.schema.envs == 1 else step

    def many(self, rows: Rows) -> Any:
        return rows

    def add(self, transition: Any) -> None:
        self.extend(transition)

    def extend(self, transitions: Any) -> None:
        count, first = len(next(iter(transitions.values()))), 0
        while first < count:
            part = min(count - first, self.capacity - self._next)
            for name, array in self._arrays.items():
                array[self._next:self._next + part] = cupy.asarray(transitions[name][first:first + part], array.dtype)
            self._next, first = (self._next + part) % self.capacity, first + part
            self._size = min(self._size + part, self.capacity)

    def finish(self) -> None:
        self._device.synchronize()

    def sample(self, count: int) -> Any:
        ids = self._rng.integers(0, self._size, count)
        return [cupy.take(array, ids, axis=0) for array in self._arrays.values()]

    def read(self, drawn: Any) -> Rows:
        return {name: cupy.asnumpy(array) for name, array in zip(self._arrays, drawn)}


CONTESTANT = CupyArrays
