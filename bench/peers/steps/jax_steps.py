# SPDX-License-Identifier: MIT
"""JAX: sixteen steps and the copy to the target in one jitted function. In BF16 it rounds what torch_steps rounds."""

from __future__ import annotations

import functools
import os
from typing import Any, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leaves memory to the others; read at the import

import common  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax import lax, nn  # noqa: E402
from jax import numpy as jnp  # noqa: E402
from networks import BETAS, BLOCK, EPSILON, GAMMA, RATE, Case, Network, Steps, rows_of, weights_of  # noqa: E402

Arrays = dict[str, jax.Array]
ADAM = optax.adam(RATE, *BETAS, EPSILON)
SEED = 3


class Math(NamedTuple):
    """How products and convolutions are computed. The heads always have float32 inputs."""

    dtype: Any
    precision: lax.Precision
    heads: lax.Precision


# On a GPU JAX's DEFAULT would compute float32 products in TF32; for bfloat16 the precision makes no difference.
PRECISIONS = {"fp32": Math(jnp.float32, lax.Precision.HIGHEST, lax.Precision.HIGHEST),
              "tf32": Math(jnp.float32, lax.Precision.HIGH, lax.Precision.HIGH),
              "bf16": Math(jnp.bfloat16, lax.Precision.DEFAULT, lax.Precision.HIGHEST)}


class State(NamedTuple):
    """What a block of steps changes."""

    online: Arrays
    target: Arrays
    adam: optax.OptState
    key: jax.Array


def _device_of(name: str) -> jax.Device:
    kind, _, ordinal = name.partition(":")
    return jax.devices("gpu" if kind == "cuda" else "cpu")[int(ordinal or 0)]


def _channels_last(network: Network) -> dict[str, np.ndarray]:
    """weights_of in the layouts that JAX's libraries use: (kernel, kernel, channels, filters) and (inputs, units)."""
    return {name: np.moveaxis(value, 0, -1) for name, value in weights_of(network).items()}


def _rows(network: Network, count: int) -> dict[str, np.ndarray]:
    """rows_of with the channels of images last, and discounts in place of terminated."""
    rows = dict(rows_of(network, count))
    if network.is_image:
        rows |= {name: np.moveaxis(rows[name], 1, -1) for name in ("obs", "next_obs")}
    rows["discount"] = np.float32(GAMMA) * (1 - rows.pop("terminated").astype(np.float32))
    return rows


def _dense(weights: Arrays, name: str, x: jax.Array, precision: lax.Precision) -> jax.Array:
    """Computes in the type of x."""
    weight, bias = (weights[f"{name}.{part}"].astype(x.dtype) for part in ("weight", "bias"))
    return jnp.dot(x, weight, precision=precision) + bias


def _trunk(network: Network, math: Math, weights: Arrays, obs: jax.Array) -> jax.Array:
    if not network.is_image:
        return nn.relu(_dense(weights, "trunk.0", obs.astype(math.dtype), math.precision))
    x = (obs.astype(jnp.float32) * (1 / 255)).astype(math.dtype)
    for layer in network.convolutions:
        weight, bias = (weights[f"{layer.name}.{part}"].astype(math.dtype) for part in ("weight", "bias"))
        x = nn.relu(lax.conv_general_dilated(x, weight, (layer.stride, layer.stride), "VALID", precision=math.precision,
                                             dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias)
    return x.reshape(len(x), -1)


def _values(network: Network, math: Math, weights: Arrays, obs: jax.Array) -> jax.Array:
    """Q of every action, (batch, actions) float32."""
    x = _trunk(network, math, weights, obs)
    value, advantage = (
        _dense(weights, f"{stream}.out",
               nn.relu(_dense(weights, f"{stream}.hidden", x, math.precision)).astype(jnp.float32), math.heads)
        for stream in ("value", "advantage"))
    return value + advantage - advantage.mean(1, keepdims=True)


def _chosen(values: jax.Array, action: jax.Array) -> jax.Array:
    """The value of each row's action: as in rlax by a sum, whose gradient needs no scatter."""
    return (values * nn.one_hot(action, values.shape[1])).sum(1)


def _loss(network: Network, math: Math, online: Arrays, target: Arrays, batch: Arrays) -> jax.Array:
    """Mean Huber loss of double DQN."""
    following = _values(network, math, target, batch["next_obs"])
    best = _values(network, math, online, batch["next_obs"]).argmax(1)
    wanted = lax.stop_gradient(batch["reward"] + batch["discount"] * _chosen(following, best))
    return optax.huber_loss(_chosen(_values(network, math, online, batch["obs"]), batch["action"]), wanted).mean()


def _block(case: Case, state: State, rows: Arrays, ids: jax.Array | None = None) -> tuple[State, jax.Array]:
    """BLOCK steps on these rows, (BLOCK, batch), or on random ones, and a copy to the target; the loss of each."""
    key = state.key
    if ids is None:
        key, used = jax.random.split(key)
        ids = jax.random.randint(used, (BLOCK, case.batch), 0, case.rows)
    loss_of = functools.partial(_loss, case.network, PRECISIONS[case.math])

    def step(carry: tuple[Arrays, optax.OptState], at: jax.Array) -> tuple[tuple[Arrays, optax.OptState], jax.Array]:
        online, adam = carry
        batch = {name: array.at[at].get(mode="promise_in_bounds") for name, array in rows.items()}
        loss, gradients = jax.value_and_grad(loss_of)(online, state.target, batch)
        updates, adam = ADAM.update(gradients, adam)
        return (optax.apply_updates(online, updates), adam), loss

    (online, adam), losses = lax.scan(step, (state.online, state.adam), ids)
    return State(online, online, adam, key), losses


class Scan(Steps):
    name = "jax scan"
    as_used = ("one jitted function, its state donated: the ids of 16 batches drawn at once, lax.scan over 16 times "
               "gather, value_and_grad and optax.adam, and the copy to the target; channels last")

    def __init__(self, case: Case, device: str):
        super().__init__(case, device)
        self._device = _device_of(device)
        self._rows = jax.device_put(_rows(case.network, case.rows), self._device)
        self._state = self._first_state()
        self._block = jax.jit(functools.partial(_block, case), donate_argnums=0)

    def _first_state(self) -> State:
        """Each array is a copy of its own, since the jitted function is given its memory (donated)."""
        with jax.default_device(self._device):
            online, target = ({name: jnp.array(value) for name, value in _channels_last(self.case.network).items()}
                              for _ in range(2))
            return jax.device_put(State(online, target, ADAM.init(online), jax.random.key(SEED)), self._device)

    @staticmethod
    def refusal(device: str) -> str:
        try:
            _device_of(device)
        except (RuntimeError, IndexError) as error:
            return f"JAX has no {device} here: {common.error_text(error)}"
        return ""

    @staticmethod
    def version() -> str:
        return jax.__version__

    def train_on(self, ids: np.ndarray) -> list[float]:
        given = jax.device_put(ids.astype(np.int32), self._device)
        self._state, losses = self._block(self._state, self._rows, given)
        return losses.tolist()

    def train(self, blocks: int) -> None:
        for _ in range(blocks):
            self._state, _ = self._block(self._state, self._rows)

    def finish(self) -> None:
        jax.block_until_ready(self._state)

    def close(self) -> None:
        """XLA keeps the freed memory for later arrays."""
        self.finish()
        self._block.clear_cache()
        for array in jax.tree.leaves((self._rows, self._state)):
            array.delete()


IMPLEMENTATIONS = (Scan,)
