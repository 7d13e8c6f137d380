# SPDX-License-Identifier: MIT
"""Gymnasium's spaces: which of them environments and learners of this package may have, and what to do about the
others. Gymnasium itself need not be installed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import _c_api

_KINDS = ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Tuple", "Dict")
_MOST_NUMBERS = 2**23 - 64  # of a flattened observation: a transition has two of them, and at most 64 MiB
_MOST_ACTIONS = 65536  # of a network
_ADVICE = ("gymnasium.wrappers.TransformObservation(env, function, space) makes a Box of others, where `space` is a "
           "Box of float32 and `function` gives its arrays")
_CONSTANT = ("gymnasium.wrappers.TransformObservation(env, lambda obs: np.zeros(1, np.float32), "
             "gymnasium.spaces.Box(0, 1, (1,))) shows one that does not change")


def is_a(space: Any, kind: str) -> bool:
    """Whether it is a space of this kind, by the names of its classes."""
    return any(parent.__name__ == kind for parent in type(space).__mro__)


def kind_of(space: Any) -> str | None:
    """Which of the spaces that can be flattened it is; None: none of them."""
    return next((kind for kind in _KINDS if is_a(space, kind)), None)


def parts_of(space: Any) -> list[tuple[Any, Any]]:
    """(key, space) of each part of a Tuple or Dict."""
    found = space.spaces
    return list(found.items() if isinstance(found, Mapping) else enumerate(found))


def _leaves_of(space: Any) -> Iterator[Any]:
    """The spaces in it that are no Tuple or Dict."""
    if kind_of(space) not in ("Tuple", "Dict"):
        yield space
        return
    for _, part in parts_of(space):
        yield from _leaves_of(part)


def _numbers_of(leaf: Any) -> int:
    """How many numbers its observations are, flattened [gymnasium.spaces.flatdim]."""
    if is_a(leaf, "Discrete"):
        return int(leaf.n)
    return int(np.sum(leaf.nvec)) if is_a(leaf, "MultiDiscrete") else math.prod(leaf.shape)


# Observations.


def refuse_observations(space: Any) -> None:
    """TypeError, with what to do: no network can read observations of this space, flattened or not."""
    for leaf in _leaves_of(space):
        kind = kind_of(leaf)
        if kind is None or (kind == "Box" and np.dtype(leaf.dtype).kind not in "fiub"):
            part = "" if leaf is space else f", and {leaf} is a part of it"
            raise TypeError(f"the observation space is {space}{part}; it must be a Box of numbers, Discrete, "
                            f"MultiDiscrete, MultiBinary, or a Tuple or Dict of them: {_ADVICE}")
    if sum(map(_numbers_of, _leaves_of(space))) == 0:
        raise TypeError(f"the observation space is {space}, which has no numbers; it must have one or more: "
                        f"{_CONSTANT}")


def refuse_long_vectors(space: Any) -> None:
    """TypeError: flattened observations would be too long to store."""
    count = sum(map(_numbers_of, _leaves_of(space)))
    if count > _MOST_NUMBERS:
        raise TypeError(f"the observation space is {space}, whose observations are {count} numbers when they are "
                        f"flattened, of a Discrete one for each value; they must be at most {_MOST_NUMBERS}: {_ADVICE}")


def refuse_axes(shape: tuple[int, ...], most: int = _c_api.MAX_DIMS, others: str = "") -> None:
    """TypeError, with what to do: arrays of more axes than `most`. others: what else can be done."""
    if len(shape) > most:
        raise TypeError(f"observations have the shape {shape}, of {len(shape)} axes; those of images must be 2 or 3: "
                        "gymnasium.wrappers.TransformObservation(env, lambda obs: np.concatenate(obs, axis=-1), space) "
                        "puts a stack of images (height, width, channels) into one image, where `space` is a Box of "
                        "(height, width, channels of all); gymnasium.wrappers.FlattenObservation(env) makes vectors"
                        + others)


def _holds_bytes(leaf: Any) -> bool:
    return is_a(leaf, "Box") and np.dtype(leaf.dtype).kind in "iu" and leaf.shape != () and \
        (leaf.low == 0).all() and (leaf.high == 255).all()


def warn_of_bytes(space: Any, input_scale: float, stacklevel: int) -> None:
    """RuntimeWarning, with what to do: a learner reads numbers of 0 to 255, as images have, which are a part of a space
    that is flattened, and does not scale them. Trainings do so where a Box of uint8 is the whole space."""
    found = next(filter(_holds_bytes, _leaves_of(space)), None)
    if found is None or input_scale != 1:
        return
    if found is not space:
        how = "of float32, 0 to 1, in its place, and `function` divides by 255"
        advice = f"gymnasium.wrappers.TransformObservation(env, function, space), where `space` has a Box {how}"
    elif np.dtype(space.dtype) == np.uint8:
        advice = "leave out flatten=True: a Box of uint8 is stored as bytes, which input_scale=1 / 255 scales"
    else:
        advice = "gymnasium.wrappers.DtypeObservation(env, np.uint8), of which an image is read as one, and scaled"
    part = "it" if found is space else f"its part {found}"
    warnings.warn(f"the observation space is {space}: the numbers of {part} are flattened and not scaled, so a network "
                  f"reads 0 to 255; to scale them: {advice}", RuntimeWarning, stacklevel=stacklevel + 1)


# Actions.


def has_floats(space: Any) -> bool:
    """Whether it is a Box of floats."""
    return is_a(space, "Box") and np.dtype(space.dtype).kind == "f" and math.prod(space.shape) > 0


def has_choices(space: Any) -> bool:
    """Whether it is a Discrete space."""
    return is_a(space, "Discrete") and int(space.n) > 0


def _numbering(space: Any) -> str:
    """How an environment with these actions gets Discrete ones."""
    counts = [2] * math.prod(space.shape) if is_a(space, "MultiBinary") else \
        np.ravel(space.nvec).tolist() if is_a(space, "MultiDiscrete") else []
    if not counts or math.prod(counts) > _MOST_ACTIONS:
        return ("gymnasium.wrappers.TransformAction(env, function, gymnasium.spaces.Discrete(n)) makes it Discrete, "
                f"where n is at most {_MOST_ACTIONS} and `function` gives the environment's action of a number below n")
    action = f"np.reshape(np.unravel_index(action, {tuple(counts)}), {tuple(map(int, space.shape))})"
    if np.any(getattr(space, "start", 0)):
        action += f" + np.array({np.asarray(space.start).tolist()})"
    return (f"gymnasium.wrappers.TransformAction(env, lambda action: {action}, "
            f"gymnasium.spaces.Discrete({math.prod(counts)})) numbers the combinations")


def actions_refusal(space: Any) -> str:
    """Why a learner does not take actions of this space, and what to do."""
    advice = "" if has_floats(space) or has_choices(space) else f": {_numbering(space)}"
    return (f"the action space is {space}; it must be Discrete, or for a DDPG (presets apex-dpg and apex-dpg-small) a "
            f"Box of floats{advice}")
