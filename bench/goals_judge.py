# SPDX-License-Identifier: MIT
"""What stands against a goal, and which of two ways was faster, by nothing but measured times."""

from __future__ import annotations

from typing import NamedTuple

from goals_read import Case, Found, Missing, Results, Time

MET, NOT_MET, NOT_MEASURED = "met", "not met", "not measured"


class Goal(NamedTuple):
    """ways: by each of these the operation may be done, and the fastest counts; of one way the slowest of its cases.
    floor, expected: in words, as they stood before any run. equal: cases that compare what was computed; each_equal:
    how the name of the one that every timed case has ends. A goal whose results differ is not met, however fast."""

    operation: str
    first: float
    then: float
    floor: str
    expected: str
    ways: tuple[tuple[str, tuple[Case, ...]], ...]
    equal: tuple[Case, ...] = ()
    each_equal: str = ""


class Standing(NamedTuple):
    """time: of the case that counts, or why there is none; way: which of the goal's."""

    goal: Goal
    way: str
    time: Found

    def verdict(self, wanted: float) -> str:
        if isinstance(self.time, Missing):
            return NOT_MEASURED
        return MET if self.time.median <= wanted else NOT_MET


def slowest(found: list[Found]) -> Found:
    """A goal for several batches holds where it holds for all: without one of them it was not measured."""
    missing = [one for one in found if isinstance(one, Missing)]
    return missing[0] if missing else max((one for one in found if isinstance(one, Time)), key=lambda one: one.median)


def found_equal(results: Results, case: Case, goal: Goal) -> Found:
    """A time that counts: of results that were compared, by the goal's cases and by the timed case's own."""
    found = results.find(case)
    own = [Case(case.file, case.name + goal.each_equal)] if goal.each_equal else []
    wrong = [why for why in map(results.unequal, (*goal.equal, *own)) if why]
    return Missing(case, f"its results differ: {wrong[0]}") if wrong and isinstance(found, Time) else found


def standing(results: Results, goal: Goal) -> Standing:
    of_ways = [(way, slowest([found_equal(results, case, goal) for case in cases])) for way, cases in goal.ways]
    timed = [(way, found) for way, found in of_ways if isinstance(found, Time)]
    way, time = min(timed, key=lambda one: one[1].median) if timed else of_ways[0]
    return Standing(goal, way, time)


class Choice(NamedTuple):
    """One thing done in two ways, each with its name. family: of many that are summed up in a document, or ""."""

    what: str
    one: tuple[str, Case]
    other: tuple[str, Case]
    family: str = ""


class Ruling(NamedTuple):
    """ratio: time of the one / time of the other, and the least and greatest that their intervals leave possible; None:
    not measured, and why. words: who is faster, and by how much."""

    choice: Choice
    times: tuple[Found, Found]
    ratio: tuple[float, float, float] | None
    words: str


def faster(name: str, ratio: float) -> str:
    by = f"{1 / ratio:.2f} times" if ratio < 0.5 else f"by {100 * (1 - ratio):.0f}%"
    return f"{name} is faster, {by}"


def ruling(results: Results, choice: Choice) -> Ruling:
    one, other = (results.find(case) for _, case in (choice.one, choice.other))
    missing = [each for each in (one, other) if isinstance(each, Missing)]
    if missing:
        return Ruling(choice, (one, other), None, "; ".join(f"{each.case.name}: {each.why}" for each in missing))
    assert isinstance(one, Time) and isinstance(other, Time)
    ratio = (one.median / other.median, one.low / other.high, one.high / other.low)
    if ratio[2] < 1:
        words = faster(choice.one[0], ratio[0])
    elif ratio[1] > 1:
        words = faster(choice.other[0], 1 / ratio[0])
    else:
        words = "no difference that the intervals show"
    return Ruling(choice, (one, other), ratio, words)
