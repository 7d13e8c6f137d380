# SPDX-License-Identifier: MIT
"""Observations of Gymnasium's discrete and composed spaces as vectors of float32, flattened as Gymnasium does it."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ._device import caller_depth
from ._inputs import convert
from ._library import InvalidArgument
from ._schema import Field, obs_field
from ._spaces import is_a, kind_of, parts_of, refuse_axes, refuse_long_vectors, refuse_observations, warn_of_bytes

# What the arrays of a Box of these dtypes are stored as. All other observations are flattened.
_STORED_AS = {"uint8": np.uint8, "bool": np.uint8, "float16": np.float32, "float32": np.float32, "float64": np.float32}


def _refuse_outside(space: Any, obs: Any) -> None:
    """ValueError: a number of a discrete space is none of its values. Gymnasium's function would take it for
    another."""
    kind = kind_of(space)
    if kind in ("Tuple", "Dict"):
        for key, part in parts_of(space):
            _refuse_outside(part, obs[key])
    elif kind in ("Discrete", "MultiDiscrete"):
        count, start = (space.n if kind == "Discrete" else space.nvec), getattr(space, "start", 0)
        value = np.asarray(obs)
        if value.shape != np.shape(count) or value.dtype.kind not in "iu" or (value < start).any() \
                or (value >= start + count).any():
            raise ValueError(f"the observation {obs} is not in its space, {space}")


def _refuse_others(space: Any, obs: Any, place: str = "") -> None:
    """ValueError: an observation, or a batch of them, has not the parts of its Tuple or Dict. place: of it in the whole
    observation, "['a'][0]"."""
    kind, name = kind_of(space), f"the observation's part {place}" if place else "the observation"
    if kind not in ("Tuple", "Dict"):
        return
    keys = [key for key, _ in parts_of(space)]
    is_array = isinstance(obs, np.ndarray) and obs.ndim > 0  # Gymnasium's Tuple has arrays, too
    if not (isinstance(obs, Mapping) if kind == "Dict" else isinstance(obs, (tuple, list)) or is_array):
        raise ValueError(f"{name} is {obs!r}; it must be a {kind.lower()}, as its space is {space}")
    if kind == "Tuple" and len(obs) != len(keys):
        raise ValueError(f"{name} has {len(obs)} parts; it must have {len(keys)}, as its space is {space}")
    missing = [key for key in keys if kind == "Dict" and key not in obs]
    if missing:
        raise ValueError(f"{name} has no {missing[0]!r}; it must have {', '.join(map(repr, keys))}, as its space is "
                         f"{space}")
    for key, part in parts_of(space):
        _refuse_others(part, obs[key], f"{place}[{key!r}]")


class Flattener:
    """Makes vectors of observations of a space: the numbers of a Box or MultiBinary, of each Discrete a 1 in as many
    numbers as it has values, and the parts of a Tuple or Dict one after another [gymnasium.spaces.flatten]. Integers
    beyond 2**24 are rounded to float32, as float64 is.

    is_vector: whether observations are those of a vector environment, for advice; None: it is not known.

    TypeError: the space cannot be flattened.
    """

    def __init__(self, space: Any, is_vector: bool | None = None):
        refuse_observations(space, is_vector)
        refuse_long_vectors(space, is_vector)
        try:
            self._gymnasium = importlib.import_module("gymnasium")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"the observation space is {space}, and Gymnasium, which flattens it, is not "
                                      "installed; `pip install gymnasium`", name=error.name) from error
        if not isinstance(space, self._gymnasium.Space):
            raise TypeError(f"the observation space is {space}, a {type(space).__module__}.{type(space).__name__}; it "
                            "must be one of gymnasium.spaces, or a Box of floats or uint8")
        self.space = space
        self.box = self._gymnasium.spaces.flatten_space(space)
        self.box32 = self._gymnasium.spaces.Box(-np.inf, np.inf, self.box.shape, np.float32)  # what `one` gives
        self.field = Field("obs", tuple(int(n) for n in self.box.shape), np.dtype(np.float32))
        self.description = _described(space)

    def parts(self) -> dict[str, tuple[int, int]]:
        """Where the parts of a Dict are in the vector: from which number on, and up to which. Of other spaces: none."""
        found, at = {}, 0
        for key, part in parts_of(self.space) if kind_of(self.space) == "Dict" else ():
            found[str(key)] = at, at + int(self._gymnasium.spaces.flatdim(part))
            at = found[str(key)][1]
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flattener) and self.description == other.description

    __hash__ = None  # type: ignore[assignment]

    def one(self, obs: Any) -> np.ndarray:
        """The vector of an observation. ValueError: the observation is not in the space."""
        _refuse_others(self.space, obs)
        _refuse_outside(self.space, obs)
        vector = np.asarray(self._gymnasium.spaces.flatten(self.space, obs))
        return convert(vector if vector.dtype.kind == "f" else vector.astype(np.float32), self.field)

    def batch(self, obs: Any) -> np.ndarray:
        """(count, ...) of observations as a vector environment has them."""
        count = np.shape(_first_leaf(self.space, obs)[1])[0]
        utils = importlib.import_module("gymnasium.vector.utils")
        return self._stack(utils.iterate(utils.batch_space(self.space, max(1, count)), obs) if count else ())

    def _stack(self, found: Any) -> np.ndarray:
        return np.stack([self.one(one) for one in found]) if len(found := list(found)) else \
            np.empty((0, *self.field.shape), self.field.dtype)

    def of_step(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that `add` was given, with flattened observations."""
        return {name: self.read(value) if name in ("obs", "next_obs") else value for name, value in values.items()}

    def of_final(self, given: Any) -> Any:
        """The last observations of episodes, of which Gymnasium has one or None for each environment."""
        if given is None:
            return None
        return self.batch(given) if isinstance(given, (Mapping, tuple)) else \
            [None if one is None else self.read(one) for one in given]

    def read(self, obs: Any) -> Any:
        """Of observations as the environment has them, one or a batch, their vectors. Those that are vectors already
        are returned as they are: arrays of floats, and others whose shape is that of vectors alone."""
        if kind_of(self.space) in ("Tuple", "Dict"):
            if isinstance(obs, (Mapping, tuple)):
                _refuse_others(self.space, obs)
                leaf, value = _first_leaf(self.space, obs)
                return self.one(obs) if np.ndim(value) == len(leaf.shape) else self.batch(obs)
            is_many = isinstance(obs, (list, np.ndarray)) and len(obs) and isinstance(obs[0], (Mapping, tuple))
            return self._stack(obs) if is_many else obs
        if hasattr(obs, "__dlpack__") and not isinstance(obs, np.ndarray):
            return obs
        array, shape = np.asarray(obs), self.space.shape
        if array.dtype.kind == "f" or shape not in (array.shape, array.shape[1:]):
            return obs
        return self.one(array) if array.shape == shape else self.batch(array)


