# SPDX-License-Identifier: MIT
"""All contestants through all cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import check
import table
import timing
from adapters import Found
from adapters.base import Adapter, Settings
from host import without_paths
from workloads import Case, Group, Schema


def _guarded(action: Callable[[], str]) -> str:
    """What it returns, or what it raised: another library may raise anything, and the rest must go on."""
    try:
        return without_paths(action())
    except Exception as error:  # noqa: BLE001
        return without_paths(f"it raised {type(error).__name__}: {error}")


class Contest:
    """present: the contestants; seconds: of one sample, at least."""

    def __init__(self, present: list[Found], settings: Settings, rounds: int, seconds: float, progress: table.Progress):
        self._present, self._settings = present, settings
        self._rounds, self._seconds, self._progress = rounds, seconds, progress
        self._proven: dict[tuple[str, str], str] = {}

    def _refusal(self, one: Found, schema: Schema) -> str:
        """Why it does not take part with such transitions: it cannot hold them, or gives back others. Asked once."""
        key = one.name, schema.name
        if key not in self._proven:
            self._progress.show(f"checking {one.name}, {schema.name}")
            self._proven[key] = one.adapter.refusal(schema) or self._fault(one, schema)
        return self._proven[key]

    def _fault(self, one: Found, schema: Schema) -> str:
        for chunk in check.chunks(schema):
            fault = _guarded(lambda chunk=chunk: check.prove(one.adapter, schema, chunk, self._settings))
            if fault:
                return f"it failed its check: {fault}"
        return ""

    def _open(self, one: Found, group: Group) -> tuple[Adapter | None, str]:
        """A full buffer whose draws were checked, or why there is none."""
        made: list[Adapter] = []

        def build() -> str:
            made.append(one.adapter(group.schema, group.capacity, group.chunk, self._settings))
            return check.verify(made[0], check.fill(made[0]))

        self._progress.show(f"filling {one.name}, {group.name}")
        reason = _guarded(build)
        if reason and made:
            made[0].close()
        return (None, reason) if reason else (made[0], "")

    def _measure(self, group: Group, case: Case, adapters: dict[str, Adapter], no: dict[str, str]) -> dict[str, Any]:
        runs = {}
        for name, adapter in adapters.items():
            run = timing.run_of(adapter, case)
            reason = _guarded(lambda run=run: run(1) or "")
            if reason:
                no = {**no, name: reason}
            else:
                runs[name] = run
        name = f"{case.name}: {group.name}"
        samples = timing.interleave(runs, self._rounds, self._seconds, lambda part: self._progress.show(name, part))
        return table.outcome(group, case, samples, no)

    def _enter(self, group: Group) -> tuple[dict[str, Adapter], dict[str, str]]:
        """The filled buffers, and why there are no others."""
        adapters: dict[str, Adapter] = {}
        no: dict[str, str] = {}
        for one in self._present:
            reason = self._refusal(one, group.schema)
            adapter, reason = (None, reason) if reason else self._open(one, group)
            if adapter is None:
                no[one.name] = reason
            else:
                adapters[one.name] = adapter
        return adapters, no

    def run(self, group: Group) -> Iterator[dict[str, Any]]:
        """The outcome of each of the group's cases, as soon as it is there."""
        adapters, no = self._enter(group)
        for case in group.cases:
            outcome = self._measure(group, case, adapters, no)
            self._progress.hide()
            table.print_case(outcome)
            self._progress.done += 1
            yield outcome
        for adapter in adapters.values():
            adapter.close()
