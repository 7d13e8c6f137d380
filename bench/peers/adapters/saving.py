# SPDX-License-Identifier: MIT
"""What a contestant of saving and loading has to do, beside what every contestant has to."""

from __future__ import annotations

import abc
import os
import tempfile
from pathlib import Path

from workloads import Schema

from .base import Adapter, Settings


class Saving(Adapter):
    """`save` and `load` are timed: all rows, to files in `folder`, which is its own and goes when it is closed."""

    def __init__(self, schema: Schema, capacity: int, chunk: int, settings: Settings):
        super().__init__(schema, capacity, chunk, settings)
        self._folder = tempfile.TemporaryDirectory()

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def flush(self) -> None:
        """What was saved is on the disk: the same for all, whether `save` sees to that or not."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())

    @abc.abstractmethod
    def save(self) -> None:
        """Over what was saved before."""

    @abc.abstractmethod
    def load(self, folder: Path) -> None:
        """What such a contestant saved in its folder, in place of the rows that are there."""

    def close(self) -> None:
        super().close()
        self._folder.cleanup()
