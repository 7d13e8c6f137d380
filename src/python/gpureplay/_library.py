# SPDX-License-Identifier: MIT
"""Finds and loads libgpureplay once, and turns its statuses into exceptions."""

from __future__ import annotations

import ctypes.util
import os
import sys
from pathlib import Path

from . import _mirror

VARIABLE = "GPUREPLAY_LIBRARY"
FILE = "libgpureplay.so"
REBUILD = "pip install --force-reinstall --no-cache-dir ."  # in the sources' folder: builds with what is there now


class GpureplayError(Exception):
    """The library refused or failed; the text is its own. Base of all below."""


class InvalidArgument(GpureplayError, ValueError):
    """A value is out of its range. Nothing has changed."""


class OutOfMemory(GpureplayError, MemoryError):
    """It does not fit; the text has the bytes wanted and the bytes there are."""


class TooFew(GpureplayError, LookupError):
    """Fewer transitions are there than the draw needs. Nothing has changed."""


class Evicted(GpureplayError, LookupError):
    """A transition of this id was there and has been overwritten. Nothing has changed."""


class WouldBlock(GpureplayError):
    """Every staging block is in use, or someone else holds the batch, and the caller asked not to wait."""


class Unavailable(GpureplayError, RuntimeError):
    """Not in this build, or not on this machine; the text says how to get it."""


class FileError(GpureplayError, OSError):
    """A file cannot be written or read, or is not what was written; nothing has changed."""


class Interrupted(GpureplayError, RuntimeError):
    """The progress function ended it. A file, or what it was to be loaded into, is as it was."""


class DeviceError(GpureplayError, RuntimeError):
    """The device failed: close what lives on it."""


class Closed(GpureplayError, ValueError):
    """The object was closed, or belongs to the process that forked this one."""


_EXCEPTIONS = {
    _mirror.INVALID_ARGUMENT: InvalidArgument,
    _mirror.OUT_OF_MEMORY: OutOfMemory,
    _mirror.TOO_FEW: TooFew,
    _mirror.WOULD_BLOCK: WouldBlock,
    _mirror.UNAVAILABLE: Unavailable,
    _mirror.FILE_ERROR: FileError,
    _mirror.INTERRUPTED: Interrupted,
    _mirror.EVICTED: Evicted,
}


def _find() -> str:
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise ImportError(f"{VARIABLE} is {named!r}, where there is no file; it must be the path of {FILE}")
        return named
    folders = sys.modules[__name__.rpartition(".")[0]].__path__  # two, where `pip install -e` was used
    for folder in folders:
        if Path(folder, FILE).is_file():
            return str(Path(folder, FILE))
    installed = ctypes.util.find_library("gpureplay")
    if installed:
        return installed
    raise ImportError(f"no {FILE} in {' or '.join(folders)}, and the loader knows none; install the package with "
                      f"`pip install .`, or set {VARIABLE} to the path of one that you built")


path = _find()
lib = _mirror.load(path)


def last_error() -> str:
    """This thread's last refusal, in the library's words."""
    text: bytes = lib.gpur_last_error()
    return text.decode("utf-8", "replace")


def failed(status: int) -> GpureplayError:
    """The exception for a status that is not OK."""
    text = last_error()
    if status == _mirror.UNAVAILABLE and "build again" in text:
        text += f". The Python package: `{REBUILD}` in the folder of its sources configures and builds it"
    return _EXCEPTIONS.get(status, DeviceError)(text)


def check(status: int) -> None:
    """Raises what `status` means, if it is not OK."""
    if status != _mirror.OK:
        raise failed(status)
