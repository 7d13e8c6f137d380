# SPDX-License-Identifier: MIT
"""What the report says about where it was made: no names, no paths."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def _first(file: str, pattern: str) -> str:
    """The first group of the first match in a file of the system; "" when there is none."""
    try:
        found = re.search(pattern, Path(file).read_text(encoding="utf-8", errors="replace"), flags=re.M)
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def _asked(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _commit() -> str:
    """Of these files, which need not be that of the package."""
    commit = _asked("git", "rev-parse", "HEAD")
    if not commit:
        return "unknown: no git here"
    changes = _asked("git", "status", "--porcelain", "--", ":(top,exclude)bench/results")  # reports lie there
    return commit + (", with changes" if changes else "")


def describe() -> dict[str, object]:
    """CPU model, cores, memory, system, GPU, Python, commit."""
    kib = _first("/proc/meminfo", r"^MemTotal:\s*(\d+) kB")
    gpu = _asked("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return {
        "cpu": _first("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(kib) / 2**20, 1) if kib else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "gpu": gpu.splitlines()[0] if gpu else "none",
        "python": platform.python_version(),
        "commit": _commit(),
    }


def resident() -> int:
    """Bytes of host memory that this process has now, without what nobody holds any more."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
    return 1024 * int(_first("/proc/self/status", r"^VmRSS:\s*(\d+) kB") or 0)


def without_paths(text: str) -> str:
    """A message without the folders of this machine: what remains of a path is its last part."""
    return re.sub(r"(?<![\w./])(?:~|file:/)?/(?:[^\s/'\":,()]+/)+", "", text)


def no_device(name: str) -> str:
    """Why this device is not here, as our library has it; "" when it is. Imports it."""
    import gpureplay

    try:
        gpureplay.Device(name).close()
        return ""
    except Exception as error:  # noqa: BLE001
        return without_paths(str(error))


def use_threads(threads: int, on_cuda: bool) -> int:
    """Before any contestant is imported: as many cores and threads for each. Returns how many cores that leaves. Under
    CUDA the process keeps its cores, since drivers have threads of their own."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    if not on_cuda:
        os.sched_setaffinity(0, cores)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(threads)
    if not on_cuda:
        several = "true" if threads > 1 else "false"
        os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={several} intra_op_parallelism_threads={threads}"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["JAX_PLATFORMS"] = "cuda,cpu" if on_cuda else "cpu"
    return len(cores)
