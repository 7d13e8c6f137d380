#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the results of a folder as the Markdown tables of bench/results.

usage: python3 bench/table.py FOLDER

FOLDER holds the JSON files that the benchmarks wrote; each gives its tables. Exits with 2 when there are none.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OURS = "gpureplay"
HOURS = 50e6 / 3600  # seconds of a step to hours of 50 million
Case = dict[str, Any]
Rows = Iterator[list[str]]


def seconds_text(seconds: float) -> str:
    """Three digits: "4.12 µs"."""
    x, units = seconds * 1e9, iter(("ns", "µs", "ms", "s"))
    unit = next(units)
    while x >= 999.5 and unit != "s":
        x, unit = x / 1000, next(units)
    return f"{x:.{2 if x < 9.995 else 1 if x < 99.95 else 0}f} {unit}"


def percent_text(one: Case) -> str:
    low, high = one["percent_faster_low"], one["percent_faster_high"]
    return f"{one['percent_faster']:+.1f}%" + (f" ({low:.1f} to {high:.1f})" if low is not None else "")


def ratio_text(median: float, low: float, high: float) -> str:
    return f"**{median:.2f}** ({low:.2f} to {high:.2f})"


def table(title: str, head: list[str], rows: Rows) -> None:
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def variant_rows(cases: list[Case]) -> Rows:
    """A case a row: the first variant against the reference, or all against it, or one alone."""
    for case in cases:
        if "differ" in case:
            yield [case["name"], "", f"{case['differ']:g} of {case['of']:g} differ", ""]
            continue
        if "variants" not in case:
            yield [case["name"], "", case.get("absent") or f"failed: {case['failed']}", ""]
            continue
        by_name = {one["name"]: one for one in case["variants"]}
        reference = by_name.get(case.get("reference", ""))
        for one in case["variants"]:
            if reference is None:
                yield [case["name"], "", f"{seconds_text(one['seconds'])} ({seconds_text(one['low'])} to "
                       f"{seconds_text(one['high'])}) a {case['item']}", ""]
            elif one is not reference:
                name = case["name"] if one["name"] == OURS else f"{case['name']}, {one['name']}"
                yield [name, reference["name"], f"{ratio_text(one['ratio'], one['ratio_low'], one['ratio_high'])}, "
                       f"{seconds_text(one['seconds'])} / {seconds_text(reference['seconds'])} a {case['item']}",
                       f"{case['goal']:g}" if "goal" in case else ""]


def print_ratios(report: Case) -> None:
    table(f"{report['title']}: {report['settings']}", ["operation", "reference", "ratio (95% interval), time of both",
                                                       "goal"], variant_rows(report["cases"]))


def cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(map(cell_text, value))
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def print_numbers(report: Case) -> None:
    """A case a row, and a column for each of its numbers. Cases that have others make another table."""
    kinds: dict[tuple[str, ...], list[Case]] = {}
    for case in report["cases"]:
        kinds.setdefault(tuple(key for key in case if key != "name"), []).append(case)
    for keys, cases in kinds.items():
        table(f"{report['title']}: {report['settings']}", ["", *keys],
              ([case["name"], *(cell_text(case[key]) for key in keys)] for case in cases))


def print_cache(report: Case) -> None:
    """The times, and the bytes of the cache's entries and of the learner with them."""
    print_ratios({**report, "cases": [case for case in report["cases"] if case["name"] != "memory"]})
    for case in (case for case in report["cases"] if case["name"] == "memory"):
        table(f"memory of {case['entries']:,} entries", ["", "bytes of the entries", "bytes of the learner"],
              ([one["name"], f"{one['cache_bytes']:,}", f"{one['device_bytes']:,}"] for one in case["variants"]))


def print_priorities(report: Case) -> None:
    """Rows against operation and size, ns a row."""
    cells: dict[int, dict[str, str]] = {}
    for case in report["cases"]:
        operation, count, _, size, _ = case["name"].split()
        ours, tree = case["variants"]
        cells.setdefault(int(count), {})[f"{operation}, {size} M"] = \
            f"**{ours['ratio']:.2f}** ({1e9 * ours['seconds']:.3g} / {1e9 * tree['seconds']:.3g})"
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    table(f"{report['title']}: {report['settings']}", ["rows", *columns],
          ([f"{count:,}", *(row.get(column, "") for column in columns)] for count, row in sorted(cells.items())))


def print_compare(report: Case) -> None:
    """How much longer each takes than in-device."""
    figures: dict[str, list[Case]] = {}
    for case in report["cases"]:
        figures.setdefault(case.get("figure", ""), []).append(case)

    def rows(cases: list[Case]) -> Rows:
        for case in cases:
            yield [f"{case['x']:,.0f}", *(
                seconds_text(one["seconds"]) if one["name"] == case["reference"] else
                f"{seconds_text(one['seconds'])}, {100 * (one['ratio'] - 1):+.1f}% ({100 * (one['ratio_low'] - 1):.1f} "
                f"to {100 * (one['ratio_high'] - 1):.1f})" for one in case["variants"])]

    for figure, cases in figures.items():
        if figure:
            table(f"{figure}, and how much longer than in-device", [cases[0]["x_name"],
                                                                    *(one["name"] for one in cases[0]["variants"])],
                  rows(cases))
        else:
            table("others", ["operation", "reference", "time", ""], variant_rows(cases))


def print_training(report: Case) -> None:
    for case in (case for case in report["cases"] if case.get("figure") == "training"):
        table(f"batch {case['batch']:g}", ["", "seconds", f"faster than {case['reference']}"],
              ([one["name"], f"{one['seconds']:.1f}", "" if one["name"] == case["reference"] else percent_text(one)]
               for one in case["variants"]))


