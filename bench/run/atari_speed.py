#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Environment steps a second of whole DQN trainings on an Atari game, of this library and of Stable-Baselines3: the
network and the rules of the game of Mnih et al. 2015, batches of 32, a train step for every four environment steps,
epsilon 0.1. Each has the optimizer that it has by default: centered RMSProp, and Adam.

    bash src/plugins/atari/build.sh build/atari
    build/peers/bin/pip install ale-py opencv-python-headless
    build/peers/bin/python bench/run/atari_speed.py --train build/examples/gpureplay-train \\
        --plugin build/atari/atari.so --device auto --json atari_speed.json

Each training runs in a process of its own, one after the other, in several rounds. The time of this library's is that
of the whole run, with its random steps; that of the peer's begins after them. The time of 50 million steps follows from
the rates. CleanRL is left out: its package 1.2.0 wants a Python before 3.11, and 0.4.8 a gym before 0.23 and its games.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))
from common import describe_machine  # noqa: E402

RANDOM_STEPS, CAPACITY, EPSILON, PEER_STEPS = 1_000, 20_000, 0.1, 20_000  # PEER_STEPS: at most
SYSTEMS = {"Both, W = 8": ["--num-envs", "8", "--concurrent", "1", "--synchronized", "1"],
           "Standard, W = 1": ["--num-envs", "1", "--concurrent", "0", "--synchronized", "0"]}
PEER = "Stable-Baselines3"


def target_period(steps: int) -> int:
    """C: a fourth of a short training, in whole rounds of the eight environments."""
    return min(10_000, steps // 4 // 8 * 8)


def ours(given: argparse.Namespace, system: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        subprocess.run([given.train, "--env", f"{os.path.abspath(given.plugin)}:{given.game}", "--preset", "fast-dqn",
                        "--steps", str(given.steps), "--out", str(out), "--device", given.device, "--prepopulation",
                        str(RANDOM_STEPS), "--capacity", str(CAPACITY), "--exploration-steps", "1", "--target-period",
                        str(target_period(given.steps)), "--eval-episodes", "0", "--checkpoint", "0",
                        "--quiet", *SYSTEMS[system]], check=True)
        with open(out / "rates.csv", newline="") as file:
            last = list(csv.DictReader(file))[-1]
    return int(last["step"]) / float(last["seconds"])


def peer(given: argparse.Namespace) -> float:
    command = [sys.executable, __file__, "--peer", "--game", given.game, "--steps", str(min(given.steps, PEER_STEPS)),
               "--device", given.device]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


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
    parser.add_argument("--steps", type=int, default=8_000,
                        help="environment steps of a training, rounded down to whole "
                        "target periods: of one that is begun concurrent training does all train steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        run_peer(given)
        return
    if given.steps < 32:
        parser.error(f"--steps is {given.steps}; it must be 32 or more")
    given.steps -= given.steps % target_period(given.steps)
    found: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    if importlib.util.find_spec("stable_baselines3") is None:
        print(f"{sys.executable} has no stable_baselines3: nothing to compare with")
    else:
        found[PEER] = []
    for _ in range(given.rounds):
        for name in found:
            found[name].append(peer(given) if name == PEER else ours(given, name))
            print(f"{name}: {found[name][-1]:.1f} steps/s", flush=True)
    for name, rates in found.items():
        rate = statistics.median(rates)
        ratio = f", {rate / statistics.median(found[PEER]):.2f} times {PEER}'s" if PEER in found else ""
        print(f"{name:20s} {rate:8.1f} steps/s ({min(rates):.1f} to {max(rates):.1f}), {50e6 / rate / 3600:.1f} hours "
              f"for 50 million steps{ratio}")
    if given.json:
        result = {"title": "Atari trainings", "game": given.game, "device": given.device,
                  "machine": describe_machine(), "steps": given.steps, "when": time.strftime("%FT%TZ", time.gmtime()),
                  "steps_per_second": found}
        Path(given.json).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
