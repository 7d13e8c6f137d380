# SPDX-License-Identifier: MIT
"""Ape-X on one machine [Horgan et al. 2018]: many actors, in threads or in processes, and one learner."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import TYPE_CHECKING, Any, Union, cast

from ._config import RunConfigs, Settings, apex_configs, network_settings, settings_of_buffer
from ._ddpg import DDPG, SAC, ActionLearner
from ._envs import EnvOptions, open_envs
from ._handle import refuse_after_fork
from ._inputs import flag, integer
from ._learner import DQN
from ._library import InvalidArgument, lib, texts_in_c
from ._python_envs import Envs, PythonEnvs
from ._run import LibraryRun, OnEvent, Reporter
from ._tuples import ApexStats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import ApexSettings

Agent = Union[DQN, DDPG, SAC]


class Apex(LibraryRun):
    """Actors, each with an environment, an epsilon and a copy of a learner's weights, and the learner's training by
    priority, beside each other. `train(preset="apex-dqn")` makes buffer, learner and run in one call.

    agent: the learner, a `DQN`, or of continuous actions a `DDPG`, `TD3` or `SAC`. Its buffer must be prioritized, and
        have the fields obs, action, reward, next_obs, terminated, truncated, discount (with n_step above 1) and
        priority (float32, with initial_priorities "td"). Nobody else adds to it or trains the learner meanwhile: the
        buffer's own writer is closed.
    env: the name of a game of the library, a plug-in's file, an id of Gymnasium, "dm_control/cartpole-swingup" (a
        domain and a task of the control suite), or "module:function", where function(lane) makes an environment.
        Environments in Python are always in processes. Continuous actions must be a Box of floats with bounds.
    env_options: "name=value,name=value", or a dict.
    on_event: is called with each RunEvent, in the thread that advances the run. False stops the run, an exception
        does, too, and is raised by `advance`.
    settings: processes (by default True for environments in Python, else False: threads), and the members of
        gpur_apex_config by name (include/gpureplay/apex.h) and of gpur_run_config (run_handle.h): actors,
        initial_priorities "td" or "max", epsilons (a list), of a `DDPG` and a `TD3` sigma, and so on. None is the
        library's default.

    An actor's process has this process's sys.path, and its make_env(lane) is asked for lane 0 alone. What an
    environment raises ends the actor; its text, with the file and the line, is the event's `error`. The actor is
    started again, with other seeds, unless restarts is False, or it failed 5 times in a row before anything of it was
    received, or its environment showed a number that is NaN or infinite: then `advance` raises InvalidArgument with
    that text. An actor whose process is killed is started again after longer and longer waits, as long as another one
    lives.

    One thread at a time advances, evaluates, saves and loads a run. Any thread may read `stats` and call `stop` and
    `set_actors`.
    """

    _stats = ApexStats

    def __init__(self, agent: Agent, env: str, *, env_options: EnvOptions = None, on_event: OnEvent | None = None,
                 **settings: Unpack[ApexSettings]):
        if not isinstance(agent, (DQN, ActionLearner)):
            raise TypeError(f"agent is {agent!r}; it must be a gpureplay.DQN, DDPG, TD3 or SAC")
        refuse_other_envs(env)
        refuse_after_fork()
        envs = open_envs(env, options=env_options)
        given = {name: value for name, value in settings.items() if value is not None}
        try:
            configs = apex_configs(given)
            if processes_of(envs, cast("bool | None", given.get("processes"))):
                set_command(configs, agent, env, env_options)
            self._create(agent, envs, configs, on_event)
        except BaseException:
            envs.close()
            raise

    def _create(self, agent: Agent, envs: Envs, configs: RunConfigs, on_event: OnEvent | Reporter | None) -> None:
        settings_of_buffer(agent._buffer._spec)  # it refuses a LaneBuffer
        self._make(lib.gpur_apex_create, agent, envs, configs, on_event)

    # Taking steps.

    def advance(self, env_steps: int = 0, train_steps: int = 0) -> None:
        """Receives and trains until so many more environment steps were received, or so many more train steps done,
        whichever is first; 0: no limit of this kind. Evaluations that became due have been delivered when it returns.
        Actors begin at the first call, and go on between calls until what they send has no room. With 0 and 0 it waits
        for the ends of actors that `set_actors` has asked to end, and takes what they still send, without training;
        an evaluation that was stopped is delivered by the next other call.

        Ctrl-C stops the run, as `stop` does, and is raised then. Interrupted: `stop` was called, or on_event said so.
        After both the run can be advanced again. InvalidArgument: an actor failed again and again, or all were killed,
        or with restarts=False one failed; the run has then ended, and the learner stays usable."""
        self._call_watched(lib.gpur_run_advance, integer("env_steps", env_steps, 0),
                           integer("train_steps", train_steps, 0))
        self._warn_of_cut_games()

    def set_actors(self, actors: int) -> None:
        """Changes the number of actors while the run goes on, 0 to 1,024. Those that stay keep their epsilons. With 0
        no environment steps come any more: an `advance` that waits for them, and has no train_steps, returns only when
        `stop` is called, and InvalidArgument refuses to begin another one. Any thread."""
        self._call(lib.gpur_apex_set_actors, integer("actors", actors))

    def actor_process(self, actor: int) -> int | None:
        """The id of an actor's process; None:
        it has none now.

            with gpureplay.Apex(agent, "CartPole-v1", actors=8, processes=True) as run:
                run.advance(100_000)
                print([run.actor_process(actor) for actor in range(8)])
        """
        found: int = self._invoke(lib.gpur_apex_actor_process, integer("actor", actor))
        return None if found < 0 else found

    # Files and state.

    def load(self, folder: str | os.PathLike[str], refill: bool = False) -> None:
        """Restores such a folder, before the first `advance`, into a run with the same settings; the number of actors
        may be another. refill: the buffer stays empty, and training goes on when actors have filled it to its min_size
        again. Actors begin new episodes.

            with gpureplay.Apex(agent, "CartPole-v1", actors=8) as run:
                run.load("runs/CartPole-1")
                run.advance(100_000)
        """
        self._load(folder, flag("refill", refill))

    @property
    def stats(self) -> ApexStats:
        """Counts and times. Does not wait for steps."""
        return cast(ApexStats, self._read_stats())

    def __repr__(self) -> str:
        return self._described("actors processes samples_per_insert seed")


def refuse_other_envs(env: Any) -> None:
    """Refuses what an actor's process could not make."""
    if not isinstance(env, str):
        raise TypeError(f"env is {env!r}; for Ape-X it must be a name, by which each actor makes its own: that of a "
                        "game, a plug-in's file, an id of Gymnasium, or \"module:make_env\", where a function "
                        "make_env(lane) is")
    if env.startswith("__main__:"):
        raise ValueError(f"env is {env!r}; an actor's process has another program: put the function into a module")


