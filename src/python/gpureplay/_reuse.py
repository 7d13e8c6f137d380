# SPDX-License-Identifier: MIT
"""Drawing into a batch that nobody looks at any more.

It saves making a batch's arrays anew, which at 32 transitions takes longer than the draw. A batch is in use while
somebody holds it, one of its arrays or their memory; whatever is made of an array (slices, memoryviews, tensors) holds
one of these. So reference counts tell, where the interpreter keeps them exactly: what "nobody" counts to is measured
here, once, by what `ReplayBuffer.sample` calls, and where the measure cannot tell, no batch is used again.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _mirror
from ._accelerator import fast
from ._library import lib

if TYPE_CHECKING:
    from ._batch import Batch
    from ._buffer import ReplayBuffer

_count = getattr(sys, "getrefcount", lambda _: 0)
_form = operator.attrgetter("shape", "strides", "dtype", "flags.writeable")
_own_idle: list[int] = []  # what a batch and its list count to when only their watch holds them; [] is never
_most = sys.maxsize  # a batch that counts to more is in use


class Watch:
    """A batch with all that makes it up, and the references to each of these when nobody else has one."""

    def __init__(self, parts: tuple[Any, ...]):
        self.parts = parts  # (batch, its list of arrays, its memory, its arrays ...)
        self.arrays = parts[3:]
        self.forms = list(map(_form, self.arrays))
        self.idle = [*_own_idle, *list(map(_count, parts))[2:]]  # its maker still holds the batch and its list


def walk(watches: tuple[Watch, ...], accept: Callable[[list[int], list[int]], bool]) -> Any:
    """The first batch whose counts are accepted, or None. Of two threads that come here at once, each sees what the
    other holds. A batch of which an array was given another shape or type in place is not used again, nor one to which
    somebody has a weak reference: what he watches is never made something else."""
    for watch in watches:
        parts = watch.parts
        batch = parts[0]
        if _count(batch) <= _most and accept(list(map(_count, parts)), watch.idle) \
                and list(map(_form, watch.arrays)) == watch.forms \
                and not any(map(weakref.getweakrefcount, parts)):
            return batch
    return None


def _redraw(buffer: ReplayBuffer, stream: int | None, watches: tuple[Watch, ...]) -> Batch | None:
    """Draws anew into one of these batches that nobody looks at. None: there is none."""
    batch: Batch | None = walk(watches, operator.eq)
    if batch is None:
        return None
    status = buffer._ask(lib.gpur_replay_resample, stream, batch._handle)
    if status == 0:
        return batch
    if status != _mirror.WOULD_BLOCK:
        buffer._refuse(status)
    return None


class _Probe:
    """A batch as far as the counting goes."""

    __slots__ = ("memory", "view", "views")

    def __init__(self) -> None:
        self.memory = bytearray(4)
        self.view = np.ndarray((1,), np.float32, self.memory)
        self.views = [self.view]


def _watch(kind: type, probe: Any) -> Any:
    return kind((probe, probe.views, probe.memory, probe.view))


def _measure() -> None:
    """Sets _own_idle and _most, from a watch that alone holds its batch."""
    global _most
    found: list[list[int]] = []

    def take(counts: list[int], _idle: list[int]) -> bool:
        found.append(counts[:2])
        return False

    walk((_watch(Watch, _Probe()),), take)
    _own_idle[:], _most = found[0], found[0][0]


def _is_exact(kind: type, idle: Callable[[tuple[Any, ...]], Any]) -> bool:
    """Whether a look at a watch tells a batch in use from one that is not, whatever of it is held."""
    watch = _watch(kind, _Probe())
    if idle((watch,)) is None:
        return False
    holders: list[Callable[[Any], Any]] = [*map(operator.attrgetter, ("views", "memory", "view")), lambda probe: probe,
                                           lambda probe: weakref.ref(probe.view)]
    for part in holders:
        held = part(idle((watch,)))
        if idle((watch,)) is not None:
            return False
        del held
    return idle((watch,)) is not None


def _never(_buffer: Any, _stream: Any, _watches: tuple[Any, ...]) -> None:
    """Where counts do not tell."""


def _choose() -> tuple[type, Callable[[Any, Any, tuple[Any, ...]], Any]]:
    """What watches, and what draws: by the extension if it can, else by Python if it can."""
    if fast is not None and _is_exact(fast.Watch, fast.idle):
        return fast.Watch, fast.redraw
    _measure()
    with_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    exact = with_lock and _is_exact(Watch, lambda watches: walk(watches, operator.eq))
    return Watch, _redraw if exact else _never


_kind, redraw = _choose()


def watch(batch: Batch) -> Any:
    """Of a batch that was just drawn, with all its arrays made."""
    return _kind(batch._parts())
