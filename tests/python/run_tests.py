# SPDX-License-Identifier: MIT
"""The tests in tests/python, by pytest, on a library and a program of this build: "fast" with the extension module that
lies beside the library, "off" without it, where those that concern it run. "ray": those on a cluster alone, with the
module if it is there; "wheel": those of what pip installs, alone; "cuda": those on the library with a fake GPU, alone.
With the file of a wheel: all but those, on a copy of the sources whose package and library are the wheel's.

usage: run_tests.py libgpureplay.so print_losses fast|off|ray|wheel|cuda [pytest's arguments]
       run_tests.py gpureplay-VERSION.whl [pytest's arguments]
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent
NEEDED = ("pytest", "hypothesis", "numpy", "gymnasium")
# What Python does itself where the extension module is missing, or must be tested without it.
WITHOUT = ("bad_numbers", "batches", "episodes", "hindsight", "inputs", "interrupts", "package", "priorities",
           "sequences", "steps")


def test_wheel(wheel, arguments):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "sources")
        shutil.copytree(TESTS.parents[1], root, symlinks=True, ignore=shutil.ignore_patterns("build", ".git"))
        shutil.rmtree(root / "src/python/gpureplay")
        zipfile.ZipFile(wheel).extractall(root / "src/python")
        package = root / "src/python/gpureplay"
        environment = {**os.environ, "GPUREPLAY_LIBRARY": str(package / "libgpureplay.so"), "GPUREPLAY_FAST": ""}
        alone = [f"--ignore={root}/tests/python/test_{name}.py" for name in ("ray", "wheel", "cuda")]
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", root / "tests/python", *alone]
        return subprocess.run([*command, *arguments], env=environment, cwd=root, check=False).returncode


def main():
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: {sys.executable} has no {', '.join(missing)}; tests/run.sh makes an environment that has them")
        return 77
    if sys.argv[1].endswith(".whl"):
        return test_wheel(sys.argv[1], sys.argv[2:])
    library, print_losses, fast = sys.argv[1:4]
    alone = {name: TESTS / f"test_{name}.py" for name in ("ray", "wheel", "cuda")}
    is_alone = fast in alone
    if fast == "ray" and importlib.util.find_spec("ray") is None:
        print(f"skipped: {sys.executable} has no Ray; tests/run.sh makes an environment that has it")
        return 77
    if fast == "fast":
        suffix = sysconfig.get_config_var("EXT_SUFFIX") if sys.version_info < (3, 10) else ".abi3.so"
        fast = Path(library).resolve().with_name("_fast" + suffix)
        if not fast.is_file():
            print(f"skipped: {fast.name} was not built (Debian: apt install python3-dev; and NumPy has headers)")
            return 77
    environment = {**os.environ, "GPUREPLAY_LIBRARY": library, "GPUREPLAY_PRINT_LOSSES": print_losses,
                   "GPUREPLAY_FAST": "" if is_alone else str(fast), "PYTHONDONTWRITEBYTECODE": "1"}
    others = [TESTS, *(f"--ignore={path}" for path in alone.values())]
    tests = [TESTS / f"test_{name}.py" for name in WITHOUT] if fast == "off" else others
    tests = [alone[fast]] if is_alone else tests
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests, *sys.argv[4:]]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
