# SPDX-License-Identifier: MIT
"""`train`: a whole training in one call, with files like those of the program gpureplay-train."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import _c_api
from ._buffer import ReplayBuffer
from ._config import RunPreset, Settings, fast_dqn_configs, leaves_doubt, run_preset
from ._device import Device, TorchDevice
from ._door import buffer_words, own_words
from ._envs import EnvOptions, NativeEnvs, absolute, check_text, env_info, open_envs, options_text
from ._handle import encoded_path, signals_after
from ._inputs import flag, real
from ._learner import DQN
from ._library import Advice, Interrupted, InvalidArgument, Unavailable, lib
from ._options import (FILE, OPTIONS, OVERRIDES, System, Value, checked, flag_of, lines_of, read_options,
                       refuse_others, refuse_unknown_preset, system_of, text_of, use_math)
from ._progress import Progress, RunProgress
from ._python_envs import Envs
from ._run import Run
from ._run_config import config_document, plain
from ._run_folder import COLUMNS, Checkpoint, Position, Record, all_files, write_file, write_json
from ._schema import shape_of
from ._spaces import refuse_axes

Options = dict[str, Value]


@dataclass(frozen=True)
class TrainResult:
    """What a training leaves. The arrays have named columns, as the run's files have: result.episodes["return"].

    agent: the learner, which acts: result.agent.act(obs); of GA3C, A3C and A2C an ActorCritic, whose policy acts:
    result.agent.policy().act(obs). buffer: its transitions, of these None. episodes: (count,) with step, lane, length,
    return, of Ape-X step, actor, length, return, epsilon, of GA3C step, agent, length, return; evaluations: (count,)
    with step, episodes, length (not of GA3C), mean_return, return_deviation; rates: (count,) with the columns of
    rates.csv. stats: the counts and times of the run since it was begun or resumed, a RunStats, ApexStats or GA3CStats.
    config: all settings, as in config.json. folder: of the run's files, or None.
    """

    agent: Any
    buffer: Any
    episodes: np.ndarray
    evaluations: np.ndarray
    rates: np.ndarray
    stats: Any
    config: dict[str, Any]
    folder: Path | None


def train(env: Any = None, *, preset: str | None = None, steps: int | None = None, num_envs: int | None = None,
          concurrent: bool | None = None, synchronized: bool | None = None, burst: bool | None = None,
          device: str | TorchDevice | Device | None = None, seed: int | None = None,
          out: str | os.PathLike[str] | None = None, resume: str | os.PathLike[str] | None = None,
          progress: bool = True, on_event: Callable[[Any], Any] | None = None, env_options: EnvOptions = None,
          eval_env: Any = None, eval_period: int | None = None, eval_episodes: int | None = None,
          target_period: int | None = None,
          train_period: int | None = None, prepopulation: int | None = None, capacity: int | None = None,
          batch: int | None = None, learning_rate: float | None = None, exploration_steps: int | None = None,
          estimator: str | None = None, lambda_: float | None = None, n_step: int | None = None,
          error_bound: float | None = None, frame_stack: int | None = None, act: str | None = None,
          whole_episodes: bool | None = None, checkpoint: int | None = None,
          threads: int | None = None, env_threads: int | None = None, math: str | None = None,
          deterministic: bool | None = None, check_nan: bool = True, buffer: Mapping[str, Any] | None = None,
          agent: Mapping[str, Any] | None = None, actors: int | None = None, processes: bool | None = None,
          samples_per_insert: float | None = None, initial_priorities: str | None = None,
          prioritized: bool | None = None, replicate: int | None = None,
          epsilons: str | Sequence[float] | None = None, sigma: float | None = None,
          eviction: str | None = None, second_activation: str | None = None,
          compression: int | None = None, pull_period: int | None = None,
          folder: str | None = None, refill: bool = False, agents: int | None = None, predictors: int | None = None,
          trainers: int | None = None, t_max: int | None = None, min_train_batch: int | None = None,
          queue_room: int | None = None, when_full: str | None = None, tuner: str | None = None,
          tuner_period: float | None = None, entropy: float | None = None) -> TrainResult:
    """Trains a DQN agent in num_envs environments, by default with both switches of fast DQN [Daley & Amato 2021]:

        result = gpureplay.train("MinAtar/Breakout", steps=300_000, out="runs/breakout")
        action = result.agent.act(obs)

    An option that is None is the preset's. In brackets: its default, of "fast-dqn" and of "fast-dqn-small" where they
    differ.

    env, env_options, eval_env: as `Run` takes them: a name, a function make_env(lane), a list of environments, ...
    preset: "fast-dqn", all constants of the paper ("fast-dqn" is the default for frames of 84 x 84 bytes), or
        "fast-dqn-small", for games like MinAtar (the default for other images), or "fast-dqn-small-vectors", for games
        like CartPole and Taxi (the default for all others; docs/training.md has its values). "dqn-lambda-2019",
        "vrc-2021", "dqn-lambda-2019-small" and "vrc-2021-small" train on returns of several steps
        (docs/dqn-lambda.md): burst is True, num_envs 1, and lambda_ must be given. "apex-dqn" and "apex-dqn-small" are
        Ape-X [Horgan et al. 2018], "apex-dpg" and "apex-dpg-small" Ape-X DPG, for continuous actions, and "ga3c",
        "ga3c-large-4" to "ga3c-large-1", "a3c-cpu", "a2c", "ga3c-small", "a3c-small" and "a2c-small" train an
        actor-critic by GA3C [Babaeizadeh et al. 2017], A3C or A2C: see below.
    steps: environment steps to take after the random ones (50 million, 1 million). num_envs: environments (8; those of
        a list).
    concurrent: train while the environments step (True). synchronized: one inference for all environments (True, unless
        there is only one). Bad combinations raise an exception with both numbers. act: without `concurrent` the network
        to act by, "latest" or "target" ("latest"). whole_episodes: steps are trained on only when their episodes have
        ended (False). burst: all train steps of a target_period are done at its beginning; excludes `concurrent`.
    target_period: steps between copies to the target network (10,000, 1,000). train_period: steps for each train step
        (4). prepopulation: random steps before the first one (50,000, 5,000).
    eval_period: steps between evaluations; 0: only at the end (250,000, 50,000). eval_episodes: episodes of each; 0:
        no evaluations (30).
    capacity: transitions in the buffer (1 million, 100,000). batch: transitions of a train step (32). learning_rate:
        of the optimizer (0.00025). exploration_steps: in which epsilon falls from 1 to 0.1, with "vrc-2021" and its
        small relative the random steps included (1 million, 100,000).
    estimator: "peng", "watkins", "n-step", "peng-median", "watkins-median", "peng-error-bound" or
        "watkins-error-bound". lambda_: of "peng" and "watkins". n_step: of "n-step". error_bound: of the last two.
        Presets without returns of several steps have none of these. frame_stack: frames of an observation, where the
        environment shows one image without channels (4).
    buffer, agent: other settings of `ReplayBuffer` and `DQN` by name, which override the preset's:
        agent={"double_dqn": True}. One that is also given as a keyword here is refused.
    device: "auto", "cpu", "cuda:N", a torch.device, or an open `Device`. math: the arithmetic of matrix products and
        convolutions on a GPU, "fp32", "tf32", "bf16" or "auto", which is "tf32", or "fp32" where a train step is one
        kernel; on the CPU "fp32" ("fp32", "auto"). threads: that compute on the CPU; 0: all cores
        (0). env_threads: that step environments; 0: one for each, at most 64 (0). deterministic: the same results each
        time on a GPU, too, by slower kernels (False). seed: of everything random (1).
    out: the folder of the run's files, which docs/training.md describes; None: nothing is written. A folder that has a
        run is never written over. env_options of an id of Gymnasium must then be such that a text can hold them:
        numbers, True, False, None, and texts without commas. checkpoint: steps between checkpoints, a multiple of
        target_period; 0: none (1 million, 50,000).
    resume: the folder of a run that goes on from its last checkpoint with its options. Options that are given must be
        equal, except steps, which may be more, and env, which must have the same type's name: a plug-in may have
        moved. env may be left out if it was a name.
    progress: a line of progress on the standard output. on_event: is called with each RunEvent. False ends the training
        and `train` returns; an exception ends it and is raised.
    check_nan: as for `ReplayBuffer`, whose setting it is; of GA3C that of the `ActorCritic`.

    Ape-X (docs/ape-x.md) takes env as `Apex` does, env_options, steps (of all actors: 50 million, 1 million), device,
    threads, seed, frame_stack, batch (512, 32), learning_rate, eval_period and eval_episodes (of one more actor, with
    epsilon 0.4^7, beside the others), checkpoint, out and resume, and of those above these
    with another meaning, the defaults being those of "apex-dqn" and of "apex-dqn-small": target_period, in train steps
    (2,500, 250); prepopulation, the transitions before training begins (50,000, 5,000); capacity, the soft capacity, to
    which a ring 1/16 larger is trimmed (2 million, 100,000). The options that follow are Ape-X's alone. on_event gets
    each RunEvent.

    actors: 8. processes: each actor is a process (False, and True for environments in Python). samples_per_insert:
        transitions learned for each one received; 0: not limited (0, 8). initial_priorities: "td" or "max" ("td").
        prioritized: False: the learner draws uniformly (True). replicate: how often each block is appended (1).
        epsilons: of the actors by turns, instead of the ladder (None). sigma: of "apex-dpg" and "apex-dpg-small":
        standard deviation of the actors' noise, where actions are -1 to 1 (0.3). eviction: of the same: which
        transitions leave when there are too many, "oldest" or "priority" ("priority"; of "apex-dpg-small" "oldest").
        second_activation: of the same: the activation of the second layers of both networks, "none", "tanh" or "relu"
        ("none", as the paper names none; of "apex-dpg-small" "relu").
        compression: level of Zstandard for blocks; 0: none (0). pull_period: steps of an actor after which it takes the
        newest weights (100; of "apex-dpg" 400). folder: where blocks of remote actors come from, as files (None).
    refill: with resume: the buffer stays empty, and training goes on when actors have filled it again.

    GA3C, A3C and A2C take env as `GA3C` does, env_options, steps (of all agents: 50 million, 1 million), device,
    threads, seed, deterministic, learning_rate (0.0003; 0.001, 0.0007 and 0.002), eval_episodes (after the last step),
    checkpoint, agent, out, resume, and these. on_event gets each GA3CEvent. docs/training.md has more.

    agents: each with an environment (32; of "ga3c-small", "a3c-cpu" and "a3c-small" 16). t_max: steps of a rollout (5).
        entropy: its weight in the loss (0.01).
    Of GA3C alone: predictors, trainers: threads (2). min_train_batch: a train step has rollouts of more than so many
        steps together (0, 40). queue_room: rollouts that the training queue holds (100, 16). when_full: "wait",
        "refuse" or "drop-oldest" ("wait"). tuner: "none", "paper" or "code" ("none"); tuner_period: seconds of a
        measurement of it (60, of "code" 20).

    Results are the same bits each time, whatever the timing of threads, except on a GPU without `deterministic`, and
    with another number of threads; those of Ape-X, GA3C and A3C never are. Ctrl-C ends the training after the steps
    that the environments are taking now. The learner is saved, and KeyboardInterrupt is raised. EnvError: an
    environment in Python raised an exception, which is the cause; the text names the lane."""
    given = locals()
    system = System.RUN
    with own_words(lambda: system):
        if out is not None and resume is not None:
            raise InvalidArgument(f"out is {os.fspath(out)!r} and resume is {os.fspath(resume)!r}; a run that is "
                                  "resumed stays in its folder, so only one of the two may be given")
        name = read_options(resume)[0]["preset"] if resume is not None and preset is None else preset
        refuse_unknown_preset(name)
        system = system_of(name)
        if refill and not system & System.APEX:
            raise InvalidArgument(f"refill is True and preset is {name!r}; only a run of Ape-X can be refilled")
        place = out if resume is None else resume
        place = None if place is None else os.path.abspath(place)  # an environment may change the current folder
        training = _kind_of(system)(given, None if place is None else Path(place), is_resumed=resume is not None)
        try:
            training.begin()
            return training.run_to_the_end()
        finally:
            training.close()


def _kind_of(system: System) -> type[Training]:
    if system & System.ACTOR_CRITIC:
        from ._train_ga3c import GA3CTraining
        return GA3CTraining
    if system & System.APEX:
        from ._train_apex import ApexDPGTraining, ApexTraining
        return ApexTraining if system == System.APEX_DQN else ApexDPGTraining
    return Training


def _given_options(given: Mapping[str, Any], stored_env: Value) -> Options:
    """The options that belong to the file, from the arguments of `train`. None: not given."""
    device, env, env_options = given["device"], given["env"], given["env_options"]
    of = stored_env if env is None else env
    texts = {"env": absolute(env) if isinstance(env, str) else None,
             "env_options": None if env_options is None else options_text(env_options, of),
             "device": device.name if isinstance(device, Device) else None if device is None else str(device)}
    if isinstance(given["epsilons"], (list, tuple)):
        texts["epsilons"] = ",".join(text_of(real("one of the epsilons", value)) for value in given["epsilons"])
    return {name: checked(name, texts[name] if name in texts else given[name]) for name in OPTIONS}


def _add_stored(folder: Path, options: Options, overrides: Settings) -> bool:
    """Adds what the run in this folder was begun with. Returns whether env was given as something else, which is to be
    checked. InvalidArgument: another option was."""
    stored, stored_overrides = read_options(folder)
    for name, value in stored.items():
        if options[name] is None:
            options[name] = value
        elif name not in ("env", "steps") and options[name] != value:
            raise InvalidArgument(f"{flag_of(name)} is {text_of(options[name])}, and the run that is to be resumed has "
                                  f"{text_of(value)}; leave it out, or begin another run: --out with another folder in "
                                  "place of --resume")
    for name, settings in overrides.items():
        if settings:
            _refuse_other_settings(name, plain(settings), stored_overrides[name])
        else:
            overrides[name] = stored_overrides[name]
    return options["env"] != stored["env"] or stored["env"] == _AN_OBJECT


def _refuse_other_settings(name: str, given: Settings, stored: Settings) -> None:
    """InvalidArgument: the settings of the buffer or the agent are not those that the run was begun with."""
    def said(settings: Settings, setting: str) -> str:
        return repr(settings[setting]) if setting in settings else "none"

    for setting in dict.fromkeys((*given, *stored)):
        if said(given, setting) != said(stored, setting):
            raise InvalidArgument(f"{name}[{setting!r}] is {said(given, setting)}, and the run that is to be resumed "
                                  f"has {said(stored, setting)}; leave {name} out, or begin another run: --out with "
                                  "another folder in place of --resume")


def _check_type(folder: Path, name: str) -> None:
    """Refuses an environment of another type than the run in this folder has."""
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))["environment"]["name"]
    if name != stored:
        raise InvalidArgument(f"--env is of type \"{name}\", and the run that is to be resumed has \"{stored}\"; the "
                              "types must be the same")


def _shows_atari_frames(info: _c_api.EnvInfo) -> bool:
    return info.obs.dtype == _c_api.UINT8 and tuple(info.obs.shape)[:3] == (84, 84, 0)


def _chosen_preset(envs: Envs, info: _c_api.EnvInfo) -> str:
    """The presets' networks are made for images of at most 84 x 84: one that is larger has to be asked for."""
    shape = shape_of(info.obs)
    is_chw = len(shape) == 3 and lib.gpur_image_layout(*shape) == _c_api.CHW
    height, width = (shape[1:] if is_chw else (*shape, 0, 0))[:2]
    if info.action.num_actions == 0:
        raise InvalidArgument(f"{envs.name} has continuous actions and --preset is missing; it must be apex-dpg or "
                              "apex-dpg-small")
    if height * width > 84 * 84:
        raise InvalidArgument(f"{envs.name} shows images of {height} x {width} and --preset is missing; without it "
                              "they must be at most 84 x 84. A game of Atari has such frames in the plug-in of "
                              "docs/atari.md: --env build/atari/atari.so:Pong")
    if len(shape) < 2:
        return "fast-dqn-small-vectors"
    return "fast-dqn" if _shows_atari_frames(info) else "fast-dqn-small"


