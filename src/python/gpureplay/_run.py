# SPDX-License-Identifier: MIT
"""Runs: environments that act by a learner's network, the buffer that they fill, and the learner's training."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from . import _c_api
from ._config import RunConfigs, Settings, fast_dqn_configs, set_envs, settings_of_run, settings_text
from ._ddpg import ActionLearner
from ._device import caller_depth
from ._envs import EnvOptions, open_envs
from ._handle import DeferredSignals, Handle, forked, note_library_threads, refuse_after_fork, says_stop
from ._inputs import flag, integer
from ._learner import DQN, Learner
from ._library import GpureplayError, InvalidArgument, check, failed, in_c, lib, with_advice
from ._python_envs import Envs
from ._struct import read_tuple
from ._tuples import RunEvent, RunStats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import RunSettings

_KINDS = {_c_api.RUN_EPISODE: "episode", _c_api.RUN_EVALUATION: "evaluation", _c_api.RUN_TUNED: "tuned",
          _c_api.RUN_STARTED: "started", _c_api.RUN_ENDED: "ended"}
_WAIT = 0.1  # seconds between two looks at signals


class EnvError(GpureplayError, RuntimeError):
    """An environment in Python raised an exception, which is the cause of this one. The text names the lane or the
    agent.

        try:
            run.advance(100_000)
        except gpureplay.EnvError as error:
            print(error, "because of", error.__cause__)
    """


class EvaluatedWeights:
    """The weights that an evaluation has played. They can be saved until on_event returns."""

    def __init__(self, policy: int):
        self._policy: int | None = policy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes them to a file, as `Policy.save` does: `Policy.open` makes a policy of it."""
        if self._policy is None:
            raise InvalidArgument("the weights of an evaluation can be saved until on_event returns, and it has "
                                  "returned")
        check(lib.gpur_policy_save(self._policy, in_c("path", path), None))


OnEvent = Callable[[RunEvent], Any]


def event_at(agent: Learner, address: int) -> RunEvent:
    given = _c_api.RunEvent.from_address(address)
    return read_tuple(RunEvent, given, kind=_KINDS[given.kind], agent=agent,
                      weights=EvaluatedWeights(given.policy) if given.policy else None,
                      error=with_advice((given.error or b"").decode("utf-8", "replace")))


def cut_text(count: int) -> str:
    """For a warning of games of evaluations that were cut off."""
    return (f"{count} game{'s' if count > 1 else ''} of an evaluation {'were' if count > 1 else 'was'} cut off after "
            f"{_c_api.EVALUATION_STEPS} steps, as this environment tells no limit and the network may play without "
            "end; the return is that of those steps. gymnasium.wrappers.TimeLimit(env, steps) sets a limit, and "
            "max_steps of a game of the library")


class Reporter:
    """Passes a run's events on. The run stops if `on_event` raises an exception, or returns False.

    event_at: an event from the address of the library's.
    """

    def __init__(self, on_event: Callable[[Any], Any] | None, event_at: Callable[[int], Any]):
        self.raised: list[BaseException] = []
        self.says_stop = False
        self.stop: Callable[[], None] = lambda: None  # stops the run
        self.calls_user: Callable[[], AbstractContextManager[None]] = nullcontext  # the run's
        self._on_event, self._event_at = on_event, event_at
        self.function = dict(_c_api.RunConfig._fields_)["on_event"](self._report)

    def begin(self) -> None:
        """A call begins. What stopped one before does not stop it."""
        self.raised.clear()
        self.says_stop = False

    def _report(self, _user: int | None, address: int) -> None:
        if self._on_event is None or self.raised:
            return
        event = None
        try:
            event = self._event_at(address)
            with self.calls_user():
                self.says_stop |= says_stop(self._on_event(event))
        except BaseException as error:
            self.raised.append(error)
        weights = getattr(event, "weights", None)
        if weights is not None:
            weights._policy = None
        if self.raised or self.says_stop:
            self.stop()


