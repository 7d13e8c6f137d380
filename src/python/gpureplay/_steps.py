# SPDX-License-Identifier: MIT
"""Feeding step by step: the library knows each environment's open episode, and makes of it transitions of several
steps, stacks of frames that are stored once, and links to the transition before.

Here is remembered where each environment stands, and its last observation: so an observation that does not follow from
the step before is refused, where the library would take the episode to go on. The extension's Steps does the same in C,
with the same arrays; what is out of the ordinary it leaves to this.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _episodes, _inputs, _mirror, _nan
from ._accelerator import fast
from ._columns import Columns
from ._library import GpureplayError, check, lib
from ._replay_config import Form
from ._schema import Field

if TYPE_CHECKING:
    from ._buffer import ReplayBuffer
    from ._writer import Writer

_WANTED = ("obs", "action", "reward", "next_obs", "terminated")
_FILLED = ("discount", "previous")  # by the library
_PREVIOUS = Field("previous", (), np.dtype(np.int64))
_TRUNCATED = Field("truncated", (), np.dtype(np.bool_))
# Where an environment stands. NEW: `obs` opens an episode. ENDED: its next step only resets it. UNKNOWN: the library is
# to be asked, as at first, and after a load or a Ctrl-C.
_NEW, _OPEN, _ENDED = _mirror.EPISODE_NONE, _mirror.EPISODE_OPEN, _mirror.EPISODE_ENDED
_UNKNOWN = 3
_AFTER = {"disabled": _NEW, "next_step": _ENDED, "same_step": _OPEN}  # an episode's end

_compare: Callable[[int, int, int], int] = ctypes.CDLL(None).memcmp
_compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]  # type: ignore[attr-defined]


def is_fed_by_steps(form: Form) -> bool:
    """Whether `add` goes by steps. ValueError: it must, and fields are missing."""
    names = {field.name for field in form.fields}
    missing = [name for name in _WANTED if name not in names]
    must = form.config.n_step > 1 or form.config.layout == _mirror.LINKED
    if must and missing:
        raise ValueError(f"there is no field {missing[0]!r}; with n_step above 1 or layout \"linked\" steps want "
                         f"{', '.join(_WANTED)}, each one array: no Dict or Tuple space")
    return must or (_PREVIOUS in form.fields and not missing)


def open_writer(buffer: ReplayBuffer, num_envs: int, mode: str) -> int | None:
    """A writer of the library's: its address."""
    config, address = _mirror.WriterConfig(), ctypes.c_void_p()
    check(lib.gpur_writer_config_init(ctypes.addressof(config), ctypes.sizeof(config)))
    config.num_envs, config.input = num_envs, buffer._form.input
    if buffer._is_fed_by_steps:
        config.autoreset = _episodes.MODES.index(mode)
    check(lib.gpur_writer_open(buffer._open_handle(), ctypes.addressof(config), ctypes.addressof(address)))
    return address.value


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Bit for bit, of contiguous arrays of one shape and dtype."""
    return _compare(_inputs.address(one), _inputs.address(other), one.nbytes) == 0


class State:
    """Where each environment stands. The extension reads and writes these arrays, so they stay the same ones."""

    def __init__(self, num_envs: int, obs: Field):
        self.standing = np.full(num_envs, _UNKNOWN, np.uint8)
        self.pending = np.zeros(num_envs, np.int64)  # steps that begin no transition yet
        self.last = np.zeros((num_envs, *obs.shape), obs.dtype)  # observations, of the episodes that are open

    def has(self, *which: int) -> bool:
        """Whether any environment stands like that."""
        found = self.standing.tobytes()
        return any(one in found for one in which)

    def ask(self, writer: Writer) -> None:
        """What the library knows. It was told that an episode begins with zeros where nobody knew with what: see
        `Steps.restart`."""
        info = _mirror.EpisodeInfo()
        for env in range(len(self.standing)):
            last = self.last[env:env + 1]
            writer._call(lib.gpur_writer_get_episode, env, ctypes.addressof(info), _inputs.address(last))
            is_blank = info.state == _OPEN and info.steps == 0 and not any(last.tobytes())
            self.pending[env], self.standing[env] = info.pending, _NEW if is_blank else info.state


class Steps:
    """What `add` of a writer does by steps. One thread's at a time."""

    def __init__(self, writer: Writer, buffer: ReplayBuffer, num_envs: int, mode: str):
        form = buffer._form
        self._writer, self._mode, self._n_step = weakref.proxy(writer), mode, form.config.n_step
        self._fields = [field for field in form.given if field.name not in _FILLED]
        if _TRUNCATED.name not in [field.name for field in self._fields]:
            self._fields.append(_TRUNCATED)  # it ends an episode, stored or not
        self._columns = Columns(self._fields, num_envs, buffer.device._if_cuda)
        self._check_nan = buffer.check_nan
        filled = (*_WANTED, *_FILLED, _TRUNCATED.name)
        self._names = ["" if field.name in filled else field.name for field in form.fields]  # of the extras
        self._next_obs = next(field for field in self._fields if field.name == "next_obs")
        self._floats = [at for at, field in enumerate(self._fields) if field.dtype.kind == "f" and field.name != "obs"]
        self._nobody = np.zeros(num_envs, np.bool_)
        self._state = State(num_envs, self._next_obs)
        # Everyone's episode goes on, and each step completes a transition: so most steps are, and change nothing here.
        self._going = bytes([_OPEN]) * num_envs, np.full(num_envs, self._n_step - 1, np.int64).tobytes()

    def in_c(self, rows_of: Callable[..., Any]) -> Any:
        """The extension's Steps, which does what `add` does where that is ordinary. `rows_of` makes its Rows."""
        at = {field.name: place for place, field in enumerate(self._fields)}
        state, extras = self._state, [at.get(name, -1) for name in self._names]
        return fast.Steps(rows_of(self._fields), state.standing, state.pending, state.last, _AFTER[self._mode],
                          self._n_step, extras)

    def add(self, values: dict[str, Any], info: Any, final_obs: Any) -> int:
        """One step of every environment; how many transitions it completed."""
        arrays = self._columns.of_step(values)
        named = {field.name: array for field, array in zip(self._fields, arrays)}
        ended, final = self._ended(named["terminated"], named["truncated"]), None
        if self._mode == "same_step" and ended is not self._nobody:
            final = _episodes.with_final(self._next_obs, named["next_obs"], info, final_obs, ended)
        self._know()
        if self._check_nan:
            self._refuse_nan(arrays, final)
        self._refuse_gap(named["obs"])
        if self._state.has(_NEW):
            self._begin(named["obs"])
        return self._step(named, final, ended)

    def _know(self) -> None:
        if self._state.has(_UNKNOWN):
            self._state.ask(self._writer)

    def _ended(self, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
        """(num_envs,) bool; _nobody itself where none did."""
        if not any(terminated.tobytes()) and not any(truncated.tobytes()):
            return self._nobody
        ended: np.ndarray = (terminated != 0) | (truncated != 0)
        return ended.reshape(-1)

    def restart(self, envs: np.ndarray) -> None:
        """Ends the open episodes of these environments, as if truncated: what the library is told to begin instead has
        no step."""
        self._know()
        state = self._state
        nothing = np.zeros(state.last.shape[1:], state.last.dtype)
        for env in envs[state.standing[envs] != _NEW]:
            state.standing[env] = _UNKNOWN  # should Ctrl-C come when the library has done its part
            self._writer._call(lib.gpur_writer_reset, int(env), _inputs.address(nothing))
            state.standing[env], state.pending[env] = _NEW, 0

    def forget(self) -> None:
        """The library has open episodes of which nothing is known here."""
        self._state.standing.fill(_UNKNOWN)

    def _refuse_nan(self, arrays: list[np.ndarray], final: np.ndarray | None) -> None:
        """Where all episodes go on, `obs` was looked at before."""
        if self._state.has(_NEW) or any(_nan.is_in(arrays[at]) for at in self._floats):
            _nan.refuse(self._fields, arrays)
        if final is not None:
            _nan.refuse([self._next_obs._replace(name="final_obs")], [final])

    def _refuse_gap(self, obs: np.ndarray) -> None:
        """An environment that was reset without a word would go on with an episode that is over."""
        for env in self.gaps(obs):
            raise ValueError(f"obs of environment {env} is not the next_obs that was given last, and its episode has "
                             "not ended; call `reset` where the environments were reset")

    def gaps(self, obs: np.ndarray) -> list[int]:
        """The environments whose episodes are open, and that are elsewhere. obs: (num_envs, ...), as the field is."""
        self._know()
        last = self._state.last
        if _is_same(obs, last):
            return []
        return [env for env in np.flatnonzero(self._state.standing == _OPEN).tolist()
                if not _is_same(obs[env:env + 1], last[env:env + 1])]

    def _begin(self, obs: np.ndarray) -> None:
        """Should the step be refused, these are begun again; to an episode without a step that does nothing."""
        new = np.flatnonzero(self._state.standing == _NEW)
        if len(new) == len(obs):
            self._writer._call(lib.gpur_writer_reset, -1, _inputs.address(obs))
            return
        for env in new:
            self._writer._call(lib.gpur_writer_reset, int(env), _inputs.address(obs[env:env + 1]))

    def _step(self, named: dict[str, np.ndarray], final: np.ndarray | None, ended: np.ndarray) -> int:
        before = self._state.standing.copy()
        self.forget()  # should Ctrl-C come when the library has done its part
        try:
            self._call_step(named, final)
        except GpureplayError:
            self._state.standing[:] = before
            raise
        self._state.last[...] = named["next_obs"]
        return self._move(before, ended)

    def _call_step(self, named: dict[str, np.ndarray], final: np.ndarray | None) -> None:
        given, extras = _mirror.StepInput(), (ctypes.c_void_p * len(self._names))()
        for name in ("action", "reward", "next_obs", "terminated", "truncated"):
            setattr(given, name, _inputs.address(named[name]))
        for at, name in enumerate(self._names):
            if name:
                extras[at] = _inputs.address(named[name])
        given.extras = ctypes.addressof(extras)
        if final is not None:
            given.final_obs = _inputs.address(final)
        self._writer._call(lib.gpur_writer_step_with, ctypes.addressof(given))

    def _move(self, before: np.ndarray, ended: np.ndarray) -> int:
        """Everyone stands where the step leads to, `before` being where they stood. How many transitions it
        completed."""
        state = self._state
        if ended is self._nobody and (before.tobytes(), state.pending.tobytes()) == self._going:
            state.standing[:] = before
            return len(ended)
        pending = state.pending + (before != _ENDED)
        due = np.where(ended, pending, pending >= self._n_step)
        state.pending[:] = pending - due
        state.standing[:] = np.where(ended, _AFTER[self._mode], _OPEN)  # last: whoever knows this knows the rest
        return int(due.sum())
