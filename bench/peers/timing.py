# SPDX-License-Identifier: MIT
"""Libraries alternately, A B C A B C ..., so that a machine that slows down slows all of them."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from adapters.base import Adapter, Prioritized, Saving
from workloads import Case, rows_of

Run = Callable[[int], None]  # does an operation so many times
Clock = Callable[[], float]
MAX_REPEATS = 1_000_000
UPDATED = 2**20  # rows that updates go through before they begin anew
UNTIMED = 2  # repeats before each sample, so that caches are as this library leaves them


def _adding(adapter: Adapter, add: Callable[[Any], None], transitions: Any) -> Run:
    def run(repeats: int) -> None:
        for _ in range(repeats):
            add(transitions)
        adapter.finish()

    return run


def _following(adapter: Adapter) -> Run:
    """Adds an episode's steps, one after another, and then again: a buffer that follows episodes refuses a step twice.
    """
    tags = np.arange(adapter.schema.episode)
    steps = [adapter.one(rows_of(adapter.schema, tags[at:at + 1])) for at in tags]
    add, coming = adapter.add, itertools.cycle(steps)

    def run(repeats: int) -> None:
        for step in itertools.islice(coming, repeats):
            add(step)
        adapter.finish()

    return run


def _sampling(adapter: Adapter, count: int) -> Run:
    sample = adapter.sample

    def run(repeats: int) -> None:
        for _ in range(repeats):
            batch = sample(count)  # the one before lives until here, as in a training loop  # noqa: F841
        if adapter.on_cuda:
            adapter.finish()

    return run


def _updates(adapter: Prioritized, count: int) -> list[tuple[Any, Any]]:
    """Random rows and new priorities, as `update` takes them: so many that none is still in the cache when it comes
    again."""
    rng = np.random.default_rng(2)
    slots = rng.integers(0, adapter.capacity, UPDATED)
    values = rng.random(UPDATED, np.float32) + np.float32(0.05)
    indices, priorities = adapter.indices_as(adapter.indices_of_slots(slots)), adapter.priorities_as(values)
    return [(indices[at:at + count], priorities[at:at + count]) for at in range(0, UPDATED - count + 1, count)]


def _updating(adapter: Prioritized, count: int) -> Run:
    update, coming = adapter.update, itertools.cycle(_updates(adapter, count))

    def run(repeats: int) -> None:
        for indices, priorities in itertools.islice(coming, repeats):
            update(indices, priorities)
        adapter.finish()

    return run


def _sampling_and_updating(adapter: Prioritized, count: int) -> Run:
    sample, sampled_indices, update = adapter.sample, adapter.sampled_indices, adapter.update
    coming = itertools.cycle([priorities for _, priorities in _updates(adapter, count)])

    def run(repeats: int) -> None:
        for priorities in itertools.islice(coming, repeats):
            batch = sample(count)
            update(sampled_indices(batch), priorities)
        adapter.finish()

    return run


def _saving(adapter: Saving, _: int) -> Run:
    def run(repeats: int) -> None:
        for _ in range(repeats):
            adapter.save()
            adapter.flush()

    return run


def _loading(adapter: Saving, _: int) -> Run:
    adapter.save()

    def run(repeats: int) -> None:
        for _ in range(repeats):
            adapter.load(adapter.folder)

    return run


_RUNS: dict[str, Callable[[Any, int], Run]] = {"sample": _sampling, "update": _updating,
                                               "sample + update": _sampling_and_updating, "save": _saving,
                                               "load": _loading}


def run_of(adapter: Adapter, case: Case) -> Run:
    """What is timed of this case."""
    if case.operation in _RUNS:
        return _RUNS[case.operation](adapter, case.count)
    if adapter.schema.episode:
        return _following(adapter)
    rows = rows_of(adapter.schema, np.arange(case.count))
    if case.operation in ("add", "step"):
        return _adding(adapter, adapter.add, adapter.one(rows))
    return _adding(adapter, adapter.extend, adapter.many(rows))


def clock(run: Run, repeats: int, now: Clock = time.perf_counter) -> float:
    """Seconds of one repeat."""
    start = now()
    run(repeats)
    return (now() - start) / repeats


def calibrate(run: Run, seconds: float, now: Clock = time.perf_counter) -> int:
    """Repeats that take about so long. The first run warms up, and compiles what is compiled at the first call."""
    run(1)
    repeats = 1
    while repeats < MAX_REPEATS:
        took = clock(run, repeats, now) * repeats
        if took >= seconds:
            break
        repeats = min(max(2 * repeats, int(repeats * 1.2 * seconds / max(took, 1e-9))), 10 * repeats, MAX_REPEATS)
    return repeats


def interleave(runs: dict[str, Run], rounds: int, seconds: float, untimed: int = UNTIMED,
               now: Clock = time.perf_counter) -> dict[str, list[float]]:
    """Seconds of one repeat, a sample a round of each. Every round begins with another library, so that none always
    comes after the same one. Python's garbage collector is off, as in `timeit`."""
    repeats = {name: calibrate(run, seconds, now) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name in order:
                runs[name](untimed)
                samples[name].append(clock(runs[name], repeats[name], now))
            order = order[1:] + order[:1]
    finally:
        gc.enable()
    return samples
