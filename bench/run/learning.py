#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Learning curves over seeds, in games of MinAtar with the same network, the same constants and as many steps; and in
tasks of continuous actions.

    build/peers/bin/pip install minatar
    build/peers/bin/python bench/run/learning.py run --train build/examples/gpureplay-train --out build/learning
    build/peers/bin/python bench/run/learning.py collect --out build/learning learning.json
    build/peers/bin/python bench/run/learning.py table learning.json
    build/peers/bin/python bench/run/learning.py plot learning.json

Experiments, --experiment NAME:

    fast-dqn    (default) fast DQN and standard DQN of this library, and Stable-Baselines3's DQN, over 16 seeds. The
                settings below are those of preset "fast-dqn-small"; an evaluation in Breakout has more episodes, since
                their returns vary more.
    switches    Which switch of fast DQN costs return in Breakout: standard DQN, concurrent training alone with one
                environment, synchronized execution alone with eight, and both, by the settings of fast-dqn, over
                eight seeds.
    dqn-lambda  DQN(lambda) for five values of lambda, and DQN. Seeds 1 to 4 choose lambda, that of the highest mean
                return; then seeds 5 to 12 compare it with DQN. DQN is "fast-dqn-small" with one environment and neither
                switch. DQN(lambda) is "vrc-2021-small", whose Adam has the same learning rate and no large epsilon, as
                DQN's, and whose minibatches have each entry of the cache once. It needs no other package, but
                Matplotlib for the picture.
    estimators  The seven estimators of returns in "vrc-2021-small", returns of one step, and DQN as above, also with
                the loss of "vrc-2021-small", in CartPole over 16 seeds. Q values there are up to 100, for which an
                error bound of 0.025 leaves no lambda above 0. One of 10 was chosen after runs of seeds 101 and 102 by
                0.1, 1, 10 and 100; the squared errors of DQN were added after the other runs.
    ape-x       "apex-dqn-small" with eight actors, each a process, and the learning rate 2.5e-4, over eight seeds: as
                it is; with the largest priority so far as the initial one; with uniform draws; and with 100 kills of
                actors at random moments.
                Episodes are those of the actor with the smallest epsilon. There are few of them in Freeway, whose
                episodes have 2,500 steps: there the last network is evaluated, too.
    ape-x-rates "apex-dqn-small" with eight actors, in threads, by priority with beta 1 and by uniform draws, each at
                two learning rates, over 200,000 steps. Seeds 1 to 3 choose a rate for each kind of draws, the same in
                both games: that with the larger mean of all returns, of the last episodes and evaluated, each divided
                by the largest mean in its game. Seeds 4 to 11 then compare the two. Episodes are those of the actor
                with the smallest epsilon, and the last network is evaluated in both games.
    ape-x-age   The same with 64 actors and with eight, in threads, over 200,000 steps and four seeds: the age
                of the weights that acted, in train steps, as the median over a run's rows of rates.csv since training
                began, and the returns as above.
    apex-dpg    "apex-dpg-small" with two actors in pendulum swing-up, and Stable-Baselines3's DDPG and TD3 with the
                same noise and else their own defaults, over five seeds. Evaluations have no noise. For this one and the
                three below --train must be "python -m gpureplay.train", with gpureplay[dm_control].
    cartpole    "apex-dpg-small" with two actors in cartpole swing-up, over five seeds.
    cheetah     The same in cheetah run, beside Stable-Baselines3's TD3, over three seeds.
    eviction    "apex-dpg-small" with a replay that holds an eighth of all transitions, in pendulum and in cartpole
                swing-up, over five seeds: the oldest leave, or such that are drawn by priority^-0.4.
    ga3c        "ga3c-small", "a3c-small" and "a2c-small" with 16 agents, and Stable-Baselines3's A2C with 16
                environments, the same network, entropy 0.01, and its own defaults else, over eight seeds. Evaluations
                draw actions, as the training does.
    ga3c-cartpole
                The same three presets, with their own numbers of agents, in CartPole over eight seeds.

`run` does what is not in --out yet, each run in a process with one thread, --jobs at the same time: it can be stopped
and started again, and begins those anew that were not finished. A result holds the settings.

The systems are compared by two metrics: the mean return of the episodes that ended in the last 50,000 steps of the
training, which the networks of many moments have played, and an evaluation of the last network. By each, the criterion
holds for a difference of two systems if the lower end of its 95% interval is above -10% of what the second one gained
over the random player.

