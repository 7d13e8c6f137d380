# SPDX-License-Identifier: MIT
"""The paths of data sets: what is refused there, in the words of the functions that take them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

MINARI_ID = re.compile(r"([-\w]+/)*[-\w]+-v\d+")
_WANTED = "it must be in a folder that is there, can be written, and has room"


def path_of(name: str, given: Any) -> str:
    """TypeError: it is no path."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"{name} is {given!r}; it must be a path")
    return str(os.fspath(given))


def file_to_read(name: str, given: Any, wanted: str) -> str:
    """The path of a file. FileNotFoundError, IsADirectoryError: it is not there, or a folder."""
    path = path_of(name, given)
    if os.path.isdir(path):
        raise IsADirectoryError(f"{name} is {path!r}, which is a folder; it must be {wanted}")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{name} is {path!r}, which is not there; it must be {wanted}")
    return path


@contextlib.contextmanager
def writing(name: str, path: str, wanted: str = _WANTED) -> Iterator[None]:
    """OSError of what cannot be written, in words, without the name of a file that the caller did not give."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # the latter is h5py's
        number = getattr(error, "errno", None)
        found = re.search(r"errno[ =]+(\d+)", str(error))
        number = int(found[1]) if number is None and found else number
        reason = "no reason is told" if number is None else os.strerror(number)
        raise (type(error) if isinstance(error, OSError) else OSError)(
            f"{name} is {path!r}, which cannot be written ({reason}); {wanted}") from error


class Replacing:
    """A file that becomes the one at `path` when it is complete. Nothing of it stays if not."""

    def __init__(self, given: Any):
        self.path = path_of("path", given)
        self.part = f"{self.path}.part"

    def writing(self) -> contextlib.AbstractContextManager[None]:
        return writing("path", self.path)

    def written(self, write: Callable[..., Any]) -> Callable[..., Any]:
        """A function that writes, with errors in words."""
        def call(*arguments: Any, **more: Any) -> Any:
            with self.writing():
                return write(*arguments, **more)
        return call

    def __enter__(self) -> Replacing:
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"path is {self.path!r}, which is a folder; it must be that of a file")
        with self.writing(), open(self.part, "wb"):
            pass
        return self

    def __exit__(self, _kind: Any, error: BaseException | None, *_: Any) -> None:
        try:
            with self.writing():
                if error is None:
                    os.replace(self.part, self.path)
                elif self.part in str(error):  # of a library that closes the file
                    raise error
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.part)
