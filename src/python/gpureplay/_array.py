# SPDX-License-Identifier: MIT
"""One array of a batch, in other libraries' hands."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from . import _dlpack
from ._handle import refuse_to_pickle
from ._library import lib
from ._numbers import LEGACY_STREAM

if TYPE_CHECKING:
    from ._batch import Batch


_HOST = (_dlpack.CPU, 0)


class Layout(NamedTuple):
    """Where an array lies in a batch, and what it is made of."""

    name: str
    offset: int  # bytes from the batch's first array
    shape: tuple[int, ...]  # of one transition
    dtype: np.dtype
    is_attribute: bool  # of its batch; else an item alone

    def bytes_of(self, count: int) -> int:
        """Of so many transitions."""
        return count * int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


class Array:
    """One array of a batch, in the device's memory, not copied. Takes `torch.from_dlpack`, `jax.dlpack.from_dlpack`,
    `cupy.from_dlpack`, and on CUDA whatever reads `__cuda_array_interface__`; `numpy.asarray` copies it to the host, on
    the CPU without a copy. Keeps its batch alive.

    shape: (batch_size, ...). dtype: NumPy's. device: "cpu" or "cuda:0".
    """

    def __init__(self, batch: Batch, layout: Layout):
        self._batch, self._layout = batch, layout
        self.shape, self.dtype = (len(batch), *layout.shape), layout.dtype
        self.device: str = batch.device

    @property
    def ptr(self) -> int:
        """Address of the first element."""
        return self._batch._address + self._layout.offset

    def __len__(self) -> int:
        return len(self._batch)

    @property
    def nbytes(self) -> int:
        return self._layout.bytes_of(len(self))

    def numpy(self) -> np.ndarray:
        """A copy in host memory, waited for."""
        out = np.empty(self.shape, self.dtype)
        self._batch._call(lib.gpur_batch_read, self._layout.name.encode(), out.ctypes.data, out.nbytes)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        converts = dtype is not None and np.dtype(dtype) != self.dtype
        if copy is False and (self._batch._layouts.on_cuda or converts):
            raise ValueError(f"{self._layout.name} is {self.dtype} in the memory of {self.device}; as a NumPy array of "
                             f"{np.dtype(dtype) if converts else self.dtype} it is a copy")
        array = self.numpy() if self._batch._layouts.on_cuda or copy else self._batch[self._layout.name]
        return array.astype(dtype) if converts else array

    def __dlpack_device__(self) -> tuple[int, int]:
        name, _, ordinal = self.device.partition(":")
        return (_dlpack.CUDA, int(ordinal)) if name == "cuda" else (_dlpack.CPU, 0)

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """A capsule. CUDA: work that is enqueued on `stream` from now on finds the batch filled in (None: the legacy
        default stream; -1: the caller sees to it). copy: True: of a copy in the host's memory, which is a CUDA array's
        with dl_device (1, 0) alone; False: never a copy.

        BufferError: a copy in a CUDA device's memory, or another device than the array's or the host."""
        own = self.__dlpack_device__()
        wanted = own if dl_device is None else tuple(dl_device)
        if wanted == _HOST and (copy or own != _HOST):
            return self._copied(copy, max_version)
        if wanted != own:
            raise BufferError(f"the array is on DLPack device {own}, wanted on {wanted}")
        if copy:
            raise BufferError(f"{self._layout.name} is in the memory of {self.device}, where it is exported without a "
                              "copy; make one of what you have then, as torch.from_dlpack(array).clone()")
        if stream != -1:
            self._batch.wait(LEGACY_STREAM if stream is None and self._batch._layouts.on_cuda else stream)
        versioned, managed = max_version is not None and max_version[0] >= 1, ctypes.c_void_p()
        self._batch._call(lib.gpur_batch_to_dlpack, self._layout.name.encode(), versioned, ctypes.addressof(managed))
        return _dlpack.capsule(managed.value or 0, versioned)

    def _copied(self, copy: bool | None, max_version: tuple[int, int] | None) -> Any:
        """A capsule of a copy in the host's memory."""
        if copy is False:
            raise BufferError(f"{self._layout.name} is in the memory of {self.device}; in the host's it is a copy, and "
                              "copy is False")
        return _dlpack.of_copy(np.asarray(self), max_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self._batch._layouts.on_cuda:
            raise AttributeError(f"{self._layout.name} is on \"{self.device}\"; it has no __cuda_array_interface__")
        self._batch.wait(LEGACY_STREAM)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.ptr, False), "strides": None,
                "version": 3, "stream": LEGACY_STREAM}

    def __reduce__(self) -> NoReturn:
        refuse_to_pickle(f"{self._layout.name} of a gpureplay batch (its numpy() can)")

    def __repr__(self) -> str:
        return f"<gpureplay.Array {self._layout.name} {self.shape} {self.dtype} on {self.device}>"