def processes_of(envs: Envs, given: bool | None) -> bool:
    """Whether actors are processes."""
    if envs.type is None:
        raise InvalidArgument(f"{envs.name} steps all its environments at once; for Ape-X it must step one at a time")
    if isinstance(envs, PythonEnvs) and given is not None and not given:
        raise InvalidArgument(f"processes is 0 and env is {envs.name}, an environment in Python, of which threads "
                              "would step only one at a time; processes must be 1, or left out")
    return isinstance(envs, PythonEnvs) if given is None else flag("processes", given)


def networks_of(agent: Agent) -> list[Settings]:
    """The settings of the networks that an actor has."""
    config = agent.config
    return [config["actor"], *config["critics"] * [config["critic"]]] if isinstance(agent, ActionLearner) else [config]


def set_command(configs: RunConfigs, agent: Agent, env: str, env_options: EnvOptions) -> None:
    """Actors are processes."""
    command = _actor_command(agent, env, env_options)
    words = texts_in_c([*map(os.fsencode, command)])
    configs.own.command, configs.own.words = ctypes.addressof(words), words


def _actor_command(agent: Agent, env: str, env_options: EnvOptions) -> list[str]:
    """The command of an actor's process, which finds the modules that this process finds."""
    given = {"env": env, "env_options": env_options,
             "buffer": settings_of_buffer(agent._buffer._spec),
             "networks": list(map(network_settings, networks_of(agent)))}
    try:
        text = json.dumps(given)
    except TypeError as error:
        raise InvalidArgument(f"env_options is {env_options!r}; for Ape-X its values must be such that JSON has them: "
                              f"{error}") from error
    code = ("import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); "
            f"from {__package__}._actor import main; sys.exit(main())")
    return [sys.executable, "-c", code, "\n".join(map(os.path.abspath, sys.path)), text]