"seconds" of this library's runs are of the whole run with its evaluation at the end; the peer's are without it. The
file that `collect` writes names commit, time and machine of the collecting: collect where the runs were made, or name
their commit in GPUREPLAY_COMMIT.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import json
import math
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

PEER = "Stable-Baselines3"
_SMALL = ["--preset", "fast-dqn-small"]
APEX_ACTORS = 8
_APEX = ["--preset", "apex-dqn-small", "--actors", str(APEX_ACTORS), "--processes", "1", "--learning-rate", "2.5e-4"]
KILLED, KILLS = "100 kills", 100
PEER_A2C, AGENTS = "Stable-Baselines3's A2C", 16
PEER_DDPG, PEER_TD3 = "Stable-Baselines3's DDPG", "Stable-Baselines3's TD3"
_DPG = ["--preset", "apex-dpg-small", "--actors", "2"]
_CONTROL = {"capacity": 100_000, "prepopulation": 2_000, "gamma": 0.99, "sigma": 0.3,
            "eval_episodes": {f"dm_control/{task}": 20 for task in ("pendulum-swingup", "cartpole-swingup",
                                                                    "cheetah-run")}}
_BOTH = [*_SMALL, "--num-envs", "8", "--concurrent", "1", "--synchronized", "1"]
_STANDARD = [*_SMALL, "--num-envs", "1", "--concurrent", "0", "--synchronized", "0"]
_THREADS = ["--preset", "apex-dqn-small", "--processes", "0"]
_RATES = {f"{kind}, {rate}": [*_THREADS, "--actors", str(APEX_ACTORS), *options, "--learning-rate", rate]
          for kind, options in (("priorities", []), ("uniform", ["--prioritized", "0"]))
          for rate in ("2.5e-4", "1e-3")}
_EVALUATED = {"MinAtar/Breakout": 300, "MinAtar/Freeway": 30}


class Experiment(NamedTuple):
    """systems: the options of the program by name. base: the one that the others are compared with. choice: seeds of
    all systems, of which the best one goes on. seeds: of the comparison. settings: in the place of those in SETTINGS;
    with "sigma" of all of them. by_base: the table compares each system with the base alone, not with each other one.
    kinds: of the systems whose names begin so the seeds of `choice` choose one each; the first is compared with the
    second. has_random: whether random players are compared with."""

    games: tuple[str, ...]
    systems: dict[str, list[str]]
    base: str
    choice: tuple[int, ...]
    seeds: tuple[int, ...]
    settings: dict[str, Any] = {}
    by_base: bool = False
    kinds: tuple[str, ...] = ()
    has_random: bool = True


