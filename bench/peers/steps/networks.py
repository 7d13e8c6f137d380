# SPDX-License-Identifier: MIT
"""What is trained, and what an implementation of it has to do: two networks of the presets, trained with Adam, which
every library has in its fastest form; rows and first weights follow from a seed."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np

BLOCK = 16  # train steps between two copies to the target, and in one call that is timed
GAMMA = 0.99
RATE, EPSILON, BETAS = 6.25e-5, 1.5e-4, (0.9, 0.999)  # Adam's of Hessel et al. 2018, table 1; with double DQN


class Convolution(NamedTuple):
    """Without padding."""

    name: str
    filters: int
    kernel: int
    stride: int


class Network(NamedTuple):
    """A dueling network on observations `obs`: convolutions or a dense layer, and two streams of `hidden`."""

    name: str  # of the preset, too
    obs: tuple[int, ...]
    convolutions: tuple[Convolution, ...]
    dense: int  # units of the dense layer below the streams; 0: none
    hidden: int
    actions: int

    @property
    def is_image(self) -> bool:
        """Of bytes, which the network multiplies by 1 / 255."""
        return len(self.obs) == 3

    @property
    def side(self) -> int:
        """Of what the last convolution makes of an image."""
        side = self.obs[-1]
        for layer in self.convolutions:
            side = (side - layer.kernel) // layer.stride + 1
        return side

    @property
    def features(self) -> int:
        """Numbers that the two streams read."""
        return self.convolutions[-1].filters * self.side**2 if self.convolutions else self.dense


MELEE = Network("melee-gpu", (27,), (), 128, 512, 5)
NATURE = Network("nature-dueling", (4, 84, 84),
                 (Convolution("trunk.0", 32, 8, 4), Convolution("trunk.1", 64, 4, 2), Convolution("trunk.2", 64, 3, 1)),
                 0, 512, 18)
NETWORKS = {network.name: network for network in (MELEE, NATURE)}
MATHS = ("fp32", "tf32", "bf16")


class Case(NamedTuple):
    """rows: transitions in the replay. math: of products and convolutions; weights and losses are float32."""

    network: Network
    batch: int
    rows: int
    math: str = "fp32"

    @property
    def name(self) -> str:
        return f"{self.network.name}, batch {self.batch}, {self.rows:,} rows, {self.math}"


def cases(quick: bool, on_cuda: bool) -> list[Case]:
    """The most informative cases come first. A CPU takes 0.1 s and more for a step on images, and has only FP32."""
    rows = 100_000 if quick else 1_000_000
    found = [Case(MELEE, batch, rows) for batch in ((32, 256) if quick else (32, 256, 1024))]
    if not on_cuda:
        return found if quick else [*found, Case(NATURE, 32, 1024)]
    frames = 5_000 if quick else 20_000
    found += [Case(NATURE, batch, frames, "bf16") for batch in (32, 512)]
    if quick:
        return found
    return found + [Case(MELEE, batch, rows, math) for math in ("tf32", "bf16") for batch in (32, 256, 1024)] \
        + [Case(NATURE, batch, frames, math) for math in ("fp32", "tf32") for batch in (32, 512)]


class Steps:
    """DQN on rows that lie on the device, with Huber loss; the target is copied every BLOCK steps. It also has

    train_on(ids)  steps on these rows, (BLOCK, batch), and a copy to the target; returns the loss of each
    train(blocks)  enqueues so many times BLOCK steps, each on rows sampled at random on the device, and a copy
    finish()       waits for all of it
    version()      of its library
    """

    name: ClassVar[str]
    as_used: ClassVar[str]  # which calls are timed, for the report

    def __init__(self, case: Case, device: str):
        """Puts the rows on the device, "cpu" or "cuda:N", and makes the network, with weights_of the network as both
        networks' weights."""
        self.case, self.device, self.on_cuda = case, device, device.startswith("cuda")

    @staticmethod
    def refusal(device: str) -> str:
        """Why it does not take part there; "" when it does."""
        return ""

    def remark(self) -> str:
        """What must be known about its figures; "" when nothing."""
        return ""

    def close(self) -> None:
        """Gives its memory back."""


@functools.lru_cache(maxsize=1)
def rows_of(network: Network, count: int) -> dict[str, np.ndarray]:
    """Transitions by the names of ours; not to be written into."""
    rng = np.random.default_rng(1)
    if network.is_image:
        obs, next_obs = (rng.integers(0, 256, (count, *network.obs), np.uint8) for _ in range(2))
    else:
        obs, next_obs = (rng.standard_normal((count, *network.obs), np.float32) for _ in range(2))
    return {"obs": obs, "next_obs": next_obs, "action": rng.integers(0, network.actions, count, np.int32),
            "reward": rng.standard_normal(count, np.float32), "terminated": rng.random(count) < 0.1}


def _shapes(network: Network) -> dict[str, tuple[int, ...]]:
    """Of the weights, as ours has them: (filters, kernel, kernel, channels) and (units, inputs)."""
    shapes: dict[str, tuple[int, ...]] = {}
    channels = network.obs[0]
    for layer in network.convolutions:
        shapes[layer.name] = (layer.filters, layer.kernel, layer.kernel, channels)
        channels = layer.filters
    if network.dense:
        shapes["trunk.0"] = (network.dense, network.obs[0])
    for stream, outputs in (("value", 1), ("advantage", network.actions)):
        shapes[f"{stream}.hidden"] = (network.hidden, network.features)
        shapes[f"{stream}.out"] = (outputs, network.hidden)
    return shapes


def weights_of(network: Network) -> dict[str, np.ndarray]:
    """The same first weights for all; random biases too, since zeros would hide a mistake."""
    rng, weights = np.random.default_rng(2), {}
    for name, shape in _shapes(network).items():
        limit = (3.0 / np.prod(shape[1:]))**0.5
        weights[f"{name}.weight"] = rng.uniform(-limit, limit, shape).astype(np.float32)
        weights[f"{name}.bias"] = rng.uniform(-limit, limit, shape[0]).astype(np.float32)
    return weights


def channels_first(network: Network) -> dict[str, np.ndarray]:
    """weights_of for libraries that have (filters, channels, kernel, kernel), and so read a dense layer's inputs
    channel by channel: it costs them nothing in a step."""
    found: dict[str, Any] = {}
    for name, value in weights_of(network).items():
        if value.ndim == 4:
            value = value.transpose(0, 3, 1, 2)
        elif network.convolutions and name.endswith("hidden.weight"):
            side, filters = network.side, network.convolutions[-1].filters
            value = value.reshape(-1, side, side, filters).transpose(0, 3, 1, 2).reshape(value.shape)
        found[name] = np.ascontiguousarray(value)
    return found
