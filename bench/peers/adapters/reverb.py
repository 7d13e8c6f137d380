# SPDX-License-Identifier: MIT
"""Reverb: a server of tables of items, which refer to chunks of steps that a writer sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import reverb
import tensorflow
from workloads import Schema

from .base import Adapter, Rows, Sequences, Settings

UNSENT = 256  # items; more of them, and Reverb logs a warning


class _Table(Adapter):
    name = "reverb"
    package = "dm-reverb"
    devices = ("cpu",)
    length: int  # of an item
    as_used = ("a server in the same process, which then needs no gRPC; one table with Uniform and Fifo selectors and "
               "an item of 100 steps from each step on, made by a TrajectoryWriter; TrajectoryDataset with one worker, "
               "then `batch(count)` and NumPy arrays. The worker fetches the items of one batch ahead.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        table = reverb.Table(name="steps", sampler=reverb.selectors.Uniform(), remover=reverb.selectors.Fifo(),
                             max_size=capacity - self.length + 1, rate_limiter=reverb.rate_limiters.MinSize(1))
        self._server = reverb.Server([table])
        self._address = f"localhost:{self._server.port}"
        self._writer = reverb.Client(self._address).trajectory_writer(num_keep_alive_refs=self.length)
        self._names, self._given, self._batches = tuple(schema.fields), 0, dict[int, Any]()

    def one(self, rows: Rows) -> Any:
        return {name: array[0] for name, array in rows.items()}

    def many(self, rows: Rows) -> Any:
        return [{name: array[row] for name, array in rows.items()} for row in range(len(rows[self.schema.tag]))]

    def add(self, transition: Any) -> None:
        self._writer.append(transition)
        self._given += 1
        if self._given >= self.length:
            self._writer.create_item("steps", 1.0, {name: self._writer.history[name][-self.length:]
                                                    for name in self._names})
        if self._given % UNSENT == 0:
            self._writer.flush(0)

    def extend(self, transitions: Any) -> None:
        for transition in transitions:
            self.add(transition)

    def finish(self) -> None:
        self._writer.flush(0)

    def _batches_of(self, count: int) -> Any:
        fields = self.schema.fields
        dataset = reverb.TrajectoryDataset(
            self._address, "steps", max_in_flight_samples_per_worker=count, num_workers_per_iterator=1,
            dtypes={name: tensorflow.as_dtype(dtype) for name, (_, dtype) in fields.items()},
            shapes={name: tensorflow.TensorShape([self.length, *shape]) for name, (shape, _) in fields.items()})
        return dataset.batch(count, drop_remainder=True).as_numpy_iterator()

    def sample(self, count: int) -> Any:
        batches = self._batches.get(count) or self._batches.setdefault(count, self._batches_of(count))
        return next(batches).data

    def read(self, sampled: Any) -> Rows:
        return dict(sampled)

    def close(self) -> None:
        self._batches.clear()
        self._writer.close()
        self._server.stop()


class ReverbSequences(Sequences, _Table):
    pass


ADAPTERS = (ReverbSequences,)
