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


@pytest.mark.parametrize("command", ["peers.py --kinds uniform,prioritized,files", "steps/steps.py"])
def test_a_short_run_reports_times(tmp_path, command):
    path = tmp_path / "report.json"
    script, *options = command.split()
    words = [sys.executable, str(ROOT / "bench/peers" / script), "--quick", "--only", "gpureplay", "--rounds", "6",
             "--json", str(path), *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src/python")})
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(path.read_text())
    assert not report["interrupted"] and report["cases"]
    assert all(case["variants"][0]["seconds"] > 0 for case in report["cases"])
