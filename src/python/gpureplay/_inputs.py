# SPDX-License-Identifier: MIT
"""What callers pass in: numbers that C can hold, streams, and arrays that the library can read. An array may be
NumPy's, a DLPack exporter, an object with __cuda_array_interface__, or anything that NumPy can make an array of."""

from __future__ import annotations

import ctypes
import functools
import math
import numbers
import operator
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from . import _dlpack
from ._dlpack import DeviceArray
from ._library import InvalidArgument, with_advice
from ._schema import Field

LEGACY_STREAM = 1  # the library's name of CUDA's legacy default stream, whose cudaStream_t is 0

_C_FLOATS = (ctypes.c_float, ctypes.c_double)
_ACCEPTED_KINDS = {"f": "fiub", "i": "iu", "u": "iub", "b": "iu"}  # by the kind of the field; the values must fit, too
_EXACT_INTEGERS = {np.dtype(np.float32): 2**24, np.dtype(np.float16): 2**11}  # floats hold integers up to this exactly
_ONE_NUMBER = (), (1,)  # shapes of a field of one number; what is given may have the other one
_SMALL_BYTES = 2048  # up to here a method of `bytes` is faster than a reduction of NumPy's
_SMALL_FLOATS = 4096  # elements up to which one BLAS call in this thread is faster than a reduction of NumPy's


class StreamWaiter(Protocol):
    """The part of a Device that reading a device array needs."""

    def wait_stream(self, stream: Any) -> None: ...


# Numbers. ctypes alone would cut off what does not fit, without an error.


def integer(name: str, value: Any, least: int = -2**63, most: int = 2**63 - 1) -> int:
    """`value` as an int. A whole float (1e6) is accepted. TypeError: it is neither. InvalidArgument: out of range."""
    try:
        number = operator.index(value)
    except TypeError:
        if not isinstance(value, float) or not value.is_integer():
            raise TypeError(f"{name} is {value!r}; it must be an integer") from None
        number = int(value)
    if not least <= number <= most:
        raise InvalidArgument(f"{name} is {number}; it must be {least} to {most}")
    return number


