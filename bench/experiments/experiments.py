#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Experiments that learn, over seeds; each is a table of options.

    build/peers/bin/pip install minatar
    build/peers/bin/python bench/experiments/experiments.py run fast-dqn --train build/bench/examples/gpureplay-train
    build/peers/bin/python bench/experiments/experiments.py collect fast-dqn learning.json
    build/peers/bin/python bench/experiments/experiments.py table fast-dqn learning.json
    build/peers/bin/python bench/experiments/experiments.py plot fast-dqn learning.json

    fast-dqn    Fast DQN and standard DQN of this library, and Stable-Baselines3's DQN, in games of MinAtar with the
                same network and constants, those of preset "fast-dqn-small". An evaluation in Breakout has more
                episodes, since their returns vary more.
    switches    Which switch of fast DQN costs return in Breakout: standard DQN, concurrent training alone with one
                environment, synchronized execution alone with eight, and both, by the settings of fast-dqn.
    dqn-lambda  DQN(lambda) for five values of lambda, and DQN. Seeds 1 to 4 choose lambda, that of the highest mean
                return; then seeds 5 to 12 compare it with DQN. DQN is "fast-dqn-small" with one environment and neither
                switch. DQN(lambda) is "vrc-2021-small", whose Adam has the same learning rate and no large epsilon, as
                DQN's, and whose minibatches have each entry of the cache once.
    estimators  The seven estimators of returns in "vrc-2021-small", returns of one step, and DQN as above, also with
                the loss of "vrc-2021-small", in CartPole. Q values there are up to 100, for which an error bound of
                0.025 leaves no lambda above 0. One of 10 was chosen after runs of seeds 101 and 102 by 0.1, 1, 10 and
                100; the squared errors of DQN were added after the other runs.
    ape-x       "apex-dqn-small" with eight actors, each a process, and the learning rate 2.5e-4: as it is; with the
                largest priority so far as the initial one; with uniform draws; and with 100 kills of actors at random
                moments. Episodes are those of the actor with the smallest epsilon. There are few of them in Freeway,
                whose episodes have 2,500 steps: there the last network is evaluated, too.
    ape-x-rates "apex-dqn-small" with eight actors, in threads, by priority and by uniform draws, each at two learning
                rates. Seeds 1 to 3 choose a rate for each kind of draws, the same in both games: that with the larger
                mean of all returns, of the last episodes and evaluated, each divided by the largest mean in its game.
                Seeds 4 to 11 then compare the two.
    ape-x-age   The same with 64 actors and with eight, and the age of the weights that acted.
    ray-kills   "apex-dqn-small" with four actors and uniform draws, whose returns vary less in Freeway than those by
                priority, on a cluster of Ray of three nodes on this machine: as it is, and with 20 actors killed by the
                ids of their processes, and 5 times a node with all that runs on it, for which another one joins, evenly
                over the steps. The learner is on a node that stays, and so is the actor that evaluates. Evaluated is
                the mean of the evaluations in the last third of the steps. It needs Ray in the environment.
    apex-dpg    "apex-dpg-small" with two actors in pendulum swing-up, and Stable-Baselines3's DDPG and TD3 with the
                same noise and else their own defaults. Evaluations have no noise. For this one and the three below
                --train must be "python -m gpureplay.train", with gpureplay[dm_control].
    cartpole    "apex-dpg-small" with two actors in cartpole swing-up.
    cheetah     The same in cheetah run, beside Stable-Baselines3's TD3.
    eviction    "apex-dpg-small" with a replay that holds an eighth of all transitions, in pendulum and in cartpole
                swing-up: the oldest leave, or such that are drawn by priority^-0.4.
    ga3c        "ga3c-small", "a3c-small" and "a2c-small" with 16 agents, and Stable-Baselines3's A2C with 16
                environments, the same network, entropy 0.01, and its own defaults else. Evaluations draw actions, as
                the training does.
    ga3c-cartpole
                The same three presets, with their own numbers of agents, in CartPole.
    defaults    `gpureplay.train` in environments without images by its defaults. The last network plays 100 episodes
                greedily, in Blackjack 1,000. Solved are 475 in CartPole, 0.9 in FrozenLake, 7 in Taxi, -0.1 in
                Blackjack and 0.95 in the walk (defaults.py), by the median of the seeds.
    demonstrations
                DDPG in the library's Pendulum with 20 episodes of a trained agent, and without: as a part of each
                batch, or in its own buffer from the start. Evaluations of 10 episodes are at every 500 steps. The
                learning rate and the 4 train steps a step were chosen on seeds 101 to 105.
    lanes-torch Cartpole swing-up of MuJoCo Playground by TD3 in PyTorch with a LaneBuffer, and with a ring of PyTorch
                tensors as FastTD3 and its like write it: it stores each observation twice, and draws as many
                transitions of each lane. Compared is the mean return of 64 episodes after the last step. "seconds" are
                of the processor, by one thread, without evaluations: other work on the machine does not count.
    lanes-learners
                The same by FastTD3 of this library, and by TD3 in PyTorch, both with a LaneBuffer.
    lanes-jax   The same as lanes-torch of gymnax's Pendulum-v1 by DDPG in one scan, with flashbax's flat buffer, as its
                users write it: it stores each observation once and has no final ones, so that targets are cut where an
                episode was truncated; and with its item buffer, which stores both observations. After 5 seeds both end
                once the interval of each difference is at most 15% of the gain over a random player, to either side;
                else after 20. Settings were chosen by seeds of 101 and more: --seeds 101,102.
    bit-flipping
                DQN with hindsight, beside Stable-Baselines3's, until 30 bits are those of a goal (hindsight.py). An
                evaluation is the share of 200 goals that are reached. "seconds" are of the processor, by one thread,
                without evaluations.
    memory      R2D2 in a T-maze, with the stored recurrent state at the beginning of sequences, with zeros there, and
                without memory (memory.py). An evaluation is the share of 200 greedy episodes that turn the right way.
    sac-pendulum, sac-cartpole, sac-cheetah, td3-pendulum, td3-cartpole, td3-cheetah, qr-dqn
                SAC, TD3 and QR-DQN by the settings of off_policy.py, beside Stable-Baselines3's and sb3-contrib's: in
                Pendulum 10,000 steps, in cartpole swing-up and cheetah run 50,000, in Breakout 200,000, the random
                ones included. After 5 seeds they end as lanes-jax does. Without ours: --systems Stable-Baselines3, or
                sb3-contrib.

