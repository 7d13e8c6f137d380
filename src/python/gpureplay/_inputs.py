# SPDX-License-Identifier: MIT
"""What callers hand in, as arrays that the library can read: NumPy, DLPack, __cuda_array_interface__, or anything that
NumPy can make an array of."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _dlpack, _numbers
from ._dlpack import DeviceArray
from ._library import InvalidArgument
from ._numbers import LEGACY_STREAM
from ._schema import Field

if TYPE_CHECKING:
    from ._device import Device

_TAKEN = {"f": "fiub", "i": "iu", "u": "iub", "b": "iu"}  # kinds of values for a field of a kind, if they fit
_FEW_BYTES = 2048  # in which a method of bytes finds one sooner than a reduction of NumPy's
_EXACT = {np.dtype(np.float32): 2**24, np.dtype(np.float16): 2**11}  # integers that a float holds without loss


def _of_interface(name: str, value: Any) -> DeviceArray:
    """[CUDA array interface, version 3]. Before version 3 nobody told the stream: work is on the legacy default one."""
    given = value.__cuda_array_interface__
    shape, dtype = tuple(given["shape"]), np.dtype(given["typestr"])
    wanted = dtype.itemsize
    for length, stride in zip(reversed(shape), reversed(given.get("strides") or ())):
        if length > 1 and stride != wanted:
            raise ValueError(f"{name} is a CUDA array of strides {tuple(given['strides'])} bytes; it must be "
                             f"contiguous")
        wanted *= length
    return DeviceArray(given["data"][0], shape, dtype, given.get("stream", LEGACY_STREAM), value)


def _of_dlpack(field: Field, value: Any, device: Device | None, stream: int | None) -> np.ndarray | DeviceArray:
    _refuse_gradient(field.name, value)
    value = _negated(value)
    try:
        kind, _ = value.__dlpack_device__()
        if kind not in (_dlpack.CUDA, _dlpack.CUDA_MANAGED):
            return np.from_dlpack(value)
        if device is not None:
            return _of_cuda(field.name, value, device, stream)
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        raise _not_read(field, value, error) from error
    raise _off_cuda(field.name)


def _of_cuda(name: str, value: Any, device: Device, stream: int | None) -> DeviceArray:
    """The memory of an array may be used again as soon as its last holder lets go of it, in the order of a stream that
    its library chooses; so that stream must wait for the reading. PyTorch's is the current one, and the interface tells
    one. Of any other library nobody knows it: the array is waited for here, and what reads it is waited for, too."""
    if stream is None:
        stream = _current_of_torch(value)
    if stream is not None:
        return _dlpack.describe(value.__dlpack__(stream=stream), stream)
    if "stream" in getattr(value, "__cuda_array_interface__", ()):
        return _of_interface(name, value)
    exported = value.__dlpack__(stream=LEGACY_STREAM)
    device.wait_stream(LEGACY_STREAM)
    return _dlpack.describe(exported, None)


def _current_of_torch(value: Any) -> int | None:
    """PyTorch's current stream on a tensor's device. None: it is no tensor."""
    torch: Any = sys.modules.get("torch")
    is_tensor: bool = isinstance(value, getattr(torch, "Tensor", ()))
    return _numbers.stream_of(torch.cuda.current_stream(value.device)) if is_tensor else None


def _refuse_gradient(name: str, value: Any) -> None:
    if getattr(value, "requires_grad", False):
        raise ValueError(f"{name} is a tensor that needs a gradient; it must be one that does not: {name}.detach()")


def _negated(value: Any) -> Any:
    """A tensor of PyTorch's may have the negative bit, which says that its numbers are minus those in its memory, as
    `z.conj().imag` has. DLPack does not say so: then a copy without that bit."""
    is_negative = getattr(value, "is_neg", None)
    return value.resolve_neg() if callable(is_negative) and is_negative() else value


def _not_read(field: Field, value: Any, error: Exception) -> Exception:
    """What its exporter says, with what was given: bfloat16, say, is no dtype of NumPy's."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{field.name} cannot be read as a DLPack array: {str(error).rstrip('.')}; it is a "
                f"{type(value).__name__} of {getattr(value, 'dtype', 'no dtype')}, and must be {field.dtype}, dense, "
                "in the memory of the host or of the buffer's device")


def _off_cuda(name: str) -> Exception:
    return TypeError(f"{name} is in the memory of a CUDA device; a buffer on \"cpu\" takes host arrays")


