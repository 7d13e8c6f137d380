# SPDX-License-Identifier: MIT
"""The benchmark of a whole training: its report, its fairness, Ctrl-C, its options. argv: program [device].

What it finds is a matter of hours and machines; here trainings are as short as can be."""

import json
import math
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = sys.argv[1]
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"
CONTESTANTS = ["in-RAM, as in the paper", "in-RAM, done well", "in-device"]
SHORT = ("--steps", "1000", "--batch", "8")


def run(*options):
    return subprocess.run([PROGRAM, "--device", DEVICE, *options], capture_output=True, text=True, timeout=100,
                          check=False)


def expect(holds, result):
    assert holds, f"status {result.returncode}\n{result.stdout}\n{result.stderr}"


def report_of(folder, *options):
    path = folder / "report.json"
    result = run("--json", str(path), *options)
    if result.returncode == 77:
        print(f"skipped: {result.stderr.strip()}")
        sys.exit(77)
    expect(result.returncode == 0, result)
    return json.loads(path.read_text()), result.stdout


def returns(report, contestant):
    return [curve["return"] for curve in report["curves"] if curve["contestant"] == contestant]


def check_curve(curve):
    assert curve["steps"] == [0, 200, 400, 600, 800, 1000], curve
    assert curve["train_steps"] == [0, 0, 200, 400, 600, 800], curve
    seconds = curve["seconds"]
    assert seconds[0] == 0 and all(later > earlier for earlier, later in zip(seconds, seconds[1:])), curve
    assert len(curve["return"]) == 6 and all(0 < value <= 10.001 for value in curve["return"]), curve


def every_contestant_takes_the_same_steps_from_the_same_beginning(folder):
    report, text = report_of(folder, *SHORT)
    assert [curve["contestant"] for curve in report["curves"]] == CONTESTANTS
    assert [curve["label"] for curve in report["curves"]] == [name + ", batch 8" for name in CONTESTANTS]
    for curve in report["curves"]:
        check_curve(curve)
    beginnings = {tuple(curve["return"][:2]) for curve in report["curves"]}  # nothing is trained until the second
    assert len(beginnings) == 1, beginnings
    assert len({tuple(curve["return"]) for curve in report["curves"]}) == 3, "they draw alike"
    assert all(name in text for name in CONTESTANTS)
    assert (report["name"], report["quick"], report["interrupted"]) == ("bench_training", 0, 0)
    assert "1000 steps" in report["settings"] and report["commit"] and report["build"]


def no_two_points_are_of_the_same_step(folder):
    """Three slices long is the play before training, which is a fifth."""
    report, _ = report_of(folder, "--steps", "3000", "--batch", "1")
    assert all(curve["steps"] == [0, *range(600, 3001, 200)] for curve in report["curves"]), report["curves"]
    assert all(curve["train_steps"][:3] == [0, 0, 200] for curve in report["curves"]), report["curves"]


def totals_are_those_of_the_curves(folder):
    report, _ = report_of(folder, *SHORT)
    base = report["curves"][0]["seconds"][-1]
    assert len(report["totals"]) == 3
    for curve, total in zip(report["curves"], report["totals"]):
        assert total["contestant"] == curve["contestant"] and total["batch"] == curve["batch"] == 8
        for name in ("steps", "train_steps", "seconds", "return"):
            assert total[name] == curve[name][-1], (name, total, curve)
        assert math.isclose(total["percent_faster"], 100 * (base / total["seconds"] - 1), abs_tol=0.02), (total, base)
    assert report["totals"][0]["percent_faster"] == 0
    assert all(total["faster_by_slices"] is None for total in report["totals"]), "five slices are too few"


