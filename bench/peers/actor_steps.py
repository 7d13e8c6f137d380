#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train steps of SAC, TD3 and DDPG beside Stable-Baselines3 and, but for DDPG, PyTorch by hand (torch_actors.py), eager
and compiled, in the sizes of HalfCheetah: 17 numbers and 6 actions.

    build/agents/bin/python bench/peers/actor_steps.py --json bench_actor_steps.json

A train step draws a batch from 10,000 random transitions, updates the critics, the actor (in TD3 in every second step)
and, in SAC, the temperature, and moves the targets. All have the same networks, batch and learning rate. Seconds are
of the processor, by one thread: other work on the machine counts little.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import common
import numpy as np
import timing
from common import OURS

ROUNDS, QUICK_ROUNDS, SECONDS, QUICK_SECONDS = 15, 6, 0.5, 0.1
OBS, ACTION, TRANSITIONS, RATE = 17, 6, 10_000, 1e-3
SIZES = (([256, 256], 256), ([64, 64], 100))
SB3, EAGER, COMPILED = "Stable-Baselines3", "PyTorch, eager", "PyTorch, compiled"


def transitions() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    obs, next_obs = rng.standard_normal((2, TRANSITIONS, OBS), np.float32)
    return {"obs": obs, "action": rng.uniform(-1, 1, (TRANSITIONS, ACTION)).astype(np.float32),
            "reward": rng.standard_normal(TRANSITIONS, np.float32), "next_obs": next_obs,
            "terminated": np.arange(TRANSITIONS) % 100 == 99}


def ours(kind: str, units: list[int], batch: int) -> timing.Run:
    import gpureplay

    rows = transitions()
    fields = {name: (array.shape[1:], array.dtype.name) for name, array in rows.items()}
    buffer = gpureplay.ReplayBuffer(TRANSITIONS, fields, device="cpu", gamma=0.99, max_batch=batch)
    buffer.extend(**rows)
    network = {"trunk": units, "learning_rate": RATE}
    agent = getattr(gpureplay, kind)(buffer, actor=network, critic=network, batch_size=batch)

    def run(steps: int) -> None:
        agent.train(steps)
        agent.sync()

    return run


def sb3(kind: str, units: list[int], batch: int) -> timing.Run:
    import gymnasium
    import stable_baselines3

    class Spaces(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (ACTION,), np.float32)

    agent = getattr(stable_baselines3, kind)("MlpPolicy", Spaces(), learning_rate=RATE, batch_size=batch,
                                             buffer_size=TRANSITIONS, device="cpu", policy_kwargs={"net_arch": units})
    for obs, action, reward, next_obs, terminated in zip(*transitions().values()):
        agent.replay_buffer.add(obs, next_obs, action, reward, terminated, [{}])
    agent.set_logger(stable_baselines3.common.logger.configure(format_strings=[]))
    return lambda steps: agent.train(steps, batch)


def by_hand(kind: str, units: list[int], batch: int, compiled: bool) -> timing.Run:
    import torch
    import torch_actors

    torch._dynamo.reset()  # only a few compilations of one function are allowed
    rows = {name: torch.from_numpy(array.astype(np.float32)) for name, array in transitions().items()}
    run: timing.Run = getattr(torch_actors, kind)(rows, units, batch, compiled).train
    return run


MAKERS: dict[str, Callable[[str, list[int], int], timing.Run]] = {
    OURS: ours, SB3: sb3, EAGER: lambda *what: by_hand(*what, False), COMPILED: lambda *what: by_hand(*what, True)}


def measure(given: Any) -> Iterator[dict[str, Any]]:
    wanted = {OURS, *given.only.split(",")} if given.only else set(MAKERS)
    for kind in given.kinds.split(","):
        for units, batch in SIZES:
            runs, absent = {}, {}
            for name in (name for name in MAKERS if name in wanted and (kind != "DDPG" or name in (OURS, SB3))):
                common.show(f"{kind}, {units}: {name}")
                try:
                    runs[name] = MAKERS[name](kind, units, batch)
                    runs[name](20)
                except Exception as error:  # noqa: BLE001  another library may raise anything
                    absent[name] = common.error_text(error)
                    runs.pop(name, None)
            samples = timing.interleave(runs, given.rounds, QUICK_SECONDS if given.quick else SECONDS,
                                        now=time.process_time)
            found = common.variants(samples, absent)
            for one in found:
                if "samples" in one:
                    one["least"] = min(one["samples"])
            yield {"name": f"{kind}, two layers of {units[0]}, batch {batch}", "variants": found}


def main(arguments: list[str]) -> None:
    parser = common.parser_of(__doc__, ROUNDS, "a short try", "systems")
    parser.add_argument("--kinds", default="SAC,TD3,DDPG", help="algorithms, separated by commas (SAC,TD3,DDPG)")
    given = common.parse(parser, arguments, ROUNDS, QUICK_ROUNDS)
    common.use_threads(1, on_cuda=False)
    head = {"title": "train steps of SAC, TD3 and DDPG", "machine": common.describe_machine(), "rounds": given.rounds,
            "sizes": [OBS, ACTION], "interrupted": False}
    for case in common.collect(head, measure(given), given.json):
        for one in case["variants"]:
            if "least" in one:
                print(f"  {case['name']}: {one['name']}, least {common.time_text(one['least'])}")


if __name__ == "__main__":
    main(sys.argv[1:])