def to_theirs(one: Case) -> str:
    """The time of ours, or ours / theirs."""
    if "seconds" not in one:
        return ""
    if "ours_to_theirs" not in one:
        return seconds_text(one["seconds"])
    if one["ours_to_theirs"] < 0.01:
        return f"{one['ours_to_theirs']:.1g}, {seconds_text(one['seconds'])}"
    return f"{one['ours_to_theirs']:.2f} ({one['ours_to_theirs_low']:.2f} to {one['ours_to_theirs_high']:.2f})"


def fastest_rows(cases: list[Case]) -> Rows:
    for case in cases:
        found = {one["name"]: one for one in case["variants"] if "seconds" in one}
        ours = found.pop(OURS, None)
        best = min(found.values(), key=lambda one: one["seconds"], default=None)
        if ours and best:
            yield [case["name"], seconds_text(ours["seconds"]), f"{best['name']}, {seconds_text(best['seconds'])}",
                   ratio_text(best["ours_to_theirs"], best["ours_to_theirs_low"], best["ours_to_theirs_high"])]


def library_rows(cases: list[Case], names: list[str]) -> Rows:
    for case in cases:
        found = {one["name"]: one for one in case["variants"]}
        cells = [to_theirs(found.get(name, {})) for name in names]
        extra = {name: f"{found[name]['memory'] / 2**20:,.0f} MiB" for name in names if "memory" in found.get(name, {})}
        if case.get("bytes"):
            extra = {name: f"{case['bytes'] / found[name]['seconds'] / 1e9:.2f} GB/s" for name in names
                     if "seconds" in found.get(name, {})}
        yield [case["name"], *(f"{cell}, {extra[name]}" if name in extra else cell for name, cell in zip(names, cells))]


def print_libraries(report: Case) -> None:
    kinds: dict[str, list[Case]] = {}
    for case in report["cases"]:
        kinds.setdefault(case.get("kind", "all"), []).append(case)
    for kind, cases in kinds.items():
        if kind == "uniform":
            table(f"{report['title']}, {kind}", ["call", "ours", "fastest peer", "ratio (95% interval), ours / theirs"],
                  fastest_rows(cases))
        else:
            names = list(dict.fromkeys(one["name"] for case in cases for one in case["variants"] if "seconds" in one))
            table(f"{report['title']}, {kind}; ours / theirs", ["call", *names], library_rows(cases, names))


def print_ablation(report: Case) -> None:
    """The paper's three views."""
    groups: dict[str, list[Case]] = {}
    for case in report["cases"]:
        groups.setdefault(case["figure"], []).append(case)

    def rows(cases: list[Case]) -> Rows:
        first = statistics.mean(cases[0]["seconds"])
        for case in cases:
            mean = statistics.mean(case["seconds"])
            spread = statistics.stdev(case["seconds"]) if len(case["seconds"]) > 1 else 0.0
            yield [f"{case['variant']}, W = {case['num_envs']:g}", f"{HOURS * mean:.2f} ± {HOURS * spread:.2f}",
                   f"{100 * mean / first:.1f}%", f"{case['paper_percent']:.1f}%", f"{first / mean:.2f}"]

    for name, cases in groups.items():
        table(f"{name}: {len(cases[0]['seconds'])} runs of {cases[0]['steps']:,.0f} steps; Standard and Synchronized "
              "act by the newest weights, Concurrent and Both by the target network",
              ["variant", "hours for 50 million steps", "of the first", "the paper's", "speed-up"], rows(cases))


def print_feed(report: Case) -> None:
    """Transitions and megabytes a second: what was offered, and what was accepted beside how many train steps."""

    def rows() -> Rows:
        for case in (case for case in report["cases"] if "accepted" in case):
            mega, mebi = case["row_bytes"] / 1e6, 2**20
            yield [case["name"], f"{case['offered']:,.0f}, {case['offered'] * mega:.1f}" if case["offered"] else "all",
                   f"{case['accepted']:,.0f}, {case['accepted'] * mega:.1f}", f"{case['train_steps']:.1f}",
                   *(f"{case[key] / mebi:,.0f}" for key in ("start_bytes", "highest_bytes", "end_bytes"))]

    table(f"{report['title']}: {report['settings']}", ["", "offered, rows/s, MB/s", "accepted, rows/s, MB/s",
                                                       "train steps/s", "memory at the start, MiB", "highest",
                                                       "at the end"], rows())


def print_env_steps(report: Case) -> None:
    """Millions of steps a second of all environments, by library."""
    names = list(dict.fromkeys(one["name"] for case in report["cases"] for one in case["variants"]
                               if "seconds" in one))

    def rows() -> Rows:
        for case in report["cases"]:
            found = {one["name"]: one for one in case["variants"] if "seconds" in one}
            yield [case["name"], *(f"{1e-6 / found[name]['seconds']:.3g}" if name in found else "" for name in names)]

    table(f"{report['title']}, millions a second; CPU threads: {report['threads']}", ["", *names], rows())


PRINTERS = {"ablation": print_ablation, "cache of returns": print_cache, "priorities": print_priorities,
            "in-RAM against in-device replay": print_compare,
            "whole training": print_training, "blocks of frames while training": print_feed,
            "replay buffers of several libraries": print_libraries,
            "whole loops of several libraries": print_libraries, "train steps of several libraries": print_libraries,
            "ddpg": print_libraries, "GA3C": print_numbers,
            "steps of environments": print_env_steps}


def main() -> int:
    paths = sorted(Path(sys.argv[1]).glob("*.json")) if len(sys.argv) == 2 else []
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    reports = [report for report in reports if isinstance(report, dict) and report.get("cases")]
    if not reports:
        print(__doc__, file=sys.stderr)
        return 2
    for report in reports:
        PRINTERS.get(report["title"], print_ratios)(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
