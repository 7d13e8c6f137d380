# SPDX-License-Identifier: MIT
"""Stable-Baselines3's DQN, A2C, DDPG and TD3 in the same tasks, with the same sizes; and a random player."""

from __future__ import annotations

import itertools
import time
from typing import Any

from harness import Job, Run

RANDOM_EPISODES = 100


def make_env(game: str) -> Any:
    """The authors' package as a Gymnasium environment whose observations are images of bytes, channels first."""
    import gymnasium
    import numpy as np

    if not game.startswith("MinAtar/"):
        return make_task(game)
    from minatar import Environment

    class Game(gymnasium.Env[Any, Any]):
        def __init__(self) -> None:
            self._game = Environment(game.split("/")[1].lower().replace("spaceinvaders", "space_invaders"))
            shape = self._game.state_shape()
            self.observation_space = gymnasium.spaces.Box(0, 1, (shape[2], *shape[:2]), np.uint8)
            self.action_space = gymnasium.spaces.Discrete(self._game.num_actions())

        def _obs(self) -> Any:
            return np.moveaxis(self._game.state(), 2, 0).astype(np.uint8)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            if seed is not None:
                self._game.seed(seed)
            self._game.reset()
            return self._obs(), {}

        def step(self, action: Any) -> Any:
            reward, ended = self._game.act(int(action))
            return self._obs(), float(reward), bool(ended), False, {}

    return Game()


def make_task(game: str) -> Any:
    """Gymnasium's own, or an environment of continuous actions, as ours are."""
    import gymnasium

    if not game.startswith("dm_control/"):
        return gymnasium.make(game if game.endswith("-v1") else f"{game}-v1")
    from gpureplay._dm_control import ControlEnv

    class Task(gymnasium.Env[Any, Any]):
        def __init__(self) -> None:
            self._task = ControlEnv(game, {})
            self.observation_space, self.action_space = (
                gymnasium.spaces.Box(space.low, space.high, dtype=space.dtype)
                for space in (self._task.observation_space, self._task.action_space))

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return self._task.reset(seed)

        def step(self, action: Any) -> Any:
            return self._task.step(action)

    return Task()


def network() -> type:
    """The preset's network: 16 filters of 3 x 3, then 128 units."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Network(BaseFeaturesExtractor):
        def __init__(self, space: Any):
            super().__init__(space, 128)
            pixels = (space.shape[1] - 2) * (space.shape[2] - 2)
            self._layers = torch.nn.Sequential(torch.nn.Conv2d(space.shape[0], 16, 3), torch.nn.ReLU(),
                                               torch.nn.Flatten(), torch.nn.Linear(16 * pixels, 128), torch.nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self._layers(x.float())

    return Network


def epsilon_of(s: dict[str, Any]) -> Any:
    """Epsilon by the part of all steps that is left, as ours: it begins to fall after the random steps."""
    steps = s["steps"] + s["prepopulation"]  # those of Stable-Baselines3, which counts the random ones

    def epsilon(part_left: float) -> float:
        step = steps * (1 - part_left) - s["prepopulation"]
        return 1 + (s["epsilon"] - 1) * min(max(step / s["exploration_steps"], 0.0), 1.0)

    return epsilon


def run_dqn(job: Job) -> Run:
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    torch.set_num_threads(1)
    s, env = job.settings, Monitor(make_env(job.task))
    agent = DQN("MlpPolicy", env, learning_rate=s["learning_rate"], buffer_size=s["capacity"],
                learning_starts=s["prepopulation"], batch_size=s["batch"], gamma=s["gamma"],
                train_freq=s["train_period"], gradient_steps=1, target_update_interval=s["target_period"],
                max_grad_norm=s["clip_norm"], seed=job.seed, device="cpu",
                policy_kwargs={"features_extractor_class": network(), "net_arch": [], "normalize_images": False})
    agent.exploration_schedule = epsilon_of(s)
    start = time.perf_counter()
    agent.learn(s["steps"] + s["prepopulation"])  # it counts the random ones
    seconds = time.perf_counter() - start
    ends, at = [], 0
    for length, gain in zip(env.get_episode_lengths(), env.get_episode_rewards()):
        at += length
        ends.append((at - s["prepopulation"], gain))
    agent.exploration_rate = s["eval_epsilon"]
    mean, _ = evaluate_policy(agent, Monitor(make_env(job.task)), s["eval_episodes"][job.task], deterministic=False)
    return {"episodes": ends, "evaluated": float(mean), "seconds": seconds}


def run_a2c(job: Job) -> Run:
    import torch
    from stable_baselines3 import A2C
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Ends(BaseCallback):  # type: ignore[misc]
        """Step and return of each episode."""

        def __init__(self) -> None:
            super().__init__()
            self.found: list[tuple[int, float]] = []

        def _on_step(self) -> bool:
            self.found += [(self.num_timesteps, info["episode"]["r"]) for info in self.locals["infos"]
                           if "episode" in info]
            return True

    torch.set_num_threads(1)
    envs = DummyVecEnv([lambda: Monitor(make_env(job.task))] * job.settings["agents"])
    agent = A2C("MlpPolicy", envs, ent_coef=0.01, gamma=job.settings["gamma"], seed=job.seed, device="cpu",
                policy_kwargs={"features_extractor_class": network(), "net_arch": [], "normalize_images": False})
    ends, start = Ends(), time.perf_counter()
    agent.learn(job.settings["steps"], callback=ends)
    seconds = time.perf_counter() - start
    mean, _ = evaluate_policy(agent, Monitor(make_env(job.task)), job.settings["eval_episodes"][job.task],
                              deterministic=False)
    return {"episodes": ends.found, "evaluated": float(mean), "seconds": seconds}


def run_ddpg(job: Job) -> Run:
    """DDPG or TD3, as the options say."""
    import numpy as np
    import stable_baselines3
    import torch
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.noise import NormalActionNoise

    torch.set_num_threads(1)
    s, env = job.settings, Monitor(make_env(job.task))
    size = env.action_space.shape[0]  # the noise is of actions of -1 to 1
    agent = getattr(stable_baselines3, job.options[0])(
        "MlpPolicy", env, gamma=s["gamma"], buffer_size=s["capacity"], learning_starts=s["prepopulation"],
        seed=job.seed, device="cpu", action_noise=NormalActionNoise(np.zeros(size), np.full(size, s["sigma"])))
    start = time.perf_counter()
    agent.learn(s["steps"])
    seconds = time.perf_counter() - start
    ends = zip(itertools.accumulate(env.get_episode_lengths()), env.get_episode_rewards())
    mean, _ = evaluate_policy(agent, Monitor(make_env(job.task)), s["eval_episodes"][job.task])
    return {"episodes": list(ends), "evaluated": float(mean), "seconds": seconds}


def random_returns(game: str) -> list[float]:
    import numpy as np

    env, returns, random = make_env(game), [], np.random.default_rng(1)
    env.action_space.seed(1)
    for episode in range(RANDOM_EPISODES):
        env.reset(seed=episode)
        gain, ended = 0.0, False
        while not ended:
            is_discrete = hasattr(env.action_space, "n")
            action = random.integers(env.action_space.n) if is_discrete else env.action_space.sample()
            _, reward, terminated, truncated, _ = env.step(action)
            gain, ended = gain + float(reward), terminated or truncated
        returns.append(gain)
    return returns
