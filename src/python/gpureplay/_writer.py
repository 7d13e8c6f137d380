# SPDX-License-Identifier: MIT
"""Writers, which put transitions into a buffer: what they need to know of environments, of environments that reset
themselves, and of episodes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from . import _c_api
from ._accelerator import accelerated, fast
from ._config import Spec
from ._device import Device
from ._dlpack import DeviceArray
from ._flatten import Flattener
from ._handle import Handle, WeakItems
from ._inputs import (Columns, Overwritten, address_of, convert, integer, producer_stream, refuse_not_finite,
                      refuse_one_memory, stream_of)
from ._library import Closed, GpureplayError, InvalidArgument, check, lib
from ._masks import Masks
from ._schema import PREVIOUS, PRIORITY, STEP_REWARD, Field


class Buffer(Protocol):
    """The parts of a ReplayBuffer, beside those of a Handle, that its writers use."""

    device: Device
    fields: list[Field]
    _tracks_episodes: bool
    _flattener: Flattener | None
    _masks: Masks | None
    _spec: Spec
    _users: WeakItems[Handle]


# Environments.

# Wrappers that reset a single environment: the one of Gymnasium 1.x, and the one before.
_AUTORESET_WRAPPERS = {"Autoreset": "next_step", "AutoResetWrapper": "same_step"}


class Environment(NamedTuple):
    """The spaces of one environment, the number of environments, and how they reset themselves: a name, or Gymnasium's
    enum."""

    observation_space: Any
    action_space: Any
    num_envs: int
    autoreset: Any


def environment_of(env: Any, autoreset: Any = None) -> Environment:
    """Describes a Gymnasium Env or VectorEnv. `autoreset` overrides what the environment says, unless it is None."""
    if hasattr(env, "single_observation_space"):
        mode = _mode_of_vector(env) if autoreset is None else autoreset
        if mode is None:
            raise ValueError(f"metadata of {env} has no \"autoreset_mode\", by which it would tell how it resets its "
                             "environments; pass autoreset=\"next_step\", \"same_step\" or \"disabled\"")
        return Environment(env.single_observation_space, env.single_action_space, env.num_envs, mode)
    if not hasattr(env, "observation_space") or not hasattr(env, "action_space") or hasattr(env, "num_envs"):
        raise TypeError(f"env is {env!r}; it must be an Env or a VectorEnv of Gymnasium")
    return Environment(env.observation_space, env.action_space, 1, _mode_of_single(env) if autoreset is None
                       else autoreset)


def _mode_of_vector(env: Any) -> Any:
    """None: the vector does not say. Its own attribute counts first, because Gymnasium before 1.2 may share the
    metadata among vectors."""
    own = getattr(getattr(env, "unwrapped", env), "autoreset_mode", None)
    return own if own is not None else (getattr(env, "metadata", None) or {}).get("autoreset_mode")


def _mode_of_single(env: Any) -> str:
    while env is not None:
        if type(env).__name__ in _AUTORESET_WRAPPERS:
            return _AUTORESET_WRAPPERS[type(env).__name__]
        env = getattr(env, "env", None)
    return "disabled"


# Autoreset: which rows of a step are transitions [Gymnasium 1.x, vector.AutoresetMode].

# disabled: the caller resets the environments; every step is a transition.
# next_step: the step after an episode's end only resets the environment. Its action is ignored; it is no transition.
# same_step: an environment whose episode ends is reset at once. next_obs is then the first observation of the next
#     episode, and the last one of the old episode comes beside it, in info["final_obs"].
_TRUNCATED = Field("truncated", (), np.dtype(np.bool_))
AUTORESETS = ("disabled", "next_step", "same_step")  # in the order of the library's numbers


class Disabled:
    """The caller resets the environments."""

    mode = "disabled"
    end_fields: list[int] = []  # the fields that mark an episode's end, if the mode needs them

    def transitions(self, arrays: list[np.ndarray], info: Any, final_obs: Any) -> tuple[list[np.ndarray], Any]:
        """The rows of a step that are transitions, and the argument of `note_ended`."""
        return arrays, None

    def note_ended(self, ended: Any) -> None:
        """Called when the transitions of a step were stored."""

    def restart(self, envs: Any = slice(None)) -> None:
        """Called when the caller has reset these environments."""


class NextStep(Disabled):
    """Leaves out the steps that only reset."""

    mode = "next_step"

    def __init__(self, num_envs: int, fields: list[Field]):
        self.end_fields = _end_fields(fields)
        self._ended = np.zeros(num_envs, np.bool_)  # by the step before; the extension module reads and writes it, too

    def transitions(self, arrays: list[np.ndarray], info: Any, final_obs: Any) -> tuple[list[np.ndarray], np.ndarray]:
        ended, was_reset = _any_set(arrays, self.end_fields), self._ended
        if not was_reset.any():
            return arrays, ended
        return [array[~was_reset] for array in arrays], ended & ~was_reset

    @property
    def ended(self) -> np.ndarray:
        """(num_envs,) bool: the environments whose next step only resets them."""
        return self._ended

    def note_ended(self, ended: np.ndarray) -> None:
        self._ended[...] = ended

    def restart(self, envs: Any = slice(None)) -> None:
        self._ended[envs] = False


class SameStep(Disabled):
    """Takes the last observation of an episode from beside the step."""

    mode = "same_step"

    def __init__(self, fields: list[Field], check_nan: bool):
        self._fields, self.end_fields, self._check_nan = fields, _end_fields(fields), check_nan

    def transitions(self, arrays: list[np.ndarray], info: Any, final_obs: Any) -> tuple[list[np.ndarray], None]:
        ended = _any_set(arrays, self.end_fields)
        if not ended.any():
            return arrays, None
        return [_with_final_obs(field, array, info, final_obs, ended, self._check_nan)
                for field, array in zip(self._fields, arrays)], None


def _autoreset_of(given: Any, num_envs: int, fields: list[Field], check_nan: bool) -> Disabled:
    """Without a field `terminated` there are no episodes, and every step is a transition."""
    mode = _mode_of(given, num_envs)
    if mode == "disabled" or not _end_fields(fields):
        return Disabled()
    return NextStep(num_envs, fields) if mode == "next_step" else SameStep(fields, check_nan)


def _mode_of(given: Any, num_envs: int) -> str:
    """From a name, or from Gymnasium's enum. None is Gymnasium's default: next_step for a vector of environments, and
    disabled for a single one."""
    if given is None:
        return "next_step" if num_envs > 1 else "disabled"
    return autoreset_name(given)


def autoreset_name(given: Any) -> str:
    """From a name, or from Gymnasium's enum."""
    name = str(getattr(given, "name", given)).lower()
    if name not in AUTORESETS:
        raise ValueError(f"autoreset is {given!r}; it must be one of {', '.join(map(repr, AUTORESETS))}, or "
                         "Gymnasium's AutoresetMode")
    return name


