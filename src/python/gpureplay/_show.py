# SPDX-License-Identifier: MIT
"""What this installation is and what it lacks."""

from __future__ import annotations

import ctypes
import sys

from . import _library
from ._device import Device
from ._library import GpureplayError, lib


def _build() -> dict[str, str]:
    lines = lib.gpur_build_info().decode().splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def _driver() -> str:
    """The version that NVIDIA's driver supports, or that there is none."""
    try:
        driver, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError:
        return "none found (libcuda.so.1 is missing)"
    if driver.cuInit(0) != 0 or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return "found, and it does not start"
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def _devices() -> list[str]:
    """A line each for the CPU and the first GPU: what it is, or why it cannot be had."""
    lines = []
    for name in ("cpu", "cuda:0"):
        try:
            device = Device(name)
            lines.append(f"{name}: {device.info.description}, {device.info.memory_free / 1e9:.1f} GB free")
            device.close()
        except GpureplayError as error:
            lines.append(f"{name}: {error}")
    return lines


def _missing(build: dict[str, str], driver: str) -> list[str]:
    """What would make it faster or whole, with the command."""
    found = []
    if build.get("cuda", "").startswith("not built"):
        found.append("CUDA: install NVIDIA's CUDA toolkit so that nvcc is on the PATH, then "
                     "`pip install --force-reinstall --no-cache-dir .` here")
    elif driver.startswith("none"):
        found.append("a GPU driver: the CUDA device is built in and cannot run without one")
    if build.get("blas", "").startswith("none"):
        found.append("OpenBLAS: `sudo apt install libopenblas-openmp-dev`, then `pip install --force-reinstall "
                     "--no-cache-dir .` here")
    return found


def show_config() -> None:
    """Prints version, what was built in, which devices and driver were found, and what is missing with the command that
    gets it."""
    build, driver = _build(), _driver()
    print(f"gpureplay {lib.gpur_version().decode()} (Python {sys.version.split()[0]})")
    print(f"library: {_library.path}")
    for key, value in build.items():
        print(f"  {key}: {value}")
    print(f"GPU driver: {driver}")
    print("devices:")
    for line in _devices():
        print(f"  {line}")
    missing = _missing(build, driver)
    print("missing:" if missing else "missing: nothing")
    for line in missing:
        print(f"  {line}")