def _first_leaf(space: Any, obs: Any) -> tuple[Any, Any]:
    """The first space that is no Tuple or Dict, and what `obs` has of it."""
    while kind_of(space) in ("Tuple", "Dict"):
        key, space = parts_of(space)[0]
        obs = obs[key]
    return space, obs


class Translation(NamedTuple):
    """Between an environment and the network that acts in it, where they speak of the same in other numbers.

    flattener: of the environment's observations; None: the network reads them as they are. first_action: the
    environment's number of the network's action 0. bounds: of the action vectors that the environment takes,
    the shape, and the least and the largest value of each number; None: the network's -1 to 1.
    """

    flattener: Flattener | None = None
    first_action: int = 0
    bounds: tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...]] | None = None

    def read(self, obs: Any) -> Any:
        """Observations as the network reads them."""
        return obs if self.flattener is None else self.flattener.read(obs)

    def actions(self, found: np.ndarray) -> np.ndarray:
        """The network's actions as the environment takes them: int32, or int64 where they need it."""
        if self.first_action == 0:
            return found
        last = np.int64(self.first_action) + found
        return last.astype(np.int32) if (last == last.astype(np.int32)).all() else last

    def vectors(self, found: np.ndarray) -> np.ndarray:
        """The same of action vectors, (count, numbers) float32: -1 and 1 become the bounds, as for a run's actors."""
        if self.bounds is None:
            return found
        shape, low, high = self.bounds
        scaled = np.add(low, 0.5 * (found.astype(np.float64) + 1.0) * np.subtract(high, low))
        return scaled.astype(np.float32).reshape(len(found), *shape)

    def numbers(self, name: str, actions: Any, count: int) -> Any:
        """The reverse of `actions`, for a network that has `count`. InvalidArgument: one is none of them."""
        first = self.first_action
        if first == 0:
            return actions
        array = np.asarray(actions)
        if array.dtype.kind not in "iu":
            return actions
        wrong = np.flatnonzero((array < first) | (array >= first + count))
        if wrong.size:
            raise InvalidArgument(f"{name}[{wrong[0]}] is {array.reshape(-1)[wrong[0]]}; it must be {first} to "
                                  f"{first + count - 1}, as the actions of the environment")
        return array.astype(np.int64) - first

    def warn(self, network: Mapping[str, Any], is_vector: bool | None = None) -> None:
        """RuntimeWarning: a learner with these settings of its network reads numbers of 0 to 255."""
        if self.flattener is not None:
            warn_of_bytes(self.flattener.space, network["input_scale"], caller_depth(), is_vector)

    def described(self) -> dict[str, Any]:
        """For config.json, which has the bounds of actions already."""
        return {**({} if self.flattener is None else {"flattened": self.flattener.description}),
                **({"first_action": self.first_action} if self.first_action else {})}