def real(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; it must be a number") from None


def flag(name: str, value: Any) -> bool:
    """`value` as a bool; NumPy's bool is accepted. Other types raise TypeError: their truth value may be an
    accident."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r}; it must be True or False")
    return bool(value)


@functools.cache
def _range_of(kind: type) -> tuple[int, int]:
    bits = 8 * ctypes.sizeof(kind)
    return (0, 2**bits - 1) if kind(-1).value > 0 else (-2**(bits - 1), 2**(bits - 1) - 1)


def put(struct: ctypes.Structure, name: str, value: Any, *, called: str = "") -> None:
    """Sets struct.name = value if the value fits. `called` is the setting's name in errors, if that is another."""
    kind, called = next(member[1] for member in struct._fields_ if member[0] == name), called or name
    setattr(struct, name, real(called, value) if kind in _C_FLOATS else integer(called, value, *_range_of(kind)))


def put_count(struct: ctypes.Structure, name: str, value: Any) -> None:
    """Like `put`, but refuses numbers below 1, because 0 would mean the library's default."""
    if integer(name, value) < 1:
        raise InvalidArgument(f"{name} is {value!r}; it must be 1 or more, or None for the default")
    put(struct, name, value)


def stream_of(value: Any) -> int | None:
    """A cudaStream_t as an int, or None. `value` is an int, or a stream of PyTorch, of CuPy, or of any library that has
    `__cuda_stream__` [CUDA stream protocol]. ctypes would take a str for an address."""
    if value is None:
        return None
    if hasattr(value, "__cuda_stream__"):
        value = value.__cuda_stream__()[1]
    else:
        value = getattr(value, "cuda_stream", getattr(value, "ptr", value))
    return integer("stream", value, 0, 2**64 - 1) or LEGACY_STREAM


# Arrays.


def read_array(field: Field, value: Any, device: StreamWaiter | None,
               stream: int | None = None) -> np.ndarray | DeviceArray:
    """An array in host memory, or the description of an array in a CUDA device's memory that is ready on `stream`.
    Nothing is converted: `field` serves for error messages. device: the buffer's device if that is a CUDA device."""
    name = field.name
    if isinstance(value, np.ndarray):
        refuse_mask(name, value)
        return np.asarray(value)
    if hasattr(value, "__dlpack_device__"):
        return _from_dlpack(field, value, device, stream)
    if hasattr(value, "__cuda_array_interface__"):
        if device is None:
            raise _device_array_error(name)
        return _from_cuda_interface(name, value)
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be made an array: {error}") from error


def refuse_mask(name: str, value: Any) -> None:
    """Storing a masked array would store the values that the mask hides."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; it must be an array without a mask, say {name}.filled(0)")


def _from_cuda_interface(name: str, value: Any) -> DeviceArray:
    """[CUDA array interface, version 3]. Before version 3 there was no stream: the legacy default one was meant."""
    interface = value.__cuda_array_interface__
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    contiguous_stride = dtype.itemsize
    for length, stride in zip(reversed(shape), reversed(interface.get("strides") or ())):
        if length > 1 and stride != contiguous_stride:
            raise ValueError(f"{name} is a CUDA array of strides {tuple(interface['strides'])} bytes; it must be "
                             f"contiguous")
        contiguous_stride *= length
    return DeviceArray(interface["data"][0], shape, dtype, interface.get("stream", LEGACY_STREAM), value)


def _from_dlpack(field: Field, value: Any, device: StreamWaiter | None,
                 stream: int | None) -> np.ndarray | DeviceArray:
    refuse_gradient(field.name, value)
    value = _without_negative_bit(value)
    try:
        kind, _ = value.__dlpack_device__()
        if kind not in (_dlpack.CUDA, _dlpack.CUDA_MANAGED):
            return np.from_dlpack(value)
        if device is not None:
            return _from_cuda(field.name, value, device, stream)
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        raise _dlpack_error(field, value, error) from error
    raise _device_array_error(field.name)


def _from_cuda(name: str, value: Any, device: StreamWaiter, stream: int | None) -> DeviceArray:
    """Finds the stream that must wait until the array has been read. When the last reference to the array goes, its
    library may reuse the memory in the order of a stream that it chooses. PyTorch uses its current stream, and the CUDA
    array interface names one. Other libraries name none, so this waits until the array is ready, and the append
    waits until it has been read."""
    if stream is None:
        stream = _current_torch_stream(value)
    if stream is not None:
        return _dlpack.describe(value.__dlpack__(stream=stream), stream)
    if "stream" in getattr(value, "__cuda_array_interface__", ()):
        return _from_cuda_interface(name, value)
    exported = value.__dlpack__(stream=LEGACY_STREAM)
    device.wait_stream(LEGACY_STREAM)
    return _dlpack.describe(exported, None)


def _current_torch_stream(value: Any) -> int | None:
    """PyTorch's current stream on the tensor's device. None: `value` is no tensor."""
    torch: Any = sys.modules.get("torch")
    is_tensor: bool = isinstance(value, getattr(torch, "Tensor", ()))
    return stream_of(torch.cuda.current_stream(value.device)) if is_tensor else None


def refuse_gradient(name: str, value: Any) -> None:
    if getattr(value, "requires_grad", False):
        raise ValueError(f"{name} is a tensor that needs a gradient; it must be one that does not: {name}.detach()")


def _without_negative_bit(value: Any) -> Any:
    """A PyTorch tensor such as `z.conj().imag` may have the negative bit: its numbers are minus those in its memory.
    DLPack has no field for it, so this returns a copy without the bit."""
    is_negative = getattr(value, "is_neg", None)
    return value.resolve_neg() if callable(is_negative) and is_negative() else value


def _dlpack_error(field: Field, value: Any, error: Exception) -> Exception:
    """The exporter's error with what was given; bfloat16, for example, is no dtype of NumPy's."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{field.name} cannot be read as a DLPack array: {str(error).rstrip('.')}; it is a "
                f"{type(value).__name__} of {getattr(value, 'dtype', 'no dtype')}, and must be {field.dtype}, dense, "
                "in the memory of the host or of the buffer's device")


def _device_array_error(name: str) -> Exception:
    return TypeError(f"{name} is in the memory of a CUDA device; a buffer on \"cpu\" takes host arrays")


