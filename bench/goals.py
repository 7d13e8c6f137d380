# SPDX-License-Identifier: MIT
"""Goals and decisions from what the benchmarks measured on a GPU.

usage: python3 bench/goals.py [FOLDER] [--json FILE] [--into DOCUMENT]

FOLDER holds the benchmarks' JSON files; without it there is nothing, and all is "not measured". A time is what the
device takes for one item of the case that is named, median and 95% interval. Of two ways one is said to be faster where
their whole intervals lie apart. --into puts the tables into a document, between its two lines "<!-- goals";
FOLDER is then as seen from the repository's root.

Exits with 1 when a first goal is not met or was not measured, with 77 when FOLDER holds nothing of a GPU, with 2 when
it was called wrongly.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from goals_decisions import choices
from goals_judge import MET, Ruling, Standing, ruling, standing
from goals_read import Found, Missing, Results
from goals_table import GOALS

NOBODY = "not measured: no GPU has been there"
BLOCK = re.compile(r"(<!-- goals of: )([^\n]*?)( -->\n).*?(<!-- goals end -->)", flags=re.S)


def seconds(x: float) -> str:
    """Three digits: "4.12 µs"."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if x * factor >= 0.9995:
            return f"{x * factor:.3g} {unit}"
    return f"{x * 1e9:.3g} ns"


def measured(found: Found) -> str:
    if isinstance(found, Missing):
        return f"not measured: {found.why}"
    return f"{seconds(found.median)} ({seconds(found.low)} to {seconds(found.high)})"


def goal_lines(standings: list[Standing]) -> list[str]:
    lines = []
    for one in standings:
        goal = one.goal
        lines += [f"{goal.operation}",
                  f"    first goal {seconds(goal.first)}: {one.verdict(goal.first)}; then {seconds(goal.then)}: "
                  f"{one.verdict(goal.then)}",
                  f"    {measured(one.time)}; {one.way}; {one.time.case.words}"]
    return lines


def ruling_words(one: Ruling) -> str:
    if one.ratio is None:
        return f"not measured: {one.words}"
    return (f"{one.words}; {one.choice.one[0]} {seconds(one.times[0].median)}, {one.choice.other[0]} "
            f"{seconds(one.times[1].median)}, ratio {one.ratio[0]:.2f} ({one.ratio[1]:.2f} to {one.ratio[2]:.2f})")


def text(results: Results, standings: list[Standing], rulings: list[Ruling]) -> str:
    lines = [f"{one['file']}: {one['device']}, commit {one['commit']}, {one['when']}" for one in results.told()]
    lines += ["", "goals, by the fastest way there is:", *goal_lines(standings), "", "decisions:"]
    for one in rulings:
        lines += [one.choice.what, f"    {ruling_words(one)}"]
    held = [sum(one.verdict(wanted) == MET for one, wanted in pairs)
            for pairs in ([(one, one.goal.first) for one in standings], [(one, one.goal.then) for one in standings])]
    lines += ["", f"of {len(standings)} goals the first is met by {held[0]}, the second by {held[1]}"]
    return "\n".join([*results.unread, *lines])


def summed_up(family: list[Ruling]) -> str:
    """Of many pairs how often either is faster."""
    one, other = family[0].choice.one[0], family[0].choice.other[0]
    ratios = sorted(each.ratio for each in family if each.ratio)
    if not ratios:
        return f"not measured: {family[0].words}"
    ahead, behind = (sum(each) for each in ([ratio[2] < 1 for ratio in ratios], [ratio[1] > 1 for ratio in ratios]))
    return (f"of {len(ratios)}: {one} faster in {ahead}, {other} in {behind}; ratio {ratios[0][0]:.2f} to "
            f"{ratios[-1][0]:.2f}")


def decision_rows(rulings: list[Ruling]) -> list[tuple[str, str, str]]:
    """What is to be decided, between what, and the answer; a family in one."""
    rows, told = [], set()
    for each in rulings:
        choice = each.choice
        between = f"{choice.one[0]}, {choice.other[0]}"
        if not choice.family:
            rows.append((choice.what, between, ruling_words(each)))
        elif choice.family not in told:
            told.add(choice.family)
            family = [one for one in rulings if one.choice.family == choice.family]
            rows.append((choice.family, between, summed_up(family)))
    return rows


