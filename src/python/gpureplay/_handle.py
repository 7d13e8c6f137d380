# SPDX-License-Identifier: MIT
"""Objects of the library: calls on them, closing them, saving and loading them, and what a fork does to them."""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
import operator
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType, TracebackType
from typing import Any, Generic, NoReturn, TypeVar

from . import _c_api
from ._library import Closed, GpureplayError, check, failed, in_c, lib
from ._struct import read_tuple
from ._tuples import FileInfo

Progress = Callable[[int, int], Any]
_SignalHandler = Callable[[int, "FrameType | None"], Any]

_has_threads: list[str] = []  # not empty once the library may have threads of its own in this process
# Not empty in a child process whose parent had such threads at the fork. Nothing of the parent's is destroyed there.
forked: list[str] = []

_Handle = TypeVar("_Handle", bound="Handle")
_Item = TypeVar("_Item")

# Finalizers. Python runs signal handlers wherever it runs Python code, and drops what they raise while it finalizes an
# object: Ctrl-C would have no effect there. So no finalizer of this package is Python code, neither a `__del__` nor the
# callback of a weak reference. `__del__` is a slot of the object, and holds a function of C with its arguments. It is
# there before the library makes anything, and reads the address that the library has written, so that nothing is lost
# when a handler raises an exception just after the call.

_call: Any = functools.partial.__call__
_Destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_nothing = _Destroy(bool)  # a function of C that ignores the address
_finalizing: list[Any] = []


def finalizing(function: Any) -> Any:
    """This function of the library, except that it does nothing in a child process where `forked` is not empty."""
    copy = _Destroy(ctypes.cast(function, ctypes.c_void_p).value)  # type: ignore[arg-type]
    _finalizing.append(copy)
    return copy


class Owner:
    """Owns one object of the library, and destroys it when it goes itself.

    address: where the library writes the object's address.
    handle: what calls get. NULL until the object is made, and once it is closed.
    destroy: destroys the object, unless that was done, and before it those that were made on top of it: in garbage that
        Python collects, finalizers run in any order.
    """

    __slots__ = ("__del__", "_above", "address", "destroy", "handle")

    destroy: Callable[[], Any]

    def __init__(self, function: Callable[[int | None], None], bases: Sequence[Owner] = (),
                 handle: ctypes.c_void_p | None = None):
        """function: destroys the object. bases: own what the object was made on top of. handle: where it is kept, if it
        must be in memory that others read, too."""
        self.address, self.handle = ctypes.c_void_p(), ctypes.c_void_p() if handle is None else handle
        self._above: dict[int, Callable[[], Any]] = {}  # what destroys those on top of this
        key = ctypes.addressof(self.address)
        call: Any = functools.partial
        calls = [call(function, self.address), call(setattr, self.handle, "value", None),
                 call(setattr, self.address, "value", None)]
        calls += [call(base._above.pop, key, None) for base in bases]
        above = itertools.chain.from_iterable(map(list, [self._above.values()]))  # those that there are then
        every = map(_call, itertools.chain(above, calls))
        self.destroy = self.__del__ = call(collections.deque, every, 0)  # makes all these calls, once
        for base in bases:
            base._above[key] = self.destroy

    def forget(self) -> None:
        """From now on nothing is destroyed."""
        self.handle.value = self.address.value = None


class WeakItems(Generic[_Item]):
    """A set of objects that does not keep them alive. Unlike weakref.WeakSet it runs nothing when one of them goes."""

    def __init__(self) -> None:
        self._items: dict[int, weakref.ref[Any]] = {}
        self._numbers = itertools.count()

    def add(self, item: _Item) -> None:
        for number, reference in list(self._items.items()):
            if reference() is None:
                self._items.pop(number, None)
        self._items[next(self._numbers)] = weakref.ref(item)

    def __iter__(self) -> Iterator[_Item]:
        found = [reference() for reference in list(self._items.values())]
        return iter([item for item in found if item is not None])


_alive: WeakItems[Handle] = WeakItems()


class _Calling(threading.local):
    """Objects whose call, in this thread, now runs a function of the user's."""

    handles: tuple[Handle, ...] = ()


_calling = _Calling()


