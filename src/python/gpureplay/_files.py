# SPDX-License-Identifier: MIT
"""Saving and loading."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from . import _mirror, _signals
from ._handle import Handle
from ._library import GpureplayError, check, lib

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


def encoded(path: str | os.PathLike[str]) -> bytes:
    """As the library takes it. ValueError: it has a NUL, where the library would take it to end."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"path is {path!r}; it must have no NUL")
    return name


def file_info(path: str | os.PathLike[str]) -> FileInfo:
    """What is in a file of `save` or `save_weights`, or in any safetensors file. FileError: it is none."""
    got = _mirror.CheckpointInfo()
    check(lib.gpur_checkpoint_get_info(encoded(path), ctypes.addressof(got)))
    kind, version, *numbers = (getattr(got, name) for name in FileInfo._fields)
    return FileInfo(kind.decode(), version.decode(), *numbers)


def call(handle: Handle, function: Any, path: str | os.PathLike[str], progress: Progress | None,
         ended: Callable[[GpureplayError | None], None] | None = None,
         around: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
    """function(handle, path), whose progress is told. An exception in `progress`, or in the handler of a signal
    (Ctrl-C), ends it and is raised. It is called inside `around`; `ended` is called with the library's refusal, or
    None, before anything is raised."""
    name, options, refusal = encoded(path), _mirror.CheckpointOptions(), None
    with _signals.Kept() as kept, around():
        raised = kept.raised

        def tell(_: int | None, done: int, in_all: int) -> int:
            try:
                stop = progress is not None and _signals.says_stop(progress(done, in_all))
            except BaseException as error:
                raised.append(error)
                stop = True
            return int(stop or bool(raised))

        listener = _mirror.PROGRESS_FN(tell)
        if progress is not None or kept.hears:
            options.progress = ctypes.cast(listener, ctypes.c_void_p)
        try:
            handle._call(function, name, ctypes.addressof(options))
        except GpureplayError as error:
            refusal = error
        if ended is not None:
            ended(refusal)
    if raised:
        raise raised[0]
    if refusal is not None:
        raise refusal
