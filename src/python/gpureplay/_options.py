# SPDX-License-Identifier: MIT
"""The options of training: keywords of `train`, and with dashes options of `python -m gpureplay.train`. They are those
of the program gpureplay-train, which reads the same file options.txt in the folder of a run."""

from __future__ import annotations

import ctypes
import enum
import functools
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from . import _c_api
from ._inputs import integer, real
from ._library import InvalidArgument, lib

Value = Optional[Union[str, int, float, bool]]
FILE = "options.txt"
OVERRIDES = ("buffer", "agent")  # parameters of `train` with other settings by name; the program has none of them
MATHS = ("fp32", "tf32", "bf16", "auto")
_MOST = (2**63 - 1) // 4


class System(enum.Flag):
    """What a preset trains by: a `Run`, `Apex` with a `DQN` or a `DDPG`, or `GA3C`, whose systems "a3c" and "a2c" have
    no queues."""

    RUN = 1
    APEX_DQN = 2
    APEX_DPG = 4
    GA3C = 8
    A3C = 16
    APEX = APEX_DQN | APEX_DPG
    DQN = RUN | APEX_DQN
    REPLAY = RUN | APEX
    ACTOR_CRITIC = GA3C | A3C
    ALL = REPLAY | ACTOR_CRITIC


def _presets() -> dict[str, System]:
    """The library's presets, by name."""
    found: dict[str, System] = {}
    system = ctypes.c_int32()
    while (name := lib.gpur_preset_name(len(found), ctypes.addressof(system))) is not None:
        found[name.decode()] = System(1 << system.value)
    return found


PRESETS = _presets()


def system_of(preset: Value) -> System:
    return PRESETS.get(str(preset), System.RUN)


def refuse_unknown_preset(preset: Value) -> None:
    """None is a preset by the environment."""
    if preset is not None and (not isinstance(preset, str) or preset not in PRESETS):
        *names, last = PRESETS
        raise InvalidArgument(f"--preset is {preset}; it must be {', '.join(names)} or {last}")


class Option(NamedTuple):
    """An option. `kind` is the type of its values. Integers are `low` to `high`. A run may have no value of one that
    is optional. `of`: the systems that have it."""

    kind: type
    metavar: str
    meaning: str
    low: int = 0
    high: int = _MOST
    is_optional: bool = False
    of: System = System.ALL


_other, _apex = functools.partial(Option, of=System.RUN), functools.partial(Option, of=System.APEX)
_replay, _ga3c = functools.partial(Option, of=System.REPLAY), functools.partial(Option, of=System.GA3C)
_critic = functools.partial(Option, of=System.ACTOR_CRITIC)

