# SPDX-License-Identifier: MIT
"""The extension module `_fast`, where there is one: what costs most of a call, in C. The package gives the same without
it, later.

GPUREPLAY_FAST: "off" leaves it out; a path is that of the module's file, where it does not lie in the package.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ._library import lib

VARIABLE = "GPUREPLAY_FAST"
_NUMBERS = "dlqif?bhBHILQ"  # types of numbers that it converts, the commonest first


def _import() -> Any:
    named = os.environ.get(VARIABLE, "")
    if named == "off" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None  # without the interpreter's lock its looks at counts and lists would be races
    if not named:
        try:
            return importlib.import_module(f"{__package__}._fast")
        except ImportError:
            return None
    if not os.path.isfile(named):
        raise ImportError(f"{VARIABLE} is {named!r}, where there is no file; it must be \"off\", or the module's path")
    loader = importlib.machinery.ExtensionFileLoader(f"{__package__}._fast", named)
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(loader.name, loader, origin=named))
    loader.exec_module(module)
    return module


def _as_told(fast: Any, array: np.ndarray) -> bool:
    """Whether the module reads of an array what the array says."""
    found = fast.describe(array, array.__array_interface__["data"][0], array.ndim)
    if found is None:
        return False
    shape, strides, flags, dtype = found
    told = array.flags.c_contiguous, array.flags.aligned
    return shape == array.shape and strides == array.strides and dtype is array.dtype \
        and (bool(flags & 0x1), bool(flags & 0x100)) == told


def _reads_arrays(fast: Any) -> bool:
    """NumPy's own layout of an array is read; should one ever change it, the module is not used."""
    grid = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    odd = np.frombuffer(bytearray(21), np.uint8)[1:].view(np.float32)
    return all(_as_told(fast, array) for array in (grid, grid[0, 0], grid.T, grid[:, ::2], odd, np.zeros(3, np.bool_)))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _load() -> Any:
    fast = _import()
    if fast is None:
        return None
    fast.use(np.ndarray, tuple(map(np.dtype, _NUMBERS)), _address(lib.gpur_writer_append_fields),
             _address(lib.gpur_writer_try_append_fields), _address(lib.gpur_replay_resample),
             _address(lib.gpur_replay_update_priorities), _address(lib.gpur_writer_step_with),
             _address(lib.gpur_writer_reset))
    return fast if _reads_arrays(fast) else None


fast = _load()

_Method = TypeVar("_Method", bound=Callable[..., Any])


def tried_in_c(name: str) -> Callable[[_Method], _Method]:
    """Of a method that appends what it is given by name: which attribute of its object is the Rows of a writer, or
    None. What is ordinary goes there, and never comes to the function."""
    def of(function: _Method) -> _Method:
        return function if fast is None else fast.Method(function, name)
    return of