def faster_is_said_slice_by_slice(folder):
    """13 slices: of 13 samples the third least to the third greatest are the interval of 95%."""
    report, text = report_of(folder, "--steps", "3000", "--batch", "1")
    base, _, device = ([b - a for a, b in zip(curve["seconds"], curve["seconds"][1:])] for curve in report["curves"])
    percent = sorted(100 * (theirs / ours - 1) for theirs, ours in zip(base, device))
    told = report["totals"][2]["faster_by_slices"]
    assert told["slices"] == len(percent) == 13, told
    for name, place in (("low", 2), ("median", 6), ("high", 10)):
        assert math.isclose(told[name], percent[place], abs_tol=0.1), (name, told, percent)
    line = next(line for line in text.splitlines() if line.startswith(CONTESTANTS[2]))
    words = re.search(r" ([-+][\d.]+)% \(([-+][\d.]+) to ([-+][\d.]+)\) ", line).groups()
    for name, word in zip(("median", "low", "high"), words):
        assert abs(told[name] - float(word)) < 0.06, (name, told, line)


def one_seed_trains_alike_and_another_does_not(folder):
    """But for the contestant whose thread draws when it has the time to."""
    first, again = report_of(folder, *SHORT)[0], report_of(folder, *SHORT)[0]
    other = report_of(folder, *SHORT, "--seed", "2")[0]
    for contestant in (CONTESTANTS[0], CONTESTANTS[2]):
        assert returns(first, contestant) == returns(again, contestant)
        assert returns(first, contestant) != returns(other, contestant)


def the_game_is_neither_trivial_nor_hopeless(folder):
    report, text = report_of(folder, *SHORT)
    assert report["return_by_chance"] < 2 and report["return_by_hand"] > 9.5, report
    assert f"by chance {report['return_by_chance']:.2f}" in text, text


def quick_takes_both_batches_and_says_that_it_is_short(folder):
    report, text = report_of(folder, "--quick")
    assert [curve["batch"] for curve in report["curves"]] == [32] * 3 + [128] * 3
    assert report["quick"] == 1 and "--quick: too short" in text


def ctrl_c_leaves_what_there_is(folder):
    path = folder / "interrupted.json"
    with subprocess.Popen([PROGRAM, "--device", DEVICE, "--batch", "8", "--json", str(path)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.split()[:1] == ["0"]:  # the first row of the table; the next is seconds away
                process.send_signal(signal.SIGINT)
                break
        rest, error = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, rest, error)
    report = json.loads(path.read_text())
    assert report["interrupted"] == 1 and len(report["curves"]) == 3
    assert all(1 <= len(curve["steps"]) < 5 for curve in report["curves"]), report
    assert report["totals"][2]["percent_faster"] is None and "train steps" in rest, (report, rest)


def wrong_options_are_refused_with_what_is_wanted():
    for options, status, words in (
        (("--steps", "999"), 2, ('--steps is "999"', "from 1000 to")),
        (("--steps", "1e5"), 2, ('"1e5"', "whole number")),
        (("--steps", ""), 2, ('--steps is ""',)),
        (("--batch", "0"), 2, ('--batch is "0"', "from 1 to 256")),
        (("--batch", "257"), 2, ('"257"',)),
        (("--seed", "-1"), 2, ('--seed is "-1"', "from 0 to")),
        (("--seed",), 2, ('"--seed"', "no value")),
        (("--sede", "3"), 2, ('"--sede" is no option', "--seed")),
        (("--json", "/proc/nowhere"), 1, ("/proc/nowhere",)),
        (("--device", "abacus"), 1, ("abacus",)),
    ):
        result = run(*options)
        expect(result.returncode == status and all(word in result.stderr for word in words), result)


def help_names_every_option():
    result = run("--help")
    expect(result.returncode == 0 and result.stderr == "", result)
    for option in ("--device", "--steps", "--batch", "--seed", "--json", "--quick"):
        expect(option in result.stdout, result)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        every_contestant_takes_the_same_steps_from_the_same_beginning(folder)
        no_two_points_are_of_the_same_step(folder)
        totals_are_those_of_the_curves(folder)
        faster_is_said_slice_by_slice(folder)
        one_seed_trains_alike_and_another_does_not(folder)
        the_game_is_neither_trivial_nor_hopeless(folder)
        quick_takes_both_batches_and_says_that_it_is_short(folder)
        ctrl_c_leaves_what_there_is(folder)
    wrong_options_are_refused_with_what_is_wanted()
    help_names_every_option()
    print(f"test_bench_training {DEVICE}: all well")


main()
