#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whole trainings beside libraries that compile all of it: SAC and TD3 in Pendulum beside RLtools (C++, its own
Pendulum, matrix products by OpenBLAS), and DQN in CartPole beside rejax (JAX, gymnax's CartPole, one jitted loop).

    build/agents/bin/python bench/peers/whole_runs.py --json bench_whole_runs.json

Networks, batches, learning rates, steps and train steps are the same: in Pendulum those that RLtools has by default,
10,000 steps of which 100 are random, and a train step for each other one; in CartPole 50,000 steps of 4 environments
and a train step of 64 for each 4. Timed are trainings alone, with seed 1, 2, 3, ..., on one thread: seconds of the
processor, so that other work on the machine counts little; what is compiled was compiled before. Afterwards each seed
is trained once more, with an evaluation of 20 episodes every 1,000 steps (CartPole: at the end).
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common
from common import OURS

ROUNDS, QUICK_ROUNDS, EPISODES, PERIOD, GOOD = 10, 6, 20, 1_000, -200.0
STEPS, RANDOM, UNITS, BATCH, RATE, GAMMA = 10_000, 100, [64, 64], 100, 1e-3, 0.99
RLTOOLS, REJAX = "RLtools", "rejax"
DQN = {"steps": 50_000, "random": 1_000, "envs": 4, "batch": 64, "target_period": 200, "epsilon": 0.05, "falls": 0.5}
Curve = list[tuple[int, float]]  # of steps, the mean return of an evaluation
Train = Callable[[int, bool], Curve]  # trains with a seed, with evaluations or without any
HEADER = """#include <rl_tools/rl/environments/pendulum/operations_cpu.h>
template <typename T, typename TI> using ENVIRONMENT_FACTORY =
    rl_tools::rl::environments::Pendulum<rl_tools::rl::environments::pendulum::Specification<T, TI>>;
"""


def rltools(kind: str) -> Train:
    import gymnasium
    import numpy as np
    import rltools

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "environment.h").write_text(HEADER)
        module = getattr(rltools, kind)({"path": folder, "action_dim": 1, "observation_dim": 3}, STEP_LIMIT=STEPS,
                                        enable_evaluation=False, interface_name=f"pendulum_{kind.lower()}")
    env = gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))

    def played(state: Any) -> float:
        total = 0.0
        for episode in range(EPISODES):
            (obs, _), ended = env.reset(seed=episode), False
            while not ended:
                obs, reward, _, ended, _ = env.step(state.action(obs))
                total += float(reward)
        return total / EPISODES

    def train(seed: int, evaluates: bool) -> Curve:
        state, curve, step, finished = module.State(seed), [], 0, False
        while not finished:
            finished, step = state.step(), step + 1
            if evaluates and step % PERIOD == 0:
                curve.append((step, played(state)))
        return curve

    return train


def rejax(_: str) -> Train:
    import jax
    from rejax import DQN as Algorithm

    algorithm = Algorithm.create(
        env="CartPole-v1", num_envs=DQN["envs"], buffer_size=DQN["steps"], fill_buffer=DQN["random"],
        batch_size=DQN["batch"], learning_rate=RATE, gamma=GAMMA, eps_end=DQN["epsilon"],
        exploration_fraction=DQN["falls"], target_update_freq=DQN["target_period"], polyak=0.0, ddqn=True,
        total_timesteps=DQN["steps"], eval_freq=DQN["steps"], skip_initial_evaluation=True,
        agent_kwargs={"activation": "relu"})
    evaluate = jax.jit(lambda state, key: algorithm.eval_callback(algorithm, state, key))
    loop = jax.jit(algorithm.replace(eval_callback=lambda *_: ()).train)

    def train(seed: int, evaluates: bool) -> Curve:
        state, _ = jax.block_until_ready(loop(jax.random.key(seed)))
        if not evaluates:
            return []
        _, returns = evaluate(state, jax.random.key(1_000 + seed))
        return [(DQN["steps"], float(returns.mean()))]

    return train


