# SPDX-License-Identifier: MIT
"""`train`: a whole training in one call. The library trains, and writes the files (gpureplay/training.h); Python makes
the environments, the buffer, the learner and the run."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import inspect
import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from . import _c_api
from ._actor_critic import ActorCritic
from ._apex import Apex, processes_of, refuse_other_envs as refuse_envs_of_apex, set_command
from ._buffer import ReplayBuffer
from ._config import (BUFFER_SETTINGS, RunConfigs, Settings, keywords_of_buffer, keywords_of_learner, leaves_doubt,
                      shortest)
from ._ddpg import DDPG, SAC, TD3
from ._device import Device, TorchDevice, caller_depth
from ._door import buffer_words, is_program, own_words, program
from ._envs import EnvOptions, NativeEnvs, check_text, env_info, name_of_path, open_envs, options_text
from ._ga3c import GA3C, refuse_other_envs as refuse_envs_of_ga3c
from ._handle import DeferredSignals, file_info, signals_after
from ._inputs import flag
from ._learner import DQN
from ._library import (Advice, FileError, GpureplayError, Interrupted, InvalidArgument, Unavailable, check, failed,
                       in_c, lib, text_by, texts_in_c, with_advice)
from ._offline import NoEnvs, Offline, file_of, read_data, refuse_other_envs as refuse_envs_offline
from ._options import ACTOR_CRITIC, ALL, OFFLINE, PRESETS, keyword_of, option_of, refuse_unknown, system_of, text_of
from ._progress import Progress
from ._python_envs import Envs, PythonEnvs
from ._run import Reporter, Run, cut_text, event_at, refuse_evaluations
from ._run_folder import OVERRIDES, read_array, read_options, check_folders, rows_to_array
from ._schema import shape_of
from ._spaces import refuse_axes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import ApexTraining, DDPGTraining, DQNTraining, GA3CTraining, OfflineTraining, TrainOptions


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


def train(env: Any = None, preset: str | None = None, *, device: str | TorchDevice | Device | None = None,
          out: str | os.PathLike[str] | None = None, resume: str | os.PathLike[str] | None = None,
          progress: bool = True, on_event: Callable[[Any], Any] | None = None, env_options: EnvOptions = None,
          eval_env: Any = None, check_nan: bool = True, buffer: Mapping[str, Any] | None = None,
          agent: Mapping[str, Any] | None = None, refill: bool = False, **options: Unpack[TrainOptions]) -> TrainResult:
    """Trains a DQN agent in num_envs environments, by default with both switches of fast DQN [Daley & Amato 2021]:

        result = gpureplay.train("MinAtar/Breakout", steps=300_000, out="runs/breakout")
        action = result.agent.act(obs)

    env, env_options, eval_env: as `Run` takes them: a name, a function make_env(lane), a list of environments, ...; of
        Ape-X as `Apex` does, of GA3C, A3C and A2C as `GA3C` does.
    preset: "fast-dqn", all constants of the paper (the default for frames of 84 x 84 bytes), or "fast-dqn-small", for
        games like MinAtar (the default for other images), or "fast-dqn-small-vectors", for games like CartPole and Taxi
        (the default for all others). "dqn-lambda-2019", "vrc-2021", "dqn-lambda-2019-small" and "vrc-2021-small" train
        on returns of several steps (docs/dqn-lambda.md), and need lambda_. "qr-dqn" [Dabney et al. 2018] and "c51"
        [Bellemare et al. 2017] learn distributions of returns; agent={"v_min": ..., "v_max": ...} is the range of the
        latter's. "apex-dqn" and "apex-dqn-small" are Ape-X [Horgan et al. 2018] (docs/ape-x.md), "apex-dpg" and
        "apex-dpg-small" Ape-X DPG, for continuous actions, for which "ddpg" and "ddpg-small" [Lillicrap et al. 2016],
        "td3" and "td3-small" [Fujimoto et al. 2018], and "sac" and "sac-small" [Haarnoja et al. 2018] act and train in
        turns, and "ga3c", "ga3c-large-4" to "ga3c-large-1", "a3c-cpu", "a2c", "ga3c-small", "a3c-small" and "a2c-small"
        train an actor-critic by GA3C [Babaeizadeh et al. 2017], A3C or A2C. For those of offline-... see
        `train_offline`.
    device: "auto", "cpu", "cuda:N", a torch.device, or an open `Device`.
    out: the folder of the run's files, which docs/training.md describes; None: nothing is written. A folder that has a
        run is never written over. env_options of an id of Gymnasium must then be such that a text can hold them:
        numbers, True, False, None, and texts without commas.
    resume: the folder of a run that goes on from its last checkpoint with its options. Options that are given must be
        equal, except steps, which may be more, and env, which must have the same type's name: a plug-in may have
        moved. env may be left out if it was a name. refill: of Ape-X: the buffer stays empty, and training goes on when
        actors have filled it again.
    progress: a line of progress on the standard output. on_event: is called with each RunEvent. False ends the training
        and `train` returns; an exception ends it and is raised.
    buffer, agent: other settings of `ReplayBuffer` and of `DQN`, `DDPG` or `ActorCritic` by name, which override the
        preset's: agent={"double_dqn": True}. One that is also given as a keyword here is refused.
    check_nan: as for `ReplayBuffer`, whose setting it is; of GA3C that of the `ActorCritic`.
    options: those that docs/training.md lists, with "_" in place of "-", and lambda_ for lambda: steps, num_envs, seed,
        learning_rate, ... `python -m gpureplay.train PRESET --help` shows those of a preset, with its defaults, which
        are the values of those that are None or left out. Others are refused. epsilons may be a list.

    Results are the same bits each time, whatever the timing of threads, except on a GPU without `deterministic`, and
    with another number of threads; those of Ape-X, GA3C and A3C never are. Ctrl-C lets the training go on to the next
    step where a checkpoint can be taken, saves it and the learner, and KeyboardInterrupt is raised; a second one, or
    where there are no checkpoints the first, ends it after the steps that the environments are taking now. EnvError: an
    environment in Python raised an exception, which is the cause; the text names the lane."""
    given = locals()
    refuse_unknown(options, "train")
    training = Training({**given, "env": name_of_path(env), **options})
    with contextlib.closing(training):
        training.create()
        with own_words(training.system):
            training.open()
            with DeferredSignals(training.interrupt) as signals:  # from now on there is a folder
                training.begin()
                result = training.run_to_the_end()
    if signals.raised:
        raise signals.raised[0]
    return result


_Train = TypeVar("_Train", bound=Callable[..., TrainResult])


def _with_options_of(preset: str) -> Callable[[_Train], _Train]:
    """Adds the preset's options, as the library tells them, to the documentation of a function."""
    def documented(function: _Train) -> _Train:
        text = text_by(lib.gpur_training_help, preset.encode(), None, None)
        _, first, others = text.partition("  --threads")
        options = re.sub(r"^  --([a-z-]+)", lambda found: "  " + keyword_of(found[1].replace("-", "_")),
                         first + others.partition("  --out")[0], flags=re.M)
        function.__doc__ = f"{function.__doc__}\n\n    Options, with the defaults of \"{preset}\":\n\n" + \
            "".join(f"    {line}\n" for line in options.splitlines())
        return function

    return documented


