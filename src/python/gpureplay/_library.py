# SPDX-License-Identifier: MIT
"""The loaded libgpureplay, and its statuses as exceptions."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from . import _c_api
from ._load import load
from ._words import in_python

_TEXT_BYTES = 1 << 16
VARIABLE = "GPUREPLAY_LIBRARY"
FILE = "libgpureplay.so"
REBUILD = "pip install --force-reinstall --no-cache-dir ."  # in the folder of the sources


class GpureplayError(Exception):
    """The library refused a call or failed. The text is the library's own.
    All exceptions below derive from this.

        try:
            buffer = gpureplay.ReplayBuffer.for_env(10**6, env, device="cuda:0")
        except gpureplay.Unavailable as error:    # there is no GPU, or the library was built without CUDA
            print(error)
        except gpureplay.OutOfMemory as error:    # the text has the capacity that fits
            print(error)

        try:
            batch = buffer.gather(ids)
        except (gpureplay.Evicted, gpureplay.TooFew) as error:
            print(error)
    """


class InvalidArgument(GpureplayError, ValueError):
    """A value is out of its range.
    Nothing has changed.

        try:
            agent = gpureplay.DQN(buffer, num_actions=2, batch_size=0)
        except gpureplay.InvalidArgument as error:
            print(error)                          # the value given, and the values that are allowed
    """


class OutOfMemory(GpureplayError, MemoryError):
    """There is not enough memory. The text has the bytes wanted and the bytes available."""


class TooFew(GpureplayError, LookupError):
    """The buffer has fewer transitions than the call needs. Nothing has changed."""


class Evicted(GpureplayError, LookupError):
    """The transition of this id has been overwritten. Nothing has changed."""


class WouldBlock(GpureplayError):
    """The call would have to wait:
    every staging block is in use, or another reference to the batch exists.

        batch = buffer.sample(32)
        view = batch.array("obs")                 # another reference
        try:
            buffer.sample(32, out=batch)
        except gpureplay.WouldBlock:
            batch = buffer.sample(32)
    """


class Unavailable(GpureplayError, RuntimeError):
    """The feature is not in this build, or not on this machine. The text says how to get it."""


class FileError(GpureplayError, OSError):
    """A file cannot be written or read, or is damaged.
    Nothing has changed.

        try:
            buffer.load("replay.safetensors")
        except gpureplay.FileError as error:
            print(error)
    """


class Interrupted(GpureplayError, RuntimeError):
    """The progress function ended the call.
    The file, or the object to load into, is as it was.

        try:
            buffer.save("replay.safetensors", progress=lambda done, total: done < 1000)
        except gpureplay.Interrupted:
            print("there is no new file")
    """


class DeviceError(GpureplayError, RuntimeError):
    """The device failed.
    Close everything that uses it.

        try:
            agent.train(1000)
            agent.sync()
        except gpureplay.DeviceError as error:
            sys.exit(f"the GPU failed: {error}")
    """


class Closed(GpureplayError, ValueError):
    """The object was closed,
    or belongs to the process that forked this one.

        buffer.close()
        try:
            buffer.sample(32)
        except gpureplay.Closed as error:
            print(error)
    """


_EXCEPTIONS = {
    _c_api.INVALID_ARGUMENT: InvalidArgument, _c_api.OUT_OF_MEMORY: OutOfMemory, _c_api.TOO_FEW: TooFew,
    _c_api.WOULD_BLOCK: WouldBlock, _c_api.UNAVAILABLE: Unavailable, _c_api.FILE_ERROR: FileError,
    _c_api.INTERRUPTED: Interrupted, _c_api.EVICTED: Evicted,
}


def _find() -> str:
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise ImportError(f"{VARIABLE} is {named!r}, where there is no file; it must be the path of {FILE}")
        return named
    folders = sys.modules[__name__.rpartition(".")[0]].__path__  # there are two after `pip install -e`
    for folder in folders:
        if Path(folder, FILE).is_file():
            return str(Path(folder, FILE))
    installed = ctypes.util.find_library("gpureplay")
    if installed:
        return installed
    raise ImportError(f"no {FILE} in {' or '.join(folders)}, and the loader knows none; install the package with "
                      f"`pip install .`, or set {VARIABLE} to the path of one that you built")


path = _find()
lib = load(path)


def last_error() -> str:
    """The library's text about the last error in this thread."""
    text: bytes = lib.gpur_last_error()
    return text.decode("utf-8", "replace")


