# SPDX-License-Identifier: MIT
"""bench/goals.py: the cases it names are cases that the benchmarks have; what it says of times that are made up here;
and the tables in docs/performance.md are what it makes of the results that they name.

usage: test_goals.py [BENCHMARK ...]    each is run in its quick form on the CPU
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

import goals  # noqa: E402
from goals_decisions import CHOICES, FAMILIES, choices  # noqa: E402
from goals_judge import Choice, Goal, ruling, standing  # noqa: E402
from goals_read import Case, Missing, Results  # noqa: E402
from goals_table import GOALS, STEPS_EQUAL  # noqa: E402

A, B = Case("bench_a", "a"), Case("bench_a", "b")


def figure(name, seconds, low=None, high=None):
    return {"name": name, "seconds": seconds, "low": low or 0.9 * seconds, "high": high or 1.1 * seconds, "items": 32}


def results_of(*cases, device="cuda:0", **more):
    """Those of a folder with one file, bench_a.json."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench_a.json").write_text(json.dumps({"device": device, "cases": list(cases), **more}))
        return Results(Path(folder))


def call(*arguments, within=None):
    command = [sys.executable, ROOT / "bench/goals.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=within)


def every_case_named():
    for goal in GOALS:
        yield from (case for _, cases in goal.ways for case in cases)
        yield from goal.equal
    for choice in CHOICES:
        yield choice.one[1]
        yield choice.other[1]


def every_case_is_one_that_a_benchmark_has():
    """On the CPU many are absent, with a reason: that is a case, too. A name that no program writes is not."""
    programs = {Path(program).name: program for program in sys.argv[1:]}
    if not programs:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, program in programs.items():
            done = subprocess.run([program, "--quick", "--rounds", "6", "--json", f"{folder}/{name}.json"], text=True,
                                  capture_output=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
            assert done.returncode == 0, f"{name}: status {done.returncode}\n{done.stdout}{done.stderr}"
        results = Results(Path(folder))
        lost = sorted({case.words for case in every_case_named() if not results.has(case)})
        assert not lost, "no benchmark has:\n" + "\n".join(lost)
        for family in FAMILIES[1:]:  # the first is of CUDA's libraries alone
            assert all(results.has(case) for one in family.choices(results) for _, case in (one.one, one.other)), \
                f"no pair of cases is {family.one[1]} and {family.other[1]}"
        assert call(folder).returncode == 77  # all of it is the CPU's


def steps_are_compared_as_the_goals_want():
    """Which ways a CPU has is its own affair: the source has the name."""
    assert f'"%s{STEPS_EQUAL}"' in (ROOT / "bench/device/step_ways.c").read_text(encoding="utf-8")


def products_are_named_as_the_family_wants():
    """They are CUDA's, so that no CPU shows the names of them; the source does."""
    source = (ROOT / "bench/device/products.c").read_text(encoding="utf-8")
    names = set(re.findall(r'"(a graph|cuBLASLt)"', source))
    assert names == {"a graph", "cuBLASLt"} and '", by "' in source, names
    assert FAMILIES[0].one[1] == "{}, by a graph" and FAMILIES[0].other[1] == "{}, by cuBLASLt"


def goal_of(*ways):
    return Goal("an operation", 4e-6, 2e-6, "1 µs", "2 µs", ways)


def a_goal_is_met_by_the_fastest_way_and_the_slowest_case():
    results = results_of(figure("a", 3e-6), figure("b", 5e-6), figure("c", 1.9e-6))
    c, lost = Case("bench_a", "c"), Case("bench_a", "no such")
    for ways, first, then, at in (([("one", (A,))], "met", "not met", 3e-6),
                                  ([("one", (A, B))], "not met", "not met", 5e-6),
                                  ([("one", (A, B)), ("another", (c,))], "met", "met", 1.9e-6),
                                  ([("one", (lost,)), ("another", (A,))], "met", "not met", 3e-6)):
        one = standing(results, goal_of(*ways))
        got = (one.verdict(4e-6), one.verdict(2e-6), one.time.median)
        assert got == (first, then, at), got


def a_goal_whose_results_differ_is_not_measured():
    goal = goal_of(("one", (A,)))._replace(equal=(B,), each_equal=": own")
    for compared, why in (([], 'no comparison "b"'), ([figure("b", 1e-6)], 'no comparison "b"'),
                          ([{"name": "b", "differ": 2, "of": 9}], "b, 2 of 9"),
                          ([{"name": "b", "differ": 0, "of": 9}], 'no comparison "a: own"'),
                          ([{"name": "b", "differ": 0, "of": 9}, {"name": "a: own", "differ": 1, "of": 1}],
                           "a: own, 1 of 1")):
        one = standing(results_of(figure("a", 1e-6), *compared), goal)
        assert one.verdict(4e-6) == "not measured" and one.time.why == f"its results differ: {why}", one
    equal = [{"name": name, "differ": 0, "of": 9} for name in ("b", "a: own")]
    assert standing(results_of(figure("a", 1e-6), *equal), goal).verdict(4e-6) == "met"


def the_programs_in_python_tell_their_machine_too():
    machine, settings = {"gpu": "NVIDIA X, 580.1", "commit": "c0ffee"}, {"device": "cuda:0"}
    results = results_of(machine=machine, settings=settings, device="")
    told = {"file": "bench_a", "device": "cuda:0", "driver": "580.1", "commit": "c0ffee", "when": ""}
    assert results.told() == [told], results.told()


def what_was_not_measured_says_why():
    cases = [figure("a", 1e-6), {"name": "b", "absent": "no such engine"}, {"name": "c", "differ": 0, "of": 3}]
    for results, case, why in (
        (results_of(*cases), B, "no such engine"),
        (results_of(*cases), Case("bench_a", "c"), "this case holds no time"),
        (results_of(*cases), Case("bench_a", "d"), "bench_a.json has no such case"),
        (results_of(*cases, interrupted=1), Case("bench_a", "d"), "bench_a.json has no such case, and was interrupted"),
        (results_of(*cases, device="cpu"), A, "bench_a.json is of cpu"), (Results(None), A, "there is no bench_a.json"),
    ):
        found = results.find(case)
        assert isinstance(found, Missing) and found.why == why, found
        one = standing(results, goal_of(("one", (A, case))))
        assert one.verdict(4e-6) == "not measured", one  # one batch of two is not enough


def every_kind_of_case_is_read():
    time = {"median": 2.0, "low": 1.0, "high": 3.0}
    peers = {"name": "p", "results": {"ours": {"seconds": time}, "x": {"no": "other"}}}
    results = results_of(
        {"name": "a", "ratio": 1, "ours_seconds": [8.0, 2.0, 4.0, 6.0, 10.0, 12.0], "bare_seconds": [1.0], "items": 2},
        {"name": "m", "entrants": [{"entrant": "x", "seconds": 7.0, "low": 6.0, "high": 8.0}]}, peers)
    for name, entrant, wanted in (("a", "", (3.5, 1.0, 6.0)), ("m", "x", (7.0, 6.0, 8.0)),
                                  ("p", "ours", (2.0, 1.0, 3.0))):
        assert results.find(Case("bench_a", name, entrant))[1:] == wanted, results.find(Case("bench_a", name, entrant))
    assert results.find(Case("bench_a", "p", "x")).why == "other"
    assert results.find(Case("bench_a", "m", "y")).why == "no y in this case"


def one_is_faster_where_the_intervals_lie_apart():
    choice = Choice("what", ("one", A), ("other", B))
    for a, b, words in (((1.0, 0.9, 1.1), (2.0, 1.9, 2.1), "one is faster, by 50%"),
                        ((2.0, 1.9, 2.1), (1.5, 1.4, 1.6), "other is faster, by 25%"),
                        ((1.0, 0.9, 1.1), (5.0, 4.5, 5.5), "one is faster, 5.00 times"),
                        ((1.0, 0.9, 1.1), (1.05, 1.0, 1.2), "no difference that the intervals show")):
        one = ruling(results_of(figure("a", *a), figure("b", *b)), choice)
        assert one.words == words and one.ratio == (a[0] / b[0], a[1] / b[2], a[2] / b[1]), one
    one = ruling(results_of(figure("a", 1.0)), choice)
    assert one.ratio is None and one.words == "b: bench_a.json has no such case", one


def families_are_all_pairs_that_there_are():
    with tempfile.TemporaryDirectory() as folder:
        cases = [figure(f"27 -> 128, batch {n}, tf32, by {by}", 1e-6 * n)
                 for n in (32, 64) for by in ("cuBLASLt", "a graph") if (n, by) != (64, "cuBLASLt")]
        cases += [figure(f"512 -> 5, batch 32, bf16, by {by}", x) for by, x in (("a graph", 1e-6), ("cuBLASLt", 2e-6))]
        (Path(folder) / "bench_device.json").write_text(json.dumps({"device": "cuda:0", "cases": cases}))
        found = [one for one in choices(Results(Path(folder))) if one.family == "a matrix product"]
        assert [one.what for one in found] == ["a matrix product, 27 -> 128, batch 32, tf32",
                                               "a matrix product, 512 -> 5, batch 32, bf16"], found
        printed = call(folder, "--json", f"{folder}/goals.json").stdout
        assert "a graph of cuDNN's is faster, by 50%" in printed, printed
        made = goals.tables(*goals.judged(Results(Path(folder))))
        assert "of 2: a graph of cuDNN's faster in 1, cuBLASLt in 0; ratio 0.50 to 1.00" in made, made


def all_goals_measured(folder, factor):
    """Files in which every goal's cases take so many times what the first goal wants."""
    files = {}
    for goal in GOALS:
        for case in [case for _, cases in goal.ways for case in cases]:
            files.setdefault(case.file, []).append(figure(case.name, factor * goal.first))
        equal = [case.name for case in goal.equal]
        equal += [case.name + goal.each_equal for _, cases in goal.ways for case in cases if goal.each_equal]
        files.setdefault("bench_device", []).extend({"name": name, "differ": 0, "of": 9} for name in equal)
    for file, cases in files.items():
        document = {"device": "cuda:0", "commit": "c0ffee", "cases": cases}
        (Path(folder) / f"{file}.json").write_text(json.dumps(document))


def the_exit_status_is_that_of_the_first_goals():
    with tempfile.TemporaryDirectory() as folder:
        assert call(folder).returncode == 77 and "nothing here was measured on a GPU" in call(folder).stdout
        all_goals_measured(folder, 0.99)
        done = call(folder, "--json", f"{folder}/goals.json")
        assert done.returncode == 0, done
        assert f"of {len(GOALS)} goals the first is met by {len(GOALS)}, the second by 0" in done.stdout, done.stdout
        written = json.loads((Path(folder) / "goals.json").read_text())
        assert len(written["goals"]) == len(GOALS) and written["goals"][0]["first_is"] == "met", written["goals"][0]
        assert written["of"][0]["commit"] == "c0ffee", written["of"]
        (Path(folder) / "bench_append.json").unlink()
        assert call(folder).returncode == 1  # one was not measured
        all_goals_measured(folder, 1.01)
        assert call(folder).returncode == 1
        (Path(folder) / "bench_append.json").write_text("{")
        assert "bench_append.json is no report of a benchmark" in call(folder).stdout
    assert call("/nowhere").returncode == 2 and 'the folder is "/nowhere"' in call("/nowhere").stderr


def tables_are_put_into_a_document():
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "text.md"
        (Path(folder) / "results").mkdir()
        document.write_text("before\n<!-- goals of: nothing -->\nold\n<!-- goals end -->\nafter\n")
        old = document.read_text()
        all_goals_measured(f"{folder}/results", 0.5)
        done = call(f"{folder}/results", "--into", document)
        assert done.returncode == 2 and "a place of this machine" in done.stderr and document.read_text() == old, done
        assert call("results", "--into", document, within=folder).returncode == 0
        filled = document.read_text()
        assert filled.startswith("before\n<!-- goals of: results -->\n| operation |"), filled
        assert filled.endswith("\n<!-- goals end -->\nafter\n") and "| met |" in filled and "old" not in filled, filled
        assert call("--into", document).returncode == 0
        assert "| not measured: no GPU has been there |" in document.read_text() and folder not in document.read_text()
        document.write_text("nothing to fill in")
        assert call("--into", document).returncode == 1 and document.read_text() == "nothing to fill in"


def the_document_holds_what_its_results_say():
    text = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    of, held = re.search(r"<!-- goals of: (.*?) -->\n(.*?)\n<!-- goals end -->", text, flags=re.S).groups()
    made = goals.tables(*goals.judged(Results(None if of == "nothing" else ROOT / of)))
    of = of.replace("nothing", "")
    assert held == made, f"it is not up to date: python3 bench/goals.py {of} --into docs/performance.md"


def main():
    tests = [every_case_is_one_that_a_benchmark_has, steps_are_compared_as_the_goals_want,
             products_are_named_as_the_family_wants,
             a_goal_is_met_by_the_fastest_way_and_the_slowest_case, a_goal_whose_results_differ_is_not_measured,
             the_programs_in_python_tell_their_machine_too, what_was_not_measured_says_why,
             every_kind_of_case_is_read, one_is_faster_where_the_intervals_lie_apart,
             families_are_all_pairs_that_there_are, the_exit_status_is_that_of_the_first_goals,
             tables_are_put_into_a_document, the_document_holds_what_its_results_say]
    for test in tests:
        test()
    print(f"test_goals: {len(tests)} tests, {len(sys.argv) - 1} benchmarks")


main()
