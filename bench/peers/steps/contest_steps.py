# SPDX-License-Identifier: MIT
"""All contestants through a case, and its table."""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import host
import same
import timing
from base import Steps
from networks import BLOCK, Case
from summary import Summary, ratios, summarise
from table import interval_text, time_text

OURS = "gpureplay"
MARGIN = 1.2  # what took so long may take longer the next time
AGAIN = 5.0  # seconds
CALIBRATION = 4  # rounds, about, that finding how many blocks a sample has takes
SPARE = 2.5  # seconds of closing who was late, and of what lies between two alarms
NO_TIME = "no time"
LATE = f"{NO_TIME}: the limit came while it was checked"


class Late(BaseException):
    """The time is over; no Exception, which a contestant may catch."""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Late comes after so long, in whatever is under way then, if it is Python's; again after a while, since what is
    raised in a destructor is lost."""

    def ring(number: int, frame: Any) -> None:
        raise Late

    if seconds == float("inf"):
        yield
        return
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Entered(NamedTuple):
    """Those whose losses are ours, ready to train; why there are no others, or not in time."""

    there: dict[str, Steps]
    no: dict[str, str]
    apart: list[str]  # whose losses or priorities are not ours
    blocks: list[float]  # seconds of a block of each that is there


def _run_of(contestant: Steps) -> timing.Run:
    def run(repeats: int) -> None:
        contestant.train(repeats)
        contestant.finish()

    return run


class Contest:
    """found: contestants by name, ours first, each with "" or why it does not take part; seconds: of one sample, at
    least; limit: seconds for everything, beyond which nothing is begun that would not end, from when the clock was at
    `began` on: now, without it."""

    def __init__(self, found: dict[str, tuple[Any, str]], device: str, rounds: int, seconds: float,
                 limit: float = float("inf"), clock: Callable[[], float] = time.monotonic,
                 began: float | None = None):
        self._found, self._device, self._rounds, self._seconds = found, device, rounds, seconds
        self._clock, self._end = clock, (clock() if began is None else began) + limit
        self._took: dict[str, float] = {}  # to make and check each, and to time all of them, the last time

    def left_out(self, what: str, kept: float = 0.0) -> str:
        """Why there is no time for it, beside what is kept for others; "" when there is."""
        left, took = self._end - self._clock() - kept, self._took.get(what, 0.0)
        if left > MARGIN * took:
            return ""
        return f"{NO_TIME}: {max(left, 0):.0f} s are left, and it took {took:.0f} s the last time"

    def _timed(self, what: str, work: Callable[[], Any]) -> Any:
        began = self._clock()
        result = work()
        self._took[what] = self._clock() - began
        return result

    def _enter(self, case: Case) -> Entered:
        """Losses of ours come first. Time is kept for timing those that are there already."""
        entered = Entered({}, {}, [], [])
        wanted = None
        for name, (kind, reason) in self._found.items():
            reason = reason or self.left_out(name, self._to_time(entered.blocks))
            if not reason:
                reason, found = self._enter_one(entered, name, kind, case, wanted)
                wanted = found if wanted is None else wanted
            if reason:
                entered.no[name] = reason
            if OURS not in entered.there:
                break
        return entered

    def _enter_one(self, entered: Entered, name: str, kind: type[Steps], case: Case,
                   wanted: same.Found | None) -> tuple[str, Any]:
        """Why not, and what was found."""
        show(f"{case.name}: checking {name}")
        try:
            with _alarm(self._end - self._clock() - self._to_time(entered.blocks)):
                contestant, reason, found = self._timed(name, lambda: self._check(kind, case, wanted))
                block = 0.0 if reason else timing.clock(_run_of(contestant), 1)
        except Late:
            gc.collect()
            return LATE, None
        if reason:
            entered.apart.extend([name] if found is not None else [])
            return reason, found
        wants, left = self._to_time([*entered.blocks, block]), self._end - self._clock()
        if wants > left:
            contestant.close()
            return f"{NO_TIME}: {max(left, 0):.0f} s are left, and to time those here takes {wants:.0f} s", found
        entered.there[name] = contestant
        entered.blocks.append(block)
        return "", found

    def _to_time(self, blocks: list[float]) -> float:
        """Seconds, about, of timing those whose block takes so long: each round has a block untimed before its sample,
        and finding how many blocks a sample has takes some more."""
        rounds = sum(block + max(block, self._seconds) for block in blocks)
        return MARGIN * (self._rounds + CALIBRATION) * rounds + (SPARE if blocks else 0.0)

    def _check(self, kind: type[Steps], case: Case, wanted: same.Found | None) -> tuple[Any, str, Any]:
        """The contestant, or why not; and what was found of it. Another library may raise anything, and the rest must
        go on."""
        contestant = None
        try:
            contestant = kind(case, self._device)
            found = same.found_of(contestant)
            reason = same.fault(found, found if wanted is None else wanted, case.math)
            if not reason:
                _run_of(contestant)(1)
                return contestant, "", found
        except Exception as error:  # noqa: BLE001
            found, reason = None, host.without_paths(f"it raised {type(error).__name__}: {error}")
        except Late:
            if contestant is not None:
                contestant.close()
            raise
        if contestant is not None:
            contestant.close()
        return None, reason, found

    def _samples(self, case: Case, runs: dict[str, timing.Run]) -> dict[str, list[float]]:
        if not runs:
            return {}
        show(f"{case.name}: timing {', '.join(runs)}")
        return self._timed("timing", lambda: timing.interleave(
            runs, self._rounds, self._seconds, lambda part: on_terminal(f"{case.name}: {100 * part:.0f} %"), 1))

    def run(self, case: Case) -> dict[str, Any] | str:
        """The case as the JSON has it: seconds of one step, and ours / theirs, round by round. Or why there is no time
        for it."""
        no = self.left_out("timing")
        if no:
            return no
        entered = self._enter(case)
        no = entered.no.get(OURS, "")
        if no.startswith(NO_TIME):
            return no
        try:
            with _alarm(self._end - self._clock()):
                samples = self._samples(case, {name: _run_of(one) for name, one in entered.there.items()})
            remarks = {name: one.remark() for name, one in entered.there.items()}
        except Late:
            return f"{NO_TIME}: the limit came while it was timed"
        finally:
            for one in entered.there.values():
                one.close()
            entered.there.clear()
            gc.collect()
        outcome = self._outcome(case, entered, samples, remarks)
        print_case(outcome)
        return outcome

    def _outcome(self, case: Case, entered: Entered, samples: dict[str, list[float]],
                 remarks: dict[str, str]) -> dict[str, Any]:
        found = {name: [s / BLOCK for s in seconds] for name, seconds in samples.items()}
        alone = "there is nothing of ours to compare with"
        given = {name: found.get(name, entered.no.get(name, alone)) for name in self._found}
        return {**_outcome(case, given, remarks), "apart": entered.apart}


def _result(given: str | list[float], ours: str | list[float], but: str) -> dict[str, Any]:
    if isinstance(given, str):
        return {"no": given}
    result: dict[str, Any] = {"seconds": summarise(given)._asdict(), "samples": given}
    if but:
        result["but"] = but
    if given is not ours and not isinstance(ours, str):
        result["ratio"] = summarise(ratios(ours, given))._asdict()
    return result


def _outcome(case: Case, found: dict[str, str | list[float]], remarks: dict[str, str]) -> dict[str, Any]:
    """found: by name seconds of each sample, or why there are none."""
    results = {name: _result(given, found[OURS], remarks.get(name, "")) for name, given in found.items()}
    return {"name": case.name, "network": case.world.name, "batch": case.batch, "rows": case.rows, "math": case.math,
            "optimizer": case.optimizer, "draws": case.draws, "tolerance": same.TOLERANCES[case.math],
            "results": results}


def on_terminal(text: str) -> None:
    """In place."""
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def show(text: str) -> None:
    """What is under way: on a terminal in place, else a line, since a compiler of theirs may take a minute."""
    if sys.stderr.isatty():
        on_terminal(text)
    else:
        print(f"... {text}", file=sys.stderr, flush=True)


def print_head(head: dict[str, Any]) -> None:
    machine, settings = head["machine"], head["settings"]
    print(f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; GPU: {machine['gpu']}; "
          f"{machine['system']}; Python {machine['python']}")
    print(f"device {settings['device']}, threads {settings['threads']}, {settings['rounds']} rounds in turn; times of "
          "one step: median, 95% interval of it; ours / theirs, below 1: ours is faster", flush=True)
    for peer in head["contestants"]:
        print(f"  {peer['name']:<20} {peer['version']}  {peer['as_used'] if peer['present'] else peer['error']}")
        if peer["present"] and peer["bf16"]:
            print(f"  {'':<20} in BF16: {peer['bf16']}")


def print_case(outcome: dict[str, Any]) -> None:
    on_terminal("")
    print(f"\n{outcome['name']}; losses within {outcome['tolerance']:g} of ours")
    for name, result in outcome["results"].items():
        if "no" in result:
            print(f"  {name:<20} no: {result['no']}")
            continue
        took = Summary(**result["seconds"])
        line = f"  {name:<20} {time_text(took.median):>10}   {time_text(took.low)} to {time_text(took.high):<12}"
        if "ratio" in result:
            ratio = Summary(**result["ratio"])
            line += f" {ratio.median:6.2f}   {interval_text(ratio)}"
        print(line.rstrip() + (f"\n{'':23}but {result['but']}" if "but" in result else ""))
    sys.stdout.flush()
