# SPDX-License-Identifier: MIT
"""Signals in the midst of a call of the library's that calls Python back, such as a save that tells its progress.

Python runs a signal's handler where it next runs Python code, which is then the function that the library calls. What a
handler raises there (KeyboardInterrupt, at Ctrl-C) would be printed and lost, for it cannot pass through C.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_Handler = Callable[[int, "FrameType | None"], Any]


def says_stop(answer: Any) -> bool:
    """Whether a progress function's answer ends the call: False does, also as NumPy's; None does not."""
    return answer is not None and not answer


class Kept:
    """While this is entered, what handlers of signals raise is kept in `raised`, in the order of time. They run as
    always. Leaving it raises nothing: that is for the caller to do."""

    def __init__(self) -> None:
        self.raised: list[BaseException] = []
        self._handlers: dict[int, tuple[_Handler, _Handler]] = {}  # theirs, ours

    @property
    def hears(self) -> bool:
        """Whether this thread is the one where handlers run, and there are any."""
        return bool(self._handlers)

    def _wrap(self, number: int, handler: _Handler) -> None:
        def keep(received: int, frame: FrameType | None) -> None:
            try:
                handler(received, frame)
            except BaseException as error:
                self.raised.append(error)

        self._handlers[number] = handler, keep
        signal.signal(number, keep)

    def __enter__(self) -> Kept:
        if threading.current_thread() is not threading.main_thread():
            return self
        try:
            for number in signal.valid_signals():
                handler = signal.getsignal(number)
                if callable(handler):
                    self._wrap(number, handler)
        except ValueError:  # the main thread of an interpreter that is not the main one
            self._restore()
        except BaseException:
            self._restore()
            raise
        return self

    def _restore(self) -> None:
        """SIGINT last: as soon as it is Python's own again, it may raise."""
        for number in sorted(self._handlers, key=lambda number: number == signal.SIGINT):
            theirs, ours = self._handlers[number]
            if signal.getsignal(number) is ours:
                signal.signal(number, theirs)
        self._handlers.clear()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._restore()
