# SPDX-License-Identifier: MIT
"""What is trained on: two networks of the presets, rows and weights that follow from a seed, and how steps go."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from recipes import Recipe, recipe_of

BLOCK = 16  # train steps between two copies to the target, and in one call that is timed
GAMMA = 0.99


class Convolution(NamedTuple):
    """No padding."""

    name: str
    filters: int
    kernel: int
    stride: int


class World(NamedTuple):
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
    def sides(self) -> list[int]:
        """The image's, and what each convolution makes of it."""
        sides = [self.obs[-1]]
        for layer in self.convolutions:
            sides.append((sides[-1] - layer.kernel) // layer.stride + 1)
        return sides

    @property
    def features(self) -> int:
        """Numbers that the two streams read."""
        return self.convolutions[-1].filters * self.sides[-1]**2 if self.convolutions else self.dense


MELEE = World("melee-gpu", (27,), (), 128, 512, 5)
NATURE = World("nature-dueling", (4, 84, 84),
               (Convolution("trunk.0", 32, 8, 4), Convolution("trunk.1", 64, 4, 2), Convolution("trunk.2", 64, 3, 1)),
               0, 512, 18)
WORLDS = {world.name: world for world in (MELEE, NATURE)}


class Case(NamedTuple):
    """rows: transitions in the replay. math: "fp32", "tf32" or "bf16", of products and convolutions; weights and losses
    are float32 whichever. optimizer: of recipes.OPTIMIZERS. draws: of DRAWS."""

    world: World
    batch: int
    rows: int
    math: str = "fp32"
    optimizer: str = "preset"
    draws: str = "uniform"

    @property
    def name(self) -> str:
        named = f"{self.world.name}, batch {self.batch}, {self.rows:,} rows, {self.math}"
        named += "" if self.optimizer == "preset" else f", {self.optimizer}"
        return named if self.draws == "uniform" else f"{named}, {self.draws}"

    @property
    def recipe(self) -> Recipe:
        return recipe_of(self.world.name, self.optimizer)


DRAWS = ("uniform", "prioritized")
MATHS = ("fp32", "tf32", "bf16")


class Wanted(NamedTuple):
    """Which cases; of networks and maths none given: those that are worth it here."""

    quick: bool
    on_cuda: bool
    networks: tuple[str, ...] = ()
    maths: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ("preset", "adam")
    draws: tuple[str, ...] = DRAWS


def _sizes(wanted: Wanted, network: str) -> tuple[tuple[int, ...], int]:
    """Batches, and rows. Small enough for the machine: frames are 56 kB a row, and a CPU takes 0.1 s and more for a
    step on them."""
    if network == "melee-gpu":
        return ((32, 256) if wanted.quick else (32, 256, 1024)), 100_000 if wanted.quick else 1_000_000
    if wanted.on_cuda:
        return (32, 512), 5_000 if wanted.quick else 20_000
    return (32,), 1024


def _maths(wanted: Wanted, network: str) -> tuple[str, ...]:
    if wanted.maths or not wanted.on_cuda:
        return wanted.maths or ("fp32",)
    return ("bf16" if network == "nature-dueling" else "fp32",) if wanted.quick else MATHS


def _of_network(wanted: Wanted, network: str) -> list[tuple[tuple[int, ...], Case]]:
    """Each with its place in the order. Adam and draws by priority are tried at the smallest batch in FP32 alone, and
    on images where a step is no matter of a second."""
    batches, rows = _sizes(wanted, network)
    maths, found = _maths(wanted, network), []
    tries_beside = wanted.on_cuda or not WORLDS[network].is_image
    for size, batch in enumerate(batches):
        for kind, math in enumerate(maths):
            for optimizer in wanted.optimizers:
                for draws in wanted.draws:
                    beside = (optimizer != wanted.optimizers[0]) + (draws != wanted.draws[0])
                    if beside == 0 or (beside == 1 and size == kind == 0 and tries_beside):
                        case = Case(WORLDS[network], batch, rows, "fp32" if beside else math, optimizer, draws)
                        found.append(((beside, kind, size), case))
    return found


def cases(wanted: Wanted) -> list[Case]:
    """What tells most comes first, for whoever has little time."""
    worth = ("melee-gpu",) if wanted.quick and not wanted.on_cuda else tuple(WORLDS)
    found = [one for network in wanted.networks or worth for one in _of_network(wanted, network)]
    return [case for _, case in sorted(found, key=lambda one: one[0])]


@functools.lru_cache(maxsize=1)
def rows_of(world: World, count: int) -> dict[str, np.ndarray]:
    """Transitions by the names of ours. Kept, gigabytes as they may be, for the contestants of a case: not to be
    written into."""
    rng = np.random.default_rng(1)
    if world.is_image:
        obs, next_obs = (rng.integers(0, 256, (count, *world.obs), np.uint8) for _ in range(2))
    else:
        obs, next_obs = (rng.standard_normal((count, *world.obs), np.float32) for _ in range(2))
    return {"obs": obs, "next_obs": next_obs, "action": rng.integers(0, world.actions, count, np.int32),
            "reward": rng.standard_normal(count, np.float32), "terminated": rng.random(count) < 0.1}


def _shapes(world: World) -> dict[str, tuple[int, ...]]:
    """Of the weights, as ours has them: (filters, kernel, kernel, channels) and (units, inputs)."""
    shapes: dict[str, tuple[int, ...]] = {}
    channels = world.obs[0]
    for layer in world.convolutions:
        shapes[layer.name] = (layer.filters, layer.kernel, layer.kernel, channels)
        channels = layer.filters
    if world.dense:
        shapes["trunk.0"] = (world.dense, world.obs[0])
    for stream, outputs in (("value", 1), ("advantage", world.actions)):
        shapes[f"{stream}.hidden"] = (world.hidden, world.features)
        shapes[f"{stream}.out"] = (outputs, world.hidden)
    return shapes


def weights_of(world: World) -> dict[str, np.ndarray]:
    """The same first weights for all; biases too, since zeros would hide them."""
    rng, weights = np.random.default_rng(2), {}
    for name, shape in _shapes(world).items():
        limit = (3.0 / np.prod(shape[1:]))**0.5
        weights[f"{name}.weight"] = rng.uniform(-limit, limit, shape).astype(np.float32)
        weights[f"{name}.bias"] = rng.uniform(-limit, limit, shape[0]).astype(np.float32)
    return weights


def channels_first(world: World, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same network for libraries that have (filters, channels, kernel, kernel), and so read a dense layer's inputs
    channel by channel: it costs them nothing in a step."""
    turned = {}
    for name, value in weights.items():
        if value.ndim == 4:
            value = value.transpose(0, 3, 1, 2)
        elif world.convolutions and name.endswith("hidden.weight"):
            side, filters = world.sides[-1], world.convolutions[-1].filters
            value = value.reshape(-1, side, side, filters).transpose(0, 3, 1, 2).reshape(value.shape)
        turned[name] = np.ascontiguousarray(value)
    return turned
