# SPDX-License-Identifier: MIT
"""flashbax: pure functions of JAX over a state that is given and taken."""

from __future__ import annotations

import functools
from typing import Any

import flashbax
import jax
import numpy as np
from workloads import Schema, step_of

from .base import Adapter, Rows, Sequences, Settings


class Flashbax(Adapter):
    name = package = "flashbax"
    as_used = ("make_item_buffer (a trajectory buffer of sequence 1 and period 1, which its README has for speed); "
               "add and sample under jit, the state donated, the key split within; waited for at the end of a "
               "run of adds, and on the CPU after each sample. On the CPU what is added is JAX arrays, made before the "
               "clock runs; on CUDA NumPy arrays.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        kind, _, ordinal = settings.device.partition(":")
        self._device = jax.devices("gpu" if kind == "cuda" else "cpu")[int(ordinal or 0)]
        self._names = tuple(schema.fields)
        with jax.default_device(self._device):
            example = {name: np.zeros(shape, dtype) for name, (shape, dtype) in schema.fields.items()}
            self._state = self._buffer(1, False).init(jax.tree.map(jax.numpy.asarray, example))
            self._key = jax.random.PRNGKey(settings.seed)
        self._add = jax.jit(self._buffer(1, schema.envs > 1).add, donate_argnums=0)
        self._extend = jax.jit(self._buffer(1, True).add, donate_argnums=0)
        self._samplers: dict[int, Any] = {}

    def _buffer(self, batch: int, many: bool) -> Any:
        """The functions for this size of sample; the state is the same for all."""
        return flashbax.make_item_buffer(self.capacity, 1, batch, add_batches=many)

    def _given(self, rows: Rows) -> Any:
        return rows if self._device.platform != "cpu" else jax.device_put(rows, self._device)

    def one(self, rows: Rows) -> Any:
        return self._given(step_of(self.schema, rows))

    def many(self, rows: Rows) -> Any:
        return self._given(rows)

    def add(self, transition: Any) -> None:
        self._state = self._add(self._state, transition)

    def extend(self, transitions: Any) -> None:
        self._state = self._extend(self._state, transitions)

    def finish(self) -> None:
        jax.block_until_ready((self._state, self._key))

    def _sampler_of(self, count: int) -> Any:
        rows_of = self._buffer(count, False).sample

        @functools.partial(jax.jit, donate_argnums=1)
        def sample(state: Any, key: Any) -> Any:
            key, used = jax.random.split(key)
            return key, rows_of(state, used).experience

        return sample

    def sample(self, count: int) -> Any:
        sample = self._samplers.get(count) or self._samplers.setdefault(count, self._sampler_of(count))
        self._key, sampled = sample(self._state, self._key)
        if not self.on_cuda:
            jax.block_until_ready(sampled)
        return [sampled[name] for name in self._names]

    def read(self, sampled: Any) -> Rows:
        return {name: np.asarray(array) for name, array in zip(self._names, sampled)}


class FlashbaxFrames(Flashbax):
    kind = "frames"


class FlashbaxSequences(Sequences, Flashbax):
    as_used = ("make_trajectory_buffer of period 1 with a batch of 1 environment, all else as for uniform samples: "
               "sequences of 100 steps from any step on.")

    def _buffer(self, batch: int, many: bool) -> Any:
        return flashbax.make_trajectory_buffer(
            add_batch_size=1, sample_batch_size=batch, sample_sequence_length=self.length, period=1,
            min_length_time_axis=self.length, max_length_time_axis=self.capacity)

    def one(self, rows: Rows) -> Any:
        return self.many({name: array[:1] for name, array in rows.items()})

    def many(self, rows: Rows) -> Any:
        return self._given({name: array[np.newaxis] for name, array in rows.items()})


ADAPTERS = (Flashbax, FlashbaxFrames, FlashbaxSequences)
