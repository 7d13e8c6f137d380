# SPDX-License-Identifier: MIT
"""All contestants through all cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import check
import host
import table
import timing
from adapters import Found
from adapters.base import Adapter, Settings
from workloads import Case, Group, Schema


def _guarded(action: Callable[[], str]) -> str:
    """What it returns, or what it raised: another library may raise anything, and the rest must go on."""
    try:
        return host.without_paths(action())
    except Exception as error:  # noqa: BLE001
        return host.without_paths(f"it raised {type(error).__name__}: {error}")


class Entered(NamedTuple):
    """A group's filled buffers by name, why there are no others, how many bytes the process grew by for each, and what
    was found of some."""

    adapters: dict[str, Adapter]
    no: dict[str, str]
    memory: dict[str, int]
    skewed: dict[str, str]


class Contest:
    """present: the contestants of every kind; seconds: of one sample, at least."""

    def __init__(self, present: list[Found], settings: Settings, rounds: int, seconds: float, progress: table.Progress):
        self._present, self._settings = present, settings
        self._rounds, self._seconds, self._progress = rounds, seconds, progress
        self._proven: dict[tuple[str, str, str], str] = {}

    def _refusal(self, one: Found, schema: Schema) -> str:
        """Why it does not take part with such transitions: it cannot hold them, or gives back others. Asked once."""
        key = one.kind, one.name, schema.name
        if key not in self._proven:
            self._progress.show(f"checking {one.name}, {schema.name}")
            self._proven[key] = self._unfit(one) or one.adapter.refusal(schema) or self._fault(one, schema)
        return self._proven[key]

    def _unfit(self, one: Found) -> str:
        kind = self._settings.device.partition(":")[0]
        return "" if kind in one.adapter.devices else f"its draws lie on {' or '.join(one.adapter.devices)} alone"

    def _fault(self, one: Found, schema: Schema) -> str:
        for chunk in check.chunks(schema):
            fault = _guarded(lambda chunk=chunk: check.prove(one.adapter, schema, chunk, self._settings))
            if fault:
                return f"it failed its check: {fault}"
        return ""

    def _open(self, one: Found, group: Group, skewed: dict[str, str]) -> tuple[Adapter | None, str]:
        """A full buffer whose draws were checked, or why there is none. Who was right when small and now only draws
        some rows too often takes part, and is said to."""
        made: list[Adapter] = []

        def build() -> str:
            made.append(one.adapter(group.schema, group.capacity, group.chunk, self._settings))
            wrong = check.verify(made[0], check.fill(made[0]))
            found = check.verify_priorities(made[0]) if not wrong else None
            if found and found.skewed:
                skewed[one.name] = found.skewed
            return wrong or (found.wrong if found else "")

        self._progress.show(f"filling {one.name}, {group.name}")
        reason = _guarded(build)
        if reason and made:
            made[0].close()
        return (None, reason) if reason else (made[0], "")

    def _measure(self, group: Group, case: Case, entered: Entered) -> dict[str, Any]:
        runs: dict[str, timing.Run] = {}
        no = dict(entered.no)
        for name, adapter in entered.adapters.items():

            def prepare(name: str = name, adapter: Adapter = adapter) -> str:
                runs[name] = timing.run_of(adapter, case)
                runs[name](1)
                return ""

            reason = _guarded(prepare)
            if reason:
                no[name] = reason
                runs.pop(name, None)
        rounds, untimed = (self._rounds, timing.UNTIMED) if not case.is_file else (timing.FILE_ROUNDS, 0)
        name = f"{case.name}: {group.name}"
        samples = timing.interleave(runs, rounds, self._seconds, lambda part: self._progress.show(name, part), untimed)
        outcome = table.outcome(group, case, samples, no, entered.memory)
        for name in entered.skewed.keys() & samples.keys():
            outcome["results"][name]["but"] = entered.skewed[name]
        return outcome

    def _enter(self, group: Group) -> Entered:
        entered = Entered({}, {}, {}, {})
        for one in self._present:
            if one.kind != group.kind:
                continue
            reason, before = self._refusal(one, group.schema), host.resident()
            adapter, reason = (None, reason) if reason else self._open(one, group, entered.skewed)
            if adapter is None:
                entered.no[one.name] = reason
            else:
                entered.adapters[one.name] = adapter
                entered.memory[one.name] = max(host.resident() - before, 0)
        return entered

    def run(self, group: Group) -> Iterator[dict[str, Any]]:
        """The outcome of each of the group's cases, as soon as it is there."""
        entered = self._enter(group)
        for case in group.cases:
            outcome = self._measure(group, case, entered)
            self._progress.hide()
            table.print_case(outcome)
            self._progress.done += 1
            yield outcome
        for adapter in entered.adapters.values():
            adapter.close()