# In the order of the file. Where there are two defaults, they are those of fast-dqn and of fast-dqn-small, or of
# apex-dqn and of apex-dqn-small.
OPTIONS = {
    "env": Option(str, "NAME", "a game of the library, a plug-in (./games.so or ./games.so:Corridor), or an id of "
                               "Gymnasium"),
    "env_options": Option(str, "LIST", "the environment's: a=1,b=2"),
    "preset": Option(str, "NAME", "fast-dqn (default for frames of 84 x 84 bytes), fast-dqn-small (for other images), "
                     "fast-dqn-small-vectors (for all others), "
                                  "dqn-lambda-2019, vrc-2021, apex-dqn, ga3c, or these four with -small; "
                                  "ga3c-large-4 to ga3c-large-1, a3c-cpu, a3c-small, a2c, a2c-small; of "
                                  "continuous actions apex-dpg, apex-dpg-small"),
    "device": Option(str, "NAME", "auto (default: a GPU if there is one), cpu, cuda:N"),
    "threads": Option(int, "N", "threads that compute on the CPU (0: as many as there are cores)", 0, 1024),
    "math": Option(str, "|".join(MATHS), "arithmetic of matrix products and convolutions on a GPU; auto: tf32, or fp32 "
                                         "where a train step is one kernel, and on the CPU fp32 (fp32, auto). A run "
                                         "keeps what it began with"),
    "deterministic": Option(bool, "0|1", "1: the same results each time on a GPU, too, by slower kernels (0); of "
                                         "actor-critics with a2c alone", of=System.RUN | System.ACTOR_CRITIC),
    "seed": Option(int, "N", "of everything random (1)", 0, 2**63 - 1),
    "steps": Option(int, "N", "environment steps to take after the random ones (fast-dqn 50000000, dqn-lambda-2019 "
                                "9950000, for CartPole 450000, vrc-2021 4950000, the small ones 1000000); of Ape-X "
                                "those of all actors", 1),
    "num_envs": _other(int, "W", "environments (8; of dqn-lambda and vrc 1)", 1, 4096),
    "env_threads": _other(int, "N", "threads that step environments (0: one for each environment, at most 64)", 0,
                            4096),
    "concurrent": _other(bool, "0|1", "train while the environments step (1)"),
    "synchronized": _other(bool, "0|1", "one inference for all environments (1; 0 if there is one environment)"),
    "burst": _other(bool, "0|1", "1: the C / F train steps of every C steps are done at their beginning, and "
                                 "--concurrent is 0 (0; of dqn-lambda and vrc 1)", is_optional=True),
    "act": _other(str, "latest|target", "act by the network that is trained, or by the target network (latest; with "
                                        "--concurrent 1 always target, but for dqn-lambda and vrc)"),
    "whole_episodes": _other(bool, "0|1", "1: only the steps of finished episodes go to the replay (0)"),
    "target_period": _replay(int, "C", "steps between copies to the target network, or refreshes of the cache (10000, "
                                      "1000); of Ape-X train steps (2500, 250; of apex-dpg and "
                                         "apex-dpg-small 100)", 1),
    "train_period": _other(int, "F", "steps for each train step (4)", 1),
    "prepopulation": _replay(int, "N", "random steps before the first step (50000, 5000); of Ape-X transitions before "
                                         "training begins (50000, 5000; of apex-dpg-small 2000)", 1),
    "eval_period": _replay(int, "N", "steps between evaluations; 0: only at the end (250000, 50000; of apex-dpg-small "
                                     "20000)"),
    "eval_episodes": Option(int, "N", "episodes of an evaluation; 0: no evaluations (30)"),
    "capacity": _replay(int, "N", "transitions in the replay (1000000, 100000); of Ape-X the soft capacity, and the "
                                    "ring is 1/16 larger (2000000, 100000; of apex-dpg 1000000)", 2),
    "frame_stack": Option(int, "N", "frames of an observation, where the environment shows one image without channels "
                                    "(4)", 1, _c_api.MAX_STACK, True, System.DQN),
    "batch": _replay(int, "N", "transitions of a train step (32; of apex-dqn 512, of apex-dpg 256, of apex-dpg-small "
                               "64)", 1),
    "learning_rate": Option(float, "X", "of the optimizer (0.00025; of dqn-lambda-2019 0.0001, of vrc-2021 0.00005, of "
                                        "apex-dqn 0.0000625, of apex-dqn-small 0.001, of apex-dpg 0.0001, of "
                                        "apex-dpg-small 0.001, of ga3c, a3c-cpu and a2c 0.0003, of ga3c-small "
                                        "0.001, of a3c-small 0.0007, of a2c-small 0.002)"),
    "exploration_steps": _other(int, "N", "in which epsilon falls from 1 to 0.1, of vrc with the random steps; 0: it "
                                            "is 0.1 from step 1 on (1000000, 100000; of dqn-lambda-2019 for CartPole "
                                            "300000)"),
    "estimator": _other(str, "NAME", "of the returns of dqn-lambda and vrc: peng (default), watkins, n-step (default "
                                     "for CartPole by dqn-lambda-2019), peng-median, watkins-median, peng-error-bound, "
                                     "watkins-error-bound", is_optional=True),
    "lambda_": _other(float, "X", "of peng and watkins, 0 to 1; it must be given", is_optional=True),
    "n_step": _other(int, "N", "of n-step (3; of dqn-lambda-2019 for CartPole 5)", 1, 2**31 - 1, True),
    "error_bound": _other(float, "X", "of the two with error-bound (0.025)", is_optional=True),
    "checkpoint": Option(int, "N", "steps between checkpoints, of fast-dqn, dqn-lambda and vrc a multiple of C; 0: "
                                   "none (1000000, 50000)"),
    "actors": _apex(int, "N", "how many actors this program starts, each with an environment and an epsilon of its own "
                              "(8); with --folder it may be 0", 0, _c_api.APEX_MAX_ACTORS),
    "processes": _apex(bool, "0|1", "each actor is a process (0: a thread; 1 for environments in Python)"),
    "samples_per_insert": _apex(float, "X", "transitions learned for each one received; 0: not limited (0, 8; of "
                                              "apex-dpg-small 64)"),
    "initial_priorities": _apex(str, "td|max", "by the actor's TD errors, or the largest one (td)"),
    "prioritized": _apex(bool, "0|1", "0: the learner draws uniformly (1)"),
    "replicate": _apex(int, "K", "how often each block is appended (1)", 1, 64),
    "epsilons": Option(str, "LIST", "\"0.4,0.1,...\": of the actors by turns, instead of the ladder", is_optional=True,
                       of=System.APEX_DQN),
    "sigma": Option(float, "X", "of Ape-X DPG: standard deviation of the actors' noise, where actions are -1 to 1 "
                                "(0.3)", of=System.APEX_DPG),
    "eviction": Option(str, "oldest|priority", "of Ape-X DPG: which transitions leave when there are too many, "
                                               "the oldest, or those drawn by priority^-0.4 (priority; of "
                                               "apex-dpg-small oldest)", of=System.APEX_DPG),
    "second_activation": Option(str, "none|tanh|relu", "of Ape-X DPG: the activation of the second layers of both "
                                "networks (none, as the paper names none; of apex-dpg-small relu)",
                                of=System.APEX_DPG),
    "compression": _apex(int, "LEVEL", "of Zstandard for blocks, 1 to 19; 0: none (0)", 0, 19),
    "pull_period": _apex(int, "N", "steps of an actor after which it takes the newest weights (100; of apex-dpg 400)",
                         1),
    "folder": _apex(str, "FOLDER", "the learner also takes what remote actors (--work) leave in this folder",
                    is_optional=True),
    "agents": _critic(int, "N", "agents, each with an environment of its own (32; of ga3c-small, a3c-cpu and a3c-small "
                                "16)", 1, _c_api.GA3C_MAX_AGENTS),
    "predictors": _ga3c(int, "N", "threads that predict for agents (2)", 1, _c_api.GA3C_MAX_PREDICTORS),
    "trainers": _ga3c(int, "N", "threads that train on rollouts (2)", 1, _c_api.GA3C_MAX_TRAINERS),
    "t_max": _critic(int, "N", "steps of a rollout (5, a3c-small 40)", 1, _c_api.GA3C_MAX_ROLLOUT),
    "min_train_batch": _ga3c(int, "N", "a train step has rollouts of more than N steps together; 0: one rollout (0, "
                                       "40)", 0, _c_api.MAX_ACTOR_CRITIC_BATCH - _c_api.GA3C_MAX_ROLLOUT),
    "queue_room": _ga3c(int, "N", "rollouts that the training queue holds (100, 16)", 1, 65536),
    "when_full": _ga3c(str, "wait|refuse|drop-oldest", "when that queue is full, agents wait, or the new rollout is "
                                                       "lost, or the oldest (wait)"),
    "tuner": _ga3c(str, "none|paper|code", "changes the numbers of agents, predictors and trainers at random, and "
                                           "keeps what trains on more rollouts a second: one of the three at a time, "
                                           "or as the authors' code all (none)"),
    "tuner_period": _ga3c(float, "X", "seconds of a measurement of it (60, of code 20)"),
    "entropy": _critic(float, "X", "weight of the entropy in the loss (0.01)"),
}

