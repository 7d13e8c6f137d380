#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user's whole loop beside other libraries: add a step of every environment, draw a batch as PyTorch tensors, and
where draws are by priority write new priorities back.

    bash bench/peers/setup.sh && build/peers/bin/python bench/peers/loops.py --busy 2 --json loops.json

Every library runs with its own default number of threads, as a user would run it. `--busy` starts processes that use
the cores meanwhile, as environments do. The steps are made before the clock runs.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import host
import numpy as np
import report
import summary

CAPACITY, ATARI_CAPACITY = 100_000, 10_000
EPISODE = 200  # steps of each environment
VECTOR, STACK = (17,), (84, 84, 4)
Step = dict[str, np.ndarray]


class Case(NamedTuple):
    shape: tuple[int, ...]  # of an observation
    envs: int
    batch: int
    prioritized: bool

    @property
    def name(self) -> str:
        kind = "Atari stacks" if self.shape == STACK else f"obs {self.shape[0]} float32"
        return f"{kind}, {self.envs} env{'s' * (self.envs > 1)}, batch {self.batch}" + \
            ", by priority" * self.prioritized

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


class Gpureplay:
    def __init__(self, case: Case):
        import gpureplay

        fields = {"obs": (case.shape, "uint8" if case.shape == STACK else "float32"), "action": "int64",
                  "reward": "float32", "next_obs": (case.shape, "uint8" if case.shape == STACK else "float32"),
                  "terminated": "bool", "truncated": "bool"}
        options: dict[str, Any] = {"prioritized": True} if case.prioritized else {}
        if case.shape == STACK:
            options.update(frame_stack=4, layout="linked", stack_axis="last", stack_pad="repeat")
        self._buffer = gpureplay.ReplayBuffer(case.capacity, fields, num_envs=case.envs, device="cpu",
                                              autoreset="disabled", **options)

    def add(self, step: Step) -> None:
        self._buffer.add(**step)
        if step["terminated"][0]:
            self._buffer.reset()

    def sample(self, batch: int) -> Any:
        drawn = self._buffer.sample(batch)
        return drawn.torch(), drawn.indices

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)


class Cpprb:
    def __init__(self, case: Case):
        import cpprb
        import torch

        kind = np.uint8 if case.shape == STACK else np.float32
        fields = {"obs": {"shape": case.shape, "dtype": kind}, "action": {"dtype": np.int64}, "reward": {},
                  "next_obs": {"shape": case.shape, "dtype": kind}, "terminated": {"dtype": bool},
                  "truncated": {"dtype": bool}}
        options = {}
        if case.shape == STACK:
            del fields["next_obs"]
            options = {"next_of": "obs", "stack_compress": "obs"}
        make = cpprb.PrioritizedReplayBuffer if case.prioritized else cpprb.ReplayBuffer
        self._buffer, self._tensor, self._case = make(case.capacity, fields, **options), torch.from_numpy, case
        self._options = {"beta": 0.4} if case.prioritized else {}

    def add(self, step: Step) -> None:
        self._buffer.add(**step)
        if step["terminated"][0]:
            self._buffer.on_episode_end()

    def sample(self, batch: int) -> Any:
        drawn = self._buffer.sample(batch, **self._options)
        indices = drawn.pop("indexes", None)
        return {name: self._tensor(array) for name, array in drawn.items()}, indices

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priorities(indices, priorities)


class Sb3:
    def __init__(self, case: Case):
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer

        if case.prioritized:
            raise ValueError("it has no draws by priority")
        low, high, kind = (0, 255, np.uint8) if case.shape == STACK else (-np.inf, np.inf, np.float32)
        options = {"optimize_memory_usage": True, "handle_timeout_termination": False} if case.shape == STACK else {}
        self._buffer = ReplayBuffer(case.capacity * case.envs, spaces.Box(low, high, case.shape, kind),
                                    spaces.Discrete(4), "cpu", n_envs=case.envs, **options)
        self._infos: list[dict[str, Any]] = [{} for _ in range(case.envs)]

    def add(self, step: Step) -> None:
        self._buffer.add(step["obs"], step["next_obs"], step["action"], step["reward"],
                         step["terminated"] | step["truncated"], self._infos)

    def sample(self, batch: int) -> Any:
        return self._buffer.sample(batch), None


