#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""This repository's replay buffer beside those of other libraries: same transitions, same machine, same threads.

    build/peers/bin/python bench/peers/peers.py --json bench_peers.json
    build/reverb/bin/python bench/peers/peers.py --kinds sequences --json bench_sequences.json

A library that is not here is reported with its error, and so is what one cannot do. Before a buffer is timed, what it
gives back is checked: rows that belong together, out of those that were added. On a GPU a figure is the time of many
calls between two waits for the device, divided by their number.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import common
from common import OURS

ROUNDS, QUICK_ROUNDS, FILE_ROUNDS = 51, 31, 7
SECONDS, QUICK_SECONDS = 5e-3, 1e-3  # of one sample, at least


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = common.parser_of(__doc__, ROUNDS, f"fewer sizes, shorter samples, {QUICK_ROUNDS} rounds", "libraries")
    common.add_device(parser)
    parser.add_argument("--kinds", help="kinds of cases, separated by commas: uniform, prioritized, trees (priorities "
                        "without rows), frames (stacks stored once), returns (3 steps, by priority), sequences (of 100 "
                        "transitions), drop-in (gpureplay.sb3 in place of sb3's), once (the same with "
                        "optimize_memory_usage), extension (ours with and without the extension module), files; all")
    return common.parse(parser, arguments, ROUNDS, QUICK_ROUNDS)


def _named(option: str, given: str | None, there: tuple[str, ...]) -> tuple[str, ...]:
    """Those that an option gives, in our order; all without it."""
    wanted = given.split(",") if given else there
    unknown = sorted(set(wanted) - set(there))
    if unknown:
        raise SystemExit(f"peers.py: {option} has {', '.join(unknown)}; there are {', '.join(there)}")
    return tuple(name for name in there if name in wanted)


def _guarded(action: Callable[[], str]) -> str:
    """What it returns, or what it raised: another library may raise anything, and the rest must go on."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001
        return f"it raised {common.error_text(error)}"


class Runner:
    """Takes all adapters through all cases. seconds: of one sample, at least."""

    def __init__(self, kinds: list[Any], settings: Any, rounds: int, seconds: float):
        self._kinds, self._settings, self._rounds, self._seconds = kinds, settings, rounds, seconds
        self._refusals: dict[tuple[Any, str], str] = {}

    def _refusal(self, kind: Any, schema: Any) -> str:
        """Why it does not take part with such transitions. Asked once: a small buffer of it is checked."""
        import check  # here, as below: after the number of threads is set

        key = kind, schema.name
        if key not in self._refusals:
            common.show(f"checking {kind.name}, {schema.name}")
            is_here = self._settings.device.partition(":")[0] in kind.devices
            reason = kind.refusal(schema) if is_here else f"its batches are only on {' or '.join(kind.devices)}"
            fault = "" if reason else _guarded(lambda: check.check_small(kind, schema, self._settings))
            self._refusals[key] = f"it failed its check: {fault}" if fault else reason
        return self._refusals[key]

    def _open(self, kind: Any, group: Any) -> tuple[Any, dict[str, Any]]:
        """A filled and checked buffer, or None; and what is known of it: "absent", "memory", "but"."""
        import check

        made: list[Any] = []
        about: dict[str, Any] = {}

        def build() -> str:
            made.append(kind(group.schema, group.capacity, group.chunk, self._settings))
            wrong, skewed = check.check_rows(made[0], check.fill(made[0])), ""
            if not wrong:
                wrong, skewed = check.check_priorities(made[0])
            if skewed:
                about["but"] = f"its {skewed}"
            return wrong

        reason, before = self._refusal(kind, group.schema), common.resident_bytes()
        common.show(f"filling {kind.name}, {group.name}")
        reason = reason or _guarded(build)
        if group.kind == "frames":
            about["memory"] = max(common.resident_bytes() - before, 0)
        if reason and made:
            made[0].close()
        return (None, {"absent": reason}) if reason else (made[0], about)

    def run(self, group: Any) -> Iterator[dict[str, Any]]:
        """The result of each of the group's cases, as soon as it is there."""
        import timing

        opened = {kind.name: self._open(kind, group) for kind in self._kinds if kind.kind == group.kind}
        for case in group.cases:
            runs: dict[str, Any] = {}
            absent = {name: about["absent"] for name, (adapter, about) in opened.items() if adapter is None}
            for name, (adapter, _) in opened.items():

                def prepare(name: str = name, adapter: Any = adapter) -> str:
                    runs[name] = timing.run_of(adapter, case)
                    runs[name](1)
                    return ""

                reason = _guarded(prepare) if adapter else ""
                if reason:
                    absent[name] = reason
                    runs.pop(name, None)
            common.show(f"{case.name}: {group.name}")
            rounds, untimed = (FILE_ROUNDS, 0) if case.is_file else (self._rounds, timing.UNTIMED)
            found = common.variants(timing.interleave(runs, rounds, self._seconds, untimed), absent)
            yield {"name": f"{case.name}: {group.name}", "kind": group.kind, "fields": group.schema.name,
                   "capacity": group.capacity, "operation": case.operation, "count": case.count,
                   "bytes": case.count * group.schema.row_bytes if case.is_file else None,
                   "variants": [{**opened[one["name"]][1], **one} if "seconds" in one else one for one in found]}
        for adapter, _ in opened.values():
            if adapter:
                adapter.close()


