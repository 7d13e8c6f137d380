# SPDX-License-Identifier: MIT
"""SAC, TD3 and QR-DQN in this library, in Stable-Baselines3 and in sb3-contrib, by the settings below, and for the rest
by what all have: ReLU and Adam; in SAC [Haarnoja et al. 2018] a temperature that begins at 1 and is learned, with -A as
the target entropy; in QR-DQN [Dabney et al. 2018] Huber's loss beyond 1. The settings were chosen before any of these
runs: networks small enough for 20 seeds on two cores, the learning rate of Stable-Baselines3's zoo in Pendulum, and
else its defaults."""

from __future__ import annotations

import itertools
import time
from typing import Any

from harness import Job, Run

# Steps begin after those of prepopulation, whose actions are random. Noise is of actions of -1 to 1.
CONTINUOUS = {"learning_rate": 1e-3, "gamma": 0.99, "tau": 0.005, "train_period": 1, "train_steps": 1,
              "prepopulation": 1_000, "sigma": 0.1, "policy_delay": 2, "target_noise": 0.2, "target_noise_clip": 0.5,
              "bins": 20}
SMALL = {**CONTINUOUS, "units": [64, 64], "batch": 100, "steps": 9_000, "last_steps": 2_000, "capacity": 10_000,
         "episodes": 50}
LARGE = {**CONTINUOUS, "units": [128, 128], "batch": 128, "steps": 49_000, "last_steps": 10_000, "capacity": 50_000,
         "episodes": 20}
# A network of 16 filters of 3 x 3 and 128 units. Evaluated by epsilon-greedy actions, as DQN is in fast-dqn.
QUANTILES = {"learning_rate": 2.5e-4, "adam_epsilon": 0.01 / 32, "gamma": 0.99, "train_period": 4,
             "target_period": 1_000, "prepopulation": 5_000, "clip_norm": 10.0, "atoms": 50, "batch": 32,
             "steps": 195_000, "last_steps": 50_000, "capacity": 100_000, "exploration_steps": 100_000, "epsilon": 0.1,
             "eval_epsilon": 0.05, "episodes": 300, "bins": 20}


def run_ours(job: Job) -> Run:
    """Options: SAC, TD3 or QR-DQN. QR-DQN has the network of fast-dqn-small with another head."""
    import gpureplay

    s, kind, start = job.settings, job.options[0], time.perf_counter()
    same = {"steps": s["steps"], "prepopulation": s["prepopulation"], "capacity": s["capacity"], "batch": s["batch"],
            "train_period": s["train_period"], "eval_episodes": s["episodes"], "num_envs": 1, "eval_period": 0,
            "checkpoint": 0, "seed": job.seed, "device": "cpu", "threads": 1}
    if kind == "QR-DQN":
        preset, more = "fast-dqn-small", {"target_period": s["target_period"], "concurrent": 0,
                                          "exploration_steps": s["exploration_steps"]}
        agent = {"head": "quantiles", "atoms": s["atoms"], "learning_rate": s["learning_rate"],
                 "epsilon": s["adam_epsilon"], "clip_norm": s["clip_norm"]}
    else:
        preset, more = kind.lower(), {"train_steps": s["train_steps"]}
        network = {"trunk": s["units"], "learning_rate": s["learning_rate"]}
        agent = {"actor": network, "critic": network, "target_rate": s["tau"]}
    if kind == "TD3":
        more["sigma"] = s["sigma"]
        agent |= {name: s[name] for name in ("policy_delay", "target_noise", "target_noise_clip")}
    found = gpureplay.train(job.task, preset, progress=False, buffer={"gamma": s["gamma"]}, agent=agent, **same,
                            **more)
    return {"episodes": [(int(one["step"]), float(one["return"])) for one in found.episodes],
            "evaluated": float(found.evaluations["mean_return"][-1]), "seconds": round(time.perf_counter() - start, 1)}


def finish(job: Job, agent: Any, env: Any) -> Run:
    """Trains, and then plays episodes of an environment of its own, greedily where the settings have no epsilon."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.utils import set_random_seed
    from stable_baselines3.common.vec_env import DummyVecEnv

    from stable_baselines import make_env

    s, start = job.settings, time.perf_counter()
    agent.learn(s["steps"] + s["prepopulation"])
    seconds = time.perf_counter() - start
    ends = ((step - s["prepopulation"], gain) for step, gain in zip(itertools.accumulate(env.get_episode_lengths()),
                                                                    env.get_episode_rewards()))
    test = DummyVecEnv([lambda: Monitor(make_env(job.task))])
    test.seed(1_000 + job.seed)
    set_random_seed(1_000 + job.seed)
    agent.exploration_rate = s.get("eval_epsilon", 0.0)
    mean, _ = evaluate_policy(agent, test, s["episodes"], deterministic=agent.exploration_rate == 0.0)
    return {"episodes": list(ends), "evaluated": float(mean), "seconds": round(seconds, 1)}


def run_continuous(job: Job) -> Run:
    """Stable-Baselines3's class that the options name: SAC or TD3."""
    import numpy as np
    import stable_baselines3
    import torch
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.noise import NormalActionNoise

    from stable_baselines import make_env

    torch.set_num_threads(1)
    s, env, more = job.settings, Monitor(make_env(job.task)), {}
    size = env.action_space.shape[0]
    if job.options[0] == "TD3":
        more = {"policy_delay": s["policy_delay"], "target_policy_noise": s["target_noise"],
                "target_noise_clip": s["target_noise_clip"],
                "action_noise": NormalActionNoise(np.zeros(size), np.full(size, s["sigma"]))}
    agent = getattr(stable_baselines3, job.options[0])(
        "MlpPolicy", env, learning_rate=s["learning_rate"], buffer_size=s["capacity"], batch_size=s["batch"],
        learning_starts=s["prepopulation"], tau=s["tau"], gamma=s["gamma"], train_freq=s["train_period"],
        gradient_steps=s["train_steps"], seed=job.seed, device="cpu", policy_kwargs={"net_arch": s["units"]}, **more)
    return finish(job, agent, env)


def run_quantiles(job: Job) -> Run:
    import torch
    from sb3_contrib import QRDQN
    from stable_baselines3.common.monitor import Monitor

    from stable_baselines import epsilon_of, make_env, network

    torch.set_num_threads(1)
    s, env = job.settings, Monitor(make_env(job.task))
    agent = QRDQN("MlpPolicy", env, learning_rate=s["learning_rate"], buffer_size=s["capacity"],
                  learning_starts=s["prepopulation"], batch_size=s["batch"], gamma=s["gamma"],
                  train_freq=s["train_period"], gradient_steps=1, target_update_interval=s["target_period"],
                  max_grad_norm=s["clip_norm"], seed=job.seed, device="cpu",
                  policy_kwargs={"features_extractor_class": network(), "net_arch": [], "normalize_images": False,
                                 "n_quantiles": s["atoms"], "optimizer_class": torch.optim.Adam,
                                 "optimizer_kwargs": {"eps": s["adam_epsilon"]}})
    agent.exploration_schedule = epsilon_of(s)
    return finish(job, agent, env)