class TorchRL:
    def __init__(self, case: Case):
        import logging

        import torch
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
        from torchrl.data.replay_buffers.samplers import PrioritizedSampler

        logging.getLogger("torchrl").setLevel(logging.WARNING)
        storage = LazyTensorStorage(case.capacity)
        self._prioritized = case.prioritized
        self._buffer = ReplayBuffer(storage=storage, sampler=PrioritizedSampler(case.capacity, 0.6, 0.4)) \
            if case.prioritized else TensorDictReplayBuffer(storage=storage)
        self._dict, self._tensor, self._envs = TensorDict, torch.from_numpy, case.envs

    def add(self, step: Step) -> None:
        tensors = {name: self._tensor(array) for name, array in step.items()}
        self._buffer.extend(self._dict(tensors, batch_size=[self._envs]))

    def sample(self, batch: int) -> Any:
        if not self._prioritized:
            return self._buffer.sample(batch), None
        drawn, info = self._buffer.sample(batch, return_info=True)
        return drawn, info["index"]

    def update(self, indices: Any, priorities: Any) -> None:
        self._buffer.update_priority(indices, self._tensor(priorities))


CONTESTANTS = {"gpureplay": Gpureplay, "cpprb": Cpprb, "sb3": Sb3, "torchrl": TorchRL}


def loop_of(buffer: Any, case: Case, steps: list[Step]) -> Callable[[int], float]:
    """Runs so many turns of the loop; returns the seconds of one."""
    coming = itertools.cycle(steps)
    priorities = np.random.default_rng(2).random(case.batch, np.float32) + np.float32(0.05)

    def run(turns: int) -> float:
        start = time.perf_counter()
        for step in itertools.islice(coming, turns):
            buffer.add(step)
            _, indices = buffer.sample(case.batch)
            if case.prioritized:
                buffer.update(indices, priorities)
        return (time.perf_counter() - start) / turns

    return run


def opened(case: Case, only: set[str]) -> tuple[dict[str, Callable[[int], float]], dict[str, str]]:
    """Each contestant's loop over a buffer that is a fifth full, and why the others have none."""
    loops, absent = {}, {}
    steps = steps_of(case)
    for name, contestant in CONTESTANTS.items():
        if name not in only:
            continue
        try:
            buffer = contestant(case)
            for step in itertools.islice(itertools.cycle(steps), max(case.capacity // (5 * case.envs), 2 * EPISODE)):
                buffer.add(step)
            loops[name] = loop_of(buffer, case, steps)
            loops[name](3 * EPISODE)
        except Exception as error:  # noqa: BLE001  another library may raise anything, and the rest must go on
            absent[name] = host.without_paths(f"{type(error).__name__}: {error}")
    return loops, absent


def measured(case: Case, rounds: int, turns: int, only: set[str]) -> dict[str, Any]:
    loops, absent = opened(case, only)
    samples: dict[str, list[float]] = {name: [] for name in loops}
    order = list(loops)
    for _ in range(rounds):
        for name in order:
            samples[name].append(loops[name](turns))
        order.append(order.pop(0))
    return {"case": case.name, "absent": absent, "seconds": samples}


def shown(outcome: dict[str, Any]) -> str:
    """A row of the table: the time of a turn, and ours over each other's, round by round."""
    samples = outcome["seconds"]
    cells = [f"{summary.median(samples['gpureplay']) * 1e6:.1f} µs" if "gpureplay" in samples else ""]
    for name in CONTESTANTS:
        if name == "gpureplay":
            continue
        if name not in samples or "gpureplay" not in samples:
            cells.append("")
            continue
        ratio = summary.summarise(summary.ratios(samples["gpureplay"], samples[name]))
        cells.append(f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})")
    return f"| {outcome['case']} | " + " | ".join(cells) + " |"


def _spin() -> None:
    while True:
        pass


class Busy:
    """So many processes that use the cores, for the length of a `with`."""

    def __init__(self, count: int):
        self._processes = [multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
                           for _ in range(count)]

    def __enter__(self) -> None:
        for process in self._processes:
            process.start()

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.join()


def outcomes(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    with Busy(given.busy):
        for case in CASES[:given.cases]:
            yield measured(case, given.rounds, given.turns, set(given.only.split(",")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--busy", type=int, default=0, help="processes that use the cores meanwhile (0)")
    parser.add_argument("--rounds", type=int, default=21, help="samples of each, in turn (21)")
    parser.add_argument("--turns", type=int, default=400, help="turns of the loop in a sample (400)")
    parser.add_argument("--cases", type=int, default=len(CASES), help="only the first so many cases")
    parser.add_argument("--only", default=",".join(CONTESTANTS), help="contestants, with commas between")
    parser.add_argument("--json", metavar="OUT", help="where to write the report with every sample")
    given = parser.parse_args()
    head = {"title": "whole loops beside each other", "host": host.describe(), "busy_processes": given.busy}
    print("| loop | gpureplay, a turn | " + " | ".join(f"/ {name}" for name in list(CONTESTANTS)[1:]) + " |")
    print("|---|" + "---|" * len(CONTESTANTS))
    done: list[dict[str, Any]] = []
    try:
        for outcome in outcomes(given):
            print(shown(outcome), flush=True)
            done.append(outcome)
            report.write(given.json, head, done)
    except KeyboardInterrupt:
        print("interrupted; what is finished is kept")


if __name__ == "__main__":
    main()
