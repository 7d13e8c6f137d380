# SPDX-License-Identifier: MIT
"""Objects of the library: calls on them, closing them, saving and loading them, and what a fork does to them."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType, TracebackType
from typing import Any, NamedTuple, NoReturn, Optional, TypeVar

from . import _c_api
from ._library import Closed, GpureplayError, check, failed, lib

Progress = Callable[[int, int], Any]
_SignalHandler = Callable[[int, "FrameType | None"], Any]

_alive: weakref.WeakSet[Handle] = weakref.WeakSet()
_lock = threading.Lock()  # protects _alive
_has_threads: list[str] = []  # not empty once the library may have threads of its own in this process
# Not empty in a child process whose parent had such threads at the fork. Nothing of the parent's is destroyed there.
# Finalizers bind this list as a default argument, because they may run when the module's names are gone.
forked: list[str] = []

# Maps each address to the library's function that destroys it. The code that removes an entry destroys the object.
Owned = dict[Optional[int], Callable[[Optional[int]], None]]


_Handle = TypeVar("_Handle", bound="Handle")


class _Calling(threading.local):
    """Objects whose call, in this thread, now runs a function of the user's."""

    handles: tuple[Handle, ...] = ()


_calling = _Calling()


class Handle:
    """An object of the library. `_handle` is its address while it is open, and None afterwards. The library refuses the
    resulting NULL, and `_explain` replaces that error by Closed."""

    _kind = "object"

    def __init__(self, address: int | None, destroy: Callable[[int | None], None], owned: Owned | None = None):
        self._closed_by = ""
        self._calls: list[int] = []  # the threads that are inside a library call with this handle
        self._owned: Owned = {} if owned is None else owned
        self._owned[address] = destroy
        self._handle = address
        with _lock:
            _alive.add(self)

    def _invoke(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns function(address, *arguments). `close` waits until the call is done."""
        thread, calls = threading.get_ident(), self._calls
        try:
            calls.append(thread)
            return function(self._handle, *arguments)
        finally:
            if thread in calls:  # not there if Ctrl-C arrived just before the append
                calls.remove(thread)

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Like `_invoke`, and raises the exception for a status other than OK."""
        status = self._invoke(function, *arguments)
        if status != 0:
            self._refuse(status)

    def _refuse(self, status: int) -> NoReturn:
        """Raises the exception for a status other than OK."""
        raise self._explain(failed(status))

    def _explain(self, error: Exception) -> Exception:
        """Returns `error`, or Closed if this object is not open."""
        if self._handle is not None:
            return error
        return Closed(f"this {self._kind} {self._closed_by or 'was closed'}; make a new one")

    def _open_handle(self) -> int:
        """Returns the address. Raises Closed if there is none."""
        if self._handle is None:
            raise self._explain(ValueError())
        return self._handle

    @property
    def closed(self) -> bool:
        """True after `close`, and in a child process that was forked while the object was open."""
        return self._handle is None

    def _users_of_call(self) -> tuple[Handle, ...]:
        """The objects that a call with this one uses."""
        return (self,)

    @contextmanager
    def _calls_user(self) -> Iterator[None]:
        """Around a function of the user's that a call with this object runs: it cannot close what the call uses."""
        before = _calling.handles
        _calling.handles = (*before, *self._users_of_call())
        try:
            yield
        finally:
            _calling.handles = before

    def _refuse_in_own_call(self) -> None:
        if any(handle is self for handle in _calling.handles):
            raise RuntimeError(f"this {self._kind} cannot be closed by a function that its own call runs, such as "
                               "on_event or progress; return False, and close it after the call")

    def _detach(self) -> int | None:
        """Removes and returns the address, and waits for the calls of other threads that still use it. This thread's
        own calls are not waited for: a signal handler that closes the object runs between them."""
        self._refuse_in_own_call()
        address, self._handle = self._handle, None
        own_thread = threading.get_ident()
        while any(thread != own_thread for thread in list(self._calls)):
            time.sleep(0.0005)
        return address

    def close(self) -> None:
        """Destroys the library's object after the running calls of other threads. Closing twice does nothing."""
        address = self._detach()
        destroy = self._owned.pop(address, None)
        if destroy is not None:
            destroy(address)

    def __enter__(self: _Handle) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after_fork(self) -> None:
        """Runs in the child process of a fork. Subclasses replace the locks that a thread of the parent may hold."""
        self._owned.clear()
        self._calls.clear()
        if self._handle is not None:
            self._handle = None
            self._closed_by = "belongs to the process that forked this one"

    def __del__(self, _forked: list[str] = forked) -> None:
        if not _forked and self.__dict__.get("_handle") is not None:
            self.close()

    def __reduce__(self) -> NoReturn:
        refuse_to_pickle(f"a gpureplay {self._kind}")


def refuse_to_pickle(what: str) -> NoReturn:
    raise TypeError(f"{what} cannot be copied or pickled: it lies in a device's memory and belongs to this process")


def note_library_threads() -> None:
    """Records that from now on the library may have threads in this process: helpers, BLAS, CUDA."""
    _has_threads.append("")


def refuse_after_fork() -> None:
    """Raises Closed in a child process whose parent's library had threads. Those threads do not exist here, and work
    that waits for them would wait forever."""
    if forked:
        raise Closed("the process that forked this one had used gpureplay, and the library's threads are not here: "
                     "start this process with multiprocessing's \"spawn\" or \"forkserver\", or use gpureplay only "
                     "after the fork")


def _run_after_fork() -> None:
    """Runs in the child process of a fork. Threads of the parent, which do not exist here, may hold the locks and
    queues that were copied, so the parent's objects are never touched again."""
    global _lock
    _lock = threading.Lock()
    if _has_threads:
        forked.append("fork")
    for handle in list(_alive):
        handle._after_fork()


os.register_at_fork(after_in_child=_run_after_fork)


def says_stop(answer: Any) -> bool:
    """Whether a progress function's answer ends the call: False does, NumPy's False too; None does not."""
    return answer is not None and not answer


class DeferredSignals:
    """Catches what signal handlers raise inside the `with` block, and stores it in `raised` in the order of time.

    Python runs a signal handler where it next runs Python code. During a save that is the progress function, which the
    library calls. An exception raised there (KeyboardInterrupt at Ctrl-C) cannot pass through C: it would be printed
    and lost. The handlers run as always. Leaving the block raises nothing; the caller raises what was stored."""

    def __init__(self) -> None:
        self.raised: list[BaseException] = []
        self._handlers: dict[int, tuple[_SignalHandler, _SignalHandler]] = {}  # signal: (installed handler, wrapper)

    @property
    def is_active(self) -> bool:
        """Whether signal handlers run in this thread, and there are any."""
        return bool(self._handlers)

    def _wrap(self, number: int, handler: _SignalHandler) -> None:
        def wrapper(received: int, frame: FrameType | None) -> None:
            try:
                handler(received, frame)
            except BaseException as error:
                self.raised.append(error)

        self._handlers[number] = handler, wrapper
        signal.signal(number, wrapper)

    def __enter__(self) -> DeferredSignals:
        if threading.current_thread() is not threading.main_thread():
            return self
        try:
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler):
                    self._wrap(number, handler)
        except ValueError:  # this is the main thread of a subinterpreter, which may not set handlers
            self._restore()
        except BaseException:
            self._restore()
            raise
        return self

    def _restore(self) -> None:
        """Restores SIGINT last, because Ctrl-C may raise from then on."""
        for number in sorted(self._handlers, key=lambda number: number == signal.SIGINT):
            installed, wrapper = self._handlers[number]
            if signal.getsignal(number) is wrapper:
                signal.signal(number, installed)
        self._handlers.clear()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._restore()


