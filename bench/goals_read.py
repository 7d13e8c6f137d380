# SPDX-License-Identifier: MIT
"""A folder of results, and what one case of one file says: seconds of one item, or why there is none."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any, NamedTuple, Union


class Case(NamedTuple):
    """file: "bench_device"; entrant: of a case that has several, or ""."""

    file: str
    name: str
    entrant: str = ""

    @property
    def words(self) -> str:
        return f"{self.file}: {self.name}" + (f", {self.entrant}" if self.entrant else "")


class Time(NamedTuple):
    """Seconds of one item: median, and its 95% interval."""

    case: Case
    median: float
    low: float
    high: float


class Missing(NamedTuple):
    case: Case
    why: str


Found = Union[Time, Missing]


def interval_rank(n: int) -> int:
    """As bench_interval_rank."""
    rank, below = 0, 0.5**n
    while below <= 0.025:
        rank += 1
        below += math.comb(n, rank) * 0.5**n
    return max(rank, 1)


def of_samples(case: Case, samples: list[float], items: float) -> Time:
    x, rank = sorted(one / items for one in samples), interval_rank(len(samples))
    return Time(case, statistics.median(x), x[rank - 1], x[-rank])


def of_entry(case: Case, entry: dict[str, Any]) -> Found:
    """A figure that stands alone, ours beside the bare operation, or one entrant of several."""
    if "absent" in entry:
        return Missing(case, entry["absent"])
    if "failed" in entry:
        return Missing(case, f"it failed: {entry['failed']}")
    if case.entrant:
        for one in entry.get("entrants", []):
            if one["entrant"] == case.entrant:
                return of_entry(Case(case.file, case.name), one)
        return of_peer(case, entry.get("results", {}))
    if "ours_seconds" in entry:
        return of_samples(case, entry["ours_seconds"], entry["items"])
    if "seconds" not in entry:
        return Missing(case, "this case holds no time")
    return Time(case, entry["seconds"], entry["low"], entry["high"])


def of_peer(case: Case, results: dict[str, Any]) -> Found:
    """An entrant of the programs in Python."""
    result = results.get(case.entrant)
    if result is None:
        return Missing(case, f"no {case.entrant} in this case")
    if "no" in result:
        return Missing(case, result["no"])
    time = result["seconds"]
    return Time(case, time["median"], time["low"], time["high"])


class Results:
    """The benchmarks' JSON files of a folder; None: of nowhere."""

    def __init__(self, folder: Path | None):
        self._documents: dict[str, dict[str, Any]] = {}
        self.unread: list[str] = []
        for path in sorted(folder.glob("bench_*.json")) if folder else []:
            try:
                document = json.loads(path.read_text(encoding="utf-8"))
                document["cases"] = {case["name"]: case for case in document["cases"] if "name" in case}
                self._documents[path.stem] = document
            except (ValueError, KeyError, TypeError) as error:
                self.unread.append(f"{path.name} is no report of a benchmark: {type(error).__name__}: {error}")

    def _head(self, file: str, key: str) -> str:
        """The programs in Python tell of themselves one level lower: of the driver beside the GPU's name."""
        document = self._documents.get(file, {})
        machine, settings = document.get("machine", {}), document.get("settings", {})
        if key == "driver" and "gpu" in machine:
            return str(machine["gpu"]).rpartition(", ")[2]
        return str(document.get(key) or settings.get(key) or machine.get(key) or "")

    def device(self, file: str) -> str:
        """"cuda:0", "cpu", or "" where there is no such file."""
        return self._head(file, "device")

    def of_a_gpu(self) -> list[str]:
        return [file for file in self._documents if self.device(file).startswith("cuda")]

    def told(self) -> list[dict[str, str]]:
        """Which machine and sources each file is of."""
        keys = ("device", "driver", "commit", "when")
        return [{"file": file, **{key: self._head(file, key) for key in keys}} for file in self.of_a_gpu()]

    def names(self, file: str) -> list[str]:
        return list(self._documents.get(file, {}).get("cases", {}))

    def has(self, case: Case) -> bool:
        """Whether the file knows such a case, on whichever device, be it absent there."""
        entry = self._documents.get(case.file, {}).get("cases", {}).get(case.name)
        return entry is not None and (not case.entrant or isinstance(of_entry(case, entry), Time))

    def unequal(self, case: Case) -> str:
        """Why the results that a case compares are not known to be equal, or ""."""
        entry = self._documents.get(case.file, {}).get("cases", {}).get(case.name)
        if entry is None or "differ" not in entry:
            return f"no comparison \"{case.name}\""
        return f"{case.name}, {entry['differ']} of {entry['of']}" if entry["differ"] else ""

    def find(self, case: Case) -> Found:
        """Of a GPU alone: what a CPU takes says nothing here."""
        device = self.device(case.file)
        if not device:
            return Missing(case, f"there is no {case.file}.json")
        if not device.startswith("cuda"):
            return Missing(case, f"{case.file}.json is of {device}")
        entry = self._documents[case.file]["cases"].get(case.name)
        if entry is None:
            ended = ", and was interrupted" if self._documents[case.file].get("interrupted") else ""
            return Missing(case, f"{case.file}.json has no such case{ended}")
        return of_entry(case, entry)