class LibraryRun(Handle):
    """What `Run`, `Apex` and `GA3C` share: a run on a learner that one thread advances, which calls on_event, while
    others may look at it and stop it."""

    _kind = "run"
    _stop, _save = lib.gpur_run_stop, lib.gpur_run_save
    _stats: Any  # the type of `stats`
    _configs: RunConfigs
    _agent: Learner
    _envs: Envs
    _reporter: Reporter
    _eval_cut = 0  # of which was warned
    _adds = True  # whether it adds to the learner's buffer
    stats: Any

    @classmethod
    def _of(cls, agent: Any, envs: Envs, configs: RunConfigs, reporter: Reporter) -> Any:
        """With environments that are known already, and configs whose on_event passes events on to the reporter."""
        run = cls.__new__(cls)
        run._create(agent, envs, configs, reporter)
        return run

    def _create(self, agent: Any, envs: Envs, configs: RunConfigs, on_event: OnEvent | Reporter | None) -> None:
        raise NotImplementedError

    def _make(self, create: Any, agent: Learner, envs: Envs, configs: RunConfigs, on_event: OnEvent | Reporter | None
              ) -> None:
        """Makes the library's run, on top of the agent."""
        self._agent, self._envs, self._configs = agent, envs, configs
        common = configs.common
        if isinstance(on_event, Reporter):
            self._reporter = on_event
        else:
            self._reporter = Reporter(on_event, functools.partial(event_at, agent))
            common.on_event = self._reporter.function
        set_envs(common, envs.type if envs.can_evaluate or envs.vector_type is None else None, envs.vector_type,
                 envs.options)
        if envs.eval_count and common.eval_envs not in (0, envs.eval_count):
            raise InvalidArgument(f"eval_envs is {common.eval_envs} and env is {envs.name}, an environment in Python; "
                                  f"evaluations play in {envs.eval_count} of these, so leave it out")
        common.eval_envs = common.eval_envs or envs.eval_count
        note_library_threads()
        super().__init__(functools.partial(self._create_run, create), lib.gpur_run_destroy, (agent,))
        agent._take_run(self)
        agent._translation = envs.translation
        if self._reporter is not on_event:
            self._reporter.stop = functools.partial(type(self)._stop, self._handle)
        run = weakref.proxy(self)
        self._reporter.calls_user = lambda: run._calls_user()

    def _create_run(self, create: Any, address: int) -> None:
        places = map(ctypes.addressof, self._configs)
        with DeferredSignals() as signals:  # nothing can be raised through C, from make_env
            status = self._agent._invoke(create, *places, address)
            failure = None if status == 0 else self._failure(self._agent._explain(failed(status)))
        for error in (*signals.raised, *([] if failure is None else [failure])):
            raise error

    def _users_of_call(self) -> tuple[Handle, ...]:
        return (self, *self._agent._users_of_call())

    def _warn_of_cut_games(self) -> None:
        """RuntimeWarning: games of evaluations were cut off since it was called last."""
        cut = self.stats.eval_cut
        new, self._eval_cut = cut - self._eval_cut, cut
        if new:
            warnings.warn(cut_text(new), RuntimeWarning, stacklevel=caller_depth())

    def _explain(self, error: Exception) -> Exception:
        return super()._explain(self._agent._explain(error))

    def _failure(self, error: Exception) -> BaseException:
        """The library's error, with what an environment in Python raised as its cause."""
        cause = self._envs.cause_of(str(error))
        if cause is None or not isinstance(cause, Exception):  # SystemExit, say, is raised as it is
            return error if cause is None else cause
        raised = EnvError(str(error))
        raised.__cause__ = cause
        return raised

    @property
    def was_stopped_by_event(self) -> bool:
        """Whether on_event returned False in the last call."""
        return self._reporter.says_stop

    def _call_watched(self, function: Any, *arguments: Any, tick: Callable[[], None] | None = None) -> None:
        """Calls the library's function in another thread, because Python runs the handlers of signals in the main one:
        what they raise, as Ctrl-C does, stops the run and is raised then. tick: is called now and then."""
        self._open_handle()
        self._reporter.begin()
        call, is_stopped = _Call(self, function, arguments), False
        with DeferredSignals() as signals:
            call.start()
            try:
                while not call.ended.wait(_WAIT):
                    if signals.raised and not is_stopped:  # a second stop would be that of the next call
                        self._invoke(self._stop)
                        is_stopped = True
                    if tick is not None:
                        tick()
            finally:
                if not call.ended.is_set():  # tick has raised an exception
                    self._invoke(self._stop)
                    call.ended.wait()
        refusals = [] if call.was_stopped and signals.raised else call.raised
        for error in (*self._reporter.raised, *refusals, *signals.raised):
            raise error

    def close(self) -> None:
        """Stops the threads and processes, and closes the environments that the run has made. Without this call
        Python closes them when it frees them. Buffer and learner stay open."""
        self._refuse_in_own_call()
        if not self.closed:
            self._invoke(self._stop)
        super().close()
        self._envs.close()

    # Taking steps.

    def advance(self, env_steps: int) -> None:
        """Takes exactly `env_steps` more environment steps, of all environments together, and does the train steps that
        belong to them. Evaluations that became due have been delivered when it returns. The split into calls changes
        nothing in the results.

        Ctrl-C stops the run, as `stop` does, and is raised then. Interrupted: `stop` was called, or on_event said so.
        After both the run can be advanced again. EnvError: an environment in Python raised an exception.
        InvalidArgument: an environment of the library or of a plug-in refused something. After these two the run has
        ended, and InvalidArgument is raised again; the learner stays usable."""
        self._call_watched(lib.gpur_run_advance, integer("env_steps", env_steps, 0), 0)
        self._warn_of_cut_games()

    def evaluate(self, episodes: int | None = None, greedy: bool = False) -> float:
        """Plays whole games with the learner's present weights, and returns their mean return, unclipped and not
        discounted; on_event gets the evaluation. Between two calls of `advance`, which it does not change. Errors are
        those of `advance`, but the run can then be advanced.

        episodes: None: the setting eval_episodes. greedy: the best action always; else `Run` and `Apex` explore with
        eval_epsilon, and `GA3C` draws actions as agents do.

        A game ends after 27,000 steps where the environment tells no limit. RuntimeWarning: one did. Unavailable: the
        actor of an `Apex` that evaluates was killed, or failed, again and again."""
        result = _c_api.RunEvent()
        self._call_watched(lib.gpur_run_evaluate, 0 if episodes is None else integer("episodes", episodes, 1),
                           int(flag("greedy", greedy)), ctypes.addressof(result))
        self._warn_of_cut_games()
        return float(result.mean_return)

    def stop(self) -> None:
        """Stops the present `advance` or `evaluate`, which then raises Interrupted soon: after the steps that
        environments are taking, and 32 train steps at most. The run can be advanced again, and goes on as if it had not
        been stopped. Any thread.

            with gpureplay.Run(agent, "CartPole-v1") as run:
                threading.Timer(60, run.stop).start()
                with contextlib.suppress(gpureplay.Interrupted):
                    run.advance(10**7)
        """
        self._invoke(self._stop)

    # Files.

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the run to a folder, which is made if it is not there: learner.safetensors, run.safetensors and, of
        `Run` and `Apex`, replay.safetensors. Between two calls of `advance`; a `Run` after a multiple of target_period
        steps.
        FileError: a file cannot be written. Unavailable: the library was built without cJSON or xxHash.

        Ctrl-C while the files are written is raised when they are complete.

            with gpureplay.Run(agent, "CartPole-v1") as run:
                run.advance(10_000)
                run.save("runs/CartPole-1")
        """
        self._call_watched(self._save, in_c("folder", folder))

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Restores such a folder, with the learner and the buffer, before the first `advance`, into a run with the same
        settings; numbers of threads may differ. Environments of the library in a `Run` go on with the same bits; others
        begin new episodes, and open ones end in the buffer as if truncated."""
        self._load(folder, refill=False)

    def _load(self, folder: str | os.PathLike[str], refill: bool) -> None:
        name = in_c("folder", folder)
        with DeferredSignals() as signals:  # environments are reset
            status = self._invoke(lib.gpur_run_load, name, int(refill))
            failure = None if status == 0 else self._failure(self._explain(failed(status)))
        for error in (*signals.raised, *([] if failure is None else [failure])):
            raise error

    # State.

    @property
    def config(self) -> Settings:
        """The settings by name, including the defaults. A copy."""
        return settings_of_run(self._configs)

    def _read_stats(self) -> Any:
        stats = _c_api.RunStats()
        self._call(lib.gpur_run_get_stats, ctypes.addressof(stats))
        return read_tuple(self._stats, stats)

    def _described(self, names: str) -> str:
        if self.closed:
            return f"<gpureplay.{type(self).__name__}, {self._envs.name}, closed>"
        return (f"<gpureplay.{type(self).__name__}, {self._envs.name}, {self.stats.env_steps} steps; "
                f"{settings_text(self.config, names)}>")


