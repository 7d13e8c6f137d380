# SPDX-License-Identifier: MIT
"""All contestants through a case, and its table."""

from __future__ import annotations

import gc
import sys
from typing import Any

import host
import numpy as np
import same
import timing
from base import Settings, Steps
from summary import Summary, ratios, summarise
from table import interval_text, time_text
from networks import BLOCK, Case

OURS = "gpureplay"


def _run_of(contestant: Steps) -> timing.Run:
    def run(repeats: int) -> None:
        contestant.train(repeats)
        contestant.finish()

    return run


class Contest:
    """found: contestants by name, ours first, each with "" or why it does not take part; seconds: of one sample, at
    least."""

    def __init__(self, found: dict[str, tuple[Any, str]], settings: Settings, rounds: int, seconds: float):
        self._found, self._settings, self._rounds, self._seconds = found, settings, rounds, seconds

    def _enter(self, case: Case) -> tuple[dict[str, Steps], dict[str, str]]:
        """Those whose losses are ours, ready to train, and why there are no others. Losses of ours come first."""
        entered: dict[str, Steps] = {}
        no: dict[str, str] = {}
        wanted = None
        for name, (kind, reason) in self._found.items():
            if not reason:
                _show(f"{case.name}: checking {name}")
                contestant, reason, losses = self._check(kind, case, wanted)
                wanted = losses if wanted is None else wanted
            if reason:
                no[name] = reason
            else:
                entered[name] = contestant
            if wanted is None:
                return {}, no
        return entered, no

    def _check(self, kind: type[Steps], case: Case, wanted: np.ndarray | None) -> tuple[Any, str, Any]:
        """Another library may raise anything, and the rest must go on."""
        contestant = None
        try:
            contestant = kind(case, self._settings)
            losses = same.losses_of(contestant)
            reason = same.fault(losses, losses if wanted is None else wanted, self._settings.math)
            if not reason:
                _run_of(contestant)(1)
                return contestant, "", losses
        except Exception as error:  # noqa: BLE001
            losses, reason = None, host.without_paths(f"it raised {type(error).__name__}: {error}")
        if contestant is not None:
            contestant.close()
        return None, reason, losses

    def _samples(self, case: Case, runs: dict[str, timing.Run]) -> dict[str, list[float]]:
        if not runs:
            return {}
        return timing.interleave(runs, self._rounds, self._seconds,
                                 lambda part: _show(f"{case.name}: {100 * part:.0f} %"), 1)

    def run(self, case: Case) -> dict[str, Any]:
        """The case as the JSON has it: seconds of one step, and ours / theirs, round by round."""
        entered, no = self._enter(case)
        samples = self._samples(case, {name: _run_of(one) for name, one in entered.items()})
        for one in entered.values():
            one.close()
        del entered
        gc.collect()
        _show("")
        outcome = _outcome(case, {name: [s / BLOCK for s in seconds] for name, seconds in samples.items()}, no)
        print_case(outcome)
        return outcome


def _outcome(case: Case, samples: dict[str, list[float]], no: dict[str, str]) -> dict[str, Any]:
    results: dict[str, Any] = {name: {"no": reason} for name, reason in no.items()}
    for name, seconds in samples.items():
        results[name] = {"seconds": summarise(seconds)._asdict(), "samples": seconds}
        if name != OURS and OURS in samples:
            results[name]["ratio"] = summarise(ratios(samples[OURS], seconds))._asdict()
    return {"name": case.name, "network": case.world.name, "batch": case.batch, "rows": case.rows, "results": results}


def _show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def print_head(head: dict[str, Any]) -> None:
    machine, settings = head["machine"], head["settings"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; GPU: {machine['gpu']}; "
          f"{machine['system']}; Python {machine['python']}")
    print(f"device {settings['device']}, threads {settings['threads']}, {settings['math']}, {settings['rounds']} "
          "rounds in turn; times of one step: median, 95% interval of it; ours / theirs, below 1: ours is faster",
          flush=True)
    for peer in head["contestants"]:
        print(f"  {peer['name']:<14} {peer['version']}  {peer['as_used'] if peer['present'] else peer['error']}")


def print_case(outcome: dict[str, Any]) -> None:
    print(f"\n{outcome['name']}")
    for name, result in outcome["results"].items():
        if "no" in result:
            print(f"  {name:<14} no: {result['no']}")
            continue
        time = Summary(**result["seconds"])
        line = f"  {name:<14} {time_text(time.median):>10}   {time_text(time.low)} to {time_text(time.high):<12}"
        if "ratio" in result:
            ratio = Summary(**result["ratio"])
            line += f" {ratio.median:6.2f}   {interval_text(ratio)}"
        print(line.rstrip())
    sys.stdout.flush()
