# SPDX-License-Identifier: MIT
"""GA3C [Babaeizadeh et al. 2017]: many agents, each with an environment, on one actor-critic; and A3C and A2C."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _c_api
from ._actor_critic import ActorCritic
from ._config import Settings, ga3c_config, settings_of_ga3c, settings_text
from ._envs import EnvOptions, open_envs
from ._handle import encoded_path, note_library_threads, refuse_after_fork
from ._inputs import flag, integer
from ._library import InvalidArgument, lib
from ._python_envs import Envs
from ._run import Advanced, Reporter

_KINDS = {_c_api.GA3C_EPISODE: "episode", _c_api.GA3C_TUNED: "tuned"}
_INT32 = -2**31, 2**31 - 1


class GA3CEvent(NamedTuple):
    """An episode that has ended, or numbers of threads that the tuner has measured. include/gpureplay/ga3c.h describes
    each member."""

    kind: str  # "episode" or "tuned"
    agent: int
    step: int
    train_steps: int
    length: int
    episode_return: float
    agents: int
    predictors: int
    trainers: int
    accepted: bool
    rate: float


class GA3CStats(NamedTuple):
    """Counts, and seconds where the name says so. include/gpureplay/ga3c.h describes each."""

    steps: int
    episodes: int
    predictions: int
    prediction_batches: int
    train_steps: int
    trained_rows: int
    training_batches: int
    refused_rollouts: int
    overwritten_rollouts: int
    left_rollouts: int
    dropped_rows: int
    agents: int
    predictors: int
    trainers: int
    prediction_queue: float
    training_queue: float
    lags: tuple[int, ...]
    mean_lag: float
    largest_lag: int
    queue_lag: int
    queue_lag_bound: int
    seconds: float
    environment_seconds: float
    wait_seconds: float
    queue_seconds: float
    predict_seconds: float
    predictor_seconds: float
    train_seconds: float
    recent_return: float
    policy_loss: float
    value_loss: float
    entropy: float
    mean_value: float
    gradient_norm: float
    learning_rate: float
    eval_cut: int


OnGA3CEvent = Callable[[GA3CEvent], Any]


def _event_at(address: int) -> GA3CEvent:
    given = _c_api.GA3CEvent.from_address(address)
    values = {name: getattr(given, name) for name in GA3CEvent._fields}
    return GA3CEvent(**{**values, "kind": _KINDS[given.kind], "accepted": bool(given.accepted)})


def refuse_other_envs(env: Any) -> None:
    if not isinstance(env, str) and not callable(env):
        raise TypeError(f"env is {env!r}; for GA3C it must be a name, or a function make_env(number), by which each "
                        "agent gets its own")


class GA3C(Advanced):
    """Agents, each with an environment, that act by an actor-critic, and the training on their rollouts, in threads of
    the library:

        learner = gpureplay.ActorCritic(((4,), "float32"), 2, trunk=[128], optimizer="adam", learning_rate=7e-4)
        with gpureplay.GA3C(learner, "CartPole-v1", agents=16) as run:
            run.advance(100_000)
            print(run.evaluate(30))

    learner: the actor-critic. It may be used, trained, saved and loaded by others between two calls of `advance`.
    env: the name of a game of the library ("CartPole-v1", "MinAtar/Breakout"), or a plug-in's file; or an id of
        Gymnasium ("gymnasium:CartPole-v1" if the library has a game of that name, too); or a function
        make_env(number) that makes an environment, where number counts those made before; or where it is
        ("module:make_env", which gets env_options as keywords). The next agent or evaluation takes that of one that has
        ended. Observations must be a Box, actions Discrete. In Python they are made in the agents' threads, one after
        another, and only one steps at a time, unless it releases the interpreter's lock.
    env_options: for a name: "name=value,name=value", or a dict.
    on_event: is called with each GA3CEvent, in the thread that advances the run. False stops the run, an exception
        does, too, and is raised by `advance`.
    settings: the members of gpur_ga3c_config by name (include/gpureplay/ga3c.h): system "ga3c", "a3c" or "a2c", agents,
        predictors, trainers, t_max, discount, reward_clip, drop_terminal, max_prediction_batch, min_train_batch,
        queue_room, when_full "wait", "refuse" or "drop_oldest", tuner "none", "paper" or "code", tuner_period,
        tuner_settling, max_agents, seed. None is the library's default.

    A run is not the same bits each time, except with system="a2c", where equal seeds give equal weights. Environments
    in Python get a seed, drawn from the run's, in their first `reset`.

    One thread at a time advances, evaluates, saves and loads a run. Any thread may read `stats` and call `stop` and
    `set_counts`.
    """

    _kind = "run"
    _stop, _save = lib.gpur_ga3c_stop, lib.gpur_ga3c_save

    def __init__(self, learner: ActorCritic, env: Any, *, env_options: EnvOptions = None,
                 on_event: OnGA3CEvent | None = None, **settings: Any):
        if not isinstance(learner, ActorCritic):
            raise TypeError(f"learner is {learner!r}; it must be a gpureplay.ActorCritic")
        refuse_after_fork()
        config = ga3c_config({name: value for name, value in settings.items() if value is not None})
        refuse_other_envs(env)
        envs = open_envs(env, options=env_options)
        try:
            self._create(learner, envs, on_event, config)
        except BaseException:
            envs.close()
            raise
        learner._advice = learner._advice._replace(reward_clip="reward_clip")

    @classmethod
    def _of(cls, learner: ActorCritic, envs: Envs, on_event: OnGA3CEvent | None, config: _c_api.GA3CConfig) -> GA3C:
        """With environments that are known already."""
        run = cls.__new__(cls)
        run._create(learner, envs, on_event, config)
        return run

    def _create(self, learner: ActorCritic, envs: Envs, on_event: OnGA3CEvent | None,
                config: _c_api.GA3CConfig) -> None:
        if envs.type is None:
            raise InvalidArgument(f"{envs.name} steps all its environments at once; for GA3C it must step one at a "
                                  "time")
        self._agent, self._envs, self._config = learner, envs, config
        self._reporter = Reporter(on_event, _event_at)
        config.env_options, config.on_event = envs.options, self._reporter.function
        note_library_threads()
        self._own(functools.partial(learner._call, lib.gpur_ga3c_create, envs.type, ctypes.addressof(config)),
                  lib.gpur_ga3c_destroy)
        envs.open()

    # Taking steps.

    def advance(self, steps: int) -> None:
        """Takes exactly `steps` more environment steps, of all agents together; then trains on the rollouts that are
        complete. Those that are not go on in the next call. Agents begin at the first call.

        Ctrl-C stops the run, as `stop` does, and is raised then. Interrupted: `stop` was called, or on_event said so.
        After both the run can be advanced again. EnvError: an environment in Python raised an exception.
        InvalidArgument: an environment of the library or of a plug-in refused something. After these two the run has
        ended, and InvalidArgument is raised again; the learner stays usable."""
        self._call_watched(lib.gpur_ga3c_advance, integer("steps", steps))

    def evaluate(self, episodes: int = 30, greedy: bool = False) -> float:
        """Plays whole games in an environment of its own, with the learner's present weights, and returns their mean
        return, unclipped and not discounted. Between two calls of `advance`; steps of the run do not change. Ctrl-C and
        errors are as for `advance`, but the run can then be advanced.

        greedy: the most probable action is taken; else it is drawn, as agents do.

        A game ends after 27,000 steps where the environment tells no limit of its own. RuntimeWarning: one did."""
        mean = ctypes.c_double()
        self._call_watched(lib.gpur_ga3c_evaluate, integer("episodes", episodes), int(flag("greedy", greedy)),
                           ctypes.addressof(mean))
        self._warn_of_cut_games()
        return mean.value

    def stop(self) -> None:
        """Makes `advance` return soon: no further step begins. Any thread."""
        self._invoke(self._stop)

    def set_counts(self, agents: int, predictors: int, trainers: int) -> None:
        """Changes the numbers of threads while the run goes on. Waits for those that end; the steps of an agent's open
        rollout are lost. "a3c" and "a2c" do not read predictors and trainers. Any thread, also in on_event.
        InvalidArgument: a number out of its range, or for "a2c" too many agents for the learner's max_batch."""
        self._call(lib.gpur_ga3c_set_counts, integer("agents", agents, *_INT32),
                   integer("predictors", predictors, *_INT32), integer("trainers", trainers, *_INT32))

    # Files.

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the run to a folder, which is made if it is not there: learner.safetensors and ga3c.safetensors.
        Between two calls of `advance`. FileError: a file cannot be written. Unavailable: the library was built without
        cJSON or xxHash."""
        self._call_watched(self._save, encoded_path(folder))

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Restores such a folder, with the learner, before the first `advance`, into a run with the same settings; the
        numbers of threads are those of the file. Agents begin new episodes."""
        self._call_watched(lib.gpur_ga3c_load, encoded_path(folder))

    # State.

    @property
    def stats(self) -> GA3CStats:
        """Counts and times. lags: trained steps by their policy lag. Does not wait for steps."""
        stats = _c_api.GA3CStats()
        self._call(lib.gpur_ga3c_get_stats, ctypes.addressof(stats))
        values = {name: getattr(stats, name) for name in GA3CStats._fields}
        return GA3CStats(**{**values, "lags": tuple(stats.lags)})

    @property
    def config(self) -> Settings:
        """The settings by name, including the defaults. A copy. `stats` has the present numbers of threads."""
        return settings_of_ga3c(self._config)

    def __repr__(self) -> str:
        if self.closed:
            return f"<gpureplay.GA3C, {self._envs.name}, closed>"
        names = "system agents predictors trainers t_max seed"
        return f"<gpureplay.GA3C, {self._envs.name}, {self.stats.steps} steps; {settings_text(self.config, names)}>"