def _train_by(function: str, systems: tuple[int, ...], default: str | None, env: Any, preset: str | None,
              arguments: Any) -> TrainResult:
    refuse_unknown((name for name in arguments if name not in inspect.signature(train).parameters), function, systems)
    if preset is None and arguments.get("resume") is None:
        preset = default
    if preset is not None and system_of(preset) not in systems:
        names = ", ".join(name for name, system in PRESETS.items() if system in systems)
        raise InvalidArgument(f"preset is {preset!r}; it must be one of {names}")
    return train(env, preset=preset, **arguments)


@_with_options_of("fast-dqn")
def train_dqn(env: Any = None, preset: str | None = None, **arguments: Unpack[DQNTraining]) -> TrainResult:
    """`train` by fast DQN, DQN(lambda), DQN with the Virtual Replay Cache, QR-DQN or C51. preset: None: by the
    environment.

        result = gpureplay.train_dqn("CartPole-v1", steps=20_000)
    """
    return _train_by("train_dqn", (_c_api.PRESET_FAST_DQN,), None, env, preset, arguments)


@_with_options_of("apex-dqn")
def train_apex(env: str | None = None, preset: str | None = None, **arguments: Unpack[ApexTraining]) -> TrainResult:
    """`train` by Ape-X [Horgan et al. 2018]. preset: "apex-dqn" (None), for frames of 84 x 84 bytes, or
    "apex-dqn-small".

        result = gpureplay.train_apex("CartPole-v1", "apex-dqn-small", steps=20_000, actors=4)
    """
    return _train_by("train_apex", (_c_api.PRESET_APEX_DQN,), "apex-dqn", env, preset, arguments)


