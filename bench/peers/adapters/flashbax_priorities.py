# SPDX-License-Identifier: MIT
"""flashbax: draws by priority, out of a binary sum tree of float32."""

from __future__ import annotations

import functools
from typing import Any

import flashbax
import jax
import numpy as np
from jax import numpy as jnp

from .base import Rows
from .flashbax_buffer import Flashbax
from .priorities import ALPHA, BETA, INDEX, WEIGHT, Prioritized


class FlashbaxPriorities(Prioritized, Flashbax):
    as_used = ("make_prioritised_item_buffer(priority_exponent=0.6, device=\"cpu\" or \"gpu\"); draw, weights from its "
               "probabilities by the batch's largest, and update under jit, the state donated to the update. On the "
               "CPU it is waited for after each draw.")

    def _buffer(self, batch: int, many: bool) -> Any:
        return flashbax.make_prioritised_item_buffer(
            self.capacity, 1, batch, add_batches=many, priority_exponent=ALPHA, device="gpu" if self.on_cuda else "cpu")

    def _draw(self, count: int) -> Any:
        sample = self._buffer(count, False).sample

        @jax.jit
        def draw(state: Any, key: Any) -> Any:
            key, used = jax.random.split(key)
            drawn = sample(state, used)
            weights = (drawn.probabilities / drawn.probabilities.min())**-BETA
            return key, ({name: drawn.experience[name] for name in self._names}, weights, drawn.indices)

        return draw

    @functools.cached_property
    def _set(self) -> Any:
        return jax.jit(self._buffer(1, False).set_priorities, donate_argnums=0)

    def indices_as(self, places: np.ndarray) -> Any:
        return jax.device_put(places.astype(np.int32), self._device)

    def priorities_as(self, priorities: np.ndarray) -> Any:
        return jax.device_put(priorities, self._device)

    def update(self, indices: Any, priorities: Any) -> None:
        self._state = self._set(self._state, indices, priorities)

    def sample(self, count: int) -> Any:
        draw = self._draws.get(count) or self._draws.setdefault(count, self._draw(count))
        self._key, drawn = draw(self._state, self._key)
        return drawn if self.on_cuda else jax.block_until_ready(drawn)

    def indices_of(self, drawn: Any) -> Any:
        return drawn[2]

    def read(self, drawn: Any) -> Rows:
        fields, weights, indices = drawn
        return {**{name: np.asarray(array) for name, array in fields.items()}, WEIGHT: np.asarray(weights),
                INDEX: np.asarray(jnp.asarray(indices))}


CONTESTANT = FlashbaxPriorities
