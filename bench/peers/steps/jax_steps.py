# SPDX-License-Identifier: MIT
"""JAX: BLOCK steps in one compiled program, a `scan` over them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from base import Settings, Steps
from jax import numpy as jnp
from networks import BLOCK, EPSILON, GAMMA, RATE, Case, World, channels_first, rows_of, weights_of

ADAM = optax.adam(RATE, eps=EPSILON)
AXES = ("NCHW", "OIHW", "NCHW")


class State(NamedTuple):
    online: dict[str, jax.Array]
    target: dict[str, jax.Array]
    adam: Any


def _dense(weights: dict[str, jax.Array], name: str, x: jax.Array) -> jax.Array:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _trunk(world: World, weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    if not world.is_image:
        return jax.nn.relu(_dense(weights, "trunk.0", x))
    x = x.astype(jnp.float32) * (1 / 255)
    for layer in world.convolutions:
        x = jax.lax.conv_general_dilated(x, weights[f"{layer.name}.weight"], (layer.stride, layer.stride), "VALID",
                                         dimension_numbers=AXES)
        x = jax.nn.relu(x + weights[f"{layer.name}.bias"][:, None, None])
    return x.reshape(len(x), -1)


def _values(world: World, weights: dict[str, jax.Array], obs: jax.Array) -> jax.Array:
    x = _trunk(world, weights, obs)
    value, advantage = (_dense(weights, f"{stream}.out", jax.nn.relu(_dense(weights, f"{stream}.hidden", x)))
                        for stream in ("value", "advantage"))
    return value + advantage - advantage.mean(1, keepdims=True)


def _picked(q: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(q, action[:, None], 1)[:, 0]


def _loss(online: Any, target: Any, world: World, batch: dict[str, jax.Array]) -> jax.Array:
    best = _values(world, online, batch["next_obs"]).argmax(1)
    following = _picked(_values(world, target, batch["next_obs"]), best)
    wanted = jax.lax.stop_gradient(batch["reward"] + batch["discount"] * following)
    return optax.huber_loss(_picked(_values(world, online, batch["obs"]), batch["action"]), wanted).mean()


def _block(world: World, state: State, rows: dict[str, jax.Array], ids: jax.Array) -> tuple[State, jax.Array]:
    """Steps on the rows `ids` (BLOCK, batch), and a copy to the target; the losses."""

    def step(carried: tuple[Any, Any], chosen: jax.Array) -> tuple[tuple[Any, Any], jax.Array]:
        online, adam = carried
        batch = {name: array[chosen] for name, array in rows.items()}
        loss, gradient = jax.value_and_grad(_loss)(online, state.target, world, batch)
        change, adam = ADAM.update(gradient, adam)
        return (optax.apply_updates(online, change), adam), loss

    (online, adam), losses = jax.lax.scan(step, (state.online, state.adam), ids)
    return State(online, jax.tree.map(jnp.copy, online), adam), losses


def _drawn(world: World, batch: int, state: State, rows: dict[str, jax.Array], key: jax.Array) -> tuple[State, Any]:
    """The same on rows drawn at random; the state, and the next key."""
    key, used = jax.random.split(key)
    ids = jax.random.randint(used, (BLOCK, batch), 0, len(rows["reward"]))
    return _block(world, state, rows, ids)[0], key


class Scan(Steps):
    name, as_used = "jax", "jit of a scan over 16 steps: randint, gather, value_and_grad, optax.adam"

    def __init__(self, case: Case, settings: Settings):
        super().__init__(case, settings)
        jax.config.update("jax_default_matmul_precision", "highest" if settings.math == "fp32" else "tensorfloat32")
        rows = rows_of(case.world, case.rows)
        rows["discount"] = np.float32(GAMMA) * (1 - rows.pop("terminated").astype(np.float32))
        kind, _, number = settings.device.partition(":")
        device = jax.devices(kind)[int(number or 0)]
        weights = channels_first(case.world, weights_of(case.world))
        self._rows = jax.device_put(rows, device)
        online, target = (jax.device_put(weights, device, may_alias=False) for _ in range(2))
        self._state = State(online, target, ADAM.init(online))
        self._key = jax.device_put(jax.random.key(3), device)
        self._given = jax.jit(partial(_block, case.world), donate_argnums=0)
        self._drawn = jax.jit(partial(_drawn, case.world, case.batch), donate_argnums=0)

    @staticmethod
    def version() -> str:
        return f"{jax.__version__}, optax {optax.__version__}"

    def train_on(self, ids: np.ndarray) -> list[float]:
        self._state, losses = self._given(self._state, self._rows, ids.astype(np.int32))
        return np.asarray(losses).tolist()

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            self._state, self._key = self._drawn(self._state, self._rows, self._key)

    def finish(self) -> None:
        jax.block_until_ready(self._state)


CONTESTANTS = (Scan,)
