# SPDX-License-Identifier: MIT
"""Numbers from Python, held against what C can hold: ctypes alone would cut them off without a word."""

from __future__ import annotations

import ctypes
import functools
import operator
from typing import Any

from ._library import InvalidArgument

_FLOATS = (ctypes.c_float, ctypes.c_double)


def integer(name: str, value: Any, least: int = -2**63, most: int = 2**63 - 1) -> int:
    """`value` as an int; a float will do that is whole (1e6). TypeError, InvalidArgument: neither, or out of range."""
    try:
        number = operator.index(value)
    except TypeError:
        if not isinstance(value, float) or not value.is_integer():
            raise TypeError(f"{name} is {value!r}; it must be an integer") from None
        number = int(value)
    if not least <= number <= most:
        raise InvalidArgument(f"{name} is {number}; it must be {least} to {most}")
    return number


def real(name: str, value: Any) -> float:
    """`value` as a float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; it must be a number") from None


def stream_of(value: Any) -> int | None:
    """A cudaStream_t as an int, or None. ctypes would take a str for an address."""
    return None if value is None else integer("stream", value, 0, 2**64 - 1)


@functools.cache
def _range(kind: type) -> tuple[int, int]:
    bits = 8 * ctypes.sizeof(kind)
    return (0, 2**bits - 1) if kind(-1).value > 0 else (-2**(bits - 1), 2**(bits - 1) - 1)


def put(struct: ctypes.Structure, name: str, value: Any) -> None:
    """struct.name = value, if it fits."""
    kind = next(member[1] for member in struct._fields_ if member[0] == name)
    setattr(struct, name, real(name, value) if kind in _FLOATS else integer(name, value, *_range(kind)))
