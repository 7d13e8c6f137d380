#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train steps a second of DDPG with batches of 256, beside Stable-Baselines3 and CleanRL, in the sizes of HalfCheetah
(17 numbers and 6 actions) and with two layers of 256 units in both networks.

    build/peers/bin/pip install "gymnasium[mujoco]" "mujoco<4" tyro tensorboard
    build/peers/bin/python bench/peers/ddpg.py --cleanrl build/cleanrl --json ddpg.json

--cleanrl is a checkout of CleanRL's repository, which is no package that can be installed; without it CleanRL is left
out. Its program has no function for a train step alone: it runs whole, with and without training, and the difference
counts, in which its acting is, too. A train step draws a batch, and updates the critic, the actor and, as each system
does it, the targets. All learn from random transitions, by uniform draws; ours also by priority, as Ape-X does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import common
import numpy as np
from common import OURS

ROUNDS, QUICK_ROUNDS, STEPS, QUICK_STEPS = 7, 6, 500, 100
OBS, ACTION, UNITS, BATCH, TRANSITIONS = 17, 6, 256, 256, 10_000
PRIORITIZED, SB3, CLEANRL = f"{OURS}, by priority", "Stable-Baselines3", "CleanRL"
ENV = "HalfCheetah-v5"
Run = Callable[[int], float]  # so many train steps; returns the seconds of one


def ours(device: str, prioritized: bool) -> Run:
    import gpureplay

    rng = np.random.default_rng(1)
    fields: dict[str, Any] = {"obs": ((OBS,), "float32"), "action": ((ACTION,), "float32"), "reward": "float32",
                              "next_obs": ((OBS,), "float32"), "terminated": "bool", "truncated": "bool"}
    buffer = gpureplay.ReplayBuffer(TRANSITIONS, fields, device=device, gamma=0.99, prioritized=prioritized,
                                    max_batch=BATCH)
    for step in range(TRANSITIONS):
        buffer.add(obs=rng.standard_normal(OBS, np.float32), action=rng.uniform(-1, 1, ACTION).astype(np.float32),
                   reward=rng.standard_normal(), next_obs=rng.standard_normal(OBS, np.float32), terminated=False,
                   truncated=step % 1000 == 999)
    network = {"trunk": [UNITS, UNITS], "learning_rate": 1e-4}
    agent = gpureplay.DDPG(buffer, actor=network, critic=network, batch_size=BATCH)

    def run(steps: int) -> float:
        start = time.perf_counter()
        agent.train(steps)
        agent.sync()
        return (time.perf_counter() - start) / steps

    return run


def sb3(device: str) -> Run:
    import gymnasium
    from stable_baselines3 import DDPG

    agent = DDPG("MlpPolicy", gymnasium.make(ENV), batch_size=BATCH, buffer_size=TRANSITIONS,
                 learning_starts=TRANSITIONS, learning_rate=1e-4, device=device,
                 policy_kwargs={"net_arch": [UNITS, UNITS]})
    agent.learn(TRANSITIONS)

    def run(steps: int) -> float:
        start = time.perf_counter()
        agent.train(steps, BATCH)
        return (time.perf_counter() - start) / steps

    return run


def cleanrl(place: Path, device: str) -> Run:
    def seconds(steps: int, starts: int) -> float:
        command = [sys.executable, str(place / "cleanrl/ddpg_continuous_action.py"), "--env-id", ENV,
                   "--batch-size", str(BATCH), "--buffer-size", str(TRANSITIONS), "--policy-frequency", "1",
                   "--learning-starts", str(starts), "--total-timesteps", str(steps),
                   "--cuda" if device.startswith("cuda") else "--no-cuda"]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, cwd=place / "build",
                       env={**os.environ, "PYTHONPATH": str(place)})
        return time.perf_counter() - start

    (place / "build").mkdir(exist_ok=True)  # where it writes its runs

    def run(steps: int) -> float:
        random = BATCH + 1
        return (seconds(random + steps, random - 1) - seconds(random + steps, random + steps)) / steps

    return run


def measure(given: argparse.Namespace) -> Iterable[dict[str, Any]]:
    makers: dict[str, Callable[[], Run]] = {
        OURS: lambda: ours(given.device, prioritized=False), PRIORITIZED: lambda: ours(given.device, prioritized=True),
        SB3: lambda: sb3(given.device), CLEANRL: lambda: cleanrl(given.cleanrl.resolve(), given.device)}
    runs: dict[str, Run] = {}
    steps = QUICK_STEPS if given.quick else STEPS
    absent: dict[str, str] = {}
    wanted = None if given.only is None else {OURS, *given.only.split(",")}
    for name, make in makers.items():
        if wanted is not None and name not in wanted:
            continue
        if name == CLEANRL and given.cleanrl is None:
            absent[name] = "no --cleanrl"
            continue
        try:
            run = make()
            run(steps)  # warm
            runs[name] = run
        except (ImportError, subprocess.CalledProcessError) as error:
            absent[name] = common.error_text(error)
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for round_ in range(given.rounds):
        for name, run in runs.items():
            common.show(f"round {round_ + 1} of {given.rounds}: {name}")
            samples[name].append(run(steps))
    found = common.variants(samples, absent)
    for one in found:
        if "seconds" in one:
            one["transitions_per_second"] = BATCH / one["seconds"]
    yield {"name": f"a train step of DDPG, batch {BATCH}", "variants": found}


def main(arguments: list[str]) -> None:
    parser = common.parser_of(__doc__, ROUNDS, "a short try", "systems")
    common.add_device(parser)
    parser.add_argument("--cleanrl", type=Path, help="folder of CleanRL's repository")
    given = common.parse(parser, arguments, ROUNDS, QUICK_ROUNDS)
    cores = common.use_threads(given.threads, on_cuda=given.device.startswith("cuda"))
    head = {"title": "ddpg", "machine": common.describe_machine(), "device": given.device, "threads": given.threads,
            "cores": cores, "rounds": given.rounds, "sizes": [OBS, ACTION, UNITS, BATCH], "interrupted": False}
    for case in common.collect(head, measure(given), given.json):
        for one in case["variants"]:
            if "transitions_per_second" in one:
                print(f"  {one['name']:<24} {1 / one['seconds']:>8,.0f} train steps/s "
                      f"{one['transitions_per_second']:>12,.0f} transitions/s")
    print("  the paper's learner, on one GPU: 86 train steps/s, 22,000 transitions/s")


if __name__ == "__main__":
    main(sys.argv[1:])
