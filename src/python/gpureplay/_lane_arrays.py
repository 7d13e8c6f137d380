# SPDX-License-Identifier: MIT
"""The arrays that lanes take and give: PyTorch's, NumPy's, and those of any library that has DLPack or
__cuda_array_interface__. Nothing is converted or copied: the library reads and writes them where they are."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import numpy as np

from ._device import Device
from ._dlpack import DeviceArray
from ._inputs import (LEGACY_STREAM, address_of, check_device_array, producer_stream, read_array, refuse_gradient,
                      stream_of)
from ._library import InvalidArgument
from ._schema import Field

_FLAG = np.dtype(np.bool_)
_DTYPES = {np.dtype(dtype): np.dtype(dtype) for dtype in (np.float32, np.float16, np.uint8, np.int32, np.int64,
                                                          np.bool_)}


def _is_dtype(field: Field, dtype: Any, of: dict[np.dtype, Any]) -> bool:
    return dtype == of[field.dtype] or (field.dtype == _FLAG and dtype == of[np.dtype(np.uint8)])


def _refuse(field: Field, what: str, wanted: str) -> NoReturn:
    raise ValueError(f"{field.name} {what}; it must be {wanted}")


def _advice(field: Field, call: str) -> str:
    """The call that makes an array that fits. Of `out` there is none: what it made would be filled, and lost."""
    return "" if field.name.startswith("out[") else f": {field.name}.{call}"


def _check_shape(field: Field, shape: tuple[int, ...], count: int) -> None:
    wanted = (count, *field.shape)
    if shape == wanted:
        return
    advice = ""
    if [n for n in shape if n != 1] == [n for n in wanted if n != 1]:
        advice = _advice(field, f"reshape({', '.join(map(str, wanted))})")
    elif shape == field.shape and shape[0] == count:
        advice = (". Shapes of fields are those of one lane, as single_observation_space and single_action_space of "
                  "vector environments")
    _refuse(field, f"has shape {shape}", f"{wanted}{advice}")


def check_array(field: Field, dtype: np.dtype, shape: tuple[int, ...], count: int) -> None:
    """Refuses an array of NumPy's types that is not (count, ...) of the field's."""
    if not _is_dtype(field, dtype, _DTYPES):
        advice = _advice(field, f"astype({field.dtype.name!r})")
        if dtype == np.object_:
            none = f"numpy.zeros({field.shape}, {field.dtype.name!r})"
            advice = (". Arrays and None, as Gymnasium's final_obs, are stacked by "
                      f"numpy.stack([{none} if one is None else one for one in {field.name}])")
        raise TypeError(f"{field.name} is {dtype}; it must be {field.dtype}{advice}")
    _check_shape(field, shape, count)


def _refuse_negative(field: Field, array: Any) -> None:
    is_negative = getattr(array, "is_neg", None)
    if callable(is_negative) and is_negative():
        _refuse(field, "is a tensor whose numbers are minus those in its memory",
                f"one that has its own: {field.name}.resolve_neg()")


def _where_it_is(field: Field, array: Any) -> np.ndarray:
    """NumPy's view of another library's array in host memory. A list has no memory that can be read: what NumPy makes
    of it would be gone before the library reads it."""
    if not isinstance(array, (np.ndarray, memoryview)) and not hasattr(array, "__array_interface__") \
            and not hasattr(array, "__dlpack_device__") and not hasattr(array, "__cuda_array_interface__"):
        raise TypeError(f"{field.name} is a {type(array).__name__}; it must be an array, which is read where it is, as "
                        f"of numpy.asarray({field.name}, {str(field.dtype)!r})")
    _refuse_negative(field, array)
    found = read_array(field, array, None)
    assert isinstance(found, np.ndarray)  # there is no other memory
    return found


class Kind:
    """The arrays of one library, in one call."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """A new array."""
        raise NotImplementedError

    def address(self, field: Field, array: Any, count: int) -> int:
        """That of an array (count, ...) that is read."""
        raise NotImplementedError

    def out_address(self, field: Field, array: Any, count: int) -> int:
        """That of one that is written."""
        return self.address(field, array, count)

    def stream(self, given: Any) -> int | None:
        """The stream to enqueue on. None: the library's own, whose work is waited for."""
        return stream_of(given)

    def of_outputs(self) -> Kind:
        """What new arrays are when these were given."""
        return self


