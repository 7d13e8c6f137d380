# SPDX-License-Identifier: MIT
"""Minibatches."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import _mirror
from ._array import Array, Layout
from ._handle import gone, refuse_to_pickle
from ._library import Closed, check, lib
from ._numbers import stream_of
from ._schema import NUMPY

if TYPE_CHECKING:
    from ._buffer import ReplayBuffer

ALIASES = {"weights": "weight", "indices": "id", "ids": "id"}


class Reference:
    """One reference to a batch of the library's, given back with the last object that holds this one. Until then it
    holds the stream objects that it was told of: the library asks these streams when the batch is given back."""

    def __init__(self, handle: int, stream: Any = None):
        self.handle = handle
        self.streams: tuple[Any, ...] = ()
        self.hold(stream)

    def hold(self, stream: Any) -> None:
        """Numbers are nobody's to hold."""
        if stream is not None and not isinstance(stream, (int, np.integer)):
            self.streams = stream, *(held for held in self.streams if held is not stream)

    def __del__(self, _gone: list[str] = gone, _release: Any = lib.gpur_batch_release) -> None:
        if not _gone:
            _release(self.handle)


def _array_of(handle: int, name: str) -> tuple[int, _mirror.FieldInfo]:
    """Address and description of one of a batch's arrays."""
    info, address = _mirror.FieldInfo(), ctypes.c_void_p()
    check(lib.gpur_batch_get_array(handle, name.encode(), ctypes.addressof(address), ctypes.addressof(info)))
    return address.value or 0, info


class Layouts(dict[str, Layout]):
    """The arrays of the batches of one size: name to Layout, under their other names, too."""

    def __init__(self, handle: int, names: list[str]):
        self.count: int = lib.gpur_batch_count(handle)
        self.names = names
        start, _ = _array_of(handle, names[0])
        for name in names:
            address, info = _array_of(handle, name)
            self[name] = Layout(name, address - start, (self.count, *info.shape[:info.dims]), NUMPY[info.dtype])
        last = self[names[-1]]
        # From the first array's start to the last one's end.
        self.bytes = last.offset + int(np.prod(last.shape, dtype=np.int64)) * last.dtype.itemsize
        for alias, name in ALIASES.items():
            self.setdefault(alias, self[name])


@functools.lru_cache(maxsize=64)
def _memory_type(size: int) -> Any:
    """Bytes that can have an owner, and nothing of a user's."""
    return type("Memory", (ctypes.Array,), {"_type_": ctypes.c_char, "_length_": size, "__slots__": ("owner",)})


@functools.lru_cache(maxsize=64)
def _kind_of(names: tuple[str, ...]) -> type[Batch]:
    """Batches with a place for the array of each of these names, where it is found without a call."""
    places = [name for name in names if name.isidentifier() and name[0] != "_" and not hasattr(Batch, name)]
    return type("Batch", (Batch,), {"__slots__": tuple(places), "__module__": __name__, "__doc__": Batch.__doc__})


_set = object.__setattr__  # assigning to a batch is for nobody


