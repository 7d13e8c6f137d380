# SPDX-License-Identifier: MIT
"""Feeding step by step: the library knows each environment's open episode, and makes of it transitions of several
steps, stacks of frames that are stored once, and links to the transition before.

Here is remembered where each environment stands, and its last observation: so an observation that does not follow from
the step before is refused, where the library would take the episode to go on.
"""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _episodes, _inputs, _mirror, _nan
from ._columns import Columns
from ._library import GpureplayError, InvalidArgument, check, lib
from ._replay_config import Form
from ._schema import Field

if TYPE_CHECKING:
    from ._buffer import ReplayBuffer
    from ._writer import Writer

_WANTED = ("obs", "action", "reward", "next_obs", "terminated")
_FILLED = ("discount", "previous")  # by the library
_PREVIOUS = Field("previous", (), np.dtype(np.int64))
_TRUNCATED = Field("truncated", (), np.dtype(np.bool_))
_CLOSED = re.compile(r"environment (\d+) has no open episode")
# Where an environment stands. NEW: `obs` opens an episode. ENDED: its next step only resets it. UNKNOWN: the library
# knows, from a file or after a Ctrl-C.
_NEW, _OPEN, _ENDED, _UNKNOWN = range(4)
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
    """Where each environment stands. Replaced as one, and never written to."""

    def __init__(self, standing: np.ndarray, pending: np.ndarray, unsure: int = 0):
        self.standing = standing  # (num_envs,) uint8
        self.pending = pending  # (num_envs,) int64, steps that begin no transition yet
        self.unsure = unsure  # steps until `pending` is right, after it was not known
        self._found = standing.tobytes()

    def has(self, *which: int) -> bool:
        """Whether any environment stands like that."""
        return any(one in self._found for one in which)


