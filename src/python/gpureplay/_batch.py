# SPDX-License-Identifier: MIT
"""Minibatches and their arrays."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from . import _c_api, _dlpack
from ._accelerator import fast
from ._device import Device
from ._handle import finalizing, forked, refuse_to_pickle
from ._inputs import LEGACY_STREAM, stream_of
from ._library import Closed, check, lib
from ._schema import NUMPY, Field

_ALIASES = {"weights": "weight", "indices": "id", "ids": "id"}
_HOST = (_dlpack.CPU, 0)


class Layout(NamedTuple):
    """The offset, shape and type of an array in a batch. The extension module knows the order of the members."""

    name: str
    offset: int  # bytes from the batch's first array
    shape: tuple[int, ...]  # of one transition
    dtype: np.dtype
    row_bytes: int


_release = finalizing(lib.gpur_batch_release)


class _OwnReference:
    """Does what the extension module's type does. Its finalizer is a function of C: see _handle.py."""

    __slots__ = ("__del__", "_address", "streams")

    def __init__(self) -> None:
        self._address = ctypes.c_void_p()
        self.__del__ = functools.partial(_release, self._address)
        self.streams: tuple[Any, ...] | None = None

    @property
    def out(self) -> int:
        return ctypes.addressof(self._address)

    @property
    def handle(self) -> int:
        return self._address.value or 0


if TYPE_CHECKING or fast is None:
    _Base = _OwnReference
else:
    _Base = fast.Reference


class Reference(_Base):
    """A reference to a batch of the library. It is released with the last object that holds this one. It keeps the
    stream objects alive that readers of the batch named, because the library asks these streams at the release.

    out: where the library writes the batch's address, which `handle` is then.
    """

    __slots__ = ()

    def hold(self, stream: Any) -> None:
        """Keeps a stream object alive. A number has no owner."""
        if stream is not None and not isinstance(stream, (int, np.integer)):
            self.streams = stream, *(held for held in self.streams or () if held is not stream)

    def refuse_fork(self) -> None:
        if forked:
            raise Closed("this batch belongs to the process that forked this one; its arrays of the CPU can be read, "
                         "no more")

    def call(self, function: Any, *arguments: Any) -> None:
        self.refuse_fork()
        check(function(self.handle, *arguments))

    def wait(self, stream: Any) -> None:
        self.call(lib.gpur_batch_wait, stream_of(stream))
        self.hold(stream)


@functools.lru_cache(maxsize=64)
def _memory_type(size: int) -> Any:
    """Bytes that can have an owner."""
    return type("Memory", (ctypes.Array,), {"_type_": ctypes.c_char, "_length_": size, "__slots__": ("owner",)})


def _put_by_ctypes(out: dict[str, Any], reference: Reference, address: int, count: int,
                   layouts: tuple[Layout, ...]) -> None:
    memory = _memory_type(max(layout.offset + count * layout.row_bytes for layout in layouts)).from_address(address)
    memory.owner = reference
    for layout in layouts:
        out[layout.name] = np.ndarray((count, *layout.shape), layout.dtype, memory, layout.offset)


# Puts NumPy arrays in a batch's memory into a dict, by name. They keep the reference alive.
_put_host_arrays: Callable[[dict[str, Any], Reference, int, int, tuple[Layout, ...]], None] = \
    _put_by_ctypes if fast is None else fast.put_arrays


