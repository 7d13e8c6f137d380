# SPDX-License-Identifier: MIT
"""`show_config`: what this installation has and what it lacks."""

from __future__ import annotations

import ctypes
import sys

from . import _library
from ._buffer import ReplayBuffer
from ._device import Device
from ._learner import DQN
from ._library import REBUILD, GpureplayError, lib


def _build() -> dict[str, str]:
    lines = lib.gpur_build_info().decode().splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def _driver() -> str:
    """The CUDA version of NVIDIA's driver, or that there is none."""
    try:
        driver, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    except OSError:
        return "none found (libcuda.so.1 is missing)"
    if driver.cuInit(0) != 0 or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return "found, and it does not start"
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def _of_device(name: str) -> tuple[str, bool]:
    """A line about the device, or about why it cannot be opened; and whether it can be opened but cannot train."""
    try:
        device = Device(name)
        found = f"{name}: {device.info.description}, {device.info.memory_free / 1e9:.1f} GB free"
    except GpureplayError as error:
        return f"{name}: {str(error).removeprefix(f'no {name}: ')}", False
    refusal = _refusal_to_train(device)
    device.close()
    return found + (f"; it cannot train: {refusal}" if refusal else ""), bool(refusal)


def _refusal_to_train(device: Device) -> str:
    """Why the device cannot train; empty if it can. A learner's matrix products may need a library that replay does
    not."""
    one = {"obs": ((1,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((1,), "float32"),
           "terminated": "bool"}
    try:
        with ReplayBuffer(64, one, device=device, seed=0) as buffer:
            DQN(buffer, num_actions=2, trunk=[8]).close()
    except GpureplayError as error:
        return str(error)
    return ""


_OPTIONAL = (  # key in gpur_build_info, name, purpose, Debian's packages
    ("blas", "OpenBLAS", "quick matrix products on the CPU", "libopenblas-openmp-dev"),
    ("dnnl", "oneDNN", "quick convolutions on the CPU", "libdnnl-dev"),
    ("files", "cJSON and xxHash", "saving and loading", "libcjson-dev libxxhash-dev"),
    ("zstd", "Zstandard", "compressed blocks", "libzstd-dev"),
)


def _missing(build: dict[str, str], driver: str, no_learner: bool) -> list[str]:
    """What would make the installation faster or complete, each with the command that installs it."""
    found = []
    if build.get("cuda", "").startswith("not built"):
        found.append("CUDA: install NVIDIA's CUDA toolkit so that nvcc is on the PATH, then "
                     f"`{REBUILD}` in the folder of the sources")
    elif driver.startswith("none"):
        found.append("a GPU driver: `sudo apt install nvidia-driver` (Debian) or `sudo ubuntu-drivers install` "
                     "(Ubuntu), in a container `docker run --gpus all ...`; CUDA is built in and cannot run without")
    elif no_learner:
        major = build.get("cuda", "").partition(".")[0]
        found.append(f"cuBLAS, for the learner on a GPU: `pip install \"gpureplay[cuda{major}]\"`")
    return found + [f"{name}, for {use}: `sudo apt install {packages}` (Debian, Ubuntu), then `{REBUILD}` in the "
                    "folder of the sources"
                    for key, name, use, packages in _OPTIONAL if build.get(key, "").startswith("none")]


def show_config() -> None:
    """Prints the version, the features of this build, the devices and the driver that were found, and what is missing,
    with the command that installs it.

        gpureplay.show_config()
    """
    build, driver = _build(), _driver()
    (cpu, _), (gpu, no_learner) = _of_device("cpu"), _of_device("cuda:0")
    print(f"gpureplay {lib.gpur_version().decode()} (Python {sys.version.split()[0]})")
    print(f"library: {_library.path}")
    for key, value in build.items():
        print(f"  {key}: {value}")
    print(f"GPU driver: {driver}")
    print(f"devices:\n  {cpu}\n  {gpu}")
    missing = _missing(build, driver, no_learner)
    print("missing:" if missing else "missing: nothing")
    for line in missing:
        print(f"  {line}")
