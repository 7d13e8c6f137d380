# SPDX-License-Identifier: MIT
"""Lanes inside jax.jit and jax.lax.scan, through XLA's foreign function interface.

    import gpureplay.jax

    lanes = gpureplay.jax.Lanes(buffer)              # a gpureplay.LaneBuffer

    @jax.jit
    def train(token, state):
        def step(carry, _):
            token, state = carry
            ...
            token = lanes.add(token, obs=obs, action=action, reward=reward, terminated=terminated,
                              truncated=truncated, final_obs=final_obs)
            token, batch = lanes.sample(token, 256)
            ...
            return (token, state), None
        return jax.lax.scan(step, (token, state), length=1000)[0]

    token, state = train(lanes.init(), state)

It needs JAX 0.5 or later, and a package that was built where jaxlib was installed. The token is an array that passes
through every call. Calls happen in its order, each once: so hand on the one that the last call returned.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from . import _library
from ._handle import Handle
from ._lane_arrays import check_array
from ._lanes import _PRIORITIES, _WHICH, Ask, LaneBuffer
from ._library import REBUILD, OutOfMemory, lib
from ._schema import Field

try:
    import jax
    import jax.numpy as jnp
    from jax.custom_batching import custom_vmap
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gpureplay.jax puts lanes into functions that JAX compiles, and JAX is not installed; "
                              "`pip install jax`", name=error.name) from error

__all__ = ["Lanes"]

_FILE = "libgpureplay_jax.so"
# The library's functions that are called, in the order of src/python/jax.c.
_FUNCTIONS = ("gpur_replay_add_lanes", "gpur_replay_reset_lanes", "gpur_replay_draw_lanes", "gpur_lane_draw_init",
              "gpur_replay_update_lanes", "gpur_last_error")
_TOKEN = jax.ShapeDtypeStruct((), np.uint32)
_PAIR = np.dtype(np.int32)  # an id is two of them where JAX has no int64


def _load() -> ctypes.CDLL:
    """The library that XLA calls, beside the one that it calls itself; its functions are made known to XLA."""
    path = Path(_library.path).resolve().with_name(_FILE)
    if not path.is_file():
        raise ImportError(f"there is no {_FILE} beside {_library.path}: the package was built where jaxlib 0.5 or "
                          f"later was not installed. `pip install jax`, then `{REBUILD}` in the folder of the sources")
    if not hasattr(jax, "ffi"):
        raise ImportError(f"JAX is {jax.__version__}; gpureplay.jax needs 0.5 or later: `pip install -U jax`")
    found = ctypes.CDLL(str(path))
    _refuse_older_jax(found.gpureplay_jax_api_minor())
    found.gpureplay_jax_use.argtypes, found.gpureplay_jax_use.restype = [ctypes.c_void_p], None
    found.gpureplay_jax_open.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_int32,
                                         ctypes.c_void_p, ctypes.c_void_p]
    found.gpureplay_jax_open.restype = ctypes.c_int64
    found.gpureplay_jax_close.argtypes, found.gpureplay_jax_close.restype = [ctypes.c_void_p], None
    addresses = [ctypes.cast(getattr(lib, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    found.gpureplay_jax_use((ctypes.c_void_p * len(addresses))(*addresses))
    for name in ("add", "reset", "draw", "update"):
        for platform in ("cpu", "cuda"):
            handler = jax.ffi.pycapsule(getattr(found, f"gpureplay_jax_{name}_{platform}"))
            jax.ffi.register_ffi_target(f"gpureplay_{name}", handler, platform="CUDA" if platform == "cuda" else "cpu")
    return found


def _refuse_older_jax(built_for: int) -> None:
    """XLA would refuse the handlers, and then JAX would refuse to start."""
    header = Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h").read_text(encoding="utf-8")
    found = re.search(r"#define XLA_FFI_API_MINOR (\d+)", header)
    if found is not None and int(found[1]) < built_for:
        raise ImportError(f"gpureplay was built with a later jaxlib than this one of JAX {jax.__version__}: update "
                          f"JAX, or build again by `{REBUILD}` in the folder of the sources")


_jax = _load()


class _Entry(Handle):
    """A buffer's entry in the table by which compiled functions find it. It goes with the buffer."""

    _kind = "buffer"

    def __init__(self, buffer: LaneBuffer):
        self.number = -1
        row_bytes = [field.dtype.itemsize * int(np.prod(field.shape, dtype=np.int64)) for field in buffer.fields]

        def create(address: int) -> None:
            self.number = _jax.gpureplay_jax_open(
                buffer._open_handle(), buffer.device.is_cuda, buffer.num_lanes, len(row_bytes),
                (ctypes.c_int64 * len(row_bytes))(*row_bytes), address)
            if self.number < 0:
                raise OutOfMemory("there is no memory to name a buffer to JAX")

        super().__init__(create, _jax.gpureplay_jax_close, (buffer,))

    def wait(self) -> None:
        """Waits for the functions with effects, as calls on lanes are, that JAX was told to run before. Not in a thread
        that Python did not start: there a callback of such a function runs, which would wait for itself."""
        if not isinstance(threading.current_thread(), threading._DummyThread):
            with contextlib.suppress(RuntimeError):  # of a function that failed, as JAX says where its results are read
                jax.effects_barrier()