class Run(LibraryRun):
    """Environments that act by a learner's network, with the learner's training, in threads of the library. `train`
    makes buffer, learner and run in one call.

    agent: the learner. Its buffer must have the fields obs, action, reward, next_obs, terminated and truncated, and
        with layout "frames" takes one frame of the environment for a stack. Nobody else adds to it or trains the
        learner meanwhile: the buffer's own writer is closed.
    env: the name of a game of the library ("CartPole-v1", "MinAtar/Breakout"), or a plug-in's file ("./games.so",
        "./games.so:Corridor"); or an id of Gymnasium ("gymnasium:CartPole-v1" if the library has a game of that name,
        too); or a function make_env(lane) that makes an environment, for lanes 0 to num_envs - 1 and num_envs, the one
        of evaluations, or where it is ("module:make_env", which gets env_options as keywords); or a list of
        environments, which the caller closes. Observations must be a Box, actions Discrete, or of a `DDPG` a Box
        with finite bounds. In Python only one
        environment steps at a time, unless it releases the interpreter's lock: with threads=1 the lanes then cost the
        least. Or a vector environment of Gymnasium, which needs `synchronized`, whose steps are taken all at once, and
        which the caller closes.
    env_options: for a name: "name=value,name=value", or a dict.
    eval_env: beside a list or a vector environment: the environment of evaluations. None: there are none.
    on_event: is called with each RunEvent, in the thread that advances the run. False stops the run, an exception does,
        too, and is raised by `advance`.
    settings: the members of gpur_fast_dqn_config by name (include/gpureplay/fast_dqn.h): num_envs, threads, concurrent,
        synchronized, burst, act "latest" or "target", whole_episodes, target_period, train_period, train_steps,
        prepopulation, of a `DDPG` sigma; and of gpur_run_config (run_handle.h): eval_period, eval_episodes,
        eval_epsilon, eval_envs, seed. None is the library's default. target_period, in environment steps, is that of a
        `DQN`, in train steps, times train_period / train_steps. A learner with a cache of returns is refreshed every
        target_period steps.

    Environments in Python get a seed, drawn from the run's, in their first `reset`. If that decides all that is random
    in them, results are the same bits each time, whatever the timing of threads.

    One thread at a time advances a run. Any thread may read `stats` and call `stop`.
    """

    _stats = RunStats

    def __init__(self, agent: DQN | ActionLearner, env: Any, *, env_options: EnvOptions = None, eval_env: Any = None,
                 on_event: OnEvent | None = None, **settings: Unpack[RunSettings]):
        if not isinstance(agent, (DQN, ActionLearner)):
            raise TypeError(f"agent is {agent!r}; it must be a gpureplay.DQN, DDPG, TD3 or SAC")
        refuse_after_fork()
        envs = open_envs(env, num_envs=settings.get("num_envs"), eval_env=eval_env, options=env_options)
        try:
            self._create(agent, envs, _configs_of(agent, envs, dict(settings)), on_event)
        except BaseException:
            envs.close()
            raise

    def _create(self, agent: DQN | ActionLearner, envs: Envs, configs: RunConfigs,
                on_event: OnEvent | Reporter | None) -> None:
        refuse_evaluations(envs, configs.common.eval_period, configs.common.eval_episodes)
        envs.open()
        self._make(lib.gpur_fast_dqn_create, agent, envs, configs, on_event)

    @property
    def stats(self) -> RunStats:
        """Counts and times. Does not wait for steps."""
        return cast(RunStats, self._read_stats())

    def __repr__(self) -> str:
        return self._described("num_envs concurrent synchronized target_period train_period seed")


