# SPDX-License-Identifier: MIT
"""What replay on a GPU must show, held against what bench_contest wrote: python3 bench/contest_checks.py JSON.

Every check is a line that ends with "ok" or "NOT ok", and the figures below it. How many times as long as in-device:
median and 95% interval of the ratios of neighbouring samples. Exits with 1 when a check is NOT ok, with 77 when there
is no such file, and with 2 when it cannot be read.
"""

import json
import math
import sys

RAM = {"in-RAM, as in the paper": "as in the paper", "in-RAM, done well": "done well"}
LIST, DEVICE = "in-RAM, as in the paper", "in-device"
CALLS, TOGETHER = "in-device, a call a step", "in-device, 16 a call"
BATCHES = (16, 32, 64, 128, 256, 512, 1024)
BLOCK = 2000  # the library's own update_size, and the paper's


def interval_rank(n):
    """As bench_interval_rank."""
    rank, below = 0, 0.5**n
    while below <= 0.025:
        rank += 1
        below += math.comb(n, rank) * 0.5**n
    return max(rank, 1)


def times_as_long(case, entrant, reference):
    """(median, low, high) of entrant / reference, of the same round."""
    samples = {each["entrant"]: each["samples"] for each in case["entrants"]}
    x = sorted(a / b for a, b in zip(samples[entrant], samples[reference]))
    rank, n = interval_rank(len(x)), len(x)
    median = x[n // 2] if n % 2 else (x[n // 2 - 1] + x[n // 2]) / 2
    return median, x[rank - 1], x[n - rank]


def told(case, entrant, reference=DEVICE):
    return "{:.2f} ({:.2f} to {:.2f})".format(*times_as_long(case, entrant, reference))


def time_of(case, entrant):
    seconds = next(each["seconds"] for each in case["entrants"] if each["entrant"] == entrant)
    return f"{1e6 * seconds:.1f} us" if seconds >= 1e-6 else f"{1e9 * seconds:.1f} ns"


def by_x(document, figure):
    return {case["x"]: case for case in document["cases"] if case.get("figure") == figure}


def steps_are_faster(cases):
    """(whether it holds, lines): in-device is ahead where the whole interval says so."""
    lines, ahead = [], all(batch in cases for batch in BATCHES)
    for batch, case in sorted(cases.items()):
        ahead = ahead and all(times_as_long(case, name, DEVICE)[1] > 1 for name in RAM)
        others = "; ".join(f"{short} {told(case, name)}" for name, short in RAM.items())
        lines.append(f"batch {batch:4d}: in-device {time_of(case, DEVICE)}; {others}; a call a step "
                     f"{told(case, CALLS)}")
    return ahead, lines + [f"batch {batch:4d}: not measured" for batch in BATCHES if batch not in cases]


def appends_are_no_dearer(cases):
    """(whether it holds, lines): by the median, at the block size that one gets. The rest is there to be read."""
    lines = [f"blocks of {block:4d}: in-device {time_of(case, DEVICE)}, 16 a call {time_of(case, TOGETHER)}, list "
             f"{time_of(case, LIST)}; list {told(case, LIST)}, beside 16 a call {told(case, LIST, TOGETHER)}"
             for block, case in sorted(cases.items())]
    if BLOCK not in cases:
        return False, [*lines, f"blocks of {BLOCK}: not measured"]
    return times_as_long(cases[BLOCK], LIST, DEVICE)[0] >= 1, lines


CHECKS = (
    ("in-device is ahead of both in-RAM contestants at every batch size", "train step", steps_are_faster),
    (f"an append is no dearer than one to the plain list in RAM (one a call, blocks of {BLOCK:,})", "append",
     appends_are_no_dearer),
)


def main():
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        print(f"not measured: there is no {sys.argv[1]}", file=sys.stderr)
        return 77
    except (IndexError, OSError, ValueError) as error:
        print(f"usage: contest_checks.py JSON, which bench_contest wrote: {error}", file=sys.stderr)
        return 2
    failed = 0
    for claim, figure, check in CHECKS:
        holds, lines = check(by_x(document, figure))
        failed += not holds
        print(f"{claim}: {'ok' if holds else 'NOT ok'}", *lines, sep="\n  ")
    print("The number behind a contestant: how many times as long it takes as in-device; median, 95% interval.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
