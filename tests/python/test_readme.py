# SPDX-License-Identifier: MIT
"""README's Python, run as it stands there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def names_of(block):
    names = {}
    exec(compile(block, str(README), "exec"), names)
    return names


def test_every_block_of_python_is_tested():
    assert len(BLOCKS) == 3


def test_the_learner_trains():
    pytest.importorskip("gymnasium")
    names = names_of(BLOCKS[0])
    assert len(names["batch"]) == 256 and names["agent"].stats.steps_enqueued == 1600


def test_the_replay_alone_prints_what_is_said(capsys):
    names = names_of(BLOCKS[1])
    assert capsys.readouterr().out == ("500 False True (32, 84, 84, 4)\n"
                                       + re.search(r"print\(error\)  # (.*)", BLOCKS[1])[1] + "\n")
    assert (names["buffer"].gather(names["ids"]).action == names["old"].action).all()


def test_frames_by_priority():
    pytest.importorskip("gymnasium")
    names = names_of(BLOCKS[2])
    assert names["batch"].obs.shape == (32, 4, 4) and names["buffer"].stats.frames_stored < 450
    assert names["buffer"].priority_stats.updates == 32