def _is_undecided(given: Any, num_envs: int, fields: list[Field]) -> bool:
    """Whether there is one environment and the caller did not say how it resets itself. A single environment does not;
    the only one of a vector may."""
    return given is None and num_envs == 1 and bool(_end_fields(fields))


def _refuse_step_of_vector(values: dict[str, Any], fields: list[Field]) -> None:
    """ValueError: the step has an axis of environments, so it is a vector's, and its autoreset mode is unknown."""
    shape = np.shape(values["terminated"])
    if len(shape) > len(fields[_end_fields(fields)[0]].shape):
        raise ValueError(f"terminated has shape {shape}, as a vector of one environment gives it, and nobody said how "
                         "that one resets; make the buffer with `ReplayBuffer.for_env(capacity, envs)`, or say "
                         "autoreset=\"next_step\" (Gymnasium's default for vectors), \"same_step\" or \"disabled\"")


def _env_numbers(envs: Any, num_envs: int) -> np.ndarray:
    """The environments that `envs` means, (count,) int64. None means all."""
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


def _end_fields(fields: list[Field]) -> list[int]:
    """The indices of the fields that mark an episode's end: terminated, and truncated if it exists."""
    names = [field.name for field in fields]
    return [names.index(name) for name in ("terminated", "truncated") if name in names] if "terminated" in names else []


def _with_truncated(fields: list[Field]) -> list[Field]:
    """The fields of a step. `truncated` can always be given beside `terminated`: it ends an episode whether it is
    stored or not."""
    names = [field.name for field in fields]
    return [*fields, _TRUNCATED] if "terminated" in names and _TRUNCATED.name not in names else fields


def _optional_field(fields: list[Field]) -> int:
    """The index of `truncated`, if zeros of the shape of `terminated` can replace it; else -1."""
    places = {field.name: at for at, field in enumerate(fields)}
    if "truncated" not in places or "terminated" not in places:
        return -1
    truncated = fields[places["truncated"]]
    is_like = truncated.shape == fields[places["terminated"]].shape and truncated.dtype.kind != "i"
    return places["truncated"] if is_like else -1


def _any_set(arrays: list[np.ndarray], places: list[int]) -> np.ndarray:
    """(num_envs,) bool: whether one of these arrays is not 0. The result is a new array."""
    found: np.ndarray = arrays[places[0]] != 0
    for at in places[1:]:
        found |= arrays[at] != 0
    return found if found.ndim == 1 else np.any(found.reshape(len(found), -1), axis=1)


