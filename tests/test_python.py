# SPDX-License-Identifier: MIT
"""The tests in tests/python, by pytest, on a library and a program of this build: "fast" with the extension module that
lies beside the library, "off" without it.

usage: test_python.py libgpureplay.so print_losses fast|off [pytest's arguments]
"""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

TESTS = Path(__file__).resolve().parent / "python"
NEEDED = ("pytest", "hypothesis", "numpy", "gymnasium")
# What the extension module is no part of: tested once, with it.
ALIKE = ("atari", "examples", "learner_images", "peers", "readme", "sb3_missing")


def main():
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}; tests/run.sh makes an environment that has them")
        return 77
    library, print_losses, fast = sys.argv[1:4]
    if fast == "fast":
        fast = Path(library).resolve().with_name("_fast" + sysconfig.get_config_var("EXT_SUFFIX"))
        if not fast.is_file():
            print(f"skipped: {fast.name} was not built (Debian: apt install python3-dev)")
            return 77
    environment = {**os.environ, "GPUREPLAY_LIBRARY": library, "GPUREPLAY_PRINT_LOSSES": print_losses,
                   "GPUREPLAY_FAST": str(fast), "PYTHONDONTWRITEBYTECODE": "1"}
    left_out = [f"--ignore={TESTS}/test_{name}.py" for name in ALIKE if fast == "off"]
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", TESTS, *left_out, *sys.argv[4:]]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