class Batch:
    """A minibatch: an attribute (and item) for each field of the buffer, and beside them

    discount: (batch_size,) float32, gamma x (1 - terminated)
    weight, weights: (batch_size,) float32, importance weights; 1 for uniform draws
    id, ids, indices: (batch_size,) int64, what `ReplayBuffer.gather` takes

    On the CPU these are NumPy arrays, on CUDA `Array`s; `array(name)` is an `Array` on either. None is a copy. The
    library never writes into them as long as the batch or any array of it, or made of it, is alive; you may, and the
    buffer's transitions stay as they are. A field that is called like a method is an item alone.

    On CUDA the memory is used again behind whatever the streams hold that the batch was drawn for, was waited for on,
    or went to by DLPack. So these streams must outlive the batch and all arrays made of it. PyTorch's do; of CuPy, keep
    the stream. The batch keeps the stream objects that `sample`, `gather` and `wait` were given.

    When nobody holds anything of it any more, nor has a weak reference to an array, a later `sample` may return the
    same object with other contents. So a batch itself takes no weak references, and no attributes of yours.
    """

    __slots__ = ("device", "_reference", "_handle", "_layouts", "_views", "_address", "_on_cuda", "_memory")

    device: str  # "cpu" or "cuda:0"
    _reference: Reference
    _handle: int
    _layouts: Layouts
    _views: list[tuple[np.ndarray, Layout]]
    _address: int
    _on_cuda: bool
    _memory: Any  # the CPU's alone: ctypes' bytes, of which the views are made

    def __init__(self, buffer: ReplayBuffer, reference: Reference, layouts: Layouts):
        first, address = layouts.names[0], ctypes.c_void_p()
        check(lib.gpur_batch_get_array(reference.handle, first.encode(), ctypes.addressof(address), None))
        _set(self, "_reference", reference)
        _set(self, "_handle", reference.handle)
        _set(self, "_layouts", layouts)
        _set(self, "_views", [])
        _set(self, "_address", address.value)
        _set(self, "_on_cuda", buffer.device.is_cuda)
        _set(self, "device", buffer.device.name)
        if not self._on_cuda:
            _set(self, "_memory", _memory_type(layouts.bytes).from_address(address.value))
            self._memory.owner = reference

    @staticmethod
    def of(buffer: ReplayBuffer, reference: Reference, layouts: Layouts) -> Batch:
        """A batch whose arrays are found as attributes without a call."""
        return _kind_of(tuple(layouts.names))(buffer, reference, layouts)

    def __getattr__(self, name: str) -> Any:
        layouts = () if name == "_layouts" else self._layouts  # () only where it was not made to the end
        if name not in layouts:
            raise AttributeError(f"a batch has no {name!r}; it has {', '.join(layouts)}")
        return self[name]

    def __getitem__(self, name: str) -> Any:
        """Arrays of the CPU are made when first asked for, and kept: in _views, and as attributes."""
        layout = self._layout(name)
        if self._on_cuda:
            return Array(self, layout)  # which holds the batch, so the batch must not hold it
        for view, of in self._views:
            if of is layout:
                return view
        view = np.ndarray(layout.shape, layout.dtype, self._memory, layout.offset)
        if layout.name in type(self).__slots__:
            _set(self, layout.name, view)
        self._views.append((view, layout))
        return view

    def _layout(self, name: str) -> Layout:
        layout = self._layouts.get(name)
        if layout is None:
            raise KeyError(f"a batch has no {name!r}; it has {', '.join(self._layouts)}")
        return layout

    def __setattr__(self, name: str, _value: Any) -> NoReturn:
        raise AttributeError(f"{name} of a batch cannot be replaced; write into it (batch.{name}[:] = ...), or keep "
                             "your own array beside it")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name} of a batch cannot be deleted")

    def _parts(self) -> tuple[Any, ...]:
        """Itself, its list of arrays, and on the CPU its memory and every array: what a user can hold of it."""
        if self._on_cuda:
            return self, self._views
        return self, self._views, self._memory, *(self[name] for name in self._layouts.names)

    def keys(self) -> list[str]:
        """The names of the arrays: fields in the schema's order, then discount, weight, id."""
        return list(self._layouts.names)

    def __contains__(self, name: object) -> bool:
        return name in self._layouts

    __iter__ = None  # its length counts transitions, its keys are arrays

    def __len__(self) -> int:
        return self._layouts.count

    def array(self, name: str) -> Array:
        """An array with `__dlpack__`, on either device."""
        return Array(self, self._layout(name))

    def wait(self, stream: Any = None) -> None:
        """Makes a CUDA stream wait until the batch is filled in; None: waits here. stream: as for
        `ReplayBuffer.sample`."""
        self._call(lib.gpur_batch_wait, stream_of(stream))
        self._reference.hold(stream)

    def _call(self, function: Any, *arguments: Any) -> None:
        if gone:
            raise Closed("this batch belongs to the process that forked this one; its arrays of the CPU can be read, "
                         "no more")
        check(function(self._handle, *arguments))

    def __reduce__(self) -> NoReturn:
        refuse_to_pickle("a gpureplay batch (copies of its arrays can)")

    def __repr__(self) -> str:
        return f"<gpureplay.Batch of {len(self)}: {', '.join(self.keys())} on {self.device}>"
