# SPDX-License-Identifier: MIT
"""Priorities of a buffer's transitions."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import _inputs, _mirror
from ._accelerator import fast
from ._device import Device
from ._dlpack import DeviceArray
from ._handle import Handle
from ._library import InvalidArgument, TooFew, lib
from ._numbers import integer, real, stream_of
from ._replay_config import Form, most_of
from ._schema import Field

_INDICES, _PRIORITIES = Field("indices", (), np.dtype(np.int64)), Field("priorities", (), np.dtype(np.float32))


def _never(_buffer: Any, _indices: Any, _priorities: Any) -> bool:
    """Where the extension is not."""
    return False


_updated = _never if fast is None else fast.update


class PriorityStats(NamedTuple):
    """Of all priorities at one moment. include/gpureplay/priority.h has each."""

    alpha: float
    beta: float
    total: float
    max_priority: float
    min_priority: float
    drawable: int
    updates: int
    stale: int
    invalid: int


class Priorities(Handle):
    """What a buffer does with priorities that was made with prioritized=True or "plain" [Schaul et al. 2016]. Of any
    other it is refused, as InvalidArgument. Any thread; draws, training and updates take turns."""

    device: Device
    _form: Form
    _is_prioritized: bool

    def _open_prioritized(self) -> None:
        """Closed, InvalidArgument: there are no priorities to ask of."""
        self._open_handle()
        if not self._is_prioritized:
            raise InvalidArgument("this buffer has no priorities; make it with prioritized=True or \"plain\"")

    def _refuse_draw(self, batch_size: int, stream: Any) -> None:
        """What a draw would be refused for, told before beta is set: that ends a schedule, which cannot be undone."""
        self._open_prioritized()
        count, most = integer("batch_size", batch_size), most_of(self._form.config)
        if not 1 <= count <= most:
            raise InvalidArgument(f"batch_size is {count}; it must be 1 to max_batch = {most}")
        if stream_of(stream) is not None and not self.device.is_cuda:
            raise InvalidArgument(f"stream is {stream}; on the CPU it must be None")
        if self._ask(lib.gpur_replay_size) == 0:
            raise TooFew("the buffer is empty; a draw needs at least 1 transition")
        if not self._ask(lib.gpur_replay_can_sample):
            raise TooFew(f"fewer transitions have become visible so far than min_size = {self._form.config.min_size}")

    def update_priorities(self, indices: Any, priorities: Any, *, stream: Any = None) -> None:
        """Gives transitions new priorities: how large their TD errors were, say. All later draws see them.

        indices: (count,) integers, as `batch.indices` has them; of one that is given twice the larger priority counts.
        priorities: (count,), 0 or more; float32, or what fits in it; above 4,096 ** (1 / alpha), 1.05 million at alpha
            0.6, they count as that. Both in host memory, or both in the memory of the buffer's CUDA device (DLPack,
            __cuda_array_interface__; int64 and float32), from where nothing visits the host. count: at most max_batch.
        stream: device arrays, the stream that made them, as for `ReplayBuffer.extend`.

        A transition that was overwritten meanwhile, and a priority that is negative, NaN or infinite, are passed over
        and counted in `priority_stats`.

        TypeError, ValueError: another dtype or shape, or one array here and one there; nothing was updated."""
        if not self._is_prioritized:
            self._open_prioritized()
        if stream is None and _updated(self, indices, priorities):
            return
        stream, device = stream_of(stream), self.device._if_cuda
        if stream is None and device is None and _updated(self, _as_array(indices), _as_array(priorities)):
            return
        given: list[Any] = [_inputs.located(field, value, device, stream)
                            for field, value in ((_INDICES, indices), (_PRIORITIES, priorities))]
        _refuse_shapes(given[0].shape, given[1].shape)
        if any(isinstance(array, DeviceArray) for array in given):
            places, stream = _on_device(given, stream)
        else:
            given, places = _on_host(given)
        self._call(lib.gpur_replay_update_priorities, given[0].shape[0], *places, stream)

    def get_priorities(self, indices: Any) -> np.ndarray:
        """The priorities of these transitions, as last given, with the buffer's priority_offset, without alpha:
        (count,) float32, on the host, waited for. count: 1 to max_batch.

        Evicted: a transition that was overwritten. InvalidArgument: one that is not there yet."""
        self._open_prioritized()
        wanted = _converted(np.asarray(indices), _INDICES)
        if wanted.ndim != 1:
            raise ValueError(f"indices has shape {wanted.shape}; it must be (count,)")
        found = np.empty(len(wanted), np.float32)
        self._call(lib.gpur_replay_get_priorities, len(wanted), _inputs.address(wanted), found.ctypes.data)
        return found

    @property
    def alpha(self) -> float:
        """A draw is in proportion to priority ** alpha, which is kept up to 4,096: priorities above 4,096 **
        (1 / alpha) count as that, 1.05 million at alpha 0.6 and 4,096 at 1. Assigning works all of them out anew, in
        one pass over the buffer; asking costs as `priority_stats`."""
        return self.priority_stats.alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        self._open_prioritized()
        self._call(lib.gpur_replay_set_alpha, real("alpha", alpha))

    @property
    def beta(self) -> float:
        """Exponent of the importance weights of the next `sample`. Assigning ends the buffer's schedule, if it has one;
        asking costs as `priority_stats`. A learner has its own."""
        return self.priority_stats.beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._open_prioritized()
        self._call(lib.gpur_replay_set_beta, real("beta", beta))

    @property
    def priority_stats(self) -> PriorityStats:
        """Of all priorities, behind the work enqueued before, which is waited for: milliseconds for millions."""
        self._open_prioritized()
        got = _mirror.PriorityStats()
        self._call(lib.gpur_replay_get_priority_stats, ctypes.addressof(got))
        return PriorityStats(*(getattr(got, name) for name in PriorityStats._fields))

    def check_priorities(self) -> int:
        """How many nodes of the tree of priorities are wrong: 0, unless something wrote over the device's memory. Costs
        as `priority_stats`."""
        self._open_prioritized()
        wrong = ctypes.c_int64()
        self._call(lib.gpur_replay_check_priorities, ctypes.addressof(wrong))
        return wrong.value


def _as_array(value: Any) -> Any:
    """A tensor of the host's memory as an array, sooner than by DLPack. What is none stays, to be refused in words."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__array__"):
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return value


def _refuse_shapes(indices: tuple[int, ...], priorities: tuple[int, ...]) -> None:
    if len(indices) != 1:
        raise ValueError(f"indices has shape {indices}; it must be (count,)")
    if priorities != indices:
        raise ValueError(f"priorities has shape {priorities}; it must be {indices}, as indices")


def _converted(array: np.ndarray, field: Field) -> np.ndarray:
    """An empty list is float64, and holds no number of the wrong kind."""
    return _inputs.host(array if array.size else array.astype(field.dtype), field)


def _on_host(given: list[Any]) -> tuple[list[Any], list[int]]:
    """Both arrays as the library reads them, and where they lie."""
    arrays = [_converted(array, field) for array, field in zip(given, (_INDICES, _PRIORITIES))]
    return arrays, [_inputs.address(array) for array in arrays]


def _on_device(given: list[Any], stream: int | None) -> tuple[list[int], int | None]:
    """Where both arrays lie, and the stream that makes them."""
    for array, field in zip(given, (_INDICES, _PRIORITIES)):
        if not isinstance(array, DeviceArray):
            raise TypeError(f"{field.name} is in host memory, and the other in a CUDA device's; both must be in the "
                            f"same")
        _inputs.check_device(array, field)
    return [array.address for array in given], _inputs.stream_of(given, stream)
