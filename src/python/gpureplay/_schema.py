# SPDX-License-Identifier: MIT
"""The fields of a transition, from a dict of shapes and dtypes or from Gymnasium's spaces."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _c_api
from ._spaces import is_a, parts_of

DTYPES: dict[np.dtype, int] = {
    np.dtype(np.float32): _c_api.FLOAT32, np.dtype(np.float16): _c_api.FLOAT16, np.dtype(np.uint8): _c_api.UINT8,
    np.dtype(np.int32): _c_api.INT32, np.dtype(np.int64): _c_api.INT64, np.dtype(np.bool_): _c_api.BOOL,
}
NUMPY: dict[int, np.dtype] = {code: dtype for dtype, code in DTYPES.items()}
STORED_AS = {"float64": "float32", "int8": "int32", "int16": "int32", "uint16": "int32"}  # dtypes of spaces
_ARGUMENTS = ("self", "info", "final_obs", "stream")  # of `add` and `extend`, which take fields by name


class Field(NamedTuple):
    """One field of a transition."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


PREVIOUS = Field("previous", (), np.dtype(np.int64))  # links the transitions of an environment
PRIORITY = Field("priority", (), np.dtype(np.float32))  # the first one of a transition
STEP_REWARD = Field("step_reward", (), np.dtype(np.float32))  # that of a transition's first step alone


def _dtype(name: str, given: Any) -> np.dtype:
    try:
        dtype: np.dtype = np.dtype(given)
        if dtype in DTYPES:
            return dtype
    except TypeError:
        pass
    names = ", ".join(known.name for known in DTYPES)
    raise TypeError(f"field {name!r} has dtype {given!r}; it must be one of {names}")


def _shape(name: str, given: Any) -> tuple[int, ...]:
    shape = (given,) if isinstance(given, (int, np.integer)) else tuple(given if given is not None else "?")
    if len(shape) > _c_api.MAX_DIMS or any(not isinstance(n, (int, np.integer)) or not 1 <= n < 2**31 for n in shape):
        raise ValueError(f"field {name!r} has shape {given!r}; it must be at most {_c_api.MAX_DIMS} axes of 1 or more")
    return tuple(int(n) for n in shape)


def _field(name: str, given: Any) -> Field:
    """`given`: (shape, dtype), {"shape": ..., "dtype": ...}, or a dtype alone for one number."""
    if not isinstance(name, str) or "\0" in name:
        raise TypeError(f"a field is called {name!r}; it must be a str without NUL")
    if name in _ARGUMENTS:
        raise ValueError(f"a field is called {name!r}, as an argument of `add` or `extend`; choose another name")
    if isinstance(given, Mapping):
        unknown = set(given) - {"shape", "dtype"}
        if unknown:
            raise ValueError(f"field {name!r} has {sorted(unknown)}; it may have \"shape\" and \"dtype\"")
        return Field(name, _shape(name, given.get("shape", ())), _dtype(name, given.get("dtype", np.float32)))
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"field {name!r} is {given!r}; it must be (shape, dtype)")
        return Field(name, _shape(name, given[0]), _dtype(name, given[1]))
    return Field(name, (), _dtype(name, given))


def _of_space(name: str, space: Any) -> list[Field]:
    """The fields of a space. Dict and Tuple have one for each leaf, named `name.key`."""
    if is_a(space, "Dict") or is_a(space, "Tuple"):
        if not parts_of(space):
            raise TypeError(f"the space of {name} is {space}, which has no parts; it must have one or more")
        return [field for key, part in parts_of(space) for field in _of_space(f"{name}.{key}", part)]
    has_parts = getattr(space, "spaces", None) is not None
    if has_parts or getattr(space, "dtype", None) is None or getattr(space, "shape", None) is None:
        raise TypeError(f"{name} is a {type(space).__name__}; it must be a Box, Discrete, MultiDiscrete, MultiBinary, "
                        "or a Dict or Tuple of them")
    stored = STORED_AS.get(np.dtype(space.dtype).name, space.dtype)
    if type(space).__name__ == "MultiBinary":
        stored = np.uint8
    return [Field(name, _shape(name, space.shape), _dtype(name, stored))]


def obs_of(space: Any) -> list[Field]:
    """The fields of an observation space."""
    return _of_space("obs", space)


def obs_field(given: Any) -> Field:
    """The observation of a policy, from (shape, dtype)."""
    return _field("obs", given)


def from_spaces(observation: Any, action: Any) -> list[Field]:
    """obs, action, reward, next_obs, terminated, truncated."""
    ends = [Field(name, (), np.dtype(np.bool_)) for name in ("terminated", "truncated")]
    return [*_of_space("obs", observation), *_of_space("action", action), Field("reward", (), np.dtype(np.float32)),
            *_of_space("next_obs", observation), *ends]


def num_actions_of(action_space: Any, given: int | None) -> int | None:
    """The number of outputs of a learner whose buffer has this action space. It is `given` if that fits; if `given` is
    None, it is the number of actions of the space, or None if the space does not say."""
    if action_space is None or not is_a(action_space, "Discrete"):
        return given
    count, start = int(action_space.n), int(getattr(action_space, "start", 0))
    if start == 0 and given in (None, count):
        return count
    if start > 0 and given is not None and given >= start + count:
        return given
    if start != 0:
        raise ValueError(f"the buffer's action space is {action_space!r}, whose first action is {start}; the learner's "
                         f"are 0 to num_actions - 1: make it Discrete({count}), and add {start} to what `act` gives")
    raise ValueError(f"num_actions is {given}; it must be {count}, since the buffer's action space is {action_space!r}")


def fields_of(given: Any, action_space: Any = None) -> list[Field]:
    """The schema of `ReplayBuffer(capacity, fields, action_space)`."""
    if isinstance(given, Mapping) and not hasattr(given, "sample"):
        if action_space is not None:
            raise TypeError("action_space goes with an observation space; `fields` is a dict and has the action itself")
        return [_field(name, value) for name, value in given.items()]
    if hasattr(given, "sample") and hasattr(action_space, "sample"):
        return from_spaces(given, action_space)
    raise TypeError(f"fields is {given!r} and action_space {action_space!r}; they must be a dict of name: (shape, "
                    "dtype), or an observation space and an action space of Gymnasium")


def shape_of(field: _c_api.Field | _c_api.Space) -> tuple[int, ...]:
    """The shape in a struct, which ends with a 0 if it has fewer axes than there can be."""
    shape = tuple(field.shape)
    return shape[:(*shape, 0).index(0)]


def to_c(fields: list[Field]) -> ctypes.Array[_c_api.Field]:
    """The fields as gpur_field (len(fields)). The array keeps the names alive."""
    array = (_c_api.Field * len(fields))()
    for at, field in zip(array, fields):
        at.name, at.dtype = field.name.encode(), DTYPES[field.dtype]
        at.shape[:len(field.shape)] = field.shape
    return array
