# SPDX-License-Identifier: MIT
"""cpprb: a ring of NumPy arrays with a core in C++."""

from __future__ import annotations

from typing import Any

import cpprb
import numpy as np
from workloads import Schema

from .base import Adapter, Rows, Settings, python_step


class Cpprb(Adapter):
    package = "cpprb"
    as_used = ("cpprb.ReplayBuffer(capacity, env_dict), without next_of and stack_compress, which save memory and "
               "not time; `add` with one transition as an environment's step returned it, or with many; draws from "
               "NumPy's global generator. Always in host memory.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        np.random.seed(settings.seed)
        fields = {name: {"shape": shape or 1, "dtype": dtype} for name, (shape, dtype) in schema.fields.items()}
        self._buffer = cpprb.ReplayBuffer(capacity, fields)
        self._names = tuple(schema.fields)

    def one(self, rows: Rows) -> Any:
        return python_step(rows)

    def many(self, rows: Rows) -> Any:
        return rows

    def add(self, transition: Any) -> None:
        self._buffer.add(**transition)

    def extend(self, transitions: Any) -> None:
        self._buffer.add(**transitions)

    def sample(self, count: int) -> Any:
        drawn = self._buffer.sample(count)
        return [drawn[name] for name in self._names]

    def read(self, drawn: Any) -> Rows:
        return dict(zip(self._names, drawn))


CONTESTANT = Cpprb
