# SPDX-License-Identifier: MIT
"""Whether anybody still looks at a batch that the buffer keeps for the next draw.

Drawing into a batch that nobody holds saves making its arrays anew, which at 32 transitions takes longer than the draw.
A batch is in use while somebody holds it, one of its arrays or their memory; whatever is made of an array (slices,
memoryviews, tensors) holds one of these. So reference counts tell, where the interpreter keeps them exactly: what
"nobody" counts to is measured here, once, by the function that `ReplayBuffer.sample` calls, and where the measure
cannot tell, no batch is used again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

_count = getattr(sys, "getrefcount", lambda _: 0)


Tally = tuple  # references to a batch, to its attributes, to its memory without its arrays', and most to any array
_NEVER: Tally = (-1, -1, -1, -1)
_BUSY: Tally = (0, 0, 0, 0)
_idle_view = 0  # an array that only the batch holds counts to this


def tally(batch: Any) -> Tally:
    """Of a batch. One whose arrays were given another shape or type in place is busy for ever."""
    own, most = batch.__dict__, _idle_view
    views = own["_views"]
    for view, layout, kept in views:
        count = _count(view) - kept
        if count > most:
            most = count
        if view.shape != layout.shape or view.dtype is not layout.dtype:
            return _BUSY
    return _count(batch), _count(own), _count(own.get("_memory")) - len(views), most


def walk(batches: list, accept: Callable[[Tally], Any]) -> Any:
    """The first batch whose tally is accepted, or None."""
    for batch in batches:
        if accept(tally(batch)):
            return batch
    return None


class _Probe:
    """A batch as far as the counting goes."""

    def __init__(self) -> None:
        part = SimpleNamespace(shape=(1,), dtype=np.dtype(np.float32))
        self._memory = bytearray(4)
        self.view = np.ndarray(part.shape, part.dtype, self._memory)
        self._views = [(self.view, part, 2)]


def _tallies(batches: list[_Probe]) -> list[Tally]:
    found: list[Tally] = []
    walk(batches, found.append)
    return found


def _measure() -> Tally:
    """The tally of a batch that only the buffer's list holds; _NEVER when counts do not tell that from one in use."""
    kept = [_Probe(), _Probe()]
    idle = _tallies(kept)
    held = kept[1], vars(kept[1]), kept[1]._memory, kept[1].view
    busy = _tallies(kept)
    del held
    exact = all(a < b for a, b in zip(idle[1], busy[1])) and idle[0] == idle[1] == busy[0] and _tallies(kept) == idle
    return idle[0] if exact and getattr(sys, "_is_gil_enabled", lambda: True)() else _NEVER


_IDLE = _measure()
_idle_view = _IDLE[-1]
is_idle = _IDLE.__eq__