@_with_options_of("apex-dpg")
def train_ddpg(env: Any = None, preset: str | None = None, **arguments: Unpack[DDPGTraining]) -> TrainResult:
    """`train` by deterministic policy gradients, for continuous actions. preset: of Ape-X "apex-dpg" (None) or
    "apex-dpg-small"; "ddpg" or "td3", which act and train in turns, or one of them with -small.

        result = gpureplay.train_ddpg("Pendulum", "td3-small", steps=20_000)
    """
    return _train_by("train_ddpg", (_c_api.PRESET_APEX_DPG, _c_api.PRESET_DPG), "apex-dpg", env, preset, arguments)


@_with_options_of("ga3c")
def train_ga3c(env: Any = None, preset: str | None = None, **arguments: Unpack[GA3CTraining]) -> TrainResult:
    """`train` an actor-critic by GA3C [Babaeizadeh et al. 2017], A3C or A2C. preset: "ga3c" (None), for frames of
    84 x 84 bytes, "a3c-cpu", "a2c", one of them with -small ("a3c-small"), ...

        result = gpureplay.train_ga3c("CartPole-v1", "a2c-small", steps=20_000)
    """
    return _train_by("train_ga3c", ACTOR_CRITIC, "ga3c", env, preset, arguments)


@_with_options_of("offline-dqn")
def train_offline(data: str | os.PathLike[str] | ReplayBuffer | None = None, preset: str | None = None, env: Any = None,
                  **arguments: Unpack[OfflineTraining]) -> TrainResult:
    """`train` on the transitions of a file that `ReplayBuffer.save` wrote, of a data set, or of a `ReplayBuffer`,
    without adding any.

    data: of data sets the path of a Parquet file, of an HDF5 file in D4RL's form or of LeRobot's folder, or the id of
    Minari's, which `gpureplay.data` reads. None: with resume, where the checkpoint has them.
    preset: "offline-dqn" (None), "offline-qr-dqn", "offline-c51"; for continuous actions of -1 to 1 "offline-dpg",
    "offline-td3", "offline-sac".
    env: what evaluations play; None: there are none.

    n_step, gamma, reward_clip and priorities are those of the data. A step is a train step, in events and `stats`,
    too.

        result = gpureplay.train_offline(buffer, env="CartPole-v1", steps=1000)
    """
    return _train_by("train_offline", OFFLINE, "offline-dqn", env, preset,
                     arguments if data is None else {"data": data, **arguments})


_SYSTEMS: dict[int, tuple[Any, Any]] = {  # the classes of their runs and learners
    _c_api.PRESET_FAST_DQN: (Run, DQN), _c_api.PRESET_DPG: (Run, DDPG),
    _c_api.PRESET_SAC: (Run, SAC),
    _c_api.PRESET_APEX_DQN: (Apex, DQN), _c_api.PRESET_APEX_DPG: (Apex, DDPG),
    _c_api.PRESET_GA3C: (GA3C, ActorCritic), _c_api.PRESET_A3C: (GA3C, ActorCritic),
    _c_api.PRESET_OFFLINE_DQN: (Offline, DQN), _c_api.PRESET_OFFLINE_DPG: (Offline, DDPG),
    _c_api.PRESET_OFFLINE_SAC: (Offline, SAC)}
_NAMES = {Run: "fast_dqn", Apex: "apex", GA3C: "ga3c", Offline: "run", DQN: "dqn", DDPG: "dpg", SAC: "sac",
          ActorCritic: "actor_critic"}
_CONFIGS: dict[str, Any] = {  # what the members of the library's settings point to
    "run": _c_api.RunConfig, "fast_dqn": _c_api.FastDQNConfig, "apex": _c_api.ApexConfig, "ga3c": _c_api.GA3CConfig,
    "replay": _c_api.ReplayConfig, "dqn": _c_api.DQNConfig, "dpg": _c_api.DPGConfig, "sac": _c_api.SACConfig,
    "actor_critic": _c_api.ActorCriticConfig}
# Keywords of settings in the dicts, where the names differ; "": a keyword of the same name is another setting.
_KEYWORDS = {"agent": {"batch_size": "batch", "exploration": "exploration_steps", "act": "", "seed": ""},
             "buffer": {"n_step": "", "num_envs": "", "seed": ""}}
_OF_APEX_BUFFER = {"min_size": "prepopulation", "capacity": ""}
_AN_OBJECT = "(an object of Python)"  # in a run's file, in place of the environment's name