def _with_final_obs(field: Field, array: np.ndarray, info: Any, final_obs: Any, ended: np.ndarray,
                    check_nan: bool) -> np.ndarray:
    """For next_obs, or a leaf of it: a copy in which the environments that ended have their episode's last observation.
    For any other field: the array itself. ValueError: there is none, or with check_nan one is not finite."""
    name, *path = field.name.split(".")
    if name != "next_obs":
        return array
    given = _final_of(info) if final_obs is None else final_obs
    final = _leaf_of_final(given, path)
    out: np.ndarray = array.copy()
    for env in np.flatnonzero(ended):
        last = None if final is None or env >= len(final) else final[env]
        if last is None:
            raise ValueError(f"environment {env} ended, and its last {field.name} is not given: under autoreset "
                             "\"same_step\" pass info=..., with info[\"final_obs\"], or final_obs=...")
        last = convert(np.asarray(last), field)
        if last.shape != field.shape:
            raise ValueError(f"final_obs of environment {env} has shape {last.shape}; it must be {field.shape}")
        out[env] = last
    if check_nan and field.dtype.kind == "f":  # what did not end is looked at as next_obs
        lasts = np.zeros_like(out)
        lasts[ended] = out[ended]
        refuse_not_finite(field._replace(name=".".join(["final_obs", *path])), lasts)
    return out


def _final_of(info: Any) -> Any:
    """The last observations in Gymnasium's dict, or in Stable-Baselines3's list of a dict for each environment. None:
    there are none."""
    if info is None or isinstance(info, Mapping):
        return None if info is None else info.get("final_obs")
    if isinstance(info, (list, tuple)) and all(isinstance(one, Mapping) for one in info):
        return [one.get("terminal_observation") for one in info]
    raise TypeError(f"info is a {type(info).__name__}; it must be Gymnasium's dict, or Stable-Baselines3's list of a "
                    "dict for each environment")


def _leaf_of_final(final: Any, path: list[str]) -> Any:
    """One leaf of final_obs of a Dict or Tuple space, indexable by environment. final_obs may be Gymnasium's array of
    dicts or tuples (None for an environment that did not end), or a dict or tuple of arrays."""
    if not path or final is None:
        return final
    if isinstance(final, (Mapping, tuple)):
        return _leaf_of_final(*_step_into(final, path))
    return [_leaf_of(one, path) for one in final]


def _step_into(one: Any, path: list[str]) -> tuple[Any, list[str]]:
    """A part of it, and the rest of the path. Keys of a Dict may have dots, at which the path was split."""
    if not isinstance(one, Mapping):
        return one[int(path[0])], path[1:]
    count = next((n for n in range(1, len(path) + 1) if ".".join(path[:n]) in one), 1)
    return one[".".join(path[:count])], path[count:]


def _leaf_of(one: Any, path: list[str]) -> Any:
    while path and one is not None:
        one, path = _step_into(one, path)
    return one


# Episodes that the library tracks, to make transitions of several steps, stacks of frames that are stored once, and
# links to the transition before.

_STEP_FIELDS = ("obs", "action", "reward", "next_obs", "terminated")
_FILLED_FIELDS = ("discount", "previous")  # the library fills these in
# States of an environment. NONE: the next `obs` opens an episode. ENDED: the next step only resets. UNKNOWN: the
# library must be asked, as at first, and after a load or a Ctrl-C.
_NONE, _OPEN, _ENDED = _c_api.EPISODE_NONE, _c_api.EPISODE_OPEN, _c_api.EPISODE_ENDED
_UNKNOWN = 3
_STATE_AFTER_END = {"disabled": _NONE, "next_step": _ENDED, "same_step": _OPEN}

_memcmp: Callable[[int, int, int], int] = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]  # type: ignore[attr-defined]