def _saves_files() -> bool:
    return "files: none" not in lib.gpur_build_info().decode()


def _rounded_up(value: int, multiple_of: int) -> int:
    return -(-value // multiple_of) * multiple_of


def use_checkpoint(options: Options, otherwise: int) -> int:
    """The steps between checkpoints."""
    if options["checkpoint"] is None:
        options["checkpoint"] = otherwise if _saves_files() else 0
    checkpoint = cast(int, options["checkpoint"])
    if checkpoint > 0 and not _saves_files():
        raise InvalidArgument(f"checkpoint is {checkpoint}, and this build of the library cannot save to files; it "
                              "must be 0, or the library built with cJSON and xxHash")
    return checkpoint


def _steps_of(name: str, preset: RunPreset) -> int:
    """How long the papers train. Those on DQN(lambda) count the random steps, which `steps` does not."""
    if "-small" in name:
        return 1_000_000
    random: int = preset.run["prepopulation"]
    of_2019 = 10_000_000 if preset.buffer["layout"] == "frames" else 500_000
    return {"vrc-2021": 5_000_000 - random, "dqn-lambda-2019": of_2019 - random}.get(name, 50_000_000)


def _explored_at_random(name: str, preset: RunPreset) -> int:
    """The random steps that count as steps of exploration: with vrc-2021 and its small relative epsilon falls from the
    first of them on."""
    return int(preset.run["prepopulation"]) if name.startswith("vrc-2021") else 0


def use_frame_stack(options: Options, buffer: Settings, env: str) -> None:
    """Stacks of other frames than the preset's."""
    count = options["frame_stack"]
    if buffer["layout"] != "frames":
        if count is not None:
            raise InvalidArgument(f"frame_stack is {count}, and {env} does not show one image without channels; leave "
                                  "the option out")
        return
    options["frame_stack"] = buffer["frame_stack"] = count = buffer["frame_stack"] if count is None else count
    for name in ("obs", "next_obs"):
        shape, dtype = buffer["fields"][name]
        buffer["fields"][name] = (count, *shape[1:]), dtype


# The estimators of returns, and the option that says more of each.
_ESTIMATORS = {"peng": "lambda_", "watkins": "lambda_", "n-step": "n_step", "peng-median": None, "watkins-median": None,
               "peng-error-bound": "error_bound", "watkins-error-bound": "error_bound"}


def _use_returns(options: Options, agent: Settings) -> None:
    """The cache of returns, which a preset has or has not. It has as many entries as the train steps between two
    refreshes draw, in whole blocks."""
    names = ("lambda_", "n_step", "error_bound")
    if "cache_size" not in agent:
        for name in ("estimator", *names):
            if options[name] is not None:
                raise InvalidArgument(f"{flag_of(name)} is {options[name]} and --preset is {options['preset']}, which "
                                      "has no returns to estimate; leave the option out, or take dqn-lambda-2019, "
                                      "vrc-2021, dqn-lambda-2019-small or vrc-2021-small")
        return
    agent["cache_size"] = _rounded_up(agent["batch_size"] * agent["target_period"], agent["block_length"])
    estimator = options["estimator"] = agent["estimator"] = agent["estimator"] if options["estimator"] is None else \
        options["estimator"]
    if estimator not in _ESTIMATORS:
        raise InvalidArgument(f"estimator is {estimator!r}; it must be one of {', '.join(map(repr, _ESTIMATORS))}")
    setting = _ESTIMATORS[estimator]
    for name in names:
        if options[name] is not None and name != setting:
            raise InvalidArgument(f"{flag_of(name)} is {options[name]} and --estimator is {estimator}, which does not "
                                  "have it; leave one of them out")
    if setting is None:
        return
    if setting == "lambda_" and options[setting] is None and agent[setting] < 0:
        raise InvalidArgument(f"--lambda is missing; --preset {options['preset']} needs a number of 0 to 1 for "
                              f"--estimator {estimator}: the paper states none")
    options[setting] = agent[setting] = agent[setting] if options[setting] is None else options[setting]


def use_batch(buffer: Settings, size: int) -> None:
    """By default the buffer's largest batch has 4,096 transitions. A larger batch has to be set."""
    if buffer["capacity"] // 2 < size:
        raise InvalidArgument(f"--capacity is {buffer['capacity']} and --batch is {size}; the first must be at least "
                              "twice the second")
    if size > 4096:
        buffer["max_batch"] = size


def _complete(options: Options, envs: Envs) -> RunPreset:
    """Gives every option a value, from the preset if it has none, and the preset those that were given."""
    def use(name: str, otherwise: Value) -> Any:
        if options[name] is None:
            options[name] = otherwise
        return options[name]

    use("env", envs.name), use("env_options", ""), use("device", "auto"), use("threads", 0)
    name = use("preset", options["preset"] or _chosen_preset(envs, env_info(envs)))
    refuse_others(options, name)
    # Without evaluations the type of a vector environment tells its spaces alone.
    single = envs.type if envs.can_evaluate or envs.vector_type is None else None
    vector = None if single is not None else envs.vector_type
    found, is_small = run_preset(name, single, vector, envs.options), "-small" in name
    steps = use("steps", _steps_of(name, found))
    buffer, agent, run = found
    _, last, left, *begin = agent["exploration"]  # of epsilon's line from 1 to 0.1 what is left after random steps
    explored = use("exploration_steps", left + _explored_at_random(name, found))
    buffer["seed"] = agent["seed"] = run["seed"] = use("seed", 1)
    run["num_envs"] = use("num_envs", run["num_envs"] if envs.count is None else envs.count)
    if envs.vector_type is not None and steps % run["num_envs"] != 0:
        raise InvalidArgument(f"steps is {steps} and num_envs is {run['num_envs']}; a vector environment steps all at "
                              "once, so the first must be a multiple of the second")
    run["threads"] = use("env_threads", run["threads"])
    if run["threads"] > run["num_envs"]:
        raise InvalidArgument(f"--env-threads is {run['threads']} and --num-envs is {run['num_envs']}; the first must "
                              "be 0 (as many) or 1 to the second")
    # Of two switches that exclude each other the one that is given decides, and not the preset.
    run["concurrent"] = use("concurrent", run["concurrent"] and not options["burst"])
    run["synchronized"] = use("synchronized", run["synchronized"] and (run["num_envs"] > 1 or envs.type is None or
                                                                     envs.vector_type is not None))
    run["burst"] = use("burst", run["burst"] and not run["concurrent"])
    for member in ("act", "whole_episodes", "target_period", "train_period", "prepopulation"):
        run[member] = use(member, run[member])
    if (run["synchronized"] and run["target_period"] % run["num_envs"] != 0
            and run["target_period"] % run["train_period"] == 0):
        raise InvalidArgument(f"--target-period is {run['target_period']} and --num-envs is {run['num_envs']}; with "
                              "--synchronized 1 the first must be a multiple of the second: change one of them, or "
                              "give --synchronized 0")
    run["eval_episodes"] = use("eval_episodes", run["eval_episodes"] if envs.can_evaluate else 0)
    run["eval_period"] = use("eval_period", _rounded_up(run["eval_period"], run["target_period"])
                             if run["eval_episodes"] else 0)
    agent["batch_size"] = use("batch", agent["batch_size"])
    use_math(options, agent)
    use("deterministic", False)
    # The run refuses periods of which one is no multiple of the other.
    agent["target_period"] = max(1, run["target_period"] // run["train_period"])
    random = _explored_at_random(name, found)
    agent["exploration"] = (1.0 - 0.9 * random / explored if explored > random else last, last,
                            max(0, explored - random), *begin)
    agent["learning_rate"] = use("learning_rate", agent["learning_rate"])
    use_frame_stack(options, buffer, envs.name)
    _use_returns(options, agent)
    buffer["capacity"] = use("capacity", buffer["capacity"])
    use_batch(buffer, agent["batch_size"])
    buffer["min_size"] = min(buffer["min_size"], run["prepopulation"], buffer["capacity"])
    checkpoint = use_checkpoint(options, _rounded_up(50_000 if is_small else 1_000_000, run["target_period"]))
    if checkpoint % run["target_period"] != 0:
        raise InvalidArgument(f"checkpoint is {checkpoint} and target_period is {run['target_period']}; the first must "
                              "be a multiple of the second, or 0")
    return found


_AN_OBJECT = "(an object of Python)"  # in a run's file, in place of the environment's name


def _refuse_files(folder: Path) -> None:
    """Raises FileExistsError if the folder has files of a run."""
    for name in (FILE, "config.json", "learner.safetensors", "checkpoint", *all_files()):
        if not (folder / name).exists():
            continue
        if Checkpoint(folder).exists():
            raise FileExistsError(f"{folder / name} is there already; resume={str(folder)!r} goes on with the run of "
                                  "this folder, another --out begins one in another folder")
        raise FileExistsError(f"{folder / name} is there already, of a run without a checkpoint to go on from; delete "
                              f"the folder {folder} to begin anew in it, or another --out begins in another one")


class Training:
    """A training, from its options to its result.

    given: the arguments of `train`. folder: of the run's files. is_resumed: whether it has them already.
    """

    columns: Mapping[str, tuple[str, ...]] = COLUMNS
    _reads_images = True  # by convolutions, if observations have more than one axis
    _make_config: Any = staticmethod(fast_dqn_configs)
    _make_progress: Any = RunProgress
    _make_agent: Any = DQN
    _advice = Advice(clip_norm='agent={"clip_norm": ...}', reward_clip='buffer={"reward_clip": ...}')
    _twice: Mapping[str, Mapping[str, str]] = {  # settings of each dict that are keywords, too
        "agent": {"batch_size": "batch", "exploration": "exploration_steps",
                  **{name: name for name in ("learning_rate", "math", "estimator", "lambda_", "n_step",
                                             "error_bound")}},
        "buffer": {name: name for name in ("capacity", "frame_stack")}}
    _run: Any  # a Run
    _agent: Any  # a DQN, or of Ape-X a DDPG
    _progress: Progress

    def __init__(self, given: Mapping[str, Any], folder: Path | None, is_resumed: bool):
        self._folder, self._is_resumed = folder, is_resumed
        self._prints, self._on_event = flag("progress", given["progress"]), given["on_event"]
        stored_env = read_options(folder)[0]["env"] if is_resumed and folder is not None else None
        self._options = _given_options(given, stored_env)
        self._overrides: Settings = {name: dict(given[name] or {}) for name in OVERRIDES}
        self._refuse_twice(given)
        self._has_other_env = False
        if is_resumed and folder is not None:
            self._has_other_env = _add_stored(folder, self._options, self._overrides)
        env = self._options["env"] if given["env"] is None else given["env"]
        if env == _AN_OBJECT:
            raise InvalidArgument(f"the run in {folder} had an environment without a name, made by a function, say; to "
                                  "resume it, give one like it as env to gpureplay.train")
        if not isinstance(env, str):
            self._options["env"] = None  # until its name is known
        env_options = given["env_options"]
        if isinstance(env, str) and env_options is None:
            env_options = self._options["env_options"] or None
        self._has_name = isinstance(env, str)
        if folder is not None:
            check_text(env_options, env)
        self._device = given["device"] if given["device"] is not None else self._options["device"] or "auto"
        self._step, self._saved_step, self._is_done = 0, -1, False  # saved_step -1: there is no checkpoint
        self.may_begin_anew = False  # where there is no checkpoint to go on from, as a process does that was restarted
        self._closing = contextlib.ExitStack()
        self._check_nan = flag("check_nan", given["check_nan"])
        self._envs = open_envs(env, num_envs=cast("int | None", self._options["num_envs"]), eval_env=given["eval_env"],
                               options=env_options)
        self._closing.callback(self._envs.close)

    def _number(self, name: str) -> int:
        return cast(int, self._options[name])

    def _print(self, line: str) -> None:
        if self._prints:  # a folder's name may have bytes that are no text
            print(line.encode("utf-8", "replace").decode(), flush=True)

    # The beginning. Everything that can be refused is refused before the first file is written.

    def _refuse_twice(self, given: Mapping[str, Any]) -> None:
        """Refuses a setting that is given both as a keyword and in a dict: the dict's would win."""
        for name, settings in self._overrides.items():
            if "check_nan" in settings:  # whose keyword always has a value
                raise TypeError(f"{name} has \"check_nan\", which is a keyword of `train`: "
                                f"train(..., check_nan={settings['check_nan']!r})")
            for setting, option in self._twice[name].items():
                if setting in settings and given[option] is not None:
                    raise self._twice_error(given, option, f"{name}={{\"{setting}\": {settings[setting]!r}}}")

    @staticmethod
    def _twice_error(given: Mapping[str, Any], option: str, other: str) -> InvalidArgument:
        return InvalidArgument(f"{option} is {given[option]!r} beside {other}, which is the same setting; leave one of "
                               "them out")

    def begin(self) -> None:
        if self._has_other_env and self._folder is not None:
            _check_type(self._folder, self._envs.name)
        with signals_after():
            preset = self._complete()
        self._refuse_images(self._overrides["agent"])
        if self._is_resumed and not self._options["checkpoint"] and not self.may_begin_anew:
            raise InvalidArgument(f"--resume is {str(self._folder)!r}, and that run saves no checkpoints: it has "
                                  "--checkpoint 0")
        try:
            self._open(self._device, preset)
        except Unavailable as error:  # without cuBLAS a GPU has no learner
            if self._device != "auto":
                raise
            warnings.warn(f"{error}; using the CPU", RuntimeWarning, stacklevel=3)
            self._open("cpu", preset)
        config = self._config_of(preset)
        self._run = self._make_run(preset.run)
        self._closing.callback(self._run.close)
        self._config, seconds = config, self._open_folder(config)
        self._say_beginning()
        self._progress = self._make_progress(self._run, self._agent, self._record, self._number("steps"), self._step,
                                             seconds, self._prints)

    def _refuse_images(self, agent: Mapping[str, Any]) -> None:
        """The library's games have their channels last. An environment in Python may have them first, or more axes than
        images have. agent: the other settings of the learner."""
        envs = self._envs
        if isinstance(envs, NativeEnvs):
            return
        shape = shape_of(env_info(envs).obs)
        if "trunk" not in agent and self._reads_images:
            refuse_axes(shape, 3, "; agent={\"trunk\": [128]} reads all numbers by dense layers",
                        envs.vector_type is not None)
        if "input_layout" in agent:
            return
        if len(shape) == 3 and leaves_doubt(shape):
            raise InvalidArgument(f"{envs.name} shows images of {shape}, which does not tell which axis has the "
                                  "channels; say agent={\"input_layout\": \"hwc\"} for (height, width, channels), or "
                                  "\"chw\" for (channels, height, width)")

    def _complete(self) -> Any:
        """Gives every option a value, from the preset if it has none, and the preset, which it returns, those that were
        given."""
        return _complete(self._options, self._envs)

    def _config_of(self, preset: Any) -> dict[str, Any]:
        return config_document(self._options, plain(self._overrides), self._buffer.device, self._envs,
                               self._buffer._spec.config, self._agent._config, self._make_config(preset.run))

    def _make_run(self, settings: Settings) -> Any:
        return Run._of(self._agent, self._envs, self._note_event, settings)

    def _say_what(self, device: Device) -> None:
        self._print(f"{self._envs.name}, {self._options['num_envs']} at a time, by {self._options['preset']} on "
                    f"{device.name}: {device.info.description}")

    def _open(self, device: Any, preset: Any) -> None:
        threads = self._number("threads")
        if not isinstance(device, Device):
            device = Device(device, threads=threads, deterministic=bool(self._options["deterministic"]))
        elif threads:
            raise InvalidArgument(f"threads is {threads} and device is an open Device, which has its own; leave one of "
                                  "them out")
        elif self._options["deterministic"] and not device.deterministic:
            raise InvalidArgument("deterministic is True and device is an open Device, which is not; open it with "
                                  "Device(..., deterministic=True)")
        self._say_what(device)
        self._make_learner(device, preset)
        self._agent._advice = self._advice._replace(own_rates=self._own_rates(self._overrides["agent"]))
        self._envs.translation.warn(self._agent.config.get("actor", self._agent.config),
                                    self._envs.vector_type is not None)
        self._options["math"] = self._agent.config["math"]  # "auto" is decided: a run that is resumed keeps it
        self._closing.callback(self._close_unfinished)

    def _own_rates(self, agent: Mapping[str, Any]) -> dict[str, str]:
        """How the caller gave learning rates of `agent`, by network."""
        return {"": 'agent={"learning_rate": ...}'} if "learning_rate" in agent else {}

    def _overridden(self, agent: Settings) -> Settings:
        """The learner's settings with those of the caller."""
        return {**agent, **self._overrides["agent"]}

    def _make_learner(self, device: Device, preset: Any) -> None:
        with buffer_words(system_of(self._options["preset"])):
            buffer = ReplayBuffer(device=device, **{**preset.buffer, "check_nan": self._check_nan,
                                                    **self._overrides["buffer"]})
        try:
            agent = self._make_agent(buffer, **self._overridden(preset.agent))
            self._buffer, self._agent = buffer, agent
        except BaseException:
            buffer.close()
            raise

    def _close_unfinished(self) -> None:
        if not self._is_done:
            self._buffer.close()

    def _open_folder(self, config: Settings) -> float:
        """Opens the files, and goes back to the last checkpoint. Returns the seconds that the run has taken."""
        position, folder = None, self._folder
        if folder is not None and not self._is_resumed:
            _refuse_files(folder)
            folder.mkdir(parents=True, exist_ok=True)
            self._write_settings(folder, config)  # with which a run can be resumed that is killed at once
        self._record = Record(folder, self.columns)
        self._closing.callback(self._record.close)
        if folder is not None and self._is_resumed:
            position = self._load(folder)
            self._write_settings(folder, config)
        self._record.begin(None if position is None else position.sizes)
        return 0.0 if position is None else position.seconds

    def _write_settings(self, folder: Path, config: Settings) -> None:
        write_json(folder / "config.json", config)
        env = self._options["env"] if self._has_name else _AN_OBJECT
        write_file(folder / FILE, lines_of({**self._options, "env": env}, plain(self._overrides)))

    def _load(self, folder: Path) -> Position | None:
        """None: the run was killed before its first checkpoint, and begins again. A run that has ended without a
        checkpoint does not, because that would remove its results."""
        checkpoint, learner = Checkpoint(folder), folder / "learner.safetensors"
        position = checkpoint.find(self._record.files)
        if position is None and learner.exists():
            raise InvalidArgument(f"{learner} is there and no checkpoint: the run has ended before its first one; "
                                  f"delete the folder {folder} to begin anew in it, or another --out begins in "
                                  "another one")
        taken = self._taken(position)
        if self._number("steps") < taken:
            raise InvalidArgument(f"--steps is {self._options['steps']}; the run has taken {taken} steps, and no fewer "
                                  "can be asked for")
        if position is None:
            return None
        self._load_run(checkpoint.path)
        self._step = self._saved_step = position.step
        return position

    def _taken(self, position: Position | None) -> int:
        """The steps that the run has taken."""
        return max(self._record.last_step(), 0 if position is None else position.step)

    def _load_run(self, path: Path) -> None:
        self._run.load(path)

    def _say_beginning(self) -> None:
        if self._folder is not None:
            self._print(f"goes on after step {self._step} in {self._folder}" if self._is_resumed else
                        f"writes to {self._folder}")

    # Training.

    def _note_event(self, event: Any) -> Any:
        if event.kind == "episode":
            self._record.add("episode", (event.env_steps, event.env_index, event.length, event.mean_return))
        else:
            self._record.add("evaluation", (event.env_steps, event.episodes, event.length, event.mean_return,
                                            event.return_deviation))
        return None if self._on_event is None else self._on_event(event)

    def _train(self) -> None:
        self._take_steps()
        # The checkpoint comes before: a run of more steps makes this evaluation, too.
        self._evaluate()
        self._run.stop()  # for the episodes of a target period that has not ended
        with contextlib.suppress(Interrupted):
            self._run.advance(0)

    def _evaluate(self) -> None:
        """The last evaluation, unless there was one after the last step."""
        episodes, stats = self._number("eval_episodes"), self._run.stats
        if episodes and not (stats.evaluations and stats.evaluated_steps == self._step):
            self._run._call_watched(lib.gpur_run_evaluate, episodes, 0, None, tick=self._progress.look)

    def _end_early(self) -> None:
        """When the training was stopped."""

    def _was_stopped(self) -> bool:
        """Whether on_event, say, has asked for the end, which is no error."""
        return bool(self._run.was_stopped_by_event)

    def _end_if_asked(self) -> None:
        """After a call that was at its end when the end was asked for: the next one does not know of it."""
        if self._was_stopped():
            raise Interrupted("the training was asked to end")

    def run_to_the_end(self) -> TrainResult:
        was_stopped = False
        try:
            try:
                self._train()
            except (Interrupted, KeyboardInterrupt, SystemExit):
                was_stopped = self._was_stopped()  # before another call, which may have no event
                self._end_early()
                raise
            finally:
                self._progress.finish()
        except Interrupted:
            if not was_stopped:
                raise
        except (KeyboardInterrupt, SystemExit):
            self._save_learner()
            self._say_interrupted()
            raise
        self._save_learner()
        self._print("done" if self._folder is None else f"done; the files are in {self._folder}")
        self._is_done = True
        episodes, evaluations, rates = map(self._record.array, ("episode", "evaluation", "rates"))
        return TrainResult(self._agent, self._buffer, episodes, evaluations, rates, self._run.stats, self._config,
                           self._folder)

    def _next_stop(self) -> int:
        """Where the next checkpoint is due, and then the end. The last checkpoint is at the last multiple of
        target_period, so that any run can be made longer."""
        steps, every = self._number("steps"), 0 if self._folder is None else self._number("checkpoint")
        last = steps - steps % self._number("target_period") if every else 0
        return steps if self._step >= last else min(last, (self._step // every + 1) * every)

    def _take_steps(self) -> None:
        while self._step < self._number("steps"):
            end = self._next_stop()
            self._run._call_watched(lib.gpur_run_advance, end - self._step, 0, tick=self._progress.look)
            self._step = end
            self._end_if_asked()
            if self._folder is not None and self._options["checkpoint"] and end % self._number("target_period") == 0:
                self._save_checkpoint(Checkpoint(self._folder))

    def _save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Ctrl-C while the files are written is raised when the checkpoint is complete."""
        def complete() -> None:
            checkpoint.complete(self._record, self._step, self._progress.seconds)
            self._saved_step = self._step

        self._run._call_watched(self._run._save, encoded_path(checkpoint.begin()), then=complete)

    def _save_learner(self) -> None:
        if self._folder is not None and _saves_files():
            self._agent.save(self._folder / "learner.safetensors")

    def _say_interrupted(self) -> None:
        command = (f"python -m gpureplay.train --resume {shlex.quote(str(self._folder))}" if self._has_name else
                   f"train(env, resume={str(self._folder)!r})")
        if self._folder is None:
            self._print("interrupted")
        elif self._saved_step >= 0:
            self._print(f"interrupted; {command} goes on after step {self._saved_step}")
        else:
            self._print(f"interrupted; the files are in {self._folder}, and there is no checkpoint to go on from")

    def close(self) -> None:
        try:
            self._closing.close()
        except Exception as error:
            if not self._is_done:
                raise
            warnings.warn(f"closing an environment: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=3)
