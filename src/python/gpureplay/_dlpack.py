# SPDX-License-Identifier: MIT
"""DLPack's structs and capsules, for export and import [DLPack 1.0: github.com/dmlc/dlpack, Python specification]."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from . import _c_api
from ._library import failed

CPU, CUDA, CUDA_MANAGED = 1, 2, 13
_NAMES = {0: b"dltensor", 1: b"dltensor_versioned"}
_CODES = {(0, 8): np.int8, (0, 16): np.int16, (0, 32): np.int32, (0, 64): np.int64, (1, 8): np.uint8,
          (2, 16): np.float16, (2, 32): np.float32, (2, 64): np.float64, (6, 8): np.bool_}


class _Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _Tensor)]


_STRUCTS = {0: _Managed, 1: _Versioned}


def _python(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C API. It gets a prototype of its own, because setting argtypes on ctypes.pythonapi would
    change them for every other user."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _python("PyCapsule_New", ctypes.py_object, c_void_p, ctypes.c_char_p, c_void_p)
_is_valid = _python("PyCapsule_IsValid", ctypes.c_int, c_void_p, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", c_void_p, c_void_p, ctypes.c_char_p)


_destructor_of = _python("PyCapsule_GetDestructor", c_void_p, ctypes.py_object)


def _destructors_of_numpy() -> dict[bool, int]:
    """By whether the tensor is versioned, NumPy's destructors of capsules, which call the deleter of a tensor that
    nobody has taken. They are functions of C: see finalizers in _handle.py. NumPy before 2.1 has no versioned
    tensors."""
    array = np.zeros(1, np.uint8)
    found = {False: array.__dlpack__()}
    try:
        found[True] = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        pass
    return {versioned: _destructor_of(one) for versioned, one in found.items()}


_destructors = _destructors_of_numpy()
HAS_VERSIONED = True in _destructors


def capsule(export: Callable[[Any], int], versioned: bool) -> Any:
    """A capsule that passes a managed tensor to its consumer. export: the function of the library that makes it, with
    all arguments but the last.

    No Python code runs between the two calls, so that a signal handler cannot raise an exception there and the tensor
    be lost."""
    managed = c_void_p()
    calls = (functools.partial(export, ctypes.byref(managed)),
             functools.partial(_new, managed, _NAMES[int(versioned)], _destructors[versioned]))
    try:
        _, made = list(map(functools.partial.__call__, calls))
    except ValueError:  # there is no tensor to make a capsule of
        raise failed(_c_api.OUT_OF_MEMORY) from None
    return made


def of_copy(array: np.ndarray, max_version: tuple[int, int] | None) -> Any:
    """A capsule of a copy of the array. The capsule owns the copy."""
    try:
        return array.__dlpack__(max_version=max_version, copy=True)
    except TypeError:  # NumPy before 2.1 makes capsules of DLPack 0, which cannot say that they hold a copy
        return array.copy().__dlpack__()


class DeviceArray(NamedTuple):
    """A contiguous array in a CUDA device's memory, as an exporter describes it."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    stream: int | None  # the stream on which it is made; None: it is ready
    owner: Any  # keeps the memory alive


def _is_contiguous(tensor: _Tensor) -> bool:
    wanted = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != wanted:
            return False
        wanted *= tensor.shape[axis]
    return True


def describe(exported: Any, stream: int | None) -> DeviceArray:
    """Describes the array in another library's capsule, which is ready on `stream` (None: ready). The capsule stays the
    owner of the memory."""
    for version, name in _NAMES.items():
        if _is_valid(id(exported), name):
            tensor = _STRUCTS[version].from_address(_pointer(id(exported), name)).tensor
            break
    else:
        raise TypeError("__dlpack__ gave no capsule that holds a tensor")
    if (tensor.code, tensor.bits) not in _CODES or tensor.lanes != 1:
        raise TypeError(f"a DLPack array of type code {tensor.code} and {tensor.bits} bits; it must be of a NumPy "
                        f"dtype")
    if not _is_contiguous(tensor):
        raise ValueError("a DLPack array with strides; it must be contiguous")
    return DeviceArray((tensor.data or 0) + tensor.byte_offset, tuple(tensor.shape[:tensor.ndim]),
                       np.dtype(_CODES[tensor.code, tensor.bits]), stream, exported)
