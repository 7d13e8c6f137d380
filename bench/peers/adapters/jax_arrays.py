# SPDX-License-Identifier: MIT
"""Plain JAX: an array a field, given and taken by jitted functions."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from workloads import Schema, step_of

from .base import Adapter, Rows, Settings

Fields = dict[str, jax.Array]


@functools.partial(jax.jit, donate_argnums=0)
def _put(fields: Fields, first: jax.Array, rows: Fields) -> Fields:
    """Rows (count, ...) from slot `first` on, and around."""
    def put(field: jax.Array, row: jax.Array) -> jax.Array:
        row = jnp.asarray(row, field.dtype)
        return field.at[(first + jnp.arange(len(row))) % len(field)].set(row)

    return {name: put(field, rows[name]) for name, field in fields.items()}


@functools.partial(jax.jit, static_argnums=3)
def _draw(fields: Fields, size: jax.Array, key: jax.Array, count: int) -> tuple[list[jax.Array], jax.Array]:
    key, used = jax.random.split(key)
    ids = jax.random.randint(used, (count,), 0, size)
    return [field[ids] for field in fields.values()], key


class Arrays(Adapter):
    package = "jax"
    as_used = ("no replay library: an array a field, `.at[slots].set` and `randint` with an index under jit, the "
               "arrays donated; 64-bit integers are kept as 32-bit ones, as JAX has them. What is added are NumPy "
               "arrays; on the CPU it is waited for after each draw.")

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        kind, _, number = settings.device.partition(":")
        self._device = jax.devices(kind)[int(number or 0)]
        with jax.default_device(self._device):
            self._fields = {name: jnp.zeros((capacity, *shape), jax.dtypes.canonicalize_dtype(dtype))
                            for name, (shape, dtype) in schema.fields.items()}
            self._key = jax.random.key(settings.seed)
        self._given = 0

    def one(self, rows: Rows) -> Any:
        """With an axis of environments, also where there is one: a view of what a step returned."""
        step = step_of(self.schema, rows)
        return step if self.schema.envs > 1 else {name: np.asarray(value)[np.newaxis] for name, value in step.items()}

    def many(self, rows: Rows) -> Any:
        return rows

    def add(self, transition: Any) -> None:
        self.extend(transition)

    def extend(self, transitions: Any) -> None:
        count = len(next(iter(transitions.values())))
        if count > self.capacity:  # a slot that is set twice at once is set in no certain order
            transitions = {name: array[-self.capacity:] for name, array in transitions.items()}
        self._given += count
        self._fields = _put(self._fields, (self._given - min(count, self.capacity)) % self.capacity, transitions)

    def finish(self) -> None:
        jax.block_until_ready((self._fields, self._key))

    def sample(self, count: int) -> Any:
        drawn, self._key = _draw(self._fields, min(self._given, self.capacity), self._key, count)
        return drawn if self.on_cuda else jax.block_until_ready(drawn)

    def read(self, drawn: Any) -> Rows:
        return {name: np.asarray(array) for name, array in zip(self._fields, drawn)}


CONTESTANT = Arrays
