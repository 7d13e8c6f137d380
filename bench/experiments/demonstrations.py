# SPDX-License-Identifier: MIT
"""DDPG in the library's Pendulum with 20 episodes of a trained agent as demonstrations, and without."""

from __future__ import annotations

import time
from typing import Any

import gpureplay
import gymnasium
from harness import Job, Run

EXPERT_SEED, EXPERT_STEPS, NOISE, WARM_UP = 1000, 20_000, 0.2, 500


def make_env() -> Any:
    return gymnasium.wrappers.RescaleAction(gpureplay.make_env("Pendulum"), -1, 1)


def make_buffer(device: Any, **more: Any) -> gpureplay.ReplayBuffer:
    return gpureplay.ReplayBuffer.for_env(100_000, make_env(), device=device, **more)


def play(env: Any, policy: Any, obs: Any, sigma: float, buffer: Any) -> tuple[Any, float, bool]:
    action = policy.act_vectors(obs, sigma=sigma)[0]
    next_obs, reward, terminated, truncated, _ = env.step(action)
    if buffer is not None:
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)
    return next_obs, reward, truncated


def evaluate(policy: Any, seed: int, episodes: int = 10, buffer: Any = None) -> float:
    """Mean return without noise."""
    total, env = 0.0, make_env()
    for episode in range(episodes):
        (obs, _), truncated = env.reset(seed=seed + episode), False
        while not truncated:
            obs, reward, truncated = play(env, policy, obs, 0, buffer)
            total += reward
    return total / episodes


def train(buffer: Any, seed: int, steps: int, period: int, rate: float, updates: int, **more: Any) -> Any:
    """A policy, and evaluations at the beginning and every `period` steps."""
    network, env, found = {"trunk": [64, 64], "learning_rate": rate}, make_env(), []
    agent = gpureplay.DDPG(buffer, actor=network, critic=network, batch_size=64, target_period=100, seed=seed, **more)
    policy, (obs, _) = agent.policy(), env.reset(seed=seed)
    for step in range(1, steps + 1):
        next_obs, _, truncated = play(env, policy, obs, NOISE, buffer)
        obs = env.reset()[0] if truncated else next_obs
        if step >= WARM_UP:
            agent.train(updates)
            policy.pull(agent)
        if step == 1 or step % period == 0:
            found.append((step, evaluate(policy, 10_000 + seed)))
    return policy, found


def run(job: Job) -> Run:
    """Options: the part of each batch that are demonstrations, 0 for none, or "own": the learner's buffer has them;
    learning rate; train steps for each step."""
    start, (part, rate, updates), s, more = time.perf_counter(), job.options, job.settings, {}
    with gpureplay.Device("cpu") as device:
        buffer, shown, file = *(make_buffer(device, seed=job.seed) for _ in range(2)), job.folder.parent / "shown"
        if not file.exists():
            expert, _ = train(make_buffer(device, seed=EXPERT_SEED), EXPERT_SEED, EXPERT_STEPS, EXPERT_STEPS, 1e-3, 1)
            evaluate(expert, EXPERT_SEED, 20, shown)
            shown.save(file)
        if part != "0":
            (buffer if part == "own" else shown).load(file)
        if part not in ("0", "own"):
            more = {"demonstrations": shown, "demonstration_ratio": float(part)}
        _, found = train(buffer, job.seed, s["steps"], s["period"], float(rate), int(updates), **more)
    return {"episodes": found, "evaluated": found[-1][1], "seconds": round(time.perf_counter() - start, 2)}
