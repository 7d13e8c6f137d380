# SPDX-License-Identifier: MIT
"""The network and its loss in JAX, as functions of weights by name."""

from __future__ import annotations

from typing import Any

import jax
from jax import numpy as jnp
from networks import World

AXES = ("NCHW", "OIHW", "NCHW")
Weights = dict[str, jax.Array]


def _lowered(weights: Weights, dtype: Any) -> Weights:
    """Those that are used in this type: all but the heads'."""
    return {name: weight if ".out." in name else weight.astype(dtype) for name, weight in weights.items()}


def _dense(weights: Weights, name: str, x: jax.Array, precision: Any = None) -> jax.Array:
    return jnp.matmul(x, weights[f"{name}.weight"].T, precision=precision) + weights[f"{name}.bias"]


def _trunk(world: World, weights: Weights, obs: jax.Array) -> jax.Array:
    x = obs.astype(weights["trunk.0.weight"].dtype)
    if not world.is_image:
        return jax.nn.relu(_dense(weights, "trunk.0", x))
    x = x * (1 / 255)
    for layer in world.convolutions:
        x = jax.lax.conv_general_dilated(x, weights[f"{layer.name}.weight"], (layer.stride, layer.stride), "VALID",
                                         dimension_numbers=AXES)
        x = jax.nn.relu(x + weights[f"{layer.name}.bias"][:, None, None])
    return x.reshape(len(x), -1)


def values(world: World, weights: Weights, obs: jax.Array) -> jax.Array:
    """Q of every action, (batch, actions) float32, with weights that were lowered. The heads compute in float32."""
    x = _trunk(world, weights, obs)
    value, advantage = (
        _dense(weights, f"{stream}.out", jax.nn.relu(_dense(weights, f"{stream}.hidden", x)).astype(jnp.float32),
               "highest")
        for stream in ("value", "advantage"))
    return value + advantage - advantage.mean(1, keepdims=True)


def _picked(q: jax.Array, action: jax.Array) -> jax.Array:
    return jnp.take_along_axis(q, action[:, None], 1)[:, 0]


def errors(world: World, double: bool, dtype: Any, online: Weights, target: Weights, batch: Weights) -> jax.Array:
    """Q(s, a) - (r + discount Q_target(s', a*)), (batch) float32."""
    online, target = _lowered(online, dtype), _lowered(target, dtype)
    following = values(world, target, batch["next_obs"])
    best = (values(world, online, batch["next_obs"]) if double else following).argmax(1)
    wanted = jax.lax.stop_gradient(batch["reward"] + batch["discount"] * _picked(following, best))
    return _picked(values(world, online, batch["obs"]), batch["action"]) - wanted


def mean_huber(error: jax.Array, weight: jax.Array) -> jax.Array:
    size = jnp.abs(error)
    return (weight * jnp.where(size <= 1, 0.5 * error * error, size - 0.5)).mean()
