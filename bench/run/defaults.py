#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `gpureplay.train` learns in environments without images by its defaults: nothing is given but the environment,
the number of steps, and the seed.

    pip install . gymnasium
    python bench/run/defaults.py run defaults.json
    python bench/run/defaults.py table defaults.json

Each task is trained with seeds 1 to 5. Then the last network plays episodes of Gymnasium's environment, greedily. A
task is solved if the median of their mean returns over the seeds is at least the number in TASKS. `run` does what the
file does not have yet, one training after the other, and writes the file after each.

"seconds" are of the call of `gpureplay.train`, which evaluates every 50,000 steps. The file names commit, time and
machine of its last run; or set GPUREPLAY_COMMIT.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))
from common import describe_machine  # noqa: E402

SEEDS = range(1, 6)
SIZE, MOST_STEPS = 6, 20
MOVES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


class Walk(gymnasium.Env):
    """A walker on a board of SIZE x SIZE, and a place that it must reach: the observation is the x and the y of both.
    The reward is 1 at the place, which ends the episode. It is truncated after MOST_STEPS."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.MultiDiscrete([SIZE] * 4)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))
        self._state, self._left = np.zeros(4, np.int64), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._state, self._left = self.np_random.integers(0, SIZE, 4), MOST_STEPS
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._state[:2] = np.clip(self._state[:2] + MOVES[action], 0, SIZE - 1)
        self._left -= 1
        is_there = bool((self._state[:2] == self._state[2:]).all())
        return self._state.copy(), float(is_there), is_there, self._left == 0 and not is_there, {}


class Task(NamedTuple):
    """train: what is given to `gpureplay.train`. make: makes the environment of the episodes that are played in the
    end. wanted: the return of a task that is solved."""

    train: dict[str, Any]
    make: Callable[[], Any]
    wanted: float
    episodes: int = 100


TASKS = {
    "CartPole-v1": Task({"env": "CartPole-v1", "steps": 200_000}, lambda: gymnasium.make("CartPole-v1"), 475),
    "FrozenLake-v1, not slippery": Task(
        {"env": "FrozenLake-v1", "env_options": {"is_slippery": False}, "steps": 50_000},
        lambda: gymnasium.make("FrozenLake-v1", is_slippery=False), 0.9),
    "Taxi-v4": Task({"env": "Taxi-v4", "steps": 150_000}, lambda: gymnasium.make("Taxi-v4"), 7),
    "Blackjack-v1": Task({"env": "Blackjack-v1", "steps": 100_000}, lambda: gymnasium.make("Blackjack-v1"), -0.1, 1000),
    "walk, MultiDiscrete": Task({"env": lambda lane: Walk(), "steps": 60_000}, Walk, 0.95),
}


def play(agent: Any, env: Any, episodes: int) -> float:
    """The mean return of episodes whose resets have the seeds 0, 1, 2, ..."""
    returns = []
    for seed in range(episodes):
        obs, done, gain = env.reset(seed=seed)[0], False, 0.0
        while not done:
            obs, reward, terminated, truncated, _ = env.step(int(agent.act(obs)[0]))
            done, gain = terminated or truncated, gain + float(reward)
        returns.append(gain)
    return statistics.mean(returns)


def train(name: str, seed: int) -> dict[str, Any]:
    import gpureplay

    task, begin = TASKS[name], time.perf_counter()
    result = gpureplay.train(**task.train, seed=seed, progress=False)
    seconds = time.perf_counter() - begin
    return {"task": name, "seed": seed, "steps": task.train["steps"], "seconds": round(seconds, 1),
            "episodes": task.episodes, "mean_return": play(result.agent, task.make(), task.episodes),
            "evaluations": [float(value) for value in result.evaluations["mean_return"]]}


def run(file: Path) -> None:
    runs = json.loads(file.read_text())["runs"] if file.exists() else []
    for seed in SEEDS:
        for name in TASKS:
            if (name, seed) in {(one["task"], one["seed"]) for one in runs}:
                continue
            runs.append(train(name, seed))
            print(runs[-1], flush=True)
            machine = describe_machine()
            document = {"title": "defaults", "commit": machine.pop("commit"),
                        "when": time.strftime("%FT%TZ", time.gmtime()), "machine": machine, "runs": runs}
            file.write_text(json.dumps(document).replace('{"task"', '\n{"task"') + "\n")


def table(file: Path) -> None:
    runs = json.loads(file.read_text())["runs"]
    print("| environment | steps | wanted | median of the seeds | from, to | seconds a run |\n" + "|---" * 6 + "|")
    for name, task in TASKS.items():
        mine = [one for one in runs if one["task"] == name]
        returns = [one["mean_return"] for one in mine]
        if returns:
            print(f"| {name} | {mine[0]['steps']:,} | {task.wanted:g} | {statistics.median(returns):.2f} of "
                  f"{len(returns)} | {min(returns):.2f}, {max(returns):.2f} | "
                  f"{statistics.median(one['seconds'] for one in mine):.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    {"run": run, "table": table}[given.command](given.file)


if __name__ == "__main__":
    main()
