# SPDX-License-Identifier: MIT
"""Gymnasium's environments with seeds, and the transitions that they make without wrappers."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Boxes(gym.Env):
    """A Dict space with a Dict and a Tuple inside, of episodes of 1 to 6 steps."""

    observation_space = spaces.Dict(
        place=spaces.Box(-1, 1, (2,), np.float64), left=spaces.Discrete(7),
        more=spaces.Dict(image=spaces.Box(0, 255, (4, 4, 1), np.uint8),
                         pair=spaces.Tuple((spaces.MultiBinary(3), spaces.MultiDiscrete([3, 4])))))
    action_space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)))

    def _observe(self):
        random = self.np_random
        pair = random.integers(0, 2, 3).astype(np.int8), random.integers(0, 3, 2)
        return {"place": random.uniform(-1, 1, 2), "left": self._left,
                "more": {"image": random.integers(0, 256, (4, 4, 1)).astype(np.uint8), "pair": pair}}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, 7))
        return self._observe(), {}

    def step(self, action):
        self._left -= 1
        return self._observe(), float(action[0]) + float(action[1][0]), self._left == 0, False, {}


def _named(name, steps):
    """The newest version that is installed."""
    newest = max((spec for spec in gym.registry.values() if spec.name == name), key=lambda spec: spec.version or 0)
    return lambda: gym.make(newest.id, max_episode_steps=steps)


WORLDS = {
    "CartPole": _named("CartPole", 15),
    "Pendulum": _named("Pendulum", 7),
    "MountainCarContinuous": _named("MountainCarContinuous", 9),
    "FrozenLake": _named("FrozenLake", 12),
    "Blackjack": _named("Blackjack", 5),
    "Taxi": _named("Taxi", 11),
    "Boxes": lambda: gym.wrappers.TimeLimit(Boxes(), 4),
}


def leaves(name, value):
    """{"obs.key.0": ...} of a Dict's or Tuple's value, {"obs": ...} of any other."""
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, tuple):
        parts = enumerate(value)
    else:
        return {name: value}
    return {key: leaf for at, part in parts for key, leaf in leaves(f"{name}.{at}", part).items()}


def transition(obs, action, reward, next_obs, terminated, truncated):
    return {**leaves("obs", obs), **leaves("action", action), "reward": reward, **leaves("next_obs", next_obs),
            "terminated": terminated, "truncated": truncated}


class Unwrapped:
    """One environment, stepped by the rules of an autoreset mode."""

    def __init__(self, make, seed, mode):
        self._env, self._mode, self._over = make(), mode, False
        self._obs, _ = self._env.reset(seed=seed)

    def step(self, action):
        """The transition that the action makes, or None."""
        if self._over:
            self._obs, _ = self._env.reset()
            self._over = False
            return None
        next_obs, reward, terminated, truncated, _ = self._env.step(action)
        made = transition(self._obs, action, reward, next_obs, terminated, truncated)
        self._obs, self._over = next_obs, terminated or truncated
        if self._over and self._mode != "next_step":
            self._obs, _ = self._env.reset()
            self._over = False
        return made


def one(values, env):
    """The action of one environment, from those of a vector."""
    if isinstance(values, tuple):
        return tuple(one(part, env) for part in values)
    return values[env]
