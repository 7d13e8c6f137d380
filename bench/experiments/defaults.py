# SPDX-License-Identifier: MIT
"""What `gpureplay.train` learns where nothing is given but the environment, the number of steps, and the seed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from harness import Job, Run

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
    end."""

    train: dict[str, Any]
    make: Callable[[], Any]
    episodes: int = 100


TASKS = {
    "CartPole-v1": Task({"env": "CartPole-v1", "steps": 200_000}, lambda: gymnasium.make("CartPole-v1")),
    "FrozenLake-v1, not slippery": Task(
        {"env": "FrozenLake-v1", "env_options": {"is_slippery": False}, "steps": 50_000},
        lambda: gymnasium.make("FrozenLake-v1", is_slippery=False)),
    "Taxi-v4": Task({"env": "Taxi-v4", "steps": 150_000}, lambda: gymnasium.make("Taxi-v4")),
    "Blackjack-v1": Task({"env": "Blackjack-v1", "steps": 100_000}, lambda: gymnasium.make("Blackjack-v1"), 1000),
    "walk, MultiDiscrete": Task({"env": lambda lane: Walk(), "steps": 60_000}, Walk),
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


def run(job: Job) -> Run:
    import gpureplay

    task, begin = TASKS[job.task], time.perf_counter()
    result = gpureplay.train(**task.train, seed=job.seed, progress=False)
    return {"steps": task.train["steps"], "seconds": round(time.perf_counter() - begin, 1),
            "evaluated": play(result.agent, task.make(), task.episodes),
            "evaluations": [float(value) for value in result.evaluations["mean_return"]]}
