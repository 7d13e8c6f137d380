# SPDX-License-Identifier: MIT
"""Settings that are words, settings that are schedules, and what a config begins with."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _mirror
from ._library import check
from ._numbers import put


def choice(name: str, value: Any, choices: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, choices))}")
    return choices[value]


def schedule(name: str, value: Any) -> _mirror.Schedule:
    """A number, or (first, last, steps) or (first, last, steps, begin)."""
    parts = value if isinstance(value, (tuple, list)) else (value, value, 0)
    if len(parts) not in (3, 4):
        raise ValueError(f"{name} is {value!r}; it must be a number, (first, last, steps) or (first, last, steps, "
                         f"begin)")
    made = _mirror.Schedule()
    for member, number in zip(("first", "last", "steps", "begin"), parts):
        put(made, member, number, called=f"{member} of {name}" if parts is value else name)
    return made


def put_choice(choices: dict[str, int]) -> Any:
    """What sets a struct's member to one of them."""
    def set_it(struct: ctypes.Structure, name: str, value: Any) -> None:
        setattr(struct, name, choice(name, value, choices))
    return set_it


def put_schedule(struct: ctypes.Structure, name: str, value: Any) -> None:
    setattr(struct, name, schedule(name, value))


def begin(config: Any, init: Any, set_preset: Any, preset: Any) -> None:
    """A preset's settings, or with None the defaults, by the library's functions for this struct."""
    check(init(ctypes.addressof(config), ctypes.sizeof(config)))
    if preset is None:
        return
    if not isinstance(preset, str):
        raise TypeError(f"preset is {preset!r}; it must be a name, or None")
    if "\0" in preset:
        raise ValueError(f"preset is {preset!r}; it must have no NUL")
    check(set_preset(ctypes.addressof(config), preset.encode()))
