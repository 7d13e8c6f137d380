# SPDX-License-Identifier: MIT
"""DQN with hindsight [Andrychowicz et al. 2017] on the bits of examples/python/bit_flipping.py, in this library and in
Stable-Baselines3: the same environments, steps, network, batches and train steps. Both explore by 0.2 all the time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from harness import HERE, Job, Run

sys.path.append(str(HERE.parents[1] / "examples/python"))
BITS = {"bits": 30, "envs": 16, "rounds": 600, "train_steps": 40, "units": 256, "learning_rate": 1e-3, "batch": 128,
        "gamma": 0.98, "tau": 0.005, "capacity": 500_000, "epsilon": 0.2, "episodes": 200, "parts": 12}


def success_rate(bits: int, episodes: int, act: Callable[[Any], Any]) -> float:
    """The share of greedy episodes that reach the goal; the first end of each counts."""
    import numpy as np
    from bit_flipping import Bits

    envs, reached = Bits(episodes, bits, np.random.default_rng(0)), np.zeros(episodes, bool)
    for _ in range(bits):
        reached |= envs.step(act(envs.obs))["terminated"]
    return float(reached.mean())


def told(job: Job, curve: list[float], seconds: float) -> Run:
    s = job.settings
    each = s["rounds"] // s["parts"] * s["bits"] * s["envs"]
    return {"evaluated": curve[-1], "seconds": round(seconds, 1),
            "curve": [[(i + 1) * each, round(rate, 3)] for i, rate in enumerate(curve)]}


def run_ours(job: Job) -> Run:
    import gpureplay
    import numpy as np
    from bit_flipping import Bits

    s, bits = job.settings, job.settings["bits"]
    fields = {"obs": ((2 * bits,), "float32"), "action": "int32", "reward": "float32",
              "next_obs": ((2 * bits,), "float32"), "terminated": "bool", "truncated": "bool"}
    goals = gpureplay.Hindsight(achieved=("obs", 0, bits), desired=("obs", bits, 2 * bits), ends_at_goal=True)
    device = gpureplay.Device("cpu", threads=1)
    buffer = gpureplay.ReplayBuffer(s["capacity"], fields, num_envs=s["envs"], autoreset="disabled", device=device,
                                    gamma=s["gamma"], hindsight=goals, seed=job.seed)
    agent = gpureplay.DQN(buffer, bits, trunk=[s["units"]], learning_rate=s["learning_rate"], batch_size=s["batch"],
                          target_period=1, target_rate=s["tau"], seed=job.seed)
    envs, curve, seconds = Bits(s["envs"], bits, np.random.default_rng(job.seed)), [], 0.0
    for _ in range(s["parts"]):
        start = time.process_time()
        for _ in range(s["rounds"] // s["parts"]):
            for _ in range(bits):
                buffer.add(**envs.step(agent.act(envs.obs, epsilon=s["epsilon"])))
            agent.train(s["train_steps"])
        agent.sync()
        seconds += time.process_time() - start
        curve.append(success_rate(bits, s["episodes"], agent.act))
    return told(job, curve, seconds)


def vector(bits: int, count: int, seed: int) -> Any:
    """The environments as a vector of Stable-Baselines3's, whose observations are those of goals."""
    import gymnasium
    import numpy as np
    from bit_flipping import Bits
    from stable_baselines3.common.vec_env import VecEnv

    box = gymnasium.spaces.Box(0, 1, (bits,), np.float32)

    class Vector(VecEnv):
        def __init__(self) -> None:
            keys = ("observation", "achieved_goal", "desired_goal")
            super().__init__(count, gymnasium.spaces.Dict({key: box for key in keys}), gymnasium.spaces.Discrete(bits))
            self._envs, self.render_mode = Bits(count, bits, np.random.default_rng(seed)), None

        def _parts(self, obs: Any) -> dict[str, Any]:
            state, goal = obs[..., :bits].copy(), obs[..., bits:].copy()
            return {"observation": state, "achieved_goal": state.copy(), "desired_goal": goal}

        def reset(self) -> Any:
            return self._parts(self._envs.obs)

        def step_async(self, actions: Any) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            row = self._envs.step(self._actions)
            ended = row["terminated"] | row["truncated"]
            infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(cut)} for cut in row["truncated"]]
            for i in np.flatnonzero(ended):
                infos[i]["terminal_observation"] = {key: part[i] for key, part in self._parts(row["next_obs"]).items()}
            return self._parts(self._envs.obs), row["reward"].astype(np.float32), ended, infos

        def env_method(self, name: str, *given: Any, indices: Any = None, **named: Any) -> Any:
            achieved, desired, _ = given
            return [(achieved == desired).all(-1) - 1.0]

        def close(self) -> None:
            pass

        def get_attr(self, name: str, indices: Any = None) -> Any:
            return [getattr(self, name, None)] * count

        def set_attr(self, name: str, value: Any, indices: Any = None) -> None:
            setattr(self, name, value)

        def env_is_wrapped(self, wrapper: Any, indices: Any = None) -> Any:
            return [False] * count

    return Vector()


def run_peer(job: Job) -> Run:
    """It moves its target after each step of the environments, not after each train step, by as much together."""
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    s, bits = job.settings, job.settings["bits"]
    agent = stable_baselines3.DQN(
        "MultiInputPolicy", vector(bits, s["envs"], job.seed), learning_rate=s["learning_rate"],
        buffer_size=s["capacity"], learning_starts=bits * s["envs"], batch_size=s["batch"], gamma=s["gamma"],
        tau=s["tau"] * s["train_steps"] / bits, train_freq=bits, gradient_steps=s["train_steps"],
        target_update_interval=1, exploration_initial_eps=s["epsilon"], exploration_final_eps=s["epsilon"],
        replay_buffer_class=stable_baselines3.HerReplayBuffer, seed=job.seed, device="cpu",
        policy_kwargs={"net_arch": [s["units"]]})

    def act(obs: Any) -> Any:
        parts = {"observation": obs[:, :bits], "achieved_goal": obs[:, :bits], "desired_goal": obs[:, bits:]}
        return agent.predict(parts, deterministic=True)[0]

    curve, seconds, each = [], 0.0, s["rounds"] // s["parts"] * bits * s["envs"]
    for part in range(s["parts"]):
        start = time.process_time()
        agent.learn(each, reset_num_timesteps=part == 0)
        seconds += time.process_time() - start
        curve.append(success_rate(bits, s["episodes"], act))
    return told(job, curve, seconds)
