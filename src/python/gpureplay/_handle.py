# SPDX-License-Identifier: MIT
"""What owns something of the library's: calls on it, closing it, and what a fork does to it."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, Optional

from ._library import Closed, failed

_alive: weakref.WeakSet[Handle] = weakref.WeakSet()
_lock = threading.Lock()  # of _alive
_at_work: list[str] = []  # not empty: threads of the library's may be running in this process
# Not empty in a process that was forked while the library was at work: nothing of the parent's is given back there. A
# finalizer binds it as a default, for it may run when the module's names are gone.
gone: list[str] = []

# Address: function of the library that destroys it. Whoever pops an entry destroys.
Owned = dict[Optional[int], Callable[[Optional[int]], None]]


class Handle:
    """An object of the library. `_handle` is its address while it is open, and None after: the library then refuses the
    NULL, and `_explain` says why."""

    _kind = "object"

    def __init__(self, address: int | None, destroy: Callable[[int | None], None], owned: Owned | None = None):
        self._closed_by = ""
        self._calls: list[int] = []  # the threads that are in the library with this handle
        self._owned: Owned = {} if owned is None else owned
        self._owned[address] = destroy
        self._handle = address
        with _lock:
            _alive.add(self)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(address, *arguments), during which `close` waits."""
        me, calls = threading.get_ident(), self._calls
        try:
            calls.append(me)
            return function(self._handle, *arguments)
        finally:
            if me in calls:  # not if Ctrl-C came just before it was
                calls.remove(me)

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """`_ask`, and an exception for a status that is not OK."""
        status = self._ask(function, *arguments)
        if status != 0:
            self._refuse(status)

    def _refuse(self, status: int) -> NoReturn:
        """Raises what a status that is not OK means."""
        raise self._explain(failed(status))

    def _explain(self, error: Exception) -> Exception:
        """`error`, or what it comes from when this object is not open."""
        if self._handle is not None:
            return error
        return Closed(f"this {self._kind} {self._closed_by or 'was closed'}; make a new one")

    def _open_handle(self) -> int:
        if self._handle is None:
            raise self._explain(ValueError())
        return self._handle

    @property
    def closed(self) -> bool:
        """True after `close`, and in a process that was forked while the object was open."""
        return self._handle is None

    def _shut(self) -> int | None:
        """Takes the address away and waits for the calls that have it. A signal handler runs between calls, so this
        thread's own is none to wait for."""
        address, self._handle = self._handle, None
        me = threading.get_ident()
        while any(thread != me for thread in list(self._calls)):
            time.sleep(0.0005)
        return address

    def close(self) -> None:
        """Gives it back to the library, after the calls that other threads are in. Closing twice does nothing."""
        address = self._shut()
        destroy = self._owned.pop(address, None)
        if destroy is not None:
            destroy(address)

    def _forget(self) -> None:
        """In the child of a fork: what a thread that is not here may hold is made anew or left out."""
        self._owned.clear()
        self._calls.clear()
        if self._handle is not None:
            self._handle = None
            self._closed_by = "belongs to the process that forked this one"

    def __del__(self, _gone: list[str] = gone) -> None:
        if not _gone and self.__dict__.get("_handle") is not None:
            self.close()

    def __reduce__(self) -> NoReturn:
        refuse_to_pickle(f"a gpureplay {self._kind}")


def refuse_to_pickle(what: str) -> NoReturn:
    """What copy and pickle ask for cannot be given."""
    raise TypeError(f"{what} cannot be copied or pickled: it lies in a device's memory and belongs to this process")


def start_work() -> None:
    """From now on this process may have threads of the library's (helpers, BLAS, CUDA)."""
    _at_work.append("")


def refuse_after_fork() -> None:
    """Raises in a child whose parent's library had threads: they are not in this process, and work that waits for them
    would wait for ever."""
    if gone:
        raise Closed("the process that forked this one had used gpureplay, and the library's threads are not here: "
                     "start this process with multiprocessing's \"spawn\" or \"forkserver\", or use gpureplay only "
                     "after the fork")


def _forget_all() -> None:
    """In the child of a fork. Its copies of locks and queues may be held by threads that it does not have, so nothing
    of the parent's is touched again."""
    global _lock
    _lock = threading.Lock()
    if _at_work:
        gone.append("fork")
    for handle in list(_alive):
        handle._forget()


os.register_at_fork(after_in_child=_forget_all)
