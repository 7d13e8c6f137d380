# SPDX-License-Identifier: MIT
"""bench/learning.sh over a stand-in for the training program: what it counts, when it fails, what it writes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "bench/learning.sh"

# Solves every seed but those listed, in as many seconds as the seed says.
PROGRAM = """#!/bin/bash
seed=$2 out=$8
echo "$*" >"$out.words"
mkdir -p "$out"
head=steps,episodes,train_steps,seconds,train_return,eval_return,loss,mean_q,epsilon,steps_per_second
echo "$head" >"$out/curve.csv"
echo "100,1,0,0.5,20.0,30.5,,,1,200" >>"$out/curve.csv"
echo "200,2,100,$seed.25,21.0,,0.1,1,0.9,200" >>"$out/curve.csv"
case " UNSOLVED " in *" $seed "*) exit 1 ;; esac
case " INTERRUPTED " in *" $seed "*) exit 130 ;; esac
case " BROKEN " in *" $seed "*) echo "no such device" >&2; exit 2 ;; esac
echo "300,3,200,$seed.50,22.0,488.0,0.1,1,0.8,200" >>"$out/curve.csv"
"""


def learn(folder, *options, unsolved="", broken="", interrupted=""):
    """Returns (status, lines printed, the JSON or None, what stderr said)."""
    program, out = folder / "program", folder / "out"
    program.write_text(PROGRAM.replace("UNSOLVED", unsolved).replace("BROKEN", broken)
                       .replace("INTERRUPTED", interrupted))
    program.chmod(0o755)
    shutil.rmtree(out, ignore_errors=True)
    result = subprocess.run(
        ["bash", str(SCRIPT), "--program", str(program), "--out", str(out), *options],
        capture_output=True, text=True, timeout=60, check=False,
    )
    written = out / "learning.json"
    told = json.loads(written.read_text()) if written.exists() else None
    return result.returncode, result.stdout.splitlines(), told, result.stderr


def all_solved_is_a_success_with_median_and_worst(folder):
    status, lines, written, _ = learn(folder)
    assert status == 0 and lines[-2] == "10 of 10 solved, median 6.0 s, worst 10.5 s", lines
    assert written["seeds"][2] == {"seed": 3, "solved": True, "steps": 300, "seconds": 3.5, "return": 488.0}, written
    assert len(written["seeds"]) == 10 and written["limit_seconds"] == 120


def nine_of_ten_will_do_and_eight_will_not(folder):
    status, lines, written, _ = learn(folder, unsolved="4")
    assert status == 0 and lines[-2] == "9 of 10 solved, median 6.5 s, worst 10.5 s", lines
    assert written["seeds"][3] == {"seed": 4, "solved": False, "steps": 200, "seconds": 4.25, "return": 30.5}, written
    status, lines, _, _ = learn(folder, unsolved="4 10")
    assert status == 1 and lines[-2].startswith("8 of 10 solved"), lines
    status, lines, _, _ = learn(folder, "--seeds", "2", unsolved="1 2")
    assert status == 1 and lines[-2] == "0 of 2 solved", lines


def a_refusal_ends_it_with_its_words(folder):
    status, lines, written, errors = learn(folder, "--seeds", "3", broken="2")
    assert status == 2 and "no such device" in errors and written is None and len(lines) == 1, (status, lines, errors)


def ctrl_c_keeps_the_seeds_before_it(folder):
    status, lines, written, error = learn(folder, interrupted="3")
    assert status == 130 and "interrupted in seed 3" in error, (status, error)
    assert lines[-2] == "2 of 10 solved, median 2.0 s, worst 2.5 s" and len(written["seeds"]) == 2, (lines, written)


def options_reach_the_program(folder):
    learn(folder, "--seeds", "1", "--device", "cuda:7", "--seconds", "33")
    words = (folder / "out/seed1.words").read_text().split()
    assert words == ["--seed", "1", "--device", "cuda:7", "--seconds", "33", "--out", str(folder / "out/seed1")], words


def unknown_options_are_refused(folder):
    status, _, _, errors = learn(folder, "--sedes", "3")
    assert status == 2 and "--sedes" in errors and "--seeds" in errors, errors


def counts_that_are_none_are_refused_before_anything_is_built(folder):
    cmake = folder / "bin/cmake"
    cmake.parent.mkdir()
    cmake.write_text(f'#!/bin/sh\ntouch "{folder}/built"\nexit 1\n')
    cmake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{cmake.parent}:{os.environ['PATH']}"}
    for given in ("0", "1.5", "-3", "ten", "1e3", "007", ""):
        for option in ("--seeds", "--seconds"):
            result = subprocess.run(["bash", str(SCRIPT), option, given], env=environment, capture_output=True,
                                    text=True, timeout=60, check=False)
            assert result.returncode != 0 and not result.stdout, (option, given, result)
            assert option in result.stderr and (not given or f'"{given}"' in result.stderr), result.stderr
            assert not (folder / "built").exists(), (option, given)


def main():
    tests = [
        all_solved_is_a_success_with_median_and_worst,
        nine_of_ten_will_do_and_eight_will_not,
        a_refusal_ends_it_with_its_words,
        ctrl_c_keeps_the_seeds_before_it,
        options_reach_the_program,
        unknown_options_are_refused,
        counts_that_are_none_are_refused_before_anything_is_built,
    ]
    with tempfile.TemporaryDirectory() as folder:
        for test in tests:
            test(Path(folder))
    print(f"test_learning: {len(tests)} tests")


if not shutil.which("bash"):
    print("skipped: there is no bash here")
    sys.exit(77)
main()
