# SPDX-License-Identifier: MIT
"""bench/contest_checks.py over results made up here: what is ok, what is not, and which figures it tells."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKS = Path(__file__).resolve().parent.parent / "bench/contest_checks.py"
BATCHES = (16, 32, 64, 128, 256, 512, 1024)
STEP = "in-device is ahead of both in-RAM contestants at every batch size"
APPEND = "an append is no dearer than one to the plain list in RAM"


def entrant(name, samples):
    return {"entrant": name, "seconds": sorted(samples)[len(samples) // 2], "samples": samples}


def case(figure, x, **seconds):
    """Eleven samples of each; a list is taken as it is."""
    names = {"paper": "in-RAM, as in the paper", "well": "in-RAM, done well", "calls": "in-device, a call a step",
             "together": "in-device, 16 a call", "device": "in-device"}
    return {"name": f"{figure} {x}", "figure": figure, "x": x,
            "entrants": [entrant(names[name], [each] * 11 if isinstance(each, float) else each)
                         for name, each in seconds.items()]}


def steps(batches=BATCHES, **seconds):
    return [case("train step", batch, **{"paper": 90e-6, "well": 60e-6, "calls": 44e-6, "device": 40e-6, **seconds})
            for batch in batches]


def appends(blocks=(1, 2000), **seconds):
    return [case("append", block, **{"paper": 50e-9, "together": 20e-9, "device": 40e-9, **seconds})
            for block in blocks]


def checked(cases):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench_contest.json"
        path.write_text(json.dumps({"cases": [{"name": "no figure", "seconds": 1.0}, *cases]}))
        done = subprocess.run([sys.executable, CHECKS, path], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def verdicts(said):
    return [line.rsplit(": ", 1)[1] for line in said.splitlines() if line.endswith("ok")]


def expect(cases, status, wanted, *words):
    got, said = checked(cases)
    assert got == status and verdicts(said) == wanted, (got, said)
    assert STEP in said and APPEND in said and all(word in said for word in words), said


def an_interval_is_of_95_percent():
    """Of 11 samples the second least to the second greatest; of six all."""
    for count, words in ((11, "done well 6.00 (2.00 to 10.00)"), (6, "done well 3.50 (1.00 to 6.00)")):
        case = steps((16,), well=[1e-5 * n for n in range(count, 0, -1)], device=[1e-5] * count,
                     paper=[9e-5] * count, calls=[9e-5] * count)
        expect(case + appends(), 1, ["NOT ok", "ok"], words)


def all_is_told_where_all_holds():
    expect(steps() + appends(), 0, ["ok", "ok"], "batch   16: in-device 40.0 us; as in the paper 2.25 (2.25 to 2.25); "
           "done well 1.50 (1.50 to 1.50); a call a step 1.10 (1.10 to 1.10)", "batch 1024:",
           "blocks of 2000: in-device 40.0 ns, 16 a call 20.0 ns, list 50.0 ns; list 1.25 (1.25 to 1.25), "
           "beside 16 a call 2.50 (2.50 to 2.50)")


def one_batch_is_enough_to_fall_short():
    expect(steps(BATCHES[:-1]) + steps((1024,), well=39e-6) + appends(), 1, ["NOT ok", "ok"], "done well 0.97")
    expect(steps(BATCHES[:-1]) + steps((1024,), paper=39e-6) + appends(), 1, ["NOT ok", "ok"])


def ahead_is_what_the_whole_interval_says():
    wide = [60e-6] * 6 + [39e-6] * 5  # a median of 1.5, from 0.975
    expect(steps(well=wide) + appends(), 1, ["NOT ok", "ok"], "done well 1.50 (0.97 to 1.50)")


def what_was_not_measured_is_not_ok():
    expect(steps(BATCHES[1:]) + appends(), 1, ["NOT ok", "ok"], "batch   16: not measured")
    expect(steps() + appends((1,)), 1, ["ok", "NOT ok"], "blocks of 2000: not measured")
    expect([], 1, ["NOT ok", "NOT ok"])


def only_the_block_that_one_gets_counts_for_appends():
    expect(steps() + appends((1,), device=900e-9) + appends((2000,)), 0, ["ok", "ok"], "in-device 900.0 ns")
    expect(steps() + appends((1,)) + appends((2000,), device=51e-9), 1, ["ok", "NOT ok"], "0.98 (0.98 to 0.98)")
    expect(steps() + appends(device=50e-9), 0, ["ok", "ok"])  # as dear is no dearer


def what_cannot_be_read_is_said():
    for arguments, status, words in (((), 2, "usage: contest_checks.py JSON"), ((str(CHECKS),), 2, "usage: "),
                                     (("/nowhere/bench_contest.json",), 77, "not measured: there is no /nowhere/")):
        done = subprocess.run([sys.executable, CHECKS, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == status and words in done.stderr and not done.stdout, done


def main():
    an_interval_is_of_95_percent()
    all_is_told_where_all_holds()
    one_batch_is_enough_to_fall_short()
    ahead_is_what_the_whole_interval_says()
    what_was_not_measured_is_not_ok()
    only_the_block_that_one_gets_counts_for_appends()
    what_cannot_be_read_is_said()
    print("test_contest_checks: 7 tests")


main()