def located(field: Field, value: Any, device: Device | None, stream: int | None = None) -> np.ndarray | DeviceArray:
    """An array of the host's memory, or the description of one in a CUDA device's, ready on `stream`. Not converted:
    `field` is what it is said to be wanted for. device: the buffer's, if that is a CUDA device."""
    name = field.name
    if isinstance(value, np.ndarray):
        refuse_mask(name, value)
        return np.asarray(value)
    if hasattr(value, "__dlpack_device__"):
        return _of_dlpack(field, value, device, stream)
    if hasattr(value, "__cuda_array_interface__"):
        if device is None:
            raise _off_cuda(name)
        return _of_interface(name, value)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be made an array: {error}") from error


def refuse_mask(name: str, value: Any) -> None:
    """What a mask hides would be stored as if it were not hidden."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; it must be an array without a mask, say {name}.filled(0)")


def _limits(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        return -_EXACT[dtype], _EXACT[dtype]
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _cast(array: np.ndarray, field: Field) -> np.ndarray:
    """The same numbers in the field's dtype: floats become narrower floats, integers must fit."""
    kind, wanted = array.dtype.kind, field.dtype
    if kind not in _TAKEN[wanted.kind]:
        raise TypeError(f"{field.name} is {array.dtype}; it must be {wanted}")
    if kind in "iu" and array.size:
        least, most = _limits(wanted)
        if array.min() < least or array.max() > most:
            raise ValueError(f"{field.name} has {array.min()} to {array.max()}; {wanted} holds {least} to {most}")
    try:
        with np.errstate(over="raise"):
            return array.astype(wanted)
    except FloatingPointError:
        raise ValueError(f"{field.name} has {array.min()} to {array.max()}; {wanted} holds {np.finfo(wanted).min} to "
                         f"{np.finfo(wanted).max}") from None


def host(array: np.ndarray, field: Field) -> np.ndarray:
    """Contiguous, of the field's dtype. The array itself where it is that already."""
    if array.dtype != field.dtype:
        array = _cast(array, field)
    elif array.dtype.kind == "b":
        array = bools(array)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def bools(array: np.ndarray) -> np.ndarray:
    """An array of bool whose bytes are 0 and 1. The array itself where they are; a view of other memory may have any
    byte, of which NumPy takes all but 0 for True."""
    if array.size <= _FEW_BYTES:
        is_odd = array.tobytes().translate(None, b"\0\1") != b""
    else:
        is_odd = array.view(np.uint8).max() > 1
    return array.view(np.uint8) != 0 if is_odd else array


def check_device(given: DeviceArray, field: Field) -> None:
    """A CUDA array must be exactly what is wanted: nothing is converted over there."""
    if given.dtype != field.dtype and not (field.dtype == np.bool_ and given.dtype == np.uint8):
        raise TypeError(f"{field.name} is {given.dtype} in device memory; it must be {field.dtype}")


def stream_of(given: list[DeviceArray], stream: int | None) -> int | None:
    """The stream that makes these arrays: the caller's word, else theirs. None: they are ready."""
    if stream is not None:
        return stream
    streams = {array.stream for array in given if array.stream is not None}
    if len(streams) > 1:
        raise ValueError(f"the arrays are made on streams {sorted(streams)}; make them on one, or say which with "
                         f"stream=...")
    return streams.pop() if streams else None


def with_count(shape: tuple[int, ...]) -> str:
    """How an array of things of this shape is written: "(count,)", "(count, 3)"."""
    return f"(count, {', '.join(map(str, shape))})" if shape else "(count,)"


def address(array: np.ndarray) -> int:
    """Of the first element of a contiguous array. The first way is three times as fast, and is not for read-only or
    empty arrays."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return int(array.__array_interface__["data"][0])


def ids(given: Any) -> np.ndarray:
    """(count,) int64. Numbers that are none are not cut off."""
    wanted = np.asarray(given)
    if wanted.ndim != 1:
        raise ValueError(f"ids has shape {wanted.shape}; it must be (batch_size,)")
    if wanted.size and wanted.dtype.kind != "i":
        _refuse_ids(wanted, given)
    return np.ascontiguousarray(wanted, np.int64)


def _refuse_ids(wanted: np.ndarray, given: Any) -> None:
    """Those that are no integers, or beyond int64: of a list NumPy may have made floats then."""
    if wanted.dtype.kind == "u" and wanted.max() < 2**63:
        return
    for at, one in enumerate(given):
        if wanted.dtype.kind != "u" and (not isinstance(one, (int, np.integer)) or isinstance(one, bool)):
            raise TypeError(f"ids is {wanted.dtype}; it must be integers")
        if not -2**63 <= int(one) < 2**63:
            raise InvalidArgument(f"ids[{at}] is {one}; no transition has an id beyond 2**63 - 1")
