# SPDX-License-Identifier: MIT
"""Settings of a buffer, and what it tells about itself."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from . import _mirror
from ._library import check, lib
from ._numbers import integer, put
from ._schema import Field, to_c

_FLUSH = {"auto": _mirror.FLUSH_AUTO, "manual": _mirror.FLUSH_MANUAL}


class Stats(NamedTuple):
    """Counts since creation; seconds and bytes where the name says so. include/gpureplay/replay.h has each."""

    first_id: int
    visible: int
    appended: int
    published: int
    evicted: int
    blocks: int
    episodes_cut: int
    draws: int
    batches_alive: int
    batches_made: int
    waits: int
    wait_seconds: float
    append_seconds: float
    bytes_fed: int


class Plan(NamedTuple):
    """What a buffer takes, in bytes."""

    row_bytes: int
    row_pitch: int
    ring_bytes: int
    feed_bytes: int
    pinned_bytes: int
    batch_bytes: int
    device_bytes: int


def flush_of(flush: str) -> int:
    if flush not in _FLUSH:
        raise ValueError(f"flush is {flush!r}; it must be \"auto\" or \"manual\"")
    return _FLUSH[flush]


def replay_config(fields: list[Field], capacity: int, settings: dict[str, Any]) -> _mirror.ReplayConfig:
    """`settings` None: the library's default."""
    config, array = _mirror.ReplayConfig(), to_c(fields)
    check(lib.gpur_replay_config_init(ctypes.addressof(config), ctypes.sizeof(config)))
    config.capacity, config.fields, config.field_count = integer("capacity", capacity), array, len(fields)
    for name, value in settings.items():
        if value is not None:
            put(config, name, value)
    return config
