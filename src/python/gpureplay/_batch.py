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
from ._schema import NUMPY, Field

if TYPE_CHECKING:
    from ._device import Device

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
    """Where the arrays lie in batches whose memory is of one size: name to Layout, under their other names, too."""

    def __init__(self, handle: int, names: list[str], start: int, kind: type[Batch], device: Device):
        self.names = names
        self.device, self.on_cuda = device.name, device.is_cuda
        for name in names:
            address, info = _array_of(handle, name)
            shape, has_place = tuple(info.shape[:info.dims]), name in kind.__slots__
            self[name] = Layout(name, address - start, shape, NUMPY[info.dtype], has_place)
        self.in_order = list(self.values())
        last = self.in_order[-1]
        self.last_offset, self.last_row_bytes = last.offset, last.bytes_of(1)
        for alias, name in ALIASES.items():
            self.setdefault(alias, self[name])


class LayoutsOfBuffer:
    """The Layouts of a buffer's batches. A batch may lie in memory for more rows than it has, and how far its arrays
    are apart depends on that memory alone. The distance from the first array to the last one tells it: it is the sum of
    the sizes of all arrays but the last one, and no array takes less memory for more rows."""

    def __init__(self, fields: list[Field], device: Device):
        names = [field.name for field in fields]
        names += [name for name in ("discount", "weight", "id") if name not in names]
        self._names, self._device = names, device
        self._first, self._last = names[0].encode(), names[-1].encode()
        self._known: dict[int, Layouts] = {}  # by that distance; memory sizes are powers of two, so they are few
        self._kind = _kind_of(tuple(names))

    def batch(self, reference: Reference, count: int) -> Batch:
        """The batch of `count` transitions that this is a reference to."""
        handle, ends = reference.handle, _Ends()
        at = ctypes.addressof(ends)
        check(lib.gpur_batch_get_array(handle, self._first, at, None))
        check(lib.gpur_batch_get_array(handle, self._last, at + _POINTER_BYTES, None))
        start, end = ends[0] or 0, ends[1] or 0
        layouts = self._known.get(end - start)
        if layouts is None:
            layouts = self._known[end - start] = Layouts(handle, self._names, start, self._kind, self._device)
        return self._kind(reference, start, count, layouts)


_Ends = ctypes.c_void_p * 2  # addresses of a batch's first and last array
_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)


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

    __slots__ = ("_reference", "_handle", "_layouts", "_views", "_address", "_count", "_memory")

    _reference: Reference
    _handle: int
    _layouts: Layouts
    _views: list[tuple[np.ndarray, Layout]]
    _address: int  # of the first array
    _count: int
    _memory: Any  # the CPU's alone: ctypes' bytes, of which the views are made

    def __init__(self, reference: Reference, start: int, count: int, layouts: Layouts):
        _set(self, "_reference", reference)
        _set(self, "_handle", reference.handle)
        _set(self, "_layouts", layouts)
        _set(self, "_views", [])
        _set(self, "_address", start)
        _set(self, "_count", count)
        if not layouts.on_cuda:
            size = layouts.last_offset + count * layouts.last_row_bytes  # up to the last array's end
            _set(self, "_memory", _memory_type(size).from_address(start))
            self._memory.owner = reference

    @property
    def device(self) -> str:
        """"cpu" or "cuda:0"."""
        return self._layouts.device

    def __getattr__(self, name: str) -> Any:
        layouts = () if name == "_layouts" else self._layouts  # () only where it was not made to the end
        if name not in layouts:
            raise AttributeError(f"a batch has no {name!r}; it has {', '.join(layouts)}")
        return self[name]

    def __getitem__(self, name: str) -> Any:
        """Arrays of the CPU are made when first asked for, and kept: in _views, and as attributes."""
        layout = self._layout(name)
        if self._layouts.on_cuda:
            return Array(self, layout)  # which holds the batch, so the batch must not hold it
        for view, of in self._views:
            if of is layout:
                return view
        return self._make_view(layout)

    def _make_view(self, layout: Layout) -> np.ndarray:
        view: np.ndarray = np.ndarray((self._count, *layout.shape), layout.dtype, self._memory, layout.offset)
        if layout.is_attribute:
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
        if self._layouts.on_cuda:
            return self, self._views
        layouts = self._layouts
        arrays = map(self.__getitem__, layouts.names) if self._views else map(self._make_view, layouts.in_order)
        return self, self._views, self._memory, *arrays

    def keys(self) -> list[str]:
        """The names of the arrays: fields in the schema's order, then discount, weight, id."""
        return list(self._layouts.names)

    def items(self) -> list[tuple[str, Any]]:
        """The arrays with their names, in the order of `keys`."""
        return [(name, self[name]) for name in self._layouts.names]

    def torch(self) -> dict[str, Any]:
        """The arrays as PyTorch's tensors, by name: the batch's own memory, not copied, on its device. On CUDA they are
        ready on PyTorch's current stream. ModuleNotFoundError: PyTorch is not installed."""
        try:
            from torch import from_dlpack, from_numpy
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("torch() makes PyTorch's tensors, and PyTorch is not installed; `pip install "
                                      "torch`, or take the arrays as they are") from error
        return {name: (from_dlpack if self._layouts.on_cuda else from_numpy)(array) for name, array in self.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._layouts

    __iter__ = None  # its length counts transitions, its keys are arrays

    def __len__(self) -> int:
        return self._count

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
