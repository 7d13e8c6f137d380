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


# Wrappers to advise. is_vector: whether it is a vector environment, for which Gymnasium has others; None: not known.


def _of_either(one: str, vector: str, is_vector: bool | None) -> str:
    of_vector = f"gymnasium.wrappers.vector.{vector}"
    if is_vector:
        return of_vector
    return f"gymnasium.wrappers.{one}" + (f", or of a vector {of_vector}," if is_vector is None else "")


def _transform(what: str, function: str, space: str, is_vector: bool | None) -> str:
    """what: "Observation" or "Action", of one environment, also in a vector."""
    vector = (f"VectorizeTransform{what}(envs, gymnasium.wrappers.Transform{what}, func={function}, "
              f"{what.lower()}_space={space})")
    return _of_either(f"Transform{what}(env, {function}, {space})", vector, is_vector)


def _others_as_box(is_vector: bool | None) -> str:
    return (f"{_transform('Observation', 'function', 'space', is_vector)} makes a Box of others, where `space` is a "
            "Box of float32 and `function` gives its arrays")


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

MASK_KEY = "action_mask"  # in info, and in observations that are dicts


def refuse_masks(space: Any, is_vector: bool) -> None:
    """TypeError, with what to do: a training would read the masks of these observations as numbers."""
    if is_a(space, "Dict") and MASK_KEY in space.spaces:
        others = [name for name in space.spaces if name != MASK_KEY]
        without = _of_either(f"FilterObservation(env, {others})", f"FilterObservation(envs, {others})", is_vector)
        raise TypeError(f"the observation space is {space}, and trainings regard no masks: make the agent yourself, "
                        "with ReplayBuffer(..., action_mask=True) and DQN.act(mask=...), or do without them by "
                        f"{without}")


def refuse_observations(space: Any, is_vector: bool | None = None) -> None:
    """TypeError, with what to do: no network can read observations of this space, flattened or not."""
    for leaf in _leaves_of(space):
        kind = kind_of(leaf)
        if kind is None or (kind == "Box" and np.dtype(leaf.dtype).kind not in "fiub"):
            part = "" if leaf is space else f", and {leaf} is a part of it"
            raise TypeError(f"the observation space is {space}{part}; it must be a Box of numbers, Discrete, "
                            f"MultiDiscrete, MultiBinary, or a Tuple or Dict of them: {_others_as_box(is_vector)}")
    if sum(map(_numbers_of, _leaves_of(space))) == 0:
        one = _transform("Observation", "lambda obs: np.zeros(1, np.float32)", "gymnasium.spaces.Box(0, 1, (1,))",
                         is_vector)
        raise TypeError(f"the observation space is {space}, which has no numbers; it must have one or more: {one} "
                        "shows one that does not change")


def refuse_long_vectors(space: Any, is_vector: bool | None = None) -> None:
    """TypeError: flattened observations would be too long to store."""
    count = sum(map(_numbers_of, _leaves_of(space)))
    if count > _MOST_NUMBERS:
        raise TypeError(f"the observation space is {space}, whose observations are {count} numbers when they are "
                        f"flattened, of a Discrete one for each value; they must be at most {_MOST_NUMBERS}: "
                        f"{_others_as_box(is_vector)}")


def refuse_axes(shape: tuple[int, ...], most: int = _c_api.MAX_DIMS, others: str = "",
                is_vector: bool | None = None) -> None:
    """TypeError, with what to do: arrays of more axes than `most`. others: what else can be done."""
    if len(shape) > most:
        one = _transform("Observation", "lambda obs: np.concatenate(obs, axis=-1)", "space", is_vector)
        flat = _of_either("FlattenObservation(env)", "FlattenObservation(envs)", is_vector)
        raise TypeError(f"observations have the shape {shape}, of {len(shape)} axes; those of images must be 2 or 3: "
                        f"{one} puts a stack of images (height, width, channels) into one image, where `space` is a "
                        f"Box of (height, width, channels of all); {flat} makes vectors{others}")