def _head(given: argparse.Namespace, cores: int, kinds: list[Any], absent: dict[str, str]) -> dict[str, Any]:
    about = [{"name": kind.name, "kind": kind.kind, "version": kind.version(), "as_used": kind.as_used}
             for kind in kinds]
    return {"title": "replay buffers of several libraries", "machine": common.describe_machine(),
            "settings": {"device": given.device, "threads": given.threads, "cores": cores, "rounds": given.rounds,
                         "quick": given.quick, "numpy": metadata.version("numpy")},
            "libraries": about, "absent": absent, "interrupted": False}


def _print_head(head: dict[str, Any]) -> None:
    print(f"{head['machine']}\n{head['settings']}\nTimes of one call: median, 95% interval of the median; ours / "
          "theirs, below 1: ours is faster.")
    for name, version in {one["name"]: one["version"] for one in head["libraries"]}.items():
        print(f"  {name:<12} {version}")
    for name, error in head["absent"].items():
        print(f"  {name:<12} NOT HERE: {error}")


def main(arguments: list[str]) -> int:
    """Exit status: 1 when ours is not here or fails in a case; what the others do is a finding. 77 when the device is
    not here. 130 after Ctrl-C or SIGTERM, when the report has the cases until then."""
    given = _options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what `timeout` sends
    cores = common.use_threads(given.threads, given.device.startswith("cuda"))
    import workloads
    from adapters import KINDS, LIBRARIES, adapters_of
    from adapters.base import Settings

    kinds, absent = [], {}
    for library in _named("--only", f"{given.only},{OURS}" if given.only else None, tuple(LIBRARIES)):
        found, error = adapters_of(library)
        kinds += found
        if error:
            absent[library] = error
    wanted = _named("--kinds", given.kinds, tuple(KINDS))
    kinds = [kind for kind in kinds if kind.kind in wanted]
    if OURS in absent:
        print(f"peers.py: gpureplay is not here: {absent[OURS]}", file=sys.stderr)
        return 1
    error = common.device_error(given.device)
    if error:
        print(f"peers.py: {given.device}: {error}", file=sys.stderr)
        return 77
    head = _head(given, cores, kinds, absent)
    runner = Runner(kinds, Settings(given.device, given.threads), given.rounds,
                    QUICK_SECONDS if given.quick else SECONDS)
    _print_head(head)
    groups = workloads.groups(given.quick, tuple({kind.kind for kind in kinds}))
    cases = common.collect(head, (case for group in groups for case in runner.run(group)), given.json)
    failed = [case["name"] for case in cases if not any(one["name"] == OURS and "seconds" in one
                                                         for one in case["variants"])]
    return 130 if head["interrupted"] else int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
