# SPDX-License-Identifier: MIT
"""One step of every environment, copied to where its addresses are known beforehand and one look finds a NaN. At a few
environments, asking NumPy where each array lies takes longer than everything else."""

from __future__ import annotations

import ctypes

import numpy as np

from . import _inputs, _nan
from ._schema import Field

_MOST = 1 << 16  # bytes of a step that is copied; of more, the copy would cost more than it saves


class Stage:
    """(num_envs, ...) of each field, those of one dtype one behind the other. One thread's at a time."""

    def __init__(self, fields: list[Field], num_envs: int):
        shapes = [(num_envs, *field.shape) for field in fields]
        self._views: list[np.ndarray] = [np.empty(0)] * len(fields)
        self._floats: list[np.ndarray] = []
        for dtype in {field.dtype for field in fields}:
            own = [at for at, field in enumerate(fields) if field.dtype == dtype]
            sizes = [int(np.prod(shapes[at], dtype=np.int64)) for at in own]
            block = np.zeros(sum(sizes), dtype)
            for at, part in zip(own, np.split(block, np.cumsum(sizes)[:-1])):
                self._views[at] = part.reshape(shapes[at])
            if dtype.kind == "f":
                self._floats.append(block)
        self._places = (ctypes.c_void_p * len(fields))(*map(_inputs.address, self._views))
        self.address = ctypes.addressof(self._places)

    @staticmethod
    def of(fields: list[Field], num_envs: int) -> Stage | None:
        """None where a step is too large for it."""
        size = sum(num_envs * int(np.prod(field.shape, dtype=np.int64)) * field.dtype.itemsize for field in fields)
        return Stage(fields, num_envs) if size <= _MOST else None

    def take(self, arrays: list[np.ndarray]) -> None:
        """Copies a step of every environment, in the schema's order."""
        for view, array in zip(self._views, arrays):
            view[...] = array

    def has_nan(self) -> bool:
        for block in self._floats:
            if _nan.is_in(block):
                return True
        return False
