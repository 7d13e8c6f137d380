# SPDX-License-Identifier: MIT
"""bench/peers/setup.sh: what it installs, what it goes on without, and what it refuses."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A Python that says its version, makes environments of itself and refuses to install what is named in $REFUSED.
PYTHON = """#!/bin/bash
case "$1 $2" in
"-c import sys; print"*) echo "3.$MINOR" ;;
"-c "*) wanted=${2##*(3, } && [ "$MINOR" -ge "${wanted%%)*}" ] ;;
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip")
    for refused in $REFUSED; do
        case "${@: -1}" in $refused*) echo "no such thing: ${@: -1}" && exit 1 ;; esac
    done
    echo "${@: -1}" >>installed ;;
esac
"""


@pytest.fixture
def setup(tmp_path):
    """Runs a copy of setup.sh with that Python: (status, what it printed, what was installed)."""
    for file in ("bench/peers/setup.sh", "bench/peers/requirements.txt", "tests/shell.sh"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)

    def run(*options, refused="", minor="12"):
        command = ["bash", str(tmp_path / "bench/peers/setup.sh"), *(options or ("--python", str(python)))]
        environment = {"PATH": "/usr/bin:/bin", "REFUSED": refused, "MINOR": minor}
        got = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=60, check=False)
        installed = tmp_path / "installed"
        return got.returncode, got.stdout, installed.read_text().split() if installed.exists() else []

    return run


def test_setup_installs_the_pinned_ones_and_ours(setup):
    status, printed, installed = setup()
    pins = [line for line in (ROOT / "bench/peers/requirements.txt").read_text().split("\n\n")[0].splitlines()
            if not line.startswith("#")]
    assert status == 0 and installed == [*pins, "."] and all("==" in pin for pin in pins), printed
    assert [pin.split("==")[0] for pin in pins] == ["cpprb", "stable-baselines3", "torchrl", "rlox", "flashbax"]


def test_setup_goes_on_without_one(setup):
    status, printed, installed = setup(refused="rlox")
    assert status == 1 and "not installed: rlox==" in printed and "build/peers/setup.log" in printed, printed
    assert len(installed) == 5 and installed[-1] == "."


@pytest.mark.parametrize("refused, said", [("cpprb stable torchrl rlox flashbax", "no library could be installed"),
                                           (".", "this repository could not be installed")])
def test_setup_gives_up_with_the_log(setup, refused, said):
    status, printed, _ = setup(refused=refused)
    assert status == 2 and said in printed and "no such thing: " in printed, printed


@pytest.mark.parametrize("options, minor, said", [
    (("--pyton", "x"), "12", 'unknown option "--pyton"'),
    (("--python",), "12", "--python has no value; it must be a command"),
    (("--python", "no-such-python"), "12", '--python is "no-such-python"; it must be a command that is here'),
    ((), "9", "is Python 3.9; it must be 3.11 or newer"),
])
def test_setup_refuses(setup, options, minor, said):
    status, printed, installed = setup(*options, minor=minor)
    assert status == 2 and said in printed and not installed, printed
