# SPDX-License-Identifier: MIT
"""The package of this tree, on the library that GPUREPLAY_LIBRARY names; the same examples in every run."""

import itertools
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src/python"))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what is in its background without one
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def seeds_from_zero(monkeypatch):
    """The buffers of a test have the same seeds whatever ran before it."""
    for module in "_buffer", "_lanes":
        monkeypatch.setattr(f"gpureplay.{module}._seeds", itertools.count())
