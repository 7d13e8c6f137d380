# SPDX-License-Identifier: MIT
"""Steps of gpureplay.sb3 whose episodes the library follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _inputs
from ._buffer import ReplayBuffer

if TYPE_CHECKING:
    from . import _sb3_buffer


def add(replay: ReplayBuffer, rows: dict[str, np.ndarray]) -> None:
    """One step of every environment."""
    rows["terminated"] = rows["terminated"] != 0
    obs = next(field for field in replay.fields if field.name == "obs")
    rows["obs"] = _inputs.host(rows["obs"], obs)
    _end_gaps(replay, rows["obs"])
    replay.add(**rows)


def _end_gaps(replay: ReplayBuffer, obs: np.ndarray) -> None:
    """Ends the open episodes that this is no part of: nobody tells a buffer of this kind that one was broken off."""
    steps = replay._writer._by_steps
    assert steps is not None
    gaps = steps.gaps(obs)
    if gaps:
        replay.reset(gaps)


class Dones:
    """`dones` of a buffer, as far as they are written to."""

    def __init__(self, buffer: _sb3_buffer.ReplayBuffer):
        self._buffer = buffer

    def __setitem__(self, position: int, done: Any) -> None:
        buffer = self._buffer
        if position != (buffer.pos - 1) % buffer.buffer_size or not np.all(done):
            raise ValueError(f"dones[{position!r}] is set to {done!r}; only the last step's can be, to True")
        if buffer._by_steps:
            buffer._replay.reset()
