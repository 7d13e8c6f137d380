# SPDX-License-Identifier: MIT
"""One short run of each comparison with other libraries, without the others: it ends well and reports times."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.environ.get("GPUREPLAY_FAST") == "off", reason="once is enough: with _fast")


def run(tmp_path, script, *options):
    """Its report."""
    path = tmp_path / "report.json"
    command = [sys.executable, str(ROOT / "bench/peers" / script), "--quick", "--only", "gpureplay", "--json",
               str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src/python")})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(path.read_text())


def test_replay_beside_others(tmp_path):
    report = run(tmp_path, "peers.py", "--kinds", "uniform,prioritized", "--rounds", "30")
    assert not report["interrupted"] and report["cases"]
    assert all(case["results"]["gpureplay"]["seconds"]["median"] > 0 for case in report["cases"])


def test_train_steps_beside_others(tmp_path):
    report = run(tmp_path, "steps/steps.py", "--networks", "melee-gpu", "--rounds", "6")
    assert not report["interrupted"] and report["cases"]