# The presets that have an option, by its systems.
_PRESETS = {System.RUN: "fast-dqn, dqn-lambda or vrc",
            System.APEX: "Ape-X: apex-dqn, apex-dpg, or one of them with -small",
            System.APEX_DQN: "Ape-X: apex-dqn or apex-dqn-small", System.APEX_DPG: "Ape-X: apex-dpg or apex-dpg-small",
            System.DQN: "fast-dqn, dqn-lambda, vrc or apex-dqn", System.REPLAY: "fast-dqn, dqn-lambda, vrc or Ape-X",
            System.GA3C: "GA3C: ga3c, ga3c-small or ga3c-large-4 to -1", System.ACTOR_CRITIC: "GA3C, A3C or A2C",
            System.RUN | System.ACTOR_CRITIC: "fast-dqn, dqn-lambda, vrc, GA3C, A3C or A2C"}


def refuse_others(options: Mapping[str, Value], preset: str) -> None:
    """Refuses options that this preset does not have."""
    for name, option in OPTIONS.items():
        if not option.of & system_of(preset) and options[name] is not None:
            raise InvalidArgument(f"{flag_of(name)} is {text_of(options[name])} and --preset is {preset}, which does "
                                  f"not have it; leave the option out, or take a preset of {_PRESETS[option.of]}")