class NumpyArrays(Kind):
    """Arrays in host memory, for the CPU: NumPy's, or such as it can read without a copy."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return np.empty(shape, dtype)

    def address(self, field: Field, array: Any, count: int) -> int:
        found = array if type(array) is np.ndarray else _where_it_is(field, array)
        check_array(field, found.dtype, found.shape, count)
        if not found.flags.c_contiguous:
            _refuse(field, f"has strides {found.strides}", f"contiguous: np.ascontiguousarray({field.name})")
        return address_of(found)

    def out_address(self, field: Field, array: Any, count: int) -> int:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{field.name} is a {type(array).__name__}; on the CPU it must be an array of NumPy's or "
                            "PyTorch's, which can be written")
        if not array.flags.writeable:
            _refuse(field, "is read-only", "an array that can be written")
        return self.address(field, array, count)

    def stream(self, given: Any) -> int | None:
        if given is not None:
            raise InvalidArgument(f"stream is {given}; on the CPU it must be None")
        return None


class TorchArrays(Kind):
    """PyTorch's tensors on one device. Work is enqueued on PyTorch's current stream there."""

    def __init__(self, torch: Any, device: Device):
        self._torch, self._device, self._is_cuda = torch, torch.device(device.name), device.is_cuda
        self._host = NumpyArrays()
        self._dtypes = {np.dtype(name): getattr(torch, name) for name in ("float32", "float16", "uint8", "int32",
                                                                         "int64", "bool")}

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        return self._torch.empty(shape, dtype=self._dtypes[dtype], device=self._device)

    def address(self, field: Field, array: Any, count: int) -> int:
        if not isinstance(array, self._torch.Tensor):
            return self._address_of_other(field, array, count)
        if not _is_dtype(field, array.dtype, self._dtypes):
            wanted = self._dtypes[field.dtype]
            raise TypeError(f"{field.name} is {array.dtype}; it must be {wanted}{_advice(field, f'to({wanted})')}")
        if array.device != self._device:
            _refuse(field, f"is on {array.device}", f"on {self._device}{_advice(field, f'to({str(self._device)!r})')}")
        _check_shape(field, tuple(array.shape), count)
        if array.layout is not self._torch.strided:
            _refuse(field, f"is {array.layout}", f"dense: {field.name}.to_dense()")
        if not array.is_contiguous():
            _refuse(field, f"has strides {array.stride()}", f"contiguous: {field.name}.contiguous()")
        _refuse_negative(field, array)
        refuse_gradient(field.name, array)
        address: int = array.data_ptr()
        return address

    def _address_of_other(self, field: Field, array: Any, count: int) -> int:
        if self._is_cuda:
            raise TypeError(f"{field.name} is a {type(array).__name__}, and other arrays are PyTorch's; all must be "
                            "of one library")
        return self._host.address(field, array, count)

    def stream(self, given: Any) -> int | None:
        if not self._is_cuda:
            return self._host.stream(given)
        return stream_of(self._torch.cuda.current_stream(self._device) if given is None else given) or LEGACY_STREAM


class ForeignArrays(Kind):
    """Arrays of any other library in the memory of a CUDA device, of one call."""

    def __init__(self, kinds: Kinds, device: Device):
        self._kinds, self._device, self._read = kinds, device, list[DeviceArray]()

    def address(self, field: Field, array: Any, count: int) -> int:
        found = read_array(field, array, self._device)
        if not isinstance(found, DeviceArray):
            _refuse(field, "is in host memory", f"in the memory of {self._device.name}")
        check_device_array(found, field)
        _check_shape(field, found.shape, count)
        self._read.append(found)
        return found.address

    def out_address(self, field: Field, array: Any, count: int) -> int:
        if type(array).__module__.startswith("jax"):
            raise TypeError(f"{field.name} is an array of JAX, which cannot be written; use gpureplay.jax, or leave "
                            "out `out`")
        if getattr(array, "__cuda_array_interface__", {"data": (0, False)})["data"][1]:
            _refuse(field, "is read-only", "an array that can be written")
        return self.address(field, array, count)

    def stream(self, given: Any) -> int | None:
        """Arrays that tell no stream, as JAX's, are ready, and the call runs on the library's own stream. Draws into
        PyTorch's arrays are on PyTorch's current stream, and must be done before."""
        found, torch = producer_stream(self._read, stream_of(given)), sys.modules.get("torch")
        if found is None and torch is not None and torch.cuda.is_initialized():
            self._device.wait_stream(self._kinds.of_torch().stream(None))
        return found

    def of_outputs(self) -> Kind:
        return self._kinds.default()


class CupyArrays(ForeignArrays):
    """CuPy's, which can be made, too."""

    def __init__(self, kinds: Kinds, device: Device, cupy: Any):
        super().__init__(kinds, device)
        self._cupy = cupy

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        with self._current():
            return self._cupy.empty(shape, dtype)

    def _current(self) -> Any:
        """The buffer's device, whichever is CuPy's current one."""
        return self._cupy.cuda.Device(int(self._device.name.partition(":")[2]))

    def of_outputs(self) -> Kind:
        return CupyArrays(self._kinds, self._device, self._cupy)


class Kinds:
    """Tells the libraries of arrays for one device."""

    def __init__(self, device: Device):
        self._device, self._numpy = device, NumpyArrays()
        self._torch: TorchArrays | None = None

    def of(self, array: Any) -> Kind:
        """The library of an array that was given."""
        torch: Any = sys.modules.get("torch")
        if torch is not None and isinstance(array, torch.Tensor):
            return self.of_torch()
        if not self._device.is_cuda:
            return self._numpy
        cupy: Any = sys.modules.get("cupy")
        is_cupy = cupy is not None and isinstance(array, cupy.ndarray)
        return CupyArrays(self, self._device, cupy) if is_cupy else ForeignArrays(self, self._device)

    def default(self) -> Kind:
        """That of new arrays where none was given that they could be like."""
        if not self._device.is_cuda:
            return self._numpy
        if "torch" in sys.modules:
            return self.of_torch()
        if "cupy" in sys.modules:
            return CupyArrays(self, self._device, sys.modules["cupy"])
        raise TypeError(f"the buffer is on {self._device.name}, and neither PyTorch nor CuPy is imported, whose arrays "
                        "the batch could have; import one of them, or give arrays of your own as `out`")

    def of_torch(self) -> TorchArrays:
        """PyTorch's, which is imported."""
        if self._torch is None:
            self._torch = TorchArrays(sys.modules["torch"], self._device)
        return self._torch