class Array:
    """One array of a batch in the device's memory, without a copy. `torch.from_dlpack`, `jax.dlpack.from_dlpack` and
    `cupy.from_dlpack` take it, and on CUDA everything that reads `__cuda_array_interface__`. `numpy.asarray` copies it
    to the host; on the CPU it does not copy. It keeps the batch's memory alive.

    shape: (batch_size, ...). dtype: NumPy's. device: "cpu" or "cuda:0".
    """

    def __init__(self, reference: Reference, address: int, count: int, layout: Layout, device: str):
        self._reference, self._address, self._layout = reference, address, layout
        self.shape, self.dtype, self.device = (count, *layout.shape), layout.dtype, device

    @property
    def ptr(self) -> int:
        """The address of the first element."""
        return self._address + self._layout.offset

    @property
    def _on_cuda(self) -> bool:
        return self.device != "cpu"

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return len(self) * self._layout.row_bytes

    def numpy(self) -> np.ndarray:
        """A copy in host memory. The call waits for it."""
        out = np.empty(self.shape, self.dtype)
        self._reference.call(lib.gpur_batch_read, self._layout.name.encode(), out.ctypes.data, out.nbytes)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        converts = dtype is not None and np.dtype(dtype) != self.dtype
        if copy is False and (self._on_cuda or converts):
            raise ValueError(f"{self._layout.name} is {self.dtype} in the memory of {self.device}; as a NumPy array of "
                             f"{np.dtype(dtype) if converts else self.dtype} it is a copy")
        if self._on_cuda or copy:
            array = self.numpy()
        else:
            found: dict[str, np.ndarray] = {}
            _put_host_arrays(found, self._reference, self._address, len(self), (self._layout,))
            array = found[self._layout.name]
        return array.astype(dtype) if converts else array

    def __dlpack_device__(self) -> tuple[int, int]:
        name, _, ordinal = self.device.partition(":")
        return (_dlpack.CUDA, int(ordinal)) if name == "cuda" else _HOST

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """A capsule. On CUDA, work that is enqueued on `stream` from now on finds the batch filled in. None: the legacy
        default stream. -1: the caller orders the streams. copy=True: of a copy in host memory; for a CUDA array only
        with dl_device (1, 0). copy=False: never of a copy.

        BufferError: a copy in a CUDA device's memory, or another device than the array's or the host."""
        own = self.__dlpack_device__()
        wanted = own if dl_device is None else tuple(dl_device)
        if wanted == _HOST and (copy or own != _HOST):
            return self._copied_capsule(copy, max_version)
        if wanted != own:
            raise BufferError(f"the array is on DLPack device {own}, wanted on {wanted}")
        if copy:
            raise BufferError(f"{self._layout.name} is in the memory of {self.device}, where it is exported without a "
                              "copy; make one of what you have then, as torch.from_dlpack(array).clone()")
        if stream != -1:
            self._reference.wait(LEGACY_STREAM if stream is None and self._on_cuda else stream)
        versioned = max_version is not None and max_version[0] >= 1 and _dlpack.HAS_VERSIONED
        self._reference.refuse_fork()
        return _dlpack.capsule(functools.partial(lib.gpur_batch_to_dlpack, self._reference.handle,
                                                 self._layout.name.encode(), versioned), versioned)

    def _copied_capsule(self, copy: bool | None, max_version: tuple[int, int] | None) -> Any:
        """A capsule of a copy in host memory."""
        if copy is False:
            raise BufferError(f"{self._layout.name} is in the memory of {self.device}; in the host's it is a copy, and "
                              "copy is False")
        return _dlpack.of_copy(np.asarray(self), max_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if not self._on_cuda:
            raise AttributeError(f"{self._layout.name} is on \"{self.device}\"; it has no __cuda_array_interface__")
        self._reference.wait(LEGACY_STREAM)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.ptr, False), "strides": None,
                "version": 3, "stream": LEGACY_STREAM}

    def __reduce__(self) -> NoReturn:
        refuse_to_pickle(f"{self._layout.name} of a gpureplay batch (its numpy() can)")

    def __repr__(self) -> str:
        return f"<gpureplay.Array {self._layout.name} {self.shape} {self.dtype} on {self.device}>"


