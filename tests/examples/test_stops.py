# SPDX-License-Identifier: MIT
"""A program that trains, gpureplay-train or python -m gpureplay.train, is stopped by Ctrl-C or SIGTERM at random
moments, over all systems: each time it saves a checkpoint and says how to go on, and the run that was stopped and
resumed is the one that nobody stopped, where results are the same bits each time.

usage: test_stops.py device runs program [words of its command]
"""

import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEVICE, RUNS, PROGRAM = sys.argv[1], int(sys.argv[2]), [str(Path(sys.argv[3]).absolute()), *sys.argv[4:]]
POLE = ("--prepopulation", "1000", "--target-period", "1000", "--checkpoint", "2000", "--eval-period", "2000",
        "--eval-episodes", "3", "--steps", "12000")
ACTORS = ("--actors", "2", "--prepopulation", "500", "--checkpoint", "2000", "--eval-period", "2000",
          "--eval-episodes", "2", "--steps", "6000")
VECTORS = ("--hidden", "32,32", "--batch", "32", "--period", "500", "--checkpoint", "1000", "--eval-period", "1000",
           "--eval-episodes", "2", "--num-envs", "2", "--steps", "4000")
OFFLINE = ("--checkpoint", "500", "--eval-period", "700", "--eval-episodes", "2", "--steps", "3000")
# Of each preset the environment, its options, and whether results are the same bits each time.
SYSTEMS = {
    "fast-dqn-small-vectors": ("CartPole-v1", POLE, True),
    "dqn-lambda-2019-small": ("CartPole-v1", (*POLE, "--lambda", "0.5"), True),
    "qr-dqn": ("CartPole-v1", POLE, True),
    "c51": ("CartPole-v1", POLE, True),
    "ddpg-small": ("Pendulum", VECTORS, True),
    "td3-small": ("Pendulum", VECTORS, True),
    "sac-small": ("Pendulum", VECTORS, True),
    "apex-dqn-small": ("CartPole-v1", ACTORS, False),
    "apex-dpg-small": ("Pendulum", ACTORS, False),
    "ga3c-small": ("CartPole-v1", ("--agents", "4", "--checkpoint", "5000", "--eval-episodes", "2", "--steps",
                                   "20000"), False),
    "offline-dqn": ("CartPole-v1", OFFLINE, True),  # on the transitions of the first
}


def results_of(folder):
    lines = [line for line in (folder / "log.jsonl").read_text().splitlines() if '"rates"' not in line]
    return [(folder / name).read_bytes() for name in ("episodes.csv", "evaluations.csv", "learner.safetensors")] + lines


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stop(moments, folder, words, seconds):
    """Runs the program, and stops it at a random moment. A program that was stopped says how to go on, or has done
    nothing yet, or it was done. Returns its status."""
    before = content(folder)
    process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(moments.uniform(0, 1.1) * seconds)
    if process.poll() is None:
        process.send_signal(moments.choice((signal.SIGINT, signal.SIGTERM)))
    out, err = process.communicate(timeout=120)
    told = (words, process.returncode, out, err)
    # Python itself was starting, or importing: a Ctrl-C then is an error of its own, in many words.
    was_starting = process.returncode == 1 and not out and not re.search(r'/train\.py", line \d+, in main\n', err)
    assert was_starting or process.returncode in (0, 130, -signal.SIGINT, -signal.SIGTERM), told
    last = "".join(out.splitlines()[-1:])
    if process.returncode != 0 and f"--resume {folder} goes on after step " not in last:
        assert last == f"done; the files are in {folder}" or content(folder) == before, told
    return process.returncode


def a_run_that_is_stopped_goes_on(folder, whole, words, seconds, is_same):
    seed = random.randrange(2**32)
    moments, stops = random.Random(seed), 0
    while True:
        has_begun = (folder / "options.txt").exists()
        given = ["--resume", str(folder)] if has_begun else [*words, "--out", str(folder)]
        if stop(moments, folder, given, seconds) == 0:
            break
        stops += 1
    assert not is_same or results_of(folder) == results_of(whole), f"stopped {stops} times, seed {seed}"
    return stops


def main():
    with tempfile.TemporaryDirectory() as name:
        for preset, (env, options, is_same) in SYSTEMS.items():
            words = [preset, "--env", env, "--device", DEVICE, "--threads", "1", "--seed", "7", *options]
            data = Path(name, "rows.safetensors")
            words += ["--data", str(data)] * (preset == "offline-dqn")
            whole, begun, stops, runs = Path(name, "whole"), time.monotonic(), 0, 0
            tried = subprocess.run([*PROGRAM, *words, "--out", whole], capture_output=True, text=True, check=False)
            if "cannot save to files" in tried.stderr or (tried.returncode == 2 and DEVICE != "cpu"):
                print(f"skipped: {tried.stderr.strip()}")
                sys.exit(77)
            assert tried.returncode == 0, tried.stderr
            seconds = time.monotonic() - begun
            if not data.exists():
                shutil.copy(whole / "checkpoint/replay.safetensors", data)
            while runs < RUNS or (stops == 0 and runs < 10 * RUNS):
                runs += 1
                stops += a_run_that_is_stopped_goes_on(Path(name, "run"), whole, words, seconds, is_same)
                shutil.rmtree(Path(name, "run"))
            shutil.rmtree(whole)
            assert stops > 0, f"{preset}: none of {runs} runs was stopped"
            print(f"test_stops {preset}: {runs} runs, stopped {stops} times")


if __name__ == "__main__":
    main()