def tracks_episodes(spec: Spec) -> bool:
    """Whether `add` of a buffer with this spec takes steps and not transitions. ValueError: it must, and the fields of
    a step are missing."""
    names = {field.name for field in spec.fields}
    missing = [name for name in _STEP_FIELDS if name not in names]
    must = spec.config.n_step > 1 or spec.config.layout == _c_api.LAYOUT_FRAMES
    if must and missing:
        raise ValueError(f"there is no field {missing[0]!r}; with n_step above 1 or layout \"frames\" steps want "
                         f"{', '.join(_STEP_FIELDS)}, each one array: of a Dict or Tuple space flatten=True makes one")
    return must or (PREVIOUS in spec.fields and not missing)


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Bit for bit, except that zeros may differ in their signs; for contiguous arrays of one shape and dtype."""
    if _memcmp(address_of(one), address_of(other), one.nbytes) == 0:
        return True
    return one.dtype.kind == "f" and (one + one.dtype.type(0)).tobytes() == (other + other.dtype.type(0)).tobytes()


class EnvStates:
    """The state of every environment's episode. The extension module reads and writes these arrays, so they must stay
    the same objects."""

    def __init__(self, num_envs: int, obs: Field):
        self.state = np.full(num_envs, _UNKNOWN, np.uint8)
        self.pending = np.zeros(num_envs, np.int64)  # steps that begin no transition yet
        self.last_obs = np.zeros((num_envs, *obs.shape), obs.dtype)  # of the open episodes

    def has(self, state: int) -> bool:
        """Whether any environment is in this state."""
        return state in self.state.tobytes()

    def ask(self, writer: Handle) -> None:
        """Reads the states from the library. An open episode without a step whose observation is all zeros means no
        episode: `EpisodeTracker.restart` left it there."""
        info = _c_api.EpisodeInfo()
        for env in range(len(self.state)):
            last = self.last_obs[env:env + 1]
            writer._call(lib.gpur_writer_get_episode, env, ctypes.addressof(info), address_of(last))
            is_blank = info.state == _OPEN and info.steps == 0 and not any(last.tobytes())
            self.pending[env], self.state[env] = info.pending, _NONE if is_blank else info.state


class EpisodeTracker:
    """`add` of a writer whose episodes the library tracks. Only one thread at a time may use it.

    It remembers the state and the last observation of each environment, to refuse an observation that does not follow
    from the step before: the library would take the episode to go on. The extension module does the same in C, with the
    same arrays."""

    def __init__(self, writer: Handle, buffer: Buffer, num_envs: int, mode: str):
        spec = buffer._spec
        self._writer, self._mode, self._n_step = weakref.proxy(writer), mode, spec.config.n_step
        self.fields = _with_truncated([field for field in spec.given if field.name not in _FILLED_FIELDS])
        self._columns = Columns(self.fields, num_envs, buffer.device._if_cuda)
        known = (*_STEP_FIELDS, *_FILLED_FIELDS, _TRUNCATED.name, *([PRIORITY.name] if spec.ends else []))
        kept = STEP_REWARD.name if spec.keep_steps else None
        self._extra_names = ["" if field.name in known else "reward" if field.name == kept else field.name
                             for field in spec.fields]
        self._next_obs = next(field for field in self.fields if field.name == "next_obs")
        is_stacked = spec.config.frame_stack > 1 and spec.observations == _c_api.OBSERVATIONS_STACKS
        self._stack_axis = None if not is_stacked else 1 if spec.config.stack_axis == _c_api.STACK_FIRST else -1
        self._no_env = np.zeros(num_envs, np.bool_)
        self.envs = EnvStates(num_envs, self._next_obs)
        # The usual states: all episodes are open, and each step completes a transition. A step then changes nothing
        # here.
        self._steady = bytes([_OPEN]) * num_envs, np.full(num_envs, self._n_step - 1, np.int64).tobytes()

    def for_module(self) -> tuple[Any, ...]:
        """What an Appender of the extension module needs to do the same."""
        at, envs = {field.name: place for place, field in enumerate(self.fields)}, self.envs
        return (address_of(envs.state), address_of(envs.pending), address_of(envs.last_obs),
                _STATE_AFTER_END[self._mode], self._n_step,
                tuple(at[name] for name in ("obs", "action", "reward", "next_obs", "terminated", "truncated")),
                [at.get(name, -1) for name in self._extra_names])

    def add(self, values: dict[str, Any], info: Any, final_obs: Any) -> int:
        """Adds one step of every environment. Returns how many transitions it completed."""
        arrays = self._columns.of_step(values)
        named = {field.name: array for field, array in zip(self.fields, arrays)}
        ended, final = self._ended(named["terminated"], named["truncated"]), None
        if self._mode == "same_step" and ended is not self._no_env:
            final = _with_final_obs(self._next_obs, named["next_obs"], info, final_obs, ended, check_nan=False)
        self._ensure_known()
        self._refuse_gap(named["obs"])
        if self.envs.has(_NONE):
            self._begin_episodes(named["obs"])
        return self._step(named, final, ended)

    def check(self, values: dict[str, Any], check_nan: bool) -> None:
        """TypeError, ValueError: `add` would refuse these values as the first step of new episodes."""
        arrays = self._columns.of_step(values)
        for field, array in zip(self.fields, arrays):
            if check_nan:
                refuse_not_finite(field, array)
        if self._stack_axis is not None:
            named = {field.name: array for field, array in zip(self.fields, arrays)}
            self._refuse_stacks(named["obs"], named["next_obs"])

    def _refuse_stacks(self, obs: np.ndarray, next_obs: np.ndarray) -> None:
        """InvalidArgument: next_obs is not the stack of obs with one frame more. As the library says it, which compares
        next_obs with the episode so far."""
        before, after = (np.moveaxis(array, self._stack_axis or 0, 1) for array in (obs, next_obs))
        for env, frame in itertools.product(range(len(obs)), range(before.shape[1] - 1)):
            pair = before[env, frame + 1], after[env, frame]
            if not _is_same(*(np.ascontiguousarray(part) for part in pair)):
                raise self._writer._explain(InvalidArgument(
                    f"next_obs of environment {env} has a frame {frame} of its stack, the oldest being 0, that is not "
                    f"frame {frame + 1} of the stack before; only the newest may be new"))

    def _ensure_known(self) -> None:
        if self.envs.has(_UNKNOWN):
            self.envs.ask(self._writer)

    def _ended(self, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
        """(num_envs,) bool: `_no_env` itself if no episode ended."""
        if not any(terminated.tobytes()) and not any(truncated.tobytes()):
            return self._no_env
        ended: np.ndarray = (terminated != 0) | (truncated != 0)
        return ended.reshape(-1)

    def restart(self, envs: np.ndarray) -> None:
        """Ends the open episodes of these environments as if truncated. To the library this is a reset: a new episode
        begins with an observation of zeros, and gets no step."""
        self._ensure_known()
        states = self.envs
        zeros = np.zeros(states.last_obs.shape[1:], states.last_obs.dtype)
        for env in envs[states.state[envs] != _NONE]:
            states.state[env] = _UNKNOWN  # in case Ctrl-C arrives when the library is done
            self._writer._call(lib.gpur_writer_reset, int(env), address_of(zeros))
            states.state[env], states.pending[env] = _NONE, 0

    def forget(self) -> None:
        """The states are unknown from now on."""
        self.envs.state.fill(_UNKNOWN)

    def _refuse_gap(self, obs: np.ndarray) -> None:
        """ValueError: an environment was reset without a call of `reset`, and would continue an episode that is
        over."""
        for env in self.gaps(obs):
            raise ValueError(f"obs of environment {env} is not the next_obs that was given last, and its episode has "
                             "not ended; call `reset` where the environments were reset")

    def gaps(self, obs: np.ndarray) -> list[int]:
        """The environments whose episodes are open and whose observation is not the last one. obs: (num_envs, ...), of
        the field's dtype."""
        self._ensure_known()
        last = self.envs.last_obs
        if _is_same(obs, last):
            return []
        return [env for env in np.flatnonzero(self.envs.state == _OPEN).tolist()
                if not _is_same(obs[env:env + 1], last[env:env + 1])]

    def _begin_episodes(self, obs: np.ndarray) -> None:
        """If the step is refused, the episodes begin again with the next one. That does nothing to an episode without a
        step."""
        new = np.flatnonzero(self.envs.state == _NONE)
        if len(new) == len(obs):
            self._writer._call(lib.gpur_writer_reset, -1, address_of(obs))
            return
        for env in new:
            self._writer._call(lib.gpur_writer_reset, int(env), address_of(obs[env:env + 1]))

    def _step(self, named: dict[str, np.ndarray], final: np.ndarray | None, ended: np.ndarray) -> int:
        before = self.envs.state.copy()
        self.forget()  # in case Ctrl-C arrives when the library is done
        try:
            self._call_step(named, final)
        except GpureplayError:
            self.envs.state[:] = before
            raise
        self.envs.last_obs[...] = named["next_obs"]
        return self._update_states(before, ended)

    def _call_step(self, named: dict[str, np.ndarray], final: np.ndarray | None) -> None:
        step, extras = _c_api.StepInput(), (ctypes.c_void_p * len(self._extra_names))()
        for name in ("action", "reward", "next_obs", "terminated", "truncated"):
            setattr(step, name, address_of(named[name]))
        for at, name in enumerate(self._extra_names):
            if name:
                extras[at] = address_of(named[name])
        step.extras = ctypes.addressof(extras)
        if final is not None:
            step.final_obs = address_of(final)
        self._writer._call(lib.gpur_writer_step_ex, ctypes.addressof(step))

    def _update_states(self, before: np.ndarray, ended: np.ndarray) -> int:
        """Sets the states after a step; `before` are those before it. Returns how many transitions it completed."""
        envs = self.envs
        if ended is self._no_env and (before.tobytes(), envs.pending.tobytes()) == self._steady:
            envs.state[:] = before
            return len(ended)
        pending = envs.pending + (before != _ENDED)
        completed = np.where(ended, pending, pending >= self._n_step)
        envs.pending[:] = pending - completed
        envs.state[:] = np.where(ended, _STATE_AFTER_END[self._mode], _OPEN)  # last: a known state means all is known
        return int(completed.sum())


