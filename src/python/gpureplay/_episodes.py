# SPDX-License-Identifier: MIT
"""What `add` makes of a step of environments that reset themselves [Gymnasium 1.x, vector.AutoresetMode].

disabled    the caller resets; every step is a transition
next_step   the step after an episode's end only resets: its action is ignored, and it is no transition
same_step   an environment that ends is reset at once: next_obs is the next episode's first observation already, and the
            episode's last one comes beside it, in info["final_obs"]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _inputs
from ._schema import Field

MODES = ("disabled", "next_step", "same_step")
Arrays = list[np.ndarray]


def mode_of(given: Any, num_envs: int) -> str:
    """From a name, or from Gymnasium's enum. None: what Gymnasium does by default, which is next_step for a vector of
    environments and disabled for one."""
    if given is None:
        return "next_step" if num_envs > 1 else "disabled"
    name = str(getattr(given, "name", given)).lower()
    if name not in MODES:
        raise ValueError(f"autoreset is {given!r}; it must be one of {', '.join(map(repr, MODES))}, or Gymnasium's "
                         "AutoresetMode")
    return name


class Disabled:
    """The caller resets."""

    mode = "disabled"
    flags: list[int] = []  # fields that tell an episode's end, where that is looked at

    def settle(self, arrays: Arrays, info: Any, final_obs: Any) -> tuple[Arrays, Any]:
        """What of a step are transitions, and what `done` wants to know once they are in."""
        return arrays, None

    def done(self, ended: Any) -> None:
        """The step's transitions are in."""

    def restart(self, envs: Any = slice(None)) -> None:
        """These environments were reset by the caller."""


class NextStep(Disabled):
    """Leaves out the steps that only reset."""

    mode = "next_step"

    def __init__(self, num_envs: int, fields: list[Field]):
        self.flags = _flags(fields)
        self._ended = np.zeros(num_envs, np.bool_)  # in the step before; the extension reads and writes it, too

    def settle(self, arrays: Arrays, info: Any, final_obs: Any) -> tuple[Arrays, np.ndarray]:
        ended, was_reset = _any(arrays, self.flags), self._ended
        if not was_reset.any():
            return arrays, ended
        return [array[~was_reset] for array in arrays], ended & ~was_reset

    @property
    def ended(self) -> np.ndarray:
        """(num_envs,) bool: the environments whose next step only resets."""
        return self._ended

    def done(self, ended: np.ndarray) -> None:
        self._ended = ended

    def restart(self, envs: Any = slice(None)) -> None:
        self._ended[envs] = False


class SameStep(Disabled):
    """Takes the last observation of an episode that ended from beside the step."""

    mode = "same_step"

    def __init__(self, fields: list[Field]):
        self._fields, self.flags = fields, _flags(fields)

    def settle(self, arrays: Arrays, info: Any, final_obs: Any) -> tuple[Arrays, None]:
        ended = _any(arrays, self.flags)
        if not ended.any():
            return arrays, None
        return [with_final(field, array, info, final_obs, ended) for field, array in zip(self._fields, arrays)], None


def resets_of(given: Any, num_envs: int, fields: list[Field]) -> Disabled:
    """What settles the steps of a buffer with these fields. Without `terminated` there are no episodes to know of."""
    mode = mode_of(given, num_envs)
    if mode == "disabled" or not _flags(fields):
        return Disabled()
    return NextStep(num_envs, fields) if mode == "next_step" else SameStep(fields)


def numbers_of(envs: Any, num_envs: int) -> np.ndarray:
    """(count,) int64, of which environments are meant. None: all."""
    given = np.arange(num_envs) if envs is None else np.asarray(envs)
    if given.dtype.kind == "b":
        if given.shape != (num_envs,):
            raise ValueError(f"envs is a mask of shape {given.shape}; it must be ({num_envs},)")
        given = np.flatnonzero(given)
    if (given.dtype.kind not in "iu" and given.size) or given.ndim > 1:
        raise TypeError(f"envs is {envs!r}; it must be None, a mask of ({num_envs},) bool, or numbers of environments")
    numbers: np.ndarray = given.reshape(-1).astype(np.int64)
    for env in numbers[(numbers < 0) | (numbers >= num_envs)]:
        raise ValueError(f"envs has {env}; it must be 0 to {num_envs - 1}")
    return numbers


def is_unsaid(given: Any, num_envs: int, fields: list[Field]) -> bool:
    """One environment, of which nobody said how it resets: a single one does not, a vector's only one may."""
    return given is None and num_envs == 1 and bool(_flags(fields))


def refuse_of_vector(values: dict[str, Any], fields: list[Field]) -> None:
    """A vector's step, which has an axis of environments."""
    shape = np.shape(values["terminated"])
    if len(shape) > len(fields[_flags(fields)[0]].shape):
        raise ValueError(f"terminated has shape {shape}, as a vector of one environment gives it, and nobody said how "
                         "that one resets; make the buffer with `ReplayBuffer.for_env(capacity, envs)`, or say "
                         "autoreset=\"next_step\" (Gymnasium's default for vectors), \"same_step\" or \"disabled\"")


def _flags(fields: list[Field]) -> list[int]:
    """Where an episode's end is told: terminated, and truncated if it is there."""
    names = [field.name for field in fields]
    return [names.index(name) for name in ("terminated", "truncated") if name in names] if "terminated" in names else []


def _any(arrays: list[np.ndarray], flags: list[int]) -> np.ndarray:
    """(num_envs,) bool, of its own."""
    ended: np.ndarray = arrays[flags[0]] != 0
    for at in flags[1:]:
        ended |= arrays[at] != 0
    return ended if ended.ndim == 1 else np.any(ended.reshape(len(ended), -1), axis=1)


def with_final(field: Field, array: np.ndarray, info: Any, final_obs: Any, ended: np.ndarray) -> np.ndarray:
    """Of next_obs (or a leaf of it) what was there before the environments that ended were reset; of any other field
    the array itself."""
    name, *path = field.name.split(".")
    if name != "next_obs":
        return array
    final = final_obs if final_obs is not None else info.get("final_obs") if info is not None else None
    return _with_last(field, array, _leaf(final, path), ended)


def _with_last(field: Field, next_obs: np.ndarray, final: Any, ended: np.ndarray) -> np.ndarray:
    """A copy of next_obs (num_envs, ...) in which the environments that ended have their episode's last observation."""
    out: np.ndarray = next_obs.copy()
    for env in np.flatnonzero(ended):
        last = None if final is None else final[env]
        if last is None:
            raise ValueError(f"environment {env} ended, and its last {field.name} is not given: under autoreset "
                             "\"same_step\" pass info=..., with info[\"final_obs\"], or final_obs=...")
        last = _inputs.host(np.asarray(last), field)
        if last.shape != field.shape:
            raise ValueError(f"final_obs of environment {env} has shape {last.shape}; it must be {field.shape}")
        out[env] = last
    return out


def _leaf(final: Any, path: list[str]) -> Any:
    """final_obs of one leaf of a Dict or Tuple space, indexable by environment: from Gymnasium's array of dicts or
    tuples (None where nothing ended), or from a dict or tuple of arrays."""
    if not path or final is None:
        return final
    if isinstance(final, (Mapping, tuple)):
        return _leaf(_descend(final, path[:1]), path[1:])
    return [_descend(one, path) for one in final]


def _descend(one: Any, path: list[str]) -> Any:
    for key in path if one is not None else ():
        one = one[key] if isinstance(one, Mapping) else one[int(key)]
    return one