def _number_of(buffer: LaneBuffer) -> int:
    """The number by which compiled functions name a buffer, as long as it is open."""
    buffer._open_handle()
    if buffer._jax is None:
        buffer._jax = _Entry(buffer)
    number: int = buffer._jax.number
    return number


def _has_int64() -> bool:
    return bool(jax.config.read("jax_enable_x64"))


def _checked(field: Field, array: Any, count: int) -> Any:
    """An array of this field. TypeError, ValueError: it is another one."""
    if field.dtype == np.int64 and not _has_int64():
        _refuse_int64(field.name)
    array = array if hasattr(array, "dtype") and hasattr(array, "shape") else jnp.asarray(array)
    check_array(field, array.dtype, tuple(array.shape), count)
    return array


def _refuse_int64(name: str) -> NoReturn:
    raise TypeError(f"{name} is int64, which JAX has with jax_enable_x64 alone; set it (JAX_ENABLE_X64=1), or make the "
                    f"buffer with {name} as int32")


def _checked_ids(name: str, ids: Any) -> Any:
    """int64 (count,), or int32 (count, 2), as batches have them where there is no int64."""
    if isinstance(ids, np.ndarray) and ids.dtype == np.int64 and ids.ndim == 1 and not _has_int64():
        ids = np.ascontiguousarray(ids).view(_PAIR).reshape(-1, 2)
    dtype, shape = getattr(ids, "dtype", None), tuple(getattr(ids, "shape", ()))
    if not (dtype == np.int64 and len(shape) == 1) and not (dtype == _PAIR and len(shape) == 2 and shape[1] == 2):
        what = f"a {type(ids).__name__}" if dtype is None else f"{dtype} of shape {shape}"
        raise TypeError(f"{name} is {what}; it must be as batches have it as id: int64 (count,) with jax_enable_x64, "
                        "and int32 (count, 2) without")
    return ids


def _refuse_vmap(axis_size: int, *_: Any) -> NoReturn:
    raise NotImplementedError(f"a call on lanes is under jax.vmap, over {axis_size}; a buffer is one, and cannot be "
                              "mapped over: call it outside of vmap, with an array (num_lanes, ...) of all lanes")


_not_mapped: Any = custom_vmap(lambda *arrays: arrays)  # returns what it is given, and refuses jax.vmap
_not_mapped.def_vmap(_refuse_vmap)


