# SPDX-License-Identifier: MIT
"""The Python programs of README.md and docs/python.md, run as they are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks_of(path):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / path).read_text(encoding="utf-8"), re.M | re.S)


README, GUIDE = blocks_of("README.md"), blocks_of("docs/python.md")


def names_of(block):
    names = {}
    exec(compile(block, "a document", "exec"), names)
    return names


def test_every_block_of_python_is_tested():
    assert len(README) == 2
    assert len(GUIDE) == 2  # test_torchrl.py runs the second


def test_the_learner_trains():
    pytest.importorskip("gymnasium")
    names = names_of(README[0])
    assert len(names["batch"]) == 256 and names["agent"].stats.steps_enqueued == 1600


def test_frames_by_priority():
    pytest.importorskip("gymnasium")
    names = names_of(README[1])
    assert names["batch"].obs.shape == (32, 4, 4) and names["buffer"].stats.frames_stored < 450
    assert names["buffer"].priority_stats.updates == 32


def test_the_replay_alone_prints_what_is_said(capsys):
    names = names_of(GUIDE[0])
    assert capsys.readouterr().out == ("500 False True (32, 84, 84, 4)\n"
                                       + re.search(r"print\(error\)  # (.*)", GUIDE[0])[1] + "\n")
    assert (names["buffer"].gather(names["ids"]).action == names["old"].action).all()
