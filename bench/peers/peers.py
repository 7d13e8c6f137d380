#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""This repository's replay buffer beside those of others: same transitions, same machine, same threads, in turn.

    bash bench/peers/setup.sh && build/peers/bin/python bench/peers/peers.py --json peers.json

A library that is not here is reported with its error, and so is what one cannot do. Before a buffer is timed, what it
gives back is checked: rows that belong together, out of those that were added. On a GPU a figure is the time of many
calls between two waits for the device, over how many they are.
"""

from __future__ import annotations

import argparse
import signal
import sys
from importlib import metadata
from typing import Any

import host
import report
import workloads

ROUNDS, QUICK_ROUNDS = 51, 31
SECONDS, QUICK_SECONDS = 5e-3, 1e-3  # of one sample, at least


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:N, for those that keep their rows there")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads for each, and cores for the process (1)")
    parser.add_argument("--rounds", type=int, help=f"samples of each, in turn; 30 or more ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"fewer sizes, shorter samples, {QUICK_ROUNDS} rounds")
    parser.add_argument("--kinds", metavar="NAMES", help="what is compared, with commas between: uniform, prioritized, "
                        "trees (priorities without rows), frames (stacks kept once), returns (3 steps, by priority), "
                        "drop-in (gpureplay.sb3 in place of sb3's), once (the same with optimize_memory_usage), files; "
                        "all of them")
    parser.add_argument("--only", metavar="NAMES", help="contestants, with commas between; gpureplay is always one")
    parser.add_argument("--json", metavar="OUT", help="where to write the report with every sample")
    given = parser.parse_args(arguments)
    given.rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    if given.threads < 1:
        parser.error(f"--threads is {given.threads}; it must be 1 or more")
    if given.rounds < 30:
        parser.error(f"--rounds is {given.rounds}; it must be 30 or more")
    return given


def _named(option: str, given: str | None, there: tuple[str, ...]) -> tuple[str, ...]:
    """Those of them that an option gives, in their order; all without it."""
    wanted = given.split(",") if given else there
    unknown = sorted(set(wanted) - set(there))
    if unknown:
        raise SystemExit(f"peers.py: {option} has {', '.join(unknown)}; there are {', '.join(there)}")
    return tuple(name for name in there if name in wanted)


def _contestants(only: str | None, kinds: str | None) -> list[Any]:
    """Of every kind that is wanted. Imported now, when the number of threads is set. Ours first."""
    import adapters

    wanted = {*_named("--only", only, adapters.NAMES), adapters.OURS}
    return [adapters.find(module, kind) for kind in _named("--kinds", kinds, tuple(adapters.KINDS))
            for module, name in adapters.KINDS[kind].items() if name in wanted]


def _about(found: Any) -> dict[str, Any]:
    adapter = found.adapter
    return {"name": found.name, "kind": found.kind, "present": adapter is not None,
            "error": host.without_paths(found.error), "version": adapter.version() if adapter else "",
            "as_used": adapter.as_used if adapter else ""}


def _head(given: argparse.Namespace, cores: int, found: list[Any]) -> dict[str, Any]:
    settings = {"device": given.device, "threads": given.threads, "cores": cores, "rounds": given.rounds,
                "quick": given.quick, "seconds_a_sample": QUICK_SECONDS if given.quick else SECONDS,
                "numpy": metadata.version("numpy")}
    return {"title": report.BUFFERS, "machine": host.describe(), "settings": settings,
            "contestants": [_about(one) for one in found], "reduced": workloads.reduced(given.quick),
            "interrupted": False}


def _run(given: argparse.Namespace, head: dict[str, Any], found: list[Any], outcomes: list[dict[str, Any]]) -> None:
    """Adds to the outcomes, and to the report, as they come, so that Ctrl-C leaves those until then."""
    import table
    from adapters.base import Settings
    from contest import Contest

    groups = workloads.groups(given.quick, tuple({one.kind for one in found}))
    progress = table.Progress(sum(len(group.cases) for group in groups))
    present = [one for one in found if one.adapter]
    contest = Contest(present, Settings(given.device, given.threads), given.rounds,
                      head["settings"]["seconds_a_sample"], progress)
    table.print_head(head)
    try:
        for group in groups:
            for outcome in contest.run(group):
                outcomes.append(outcome)
                report.write(given.json, head, outcomes)
    finally:
        progress.hide()


def main(arguments: list[str]) -> int:
    """Exit status: 1 when ours is not here, or not in every case; what the others do is a finding, not a failure. 77
    when the device is not here. 130 after Ctrl-C or SIGTERM, when the report has the cases until then."""
    given = _options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what `timeout` sends
    cores = host.use_threads(given.threads, given.device.startswith("cuda"))
    import table

    found = _contestants(given.only, given.kinds)
    head = _head(given, cores, found)
    if found[0].adapter is None:
        print(f"peers.py: gpureplay is not here: {found[0].error}", file=sys.stderr)
        return 1
    no = host.no_device(given.device)
    if no:
        print(f"peers.py: {given.device}: {no}", file=sys.stderr)
        return 77
    outcomes: list[dict[str, Any]] = []
    try:
        _run(given, head, found, outcomes)
        table.print_end(head, outcomes)
    except KeyboardInterrupt:
        head["interrupted"] = True
        print(f"peers.py: interrupted; cases done: {len(outcomes)}{f'; report: {given.json}' if given.json else ''}",
              file=sys.stderr)
    report.write(given.json, head, outcomes)
    if head["interrupted"]:
        return 130
    return int(any("no" in outcome["results"].get(found[0].name, {"no": ""}) for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