EXPERIMENTS = {
    "fast-dqn": Experiment(
        ("MinAtar/Breakout", "MinAtar/Freeway"),
        {"Both, W = 8": _BOTH, "Standard, W = 1": _STANDARD, PEER: []}, PEER, (), tuple(range(1, 17))),
    "switches": Experiment(
        ("MinAtar/Breakout",),
        {"Concurrent, W = 1": [*_SMALL, "--num-envs", "1", "--concurrent", "1", "--synchronized", "0"],
         "Synchronized, W = 8": [*_SMALL, "--num-envs", "8", "--concurrent", "0", "--synchronized", "1"],
         "Both, W = 8": _BOTH, "Standard, W = 1": _STANDARD}, "Standard, W = 1", (), tuple(range(1, 9)),
        by_base=True),
    "dqn-lambda": Experiment(
        ("MinAtar/Breakout",),
        {"DQN": _STANDARD, **{f"lambda {value}": ["--preset", "vrc-2021-small", "--lambda", value]
                              for value in ("0", "0.25", "0.5", "0.75", "1")}}, "DQN", (1, 2, 3, 4),
        tuple(range(5, 13))),
    "estimators": Experiment(
        ("CartPole-v1",),
        {**{name: ["--preset", "vrc-2021-small", "--estimator", *estimator.split()] for name, estimator in
            (("Peng, lambda 0.75", "peng --lambda 0.75"), ("Watkins, lambda 0.75", "watkins --lambda 0.75"),
             ("3 steps", "n-step --n-step 3"), ("Peng, median", "peng-median"), ("Watkins, median", "watkins-median"),
             ("Peng, error bound 10", "peng-error-bound --error-bound 10"),
             ("Watkins, error bound 10", "watkins-error-bound --error-bound 10"),
             ("Peng, error bound 0.025", "peng-error-bound --error-bound 0.025"),
             ("one step (lambda 0)", "peng --lambda 0"))},
         "DQN": _STANDARD, "DQN, squared errors": [*_STANDARD, "--loss", "squared"]}, "DQN", (), tuple(range(1, 17)),
        {"steps": 80_000, "last_steps": 10_000, "eval_episodes": {"CartPole-v1": 100}}, by_base=True),
    "ape-x": Experiment(
        ("MinAtar/Breakout", "MinAtar/Freeway"),
        {KILLED: _APEX, "Ape-X": _APEX, "largest priority so far": [*_APEX, "--initial-priorities", "max"],
         "uniform": [*_APEX, "--prioritized", "0"]}, "Ape-X", (), tuple(range(1, 9)),
        {"eval_episodes": {"MinAtar/Freeway": 30}}),
    "ape-x-rates": Experiment(
        ("MinAtar/Breakout", "MinAtar/Freeway"), _RATES, "", (1, 2, 3), tuple(range(4, 12)),
        {"steps": 200_000, "eval_episodes": _EVALUATED}, kinds=("priorities", "uniform"), has_random=False),
    "ape-x-age": Experiment(
        ("MinAtar/Breakout",), {f"{actors} actors": [*_THREADS, "--actors", str(actors), "--learning-rate", "2.5e-4"]
                                for actors in (64, 8)},
        "8 actors", (), (1, 2, 3, 4), {"steps": 200_000, "eval_episodes": _EVALUATED}, has_random=False),
    "apex-dpg": Experiment(
        ("dm_control/pendulum-swingup",), {"Ape-X DPG": _DPG, PEER_DDPG: [], PEER_TD3: []}, PEER_TD3, (),
        tuple(range(1, 6)), {**_CONTROL, "steps": 40_000, "last_steps": 10_000}),
    "cartpole": Experiment(
        ("dm_control/cartpole-swingup",), {"Ape-X DPG": _DPG}, "Ape-X DPG", (), tuple(range(1, 6)),
        {**_CONTROL, "steps": 100_000, "last_steps": 20_000}),
    "cheetah": Experiment(
        ("dm_control/cheetah-run",), {"Ape-X DPG": _DPG, PEER_TD3: []}, PEER_TD3, (), (1, 2, 3),
        {**_CONTROL, "steps": 50_000, "last_steps": 10_000}),
    "eviction": Experiment(
        ("dm_control/pendulum-swingup", "dm_control/cartpole-swingup"),
        {"by priority": [*_DPG, "--capacity", "10000", "--eviction", "priority"],
         "the oldest": [*_DPG, "--capacity", "10000", "--eviction", "oldest"]}, "the oldest", (), tuple(range(1, 6)),
        {**_CONTROL, "steps": 80_000, "last_steps": 20_000}),
    "ga3c": Experiment(
        ("MinAtar/Breakout",),
        {**{name: ["--preset", preset, "--agents", str(AGENTS)] for name, preset in
            (("GA3C", "ga3c-small"), ("A3C", "a3c-small"), ("A2C", "a2c-small"))}, PEER_A2C: []}, PEER_A2C, (),
        tuple(range(1, 9))),
    "ga3c-cartpole": Experiment(
        ("CartPole-v1",), {"GA3C": ["--preset", "ga3c-small"], "A3C": ["--preset", "a3c-small"],
                           "A2C": ["--preset", "a2c-small"]}, "GA3C", (), tuple(range(1, 9)),
        {"steps": 1_000_000, "eval_episodes": {"CartPole-v1": 100}}, by_base=True),
}
SETTINGS = {"steps": 300_000, "learning_rate": 2.5e-4, "capacity": 100_000, "prepopulation": 5_000, "batch": 32,
            "gamma": 0.99, "train_period": 4, "target_period": 1_000, "exploration_steps": 100_000, "epsilon": 0.1,
            "clip_norm": 10.0, "eval_episodes": {"MinAtar/Breakout": 300, "MinAtar/Freeway": 30}, "eval_epsilon": 0.05,
            "last_steps": 50_000}
RANDOM_EPISODES = 100
# Student's t at 97.5%, by the degrees of freedom from 1 to 31.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
         2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042, 2.040)
BINS = 60  # of a curve
METRICS = {"last": "the last episodes", "evaluated": "the evaluations"}
DIFFERENCES = "| game | difference | by | its 95% interval | lowest allowed | criterion |\n" + "|---" * 6 + "|"


def _file(out: Path, system: str, game: str, seed: int) -> Path:
    name = "".join(x if x.isalnum() else "-" for x in f"{system} {game} {seed}")
    return out / f"{name}.json"


