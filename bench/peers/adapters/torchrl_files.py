# SPDX-License-Identifier: MIT
"""TorchRL's files."""

from __future__ import annotations

from pathlib import Path

from .saving import Saving
from .torchrl_buffer import TorchRL


class TorchRLFiles(Saving, TorchRL):
    as_used = "`dumps` and `loads`: a folder of memory-mapped files, one a field; no checksum, no fsync."

    def save(self) -> None:
        self._buffer.dumps(self.folder / "replay")

    def load(self, folder: Path) -> None:
        self._buffer.loads(folder / "replay")


CONTESTANT = TorchRLFiles