class _Call(threading.Thread):
    """A call of a run's function."""

    def __init__(self, run: LibraryRun, function: Any, arguments: tuple[Any, ...]):
        super().__init__(name="gpureplay", daemon=True)
        self._run, self._function, self._arguments = run, function, arguments
        self.ended, self.raised, self.was_stopped = threading.Event(), list[BaseException](), False
        self._returned = threading.Event()
        self._is_of_daemon = threading.current_thread().daemon

    def run(self) -> None:
        _under_way.append(self)
        try:
            status = self._run._invoke(self._function, *self._arguments)
            if status != 0:
                self.was_stopped = status == _c_api.INTERRUPTED
                self.raised.append(self._run._failure(self._run._explain(failed(status))))
        except BaseException as error:
            self.raised.append(error)
        finally:
            _under_way.remove(self)
            self._returned.set()
            if not (_is_ending.is_set() and self._is_of_daemon):
                self.ended.set()

    def end(self) -> None:
        """Stops the call and waits for that."""
        with contextlib.suppress(GpureplayError):
            self._run._invoke(self._run._stop)
        self._returned.wait(_LAST_WAIT)


_under_way: list[_Call] = []
_is_ending = threading.Event()
_LAST_WAIT = 5  # seconds, for a step of an environment


@atexit.register
def _end_calls() -> None:
    """Ends what daemon threads are calling when the interpreter ends: Python 3.14 crashes if a thread of the library
    calls an environment in Python later. The daemon threads then wait for the end, and raise nothing."""
    _is_ending.set()
    if not forked:  # a child process has no threads of its parent's
        for call in tuple(_under_way):
            call.end()


def refuse_evaluations(envs: Envs, period: int, episodes: int) -> None:
    if not envs.can_evaluate and (period or episodes):
        raise InvalidArgument(f"eval_period is {period}, eval_episodes is {episodes} and eval_env is None; evaluations "
                              "beside environments that are objects need an eval_env, one more like them; "
                              "eval_episodes=0 leaves them out")


def _configs_of(agent: DQN | ActionLearner, envs: Envs, settings: Settings) -> RunConfigs:
    """None is the default."""
    given = {name: value for name, value in settings.items() if value is not None}
    if envs.count is not None:
        given["num_envs"] = envs.count
    if not envs.can_evaluate:
        given = {"eval_period": 0, "eval_episodes": 0, **given}
    configs = fast_dqn_configs(given)
    if "target_period" not in given and isinstance(agent, DQN):
        own = configs.own
        own.target_period = agent._config.target_period * own.train_period // max(own.train_steps, 1)
    return configs
