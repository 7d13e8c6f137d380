#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Environment steps a second of whole DQN trainings on an Atari game, of this library and of Stable-Baselines3: the
network, batch and constants of Mnih et al. 2015, a train step for every four environment steps, epsilon 0.1.

    bash src/plugins/atari/build.sh build/atari
    build/peers/bin/python bench/run/atari_speed.py --train build/examples/gpureplay-train \\
        --plugin build/atari/atari.so --device auto --json atari_speed.json

Each training runs in a process of its own, one after the other, in several rounds. What is timed begins when training
has begun. The time of 50 million steps follows from it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RANDOM_STEPS, CAPACITY, EPSILON = 1_000, 20_000, 0.1
SYSTEMS = {"Both, W = 8": ["--num-envs", "8", "--concurrent", "1", "--synchronized", "1"],
           "Standard, W = 1": ["--num-envs", "1", "--concurrent", "0", "--synchronized", "0"]}
PEER = "Stable-Baselines3"


def ours(given: argparse.Namespace, system: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        subprocess.run([given.train, "--env", f"{os.path.abspath(given.plugin)}:{given.game}", "--preset", "fast-dqn",
                        "--steps", str(given.steps), "--out", str(out), "--device", given.device, "--prepopulation",
                        str(RANDOM_STEPS), "--capacity", str(CAPACITY), "--exploration-steps", "1", "--target-period",
                        str(given.steps // 4 // 8 * 8), "--eval-episodes", "0", "--checkpoint", "0", "--quiet",
                        *SYSTEMS[system]], check=True)
        with open(out / "rates.csv", newline="") as file:
            rows = [(float(row["seconds"]), int(row["step"])) for row in csv.DictReader(file) if int(row["step"]) > 0]
    (first, begun), (last, ended) = rows[0], rows[-1]
    return (ended - begun) / (last - first)


def peer(given: argparse.Namespace) -> float:
    command = [sys.executable, __file__, "--peer", "--game", given.game, "--steps", str(given.steps), "--device",
               given.device]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def run_peer(given: argparse.Namespace) -> None:
    import ale_py
    import gymnasium
    from stable_baselines3 import DQN
    from stable_baselines3.common.atari_wrappers import AtariWrapper
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    gymnasium.register_envs(ale_py)
    envs = VecFrameStack(DummyVecEnv([lambda: AtariWrapper(gymnasium.make(f"{given.game}NoFrameskip-v4"))]), 4)

    class Clock(BaseCallback):
        begin: Any = None

        def _on_step(self) -> bool:
            if self.begin is None and self.num_timesteps >= 2 * RANDOM_STEPS:
                self.begin = time.perf_counter(), self.num_timesteps
            return True

    clock = Clock()
    agent = DQN("CnnPolicy", envs, learning_rate=2.5e-4, buffer_size=CAPACITY, learning_starts=RANDOM_STEPS,
                batch_size=32, train_freq=4, gradient_steps=1, target_update_interval=10_000,
                exploration_initial_eps=EPSILON, exploration_final_eps=EPSILON, optimize_memory_usage=False,
                device="cuda" if given.device.startswith("cuda") else "auto" if given.device == "auto" else "cpu")
    agent.learn(given.steps + 2 * RANDOM_STEPS, callback=clock)
    begin, steps = clock.begin
    print((agent.num_timesteps - steps) / (time.perf_counter() - begin))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", default="build/examples/gpureplay-train")
    parser.add_argument("--plugin", default="build/atari/atari.so")
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0 or auto")
    parser.add_argument("--steps", type=int, default=8_000, help="environment steps of a training")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        run_peer(given)
        return
    found: dict[str, list[float]] = {name: [] for name in (*SYSTEMS, PEER)}
    for _ in range(given.rounds):
        for name in found:
            found[name].append(peer(given) if name == PEER else ours(given, name))
            print(f"{name}: {found[name][-1]:.1f} steps/s", flush=True)
    base = statistics.median(found[PEER])
    for name, rates in found.items():
        rate = statistics.median(rates)
        print(f"{name:20s} {rate:8.1f} steps/s ({min(rates):.1f} to {max(rates):.1f}), {rate / base:.2f} times "
              f"{PEER}'s, {50e6 / rate / 3600:.1f} hours for 50 million steps")
    if given.json:
        result = {"title": "Atari trainings", "game": given.game, "device": given.device, "cores": os.cpu_count(),
                  "steps": given.steps, "commit": os.environ.get("GPUREPLAY_COMMIT", ""), "steps_per_second": found}
        Path(given.json).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
