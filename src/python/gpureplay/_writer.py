# SPDX-License-Identifier: MIT
"""What puts transitions in."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _episodes, _inputs, _mirror, _nan, _steps
from ._accelerator import fast, tried_in_c
from ._columns import Arrays, Columns
from ._dlpack import DeviceArray
from ._handle import Handle
from ._library import Closed, InvalidArgument, lib
from ._numbers import integer, stream_of
from ._schema import Field
from ._stage import Stage

if TYPE_CHECKING:
    from ._buffer import ReplayBuffer


class Writer(Handle):
    """One source of transitions, of num_envs environments. Threads that share a writer take turns; any number of
    writers feed one buffer at once."""

    _kind = "writer"

    def __init__(self, buffer: ReplayBuffer, num_envs: int = 1, autoreset: Any = None):
        num_envs = integer("num_envs", num_envs, 1, 2**31 - 1)
        resets = _episodes.resets_of(autoreset, num_envs, buffer.fields)
        address = _steps.open_writer(buffer, num_envs, resets.mode)
        super().__init__(address, lib.gpur_writer_destroy, buffer._owned)
        self._by_steps = _steps.Steps(self, buffer, num_envs, resets.mode) if buffer._is_fed_by_steps else None
        buffer._users.add(self)
        self._buffer: ReplayBuffer | None = None  # held by a writer that is not the buffer's own
        self.num_envs, self.autoreset, self._resets = num_envs, resets.mode, resets
        self._fields, self._check_nan = buffer.fields, buffer.check_nan
        self._columns = Columns(buffer.fields, num_envs, buffer.device._if_cuda)
        self._stage = Stage.of(buffer.fields, num_envs)
        self._turn = threading.RLock() if fast is None else fast.Turn(threading.RLock())
        self._rows = self._rows_of(-1, buffer.fields)
        self._is_unsaid = _episodes.is_unsaid(autoreset, num_envs, buffer.fields)
        self._steps = self._steps_of()
        self._know_ended()

    def _steps_of(self) -> Any:
        """What adds steps in C. Where they are transitions as they come, it keeps `_ended` as `settle` would."""
        resets = self._resets
        remembers = resets if isinstance(resets, _episodes.NextStep) else None
        if self._is_unsaid or fast is None:
            return None
        if self._by_steps is not None:
            return self._by_steps.in_c(lambda fields: self._rows_of(self.num_envs, fields))
        return self._rows_of(self.num_envs, self._fields, remembers, resets.flags)

    def _rows_of(self, count: int, fields: list[Field], resets: Any = None, flags: Sequence[int] = ()) -> Any:
        """What appends so many rows in C; -1: any number."""
        if fast is None:
            return None
        return fast.Rows(self, fields, bool(self._check_nan), self._turn, count, resets, list(flags))

    @tried_in_c("_steps")
    def add(self, *, info: Any = None, final_obs: Any = None, **values: Any) -> int:
        """One step of every environment: each field of the schema by name, (num_envs, ...), or without that axis when
        there is one environment. `truncated` may be left out: none was. Dict and Tuple observations are given as they
        are.

        next_obs is the episode's last observation where it ended. Under autoreset "same_step" that is taken from
        `final_obs`, (num_envs, ...), or from Gymnasium's `info`. Under "next_step" the steps that only reset are left
        out.

        By steps (n_step above 1, layout "linked", or a field "previous"): "discount" and "previous" are not given, for
        a step fills them in. `obs` opens an episode where none is open, and else must be the next_obs that was given
        last, to the last bit: `reset` is to be called where the environments were reset. `truncated` ends an episode
        also where it is no field. A field beside Gymnasium's is taken from a transition's first step.

        Returns how many transitions it made; by steps, how many it completed. TypeError, ValueError: a field is
        missing, unknown, of another shape or dtype, or has NaN, or an observation is not the one that follows; nothing
        was added."""
        return self._add(values, info, final_obs)

    def _add(self, values: dict[str, Any], info: Any, final_obs: Any) -> int:
        with self._turn:
            if self._is_unsaid and "terminated" in values and self._handle is not None:
                _episodes.refuse_of_vector(values, self._fields)
                self._is_unsaid = False
                self._steps = self._steps_of()
            if self._steps is not None:
                taken: int | None = self._steps.append(self, values)
                if taken is not None:
                    return taken
            if self._by_steps is not None:
                return self._by_steps.add(values, info, final_obs)
            arrays, ended = self._resets.settle(self._columns.of_step(values), info, final_obs)
            count = self._append(arrays, None)
            self._resets.done(ended)
        return count

    @tried_in_c("_rows")
    def extend(self, *, stream: Any = None, **values: Any) -> int:
        """Finished transitions: each field of the schema by name, (count, ...), all in host memory or all in the
        buffer's CUDA device. Autoreset does not look at them, and no episode goes on with them: "discount" and
        "previous" are given, too. Refused with layout "linked", which wants to know of episodes.

        stream: device arrays, the stream that made them and that may use their memory again afterwards: a cudaStream_t
        as an int, or a stream of PyTorch's or CuPy's. None: PyTorch's current stream for its tensors; the one that the
        array's CUDA array interface tells; of other libraries' arrays (JAX) nobody knows it, so they are waited for,
        until they are there and until they have been read.

        Returns count. TypeError, ValueError: as `add`, but device arrays are not searched for NaN; nothing was
        added."""
        return self._extend(values, stream)

    def _extend(self, values: dict[str, Any], stream: Any) -> int:
        with self._turn:
            if stream is None and self._rows is not None:
                taken: int | None = self._rows.append(self, values)
                if taken is not None:
                    return taken
            stream = stream_of(stream)
            arrays = self._columns.of_block(values, stream)
            if isinstance(arrays[0], DeviceArray):
                stream = _inputs.stream_of(arrays, stream)
            return self._append(arrays, stream)

    def flush(self) -> None:
        """The next draw sees all that was added."""
        with self._turn:
            self._call(lib.gpur_writer_flush)

    def reset(self, envs: Any = None) -> None:
        """The environments were reset by the caller: the next step begins new episodes. To be called beside each
        `envs.reset()` but the first: else, under "next_step", of each environment whose last step ended an episode the
        next one is left out, as if it only reset. What was added stays. By steps: the open episodes end as if
        truncated where they are, which with n_step above 1 completes their last transitions.

        envs: the environments that were reset: a mask, (num_envs,) bool, as Gymnasium's options={"reset_mask": ...}
            has it, or their numbers, 0 to num_envs - 1; None: all. The others' episodes go on.

        TypeError, ValueError: `envs` is none of these; nothing was reset."""
        with self._turn:
            self._open_handle()
            which = _episodes.numbers_of(envs, self.num_envs)
            self._resets.restart(which)
            if self._by_steps is not None:
                self._by_steps.restart(which)

    def _loaded(self, in_full: bool) -> None:
        """Whatever was known of episodes is not so any more; after a load that failed, it may be so or not."""
        with self._turn:
            if self._by_steps is not None:
                self._by_steps.forget()
            elif in_full:
                self._know_ended()

    def _note_ended(self) -> None:
        """Tells the library which environments only reset in their next step, for a file; where it is given steps, it
        knows. Inside the turn."""
        ended = self._resets.ended if isinstance(self._resets, _episodes.NextStep) else None
        if ended is not None and self._by_steps is None:
            with contextlib.suppress(Closed):
                self._call(lib.gpur_writer_set_ended, _inputs.address(ended))

    def _know_ended(self) -> None:
        """The other way, after a load, or where a file waited for this writer."""
        if not isinstance(self._resets, _episodes.NextStep) or self._by_steps is not None:
            return
        info, ended = _mirror.EpisodeInfo(), np.zeros(self.num_envs, np.bool_)
        with contextlib.suppress(Closed):
            for env in range(self.num_envs):
                self._call(lib.gpur_writer_get_episode, env, ctypes.addressof(info), None)
                ended[env] = info.state == _mirror.EPISODE_ENDED
        self._resets.done(ended)

    def _append(self, arrays: Arrays, stream: int | None) -> int:
        """How many transitions they are, once they are in."""
        count: int = arrays[0].shape[0]
        if isinstance(arrays[0], DeviceArray):
            self._append_at([array.address for array in arrays], count, stream)
        elif self._stage is not None and count == self.num_envs and stream is None:
            self._append_staged(self._stage, arrays)
        else:
            if self._check_nan:
                _nan.refuse(self._fields, arrays)
            self._append_at([_inputs.address(array) for array in arrays], count, stream)
        return count

    def _append_staged(self, stage: Stage, arrays: Arrays) -> None:
        stage.take(arrays)
        if self._check_nan and stage.has_nan():
            _nan.refuse(self._fields, arrays)
        self._call(lib.gpur_writer_append_fields, self.num_envs, stage.address, None, None)

    def _append_at(self, places: list[int], count: int, stream: int | None) -> None:
        pointers = (ctypes.c_void_p * len(places))(*places)
        self._call(lib.gpur_writer_append_fields, count, ctypes.addressof(pointers), stream, None)

    def _explain(self, error: Exception) -> Exception:
        """A gap between stacks is often one between single frames."""
        if self._handle is not None and isinstance(error, InvalidArgument) and "of its stack" in str(error):
            return InvalidArgument(f"{error}; if obs is one frame and no stack, make the buffer with "
                                   "observations=\"frames\", and if its last axis counts the frames, with "
                                   "stack_axis=\"last\"")
        return super()._explain(error)

    def _forget(self) -> None:
        super()._forget()
        self._turn = threading.RLock()
        self._rows = self._steps = None

    def close(self) -> None:
        """Flushes. The buffer goes on."""
        super().close()

    def __repr__(self) -> str:
        return f"<gpureplay.Writer of {self.num_envs}{', closed' if self.closed else ''}>"