def cells(*row: str) -> str:
    return "| " + " | ".join(one.replace("|", "\\|") for one in row) + " |"


def tables(results: Results, standings: list[Standing], rulings: list[Ruling]) -> str:
    """Markdown."""
    nothing = not results.of_a_gpu()
    head = ("operation", "first goal", "then", "floor", "expected", "measured", "first", "then")
    lines = [cells(*head), "|---" * len(head) + "|"]
    for one in standings:
        goal, unmeasured = one.goal, isinstance(one.time, Missing)
        found = NOBODY if nothing else measured(one.time) + ("" if unmeasured else f", {one.way}")
        lines.append(cells(goal.operation, seconds(goal.first), seconds(goal.then), goal.floor, goal.expected, found,
                           *("" if unmeasured else one.verdict(wanted) for wanted in (goal.first, goal.then))))
    lines += ["", cells("to be decided", "by these times", "measured"), "|---" * 3 + "|"]
    rows = decision_rows(rulings)
    lines += [cells(what, between, "not measured" if nothing else words) for what, between, words in rows]
    return "\n".join(lines)


def as_json(results: Results, standings: list[Standing], rulings: list[Ruling]) -> dict[str, Any]:
    def time(found: Found) -> dict[str, Any]:
        case = {"file": found.case.file, "case": found.case.name, "entrant": found.case.entrant}
        if isinstance(found, Missing):
            return {**case, "missing": found.why}
        return {**case, "seconds": found.median, "low": found.low, "high": found.high}

    return {
        "title": "goals", "of": results.told(),
        "goals": [{"operation": one.goal.operation, "first": one.goal.first, "then": one.goal.then, "way": one.way,
                   "measured": time(one.time), "first_is": one.verdict(one.goal.first),
                   "then_is": one.verdict(one.goal.then)} for one in standings],
        "decisions": [{"what": one.choice.what, "one": one.choice.one[0], "other": one.choice.other[0],
                       "times": [time(each) for each in one.times], "ratio": one.ratio, "words": one.words}
                      for one in rulings],
    }


def judged(results: Results) -> tuple[Results, list[Standing], list[Ruling]]:
    return results, [standing(results, goal) for goal in GOALS], [ruling(results, one) for one in choices(results)]


def put_into(document: Path, folder: str, made: str) -> None:
    held = document.read_text(encoding="utf-8")
    filled, count = BLOCK.subn(lambda found: f"{found[1]}{folder or 'nothing'}{found[3]}{made}\n{found[4]}", held)
    if count != 1:
        raise SystemExit(f"goals.py: {document} has {count} blocks from \"<!-- goals of: ... -->\" to "
                         "\"<!-- goals end -->\"; it must have one")
    document.write_text(filled, encoding="utf-8")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Goals and decisions from what the benchmarks measured on a GPU.")
    parser.add_argument("folder", nargs="?", default="", help="of the benchmarks' JSON; none: nothing is measured")
    parser.add_argument("--json", metavar="FILE", help="write all of it")
    parser.add_argument("--into", metavar="DOCUMENT", help="put the tables into a document")
    given = parser.parse_args(arguments)
    if given.folder and not Path(given.folder).is_dir():
        parser.error(f"the folder is \"{given.folder}\", which is none")
    if given.into and Path(given.folder).is_absolute():
        parser.error(f"the folder is \"{given.folder}\", which is a place of this machine; a document wants it as seen "
                     "from the repository's root")
    results = Results(Path(given.folder) if given.folder else None)
    results, standings, rulings = judged(results)
    if given.into:
        put_into(Path(given.into), given.folder, tables(results, standings, rulings))
    if not results.of_a_gpu():
        print("\n".join([*results.unread, "nothing here was measured on a GPU"]))
        return 0 if given.into else 77
    if given.json:
        written = json.dumps(as_json(results, standings, rulings), indent=1, ensure_ascii=False)
        Path(given.json).write_text(written + "\n", encoding="utf-8")
    print(text(results, standings, rulings))
    return 0 if all(one.verdict(one.goal.first) == MET for one in standings) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