class Steps:
    """What `add` of a writer does by steps. One thread's at a time."""

    def __init__(self, buffer: ReplayBuffer, num_envs: int, mode: str):
        form = buffer._form
        self._buffer, self._mode, self._n_step = weakref.ref(buffer), mode, form.config.n_step
        self._fields = [field for field in form.given if field.name not in _FILLED]
        if _TRUNCATED.name not in [field.name for field in self._fields]:
            self._fields.append(_TRUNCATED)  # it ends an episode, stored or not
        self._columns = Columns(self._fields, num_envs, buffer.device.is_cuda)
        self._check_nan = buffer.check_nan
        filled = (*_WANTED, *_FILLED, _TRUNCATED.name)
        self._count, self._extras = len(form.fields), [(at, field.name) for at, field in enumerate(form.fields)
                                                       if field.name not in filled]
        self._next_obs = next(field for field in self._fields if field.name == "next_obs")
        self._last = np.zeros((num_envs, *self._next_obs.shape), self._next_obs.dtype)
        self._floats = [at for at, field in enumerate(self._fields) if field.dtype.kind == "f" and field.name != "obs"]
        nothing, self._nobody = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.bool_)
        self._new = State(np.full(num_envs, _NEW, np.uint8), nothing)
        self._unknown = State(np.full(num_envs, _UNKNOWN, np.uint8), nothing, self._n_step)
        # Everyone's episode goes on, and each step completes a transition: so most steps are, and need no counting.
        self._going = State(np.full(num_envs, _OPEN, np.uint8), nothing + (self._n_step - 1))
        self._state = self._unknown if buffer._was_loaded else self._new

    def add(self, writer: Writer, values: dict[str, Any], info: Any, final_obs: Any) -> int:
        """One step of every environment; how many transitions it completed."""
        arrays = self._columns.of_step(values)
        named = {field.name: array for field, array in zip(self._fields, arrays)}
        ended, final = self._ended(named["terminated"], named["truncated"]), None
        if self._mode == "same_step" and ended is not self._nobody:
            final = _episodes.with_final(self._next_obs, named["next_obs"], info, final_obs, ended)
        if self._check_nan:
            self._refuse_nan(arrays, final)
        self._refuse_gap(named["obs"])
        if self._state.has(_NEW):
            self._begin(writer, named["obs"])
        return self._step(writer, named, final, ended)

    def _ended(self, terminated: np.ndarray, truncated: np.ndarray) -> np.ndarray:
        """(num_envs,) bool; _nobody itself where none did."""
        if not any(terminated.tobytes()) and not any(truncated.tobytes()):
            return self._nobody
        ended: np.ndarray = (terminated != 0) | (truncated != 0)
        return ended.reshape(-1)

    def restart(self, writer: Writer) -> None:
        """Ends the open episodes, as if truncated: what the library is told to begin instead has no step."""
        writer._open_handle()
        if self._state.has(_OPEN, _ENDED, _UNKNOWN):
            nothing = np.zeros_like(self._last)
            writer._call(lib.gpur_writer_reset, -1, _inputs.address(nothing))
        self._state = self._new

    def forget(self) -> None:
        """The library has open episodes of which nothing is known here."""
        self._state = self._unknown

    def _refuse_nan(self, arrays: list[np.ndarray], final: np.ndarray | None) -> None:
        """Where all episodes go on, `obs` was looked at before."""
        if self._state.has(_NEW, _UNKNOWN) or any(_nan.is_in(arrays[at]) for at in self._floats):
            _nan.refuse(self._fields, arrays)
        if final is not None:
            _nan.refuse([self._next_obs._replace(name="final_obs")], [final])

    def _refuse_gap(self, obs: np.ndarray) -> None:
        """An environment that was reset without a word would go on with an episode that is over."""
        if _is_same(obs, self._last):
            return
        for env in np.flatnonzero(self._state.standing == _OPEN):
            if not _is_same(obs[env:env + 1], self._last[env:env + 1]):
                raise ValueError(f"obs of environment {env} is not the next_obs that was given last, and its episode "
                                 "has not ended; call `reset` where the environments were reset")

    def _begin(self, writer: Writer, obs: np.ndarray) -> None:
        """Should the step be refused, these are begun again; to an episode without a step that does nothing."""
        new = np.flatnonzero(self._state.standing == _NEW)
        if len(new) == len(obs):
            writer._call(lib.gpur_writer_reset, -1, _inputs.address(obs))
            return
        for env in new:
            writer._call(lib.gpur_writer_reset, int(env), _inputs.address(obs[env:env + 1]))

    def _step(self, writer: Writer, named: dict[str, np.ndarray], final: np.ndarray | None, ended: np.ndarray) -> int:
        state, before = self._state, self._appended() if self._state.unsure else 0
        self._state = self._unknown  # should Ctrl-C come when the library has done its part
        try:
            self._call_step(writer, named, final)
        except GpureplayError:
            self._state = state
            raise
        self._last[...] = named["next_obs"]
        count = self._move(state, ended)
        return self._appended() - before if state.unsure else count

    def _call_step(self, writer: Writer, named: dict[str, np.ndarray], final: np.ndarray | None) -> None:
        given, extras = _mirror.StepInput(), (ctypes.c_void_p * self._count)()
        for name in ("action", "reward", "next_obs", "terminated", "truncated"):
            setattr(given, name, _inputs.address(named[name]))
        for at, name in self._extras:
            extras[at] = _inputs.address(named[name])
        given.extras = ctypes.addressof(extras)
        if final is not None:
            given.final_obs = _inputs.address(final)
        while True:
            try:
                return writer._call(lib.gpur_writer_step_with, ctypes.addressof(given))
            except InvalidArgument as error:
                self._begin_unknown(writer, named["obs"], error)

    def _begin_unknown(self, writer: Writer, obs: np.ndarray, error: InvalidArgument) -> None:
        """An environment of which only the library knew, and knew that it has no open episode, begins one; any other
        error is raised."""
        closed = _CLOSED.match(str(error))
        if closed is None:
            raise error
        env = int(closed[1])
        writer._call(lib.gpur_writer_reset, env, _inputs.address(obs[env:env + 1]))

    def _move(self, state: State, ended: np.ndarray) -> int:
        """Everyone stands where the step leads to. How many transitions it completed, if that was known before."""
        if state is self._going and ended is self._nobody:
            self._state = state
            return len(ended)
        pending = state.pending + (state.standing != _ENDED)
        due = np.where(ended, pending, pending >= self._n_step)
        standing, pending = np.where(ended, _AFTER[self._mode], _OPEN).astype(np.uint8), pending - due
        after = State(standing, pending, max(0, state.unsure - 1))
        is_going = not after.has(_NEW, _ENDED) and not after.unsure and (pending == self._going.pending).all()
        self._state = self._going if is_going else after
        return int(due.sum())

    def _appended(self) -> int:
        buffer = self._buffer()
        return 0 if buffer is None else buffer.stats.appended
