#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user's whole loop in several libraries: add a step of every environment, sample a batch as PyTorch tensors,
and where samples are by priority write new priorities back.

    build/peers/bin/python bench/peers/loops.py --busy 2 --json bench_loops.json

Every library runs with its own default number of threads, as a user would run it. `--busy` starts processes that use
the cores meanwhile, as environments do. The steps are made before the clock runs.
"""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import common
import numpy as np
from workloads import STACK

LIBRARIES = {"gpureplay": "ours", "cpprb": "cpprb", "sb3": "sb3", "torchrl": "torchrl"}
CAPACITY, ATARI_CAPACITY = 100_000, 10_000
EPISODE = 200  # steps of each environment
VECTOR = (17,)
ROUNDS, ITERATIONS = 21, 400  # samples of each library, in turn; iterations of the loop in a sample
QUICK_ROUNDS, QUICK_ITERATIONS, QUICK_CASES = 6, 50, 2
Step = dict[str, np.ndarray]


class Case(NamedTuple):
    shape: tuple[int, ...]  # of an observation
    envs: int
    batch: int
    prioritized: bool

    @property
    def name(self) -> str:
        kind = "Atari stacks" if self.shape == STACK else f"obs {self.shape[0]} float32"
        samples = ", by priority" * self.prioritized
        return f"{kind}, {self.envs} env{'s' * (self.envs > 1)}, batch {self.batch}{samples}"

    @property
    def capacity(self) -> int:
        return ATARI_CAPACITY if self.shape == STACK else CAPACITY


CASES = (*(Case(VECTOR, envs, batch, prioritized) for prioritized in (False, True) for envs in (1, 4, 16)
           for batch in (32, 256)), Case(STACK, 1, 32, False), Case(STACK, 1, 256, False))


def steps_of(case: Case) -> list[Step]:
    """An episode of every environment, as a Gymnasium vector returns it: each obs is the next_obs before it."""
    rng = np.random.default_rng(1)
    if case.shape == STACK:
        frames = rng.integers(0, 256, (EPISODE + 4, case.envs, *STACK[:2]), np.uint8)
        obs = [np.stack([frames[at + k] for k in range(4)], axis=-1) for at in range(EPISODE + 1)]
    else:
        obs = list(rng.random((EPISODE + 1, case.envs, *case.shape), np.float32))
    return [{"obs": obs[at], "action": rng.integers(0, 4, case.envs), "reward": rng.random(case.envs, np.float32),
             "next_obs": obs[at + 1], "terminated": np.full(case.envs, at == EPISODE - 1),
             "truncated": np.zeros(case.envs, bool)} for at in range(EPISODE)]


def loop_of(buffer: Any, case: Case, steps: list[Step]) -> Callable[[int], float]:
    """Runs so many iterations of the loop; returns the seconds of one."""
    coming = itertools.cycle(steps)
    priorities = np.random.default_rng(2).random(case.batch, np.float32) + np.float32(0.05)

    def run(iterations: int) -> float:
        start = time.perf_counter()
        for step in itertools.islice(coming, iterations):
            buffer.add(step)
            _, indices = buffer.sample(case.batch)
            if case.prioritized:
                buffer.update(indices, priorities)
        return (time.perf_counter() - start) / iterations

    return run


def open_loops(case: Case, libraries: list[str]) -> tuple[dict[str, Callable[[int], float]], dict[str, str]]:
    """Each library's loop over a buffer that is a fifth full, and why others have none."""
    loops, absent = {}, {}
    steps = steps_of(case)
    for name in libraries:
        try:
            buffer = importlib.import_module(f"adapters.{LIBRARIES[name]}").Loop(case)
            for step in itertools.islice(itertools.cycle(steps), max(case.capacity // (5 * case.envs), 2 * EPISODE)):
                buffer.add(step)
            loops[name] = loop_of(buffer, case, steps)
            loops[name](3 * EPISODE)
        except Exception as error:  # noqa: BLE001  another library may raise anything, and the rest must go on
            absent[name] = common.error_text(error)
    return loops, absent


def measure(case: Case, rounds: int, iterations: int, libraries: list[str]) -> dict[str, Any]:
    loops, absent = open_loops(case, libraries)
    samples: dict[str, list[float]] = {name: [] for name in loops}
    order = list(loops)
    for _ in range(rounds):
        for name in order:
            samples[name].append(loops[name](iterations))
        order.append(order.pop(0))
    return {"name": case.name, "variants": common.variants(samples, absent)}


def _spin() -> None:
    """What a busy process does until it is killed."""
    while True:
        pass


def main() -> int:
    parser = common.parser_of(__doc__, ROUNDS, "two cases, fewer and shorter samples", "libraries")
    parser.add_argument("--busy", type=int, default=0, help="processes that use the cores meanwhile (0)")
    given = common.parse(parser, sys.argv[1:], ROUNDS, QUICK_ROUNDS)
    rounds, iterations = given.rounds, QUICK_ITERATIONS if given.quick else ITERATIONS
    wanted = f"{given.only},gpureplay".split(",") if given.only else LIBRARIES
    libraries = [name for name in LIBRARIES if name in wanted]
    head = {"title": "whole loops of several libraries", "machine": common.describe_machine(),
            "settings": {"busy_processes": given.busy, "rounds": rounds, "quick": given.quick}, "interrupted": False}
    print(f"{head['machine']}\nTimes of one iteration of the loop; ours / theirs, below 1: ours is faster.")
    context = multiprocessing.get_context("spawn")
    busy = [context.Process(target=_spin, daemon=True) for _ in range(given.busy)]
    for process in busy:
        process.start()
    try:
        common.collect(head, (measure(case, rounds, iterations, libraries)
                              for case in (CASES[:QUICK_CASES] if given.quick else CASES)), given.json)
    finally:
        for process in busy:
            process.kill()
            process.join()
    return 130 if head["interrupted"] else 0


if __name__ == "__main__":
    sys.exit(main())
