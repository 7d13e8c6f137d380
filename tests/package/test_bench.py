# SPDX-License-Identifier: MIT
"""One short run of each benchmark on the CPU, and of the scripts that read what benchmarks write: all end well, every
figure is a time, and tables and a picture are made. The figures themselves are not checked.

usage: test_bench.py PROGRAM...
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
SHORT = {"bench_training": ("--quick", "--batch", "8")}


def run(*command, statuses=(0,), folder=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode in statuses, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def seconds_in(report):
    """All numbers of seconds, wherever they are in a report."""
    if isinstance(report, list):
        return [x for part in report for x in seconds_in(part)]
    if not isinstance(report, dict):
        return []
    own = report.get("seconds", [])
    return (own if isinstance(own, list) else [own]) + [x for part in report.values() for x in seconds_in(part)]


def measure(program, folder):
    path = folder / f"{program.name}.json"
    run(program, "--json", path, *SHORT.get(program.name, ("--quick", "--rounds", "6")), folder=folder)
    report = json.loads(path.read_text())
    times = seconds_in(report)
    assert report["interrupted"] == 0 and times, program
    assert all(math.isfinite(x) and x >= 0 for x in times) and any(times), program
    run(program, "--sede", "3", statuses=(2,))


def main():
    programs = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program in programs:
            measure(program, folder)
        assert run(sys.executable, BENCH / "table.py", folder).count("|---|") >= len(programs)
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
                run(python, BENCH / "plot.py", folder)
                assert any(path.read_bytes().startswith(b"\x89PNG") for path in folder.glob("*.png"))
                break
    print(f"test_bench: {len(programs)} programs")


main()
