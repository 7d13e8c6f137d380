# SPDX-License-Identifier: MIT
"""Finding NaN in what comes in: one pass that makes no array, so that it costs a small part of the copy that
follows."""

from __future__ import annotations

import numpy as np

from ._schema import Field

_SMALL = 4096  # elements up to which one call of BLAS in this thread is quicker than a reduction of NumPy's
_HALF_INFINITY = np.uint16(0x7c00)
_HALF_BITS = np.uint16(0x7fff)  # all but the sign
_BLOCK = 1 << 17  # elements of float16 at a time, which stay in the cache


def is_in(array: np.ndarray) -> bool:
    """In a contiguous array of floats. A sum of squares is NaN when a term is, and never else; so is a maximum."""
    if array.dtype.itemsize == 2:
        bits = array.reshape(-1).view(np.uint16)
        return any(((bits[at:at + _BLOCK] & _HALF_BITS) > _HALF_INFINITY).any() for at in range(0, bits.size, _BLOCK))
    if array.size <= _SMALL:
        squares = np.vdot(array, array)
        return bool(squares != squares)
    most = np.maximum.reduce(array, axis=None)
    return bool(most != most)


def refuse(fields: list[Field], arrays: list[np.ndarray]) -> None:
    """ValueError, naming field and first row, where one of the arrays (count, ...) has a NaN."""
    for field, array in zip(fields, arrays):
        if field.dtype.kind == "f" and is_in(array):
            bad = np.isnan(array).reshape(len(array), -1).any(axis=1)
            raise ValueError(f"{field.name} has NaN, first in row {bad.argmax()} of {len(array)}; it must be numbers, "
                             "or make the buffer with check_nan=False")