class Training:
    """A training, from its arguments to its result.

    given: the arguments of `train`. begins_again: a run that is resumed and has no checkpoint to go on from, as it
    saves none, begins again, as a process does that was restarted.
    """

    _envs: Envs
    _run: Any  # a Run, Apex or GA3C
    _agent: Any  # a DQN, DDPG or ActorCritic
    _buffer: Any = None
    _live: Any = None  # LiveEvents for TensorBoard
    _words = ""  # of the command line that resumes it, beside --resume

    def __init__(self, given: Mapping[str, Any], begins_again: bool = False):
        with own_words(system_of(given["preset"])):
            check_folders(given)
        self._given = given if given.get("data") is None else \
            {**given, "data": read_data(given["data"], given["device"])}
        self._begins_again, self._is_program = begins_again, is_program()
        self._closing = contextlib.ExitStack()
        self._is_done = self._has_said_so = False
        self._stops = 0  # how often a signal came
        self._check_nan = flag("check_nan", given["check_nan"])
        self._reporter = Reporter(given["on_event"], lambda address: event_at(self._agent, address))
        self._rows: dict[str, list[Any]] = {}  # where there is no folder: of each kind the columns, and the rows
        self._handle, self._settings = ctypes.c_void_p(), _c_api.TrainingSettings()
        look = functools.partial(text_by, lib.gpur_training_look, self._handle)
        self._progress = Progress(look, flag("progress", given["progress"]))
        self._stored, self._stored_overrides = ({}, {}) if given["resume"] is None else read_options(given["resume"])
        self._overrides: Settings = {name: dict(given[name] or {}) for name in OVERRIDES}
        self.system = system_of(given["preset"] or self._stored.get("preset"))
        self._run_class, self._agent_class = _SYSTEMS[self.system]

    # What is given.

    def _refuse_twice(self) -> None:
        """Refuses a setting that is given both as a keyword and in a dict: the dict's would win."""
        if self._agent_class is ActorCritic and self._overrides["buffer"]:
            raise InvalidArgument(f"buffer is {self._overrides['buffer']}; GA3C, A3C and A2C have none, so leave it "
                                  "out")
        if self._run_class is Offline and self._overrides["buffer"]:
            raise InvalidArgument(f"buffer is {self._overrides['buffer']}; offline its settings are those of the data, "
                                  "so leave it out")
        if "demonstrations" in self._overrides["agent"]:
            raise TypeError("agent has \"demonstrations\", which is a keyword of `train`: the file of a buffer")
        for name, settings in self._overrides.items():
            if "check_nan" in settings:  # whose keyword always has a value
                raise TypeError(f"{name} has \"check_nan\", which is a keyword of `train`: "
                                f"train(..., check_nan={settings['check_nan']!r})")
            of_apex = _OF_APEX_BUFFER if name == "buffer" and self._run_class is Apex else {}
            for setting, value in settings.items():
                if name == "buffer" and setting not in ("capacity", *BUFFER_SETTINGS):
                    raise TypeError(f"buffer has {setting!r}, which is no setting of it; they are capacity, "
                                    f"{', '.join(BUFFER_SETTINGS)}")
                self._refuse_beside({**_KEYWORDS[name], **of_apex}.get(setting, setting),
                                    f"{name}={{\"{setting}\": {value!r}}}")
        for network, settings in self._networks().items():
            if "learning_rate" in settings:
                self._refuse_beside("learning_rate",
                                    f'agent={{"{network}": {{"learning_rate": {settings["learning_rate"]!r}}}}}')

    def _refuse_beside(self, keyword: str, other: str) -> None:
        value = self._given.get(keyword) if keyword in ALL else None
        if value is not None:
            raise InvalidArgument(f"{keyword} is {value!r} beside {other}, which is the same setting; leave one of "
                                  "them out")

    def _networks(self) -> dict[str, Mapping[str, Any]]:
        """The settings of each network of a `DDPG` that the caller gives."""
        agent = self._overrides["agent"] if self._agent_class in (DDPG, SAC) else {}
        return {name: agent[name] for name in ("actor", "critic") if isinstance(agent.get(name), Mapping)}

    def _add_stored_overrides(self) -> None:
        """InvalidArgument: other settings of the buffer or the agent than those of the run that is resumed."""
        for name, settings in self._stored_overrides.items():
            if not self._overrides[name]:
                self._overrides[name] = settings
            given = _plain(self._overrides[name])
            for setting in dict.fromkeys((*given, *settings)):
                mine, its = (repr(one[setting]) if setting in one else "none" for one in (given, settings))
                if mine != its:
                    raise InvalidArgument(f"{name}[{setting!r}] is {mine}, and the run that is to be resumed has "
                                          f"{its}; leave {name} out, or begin another run: out with another folder in "
                                          "place of resume")

    def _open_envs(self) -> Envs:
        given = self._given
        env: Any = given["env"] if given["env"] is not None else self._stored.get("env")
        if env == _AN_OBJECT:
            raise InvalidArgument(f"the run in {given['resume']} had an environment without a name, made by a "
                                  "function, say; to resume it, give one like it as env to gpureplay.train")
        self._has_name = isinstance(env, str)
        self._env, self._env_options = env, given["env_options"]
        if self._has_name and self._env_options is None:
            self._env_options = self._stored.get("env_options") or None
        if given["out"] is not None or given["resume"] is not None:
            check_text(self._env_options, env)
        if self._run_class is Apex:
            refuse_envs_of_apex(env)
        elif self._run_class is GA3C:
            refuse_envs_of_ga3c(env)
        elif self._run_class is Offline:
            refuse_envs_offline(env)
            if env is None:
                return NoEnvs()
        count = given.get("num_envs")
        if count is None and "num_envs" in self._stored:
            count = int(self._stored["num_envs"])
        try:
            return open_envs(env, num_envs=count, eval_env=given["eval_env"], options=self._env_options)
        except InvalidArgument as error:
            if given["env"] is None and str(error).startswith("plug-in "):
                raise InvalidArgument(f"{error}; env=FILE names the file to which it was moved") from None
            raise

    def _options(self) -> dict[str, Any]:
        """Those that are given, and those that follow from environments in Python."""
        given, envs = self._given, self._envs
        options = {name: given[name] for name in ALL if given.get(name) is not None}
        if given["env"] is not None:
            options["env"] = self._env if self._has_name else _AN_OBJECT
        if given["env_options"] is not None:
            options["env_options"] = options_text(given["env_options"], self._env)
        if isinstance(given.get("epsilons"), (list, tuple)):
            options["epsilons"] = ",".join(map(text_of, given["epsilons"]))
        if isinstance(given["device"], Device):
            options["device"] = given["device"].name
        if given.get("data") is not None:
            options["data"] = file_of(given["data"]) or _AN_OBJECT
        if isinstance(given.get("data"), ReplayBuffer):
            options["device"] = given["data"].device.name
        if not self._stored:
            if envs.count is not None:
                options["num_envs"] = envs.count
            if not envs.can_evaluate:
                options.setdefault("eval_episodes", 0)
            if self._run_class is Apex and isinstance(envs, PythonEnvs):
                options.setdefault("processes", True)
        return options

    def _config(self) -> _c_api.TrainingConfig:
        given, envs, made = self._given, self._envs, _c_api.TrainingConfig()
        check(lib.gpur_training_config_init(ctypes.addressof(made), ctypes.sizeof(made)))
        described = {} if isinstance(envs, NativeEnvs) else envs.translation.described()
        overrides = _plain(self._overrides)
        document = {"python": sys.version.split()[0], "overrides": overrides,
                    **{f"environment.{name}": value for name, value in described.items()}}
        texts = {"options": [option_of(name, value) for name, value in self._options().items()],
                 "overrides": [f"{name} {json.dumps(value)}".encode() for name, value in overrides.items() if value],
                 "document": [f"{name} {json.dumps(value)}".encode() for name, value in document.items()]}
        arrays = {name: texts_in_c(lines) for name, lines in texts.items()}
        for name, array in arrays.items():
            setattr(made, name, ctypes.addressof(array))
        self._kept = made, arrays  # which the library reads later, too
        made.program = b"gpureplay.train"
        made.style = _c_api.OPTIONS_OF_PROGRAM if self._is_program else _c_api.OPTIONS_OF_KEYWORDS
        # An environment may change the current folder. "": the library chooses one.
        for name in ("out", "resume"):
            if given[name] is not None:
                setattr(made, name, in_c(name, os.path.abspath(given[name]) if given[name] != "" else ""))
        made.refill, made.begins_again = flag("refill", given["refill"]), self._begins_again
        made.type = envs.type if envs.can_evaluate or envs.vector_type is None else None
        made.vector = envs.vector_type
        if isinstance(given.get("data"), ReplayBuffer):
            made.replay = given["data"]._open_handle()
        functions = dict(made._fields_)
        if given["on_event"] is not None:
            made.on_event = self._reporter.function
        if given["out"] is None and given["resume"] is None:
            made.on_row = functions["on_row"](self._add_row)
        made.say = functions["say"](self._say)
        return made

    # The beginning. Everything that can be refused is refused before the first file is written.

    def create(self) -> None:
        """What the library refuses of the options is in the words of the door."""
        with own_words(self.system):
            self._refuse_twice()
            self._add_stored_overrides()
            self._envs = self._open_envs()
        self._closing.callback(self._envs.close)
        with signals_after():  # environments in Python tell their spaces
            self._check(lib.gpur_training_create(ctypes.addressof(self._config()), ctypes.addressof(self._handle)))
        self._closing.callback(lib.gpur_training_destroy, self._handle)
        self._check(lib.gpur_training_get_settings(self._handle, ctypes.addressof(self._settings)))

    def open(self) -> None:
        """The device, the learner and the run."""
        if not isinstance(self._envs, (NativeEnvs, NoEnvs)):
            self._refuse_images(shape_of(env_info(self._envs).obs), self._overrides["agent"])
        self._place_actors()
        device = self._device_of_data() or self._given["device"] or self._settings.device.decode()
        try:
            self._open_on(device)
        except Unavailable as error:  # without cuBLAS a GPU has no learner
            if device != "auto":
                raise
            warnings.warn(f"{error}; using the CPU", RuntimeWarning, stacklevel=caller_depth())
            self._open_on("cpu")

    def _device_of_data(self) -> Device | None:
        """That of a buffer, on which its learner must be."""
        data, given = self._given.get("data"), self._given["device"]
        if not isinstance(data, ReplayBuffer):
            return None
        if given not in (None, data.device, data.device.name):
            raise InvalidArgument(f"device is {given!r} and data is a buffer on {data.device.name}; leave device out")
        return data.device

    def begin(self) -> None:
        """Makes the folder, or goes back to its checkpoint."""
        self._check(lib.gpur_training_begin(self._handle))
        found = importlib.util.find_spec("tensorboard")
        if self._folder is not None and found is not None and found.origin is not None:  # no folder of that name
            from .tensorboard import LiveEvents
            self._live = LiveEvents(self._folder.absolute(), self._progress.warn)

    def _check(self, status: int) -> None:
        if status != 0:
            raise self._failure(failed(status))

    def _failure(self, error: GpureplayError) -> BaseException:
        if isinstance(error, InvalidArgument) and " is there already" in str(error):
            return FileExistsError(str(error))
        found: BaseException = error
        if hasattr(self, "_run"):
            found = self._run._failure(self._run._explain(error))
        return found

    def _refuse_images(self, shape: tuple[int, ...], agent: Settings) -> None:
        """The library's games have their channels last. An environment in Python may have them first, or more axes than
        images have."""
        if "trunk" not in agent and self._agent_class not in (DDPG, SAC):
            refuse_axes(shape, 3, "; agent={\"trunk\": [128]} reads all numbers by dense layers",
                        self._envs.vector_type is not None)
        if "input_layout" not in agent and len(shape) == 3 and leaves_doubt(shape):
            raise InvalidArgument(f"{self._envs.name} shows images of {shape}, which does not tell which axis has the "
                                  "channels; say agent={\"input_layout\": \"hwc\"} for (height, width, channels), or "
                                  "\"chw\" for (channels, height, width)")

    def _place_actors(self) -> None:
        """Those of Ape-X: in processes or threads."""
        self._processes = self._run_class is Apex and processes_of(self._envs, bool(self._settings.processes))

    def _open_on(self, device: Any) -> None:
        settings = self._settings
        if not isinstance(device, Device):
            device = Device(device, threads=settings.threads, deterministic=bool(settings.deterministic))
        elif settings.threads:
            raise InvalidArgument(f"threads is {settings.threads} and device is an open Device, which has its own; "
                                  "leave one of them out")
        elif settings.deterministic and not device.deterministic:
            raise InvalidArgument("deterministic is True and device is an open Device, which is not; open it with "
                                  "Device(..., deterministic=True)")
        with signals_after():  # it says what will run
            self._check(lib.gpur_training_adopt_device(self._handle, device._open_handle()))
        self._make_learner(device)
        self._closing.callback(self._close_unfinished)
        self._agent._advice = self._advice()
        self._envs.translation.warn(self._agent.config.get("actor", self._agent.config),
                                    self._envs.vector_type is not None)
        self._make_run()
        buffer = None if self._buffer is None else self._buffer._open_handle()
        self._check(lib.gpur_training_adopt(self._handle, buffer, self._agent._open_handle(), self._run._open_handle()))

    def _advice(self) -> Advice:
        """That of the learner, in the words of `train`."""
        def in_agent(words: str) -> str:
            name, _, settings = words.partition("=")
            return f'agent={{"{name}": {settings or "..."}}}'

        advice: Advice = self._agent._advice
        own = {network: in_agent(advice.learning_rate.replace("{network}", network))
               for network, settings in {"": self._overrides["agent"], **self._networks()}.items()
               if "learning_rate" in settings}
        return Advice(clip_norm=in_agent(advice.clip_norm), own_rates=own,
                      reward_clip=advice.reward_clip and 'buffer={"reward_clip": ...}')

    def _part(self, name: str) -> Any:
        """The struct that this member of the library's settings points to."""
        return _CONFIGS[name].from_address(getattr(self._settings, name))

    def _make_learner(self, device: Device) -> None:
        """Makes the learner of the library's settings, which those of the caller override, as config.json then has
        them."""
        config, given = self._part(_NAMES[self._agent_class]), self._overrides["agent"]
        if self._agent_class is ActorCritic:
            settings = keywords_of_learner(config)
            self._agent = ActorCritic(device=device, check_nan=self._check_nan, **{**settings, **given})
        else:
            replay = self._part("replay")
            if self._run_class is Apex:
                self._refuse_little_room()
            self._make_buffer(device, replay)
            settings = keywords_of_learner(config)
            if self._run_class is not Run:
                settings["prioritized"] = config.index_source != _c_api.UNIFORM and bool(replay.prioritized)
            networks = {name: {**settings[name], **found} for name, found in self._networks().items()}
            try:
                if self._settings.demonstrations is not None:
                    settings["demonstrations"] = _demonstrations(self._settings.demonstrations, device,
                                                                 self._keywords_of(replay))
                    settings["demonstration_ratio"] = shortest(config.demonstration_ratio)
                made = TD3 if self._agent_class is DDPG and config.critics > 1 else self._agent_class
                self._agent = made(self._buffer, **{**settings, **given, **networks})
            except BaseException:
                self._close_buffer()
                raise
            _copy(self._buffer._spec.config, replay)
        _copy(self._agent._config, config)

    def _keywords_of(self, replay: _c_api.ReplayConfig) -> Settings:
        return {**keywords_of_buffer(replay), "check_nan": self._check_nan, **self._overrides["buffer"]}

    def _make_buffer(self, device: Device, replay: _c_api.ReplayConfig) -> None:
        """Offline it has its transitions then, of which the library's settings get the number of actions."""
        data = self._given.get("data")
        if isinstance(data, ReplayBuffer):
            self._buffer = data
        else:
            with buffer_words(self.system):
                self._buffer = ReplayBuffer(device=device, **self._keywords_of(replay))
        if self._run_class is Offline:
            try:
                with signals_after():
                    self._check(lib.gpur_training_fill(self._handle, self._buffer._open_handle()))
            except BaseException:
                self._close_buffer()
                raise

    def _close_buffer(self) -> None:
        """Unless it is the caller's."""
        if self._buffer is not self._given.get("data"):
            self._buffer.close()

    def _refuse_little_room(self) -> None:
        soft, room = self._part("apex").soft_capacity, self._overrides["buffer"].get("capacity")
        if isinstance(room, (int, float)) and room < soft:
            raise InvalidArgument(f"capacity is {soft} beside buffer={{\"capacity\": {room!r}}}, which has to have "
                                  "room for as many transitions; leave the second out")

    def _close_unfinished(self) -> None:
        if self._is_done:
            return
        if self._buffer is None or self._buffer is self._given.get("data"):
            self._agent.close()
        else:
            self._buffer.close()

    def _make_run(self) -> None:
        configs = self._run_configs()
        refuse_evaluations(self._envs, configs.common.eval_period, configs.common.eval_episodes)
        self._reporter.stop = functools.partial(lib.gpur_training_stop, self._handle, 1)
        self._run = self._run_class._of(self._agent, self._envs, configs, self._reporter)
        self._closing.callback(self._run.close)
        _copy(configs.common, self._part("run"))

    def _run_configs(self) -> RunConfigs:
        """Copies of the settings, as the run outlives the training, after what follows from the learner was set."""
        common, own = self._part("run"), self._part(_NAMES[self._run_class])
        if self._run_class is Apex:
            learner = self._agent.config
            own.rows_under_way = lib.gpur_apex_rows_under_way(own.samples_per_insert, learner["batch_size"],
                                                              learner["target_period"])
        configs = RunConfigs(type(common).from_buffer_copy(common), type(own).from_buffer_copy(own))
        if self._processes:
            set_command(configs, self._agent, self._env, self._env_options)
            own.command = configs.own.command
        return configs

    # What the library tells.

    def _say(self, _user: int | None, kind: int, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        text = text if self._is_program else with_advice(text)
        if kind == _c_api.SAY_INFO:
            self._progress.say(text)
        elif "game of an evaluation was cut off" in text:  # Python has advice of its own
            self._progress.warn(cut_text(self._run.stats.eval_cut))
        else:
            self._progress.warn(text, always=text.endswith("the evaluation is missing"))

    def _add_row(self, _user: int | None, kind: bytes, count: int, names: int, values: int | None, words: Any) -> None:
        """values None: the columns, which come first."""
        texts: Any = (ctypes.c_char_p * count).from_address(names if values is None else words)
        numbers: Any = [None] * count if values is None else (ctypes.c_double * count).from_address(values)
        row = [number if text is None else text.decode() for number, text in zip(numbers, texts)]
        self._rows.setdefault(kind.decode(), []).append(row)

    # Training.

    def interrupt(self) -> None:
        """After `open`. Any thread, also inside the handler of a signal."""
        self._stops += 1
        lib.gpur_training_stop(self._handle, int(self._stops > 1))

    def _look(self) -> None:
        if self._stops and not self._has_said_so and self._folder is not None:
            self._has_said_so = True
            self._progress.say("stopping after the next checkpoint; once more ends the training at once")
        self._progress.look()
        if self._live is not None:
            self._live.look()

    @property
    def _folder(self) -> Path | None:
        folder: bytes = lib.gpur_training_folder(self._handle)
        return Path(os.fsdecode(folder)) if folder else None

    def run_to_the_end(self) -> TrainResult:
        """Also after `interrupt`, which ends it soon."""
        try:
            return self._train_to_the_end()
        finally:
            if self._live is not None:
                self._live.close()
                self._progress.give_warnings()

    def _train_to_the_end(self) -> TrainResult:
        try:
            self._run._call_watched(lambda _run: lib.gpur_training_advance(self._handle), tick=self._look)
        except Interrupted:
            if not (self._stops or self._run.was_stopped_by_event):
                raise
        except BaseException:
            if self._going_on():
                self._progress.say(f"failed; {self._going_on()}")
            raise
        finally:
            self._progress.give_warnings()
        self._check(lib.gpur_training_finish(self._handle))
        self._progress.give_warnings()
        self._progress.say(lib.gpur_training_summary(self._handle).decode("utf-8", "replace"), end="")
        folder = self._folder
        episodes, evaluations, rates = (
            rows_to_array(*self._rows[kind]) if folder is None else read_array(folder, kind)
            for kind in ("episode", "evaluation", "rates"))
        config = json.loads(lib.gpur_training_document(self._handle))
        self._say_end()
        self._is_done = not self._stops
        return TrainResult(self._agent, self._buffer, episodes, evaluations, rates, self._run.stats, config, folder)

    def _going_on(self) -> str:
        """How the run can be resumed; "": it cannot."""
        folder, saved = self._folder, lib.gpur_training_saved_step(self._handle)
        command = (f"{program(self._words)} --resume {shlex.quote(str(folder))}" if self._has_name else
                   f"train(env, resume={str(folder)!r})")
        return "" if folder is None or saved < 0 else f"{command} goes on after step {saved}"

    def _say_end(self) -> None:
        folder, way = self._folder, self._going_on()
        if not self._stops:
            self._progress.say("done" if folder is None else f"done; the files are in {folder}")
        elif folder is None:
            self._progress.say("interrupted")
        elif way:
            self._progress.say(f"interrupted; {way}")
        else:
            self._progress.say(f"interrupted; the files are in {folder}, and there is no checkpoint to go on from")

    def close(self) -> None:
        try:
            self._closing.close()
        except Exception as error:
            if not self._is_done:
                raise
            warnings.warn(f"closing an environment: {type(error).__name__}: {error}", RuntimeWarning,
                          stacklevel=caller_depth())


def _demonstrations(path: bytes, device: Device, keywords: Settings) -> ReplayBuffer:
    """Those of the file, in a buffer with the settings of the learner's own, as large as that of the file."""
    info = file_info(os.fsdecode(path))
    if info.kind != "replay":
        raise FileError(f'{os.fsdecode(path)} is a file of kind "{info.kind}"; demonstrations must be of kind "replay"')
    settings = {**keywords, "capacity": info.capacity, "min_size": 0}
    buffer = ReplayBuffer(device=device, **{name: value for name, value in settings.items() if name != "block_rows"})
    buffer.load(os.fsdecode(path))
    return buffer


def _copy(made: Any, settings: Any) -> None:
    ctypes.memmove(ctypes.addressof(settings), ctypes.addressof(made), ctypes.sizeof(made))


def _plain(value: Any) -> Any:
    """The value as JSON gives it back: lists for tuples, and Python's numbers for NumPy's. What JSON does not have is
    no setting, which is refused later, in other words."""
    return json.loads(json.dumps(value, default=lambda one: one.item() if isinstance(one, np.generic) else repr(one)))
