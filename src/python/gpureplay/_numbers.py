# SPDX-License-Identifier: MIT
"""Numbers from Python, held against what C can hold: ctypes alone would cut them off without a word."""

from __future__ import annotations

import ctypes
import functools
import operator
from typing import Any

import numpy as np

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


LEGACY_STREAM = 1  # CUDA's default stream by name; as a cudaStream_t it is 0, which is no stream to the library


def stream_of(value: Any) -> int | None:
    """A cudaStream_t as an int, or None. From an int, or from a stream of PyTorch's, of CuPy's, or of whoever has
    `__cuda_stream__` [CUDA stream protocol]. ctypes would take a str for an address."""
    if value is None:
        return None
    if hasattr(value, "__cuda_stream__"):
        value = value.__cuda_stream__()[1]
    else:
        value = getattr(value, "cuda_stream", getattr(value, "ptr", value))
    return integer("stream", value, 0, 2**64 - 1) or LEGACY_STREAM


def flag(name: str, value: Any) -> bool:
    """`value` as a bool; NumPy's will do. TypeError: any other, which would be true or false by accident."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r}; it must be True or False")
    return bool(value)


@functools.cache
def _range(kind: type) -> tuple[int, int]:
    bits = 8 * ctypes.sizeof(kind)
    return (0, 2**bits - 1) if kind(-1).value > 0 else (-2**(bits - 1), 2**(bits - 1) - 1)


def put(struct: ctypes.Structure, name: str, value: Any, *, called: str = "") -> None:
    """struct.name = value, if it fits. `called`: the setting's name, where that is another."""
    kind, called = next(member[1] for member in struct._fields_ if member[0] == name), called or name
    setattr(struct, name, real(called, value) if kind in _FLOATS else integer(called, value, *_range(kind)))


def put_some(struct: ctypes.Structure, name: str, value: Any) -> None:
    """As `put`, of a count: 1 or more, for 0 would be the library's default."""
    if integer(name, value) < 1:
        raise InvalidArgument(f"{name} is {value!r}; it must be 1 or more, or None for the default")
    put(struct, name, value)
