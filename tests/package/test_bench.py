# SPDX-License-Identifier: MIT
"""One short run of each benchmark on the CPU, and of the scripts that read the reports: all end well, and each report
has times. The figures themselves are not checked, but the verdicts of learning runs are.

usage: test_bench.py PROGRAM...
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
SHORT = {"bench_training": ("--quick", "--batch", "8"), "bench_ablation": ("--quick", "--env", "CartPole-v1")}


def run(*command, status=0, folder=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == status, f"{command}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def measure(program, folder):
    path = folder / f"{program.name}.json"
    run(program, "--json", path, *SHORT.get(program.name, ("--quick", "--rounds", "6")), folder=folder)
    assert json.loads(path.read_text())["interrupted"] == 0, program
    assert re.search(r'"seconds": *\[?\s*\d*\.?\d*[1-9]', path.read_text()), f"{program}: no time in {path.name}"
    if program.name == "bench_ablation":
        acts = {case["variant"]: case["act"] for case in json.loads(path.read_text())["cases"]}
        assert acts == {"Standard": "latest", "Concurrent": "target", "Synchronized": "latest", "Both": "target"}, acts
    run(program, "--sede", "3", status=2)


def collect_learning(folder, experiment, systems, seeds):
    """Runs whose last episodes return as much in all systems, and whose evaluations are less in the first one; the
    verdicts of the table."""
    script, out = BENCH / "run" / "learning.py", folder / experiment
    out.mkdir()
    for game in ("MinAtar/Breakout", "MinAtar/Freeway"):
        name = f"Random {game[8:]}.json"
        (out / name).write_text(json.dumps({"system": "Random", "game": game, "returns": [0.4, 0.6]}))
        for i, system in enumerate(systems):
            for seed in seeds:
                one = {"system": system, "game": game, "seed": seed, "settings": {"steps": 300_000}, "seconds": 1.0,
                       "episodes": [[0, 0.5], [299_000, 5 + seed % 2 / 10]], "evaluated": 5 + seed % 2 / 10 - (i == 0)}
                (out / f"{game[8:]} {i} {seed}.json").write_text(json.dumps(one))
    file = out.with_suffix(".json")
    run(sys.executable, script, "collect", "--experiment", experiment, "--out", out, file)
    head = json.loads(file.read_text())
    assert head["commit"] == os.environ["GPUREPLAY_COMMIT"] and head["when"] and head["machine"]["cpu"], head
    table = run(sys.executable, script, "table", "--experiment", experiment, file)
    return re.findall(r"(\w+) \|$", table[table.index("criterion"):], flags=re.M)[1:]


def main():
    programs = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program in programs:
            measure(program, folder)
        assert run(sys.executable, BENCH / "table.py", folder).count("|---|") >= len(programs)
        os.environ["GPUREPLAY_COMMIT"] = "that of the runs"
        ours = ["Both, W = 8", "Standard, W = 1", "Stable-Baselines3"]
        both = ["holds", "fails", "holds", "fails", "holds", "holds"]  # minus either of the others; and these two
        assert collect_learning(folder, "fast-dqn", ours, range(1, 17)) == 2 * both
        lambdas = [f"lambda {value}" for value in ("0", "0.25", "0.5", "0.75", "1")]
        assert collect_learning(folder, "dqn-lambda", [*lambdas, "DQN"], range(1, 13)) == ["holds", "fails"]
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
                run(python, BENCH / "plot.py", folder)
                break
    print(f"test_bench: {len(programs)} programs")


main()