class Lanes:
    """The calls of a `LaneBuffer` as functions of a token, for jax.jit and jax.lax.scan.

    buffer: the LaneBuffer. It must live as long as functions that were compiled with it are called: once it is closed
        or gone, they raise an error that says so.

    What does not fit is refused while JAX traces, with the words of LaneBuffer's own methods. Names, shapes,
    batch_size, n_step, gamma and per_lane are fixed then; arrays are JAX's, of the fields' types. A function that is
    compiled must run on the buffer's device. Calls have an effect, so that JAX drops none and merges none. jax.vmap
    over a call is refused, and so are gradients through it (a loss of the batch is differentiated as ever). The same
    steps and draws have the same bits here and by the buffer's own methods. These, `len`, `stats` and `close` wait
    until functions that were called before are done, except in a callback of JAX's, as that of jax.debug.callback.
    """

    def __init__(self, buffer: LaneBuffer):
        if not isinstance(buffer, LaneBuffer):
            raise TypeError(f"buffer is a {type(buffer).__name__}; it must be a gpureplay.LaneBuffer")
        if "token" in buffer._order:
            raise ValueError("the buffer has a field called 'token', as the first argument of `add`; make it with "
                             "another name")
        _number_of(buffer)
        self.buffer = buffer

    def init(self) -> Any:
        """The first token: one of all calls that are to be in order."""
        return jnp.zeros(_TOKEN.shape, _TOKEN.dtype)

    def add(self, token: Any, **values: Any) -> Any:
        """Adds a step of all lanes, as LaneBuffer.add: each field by name, (num_lanes, ...). Returns the token. Flags
        have no values while JAX traces: the first `add` with `truncated` and without final_obs warns."""
        buffer = self.buffer
        arrays = buffer._in_order(values)
        buffer._refuse_finals(arrays)
        given = [_checked(field, array, buffer.num_lanes)
                 for field, array in zip(buffer._given, arrays) if array is not None]
        mask = sum(1 << at for at, array in enumerate(arrays) if array is not None)
        token, = self._call("add", token, given, [], given=np.uint64(mask).astype(np.int64))
        buffer._tell_of_finals(arrays, can_look=False)
        return token

    def reset(self, token: Any, lanes: Any = None) -> Any:
        """Says that environments were reset amid their episodes since the newest step, as LaneBuffer.reset. lanes: bool
        (num_lanes,): which ones; None: all. Returns the token.

            token = lanes.reset(token)
        """
        arrays = [] if lanes is None else [_checked(_WHICH, lanes, self.buffer.num_lanes)]
        token, = self._call("reset", token, arrays, [])
        return token

    def sample(self, token: Any, batch_size: int, *, n_step: int | None = None, gamma: float | None = None,
               per_lane: bool = False) -> tuple[Any, dict[str, Any]]:
        """Draws batch_size transitions, as LaneBuffer.sample. Returns the token, and a dict of arrays
        (batch_size, ...).

        id: int64 (batch_size,) with jax_enable_x64; without, where JAX has no int64, int32 (batch_size, 2), the lower
            half first. `gather` and `update_priorities` take it as it is, and in NumPy id.view(numpy.int64)[:, 0] is
            the number. Where there was no transition to draw, steps is 0."""
        count = self.buffer._batch_size(batch_size, per_lane)
        return self._draw(token, count, [], self.buffer._ask(n_step, gamma)._replace(per_lane=per_lane))

    def gather(self, token: Any, ids: Any, *, n_step: int | None = None, gamma: float | None = None
               ) -> tuple[Any, dict[str, Any]]:
        """The transitions of these ids, which batches have as `id`, as LaneBuffer.gather. Returns the token, and a dict
        of arrays (count, ...).

            token, batch = lanes.sample(token, 64)
            token, same = lanes.gather(token, batch["id"])
        """
        ids = _checked_ids("ids", ids)
        return self._draw(token, self.buffer._count("ids", ids), [ids], self.buffer._ask(n_step, gamma))

    def sample_sequences(self, token: Any, batch_size: int, length: int, *, min_length: int | None = None,
                         across_episodes: bool = True, last_ids: Any = None, n_step: int | None = None,
                         gamma: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Draws sequences of successive transitions of a lane, as LaneBuffer.sample_sequences. Returns the token, and a
        dict of arrays (batch_size, length, ...). last_ids: as the ids of `gather`.

            token, batch = lanes.sample_sequences(token, 16, 8)
        """
        ids = None if last_ids is None else _checked_ids("last_ids", last_ids)
        count, ask = self.buffer._ask_sequences(batch_size, length, min_length, across_episodes, ids, n_step, gamma)
        return self._draw(token, count, [] if ids is None else [ids], ask)

    def update_priorities(self, token: Any, ids: Any, priorities: Any) -> Any:
        """Gives transitions, by the `id` of a batch, new priorities, float32 (count,), as LaneBuffer.update_priorities.
        Returns the token.

            token = lanes.update_priorities(token, batch["id"], errors)
        """
        self.buffer._refuse_if_uniform()
        ids = _checked_ids("ids", ids)
        count = self.buffer._count("ids", ids)
        token, = self._call("update", token, [ids, _checked(_PRIORITIES, priorities, count)], [], count=np.int64(count))
        return token

    def _draw(self, token: Any, count: int, ids: list[Any], ask: Ask) -> tuple[Any, dict[str, Any]]:
        outputs = self.buffer._outputs_of(ask.length)
        results = [self._result(field, count) for field in outputs.values()]
        settings = {name: np.int64(value) for name, value in ask._asdict().items() if name != "gamma"}
        token, *batch = self._call("draw", token, ids, results, count=np.int64(count), gamma=np.float32(ask.gamma),
                                   has_weight=np.int64(self.buffer._is_prioritized), **settings)
        return token, dict(zip(outputs, batch))

    def _result(self, field: Field, count: int) -> jax.ShapeDtypeStruct:
        """What a batch has of a field."""
        if field.dtype != np.int64 or _has_int64():
            return jax.ShapeDtypeStruct((count, *field.shape), field.dtype)
        if field.name != "id":
            _refuse_int64(field.name)
        return jax.ShapeDtypeStruct((count, *field.shape, 2), _PAIR)

    def _call(self, name: str, token: Any, arrays: list[Any], results: list[jax.ShapeDtypeStruct], **attributes: Any
              ) -> Any:
        number = _number_of(self.buffer)
        if getattr(token, "dtype", None) != _TOKEN.dtype or token.shape != _TOKEN.shape:
            raise TypeError(f"token is {token!r}; it must be what `init` or the call before returned")
        call = jax.ffi.ffi_call(f"gpureplay_{name}", (_TOKEN, *results), has_side_effect=True,
                                input_output_aliases={0: 0})
        return call(*_not_mapped(token, *arrays), buffer=np.int64(number), **attributes)

    def __repr__(self) -> str:
        return f"gpureplay.jax.Lanes({self.buffer!r})"
