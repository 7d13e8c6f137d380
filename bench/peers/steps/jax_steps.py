# SPDX-License-Identifier: MIT
"""JAX: BLOCK steps in one compiled program, a `scan` over them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from adapters.priorities import ALPHA, BETA
from base import OFFSET, Steps
from jax import numpy as jnp
from jax_network import Weights, errors, mean_huber
from jax_optimizers import first_memory, updated
from networks import BLOCK, GAMMA, Case, channels_first, rows_of, weights_of

PRECISIONS = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default"}  # of all products but the heads'


class State(NamedTuple):
    """powers: of the rows' priorities, (rows), or None."""

    online: Weights
    target: Weights
    memory: Any
    powers: Any


def _drawn(case: Case, powers: Any, key: jax.Array) -> tuple[jax.Array, Any]:
    """ids (batch), and weights (batch) of draws by priority: a row from each of as many equal parts of the whole."""
    if powers is None:
        return jax.random.randint(key, (case.batch,), 0, case.rows), jnp.ones(case.batch)
    sums = jnp.cumsum(powers)
    points = (jnp.arange(case.batch) + jax.random.uniform(key, (case.batch,))) * (sums[-1] / case.batch)
    ids = jnp.searchsorted(sums, points, side="right").clip(0, case.rows - 1)
    return ids, (powers[ids] / powers[ids].min())**-BETA


def _step(case: Case, state: State, rows: Weights, ids: jax.Array, weight: jax.Array) -> tuple[State, jax.Array]:
    """One step, without a copy to the target; its loss."""
    batch = {name: array[ids] for name, array in rows.items()}
    dtype = jnp.bfloat16 if case.math == "bf16" else jnp.float32

    def loss_of(online: Weights) -> tuple[jax.Array, jax.Array]:
        error = errors(case.world, case.recipe.double, dtype, online, state.target, batch)
        return mean_huber(error, weight), error

    (loss, error), gradients = jax.value_and_grad(loss_of, has_aux=True)(state.online)
    online, memory = updated(case.recipe, state.online, state.memory, gradients)
    powers = None if state.powers is None else state.powers.at[ids].set((jnp.abs(error) + OFFSET)**ALPHA)
    return State(online, state.target, memory, powers), loss


def _copied(state: State) -> State:
    return state._replace(target=jax.tree.map(jnp.copy, state.online))


def _given_block(case: Case, state: State, rows: Weights, ids: jax.Array) -> tuple[State, jax.Array]:
    """Steps on the rows `ids` (BLOCK, batch), and a copy to the target; the losses."""
    weight = jnp.ones(case.batch)
    state, losses = jax.lax.scan(lambda state, chosen: _step(case, state, rows, chosen, weight), state, ids)
    return _copied(state), losses


def _drawn_block(case: Case, state: State, rows: Weights, key: jax.Array) -> tuple[State, jax.Array]:
    """The same on rows drawn at random; the state, and the next key."""

    def step(state: State, key: jax.Array) -> tuple[State, jax.Array]:
        return _step(case, state, rows, *_drawn(case, state.powers, key))

    key, used = jax.random.split(key)
    state, _ = jax.lax.scan(step, state, jax.random.split(used, BLOCK))
    return _copied(state), key


class Scan(Steps):
    name, as_used = "jax", "jit of a scan over 16 steps: draw, gather, value_and_grad, the optimiser's formulas"
    bf16 = "what a dense layer or its gradients' products make is rounded to bfloat16, too, and biases are"

    def __init__(self, case: Case, device: str):
        super().__init__(case, device)
        jax.config.update("jax_default_matmul_precision", PRECISIONS[case.math])
        rows = dict(rows_of(case.world, case.rows))
        rows["discount"] = np.float32(GAMMA) * (1 - rows.pop("terminated").astype(np.float32))
        kind, _, number = device.partition(":")
        place = jax.devices(kind)[int(number or 0)]
        self._rows = jax.device_put(rows, place)
        with jax.default_device(place):
            self._state, self._key = self._first_state(), jax.random.key(3)
        self._given = jax.jit(partial(_given_block, case), donate_argnums=0)
        self._train = jax.jit(partial(_drawn_block, case), donate_argnums=0)

    def _first_state(self) -> State:
        weights = channels_first(self.case.world, weights_of(self.case.world))
        online, target = ({name: jnp.array(weight) for name, weight in weights.items()} for _ in range(2))
        powers = jnp.ones(self.case.rows) if self.case.draws == "prioritized" else None
        return State(online, target, first_memory(self.case.recipe, online), powers)

    @staticmethod
    def version() -> str:
        return str(jax.__version__)

    def train_on(self, ids: np.ndarray) -> list[float]:
        self._state, losses = self._given(self._state, self._rows, ids.astype(np.int32))
        return np.asarray(losses).tolist()

    def priorities(self, ids: np.ndarray) -> np.ndarray:
        return np.asarray(self._state.powers[ids])**(1 / ALPHA)

    def drawn(self) -> np.ndarray:
        self._key, used = jax.random.split(self._key)
        return np.asarray(_drawn(self.case, self._state.powers, used)[0])

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            self._state, self._key = self._train(self._state, self._rows, self._key)

    def finish(self) -> None:
        jax.block_until_ready(self._state)


CONTESTANTS = (Scan,)