def flag_of(name: str) -> str:
    """As the command line has it: "--num-envs", and "--lambda" for lambda_."""
    return "--" + name.rstrip("_").replace("_", "-")


def checked(name: str, value: Any) -> Value:
    """The value of an option as its type. None stays None. TypeError, ValueError: it is none."""
    option = OPTIONS[name]
    if value is None:
        return None
    if option.kind is str:
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}; it must be a str")
        if "\n" in value or "\0" in value:
            raise ValueError(f"{name} is {value!r}; it must be one line")
        return value
    if option.kind is bool:
        return bool(value) if isinstance(value, np.bool_) else bool(integer(name, value, 0, 1))
    if option.kind is int:
        return integer(name, value, option.low, option.high)
    number = real(name, value)
    if not math.isfinite(number) or number < 0:
        raise InvalidArgument(f"{name} is {number}; it must be a number of 0 or more")
    return number


def parsed(name: str, text: str) -> Value:
    """The value from a text. ValueError: it is none."""
    option = OPTIONS[name]
    try:
        return checked(name, text if option.kind is str else float(text) if option.kind is float else int(text))
    except ValueError:
        wanted = {bool: "0 or 1", int: f"a whole number of {option.low} to {option.high}",
                  float: "a number of 0 or more"}.get(option.kind, "one line")
        raise ValueError(f"{flag_of(name)} is \"{text}\"; it must be {wanted}") from None


def use_math(options: dict[str, Value], settings: dict[str, Any]) -> None:
    """The learner's arithmetic, which is the preset's if the option has no value."""
    if options["math"] is None:
        options["math"] = settings["math"]
    if options["math"] not in MATHS:
        raise InvalidArgument(f"--math is \"{options['math']}\"; it must be fp32, tf32, bf16 or auto")
    settings["math"] = options["math"]


def text_of(value: Value) -> str:
    """As the file has it."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return str(int(value)) if isinstance(value, int) else str(value)


def lines_of(options: Mapping[str, Value], overrides: Mapping[str, Any]) -> str:
    """The file: a line for each option that has a value, and one for the settings of the buffer and of the agent, where
    some were given. The program in C refuses the latter."""
    lines = [f"{flag_of(name)} {text_of(options[name])}\n" for name in OPTIONS if options[name] is not None]
    return "".join([*lines, *(f"{name} {json.dumps(overrides[name])}\n" for name in OVERRIDES if overrides[name])])


def read_options(folder: str | os.PathLike[str]) -> tuple[dict[str, Value], dict[str, Any]]:
    """The options of the run in this folder, and the settings of its buffer and agent. ValueError: the file is
    damaged."""
    path, found = Path(folder, FILE), {}
    names = {flag_of(name): name for name in OPTIONS}
    overrides: dict[str, Any] = {name: {} for name in OVERRIDES}
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        flag, space, text = line.partition(" ")
        if flag in overrides:
            overrides[flag] = json.loads(text)
            continue
        if flag not in names or not space:
            raise ValueError(f"{path} has the line \"{line}\"; its lines must be options of a run with their values")
        found[names[flag]] = parsed(names[flag], text)
    found.setdefault("math", "fp32")  # a file that was written before there was this option
    system = system_of(found.get("preset"))
    for name, option in OPTIONS.items():
        if name not in found and not option.is_optional and option.of & system:
            raise ValueError(f"{path} has no {flag_of(name)}; it must have every option of a run")
    return found, overrides