def translation_of(described: Mapping[str, Any]) -> Translation:
    """The reverse of Translation.described, among other members. Without Gymnasium only flattened observations are
    read."""
    try:
        flattener = flattener_of(described["flattened"]) if "flattened" in described else None
    except ModuleNotFoundError:
        flattener = None
    action = described.get("action")
    bounds = None if action is None else (tuple(action["shape"]), tuple(action["low"]), tuple(action["high"]))
    return Translation(flattener, int(described.get("first_action", 0)), bounds)


def reading_of(obs: Any, is_vector: bool | None = None) -> tuple[Field, Flattener | None]:
    """What a network reads of observations: of a space, or (shape, dtype). The flattener is None if it reads them as
    they are. TypeError, with what to do: it cannot read them."""
    if kind_of(obs) is None and not hasattr(obs, "sample"):
        return obs_field(obs), None
    refuse_observations(obs, is_vector)
    if not is_a(obs, "Box") or np.dtype(obs.dtype).name not in _STORED_AS:
        flattener = Flattener(obs, is_vector)
        return flattener.field, flattener
    refuse_axes(tuple(obs.shape), is_vector=is_vector)
    return Field("obs", tuple(int(n) for n in obs.shape), np.dtype(_STORED_AS[np.dtype(obs.dtype).name])), None


# In config.json.


def _described(space: Any) -> dict[str, Any]:
    """The space as JSON has it, without the bounds of a Box, which do not matter here."""
    kind = kind_of(space)
    if kind in ("Tuple", "Dict"):
        return {"kind": kind, "spaces": [[key, _described(part)] for key, part in parts_of(space)]}
    if kind == "Discrete":
        return {"kind": kind, "n": int(space.n), "start": int(getattr(space, "start", 0))}
    if kind == "MultiDiscrete":
        start = np.broadcast_to(getattr(space, "start", 0), np.shape(space.nvec))
        return {"kind": kind, "nvec": np.asarray(space.nvec).tolist(), "start": start.tolist()}
    return {"kind": kind, "shape": [int(n) for n in space.shape], "dtype": np.dtype(space.dtype).name}


def flattener_of(description: Mapping[str, Any]) -> Flattener:
    """The reverse of Flattener.description."""
    return Flattener(_space_of(importlib.import_module("gymnasium").spaces, description))


def _space_of(spaces: Any, given: Mapping[str, Any]) -> Any:
    kind = given["kind"]
    if kind == "Dict":
        return spaces.Dict(OrderedDict((key, _space_of(spaces, part)) for key, part in given["spaces"]))
    if kind == "Tuple":
        return spaces.Tuple([_space_of(spaces, part) for _, part in given["spaces"]])
    if kind == "Discrete":
        return spaces.Discrete(given["n"], start=given["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(given["nvec"], start=given["start"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(given["shape"])
    dtype = np.dtype(given["dtype"])
    low, high = (0, 1) if dtype.kind == "b" else (-np.inf, np.inf) if dtype.kind == "f" else \
        (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(low, high, tuple(given["shape"]), dtype)
