# SPDX-License-Identifier: MIT
"""bench_contest, all of it in its quick form: every contestant in every experiment, and numbers that can be true.

usage: test_contest.py bench_contest
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

RAM = ["in-RAM, as in the paper", "in-RAM, done well"]
STEPS = [*RAM, "in-device, a call a step", "in-device"]
ENTRANTS = {
    "train step": STEPS,
    "train step while threads append": STEPS,
    "append": [*RAM, "in-device, 16 a call", "in-device"],
    "start-up": [*RAM, "in-device"],
    "memory": [*RAM, "in-device"],
}
ROW, CAPACITY = 228, 1_000_000


def run(program, folder):
    path = Path(folder) / "contest.json"
    done = subprocess.run([program, "--quick", "--rounds", "6", "--json", path], capture_output=True, text=True)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return json.loads(path.read_text(encoding="utf-8")), done.stdout


def check_spread(where, entrant):
    e = entrant
    assert 0 < e["min"] <= e["low"] <= e["seconds"] <= e["high"] <= e["max"], f"{where}: {e}"
    assert e["runs"] == len(e["samples"]) >= 6, f"{where}: {e['runs']} runs, {len(e['samples'])} samples"
    assert abs(sorted(e["samples"])[e["runs"] // 2] - e["seconds"]) <= 1e-3 * e["seconds"] or e["runs"] % 2 == 0, where


def check_match(case):
    names = [entrant["entrant"] for entrant in case["entrants"]]
    assert names == ENTRANTS[case["figure"]] and case["reference"] == "in-device", f"{case['name']}: {names}"
    for entrant in case["entrants"]:
        check_spread(f"{case['name']}, {entrant['entrant']}", entrant)
    assert case["entrants"][-1]["ratio"] == 1, case["name"]


def check_memory(case):
    of = {entrant["entrant"]: entrant for entrant in case["entrants"]}
    assert list(of) == ENTRANTS["memory"], list(of)
    assert of["in-device"]["device_bytes"] >= CAPACITY * 256 and of["in-device"]["host_bytes"] == 0, of
    for name in RAM:
        assert of[name]["host_bytes"] >= CAPACITY * ROW and of[name]["device_bytes"] < 32e6, of
    assert of[RAM[0]]["host_bytes"] > of[RAM[1]]["host_bytes"], "allocations of their own cost more than rows"


def check_roofline(cases):
    assert len(cases) == 3, [case["name"] for case in cases]
    for case in cases:
        moved = case["bytes_up"] + case["bytes_within"] + case["flops"]
        assert case["seconds"] > 0 and case["bound_seconds"] > 0 and moved > 0, case


def check_deal(cases, said):
    of = {case["name"]: case for case in cases if case["name"].endswith(", batch 32") and "figure" not in case}
    deal, step = of["a copy, and a draw out of the cache, batch 32"], of["train step, in-RAM, done well, batch 32"]
    assert 0 < deal["seconds"] < step["seconds"], of
    share = 100 * deal["seconds"] / step["seconds"]
    told = float(said.split("dealing out the rows of a host batch take at most ")[1].split(" %")[0])
    assert abs(told - share) <= 0.02, (told, share)


def main():
    with tempfile.TemporaryDirectory() as folder:
        document, said = run(sys.argv[1], folder)
    figures = {}
    for case in document["cases"]:
        figures.setdefault(case.get("figure"), []).append(case)
    for figure in ("train step", "train step while threads append", "append", "start-up"):
        assert figures.get(figure), f"no {figure} in {sorted(map(str, figures))}"
        for case in figures[figure]:
            check_match(case)
    assert [case["x"] for case in figures["start-up"]] == [0, CAPACITY]
    check_memory(*figures["memory"])
    check_roofline(figures["roofline"])
    check_deal(document["cases"], said)
    for key in ("settings", "build", "system", "driver", "commit", "when"):
        assert document[key], f"{key} is missing"
    assert "it does not show\nwhat keeping replay on a GPU gains" in said, "on the CPU it tells what that does not show"
    print(f"test_contest: {len(document['cases'])} cases, every contestant in each")


main()
