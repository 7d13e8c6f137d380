# SPDX-License-Identifier: MIT
"""The programs of examples/python, each as a user would start it, in its quick form."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpureplay import _library

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"
# Starts a command as a terminal would: a shell's job in the background, which tests may be, ignores Ctrl-C.
HEEDING_CTRL_C = ("import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
                  "os.execv(sys.argv[1], sys.argv[1:])")


def environment(**more):
    path = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": path, "GPUREPLAY_LIBRARY": _library.path, **more}


def needs(*modules):
    missing = [name for name in modules if not importlib.util.find_spec(name)]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def example(name, *arguments, code=None, **more):
    """Runs it; `code` goes before it, in the same interpreter."""
    path, folder = str(FOLDER / name), str(FOLDER)
    start = [path] if code is None else ["-c", f"{code}; import runpy; sys.path.insert(0, {folder!r}); "
                                               f"runpy.run_path({path!r}, run_name='__main__')"]
    return subprocess.run([sys.executable, *start, *arguments], capture_output=True, text=True, timeout=1200,
                          env=environment(**more))


@needs("gymnasium")
def test_cartpole_trains_shows_how_far_and_ends(tmp_path):
    run = example("cartpole.py", "--quick", "--out", str(tmp_path / "curve.png"))
    assert run.returncode == 0, run.stderr
    told = re.findall(r"\[(#+) *\] ([\d,]+) of 4,096 steps, [\d.]+ s, mean return [\d.]+ of 475", run.stdout)
    assert told == [("#" * 5 * quarter, f"{1024 * quarter:,}") for quarter in (1, 2, 3, 4)]
    returns = re.findall(r"mean return ([\d.]+)", run.stdout)
    assert len(returns) == 4 and float(returns[-1]) > 30  # a random agent's is 22; seed 1 had 100 and more
    assert run.stdout.splitlines()[-2] == "not solved within the limit"
    check_picture(tmp_path / "curve.png", run)


def check_picture(path, run):
    if importlib.util.find_spec("matplotlib"):
        assert path.read_bytes().startswith(b"\x89PNG") and run.stdout.splitlines()[-1] == f"learning curve: {path}"
    else:
        assert run.stdout.splitlines()[-1] == "no picture of the learning curve: pip install matplotlib"


@pytest.mark.parametrize("name", [pytest.param("cartpole.py", marks=needs("gymnasium")),
                                  pytest.param("torch_dqn.py", marks=needs("gymnasium", "torch"))])
def test_ctrl_c_ends_an_agent_with_a_word(tmp_path, name):
    command = [sys.executable, str(FOLDER / name), "--out", str(tmp_path / "curve.png")]
    run = subprocess.Popen([sys.executable, "-c", HEEDING_CTRL_C, *command], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, env=environment())
    try:
        assert "steps" in "".join(run.stdout.read(1) for _ in range(60))  # the first progress line
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=600)
    finally:
        run.kill()
    assert run.returncode == 1 and "interrupted" in out and "Traceback" not in err, err


@needs("gymnasium", "torch")
def test_torch_dqn_trains(tmp_path):
    run = example("torch_dqn.py", "--quick", "--out", str(tmp_path / "curve.png"))
    assert run.returncode == 0, run.stderr
    assert re.search(r"\[#+ +\] 2,048 of 3,000 steps, [\d.]+ s, last 20 episodes return \d\d", run.stdout), run.stdout
    check_picture(tmp_path / "curve.png", run)


def test_bare_ctypes_learns_with_no_package_and_no_numpy():
    run = example("bare_ctypes.py", "--quick", code="import sys; sys.modules.update(gpureplay=None, numpy=None)")
    assert run.returncode == 0, run.stdout + run.stderr
    assert 0.5 < float(re.search(r"right (-?[\d.]+)", run.stdout)[1]) < 1.2
    rewards = re.search(r"rewards of 32 sampled transitions: (.*)", run.stdout)[1].split()
    assert len(rewards) == 32 and set(rewards) == {"0", "1"}


@pytest.mark.parametrize("name, module", [("cartpole.py", "gymnasium"), ("torch_dqn.py", "torch")])
@needs("gymnasium")
def test_a_missing_module_is_named_with_the_command(name, module):
    run = example(name, code=f"import sys; sys.modules[{module!r}] = None")
    assert run.returncode == 1 and "Traceback" not in run.stderr
    assert f"pip install {module}" in run.stderr


def test_ctrl_c_ends_bare_ctypes_without_a_word():
    run = subprocess.Popen([sys.executable, str(FOLDER / "bare_ctypes.py")], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, env=environment())
    try:
        assert "[" in run.stdout.read(30)  # the progress line
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=600)
    finally:
        run.kill()
    assert run.returncode == -signal.SIGINT and err == ""


def test_bare_ctypes_says_how_to_name_the_library():
    run = example("bare_ctypes.py", GPUREPLAY_LIBRARY="nowhere.so")
    assert run.returncode == 1 and "set GPUREPLAY_LIBRARY to the path of libgpureplay.so" in run.stderr
    assert "Traceback" not in run.stderr


def test_every_example_can_be_read_in_a_minute():
    lengths = {path.name: len(path.read_text().splitlines()) for path in FOLDER.glob("*.py")}
    long = {"atari.py": 200, "atari_env.py": 100}  # with the papers' rules and constants
    assert len(lengths) == 8 and all(length <= long.get(name, 90) for name, length in lengths.items()), lengths
