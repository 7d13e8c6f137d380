# SPDX-License-Identifier: MIT
"""The table and the JSON."""

from __future__ import annotations

import sys
from typing import Any

from adapters import NAMES, OURS
from summary import Summary, ratios, summarise
from workloads import Case, Group

WIDTH = 24
_UNITS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (float("inf"), 1.0, "s"))


class Progress:
    """On a terminal: a bar, and what is under way."""

    def __init__(self, total: int):
        self._total, self._on, self.done = total, sys.stderr.isatty(), 0

    def show(self, name: str, part: float = 0.0) -> None:
        if self._on:
            full = min(int(WIDTH * (self.done + part) / self._total), WIDTH)
            bar = "#" * full + " " * (WIDTH - full)
            print(f"\r[{bar}] {self.done + 1}/{self._total} {name}\033[K", end="", file=sys.stderr, flush=True)

    def hide(self) -> None:
        if self._on:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def time_text(seconds: float) -> str:
    factor, unit = next((factor, unit) for below, factor, unit in _UNITS if seconds < below)
    return f"{seconds * factor:.4g} {unit}"


def interval_text(figure: Summary) -> str:
    return f"{figure.low:.2f} to {figure.high:.2f}"


def outcome(group: Group, case: Case, samples: dict[str, list[float]], no: dict[str, str],
            memory: dict[str, int]) -> dict[str, Any]:
    """A case as the JSON has it: seconds of one call; ratio, of ours to theirs, round by round; bytes of the fields
    that one call moves, where that is what counts; host memory of each filled buffer, in bytes."""
    results: dict[str, Any] = {name: {"no": reason} for name, reason in no.items()}
    for name, seconds in samples.items():
        results[name] = {"seconds": summarise(seconds)._asdict(), "samples": seconds, "memory": memory.get(name)}
        if name != OURS and OURS in samples:
            results[name]["ratio"] = summarise(ratios(samples[OURS], seconds))._asdict()
    ordered = {name: results[name] for name in NAMES if name in results}
    return {"name": f"{case.name}: {group.name}", "fields": group.schema.name, "capacity": group.capacity,
            "kind": group.kind, "operation": case.operation, "count": case.count,
            "bytes": case.count * group.schema.row_bytes if case.is_file else None, "results": ordered}


def _line(name: str, result: dict[str, Any], moved: int | None, with_memory: bool) -> str:
    if "no" in result:
        return f"  {name:<12} no: {result['no']}"
    time = Summary(**result["seconds"])
    spread = f"{time_text(time.low)} to {time_text(time.high)}"
    line = f"  {name:<12} {time_text(time.median):>10}   {spread:<24}"
    if "ratio" in result:
        ratio = Summary(**result["ratio"])
        line += f" {ratio.median:6.2f}   {interval_text(ratio)}"
    if moved:
        line += f"   {moved / time.median / 1e9:.2f} GB/s"
    line = line.rstrip() + (f"   {result['memory'] / 2**20:,.0f} MiB" if with_memory else "")
    return line + (f"\n{'':15}but its {result['but']}" if "but" in result else "")


def print_case(found: dict[str, Any]) -> None:
    print(f"\n{found['name']}")
    for name, result in found["results"].items():
        print(_line(name, result, found["bytes"], found["kind"] == "frames"))
    sys.stdout.flush()


def ahead(cases: list[dict[str, Any]]) -> list[str]:
    """Where a contestant is faster than ours, and where the interval does not tell."""
    lines = []
    for case in cases:
        for name, result in case["results"].items():
            ratio = Summary(**result["ratio"]) if "ratio" in result else None
            if ratio and ratio.high >= 1:
                word = "is ahead" if ratio.low > 1 else "may be ahead"
                lines.append(f"{name} {word}: {case['name']}: {ratio.median:.2f} ({interval_text(ratio)})")
    return lines


def _once(contestants: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of each name: one may be there for several kinds."""
    first: dict[str, dict[str, Any]] = {}
    for peer in contestants:
        first.setdefault(peer["name"], peer)
    return list(first.values())


def print_head(head: dict[str, Any]) -> None:
    machine, settings = head["machine"], head["settings"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; GPU: {machine['gpu']}; "
          f"{machine['system']}; Python {machine['python']}")
    print(f"device {settings['device']}, threads {settings['threads']}, {settings['rounds']} rounds in turn; times of "
          "one call: median, 95% interval of the median; ours / theirs, below 1: ours is faster")
    for peer in _once(head["contestants"]):
        print(f"  {peer['name']:<12} {peer['version'] if peer['present'] else 'NOT HERE: ' + peer['error']}")


def print_end(head: dict[str, Any], cases: list[dict[str, Any]]) -> None:
    behind = ahead(cases)
    print("\nWhere ours is not ahead, ours / theirs:" if behind else "\nOurs is ahead of all present in every case.")
    for line in behind:
        print(f"  {line}")
    here = [peer["name"] for peer in head["contestants"] if peer["present"]]
    absent = [name for name in NAMES if name not in here]
    print(f"Not compared: {', '.join(absent)}." if absent else "Every contestant was present.")
    for text in head["reduced"]:
        print(text)