def _holds_bytes(leaf: Any) -> bool:
    return is_a(leaf, "Box") and np.dtype(leaf.dtype).kind in "iu" and leaf.shape != () and \
        (leaf.low == 0).all() and (leaf.high == 255).all()


def warn_of_bytes(space: Any, input_scale: float, stacklevel: int, is_vector: bool | None = None) -> None:
    """RuntimeWarning, with what to do: a learner reads numbers of 0 to 255, as images have, which are a part of a space
    that is flattened, and does not scale them. Trainings do so where a Box of uint8 is the whole space."""
    found = next(filter(_holds_bytes, _leaves_of(space)), None)
    if found is None or input_scale != 1:
        return
    if found is not space:
        how = "of float32, 0 to 1, in its place, and `function` divides by 255"
        wrapper = _transform("Observation", "function", "space", is_vector).rstrip(",")
        advice = f"{wrapper}, where `space` has a Box {how}"
    elif np.dtype(space.dtype) == np.uint8:
        advice = "leave out flatten=True: a Box of uint8 is stored as bytes, which input_scale=1 / 255 scales"
    else:
        typed = _of_either("DtypeObservation(env, np.uint8)", "DtypeObservation(envs, np.uint8)", is_vector)
        advice = f"{typed.rstrip(',')}, of which an image is read as one, and scaled"
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


def _numbering(space: Any, is_vector: bool | None) -> str:
    """How an environment with these actions gets Discrete ones."""
    counts = [2] * math.prod(space.shape) if is_a(space, "MultiBinary") else \
        np.ravel(space.nvec).tolist() if is_a(space, "MultiDiscrete") else []
    if not counts or math.prod(counts) > _MOST_ACTIONS:
        return (f"{_transform('Action', 'function', 'gymnasium.spaces.Discrete(n)', is_vector)} makes it Discrete, "
                f"where n is at most {_MOST_ACTIONS} and `function` gives the environment's action of a number below n")
    action = f"np.reshape(np.unravel_index(action, {tuple(counts)}), {tuple(map(int, space.shape))})"
    if np.any(getattr(space, "start", 0)):
        action += f" + np.array({np.asarray(space.start).tolist()})"
    one = _transform("Action", f"lambda action: {action}", f"gymnasium.spaces.Discrete({math.prod(counts)})", is_vector)
    return f"{one} numbers the combinations"


_DDPG = "a DDPG (presets apex-dpg and apex-dpg-small)"


def actions_refusal(space: Any, is_vector: bool | None = None) -> str:
    """Why a learner does not take actions of this space, and what to do."""
    if has_floats(space):
        return f"the action space is {space}; that of a DQN must be Discrete: a Box of floats is for {_DDPG}"
    if has_choices(space):
        return f"the action space is {space}; that of a DDPG must be a Box of floats: Discrete is for a DQN"
    return (f"the action space is {space}; it must be Discrete, or for {_DDPG} a Box of floats: "
            f"{_numbering(space, is_vector)}")


def bounds_refusal(space: Any) -> str:
    """Why a learner of vectors of -1 to 1 does not take actions of this Box, and what to do."""
    if np.isfinite(space.low).all() and np.isfinite(space.high).all():
        wrapper = _of_either("RescaleAction(env, -1, 1)", "RescaleAction(envs, -1, 1)", None)
        return (f"the buffer's actions are {space}, and a DDPG's are -1 to 1; make the environment with {wrapper} and "
                "the buffer for that: it scales the actions of `act_vectors` to what the environment takes. A data set "
                "is read with action_bounds=True")
    shape = tuple(map(int, space.shape))
    wrapper = _transform("Action", "lambda action: 10 * action", f"gymnasium.spaces.Box(-1, 1, {shape})", None)
    return (f"the buffer's actions are {space}, without finite bounds, and a DDPG's are -1 to 1; make the environment "
            f"with {wrapper} where 10 is the largest number that an action shall have, and the buffer for that")
