# SPDX-License-Identifier: MIT
"""README's Python, run as it stands there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def test_readme_has_python():
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs(block):
    pytest.importorskip("gymnasium")
    names = {}
    exec(compile(block, str(README), "exec"), names)
    assert len(names["batch"]) == 256 and names["agent"].stats.steps_enqueued == 1600
