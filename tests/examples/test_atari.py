# SPDX-License-Identifier: MIT
"""examples/python/atari.py on ale-py's games: its short run, Ctrl-C, and going on from the checkpoint.

usage: test_atari.py libgpureplay.so
"""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# As a terminal would: a shell's job in the background, which tests may be, ignores Ctrl-C.
HEEDING_CTRL_C = ("import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
                  "os.execv(sys.argv[1], sys.argv[1:])")
SHORT = ("--steps", "100000", "--min-size", "64", "--capacity", "4096", "--evaluate-every", "1000000",
         "--episodes", "1")


def start(out, *arguments):
    environment = {**os.environ, "GPUREPLAY_LIBRARY": sys.argv[1], "PYTHONPATH": str(ROOT / "src/python"),
                   "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, ROOT / "examples/python/atari.py", "--game", "breakout", "--device", "cpu", "--out", out]
    return subprocess.Popen([sys.executable, "-c", HEEDING_CTRL_C, *map(str, command), *arguments], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(run, status, printed=""):
    """All that it printed, errors behind."""
    out, err = run.communicate()
    assert run.returncode == status, f"status {run.returncode}, wanted {status}\n{printed}{out}\n{err}"
    assert "Traceback" not in err, err
    return printed + out + err


def checkpoint(out):
    """The only one that there is, and its run.json."""
    path, = Path(out).glob("checkpoint-*")
    assert sorted(file.name for file in path.iterdir()) == ["learner.safetensors", "replay.safetensors", "run.json"]
    return path, json.loads((path / "run.json").read_text())


def a_short_run_learns_and_checks_every_stack(out):
    printed = ended(start(out, "--smoke"), 0)
    losses = [float(loss) for loss in re.search(r"loss on a fixed replay: (.*)", printed)[1].split()]
    assert len(losses) == 10 and losses[-1] < 0.9 * losses[0], losses
    assert "1,024 of 1,200 steps" in printed and "frames/s" in printed, printed
    path, run = checkpoint(out)
    assert path.name == "checkpoint-000000001200" and run["step"] == 1200 and run["trained"] == 100, run
    assert [step for step, _ in run["curve"]] == [600, 1200], run
    if importlib.util.find_spec("matplotlib"):
        assert (Path(out) / "curve.png").read_bytes().startswith(b"\x89PNG")


def ctrl_c_saves_and_the_run_goes_on(out):
    run = start(out, *SHORT)
    printed = ""
    while "frames/s" not in printed:
        printed += run.stdout.read(1) or ended(run, None, printed)
    run.send_signal(signal.SIGINT)
    ended(run, 130, printed)
    path, first = checkpoint(out)
    assert first["trained"] == (first["step"] - 64) // 4 > 0, first
    refused = ended(start(out, *SHORT), 1)
    assert path.name in refused and "--resume goes on from it" in refused, refused
    assert "is of a run with seed 1, not 2" in ended(start(out, *SHORT, "--resume", "--seed", "2"), 1)
    more = str(first["step"] + 80)
    ended(start(out, *SHORT, "--resume", "--check", "--steps", more), 0)
    _, second = checkpoint(out)
    assert second["step"] == first["step"] + 80 and second["trained"] == first["trained"] + 20, (first, second)


def main():
    if importlib.util.find_spec("ale_py") is None or importlib.util.find_spec("gymnasium") is None:
        print(f"skipped: {sys.executable} has no ale-py (pip install ale-py gymnasium)")
        return 77
    if b"files: none" in Path(sys.argv[1]).read_bytes():
        print("skipped: the library was built without cJSON or xxHash, and saves nothing")
        return 77
    for test in a_short_run_learns_and_checks_every_stack, ctrl_c_saves_and_the_run_goes_on:
        with tempfile.TemporaryDirectory() as out:
            test(out)
        print(test.__name__.replace("_", " "), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
