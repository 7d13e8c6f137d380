# SPDX-License-Identifier: MIT
"""The tests in tests/python, by pytest, on a library and a program of this build: with the extension module that lies
beside the library, if one for this Python does, and without.

usage: test_python.py libgpureplay.so print_losses [pytest's arguments]
"""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

TESTS = Path(__file__).resolve().parent / "python"
NEEDED = ("pytest", "hypothesis", "numpy", "gymnasium")


def main():
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}; tests/run.sh makes an environment that has them")
        return 77
    failures = 0
    for fast in ways(Path(sys.argv[1])):
        print(f"== GPUREPLAY_FAST={fast}", flush=True)
        failures += run(fast) != 0
    return failures


def ways(library):
    """Values of GPUREPLAY_FAST: the extension module of this Python beside the library, and "off"."""
    module = library.resolve().with_name("_fast" + sysconfig.get_config_var("EXT_SUFFIX"))
    return [str(module), "off"] if module.is_file() else ["off"]


def run(fast):
    """pytest's exit status."""
    environment = {**os.environ, "GPUREPLAY_LIBRARY": sys.argv[1], "GPUREPLAY_PRINT_LOSSES": sys.argv[2],
                   "GPUREPLAY_FAST": fast, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", TESTS, *sys.argv[3:]]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