def in_c(name: str, text: str | os.PathLike[str]) -> bytes:
    """The text of this argument in C. ValueError: it has a NUL, at which C would end it."""
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError(f"{name} is {text!r}; it must have no NUL")
    return encoded


def texts_in_c(texts: Sequence[bytes]) -> Any:
    """An array of them, ended by NULL."""
    return (ctypes.c_char_p * (len(texts) + 1))(*texts)


def names_from(function: Callable[[int], bytes | None]) -> Iterator[str]:
    """What the library lists: the names for 0, 1, ... until there is none."""
    return (name.decode() for name in iter(map(function, itertools.count()).__next__, None) if name is not None)


_NOT_FINITE = ("its numbers must be finite", "it must be a finite number")  # words of the library

_TAKE_THEM = ", or say check_nan=False"


def tells_not_finite(text: str) -> bool:
    """Whether these are the library's words about a number that is not finite."""
    return any(words in text for words in _NOT_FINITE)


def with_advice(text: str) -> str:
    """The library's words about a number that is not finite, with the setting that takes it."""
    for words in _NOT_FINITE:
        if _TAKE_THEM not in text:  # as in the text of an actor
            text = text.replace(words, words + _TAKE_THEM)
    return text


class Advice(NamedTuple):
    """How one calls, at the door that was used, the settings that help most often where a learner has diverged.
    reward_clip None: there is no such setting. "{network}" is "actor" or "critic", where there are two networks.
    own_rates: by network ("" if there is one), how its learning rate was given, if not by `learning_rate`."""

    learning_rate: str = "learning_rate"
    clip_norm: str = "clip_norm"
    reward_clip: str | None = "the buffer's reward_clip"
    own_rates: Mapping[str, str] = MappingProxyType({})

    def reword(self, text: str) -> str:
        """The library's words, with those of this door in place of the library's own."""
        found = _DIVERGED.search(text)
        if found is None:
            return text
        network = found["network"] or ""
        ways = [f"to lower {self.own_rates.get(network, self.learning_rate)}, now {found['rate']}",
                f"to limit the gradient by {self.clip_norm}, now {found['norm']}",
                "or to scale rewards" if self.reward_clip is None else
                f"or to scale rewards or clip them by {self.reward_clip}{found['clip'] or ''}"]
        return text[:found.start("ways")] + ", ".join(ways).replace("{network}", network)


def for_program(text: str) -> str:
    """The words of `train` without those about settings that the program does not have."""
    return text.replace(_TAKE_THEM, "")


_DIVERGED = re.compile(r"(?:(?P<network>actor|critic): )?the learner has diverged: .* It helps most often "
                       r"(?P<ways>to lower learning_rate, now (?P<rate>\S+), to limit the gradient by clip_norm, now "
                       r"(?P<norm>\S+(?: \(none\))?), or to scale rewards or clip them"
                       r"(?: by reward_clip(?P<clip>, now .*))?)$")


def failed(status: int) -> GpureplayError:
    """The exception for a status other than OK."""
    text = with_advice(in_python(last_error()))
    if status == _c_api.UNAVAILABLE and "build again" in text:
        text += f". The Python package: `{REBUILD}` in the folder of its sources configures and builds it"
    return _EXCEPTIONS.get(status, DeviceError)(text)


def check(status: int) -> None:
    """Raises the exception for a status other than OK."""
    if status != _c_api.OK:
        raise failed(status)


def text_by(function: Callable[..., int], *arguments: Any) -> str:
    """What the library's function, whose last arguments are memory and its bytes, writes."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    check(function(*arguments, text, _TEXT_BYTES))
    return text.value.decode("utf-8", "replace")
