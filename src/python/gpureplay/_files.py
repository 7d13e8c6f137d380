# SPDX-License-Identifier: MIT
"""Saving and loading."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _mirror
from ._handle import Handle
from ._library import check, lib

Progress = Callable[[int, int], Any]


class FileInfo(NamedTuple):
    """What a file says of itself. What a file of its kind does not have is -1. include/gpureplay/checkpoint.h has
    each."""

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


def file_info(path: str | os.PathLike[str]) -> FileInfo:
    """What is in a file of `save` or `save_weights`, or in any safetensors file. FileError: it is none."""
    got = _mirror.CheckpointInfo()
    check(lib.gpur_checkpoint_get_info(os.fsencode(path), ctypes.addressof(got)))
    kind, version, *numbers = (getattr(got, name) for name in FileInfo._fields)
    return FileInfo(kind.decode(), version.decode(), *numbers)


def call(handle: Handle, function: Any, path: str | os.PathLike[str], progress: Progress | None) -> None:
    """function(handle, path), whose progress is told. An exception in `progress` ends it, and is raised."""
    options, raised = _mirror.CheckpointOptions(), []

    def tell(_: int | None, done: int, in_all: int) -> int:
        try:
            stop = progress is not None and progress(done, in_all) is False
        except BaseException as error:
            raised.append(error)
            stop = True
        return int(stop)

    listener = _mirror.PROGRESS_FN(tell)
    if progress is not None:
        options.progress = ctypes.cast(listener, ctypes.c_void_p)
    try:
        handle._call(function, os.fsencode(path), ctypes.addressof(options))
    finally:
        if raised:
            raise raised[0]