def trained(seed: int, evaluates: bool, **settings: Any) -> Curve:
    import gpureplay

    found = gpureplay.train(seed=seed, progress=False, device="cpu", threads=1, checkpoint=0,
                            eval_episodes=EPISODES if evaluates else 0, **settings).evaluations
    return [(int(one["step"]), float(one["mean_return"])) for one in found]


def our_dqn(_: str) -> Train:
    agent = {"trunk": UNITS, "head": "q", "double_dqn": True, "loss": "squared", "clip_norm": 0.0}
    return lambda seed, evaluates: trained(
        seed, evaluates, env="CartPole-v1", preset="fast-dqn-small-vectors", steps=DQN["steps"] - DQN["random"],
        prepopulation=DQN["random"], num_envs=DQN["envs"], batch=DQN["batch"], capacity=DQN["steps"],
        target_period=DQN["target_period"], exploration_steps=int(DQN["falls"] * DQN["steps"]), eval_period=0,
        learning_rate=RATE, agent=agent)


def our_actor(kind: str) -> Train:
    network = {"trunk": UNITS, "learning_rate": RATE}
    return lambda seed, evaluates: [(step + RANDOM, gain) for step, gain in trained(
        seed, evaluates, env="Pendulum", preset=kind.lower(), steps=STEPS - RANDOM, prepopulation=RANDOM,
        capacity=STEPS, batch=BATCH, eval_period=PERIOD if evaluates else 0,
        agent={"actor": network, "critic": network})]


CASES: tuple[tuple[str, str, dict[str, Callable[[str], Train]]], ...] = (
    ("SAC", "Pendulum", {OURS: our_actor, RLTOOLS: rltools}), ("TD3", "Pendulum", {OURS: our_actor, RLTOOLS: rltools}),
    ("DQN", "CartPole", {OURS: our_dqn, REJAX: rejax}))


def seconds_of(train: Train, seed: int) -> float:
    gc.collect()
    start = time.process_time()
    train(seed, False)
    return time.process_time() - start


def measure(given: Any) -> Iterator[dict[str, Any]]:
    for kind, env, makers in CASES:
        trains, absent = {}, {}
        for name, make in makers.items():
            common.show(f"{kind}: {name}")
            try:
                train = make(kind)
                train(0, False)  # compiles
                trains[name] = train
            except Exception as error:  # noqa: BLE001  another library may raise anything
                absent[name] = common.error_text(error)
        samples: dict[str, list[float]] = {name: [] for name in trains}
        for seed in range(1, given.rounds + 1):
            for name, train in trains.items():
                samples[name].append(seconds_of(train, seed))
        found = common.variants(samples, absent)
        for one in found:
            if one["name"] in trains:
                curves = [trains[one["name"]](seed, True) for seed in range(1, given.rounds + 1)]
                one["curve"] = [(values[0][0], round(statistics.mean(gain for _, gain in values), 1))
                                for values in zip(*curves)]
                one["returns"] = [round(curve[-1][1], 1) for curve in curves]
        yield {"name": f"{kind} in {env}", "variants": found}


def main(arguments: list[str]) -> None:
    parser = common.parser_of(__doc__, ROUNDS, "fewer seeds", "libraries")
    given = common.parse(parser, arguments, ROUNDS, QUICK_ROUNDS)
    common.use_threads(1, on_cuda=False)
    head = {"title": "whole trainings", "machine": common.describe_machine(), "rounds": given.rounds,
            "interrupted": False}
    for case in common.collect(head, measure(given), given.json):
        for one in case["variants"]:
            if "returns" in one:
                reached = [step for step, gain in one["curve"] if gain >= GOOD] if "Pendulum" in case["name"] else []
                print(f"  {case['name']}, {one['name']}: least {common.time_text(min(one['samples']))}, mean return at "
                      f"the end {statistics.mean(one['returns']):.1f}" +
                      (f", {GOOD:.0f} from step {reached[0]:,}" if reached else ""))


if __name__ == "__main__":
    main(sys.argv[1:])