"seconds" of this library's runs are of the whole run with its evaluation at the end; those of Stable-Baselines3 are
without it.
"""

from __future__ import annotations

import importlib
from typing import Any

import harness
import hindsight
import off_policy
import trainings
from harness import Experiment, Job, Run, System
from stable_baselines import random_returns
from trainings import by, by_actors, by_package

BREAKOUT, FREEWAY = "MinAtar/Breakout", "MinAtar/Freeway"
PENDULUM, CARTPOLE, CHEETAH = (f"dm_control/{task}" for task in ("pendulum-swingup", "cartpole-swingup", "cheetah-run"))


def seeds(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


def later(module: str, function: str, *options: str) -> System:
    """A system of a module that needs other packages, which is imported when it runs."""
    def run(job: Job) -> Run:
        found: Run = getattr(importlib.import_module(module), function)(job)
        return found

    return System(run, list(options))


def settings(steps: int, last_steps: int = 50_000, **eval_episodes: int) -> dict[str, Any]:
    """Those of Stable-Baselines3 in MinAtar, which are those of "fast-dqn-small"."""
    return {"steps": steps, "learning_rate": 2.5e-4, "capacity": 100_000, "prepopulation": 5_000, "batch": 32,
            "gamma": 0.99, "train_period": 4, "target_period": 1_000, "exploration_steps": 100_000, "epsilon": 0.1,
            "clip_norm": 10.0, "eval_episodes": eval_episodes or {BREAKOUT: 300, FREEWAY: 30}, "eval_epsilon": 0.05,
            "last_steps": last_steps, "agents": 16}


def control(steps: int, last_steps: int) -> dict[str, Any]:
    return {"steps": steps, "last_steps": last_steps, "capacity": 100_000, "prepopulation": 2_000, "gamma": 0.99,
            "sigma": 0.3, "eval_episodes": {PENDULUM: 20, CARTPOLE: 20, CHEETAH: 20}}


SMALL, LAMBDA = "--preset fast-dqn-small", "--preset vrc-2021-small"
BOTH = f"{SMALL} --num-envs 8 --concurrent 1 --synchronized 1"
STANDARD = f"{SMALL} --num-envs 1 --concurrent 0 --synchronized 0"
APEX = "--preset apex-dqn-small --actors 8 --processes 1 --learning-rate 2.5e-4"
THREADS = "--preset apex-dqn-small --processes 0"
DPG = "--preset apex-dpg-small --actors 2"
DQN_PEER, A2C_PEER = (later("stable_baselines", name) for name in ("run_dqn", "run_a2c"))
DDPG_PEER, TD3_PEER = (later("stable_baselines", "run_ddpg", name) for name in ("DDPG", "TD3"))
ESTIMATORS = {"Peng, lambda 0.75": "peng --lambda 0.75", "Watkins, lambda 0.75": "watkins --lambda 0.75",
              "3 steps": "n-step --n-step 3", "Peng, median": "peng-median", "Watkins, median": "watkins-median",
              "Peng, error bound 10": "peng-error-bound --error-bound 10",
              "Watkins, error bound 10": "watkins-error-bound --error-bound 10",
              "Peng, error bound 0.025": "peng-error-bound --error-bound 0.025",
              "one step (lambda 0)": "peng --lambda 0"}
LANES, KILLED = later("lane_replays", "run"), "20 actors and 5 nodes killed"


def beside(peer: str, task: str, s: dict[str, Any], function: str, *options: str) -> Experiment:
    """Ours and a peer by the settings of off_policy.py."""
    return Experiment((task,), {"gpureplay": later("off_policy", "run_ours", *options),
                                peer: later("off_policy", function, *options)},
                      seeds(1, 20), s, first="gpureplay", random=random_returns, lowest=-0.25, enough=0.15, jobs=1)


EXPERIMENTS = {
    "fast-dqn": Experiment(
        (BREAKOUT, FREEWAY), {"Both, W = 8": by(BOTH), "Standard, W = 1": by(STANDARD), "Stable-Baselines3": DQN_PEER},
        seeds(1, 16), settings(300_000), random=random_returns),
    "switches": Experiment(
        (BREAKOUT,), {"Concurrent, W = 1": by(f"{SMALL} --num-envs 1 --concurrent 1 --synchronized 0"),
                      "Synchronized, W = 8": by(f"{SMALL} --num-envs 8 --concurrent 0 --synchronized 1"),
                      "Both, W = 8": by(BOTH), "Standard, W = 1": by(STANDARD)},
        seeds(1, 8), settings(300_000), base="Standard, W = 1", random=random_returns),
    "dqn-lambda": Experiment(
        (BREAKOUT,), {"DQN": by(STANDARD), **{f"lambda {value}": by(f"{LAMBDA} --lambda {value}")
                                              for value in ("0", "0.25", "0.5", "0.75", "1")}},
        seeds(5, 12), settings(300_000), base="DQN", choice=seeds(1, 4)),
    "estimators": Experiment(
        ("CartPole-v1",), {**{name: by(f"{LAMBDA} --estimator {words}") for name, words in ESTIMATORS.items()},
                           "DQN": by(STANDARD), "DQN, squared errors": by_package(STANDARD)},
        seeds(1, 16), settings(80_000, 10_000, **{"CartPole-v1": 100}), base="DQN", random=random_returns),
    "ape-x": Experiment(
        (BREAKOUT, FREEWAY), {f"{trainings.KILLS} kills": by_actors(APEX, trainings.KILLS), "Ape-X": by_actors(APEX),
                              "largest priority so far": by_actors(f"{APEX} --initial-priorities max"),
                              "uniform": by_actors(f"{APEX} --prioritized 0")},
        seeds(1, 8), settings(300_000, **{FREEWAY: 30}), base="Ape-X", random=random_returns),
    "ape-x-rates": Experiment(
        (BREAKOUT, FREEWAY), {f"{kind}, {rate}": by_actors(f"{THREADS} --actors 8 {words} --learning-rate {rate}")
                              for kind, words in (("priorities", ""), ("uniform", "--prioritized 0"))
                              for rate in ("2.5e-4", "1e-3")},
        seeds(4, 11), settings(200_000), choice=seeds(1, 3), kinds=("priorities", "uniform")),
    "ape-x-age": Experiment(
        (BREAKOUT,), {f"{actors} actors": by_actors(f"{THREADS} --actors {actors} --learning-rate 2.5e-4")
                      for actors in (64, 8)}, seeds(1, 4), settings(200_000), base="8 actors"),
    "ray-kills": Experiment(
        (FREEWAY,), {KILLED: later("ray_kills", "run", "kill"), "without kills": later("ray_kills", "run")},
        seeds(1, 8), {"steps": 150_000}, base="without kills", random=random_returns, jobs=1),
    "apex-dpg": Experiment(
        (PENDULUM,), {"Ape-X DPG": by(DPG), "Stable-Baselines3's DDPG": DDPG_PEER, "Stable-Baselines3's TD3": TD3_PEER},
        seeds(1, 5), control(40_000, 10_000), random=random_returns),
    "cartpole": Experiment((CARTPOLE,), {"Ape-X DPG": by(DPG)}, seeds(1, 5), control(100_000, 20_000),
                           random=random_returns),
    "cheetah": Experiment((CHEETAH,), {"Ape-X DPG": by(DPG), "Stable-Baselines3's TD3": TD3_PEER}, seeds(1, 3),
                          control(50_000, 10_000), random=random_returns),
    "eviction": Experiment(
        (PENDULUM, CARTPOLE), {"by priority": by(f"{DPG} --capacity 10000 --eviction priority"),
                               "the oldest": by(f"{DPG} --capacity 10000 --eviction oldest")},
        seeds(1, 5), control(80_000, 20_000), random=random_returns),
    "ga3c": Experiment(
        (BREAKOUT,), {**{name: by(f"--preset {name.lower()}-small --agents 16") for name in ("GA3C", "A3C", "A2C")},
                      "Stable-Baselines3's A2C": A2C_PEER}, seeds(1, 8), settings(300_000), random=random_returns),
    "ga3c-cartpole": Experiment(
        ("CartPole-v1",), {name: by(f"--preset {name.lower()}-small") for name in ("GA3C", "A3C", "A2C")},
        seeds(1, 8), settings(1_000_000, **{"CartPole-v1": 100}), base="GA3C", random=random_returns),
    "defaults": Experiment(
        ("CartPole-v1", "FrozenLake-v1, not slippery", "Taxi-v4", "Blackjack-v1", "walk, MultiDiscrete"),
        {"defaults": later("defaults", "run")}, seeds(1, 5), {}, jobs=1),
    "lanes-torch": Experiment(("",), {"gpureplay": LANES, "ring of tensors": LANES}, seeds(1, 20),
                              {"steps": 2000, "parts": 4}, first="gpureplay", lowest=-0.25, enough=0.15, jobs=1),
    "lanes-learners": Experiment(
        ("",), {"FastTD3, built in": LANES, "TD3 in PyTorch": LANES}, seeds(1, 20), {"steps": 2000, "parts": 4},
        first="FastTD3, built in", lowest=-0.25, enough=0.15, jobs=1),
    "lanes-jax": Experiment(
        ("",), {"gpureplay": LANES, "flashbax": LANES, "flashbax, item buffer": LANES}, seeds(1, 20),
        {"steps": 2000, "parts": 10}, first="gpureplay", lowest=-0.25, enough=0.15, jobs=1),
    "demonstrations": Experiment(
        ("Pendulum",), {name: later("demonstrations", "run", part, "3e-3", "4") for name, part in
                        (("none", "0"), ("in the same buffer", "own"), ("a quarter of each batch", "0.25"),
                         ("half of each batch", "0.5"))},
        seeds(1, 16), {"steps": 4000, "period": 500, "last_steps": 3999}, base="none",
        metrics={"last": "the evaluations after the first", "evaluated": "the last evaluation"}),
    "memory": Experiment(
        ("T-maze",), {f"{name} state": later("memory", "run", name) for name in ("stored", "zero", "none")},
        seeds(1, 8), {"steps": 40_000}, random=lambda _: [0.5] * 2, first="stored state", jobs=2),
    "bit-flipping": Experiment(
        ("30 bits",),
        {"gpureplay": later("hindsight", "run_ours"), "Stable-Baselines3": later("hindsight", "run_peer")},
        seeds(1, 20), {**hindsight.BITS, "steps": 288_000}, random=lambda _: [0.0] * 2, first="gpureplay", lowest=-0.25,
        enough=0.15, jobs=1),
    **{f"{name.lower()}-{short}": beside("Stable-Baselines3", task, s, "run_continuous", name)
       for name in ("SAC", "TD3") for short, task, s in (("pendulum", "Pendulum", off_policy.SMALL),
                                                         ("cartpole", CARTPOLE, off_policy.LARGE),
                                                         ("cheetah", CHEETAH, off_policy.LARGE))},
    "qr-dqn": beside("sb3-contrib", BREAKOUT, off_policy.QUANTILES, "run_quantiles", "QR-DQN"),
}

if __name__ == "__main__":
    harness.main(EXPERIMENTS, f"{__doc__}\n{harness.__doc__}")
