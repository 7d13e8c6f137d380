# SPDX-License-Identifier: MIT
"""This repository's buffer, each frame of a stack kept once."""

from __future__ import annotations

from typing import Any

from .base import Rows
from .ours import Ours

MOST = 512  # of a draw


class OursFrames(Ours):
    as_used = ("ReplayBuffer(capacity, fields, layout=\"linked\", frame_stack=4, stack_axis=\"last\", "
               "stack_pad=\"repeat\"); `add` is given whole stacks, obs and next_obs.")

    def options(self) -> dict[str, Any]:
        return {"layout": "linked", "frame_stack": 4, "stack_axis": "last", "stack_pad": "repeat",
                "max_batch": min(MOST, self.capacity // 2)}

    def fill(self, rows: Rows) -> None:
        for i in range(len(rows["reward"])):
            self._buffer.add(**{name: array[i] for name, array in rows.items()})


CONTESTANT = OursFrames