class Handle:
    """An object of the library. `_handle` is its address while it is open, and None otherwise. The library refuses the
    resulting NULL, and `_explain` replaces that error by Closed."""

    _kind = "object"
    _owner: Owner
    _handle: Any = property(operator.attrgetter("_owner.handle.value"))

    def __init__(self, create: Callable[[int], None], destroy: Callable[[int | None], None],
                 bases: Sequence[Handle] = (), handle: ctypes.c_void_p | None = None):
        """create: makes the object and writes its address to the given place, or raises an exception. destroy: the
        library's function. bases: what the object is made on top of, and must be destroyed before. handle: see
        `Owner`."""
        self._closed_by = ""
        self._calls: list[int] = []  # the threads that are inside a library call with this handle
        self._owner = Owner(destroy, [base._owner for base in bases], handle)
        _alive.add(self)
        try:
            create(ctypes.addressof(self._owner.address))
        except BaseException:
            self._owner.destroy()
            raise
        self._owner.handle.value = self._owner.address.value

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
        address: int = self._handle
        return address

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

    def _detach(self) -> None:
        """Refuses calls from now on, and waits for those of other threads. This thread's own calls are not waited for:
        a signal handler that closes the object runs between them."""
        self._refuse_in_own_call()
        self._owner.handle.value, own_thread = None, threading.get_ident()
        while any(thread != own_thread for thread in list(self._calls)):
            time.sleep(0.0005)

    def close(self) -> None:
        """Destroys the library's object after the running calls of other threads.
        Closing twice does nothing.

            device = gpureplay.Device("cpu")
            with gpureplay.Policy(env.observation_space, 2, device=device) as policy:
                actions = policy.act(obs)             # the block closes the policy at its end
            device.close()
        """
        self._detach()
        self._owner.destroy()

    def __enter__(self: _Handle) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after_fork(self) -> None:
        """Runs in the child process of a fork. Subclasses replace the locks that a thread of the parent may hold."""
        self._calls.clear()
        if self._handle is not None:
            self._closed_by = "belongs to the process that forked this one"
        self._owner.forget()

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
    if _has_threads:
        forked.append("fork")
        for function in _finalizing:
            ctypes.memmove(ctypes.addressof(function), ctypes.addressof(_nothing), ctypes.sizeof(ctypes.c_void_p))
    for handle in _alive:
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

    def __init__(self, on_raised: Callable[[], Any] | None = None) -> None:
        """on_raised: is called when something was stored, inside the handler."""
        self._on_raised = on_raised
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
                if self._on_raised is not None:
                    self._on_raised()

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
        """Restores SIGINT last, because Ctrl-C may raise from then on. What a handler raises as soon as it is restored
        is stored, too, so that it does not keep the others from being restored."""
        while True:
            try:
                while self._handlers:
                    number = min(self._handlers, key=lambda number: number == signal.SIGINT)
                    installed, wrapper = self._handlers[number]
                    if signal.getsignal(number) is wrapper:
                        signal.signal(number, installed)
                    del self._handlers[number]
                break
            except BaseException as error:
                self.raised.append(error)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._restore()


@contextmanager
def signals_after() -> Iterator[None]:
    """Inside, the library calls functions in Python, through which nothing can be raised. What signal handlers raise
    meanwhile, as Ctrl-C does, is raised at the end."""
    signals = DeferredSignals()
    try:
        with signals:
            yield
    finally:
        if signals.raised:
            raise signals.raised[0]


def file_info(path: str | os.PathLike[str]) -> FileInfo:
    """Describes a file of `save` or `save_weights`, or any safetensors file.
    FileError: it is none.

        info = gpureplay.file_info("replay.safetensors")
        print(info.kind, info.rows, info.capacity)
    """
    info = _c_api.CheckpointInfo()
    check(lib.gpur_checkpoint_get_info(in_c("path", path), ctypes.addressof(info)))
    return read_tuple(FileInfo, info)


def call_with_file(handle: Handle, function: Any, path: str | os.PathLike[str], progress: Progress | None,
                   on_end: Callable[[GpureplayError | None], None] | None = None,
                   inside: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
    """Calls function(handle, path) and reports its progress. An exception in `progress`, or in a signal handler
    (Ctrl-C), ends the call and is raised afterwards.

    on_end: is called with the library's error, or None, before anything is raised.
    inside: makes a context that the call runs in.
    """
    name, options, refusal = in_c("path", path), _c_api.CheckpointOptions(), None
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
