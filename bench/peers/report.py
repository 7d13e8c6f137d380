# SPDX-License-Identifier: MIT
"""The reports' titles, and their files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

STEPS, BUFFERS = "train steps beside each other", "replay buffers beside each other"


def write(path: str | None, head: dict[str, Any], cases: list[dict[str, Any]]) -> None:
    """All of it, with every sample; a program that is killed meanwhile leaves what was there before. None: nowhere."""
    if path is None:
        return
    text = json.dumps({**head, "cases": cases}, indent=1, ensure_ascii=False)
    beside = Path(f"{path}.part")
    beside.write_text(text + "\n", encoding="utf-8")
    os.replace(beside, path)