class Batch:
    """A minibatch. Each field of the buffer is an attribute and an item, and beside them

    discount: (batch_size,) float32, gamma x (1 - terminated)
    weight, weights: (batch_size,) float32, the importance weights; 1 for uniform sampling
    id, ids, indices: (batch_size,) int64, which `ReplayBuffer.gather` takes
    relabeled: (batch_size,) bool, of a buffer with hindsight: the transition has a new goal

    On the CPU these are NumPy arrays, on CUDA `Array`s. `array(name)` is an `Array` on both. None is a copy. The
    library never writes into them as long as the batch, any array of it, or any array made of that is alive, unless you
    pass the batch to `sample` as `out`. You may write into them; the buffer's transitions stay as they are. A field
    that is named like a method is an item only.

    On CUDA the memory is used again after the work that is then on the streams of the batch: the stream it was sampled
    for, streams that waited for it, and streams of its consumers by DLPack. These streams must outlive the batch and
    all arrays made of it. PyTorch's streams do; keep a stream of CuPy's alive. The batch keeps the stream objects alive
    that `sample`, `gather` and `wait` were given.

        batch = buffer.sample(256)
        batch.wait()                              # until the arrays are filled in
        print(batch.keys())                       # obs, action, ...
        shapes = {name: array.shape for name, array in batch.items()}
        rewards = batch.array("reward").numpy()   # a copy in host memory
    """

    # Beside these, `__dict__` has the arrays by name, except those in _hidden.
    _reference: Reference
    _handle: int
    _count: int
    _address: int  # of the first array
    _hidden: dict[str, Any]  # the arrays that are items only
    _layouts: tuple[Layout, ...]
    _source: Batches

    def __init__(self, source: Batches, reference: Reference, address: int, count: int, layouts: tuple[Layout, ...]):
        members = self.__dict__  # __setattr__ refuses
        if source.on_cuda:
            members.update({layout.name: Array(reference, address, count, layout, source.device_name)
                            for layout in layouts})
        else:
            _put_host_arrays(members, reference, address, count, layouts)
        members["_hidden"] = {name: members.pop(name) for name in source.hidden} if source.hidden else source.nothing
        members["_reference"], members["_handle"], members["_address"] = reference, reference.handle, address
        members["_count"], members["_layouts"], members["_source"] = count, layouts, source

    @property
    def device(self) -> str:
        """"cpu" or "cuda:0"."""
        return self._source.device_name

    def _find(self, name: str) -> Any:
        """The array of this name, or None. Members that are no arrays begin with "_"."""
        array = self._hidden.get(name)
        return self.__dict__.get(name) if array is None and name[:1] != "_" else array

    def __getattr__(self, name: str) -> Any:
        array = self._find(_ALIASES.get(name, name)) if "_source" in self.__dict__ else None  # else it is half made
        if array is None:
            raise AttributeError(f"a batch has no {name!r}; it has {self._names()}")
        return array

    def __getitem__(self, name: str) -> Any:
        array = self._find(name)
        if array is None:
            array = self._find(_ALIASES.get(name, name))
        if array is None:
            raise KeyError(f"a batch has no {name!r}; it has {self._names()}")
        return array

    def _names(self) -> str:
        names = self.keys() if "_source" in self.__dict__ else []
        return ", ".join((*names, *(name for name in _ALIASES if name not in names)))

    def __setattr__(self, name: str, _value: Any) -> NoReturn:
        raise AttributeError(f"{name} of a batch cannot be replaced; write into it (batch.{name}[:] = ...), or keep "
                             "your own array beside it")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name} of a batch cannot be deleted")

    def keys(self) -> list[str]:
        """The names of the arrays: the fields in the schema's order, then discount, weight, id, relabeled."""
        return [layout.name for layout in self._layouts]

    def items(self) -> list[tuple[str, Any]]:
        """The arrays with their names, in the order of `keys`."""
        return [(name, self._find(name)) for name in self.keys()]

    def torch(self) -> dict[str, Any]:
        """The arrays as PyTorch tensors, by name, in the batch's own memory. On CUDA they are ready on PyTorch's
        current stream. ModuleNotFoundError: PyTorch is not installed."""
        try:
            from torch import from_dlpack, from_numpy
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("torch() makes PyTorch's tensors, and PyTorch is not installed; `pip install "
                                      "torch`, or take the arrays as they are") from error
        return {name: (from_dlpack if self._source.on_cuda else from_numpy)(array) for name, array in self.items()}

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or name in _ALIASES

    __iter__ = None  # len() counts transitions and keys() names arrays, so iteration would be ambiguous

    def __len__(self) -> int:
        return self._count

    def array(self, name: str) -> Array:
        """An array with `__dlpack__`, on both devices."""
        array = self[name]
        if isinstance(array, Array):
            return array
        layout = next(layout for layout in self._layouts if self._find(layout.name) is array)
        return Array(self._reference, self._address, self._count, layout, self.device)

    def wait(self, stream: Any = None) -> None:
        """Makes a CUDA stream wait until the batch is filled in. None: this thread waits. stream: as for
        `ReplayBuffer.sample`."""
        self._reference.wait(stream)

    def __reduce__(self) -> NoReturn:
        refuse_to_pickle("a gpureplay batch (copies of its arrays can)")

    def __repr__(self) -> str:
        return f"<gpureplay.Batch of {len(self)}: {', '.join(self.keys())} on {self.device}>"


