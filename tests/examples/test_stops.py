# SPDX-License-Identifier: MIT
"""gpureplay-train is stopped by Ctrl-C or SIGTERM at random moments, over all systems: each time it saves a checkpoint
and says how to go on, and the run that was stopped and resumed is the one that nobody stopped, where results are the
same bits each time.

usage: test_stops.py device program runs
"""

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEVICE, PROGRAM, RUNS = sys.argv[1], str(Path(sys.argv[2]).absolute()), int(sys.argv[3])
POLE = ("--prepopulation", "1000", "--target-period", "1000", "--checkpoint", "2000", "--eval-period", "2000",
        "--eval-episodes", "3", "--steps", "12000")
ACTORS = ("--actors", "2", "--prepopulation", "500", "--checkpoint", "2000", "--eval-period", "2000",
          "--eval-episodes", "2", "--steps", "6000")
# Of each preset the environment, its options, and whether results are the same bits each time.
SYSTEMS = {
    "fast-dqn-small-vectors": ("CartPole-v1", POLE, True),
    "dqn-lambda-2019-small": ("CartPole-v1", (*POLE, "--lambda", "0.5"), True),
    "apex-dqn-small": ("CartPole-v1", ACTORS, False),
    "apex-dpg-small": ("Pendulum", ACTORS, False),
    "ga3c-small": ("CartPole-v1", ("--agents", "4", "--checkpoint", "5000", "--eval-episodes", "2", "--steps",
                                   "20000"), False),
}


def results_of(folder):
    lines = [line for line in (folder / "log.jsonl").read_text().splitlines() if '"rates"' not in line]
    return [(folder / name).read_bytes() for name in ("episodes.csv", "evaluations.csv", "learner.safetensors")] + lines


def stop(moments, words, seconds):
    """Runs the program, and stops it at a random moment. Returns its status and its last line."""
    process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(moments.uniform(0, 1.1) * seconds)
    if process.poll() is None:
        process.send_signal(moments.choice((signal.SIGINT, signal.SIGTERM)))
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 130, -signal.SIGINT, -signal.SIGTERM), (process.returncode, out, err)
    return process.returncode, out.splitlines()[-1:]


def a_run_that_is_stopped_goes_on(folder, whole, words, seconds, is_same):
    seed = random.randrange(2**32)
    moments, stops = random.Random(seed), 0
    status, last = stop(moments, [*words, "--out", str(folder)], seconds)
    while status != 0:
        stops += 1
        if status == 130:
            assert f"--resume {folder} goes on after step " in last[0], (last, seed)
        has_begun = (folder / "options.txt").exists()  # a signal may come before the program listens to it
        again = ["--resume", str(folder)] if has_begun else [*words, "--out", str(folder)]
        status, last = stop(moments, again, seconds)
    assert not is_same or results_of(folder) == results_of(whole), f"stopped {stops} times, seed {seed}"
    return stops


def main():
    with tempfile.TemporaryDirectory() as name:
        for preset, (env, options, is_same) in SYSTEMS.items():
            words = [preset, "--env", env, "--device", DEVICE, "--threads", "1", "--seed", "7", *options]
            whole, begun, stops = Path(name, "whole"), time.monotonic(), 0
            tried = subprocess.run([PROGRAM, *words, "--out", whole], capture_output=True, text=True, check=False)
            if "cannot save to files" in tried.stderr or (tried.returncode == 2 and DEVICE != "cpu"):
                print(f"skipped: {tried.stderr.strip()}")
                sys.exit(77)
            assert tried.returncode == 0, tried.stderr
            seconds = time.monotonic() - begun
            for _ in range(RUNS):
                stops += a_run_that_is_stopped_goes_on(Path(name, "run"), whole, words, seconds, is_same)
                shutil.rmtree(Path(name, "run"))
            shutil.rmtree(whole)
            print(f"test_stops {preset}: {RUNS} runs, stopped {stops} times")


if __name__ == "__main__":
    main()