def _run_ours(train: str, out: Path, options: list[str], system: str, game: str, seed: int) -> dict[str, Any]:
    s, folder = SETTINGS, _file(out, system, game, seed).with_suffix("")
    period = [] if any(preset in options for preset in ("ga3c-small", "a3c-small", "a2c-small")) else \
        ["--eval-period", "0"]
    given = ["--env", game, *options, "--steps", str(s["steps"]), "--seed", str(seed), "--out", str(folder), "--device",
             "cpu", "--threads", "1", *period, "--eval-episodes", str(s["eval_episodes"][game]), "--checkpoint", "0"]
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
    if "--loss" in options:
        _train_by_package(given)
    else:
        subprocess.run([*shlex.split(train), *given, "--quiet"], check=True)
    with open(folder / "episodes.csv", newline="") as file:
        episodes = [(int(row["step"]), float(row["return"])) for row in csv.DictReader(file)]
    with open(folder / "evaluations.csv", newline="") as file:
        last = list(csv.DictReader(file))[-1]
    with open(folder / "rates.csv", newline="") as file:
        seconds = float(list(csv.DictReader(file))[-1]["seconds"])
    return {"episodes": episodes, "evaluated": float(last["mean_return"]), "seconds": seconds}


def _value(text: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def _kill_actors(process: subprocess.Popen[bytes], rates: Path, seed: int) -> None:
    """Kills a random one of its actors at each of KILLS random steps, soon after the run has reported it. None is
    in the last tenth, so that the run reports all of them."""
    draw = Random(seed)
    moments = sorted(draw.uniform(0, 0.9 * SETTINGS["steps"]) for _ in range(KILLS))
    while moments and process.poll() is None:
        rows = _rows(rates)
        if rows and int(rows[-1]["step"]) >= moments[0]:
            threads = Path(f"/proc/{process.pid}/task").glob("*/children")  # of the thread that started them
            actors = [child for thread in threads for child in thread.read_text().split()]
            if actors:
                os.kill(int(draw.choice(actors)), signal.SIGKILL)
                moments.pop(0)
        time.sleep(draw.uniform(0.0, 1.0))


def _run_apex(train: str, out: Path, options: list[str], system: str, game: str, seed: int) -> dict[str, Any]:
    """The episodes of the actor with the smallest epsilon, and what the run says of its actors' ends."""
    s, folder = SETTINGS, _file(out, system, game, seed).with_suffix("")
    actors, evaluates = int(options[options.index("--actors") + 1]), game in s["eval_episodes"]
    given = ["--env", game, *options, "--steps", str(s["steps"]), "--seed", str(seed), "--out", str(folder),
             "--device", "cpu", "--threads", "1", "--checkpoint", "0", "--eval-period", "0",
             "--eval-episodes", str(s["eval_episodes"][game] if evaluates else 0)]
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
    _train_apex([train, *given, "--quiet"], folder, seed if system == KILLED else None)
    greediest = [row for row in _rows(folder / "episodes.csv") if int(row["actor"]) == actors - 1]
    ends = [row for row in _rows(folder / "actors.csv") if row["event"] == "ended" and row["asked"] == "0"]
    rates = _rows(folder / "rates.csv")
    evaluated = {"evaluated": float(_rows(folder / "evaluations.csv")[-1]["mean_return"])} if evaluates else {}
    ages = [float(row["weights_age"]) for row in rates if int(row["train_steps"]) > 0 and row["weights_age"]]
    return {"episodes": [(int(row["step"]), float(row["return"])) for row in greediest], "deaths": len(ends),
            "lost_blocks": sum(int(row["lost_blocks"]) for row in ends),
            "lost_rows": sum(int(row["lost_rows"]) for row in ends), "seconds": float(rates[-1]["seconds"]),
            "age": statistics.median(ages), **evaluated}


def _train_by_package(given: list[str]) -> None:
    """The same by the package: its programs have no option for the learner's loss."""
    import gpureplay

    settings = {name[2:].replace("-", "_"): _value(value) for name, value in zip(given[::2], given[1::2])}
    gpureplay.train(agent={"loss": settings.pop("loss")}, progress=False, **settings)


def _train_apex(command: list[str], folder: Path, kills: int | None) -> None:
    """kills: the seed of kills, or None."""
    with subprocess.Popen(command) as process:
        if kills is not None:
            _kill_actors(process, folder / "rates.csv", kills)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def _make_env(game: str) -> Any:
    """The authors' package as a Gymnasium environment whose observations are images of bytes, channels first."""
    import gymnasium
    import numpy as np

    if not game.startswith("MinAtar/"):
        return _make_task(game)
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


def _make_task(game: str) -> Any:
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


def _network() -> type:
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


def _run_peer(game: str, seed: int) -> dict[str, Any]:
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    torch.set_num_threads(1)
    s, env = SETTINGS, Monitor(_make_env(game))
    steps = s["steps"] + s["prepopulation"]  # it counts the random ones

    def epsilon(part_left: float) -> float:
        """As ours: it begins to fall after the random steps."""
        step = steps * (1 - part_left) - s["prepopulation"]
        return 1 + (s["epsilon"] - 1) * min(max(step / s["exploration_steps"], 0.0), 1.0)
    agent = DQN("MlpPolicy", env, learning_rate=s["learning_rate"], buffer_size=s["capacity"],
                learning_starts=s["prepopulation"], batch_size=s["batch"], gamma=s["gamma"],
                train_freq=s["train_period"], gradient_steps=1, target_update_interval=s["target_period"],
                max_grad_norm=s["clip_norm"], seed=seed, device="cpu",
                policy_kwargs={"features_extractor_class": _network(), "net_arch": [], "normalize_images": False})
    agent.exploration_schedule = epsilon
    start = time.perf_counter()
    agent.learn(steps)
    seconds = time.perf_counter() - start
    ends, at = [], 0
    for length, gain in zip(env.get_episode_lengths(), env.get_episode_rewards()):
        at += length
        ends.append((at - s["prepopulation"], gain))
    agent.exploration_rate = s["eval_epsilon"]
    mean, _ = evaluate_policy(agent, Monitor(_make_env(game)), s["eval_episodes"][game], deterministic=False)
    return {"episodes": ends, "evaluated": float(mean), "seconds": seconds}


def _run_peer_a2c(game: str, seed: int) -> dict[str, Any]:
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
    envs = DummyVecEnv([lambda: Monitor(_make_env(game))] * AGENTS)
    agent = A2C("MlpPolicy", envs, ent_coef=0.01, gamma=SETTINGS["gamma"], seed=seed, device="cpu",
                policy_kwargs={"features_extractor_class": _network(), "net_arch": [], "normalize_images": False})
    ends, start = Ends(), time.perf_counter()
    agent.learn(SETTINGS["steps"], callback=ends)
    seconds = time.perf_counter() - start
    mean, _ = evaluate_policy(agent, Monitor(_make_env(game)), SETTINGS["eval_episodes"][game], deterministic=False)
    return {"episodes": ends.found, "evaluated": float(mean), "seconds": seconds}


def _run_peer_ddpg(system: str, game: str, seed: int) -> dict[str, Any]:
    import numpy as np
    import torch
    from stable_baselines3 import DDPG, TD3
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.noise import NormalActionNoise

    torch.set_num_threads(1)
    s, env = SETTINGS, Monitor(_make_env(game))
    size = env.action_space.shape[0]  # the noise is of actions of -1 to 1
    agent = (DDPG if system == PEER_DDPG else TD3)(
        "MlpPolicy", env, gamma=s["gamma"], buffer_size=s["capacity"], learning_starts=s["prepopulation"], seed=seed,
        device="cpu", action_noise=NormalActionNoise(np.zeros(size), np.full(size, s["sigma"])))
    start = time.perf_counter()
    agent.learn(s["steps"])
    seconds = time.perf_counter() - start
    ends = zip(itertools.accumulate(env.get_episode_lengths()), env.get_episode_rewards())
    mean, _ = evaluate_policy(agent, Monitor(_make_env(game)), s["eval_episodes"][game])
    return {"episodes": list(ends), "evaluated": float(mean), "seconds": seconds}


def _random_returns(game: str) -> list[float]:
    import numpy as np

    env, returns, random = _make_env(game), [], np.random.default_rng(1)
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


def _one(given: argparse.Namespace, system: str, game: str, seed: int) -> None:
    """In a process of its own, so that one thread is all that a run has."""
    out = Path(given.out)
    command = [sys.executable, __file__, "one", "--experiment", given.experiment, "--train", given.train, "--out",
               given.out, "--system", system, "--game", game, "--seed", str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment)
    found = _collected(json.loads(_file(out, system, game, seed).read_text()))
    print(f"{system}, {game}, seed {seed}: {found['last']:.2f}", flush=True)


def run(given: argparse.Namespace) -> None:
    out, experiment = Path(given.out), EXPERIMENTS[given.experiment]
    out.mkdir(parents=True, exist_ok=True)
    for game in experiment.games if experiment.has_random and not experiment.choice else ():
        path = _file(out, "Random", game, 0)
        if not path.exists():
            path.write_text(json.dumps({"system": "Random", "game": game, "returns": _random_returns(game)}))
    if experiment.choice:
        _run_all(given, list(experiment.systems), experiment.choice)
        found = [_collected(json.loads(path.read_text())) for path in sorted(out.glob("*.json"))]
        chosen = _chosen_kinds(experiment, found) or [experiment.base, _chosen(experiment, found)]
        _run_all(given, chosen, experiment.seeds)
    else:
        _run_all(given, list(experiment.systems), experiment.seeds)


def _run_all(given: argparse.Namespace, systems: list[str], seeds: tuple[int, ...]) -> None:
    wanted = [(system, game, seed) for seed in seeds for game in EXPERIMENTS[given.experiment].games
              for system in systems if not _file(Path(given.out), system, game, seed).exists()]
    with ThreadPoolExecutor(given.jobs) as pool:
        for future in [pool.submit(_one, given, *what) for what in wanted]:
            future.result()


def _chosen(experiment: Experiment, results: list[dict[str, Any]]) -> str:
    """The system with the highest mean return over the seeds that choose, the base left out."""
    def mean(system: str) -> float:
        return statistics.mean(one["last"] for one in results
                               if one["system"] == system and one["seed"] in experiment.choice)

    return max((system for system in experiment.systems if system != experiment.base), key=mean)


def _chosen_kinds(experiment: Experiment, results: list[dict[str, Any]]) -> list[str]:
    """Of each kind the system with the highest returns over the seeds that choose, divided by the largest in a game."""
    def mean(system: str, game: str) -> float:
        return statistics.mean((one["last"] + one["evaluated"]) / 2 for one in results if one["system"] == system and
                               one["game"] == game and one["seed"] in experiment.choice)

    if not experiment.kinds:
        return []
    largest = {game: max(mean(system, game) for system in experiment.systems) for game in experiment.games}

    def score(system: str) -> float:
        return statistics.mean(mean(system, game) / largest[game] for game in experiment.games)

    return [max((system for system in experiment.systems if system.startswith(kind)), key=score)
            for kind in experiment.kinds]


def one(given: argparse.Namespace) -> None:
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    options = EXPERIMENTS[given.experiment].systems[given.system]
    run_one = _run_apex if given.experiment.startswith("ape-x") else _run_ours
    if given.system in (PEER_DDPG, PEER_TD3):
        found = _run_peer_ddpg(given.system, given.game, given.seed)
    elif given.system in (PEER, PEER_A2C):
        found = (_run_peer if given.system == PEER else _run_peer_a2c)(given.game, given.seed)
    else:
        found = run_one(given.train, out, options, given.system, given.game, given.seed)
    result = {"system": given.system, "game": given.game, "seed": given.seed, "settings": SETTINGS,
              "options": options, **found}
    path = _file(out, given.system, given.game, given.seed)
    path.with_suffix(".part").write_text(json.dumps(result))
    path.with_suffix(".part").rename(path)


def t_975(values: int) -> float:
    """Student's t at 97.5% for the mean of so many values."""
    if not 2 <= values <= len(T_975) + 1:
        raise ValueError(f"an interval of {values} values; there must be 2 to {len(T_975) + 1}")
    return T_975[values - 2]


def interval(x: list[float], y: list[float]) -> tuple[float, float]:
    """The difference of the means, and half of its 95% interval [Welch 1947, with the smaller degrees of freedom]."""
    t = t_975(min(len(x), len(y)))
    variance = statistics.variance(x) / len(x) + statistics.variance(y) / len(y)
    return statistics.mean(x) - statistics.mean(y), t * math.sqrt(variance)


def _collected(one: dict[str, Any]) -> dict[str, Any]:
    """A run with its curve, and the mean returns of the random steps and of the last steps, with the number of the
    latter, in place of episodes."""
    if "episodes" in one:
        episodes, steps = one.pop("episodes"), one.pop("settings")["steps"]
        one["curve"] = [round(value, 3) for value in _curve(episodes, steps)]
        first = [gain for step, gain in episodes if step <= 0]
        if first:
            one["random"] = statistics.mean(first)
        last = [gain for step, gain in episodes if steps - SETTINGS["last_steps"] < step <= steps]
        one["last"], one["last_episodes"] = statistics.mean(last), len(last)
    return one


def collect(given: argparse.Namespace) -> None:
    """One file of all runs, with those that it has already and --out has not."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
    from common import describe_machine

    results = [_collected(json.loads(path.read_text())) for path in sorted(Path(given.out).glob("*.json"))]
    names = [_name_of(one) for one in results]
    if Path(given.file).exists():
        results = [one for one in _read(given.file) if _name_of(one) not in names] + results
    machine = describe_machine()
    document = {"title": "learning", "experiment": given.experiment,
                "commit": machine.pop("commit"), "when": time.strftime("%FT%TZ", time.gmtime()),
                "machine": machine, "settings": SETTINGS, "runs": results}
    Path(given.file).write_text(json.dumps(document).replace('{"system"', '\n{"system"') + "\n")


def _name_of(one: dict[str, Any]) -> tuple[str, str, int]:
    return one["system"], one["game"], one.get("seed", 0)


def _read(file: str) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(Path(file).read_text())["runs"]
    return runs


def _spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.2f}, {statistics.stdev(values):.2f}"


def table(given: argparse.Namespace) -> None:
    experiment, results = EXPERIMENTS[given.experiment], _read(given.file)
    if not experiment.has_random:
        _plain_table(experiment, results)
    elif experiment.choice:
        _choice_table(experiment, results)
    else:
        _peer_table(experiment, results)


def _choice_table(experiment: Experiment, results: list[dict[str, Any]]) -> None:
    """First the seeds that choose, then the chosen system beside the base on the other seeds."""
    def of(system: str, seeds: tuple[int, ...]) -> list[dict[str, Any]]:
        return [one for one in results if one["system"] == system and one["seed"] in seeds]

    chosen = _chosen(experiment, results)
    compared = {system: of(system, experiment.seeds) for system in (chosen, experiment.base)}
    random = statistics.mean(one["random"] for one in compared[experiment.base])
    rows = [(system, experiment.choice) for system in experiment.systems]
    print("| system | seeds | return of the last episodes, and deviation | evaluated at the end | seconds a million "
          "steps |\n" + "|---" * 5 + "|")
    for system, seeds in [*rows, *((system, experiment.seeds) for system in compared)]:
        mine = of(system, seeds)
        print(f"| {system} | {seeds[0]} to {seeds[-1]} | {_spread([one['last'] for one in mine])} | "
              f"{_spread([one['evaluated'] for one in mine])} | {_seconds(mine)} |")
    print(f"| random steps | | {random:.2f} | | |\n")
    print(DIFFERENCES)
    _print_differences(experiment.games[0], compared, random)


def _plain_table(experiment: Experiment, results: list[dict[str, Any]]) -> None:
    """All systems over the seeds that choose, if any do; then those that are compared, over the others; and by how much
    the first is above the second."""
    chosen = _chosen_kinds(experiment, results) or list(experiment.systems)
    rows = [(system, experiment.choice) for system in experiment.systems if experiment.choice]
    print("| game | system | seeds | return of the last episodes, and deviation | evaluated at the end | age of the "
          "acting weights, train steps | seconds a run |\n" + "|---" * 7 + "|")
    differences = []
    for game in experiment.games:
        for system, seeds in [*rows, *((system, experiment.seeds) for system in chosen)]:
            mine = [one for one in results if (one["system"], one["game"]) == (system, game) and one["seed"] in seeds]
            print(f"| {game} | {system} | {seeds[0]} to {seeds[-1]} | {_spread([one['last'] for one in mine])} | "
                  f"{_evaluated(mine)} | {statistics.median(one['age'] for one in mine):.0f} | "
                  f"{statistics.median(one['seconds'] for one in mine):.0f} |")
        for metric, name in METRICS.items():
            first, second = ([one[metric] for one in results if (one["system"], one["game"]) == (system, game) and
                              one["seed"] in experiment.seeds] for system in chosen)
            difference, half = interval(first, second)
            differences.append(f"| {game} | {' minus '.join(chosen)} | {name} | {difference:+.2f} "
                               f"({difference - half:+.2f} to {difference + half:+.2f}) |")
    print("\n| game | difference | by | its 95% interval |\n" + "|---" * 4 + "|")
    print("\n".join(differences))


def _peer_table(experiment: Experiment, results: list[dict[str, Any]]) -> None:
    print("| game | system | seeds | return of the last episodes, and deviation | above random by 10 errors | "
          "evaluated at the end | seconds a million steps |\n" + "|---" * 7 + "|")
    games = {}
    for game in experiment.games:
        here = [one for one in results if one["game"] == game]
        if not here:
            continue
        random = next(one["returns"] for one in here if one["system"] == "Random")
        base, error = statistics.mean(random), statistics.stdev(random) / math.sqrt(len(random))
        systems = {system: [one for one in here if one["system"] == system] for system in experiment.systems}
        games[game] = systems, base
        for system, mine in systems.items():
            returns = [one["last"] for one in mine]
            above = sum(value > base + 10 * error for value in returns)
            print(f"| {game} | {system} | {len(mine)} | {_spread(returns)} | {above} | "
                  f"{_evaluated(mine)} | {_seconds(mine)} |")
        print(f"| {game} | random | {len(random)} episodes | {_spread(random)} | | | |")
    print("\n" + DIFFERENCES)
    for game, (systems, base) in games.items():
        _print_differences(game, systems, base, experiment.base if experiment.by_base else None)


def _evaluated(runs: list[dict[str, Any]]) -> str:
    return _spread([one["evaluated"] for one in runs]) if "evaluated" in runs[0] else ""


def _seconds(runs: list[dict[str, Any]]) -> str:
    return f"{statistics.median(one['seconds'] for one in runs) / SETTINGS['steps'] * 1e6:,.0f}"


def _print_differences(game: str, systems: dict[str, list[dict[str, Any]]], random: float,
                       base: str | None = None) -> None:
    """Each system minus each one after it, or minus the base alone, by both metrics."""
    others = [(item, (base, systems[base])) for item in systems.items() if item[0] != base] if base else \
        itertools.combinations(systems.items(), 2)
    for (first, mine), (second, theirs) in others:
        for metric, name in METRICS.items():
            if metric not in mine[0]:
                continue
            returns = [one[metric] for one in theirs]
            difference, half = interval([one[metric] for one in mine], returns)
            lowest = -0.1 * (statistics.mean(returns) - random)
            print(f"| {game} | {first} minus {second} | {name} | {difference:+.2f} ({difference - half:+.2f} to "
                  f"{difference + half:+.2f}) | {lowest:+.2f} | {'holds' if difference - half > lowest else 'fails'} |")


def _curve(episodes: list[tuple[int, float]], steps: int) -> list[float]:
    """Mean return of the episodes that ended in each of BINS parts of the steps; where none did, that before."""
    width = steps / BINS
    bins: list[list[float]] = [[] for _ in range(BINS)]
    for step, gain in episodes:
        if 0 < step <= steps:
            bins[min(int((step - 1) / width), BINS - 1)].append(gain)
    curve: list[float] = []
    for part in bins:
        curve.append(statistics.mean(part) if part else curve[-1] if curve else 0.0)
    return curve


def plot(given: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    experiment, results = EXPERIMENTS[given.experiment], _read(given.file)
    games = experiment.games
    figure, axes = plt.subplots(1, len(games), figsize=(5 * len(games), 3.6), squeeze=False)
    for axis, game in zip(axes[0], games):
        for number, system in enumerate(_chosen_kinds(experiment, results) or experiment.systems):
            curves = [one["curve"] for one in results if one["game"] == game and one["system"] == system and
                      (not experiment.kinds or one["seed"] in experiment.seeds)]
            if not curves:
                continue
            steps = [(i + 1) * SETTINGS["steps"] / BINS for i in range(BINS)]
            mean = [statistics.mean(values) for values in zip(*curves)]
            half = [t_975(len(values)) * statistics.stdev(values) / math.sqrt(len(values))
                    if len(values) > 1 else 0.0 for values in zip(*curves)]
            line, = axis.plot(steps, mean, "-" if number < 10 else "--", label=f"{system} ({len(curves)} seeds)")
            axis.fill_between(steps, [m - h for m, h in zip(mean, half)], [m + h for m, h in zip(mean, half)],
                              color=line.get_color(), alpha=0.2)
        axis.set(title=game, xlabel="environment steps", ylabel="return of the episodes while training")
        axis.locator_params(axis="x", nbins=5)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(Path(given.file).with_suffix(".png"), dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in (("run", run), ("one", one), ("collect", collect), ("table", table), ("plot", plot)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--experiment", choices=sorted(EXPERIMENTS), default="fast-dqn")
        if name in ("run", "one"):
            command.add_argument("--train", default="build/examples/gpureplay-train")
        if name in ("run", "one", "collect"):
            command.add_argument("--out", default="build/learning")
        if name in ("collect", "table", "plot"):
            command.add_argument("file")
        if name == "run":
            command.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2)))
        if name == "one":
            command.add_argument("--system", required=True)
            command.add_argument("--game", required=True)
            command.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    settings = EXPERIMENTS[given.experiment].settings
    if "sigma" in settings:  # nothing of the others is used
        SETTINGS.clear()
    SETTINGS.update(settings)
    given.function(given)


if __name__ == "__main__":
    main()