class SequenceBatch(Batch):
    """A minibatch of sequences: `ReplayBuffer.sample_sequences` makes it. Every array has the shape (batch_size,
    length, ...), the oldest transition of a sequence first, and there are two more:

    mask: (batch_size, length) bool, where there is a transition. Behind a sequence's last one are zeros with id -1; a
        sequence of which nothing was found has only those
    is_first: (batch_size, length) bool, where a transition is the first of its episode

    len() counts sequences. The rest is as in `Batch`."""

    def __repr__(self) -> str:
        return f"<gpureplay.SequenceBatch of {len(self)}: {', '.join(self.keys())} on {self.device}>"


def _array_of(handle: int, name: str) -> tuple[int, _c_api.FieldInfo]:
    """The address and the description of an array."""
    info, address = _c_api.FieldInfo(), ctypes.c_void_p()
    check(lib.gpur_batch_get_array(handle, name.encode(), ctypes.addressof(address), ctypes.addressof(info)))
    return address.value or 0, info


class Batches:
    """Makes the batches of one buffer.

    A batch may lie in memory for more rows than it has, and the distances between its arrays depend on that memory. The
    distance from the first array to the last one identifies them: it is the size of all arrays except the last one, and
    none of them gets smaller with more rows. So the layouts are read once for each such distance."""

    def __init__(self, fields: list[Field], device: Device, has_goals: bool = False,
                 finish: Callable[[Batch], None] | None = None):
        """has_goals: of a buffer with hindsight. finish: is called with each batch of transitions."""
        names = [field.name for field in fields]
        names += [name for name in ("discount", "weight", "id") if name not in names]
        self._of_sequences = [*names, "mask", "is_first"]
        names += ["relabeled"] * has_goals
        self._finish = finish
        self.device_name, self.on_cuda, self._waits = device.name, device.is_cuda, device._waits
        self.first_name, self.last_name = names[0].encode(), names[-1].encode()
        self.hidden = [name for name in names if name[:1] == "_" or hasattr(Batch, name)]  # fields that are items only
        self.nothing: dict[str, Any] = {}
        self._names = names
        self._known: dict[int, tuple[Layout, ...]] = {}
        self._known_sequences: dict[tuple[int, int], tuple[Layout, ...]] = {}  # by length, too

    def of_reference(self, reference: Reference, count: int) -> Batch:
        """A batch of `count` transitions."""
        first, last = ctypes.c_void_p(), ctypes.c_void_p()
        check(lib.gpur_batch_get_array(reference.handle, self.first_name, ctypes.addressof(first), None))
        check(lib.gpur_batch_get_array(reference.handle, self.last_name, ctypes.addressof(last), None))
        return self.of_addresses(reference, first.value or 0, last.value or 0, count)

    def of_addresses(self, reference: Reference, first: int, last: int, count: int) -> Batch:
        """As `of_reference`, for the addresses of the first and the last array."""
        layouts = self._known.get(last - first)
        if layouts is None:
            layouts = self._known[last - first] = self._read_layouts(reference.handle, first, self._names)
        if self._waits:
            reference.wait(None)
        batch = Batch(self, reference, first, count, layouts)
        if self._finish is not None:
            self._finish(batch)
        return batch

    def of_sequences(self, reference: Reference, count: int, length: int) -> SequenceBatch:
        """A batch of `count` sequences."""
        handle = reference.handle
        first, last = (_array_of(handle, self._of_sequences[at])[0] for at in (0, -1))
        layouts = self._known_sequences.get((last - first, length))
        if layouts is None:
            layouts = self._read_layouts(handle, first, self._of_sequences, (length,))
            self._known_sequences[last - first, length] = layouts
        if self._waits:
            reference.wait(None)
        return SequenceBatch(self, reference, first, count, layouts)

    def _read_layouts(self, handle: int, first: int, names: list[str],
                      leading: tuple[int, ...] = ()) -> tuple[Layout, ...]:
        """leading: the axes between that of the batch and those of a field."""
        found = []
        for name in names:
            address, info = _array_of(handle, name)
            shape, dtype = (*leading, *info.shape[:info.dims]), NUMPY[info.dtype]
            found.append(Layout(name, address - first, shape, dtype, math.prod(shape) * dtype.itemsize))
        return tuple(found)