def _limits(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        return -_EXACT_INTEGERS[dtype], _EXACT_INTEGERS[dtype]
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def _cast(array: np.ndarray, field: Field) -> np.ndarray:
    """The same numbers in the field's dtype. Floats are rounded to narrower floats; integers must fit."""
    kind, wanted = array.dtype.kind, field.dtype
    if kind not in _ACCEPTED_KINDS[wanted.kind]:
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


def convert(array: np.ndarray, field: Field) -> np.ndarray:
    """A contiguous array of the field's dtype: the array itself if it is one already."""
    if array.dtype != field.dtype:
        array = _cast(array, field)
    elif array.dtype.kind == "b":
        array = clean_bools(array)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def clean_bools(array: np.ndarray) -> np.ndarray:
    """An array of bool whose bytes are 0 and 1: the array itself if they are. A view of other memory may contain any
    byte; NumPy takes all except 0 for True."""
    if array.size <= _SMALL_BYTES:
        has_others = array.tobytes().translate(None, b"\0\1") != b""
    else:
        has_others = array.view(np.uint8).max() > 1
    return array.view(np.uint8) != 0 if has_others else array


def _is_finite(array: np.ndarray) -> bool:
    """Whether no number of a contiguous array of floats is NaN or infinite. A sum of squares that is finite has finite
    terms alone, and costs least for small arrays."""
    if array.dtype.itemsize > 2 and array.size <= _SMALL_FLOATS and math.isfinite(np.vdot(array, array)):
        return True
    return bool(np.isfinite(array).all())


def refuse_not_finite(field: Field, array: np.ndarray) -> None:
    """ValueError, with the first row, if an array (count, ...) has NaN or infinity. The words are the library's."""
    if field.dtype.kind == "f" and not _is_finite(array):
        rows = array.reshape(len(array), -1)
        bad = int((~np.isfinite(rows)).any(axis=1).argmax())
        what = "NaN" if np.isnan(rows[bad][~np.isfinite(rows[bad])][0]) else "infinite"
        raise ValueError(with_advice(f'"{field.name}" is {what} in row {bad} of {len(array)}; its numbers must be '
                                     "finite"))


def check_device_array(array: DeviceArray, field: Field) -> None:
    """A CUDA array must have the field's dtype: nothing is converted on the device."""
    if array.dtype != field.dtype and not (field.dtype == np.bool_ and array.dtype == np.uint8):
        raise TypeError(f"{field.name} is {array.dtype} in device memory; it must be {field.dtype}")


def producer_stream(arrays: list[DeviceArray], stream: int | None) -> int | None:
    """The stream on which these arrays are made: the caller's, else theirs. None: they are ready."""
    if stream is not None:
        return stream
    streams = {array.stream for array in arrays if array.stream is not None}
    if len(streams) > 1:
        raise ValueError(f"the arrays are made on streams {sorted(streams)}; make them on one, or say which with "
                         f"stream=...")
    return streams.pop() if streams else None


def read_observations(field: Field, given: Any, device: StreamWaiter | None, stream: Any,
                      check_nan: bool) -> tuple[Any, int, int, int | None]:
    """Observations (count, ...), or one without the first axis: the array that owns them, their address, their count,
    and the stream that makes them. device: that of the learner or the policy if it is a CUDA device."""
    stream = stream_of(stream)
    array = read_array(field, given, device, stream)
    if isinstance(array, DeviceArray):
        check_device_array(array, field)
        address, stream = array.address, producer_stream([array], stream)
    else:
        array = convert(array, field)
        address = address_of(array)
    if array.shape != field.shape and (not array.shape or array.shape[1:] != field.shape):
        raise ValueError(f"{field.name} has shape {array.shape}; it must be {batch_shape_text(field.shape)} or "
                         f"{field.shape}")
    count = 1 if array.shape == field.shape else array.shape[0]
    if check_nan and isinstance(array, np.ndarray):
        refuse_not_finite(field, array.reshape(count, *field.shape))
    return array, address, count, stream


def column(name: str, given: Any, count: int, dtype: np.dtype) -> np.ndarray | None:
    """One number for each of `count` rows, from such an array, or from one number for all. None stays None."""
    if given is None:
        return None
    array = convert(np.asarray(given), Field(name, (), dtype))
    if array.shape not in ((), (count,)):
        raise ValueError(f"{name} has shape {array.shape}; it must be ({count},), or a number for all")
    return np.full(count, array, dtype) if array.shape == () else array


def batch_shape_text(shape: tuple[int, ...]) -> str:
    """How messages write the shape of an array of such rows: "(count,)", "(count, 3)"."""
    return f"(count, {', '.join(map(str, shape))})" if shape else "(count,)"


def address_of(array: np.ndarray) -> int:
    """The address of a contiguous array's first element. The first way is three times as fast, but read-only and empty
    arrays refuse it."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return int(array.__array_interface__["data"][0])


def id_array(given: Any) -> np.ndarray:
    """(count,) int64. Numbers that are no integers are refused, and not cut off."""
    ids = np.asarray(given)
    if ids.ndim != 1:
        raise ValueError(f"ids has shape {ids.shape}; it must be (batch_size,)")
    if ids.size and ids.dtype.kind != "i":
        _refuse_ids(ids, given)
    return np.ascontiguousarray(ids, np.int64)


def _refuse_ids(ids: np.ndarray, given: Any) -> None:
    """Refuses ids that are no integers or beyond int64. NumPy may have turned a list with such a number into floats, so
    the message quotes what was given."""
    if ids.dtype.kind == "u" and ids.max() < 2**63:
        return
    for at, one in enumerate(given):
        if ids.dtype.kind != "u" and (not isinstance(one, (int, np.integer)) or isinstance(one, bool)):
            raise TypeError(f"ids is {ids.dtype}; it must be integers")
        if not -2**63 <= int(one) < 2**63:
            raise InvalidArgument(f"ids[{at}] is {one}; no transition has an id beyond 2**63 - 1")


# What finds that obs and next_obs, or x and next_x, are the same memory: both then hold what was written there last.


class _Pair(NamedTuple):
    """Numbers of a value, and those of the next one at the same place in it."""

    name: str  # "obs", "obs.goal"
    row: int | None  # of a list with one row for each environment or transition; None: of all rows
    following: Any
    place: tuple[Any, ...] | None  # where both are, if they are the same memory
    owner: Any  # while it lives, nothing else gets this place


def _is_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim > 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Number, np.generic))


def _parts_of(name: str, value: Any) -> dict[Any, tuple[str, Any]] | None:
    """The (name, value) of each part by its key. None: it is an array, a list of numbers, or a number."""
    if isinstance(value, Mapping):
        return {key: (f"{name}.{key}", part) for key, part in value.items()}
    if isinstance(value, tuple):
        return {key: (f"{name}.{key}", part) for key, part in enumerate(value)}
    if _is_list(value) and len(value) > 0 and not _is_number(value[0]):
        return {key: (f"{name}[{key}]", part) for key, part in enumerate(value)}
    return None


def _place_of(value: Any) -> tuple[Any, ...] | None:
    """Where the numbers of a value are, and how many bytes they have. None: there are none, or they cannot change."""
    if isinstance(value, np.ndarray):
        return (address_of(value), value.nbytes) if value.size else None
    if hasattr(value, "data_ptr"):  # a tensor of PyTorch's
        return (value.data_ptr(), value.numel() * value.element_size()) if value.numel() else None
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return interface["data"][0], tuple(interface["shape"])
    if _is_number(value) or value is None:
        return None
    try:
        memory = memoryview(value)
    except TypeError:  # other libraries' arrays with DLPack, as JAX's, cannot change
        return None if hasattr(value, "__dlpack__") else (id(value),)
    return None if memory.readonly else _place_of(np.asarray(memory))


def _pairs_in(name: str, value: Any, following: Any, rows: int, row: int | None = None,
              place: tuple[Any, ...] | None = None, owner: Any = None) -> Iterator[_Pair]:
    """The pairs of a value and of the next one. rows: how many a list has that has one for each environment. place: of
    numbers, which have none of their own, in a dict or a list that both values have."""
    parts, next_parts = _parts_of(name, value), _parts_of(name, following)
    if parts is None or next_parts is None:
        own = _place_of(value)
        if own is not None and own == _place_of(following):
            place, owner = own, following
        is_empty = value.size == 0 if isinstance(value, np.ndarray) else isinstance(value, (list, tuple)) and not value
        if not is_empty:
            yield _Pair(name, row, following, place, owner)
        return
    is_shared = value is following and not isinstance(value, tuple)
    counts_rows = row is None and _is_list(value) and len(value) == rows
    for key in parts.keys() & next_parts.keys():
        yield from _pairs_in(*parts[key], next_parts[key][1], rows, key if counts_rows else row,
                             (id(value), key) if is_shared else place and (*place, key),
                             value if is_shared else owner)


def _pairs_by_root(values: Mapping[str, Any], rows: int | None) -> dict[str, list[_Pair]]:
    """The pairs of "obs", also of its leaves by name, "obs.goal", and of other fields. rows: None: as many as a list
    has."""
    found: dict[str, list[_Pair]] = {}
    for name, value in values.items():
        if f"next_{name}" in values:
            count = rows if rows is not None else len(value) if _is_list(value) else 0
            found.setdefault(name.partition(".")[0], []).extend(
                _pairs_in(name, value, values[f"next_{name}"], count))
    return found


def _memory_refusal(root: str, values: Mapping[str, Any], where: str) -> ValueError:
    copied = f"next_{root}.copy()" if isinstance(values.get(root), np.ndarray) else f"copy.deepcopy(next_{root})"
    keep = f"{root} = {copied}" if root.isidentifier() else f"a copy of next_{root}"
    return ValueError(f"{root} and next_{root} are the same memory{where}; they must be arrays of their own: keep "
                      f"{keep} for the next step, and a copy of what `reset` gives, or let the environments give "
                      "copies, as vectors made with copy=True do")


def _refuse_whole(root: str, values: Mapping[str, Any], pairs: list[_Pair]) -> None:
    own = {pair.row for pair in pairs if pair.place is None}  # rows with numbers that are not the same memory
    if not pairs or None in own:
        return
    rows: list[Any] = sorted({pair.row for pair in pairs if pair.row is not None})
    for row in rows or [None]:
        if row not in own:
            of_row = "" if row is None else f" in row {row}"
            raise _memory_refusal(root, values, f"{of_row}, so that both have what was written there last")


def refuse_one_memory(values: Mapping[str, Any]) -> None:
    """ValueError: a value and that of `next_` and its name are the same memory, with all their parts. Parts alone may
    be, as a goal that stays. Lists have one row for each environment or transition."""
    for root, pairs in _pairs_by_root(values, None).items():
        _refuse_whole(root, values, pairs)


class Overwritten:
    """Finds what an environment has changed in place after it gave it. Where `obs` and `next_obs` of a step are the
    same memory as a whole, obs has been overwritten. Where parts of them are, as a goal, they may have stayed as they
    are: they are refused if their numbers were others when the step before gave that memory as next_obs."""

    def __init__(self, num_envs: int) -> None:
        self._num_envs = num_envs
        self._given: dict[str, tuple[_Pair, np.ndarray]] = {}  # by the step before: parts of one memory, and copies
        self._found: dict[str, tuple[_Pair, np.ndarray]] = {}  # by the present one
        self._goes_on = np.zeros(num_envs, np.bool_)  # environments whose episode the step before did not end

    def refuse(self, values: Mapping[str, Any]) -> None:
        """ValueError: numbers were changed in place."""
        self._found = {}
        for root, pairs in _pairs_by_root(values, self._num_envs).items():
            _refuse_whole(root, values, pairs)
            for pair in pairs:
                if pair.place is not None and self._has_changed(pair):
                    raise _memory_refusal(root, values, f" in {pair.name}, and its numbers have changed since the step "
                                          "before, so that both have what was written there last, in that step, too")

    def _has_changed(self, pair: _Pair) -> bool:
        try:
            now = np.array(pair.following)
        except (TypeError, ValueError, RuntimeError):  # nothing that can be added
            return False
        self._found[pair.name] = pair, now
        given, before = self._given.get(pair.name, (pair, now))
        if given.place != pair.place or before.shape != now.shape:
            return False
        # Where an episode has ended, the environment may have begun anew in the same memory.
        if pair.row is not None:
            return bool(self._goes_on[pair.row]) and before.tobytes() != now.tobytes()
        if now.shape[:1] == (self._num_envs,):
            before, now = before[self._goes_on], now[self._goes_on]
        elif not self._goes_on.all():
            return False
        return before.tobytes() != now.tobytes()

    def note_step(self, values: Mapping[str, Any]) -> None:
        """The step was added."""
        self._given, self._found = self._found, {}
        self._goes_on[...] = True
        for name in ("terminated", "truncated") if self._given else ():
            ended = np.asarray(values.get(name, False)).astype(np.bool_)
            self._goes_on &= ~ended.reshape(-1) if ended.size == self._num_envs else not ended.any()

    def forget(self) -> None:
        """Environments were reset."""
        self._given = {}


class Columns:
    """Turns what `add` and `extend` are given by name into one array for each field, in the order of the schema."""

    def __init__(self, fields: list[Field], num_envs: int, device: StreamWaiter | None):
        self._fields, self._num_envs, self._device = fields, num_envs, device
        self._names = {field.name for field in fields}
        self._bools = [at for at, field in enumerate(fields) if field.dtype.kind == "b"]
        self._steps = [(field, field.name, field.dtype, (num_envs, *field.shape)) for field in fields]

    def of_step(self, values: dict[str, Any]) -> list[np.ndarray]:
        """One step of every environment: arrays of (num_envs, ...). Those that are such arrays already pass one short
        check."""
        values, arrays = self._by_field(values), []
        for field, name, dtype, shape in self._steps:
            value = values[name]
            if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape \
                    or not value.flags.c_contiguous:
                value = self._step_array(field, value, shape)
            arrays.append(value)
        for at in self._bools:
            arrays[at] = clean_bools(arrays[at])
        return arrays

    def of_block(self, values: dict[str, Any], stream: int | None) -> list[Any]:
        """Finished transitions: arrays of (count, ...), all in the same memory."""
        values, arrays = self._by_field(values), []
        for field, name, dtype, _ in self._steps:
            value = values[name]
            if type(value) is not np.ndarray or value.dtype is not dtype or value.ndim == 0 \
                    or value.shape[1:] != field.shape or not value.flags.c_contiguous:
                value = self._block_array(field, value, stream)
            arrays.append(value)
        kind, count = type(arrays[0]), arrays[0].shape[0]
        for field, array in zip(self._fields, arrays):
            if type(array) is not kind or array.shape[0] != count:
                self._refuse_mismatch(field, array, arrays[0])
        if kind is np.ndarray:
            for at in self._bools:
                arrays[at] = clean_bools(arrays[at])
        return arrays

    def _by_field(self, values: dict[str, Any]) -> dict[str, Any]:
        return values if values.keys() == self._names else self._flattened(values)

    def _flattened(self, values: dict[str, Any]) -> dict[str, Any]:
        """Splits dicts and tuples of a space into their leaves, and fills in a missing `truncated` with zeros."""
        leaves: dict[str, Any] = {}
        for name, value in values.items():
            self._flatten_into(leaves, name, value)
        if "truncated" in self._names and "truncated" not in leaves and "terminated" in leaves:
            dtype = next(field.dtype for field in self._fields if field.name == "truncated")
            leaves["truncated"] = np.zeros(np.shape(leaves["terminated"]), dtype)
        missing, unknown = self._names - leaves.keys(), leaves.keys() - self._names
        if missing or unknown:
            raise TypeError(f"missing {sorted(missing)}, unknown {sorted(unknown)}; the fields are "
                            f"{', '.join(field.name for field in self._fields)}")
        return leaves

    def _flatten_into(self, leaves: dict[str, Any], name: str, value: Any) -> None:
        if name not in self._names and isinstance(value, (Mapping, tuple)):
            for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
                self._flatten_into(leaves, f"{name}.{key}", part)
        else:
            leaves[name] = value

    def _step_array(self, field: Field, value: Any, wanted: tuple[int, ...]) -> np.ndarray:
        array = read_array(field, value, self._device)
        if isinstance(array, DeviceArray):
            raise TypeError(f"{field.name} is in the memory of a CUDA device; `add` takes host arrays, `extend` both")
        array = convert(array, field)
        if array.shape == wanted:
            return array
        if self._num_envs == 1 and array.shape == field.shape:
            return array[np.newaxis]
        envs = self._num_envs
        if field.shape in _ONE_NUMBER and array.shape in ((envs,), (envs, 1), *(_ONE_NUMBER if envs == 1 else ())):
            return array.reshape(wanted)
        raise ValueError(f"{field.name} has shape {array.shape}; it must be {wanted}"
                         + (f" or {field.shape}" if self._num_envs == 1 else ""))

    def _block_array(self, field: Field, value: Any, stream: int | None) -> np.ndarray | DeviceArray:
        array = read_array(field, value, self._device, stream)
        if isinstance(array, DeviceArray):
            check_device_array(array, field)
        else:
            array = convert(array, field)
        if len(array.shape) > 0 and {array.shape[1:], field.shape} == {*_ONE_NUMBER}:
            wanted = (array.shape[0], *field.shape)
            return array._replace(shape=wanted) if isinstance(array, DeviceArray) else array.reshape(wanted)
        if len(array.shape) == 0 or array.shape[1:] != field.shape:
            raise ValueError(f"{field.name} has shape {array.shape}; it must be {batch_shape_text(field.shape)}")
        return array

    def _refuse_mismatch(self, field: Field, array: Any, first: Any) -> NoReturn:
        """`array` is in another memory than the first field's array, or has another count."""
        other, places = self._fields[0].name, {np.ndarray: "host", DeviceArray: "device"}
        if type(array) is not type(first):
            raise TypeError(f"{field.name} is in {places[type(array)]} memory and {other} in {places[type(first)]} "
                            "memory; they must be all in one")
        raise ValueError(f"{field.name} has {array.shape[0]} transitions and {other} {first.shape[0]}; they must be as "
                         f"many")
