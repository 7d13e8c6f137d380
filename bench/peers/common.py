# SPDX-License-Identifier: MIT
"""What the comparisons share: a description of the machine, statistics of samples, the report, a progress line."""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OURS = "gpureplay"


def interval_rank(runs: int) -> int:
    """As bench_interval_rank of bench/lib/summary.h."""
    j, below = 0, 0.5**runs
    while below <= 0.025:
        j += 1
        below += math.comb(runs, j) * 0.5**runs
    return max(j, 1)


def summarize(key: str, values: Sequence[float]) -> dict[str, float]:
    """The median as `key`, and its distribution-free 95% interval (from 6 samples on)."""
    ordered, j, half = sorted(values), interval_rank(len(values)), len(values) // 2
    median = ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])
    low, high = ("low", "high") if key == "seconds" else (f"{key}_low", f"{key}_high")
    return {key: median, low: ordered[j - 1], high: ordered[-j]}


def variants(samples: dict[str, list[float]], absent: dict[str, str]) -> list[dict[str, Any]]:
    """Results as the report has them: seconds of one item, and the ratio of ours to theirs, of neighboring samples; or
    why there are none."""
    found = []
    for name, seconds in samples.items():
        one = {"name": name, **summarize("seconds", seconds)}
        if name != OURS and OURS in samples:
            one |= summarize("ours_to_theirs", [mine / theirs for mine, theirs in zip(samples[OURS], seconds)])
        found.append(one | {"samples": [float(f"{x:.4g}") for x in seconds]})
    return found + [{"name": name, "absent": reason} for name, reason in absent.items()]


def time_text(seconds: float) -> str:
    for factor, unit in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 1e3:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds:.4g} s"


def print_case(case: dict[str, Any]) -> None:
    print(f"\n{case['name']}")
    for one in case["variants"]:
        if "absent" in one:
            print(f"  {one['name']:<20} no: {one['absent']}")
            continue
        line = f"  {one['name']:<20} {time_text(one['seconds']):>10}   {time_text(one['low'])} to " \
               f"{time_text(one['high']):<12}"
        if "ours_to_theirs" in one:
            line += f" {one['ours_to_theirs']:6.2f}   {one['ours_to_theirs_low']:.2f} to " \
                    f"{one['ours_to_theirs_high']:.2f}"
        if "memory" in one:
            line += f"   {one['memory'] / 2**20:,.0f} MiB"
        print(line.rstrip() + (f"\n{'':23}but {one['but']}" if "but" in one else ""))
    sys.stdout.flush()


def write_report(path: str | None, head: dict[str, Any], cases: list[dict[str, Any]]) -> None:
    """With every sample. A program that is killed meanwhile leaves the file that was there before."""
    if path is None:
        return
    body = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    text = json.dumps(head, ensure_ascii=False)[:-1] + f',\n"cases": [\n{body}\n]}}\n'
    part = Path(f"{path}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def parser_of(about: str | None, rounds: int, quick: str, only: str) -> argparse.ArgumentParser:
    """The options that all comparisons have."""
    parser = argparse.ArgumentParser(description=(about or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, help=f"samples of each, alternately; 6 or more ({rounds})")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--only", help=f"{only}, separated by commas; gpureplay is always one")
    parser.add_argument("--json", help="file for the report with every sample")
    return parser


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:N")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads for each, and cores for the process (1)")


def parse(parser: argparse.ArgumentParser, arguments: list[str], rounds: int, quick_rounds: int) -> argparse.Namespace:
    given = parser.parse_args(arguments)
    given.rounds = given.rounds or (quick_rounds if given.quick else rounds)
    for name, least in (("threads", 1), ("rounds", 6)):
        if getattr(given, name, least) < least:
            parser.error(f"--{name} is {getattr(given, name)}; it must be {least} or more")
    return given


def collect(head: dict[str, Any], cases: Iterable[dict[str, Any]], path: str | None) -> list[dict[str, Any]]:
    """Prints and reports the cases as they are measured. Ctrl-C ends it, with the cases until then."""
    done: list[dict[str, Any]] = []
    try:
        for case in cases:
            done.append(case)
            show("")
            print_case(case)
            write_report(path, head, done)
    except KeyboardInterrupt:
        head["interrupted"] = True
        print(f"interrupted; cases done: {len(done)}", file=sys.stderr)
    write_report(path, head, done)
    return done


def show(text: str) -> None:
    """What is in progress, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def _first_match(file: str, pattern: str) -> str:
    try:
        found = re.search(pattern, Path(file).read_text(encoding="utf-8", errors="replace"), flags=re.M)
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def _output_of(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _commit() -> str:
    """GPUREPLAY_COMMIT, or that of the checkout."""
    named, commit = os.environ.get("GPUREPLAY_COMMIT"), _output_of("git", "rev-parse", "HEAD")
    if named or not commit:
        return named or "unknown: no git here"
    changes = _output_of("git", "status", "--porcelain", "--", ":(top,exclude)bench/results")
    return commit + (", with changes" if changes else "")


def describe_machine() -> dict[str, object]:
    kib = _first_match("/proc/meminfo", r"^MemTotal:\s*(\d+) kB")
    gpu = _output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return {
        "cpu": _first_match("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(int(kib) / 2**20, 1) if kib else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "gpu": gpu.splitlines()[0] if gpu else "none",
        "python": platform.python_version(),
        "commit": _commit(),
    }


def resident_bytes() -> int:
    """Host memory of this process, after garbage was collected and given back."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        trim(0)
    return 1024 * int(_first_match("/proc/self/status", r"^VmRSS:\s*(\d+) kB") or 0)


def error_text(error: BaseException) -> str:
    """Without the folders of this machine."""
    return re.sub(r"(?<![\w./])(?:~|file:/)?/(?:[^\s/'\":,()]+/)+", "", f"{type(error).__name__}: {error}")


def device_error(name: str) -> str:
    """Why our library cannot open this device; "" when it can."""
    import gpureplay

    try:
        gpureplay.Device(name).close()
        return ""
    except Exception as error:  # noqa: BLE001
        return error_text(error)


def use_threads(threads: int, on_cuda: bool) -> int:
    """Call it before any library is imported: they all get as many threads, and on the CPU as many cores. Returns the
    number of cores. Under CUDA the process keeps its cores, since drivers have threads of their own."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    if not on_cuda:
        os.sched_setaffinity(0, cores)
        several = "true" if threads > 1 else "false"
        os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={several} intra_op_parallelism_threads={threads}"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["JAX_PLATFORMS"] = "cuda,cpu" if on_cuda else "cpu"
    return len(cores)