class SharedState:
    """The state of a writer that its Appenders of the extension module read: the address in the library (0: closed),
    and how often the writer's lock is held, which `with lock, shared:` counts. An Appender that sees 0 there and holds
    the interpreter's lock need not take the writer's lock."""

    def __init__(self) -> None:
        self.values = np.zeros(2, np.int64)  # lock depth, address
        self.handle = ctypes.c_void_p.from_buffer(self.values, self.values.itemsize)  # type: ignore[arg-type]

    def __enter__(self) -> None:
        self.values[0] += 1

    def __exit__(self, *_: object) -> None:
        self.values[0] -= 1


@accelerated("add", "extend")
class Writer(Handle):
    """A source of transitions from num_envs environments. Threads that share a writer wait for each other; any number
    of writers may feed one buffer at once.

        writer = buffer.writer(num_envs=2)
        writer.add(**step)                        # obs, action, ... of both environments
        writer.reset()                            # the caller has reset the environments
        writer.extend(**rows)                     # transitions, as many as the arrays have
        writer.flush()                            # other threads see what this one has added
        writer.close()
    """

    _kind = "writer"
    _fills_links = True  # the library fills in "previous" of finished transitions

    def __init__(self, buffer: Buffer, num_envs: int = 1, autoreset: Any = None):
        num_envs = integer("num_envs", num_envs, 1, 2**31 - 1)
        self._links = self._fills_links and buffer._spec.sequences
        self._masks = buffer._masks
        if self._masks is not None and autoreset is not None and autoreset_name(autoreset) == "same_step":
            raise InvalidArgument("autoreset is \"same_step\" and action_mask True; it must be \"next_step\" or "
                                  "\"disabled\", with which the mask is that of an episode's last observation")
        filled = [PREVIOUS] * self._links + [PRIORITY] * (self._links and buffer._spec.ends is not None)
        fields = [field for field in buffer.fields if field not in filled]
        steps = _with_truncated(fields)
        policy = _autoreset_of(autoreset, num_envs, steps, bool(buffer._spec.config.check_finite))
        self._lock, self._shared = threading.RLock(), SharedState()
        by_env = self._links and not buffer._tracks_episodes  # the library links the steps of one environment
        super().__init__(functools.partial(_open_writer, buffer, 1 if by_env else num_envs, policy.mode, self._links),
                         lib.gpur_writer_destroy, (buffer,), self._shared.handle)  # type: ignore[arg-type]
        self._tracker = EpisodeTracker(self, buffer, num_envs, policy.mode) if buffer._tracks_episodes else None
        # So the others have writers of their own, and where there are some, also what `extend` is given, once it is.
        self._of_envs: list[Handle] = [_EnvWriter(buffer) for _ in range(num_envs - 1 if by_env else 0)]
        self._of_extend: Handle | None = None
        self._origin = weakref.ref(buffer)
        self._check_nan = bool(buffer._spec.config.check_finite)
        buffer._users.add(self)
        self._buffer: Buffer | None = None  # keeps the buffer alive; the buffer's own writer must not
        self.num_envs, self.autoreset, self._policy = num_envs, policy.mode, policy
        self._fields = fields
        self._columns = Columns(fields, num_envs, buffer.device._if_cuda)
        self._step_columns = Columns(steps, num_envs, buffer.device._if_cuda)
        self._flattener, self._overwritten = buffer._flattener, Overwritten(num_envs)
        self._filled = sorted(buffer.fields.index(field) for field in filled)
        self._is_undecided = _is_undecided(autoreset, num_envs, fields)
        self._extender = None if self._links else self._make_appender(-1, fields)
        self._adder = None if self._is_undecided else self._make_adder()
        self._read_ended()

    def _make_adder(self, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Any:
        """Makes the Appender that does `add`. shapes: those of a row of each field, if they are not the buffer's."""
        if self._links and self._tracker is None:
            return None
        fields = self._fields if self._tracker is None else self._tracker.fields
        if shapes is not None:
            fields = [field._replace(shape=shapes[field.name]) for field in fields]
        return self._make_appender(self.num_envs, fields, self._policy if self._tracker is None else Disabled(),
                                   self._tracker)

    def _make_appender(self, count: int, fields: list[Field], policy: Disabled | None = None,
                       tracker: EpisodeTracker | None = None) -> Any:
        """Makes an Appender of the extension module for `count` rows; -1: any number. None: there is no module, or it
        cannot follow the policy."""
        ends = _end_fields(fields) if tracker is not None or (policy is not None and policy.end_fields) else []
        if fast is None or self._masks is not None or any(fields[at].dtype.kind == "f" for at in ends):
            return None
        ended = policy.ended if isinstance(policy, NextStep) else None
        return fast.Appender(
            weakref.ref(self), (self._shared, ended, tracker), self._lock, address_of(self._shared.values),
            fields, count, _optional_field(fields), tuple([*ends, -1, -1][:2]),
            0 if ended is None else address_of(ended), None if tracker is None else tracker.for_module())

    def add(self, *, info: Any = None, final_obs: Any = None, **values: Any) -> int:
        """Adds one step of every environment: each field of the schema by name, (num_envs, ...). With one environment
        the first axis may be left out, and one number may have an axis of its own. A missing `truncated` means that
        none was. Dict and Tuple observations are given as they are.

        next_obs is the episode's last observation where an episode ended. Under autoreset "same_step" that is taken
        from `final_obs`, (num_envs, ...), or from `info`: Gymnasium's dict, or Stable-Baselines3's list of dicts with
        "terminal_observation". Under "next_step" the steps that only reset are left out. `truncated` can be given
        wherever `terminated` is a field, and ends an episode even if it is no field.

        With n_step above 1, layout "frames", or a field "previous", the writer tracks episodes. "discount", "previous"
        and what keep_steps adds are then not given, because the step fills them in. `obs` opens an episode if none is
        open. Otherwise it must be the next_obs that was given last, bit for bit, except that -0.0 is 0.0; call `reset`
        where the environments were reset. Fields beside Gymnasium's are taken from the first step of a transition.

        Returns how many transitions the step made, or, where the writer tracks episodes, how many it completed.
        TypeError, ValueError: a field is missing, unknown, of another shape or dtype, or has NaN or infinity; an
        observation does not follow from the step before; obs and next_obs are the same memory, or parts of them are
        whose numbers have changed since the step before. Nothing was added."""
        return self._add(values, info, final_obs)

    def _add(self, values: dict[str, Any], info: Any, final_obs: Any) -> int:
        with self._lock, self._shared:
            if self._is_undecided and "terminated" in values and self._handle is not None:
                _refuse_step_of_vector(values, self._fields)
                self._is_undecided = False
                self._adder = self._make_adder()
            self._overwritten.refuse(values)
            given = values
            if self._masks is not None:
                values = self._masks.of_step(values, info)
            if self._flattener is not None:
                values = self._flattener.of_step(values)
                final_obs = self._flattener.of_final(_final_of(info) if final_obs is None else final_obs)
            if self._tracker is not None:
                count = self._tracker.add(values, info, final_obs)
            else:
                count = self._add_transitions(self._step_columns.of_step(values), info, final_obs)
            self._overwritten.note_step(given)
        return count

    def _add_transitions(self, columns: list[np.ndarray], info: Any, final_obs: Any) -> int:
        """A step of environments whose episodes the library does not track. Returns how many transitions it made."""
        arrays, ended = self._policy.transitions(columns, info, final_obs)
        stored = arrays[:len(self._fields)]
        if not self._links:
            count = self._append(stored, None)
        else:
            envs = np.flatnonzero(~self._policy.ended) if isinstance(self._policy, NextStep) else range(self.num_envs)
            count = self._append_linked(stored, envs, arrays[-1] if len(arrays) > len(stored) else None)
        self._policy.note_ended(ended)
        return count

    def _check_step(self, values: dict[str, Any]) -> None:
        """TypeError, ValueError: `add` would refuse these values."""
        self._refuse_rows(self._step_columns.of_step(values))

    def _append_linked(self, arrays: list[np.ndarray], envs: Iterable[int], cut: np.ndarray | None) -> int:
        """Stores a transition of each of these environments. cut: whether it was truncated, if that is no field."""
        if self._of_envs:  # all of them, before the first is stored
            self._refuse_rows(arrays)
        for row, env in enumerate(envs):
            self._append([array[row:row + 1] for array in arrays], None, self._linking(env))
            if cut is not None and cut[row].any():
                self._linking(env)._call(lib.gpur_writer_end_appended_episode)
        return len(arrays[0])

    def _linking(self, env: int) -> Handle:
        """What links the transitions of an environment."""
        return self if env == 0 else self._of_envs[env - 1]

    def _extending(self) -> Handle:
        """What stores the transitions that `extend` is given."""
        self._open_handle()
        buffer = self._origin()
        if self._of_envs and self._of_extend is None and buffer is not None:
            self._of_extend = _EnvWriter(buffer)
        return self._of_extend or self

    def _refuse_rows(self, arrays: list[np.ndarray]) -> None:
        """ValueError: the library would refuse one of these rows."""
        for field, array in zip(self._fields, arrays):
            if field.name == "priority":
                for value in array.reshape(-1)[(array.reshape(-1) < 0) | np.isinf(array.reshape(-1))]:
                    raise InvalidArgument(f"priority is {value}; it must be 0 or more and finite, or NaN for none")
            elif self._check_nan:
                refuse_not_finite(field, array)

    def extend(self, *, stream: Any = None, **values: Any) -> int:
        """Adds finished transitions: each field of the schema by name, (count, ...), all in host memory or all in the
        memory of the buffer's CUDA device. Autoreset does not apply to them, and no episode continues with them, so
        "discount" and "previous" must be given, too. Layout "frames" refuses them, because it needs whole episodes.

        In a buffer with sequences=True they are successive transitions of one environment, which goes on with the next
        call of this writer's `extend`; "previous" is then not given, and the arrays are in host memory.

        stream: for device arrays, the stream that made them. It may use their memory again afterwards. A cudaStream_t
        as an int, or a stream of PyTorch or CuPy. None: for tensors PyTorch's current stream; for others the stream
        that the CUDA array interface names. Other libraries (JAX) name none: then the call waits until the arrays are
        ready, and until they have been read.

        Returns count. TypeError, ValueError: as for `add`, except that device arrays are not searched for NaN and
        infinity, and that parts of obs and next_obs may be the same memory. Nothing was added."""
        return self._extend(values, stream)

    def _extend(self, values: dict[str, Any], stream: Any) -> int:
        with self._lock, self._shared:
            stream = stream_of(stream)
            refuse_one_memory(values)
            if self._masks is not None:
                values = self._masks.of_block(values)
            if self._flattener is not None:
                values = self._flattener.of_step(values)
            arrays = self._columns.of_block(values, stream)
            if isinstance(arrays[0], DeviceArray):
                stream = producer_stream(arrays, stream)
            return self._append(arrays, stream, self._extending())

    def flush(self) -> None:
        """Makes all transitions added so far visible to the next `sample`."""
        with self._lock, self._shared:
            self._call(lib.gpur_writer_flush)

    def reset(self, envs: Any = None) -> None:
        """Tells that the caller has reset the environments, so the next step begins new episodes. Call it beside each
        `envs.reset()` except the first. Without it, under "next_step", the next step of each environment whose last
        step ended an episode is left out, as if it only reset. Stored transitions stay. Where the writer tracks
        episodes, the open ones end as if truncated, which with n_step above 1 completes their last transitions.

        envs: the environments that were reset: a mask, (num_envs,) bool, like Gymnasium's options={"reset_mask": ...},
            or their numbers, 0 to num_envs - 1. None: all. The episodes of the others continue.

        TypeError, ValueError: `envs` is none of these. Nothing was reset."""
        with self._lock, self._shared:
            self._open_handle()
            numbers = _env_numbers(envs, self.num_envs)
            self._policy.restart(numbers)
            self._overwritten.forget()
            if self._tracker is not None:
                self._tracker.restart(numbers)
            else:
                for env in numbers if self._links else ():
                    self._linking(env)._call(lib.gpur_writer_end_appended_episode)

    def _after_load(self, in_full: bool) -> None:
        """What is known here of episodes is out of date. After a load that failed it may still be right."""
        with self._lock, self._shared:
            if self._tracker is not None:
                self._tracker.forget()
            elif in_full:
                self._read_ended()

    def _write_ended(self) -> None:
        """Before a save: tells the library which environments only reset in their next step. A library that tracks
        episodes knows. The caller holds the lock."""
        if isinstance(self._policy, NextStep) and self._tracker is None:
            with contextlib.suppress(Closed):
                self._call(lib.gpur_writer_set_ended, address_of(self._policy.ended))
                for writer, ended in zip(self._of_envs, self._policy.ended[1:]):
                    writer._call(lib.gpur_writer_set_ended, address_of(np.array([ended])))

    def _read_ended(self) -> None:
        """The reverse, after a load, and for a new writer, whose state may wait in a file that was loaded."""
        if not isinstance(self._policy, NextStep) or self._tracker is not None:
            return
        info, ended = _c_api.EpisodeInfo(), np.zeros(self.num_envs, np.bool_)
        with contextlib.suppress(Closed):
            for env in range(self.num_envs):
                writer, number = (self._linking(env), 0) if self._of_envs else (self, env)
                writer._call(lib.gpur_writer_get_episode, number, ctypes.addressof(info), None)
                ended[env] = info.state == _c_api.EPISODE_ENDED
        self._policy.note_ended(ended)

    def _append(self, arrays: list[Any], stream: int | None, writer: Handle | None = None) -> int:
        """Stores transitions, by another writer of the library if there is one. Returns how many."""
        count: int = arrays[0].shape[0]
        if isinstance(arrays[0], DeviceArray):
            addresses = [array.address for array in arrays]
        else:
            addresses = [address_of(array) for array in arrays]
        for at in self._filled:
            addresses.insert(at, 0)
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        (writer or self)._call(lib.gpur_writer_append_fields, count, ctypes.addressof(pointers), stream, None)
        return count

    def _explain(self, error: Exception) -> Exception:
        """Adds to the library's words about a stack that does not follow: often `obs` is no stack, but one frame."""
        if self._handle is not None and isinstance(error, InvalidArgument) and "of its stack" in str(error):
            return InvalidArgument(f"{error}; if obs is one frame and no stack, make the buffer with "
                                   "observations=\"frames\", and if its last axis counts the frames, with "
                                   "stack_axis=\"last\"")
        return super()._explain(error)

    def _after_fork(self) -> None:
        super()._after_fork()
        self._lock, self._shared = threading.RLock(), SharedState()
        self._adder = self._extender = None

    def close(self) -> None:
        """Flushes and closes the writer. The buffer stays open."""
        for writer in (*self._of_envs, self._of_extend):
            if writer is not None:
                writer.close()
        super().close()

    def __repr__(self) -> str:
        return f"<gpureplay.Writer of {self.num_envs}{', closed' if self.closed else ''}>"


class LinkedWriter(Writer):
    """One for finished transitions that have their "previous"."""

    _fills_links = False


class _EnvWriter(Handle):
    """A writer of the library for one of the environments of a `Writer`."""

    _kind = "writer"

    def __init__(self, buffer: Buffer):
        super().__init__(functools.partial(_open_writer, buffer, 1, "disabled", True), lib.gpur_writer_destroy,
                         (buffer,))  # type: ignore[arg-type]
        buffer._users.add(self)


def _open_writer(buffer: Buffer, num_envs: int, mode: str, links: bool, address: int) -> None:
    """Opens a writer of the library, whose address it writes to `address`."""
    config = _c_api.WriterConfig()
    check(lib.gpur_writer_config_init(ctypes.addressof(config), ctypes.sizeof(config)))
    config.num_envs, config.observations = num_envs, buffer._spec.observations
    config.link_appends = links and buffer._spec.sequences
    config.sequence_length, config.sequence_every = (links and buffer._spec.ends) or (0, 0)
    if buffer._tracks_episodes:
        config.autoreset = AUTORESETS.index(mode)
    buffer._call(lib.gpur_writer_open, ctypes.addressof(config), address)  # type: ignore[attr-defined]