class FileInfo(NamedTuple):
    """What a file contains. A count that this kind of file does not have is -1. include/gpureplay/checkpoint.h
    describes each."""

    kind: str
    version: str
    bytes: int
    tensors: int
    rows: int
    capacity: int
    first_id: int
    writers: int
    steps: int
    weights: int


def encoded_path(path: str | os.PathLike[str]) -> bytes:
    """The path in C. ValueError: it contains a NUL, at which C would end it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"path is {path!r}; it must have no NUL")
    return name


def file_info(path: str | os.PathLike[str]) -> FileInfo:
    """Describes a file of `save` or `save_weights`, or any safetensors file. FileError: it is none."""
    info = _c_api.CheckpointInfo()
    check(lib.gpur_checkpoint_get_info(encoded_path(path), ctypes.addressof(info)))
    kind, version, *numbers = (getattr(info, name) for name in FileInfo._fields)
    return FileInfo(kind.decode(), version.decode(), *numbers)


def call_with_file(handle: Handle, function: Any, path: str | os.PathLike[str], progress: Progress | None,
                   on_end: Callable[[GpureplayError | None], None] | None = None,
                   inside: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
    """Calls function(handle, path) and reports its progress. An exception in `progress`, or in a signal handler
    (Ctrl-C), ends the call and is raised afterwards.

    on_end: is called with the library's error, or None, before anything is raised.
    inside: makes a context that the call runs in.
    """
    name, options, refusal = encoded_path(path), _c_api.CheckpointOptions(), None
    with DeferredSignals() as signals, inside():
        raised = signals.raised

        def report(_: int | None, done: int, total: int) -> int:
            try:
                with handle._calls_user():
                    stop = progress is not None and says_stop(progress(done, total))
            except BaseException as error:
                raised.append(error)
                stop = True
            return int(stop or bool(raised))

        callback = _c_api.PROGRESS_FN(report)
        if progress is not None or signals.is_active:
            options.progress = ctypes.cast(callback, ctypes.c_void_p)
        try:
            handle._call(function, name, ctypes.addressof(options))
        except GpureplayError as error:
            refusal = error
        if on_end is not None:
            on_end(refusal)
    if raised:
        raise raised[0]
    if refusal is not None:
        raise refusal
