# SPDX-License-Identifier: MIT
"""What a training shows: the line of progress, and lines of its own."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
import warnings
from collections.abc import Callable

from ._device import caller_depth

_LOOK_SECONDS = 1.0  # between two looks
_PRINT_SECONDS = 30.0  # between lines where there is no terminal


def show(text: str, end: str = "\n") -> None:
    """Prints the text. A failing write is ignored, so that a training goes on when the reader of its output has ended
    (Ctrl-C also ends `tee`) or the terminal was closed."""
    with contextlib.suppress(OSError):
        print(text, end=end, flush=True)


class Progress:
    """look: the library's next line of progress. prints: whether anything is shown."""

    def __init__(self, look: Callable[[], str], prints: bool):
        self._read, self._prints = look, prints
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._looked = self._printed = time.monotonic()
        self._has_warned = False
        self._warnings: list[str] = []  # to be given

    def look(self) -> None:
        """Shows the line, if it is time. Only in the thread that called `train`."""
        self.give_warnings()
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked, line = now, self._read()
        if not self._prints or (not self._is_terminal and now - self._printed < _PRINT_SECONDS):
            return
        self._printed = now
        if self._is_terminal:  # a line that is too long could not be drawn over
            show(f"\r\033[K{line[:shutil.get_terminal_size().columns - 1]}", end="")
        else:
            show(line)

    def say(self, line: str, end: str = "\n") -> None:
        """Prints a line of its own."""
        if self._prints:  # a folder's name may have bytes that are no text
            text = line.encode("utf-8", "replace").decode()
            show(f"\r\033[K{text}" if self._is_terminal else text, end=end)

    def warn(self, line: str, always: bool = False) -> None:
        """Prints a line of its own; where nothing is printed, the first one is a warning of Python's, and so is each
        with `always`. Any thread may call it: `look` gives the warning, so that it names the line that called
        `train`."""
        self.say(line)
        if not self._prints and (always or not self._has_warned):
            self._has_warned = True
            self._warnings.append(f"{line} (progress=True shows each such line)")

    def give_warnings(self) -> None:
        while self._warnings:
            warnings.warn(self._warnings.pop(0), RuntimeWarning, stacklevel=caller_depth())
