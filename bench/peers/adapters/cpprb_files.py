# SPDX-License-Identifier: MIT
"""cpprb's files."""

from __future__ import annotations

from pathlib import Path

from .cpprb_buffer import Cpprb
from .saving import Saving


class CpprbFiles(Saving, Cpprb):
    as_used = "`save_transitions` and `load_transitions`: NumPy's npz; no checksums but zip's own, no fsync."

    def save(self) -> None:
        self._buffer.save_transitions(str(self.folder / "replay.npz"))

    def load(self, folder: Path) -> None:
        self._buffer.clear()
        self._buffer.load_transitions(str(folder / "replay.npz"))


CONTESTANT = CpprbFiles
