# SPDX-License-Identifier: MIT
"""cpprb: a ring of NumPy arrays with a core in C++."""

from __future__ import annotations

from typing import Any

import cpprb
import numpy as np
from workloads import Schema, step_of

from .base import Adapter, Rows, Settings, add_by_keywords


class Cpprb(Adapter):
    package, devices = "cpprb", ("cpu",)
    as_used = ("cpprb.ReplayBuffer(capacity, env_dict), without next_of and stack_compress, which save memory and "
               "not time; `add` by written-out keywords with what a Gymnasium environment's step returned, or with "
               "many; draws from NumPy's global generator. Always in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        np.random.seed(settings.seed)
        fields = {name: {"shape": shape or 1, "dtype": dtype} for name, (shape, dtype) in schema.fields.items()}
        self._buffer = self.make(fields)
        self._names = tuple(schema.fields)
        self.add = self.extend = add_by_keywords(self._buffer, self._names)

    def make(self, fields: dict[str, Any]) -> Any:
        """The buffer."""
        return cpprb.ReplayBuffer(self.capacity, fields)

    def one(self, rows: Rows) -> Any:
        return tuple(step_of(self.schema, rows).values())

    def many(self, rows: Rows) -> Any:
        return tuple(rows.values())

    def sample(self, count: int) -> Any:
        drawn = self._buffer.sample(count)
        return [drawn[name] for name in self._names]

    def read(self, drawn: Any) -> Rows:
        return dict(zip(self._names, drawn))


CONTESTANT = Cpprb
