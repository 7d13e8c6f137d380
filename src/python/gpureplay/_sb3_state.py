# SPDX-License-Identifier: MIT
"""A buffer of gpureplay.sb3 as a pickle keeps it: rows where these are all there is, else a file of the library's."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._library import Unavailable, lib

if TYPE_CHECKING:
    from ._sb3_buffer import ReplayBuffer

_NEEDED = ("optimize_memory_usage, n_steps above 1 and priorities are pickled, which `save_replay_buffer` does, as "
           "files of the library, and this one was built without cJSON or xxHash: `sudo apt install libcjson-dev "
           "libxxhash-dev`, then `pip install --force-reinstall --no-cache-dir .` in its sources")
_KEYS = ("_transitions", "_file")
# What a pickle of the first version does not have.
OLD: dict[str, Any] = {"optimize_memory_usage": False, "n_steps": 1, "gamma": 0.99, "_by_steps": False}


def check(buffer: ReplayBuffer) -> None:
    """Unavailable: it could not be pickled. To be told before an agent has trained for a day."""
    if _wants_file(buffer) and b"\nfiles: none" in lib.gpur_build_info():
        raise Unavailable(_NEEDED)


def _wants_file(buffer: ReplayBuffer) -> bool:
    """Rows are not all: there are open episodes, links between transitions, or priorities."""
    return buffer._by_steps or bool(buffer._more)


def contents(buffer: ReplayBuffer) -> dict[str, Any]:
    """All that it holds, on the host."""
    if not _wants_file(buffer):
        return {"_transitions": _rows(buffer)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "replay")
        buffer._replay.save(path)
        return {"_file": path.read_bytes()}


def taken_out(state: dict[str, Any]) -> dict[str, Any]:
    return {key: state.pop(key) for key in _KEYS if key in state}


def put_back(buffer: ReplayBuffer, kept: dict[str, Any]) -> None:
    """Into a buffer that was just made."""
    if "_transitions" in kept:
        buffer._first = buffer._steps - min(buffer._steps, buffer.buffer_size)
        buffer._replay.extend(**kept["_transitions"])
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "replay")
        path.write_bytes(kept["_file"])
        buffer._replay.load(path)


def _rows(buffer: ReplayBuffer) -> dict[str, np.ndarray]:
    """All transitions on the host, oldest first: (count, ...) by field."""
    count, begin = buffer.size() * buffer.n_envs, (buffer._steps - buffer.size() - buffer._first) * buffer.n_envs
    rows = {name: np.empty((count, *shape), dtype) for name, (shape, dtype) in buffer._fields.items()}
    most = buffer._max_batch
    for at in range(0, count, most):
        batch = buffer._replay.gather(np.arange(begin + at, begin + min(at + most, count)))
        for name, array in rows.items():
            array[at:at + most] = batch[name]
    return rows
