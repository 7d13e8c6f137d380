# SPDX-License-Identifier: MIT
"""Contestants in turn, A B C A B C ..., so that a machine that slows down slows all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from adapters.base import Adapter
from workloads import Case, rows_of

Run = Callable[[int], None]  # does an operation so many times
MOST_REPEATS = 1_000_000
UNTIMED = 2  # before each sample: a batch's memory is then as warm as it stays, and not as others left it


def _adding(adapter: Adapter, add: Callable[[Any], None], transitions: Any) -> Run:
    def run(repeats: int) -> None:
        for _ in range(repeats):
            add(transitions)
        adapter.finish()

    return run


def _sampling(adapter: Adapter, count: int) -> Run:
    sample = adapter.sample

    def run(repeats: int) -> None:
        for _ in range(repeats):
            batch = sample(count)  # the one before lives until here, as in a training loop  # noqa: F841

    return run


def run_of(adapter: Adapter, case: Case) -> Run:
    """What is timed of this case."""
    if case.operation == "sample":
        return _sampling(adapter, case.count)
    rows = rows_of(adapter.schema, np.arange(case.count))
    if case.operation in ("add", "step"):
        return _adding(adapter, adapter.add, adapter.one(rows))
    return _adding(adapter, adapter.extend, adapter.many(rows))


def clock(run: Run, repeats: int) -> float:
    """Seconds of one repeat."""
    start = time.perf_counter()
    run(repeats)
    return (time.perf_counter() - start) / repeats


def calibrate(run: Run, seconds: float) -> int:
    """Repeats that take about so long. Warms up, too: it compiles what is compiled at the first call."""
    run(1)
    repeats = 1
    while repeats < MOST_REPEATS:
        took = clock(run, repeats) * repeats
        if took >= seconds:
            break
        repeats = min(max(2 * repeats, int(repeats * 1.2 * seconds / max(took, 1e-9))), 10 * repeats, MOST_REPEATS)
    return repeats


def interleave(runs: dict[str, Run], rounds: int, seconds: float,
               show: Callable[[float], None]) -> dict[str, list[float]]:
    """Seconds of one repeat, a sample a round of each. Every round begins with another contestant, so that none always
    comes after the same one, and is repeated untimed first. Python's collector of cycles rests, as in `timeit`."""
    repeats = {name: calibrate(run, seconds) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            show(number / rounds)
            for name in order:
                runs[name](UNTIMED)
                samples[name].append(clock(runs[name], repeats[name]))
            order.append(order.pop(0))
    finally:
        gc.enable()
    return samples
