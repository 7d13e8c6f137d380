# SPDX-License-Identifier: MIT
"""GA3C [Babaeizadeh et al. 2017]: many agents, each with an environment, on one actor-critic; and A3C and A2C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ._actor_critic import ActorCritic
from ._config import RunConfigs, ga3c_configs
from ._envs import EnvOptions, open_envs
from ._handle import refuse_after_fork
from ._inputs import integer
from ._library import InvalidArgument, lib
from ._python_envs import Envs
from ._run import LibraryRun, OnEvent, Reporter
from ._tuples import GA3CStats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import GA3CSettings

_INT32 = -2**31, 2**31 - 1


def refuse_other_envs(env: Any) -> None:
    if not isinstance(env, str) and not callable(env):
        raise TypeError(f"env is {env!r}; for GA3C it must be a name, or a function make_env(number), by which each "
                        "agent gets its own")


class GA3C(LibraryRun):
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
    on_event: is called with each RunEvent, in the thread that advances the run. False stops the run, an exception
        does, too, and is raised by `advance`.
    settings: the members of gpur_ga3c_config by name (include/gpureplay/ga3c.h): system "ga3c", "a3c" or "a2c", agents,
        predictors, trainers, t_max, discount, reward_clip, drop_terminal, max_prediction_batch, min_train_batch,
        queue_room, when_full "wait", "refuse" or "drop_oldest", tuner "none", "paper" or "code", tuner_period,
        tuner_settling, max_agents; and of gpur_run_config (run_handle.h): eval_period (0: only `evaluate`),
        eval_episodes, eval_envs, seed. None is the library's default. `stats` has the present numbers of threads.

    A run is not the same bits each time, except with system="a2c", where equal seeds give equal weights. Environments
    in Python get a seed, drawn from the run's, in their first `reset`.

    One thread at a time advances, evaluates, saves and loads a run. Any thread may read `stats` and call `stop` and
    `set_counts`.
    """

    _stats = GA3CStats

    def __init__(self, learner: ActorCritic, env: Any, *, env_options: EnvOptions = None,
                 on_event: OnEvent | None = None, **settings: Unpack[GA3CSettings]):
        if not isinstance(learner, ActorCritic):
            raise TypeError(f"learner is {learner!r}; it must be a gpureplay.ActorCritic")
        refuse_after_fork()
        configs = ga3c_configs({name: value for name, value in settings.items() if value is not None})
        refuse_other_envs(env)
        envs = open_envs(env, options=env_options)
        try:
            self._create(learner, envs, configs, on_event)
        except BaseException:
            envs.close()
            raise
        learner._advice = learner._advice._replace(reward_clip="reward_clip")

    def _create(self, learner: ActorCritic, envs: Envs, configs: RunConfigs, on_event: OnEvent | Reporter | None
                ) -> None:
        if envs.type is None:
            raise InvalidArgument(f"{envs.name} steps all its environments at once; for GA3C it must step one at a "
                                  "time")
        self._make(lib.gpur_ga3c_create, learner, envs, configs, on_event)
        envs.open()

    def set_counts(self, agents: int, predictors: int, trainers: int) -> None:
        """Changes the numbers of threads while the run goes on. Waits for those that end; the steps of an agent's open
        rollout are lost. "a3c" and "a2c" do not read predictors and trainers. Any thread, also in on_event.
        InvalidArgument: a number out of its range, or for "a2c" too many agents for the learner's max_batch.

            with gpureplay.GA3C(learner, "CartPole-v1", agents=16) as run:
                run.advance(10_000)
                run.set_counts(agents=32, predictors=2, trainers=1)
                run.advance(10_000)
        """
        self._call(lib.gpur_ga3c_set_counts, integer("agents", agents, *_INT32),
                   integer("predictors", predictors, *_INT32), integer("trainers", trainers, *_INT32))

    @property
    def stats(self) -> GA3CStats:
        """Counts and times. lags: trained steps by their policy lag. Does not wait for steps."""
        return cast(GA3CStats, self._read_stats())

    def __repr__(self) -> str:
        return self._described("system agents predictors trainers t_max seed")
