# SPDX-License-Identifier: MIT
"""Ape-X [Horgan et al. 2018] beyond one machine, on Ray: pip install "gpureplay[ray]".

    import gpureplay.ray

    result = gpureplay.ray.ApeX("MinAtar/Breakout", preset="apex-dqn-small", actors=64, out="/shared/run").train(10**7)

Ray places actors and learner, restarts them, and carries what they send. docs/distributed.md has the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

try:
    import ray
    from ray.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError
    from ray.util.metrics import Counter, Gauge
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; `pip install \"gpureplay[ray]\"`", name=error.name) from error

from . import _c_api
from ._apex import networks_of, refuse_other_envs
from ._config import (RunConfigs, Settings, apex_configs, apex_networks, make_spec, network_settings, policy_config,
                      settings_of_buffer, set_envs)
from ._door import own_words
from ._envs import absolute, open_envs
from ._flatten import translation_of
from ._inputs import integer
from ._library import (Closed, FileError, GpureplayError, Interrupted, InvalidArgument, WouldBlock, check, lib,
                       tells_not_finite)
from ._options import APEX, refuse_unknown, system_of
from ._policy import Policy
from ._python_envs import PythonEnvs
from ._run_folder import FILE, check_folders
from ._schema import fields_of
from ._train import Training, TrainResult, train
from ._tuples import ApexStats

_WAITING = 4  # blocks of an actor that wait while others are on their way; without a limiter
_IN_FLIGHT = 8  # calls of one process to the learner that Ray accepts; an actor has one
_QUICK_FAILURES = 5  # of an actor in a row, before anything of it was received, after which the training ends
_LEARNER_RESTARTS = 10
_GONE = 0.2  # seconds between two tries to reach a learner that is being restarted
_FAREWELL = 5.0  # seconds for actors to end
_LAST_WORDS = 60.0  # seconds for the learner to write the files of a training that has failed
_LONGEST_WAIT = 60.0  # seconds before an actor begins that has died again and again
_LOOK = 1.0  # seconds between two looks at the statistics
_MISSING_AFTER_SECONDS = 60.0  # seconds after which it is said that actors are missing
_NEW_WEIGHTS = 16e6  # bytes of weights that each machine may have to fetch in a second
_ENDED = "ended"  # what `take` returns then
_log = logging.getLogger("gpureplay")


class ActorFailed(GpureplayError, RuntimeError):
    """An actor has ended by an error, or by that of its environment.
    sent: blocks that had arrived before.

        try:
            result = gpureplay.ray.ApeX("CartPole-v1", actors=4).train(100_000)
        except gpureplay.ray.ActorFailed as error:
            print(error, error.sent)
    """

    def __init__(self, text: str, sent: int):
        super().__init__(text, sent)
        self.sent = sent

    def __str__(self) -> str:
        return str(self.args[0])


class _Ended(Exception):
    """The training has ended, and so does the actor."""


def _answer(ask: Callable[[], Any]) -> Any:
    """What a call gives. While the learner is away, being restarted, it is asked again. ActorDiedError: it is not
    restarted any more."""
    while True:
        try:
            return ray.get(ask())
        except ActorDiedError:
            raise
        except RayActorError:
            time.sleep(_GONE)


# The learner.


class _Training(Training):
    """A training whose actors are elsewhere."""

    actors = 0
    _words = "--engine ray"

    @property
    def run(self) -> Any:
        return self._run

    def _place_actors(self) -> None:
        """The library's settings keep their number, which is an option."""
        apex = self._part("apex")
        self.actors = apex.remote_actors = apex.actors
        self._processes = False

    def _run_configs(self) -> RunConfigs:
        configs = super()._run_configs()
        configs.own.actors = 0
        return configs

    def actor_settings(self) -> Settings:
        """What an actor has to know."""
        return {"env": self._env, "env_options": self._env_options,
                "buffer": settings_of_buffer(self._buffer._spec),
                "networks": list(map(network_settings, networks_of(self._agent))),
                "apex": {**self._run.config, "actors": self.actors, "remote_actors": 0, "processes": False}}


class Learner:
    """The process with the replay and the learner, as an actor of Ray. `train` runs in a thread of its own, and so does
    `take`. When Ray has restarted the process, it calls `train` again, which goes on from the last checkpoint."""

    def __init__(self, given: Settings):
        self._given = given
        self._training: _Training | None = None
        self._is_open, self._has_ended = threading.Event(), False
        self._started = time.time_ns()
        self._incarnation = 0
        self._starts: dict[int, int] = {}  # of each actor since something of it was received
        self._began = time.monotonic()
        self._failure: str | None = None  # why the training cannot go on
        self._calls: dict[int, Any] = {}  # the last one of each actor
        self._weights: Any = None  # the object, and its number
        self._broadcasts, self._next = 0, 0.0  # next: when there may be a newer object
        self._metrics: dict[str, Any] = {}
        self._counted: dict[str, float] = {}

    def _open(self) -> _Training:
        given, out = self._given, self._given["out"]
        with warnings.catch_warnings():  # it uses a name of Ray's own that is deprecated
            warnings.simplefilter("ignore")
            was_restarted = bool(ray.get_runtime_context().was_current_actor_reconstructed)
        goes_on = given["resume"] is not None or (was_restarted and out is not None and Path(out, FILE).exists())
        place = {"out": None, "resume": out if given["resume"] is None else given["resume"]} if goes_on else {}
        training = _Training({**given, **place, "refill": given["refill"] and goes_on}, begins_again=was_restarted)
        training.create()
        training.open()
        training.begin()
        return training

    def _opened(self) -> _Training:
        self._is_open.wait()
        if self._training is None:
            raise InvalidArgument("the training could not begin")
        return self._training

    def train(self) -> Settings:
        """The whole training. Returns what `TrainResult` has, and how to make its policy."""
        try:
            self._training = self._open()
        finally:
            self._is_open.set()
        try:
            result = self._training.run_to_the_end()
        finally:
            self._has_ended = True
        policy = Policy.for_learner(result.agent, max_batch=1)
        weights = policy.get_weights()
        policy.close()
        policy_settings = {"obs": result.agent._obs[1:], **network_settings(networks_of(result.agent)[0])}
        return {"policy": policy_settings, "weights": weights, "buffer": None, "episodes": result.episodes,
                "evaluations": result.evaluations, "rates": result.rates, "stats": result.stats,
                "config": result.config, "folder": result.folder}

    def stop(self) -> None:
        """Ends the training after a checkpoint, where there are any."""
        self._opened().interrupt()

    def settings(self) -> Settings:
        """What an actor has to know."""
        return {**self._opened().actor_settings(), "version": lib.gpur_version()}

    def begin(self, actor: int) -> tuple[int, float]:
        """An actor begins, for the first time or again. Returns its incarnation and how many seconds it has to wait
        before it acts: longer and longer if it dies again and again. Incarnations have rising numbers: milliseconds by
        this process's clock."""
        run = self._opened().run
        self._incarnation = max(self._incarnation + 1, time.time_ns() // 10**6)
        with contextlib.suppress(Closed):  # the training has ended
            run._call(lib.gpur_apex_receive_start, actor, self._incarnation)
        self._starts[actor] = self._starts.get(actor, 0) + 1
        deaths = self._starts[actor] - 1
        wait = min(0.025 * 2.0**min(deaths, 60), _LONGEST_WAIT) if deaths else 0.0
        if deaths >= _QUICK_FAILURES and all(map(self._is_given_up, range(self._opened().actors))):
            self._failure = (f"actor {actor}: its process died {deaths} times in a row before anything of it was "
                             "received, and so did those of all others")
        if deaths:
            _log.warning("actor %d has begun %d times in a row with nothing received of it; it acts in %.2g s", actor,
                         deaths + 1, wait)
        return self._incarnation, wait

    def is_over(self) -> bool:
        """Whether an actor that waits need not begin any more."""
        return self._has_ended

    def _is_given_up(self, actor: int) -> bool:
        """Also one that found no place for long."""
        if actor not in self._starts:
            return time.monotonic() > self._began + _MISSING_AFTER_SECONDS
        return self._starts[actor] > _QUICK_FAILURES

    def take(self, actor: int, known: Any, episodes: list[tuple[int, float]], *blocks: np.ndarray,
             call: Any = None) -> Any:
        """Takes what an actor has made: lengths and returns of episodes, and blocks, which lie in the memory of Ray's
        object store while they are appended. Waits as the limiter says. Returns the newest weights: their number and,
        in a list, their object; None: none but those of the number `known`. _ENDED: the training has ended. `call`: the
        call's own number, by which one that Ray repeats is known."""
        run = self._opened().run
        try:
            if call is not None and call == self._calls.get(actor):
                return self._newest(run, known)
            for length, value in episodes:
                run._call(lib.gpur_apex_receive_episode, actor, length, value)
            for block in blocks:
                self._receive(run, np.frombuffer(block, np.uint8))
                self._starts[actor] = 0
            self._calls[actor] = call
            return self._newest(run, known)
        except (Closed, Interrupted):
            return _ENDED

    def _receive(self, run: Any, block: np.ndarray) -> None:
        while True:
            try:
                run._call(lib.gpur_apex_receive_block, block.ctypes.data, block.size)
                return
            except WouldBlock:  # a checkpoint is being saved, say
                if self._has_ended:
                    raise Interrupted("the training has ended") from None
            except (FileError, InvalidArgument) as error:
                if isinstance(error, Closed):
                    raise
                _log.warning("a block is refused: %s", error)
                return

    def _newest(self, run: Any, known: Any) -> Any:
        broadcasts = ctypes.c_int64()
        run._call(lib.gpur_apex_get_weights, None, 0, ctypes.addressof(broadcasts))
        if broadcasts.value > self._broadcasts and time.monotonic() >= self._next:
            weights = np.empty(run._invoke(lib.gpur_apex_weights_bytes), np.uint8)
            self._next = time.monotonic() + weights.size / _NEW_WEIGHTS
            run._call(lib.gpur_apex_get_weights, weights.ctypes.data, weights.size, ctypes.addressof(broadcasts))
            self._broadcasts, self._weights = broadcasts.value, ray.put(weights)
        number = (self._started, self._broadcasts)
        return None if self._weights is None or number == known else (number, [self._weights])

    def stats(self) -> ApexStats:
        """Statistics, which become metrics of Ray, too: gpureplay_env_steps, and so on. ActorFailed: all actors have
        died again and again; Ray would start them for ever."""
        if self._failure is not None:
            raise ActorFailed(self._failure, 0)
        stats: ApexStats = self._opened().run.stats
        for name, value in stats._asdict().items():
            is_count = isinstance(value, int) and name not in ("actors", "eval_episode")
            metric = self._metrics.get(name)
            if metric is None:
                metric = self._metrics[name] = (Counter if is_count else Gauge)(f"gpureplay_{name}", f"{name} of Ape-X")
            if not is_count:
                metric.set(value)
            elif value > self._counted.get(name, 0):
                metric.inc(value - self._counted.get(name, 0))
                self._counted[name] = value
        return stats


# Actors.


class _Link:
    """Between an actor and the learner: one call at a time, which has all blocks that wait. So blocks arrive in their
    order, and what waits is bounded. waits: none does, since the actor goes on when its block has arrived."""

    def __init__(self, learner: Any, actor: int):
        self._learner, self._actor = learner, actor
        self.waits = False
        self._blocks: list[np.ndarray] = []
        self._episodes: list[tuple[int, float]] = []
        self._sent: tuple[Any, ...] = ()
        self._began, self._count = time.time_ns(), 0  # of this process, and its calls
        self._call: Any = None
        self._number: Any = None  # of the newest weights, and their object
        self._weights: Any = None
        self._is_new = self._has_weights = False  # is_new: they were not copied yet
        self.arrived = 0
        self.raised: list[BaseException] = []
        self.transport = transport = _c_api.ApexTransport()
        for name in ("take_block", "take_episode", "copy_weights"):
            kind = dict(_c_api.ApexTransport._fields_)[name]
            setattr(transport, name, kind(self._guarded(getattr(self, name))))

    def _guarded(self, function: Callable[..., None]) -> Callable[..., int]:
        """An exception cannot pass through C: it ends the actor."""
        def call(_user: int | None, *arguments: Any) -> int:
            try:
                function(*arguments)
            except BaseException as error:
                self.raised.append(error)
            return int(bool(self.raised))

        return call

    def _ask(self) -> Any:
        return self._learner.take.options(concurrency_group="take").remote(*self._sent, call=(self._began, self._count))

    def _begin(self) -> None:
        self._sent = self._actor, self._number, self._episodes, *self._blocks
        self._episodes, self._blocks = [], []
        self._count += 1
        self._call = self._ask()

    def _end(self) -> None:
        """Waits for the call. A learner that was restarted gets the same blocks again: it has lost them."""
        calls = itertools.chain([self._call], iter(self._ask, None))
        newest = _answer(lambda: next(calls))
        self.arrived += len(self._sent) - 3
        self._call, self._sent = None, ()
        if newest == _ENDED:
            raise _Ended
        if newest is not None:
            self._number, (self._weights,) = newest
            self._is_new = True

    def _is_done(self) -> bool:
        return bool(ray.wait([self._call], timeout=0)[0])

    def take_block(self, address: int, size: int) -> None:
        """Ray puts arrays of 100 KB and more into its object store, and sends smaller ones with the call."""
        self._blocks.append(np.frombuffer(ctypes.string_at(address, size), np.uint8))
        if self._call is not None and (len(self._blocks) >= _WAITING or self._is_done()):
            self._end()
        if self._call is None:
            self._begin()
        if self.waits:
            self._end()

    def take_episode(self, length: int, value: float) -> None:
        self._episodes.append((length, value))

    def copy_weights(self, address: int, size: int, is_new: int) -> None:
        if self._call is not None and self._is_done():
            self._end()
        while self._number is None:
            self._begin()
            self._end()
            if self._number is None:
                time.sleep(_GONE)
        if not self._is_new:
            return
        self._is_new = False
        try:
            weights = ray.get(self._weights)  # of all actors of a machine the first one fetches them
        except RayError:  # they went away with the learner
            if not self._has_weights:
                self._number = None
                self.copy_weights(address, size, is_new)
            return
        if weights.size != size:
            raise InvalidArgument(f"the weights of this actor have {size} bytes, and those of the learner "
                                  f"{weights.size}; the networks must be the same")
        ctypes.memmove(address, weights.ctypes.data, size)
        ctypes.c_int32.from_address(is_new).value = 1
        self._has_weights = True


class Actor:
    """An actor of Ape-X in a process of its own, as an actor of Ray: an environment, and a policy on the CPU. When Ray
    has restarted the process, it makes the object and calls `run` again. The learner hears of each process as it
    begins, so that it can count those that are killed at once.

        actor = ray.remote(gpureplay.ray.Actor).remote(0, [learner])
        ray.get(actor.run.remote())
    """

    def __init__(self, actor: int, learner: list[Any]):
        """learner: in a list, as Ray warns of handles that are arguments themselves."""
        self._actor, self._learner = actor, learner[0]
        self._begun: tuple[int, float] | None = self._begin()

    def _begin(self) -> tuple[int, float]:
        begun: tuple[int, float] = _answer(lambda: self._learner.begin.remote(self._actor))
        return begun

    def _wait(self, seconds: float) -> None:
        """_Ended: it need not begin."""
        end = time.monotonic() + seconds
        while True:
            if _answer(lambda: self._learner.is_over.remote()):
                raise _Ended
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _LOOK))

    def run(self) -> None:
        """Acts until the training has ended. ActorFailed: the environment refused, say."""
        link = _Link(self._learner, self._actor)
        try:
            incarnation, seconds = self._begun or self._begin()
            self._begun = None  # of the next call
            self._wait(seconds)
            settings = _answer(lambda: self._learner.settings.remote())
            self._act(self._actor, {**settings, "incarnation": incarnation}, link)
        except _Ended:
            return
        except RayActorError:  # of the learner
            raise
        except Exception as raised:
            error = raised.cause if isinstance(raised, RayTaskError) else raised  # of the learner, or of this process
            text = str(error) if isinstance(error, GpureplayError) else f"{type(error).__name__}: {error}"
            raise ActorFailed(text, link.arrived) from error

    def _act(self, actor: int, given: Settings, link: _Link) -> None:
        if given["version"] != lib.gpur_version():
            raise InvalidArgument(f"this actor has gpureplay {lib.gpur_version().decode()}, and the learner "
                                  f"{given['version'].decode()}; all machines must have the same")
        buffer = dict(given["buffer"])
        fields = fields_of({name: tuple(field) for name, field in buffer.pop("fields").items()})
        spec = make_spec(fields, buffer.pop("capacity"), None, buffer)
        networks = [policy_config(None, settings).network for settings in given["networks"]]
        both = apex_networks(networks)
        envs = open_envs(given["env"], options=given["env_options"] or None)
        if isinstance(envs, PythonEnvs):
            envs.tells_place = True
        envs.open()
        common, own = apex_configs(given["apex"])
        set_envs(common, envs.type, None, envs.options)
        link.waits = own.samples_per_insert > 0
        try:
            status = lib.gpur_apex_act(ctypes.addressof(common), ctypes.addressof(own), actor, given["incarnation"],
                                       ctypes.addressof(spec.config), ctypes.addressof(both), 0,
                                       ctypes.addressof(link.transport))
            for error in link.raised:
                raise error
            check(status)
        finally:
            envs.close()


# The program that begins it.


class ApeX:
    """Ape-X with actors and learner on a cluster of Ray: that of RAY_ADDRESS, of ray.init, or of this machine.

    env, preset: as for `gpureplay.train` with a preset of Ape-X ("apex-dqn"). All machines must have gpureplay, what
        makes the environment, and the same version of both. actors: how many, each in a process of its own (8).
    resources: options of Ray (`ray.remote`) for the "actor"s and the "learner": {"actor": {"num_cpus": 0.5}, "learner":
        {"num_gpus": 1, "num_cpus": 4}}. By default each has one CPU, and the learner a GPU if `device` is one. Actors
        are restarted without a limit ("max_restarts" -1), the learner 10 times.
    on_stats: is called about every second and at the end, with a dict of the members of `ApexStats`, in the thread that
        calls `train`: ray.tune.report, say. What it raises ends the training, whose files are written, and is raised
        then.
    refill: a learner that was restarted, or `resume`, begins with an empty buffer.
    options: the others of `gpureplay.train`, but processes and folder: out, seed, samples_per_insert, ... Files are
        written where the learner is. Give `out` a folder that all machines see: then a learner that has died goes on
        from its last checkpoint, wherever it is restarted. Without `out` it begins anew.
    """

    def __init__(self, env: str | None = None, preset: str | None = None, *, actors: int | None = None,
                 resources: Mapping[str, Mapping[str, Any]] | None = None,
                 on_stats: Callable[[dict[str, Any]], Any] | None = None, refill: bool = False, **options: Any):
        for name in ("processes", "folder"):
            if options.get(name) is not None:
                raise InvalidArgument(f"{name} is {options[name]!r}; on Ray it must be left out")
        check_folders(options)
        if options.get("device") not in (None, "auto", "cpu", "cuda", "cuda:0"):
            raise InvalidArgument(f"device is {options['device']!r}; it must be auto, cpu or cuda: Ray gives the "
                                  "learner a GPU, which is its cuda:0")
        if preset is None and options.get("resume") is None:
            preset = "apex-dqn"
        if preset is not None and system_of(preset) not in APEX:
            raise InvalidArgument(f"preset is {preset!r}; it must be one of Ape-X: apex-dqn, apex-dpg, or one of them "
                                  "with -small")
        if env is not None:
            refuse_other_envs(env)
            env = absolute(env)
        for name in ("out", "resume"):
            if options.get(name) is not None:
                options[name] = os.path.abspath(options[name])
        self._resources = {"actor": {}, "learner": {}, **(resources or {})}
        if len(self._resources) > 2:
            raise InvalidArgument(f"resources is {resources!r}; it must have no other names than \"actor\" and "
                                  "\"learner\"")
        if actors is not None:
            integer("actors", actors, 1, _c_api.APEX_MAX_ACTORS)
        named: dict[str, Any] = train.__kwdefaults__ or {}  # arguments that are no options of the library
        refuse_unknown((name for name in options if name not in named), "ApeX", APEX)
        self._given = {**named, **options, "env": env, "preset": preset, "actors": actors, "refill": refill}
        self._on_stats = on_stats

    def train(self, steps: int | None = None) -> TrainResult:
        """Trains for so many environment steps of all actors; None: as many as the options or the preset say. Returns
        the result of `gpureplay.train`, in which `agent` is a `Policy` on the CPU, and `buffer` is None.

        Ctrl-C ends the training; its files are written, with a checkpoint, and KeyboardInterrupt is raised. Errors are
        those of `gpureplay.train`; ActorFailed: an actor failed, or all died, 5 times in a row before anything of them
        was received, or an environment showed a number that is NaN or infinite; ray.exceptions.ActorDiedError: the
        learner was restarted too often; ConnectionError: there is no cluster where RAY_ADDRESS says, or it has another
        token."""
        _join()
        given = {**self._given, **({} if steps is None else {"steps": steps})}
        with own_words(system_of(given["preset"])):
            return self._train(_Cluster(given, self._resources))

    def _train(self, cluster: _Cluster) -> TrainResult:
        try:
            return _result_of(self._watch(cluster))
        except RayTaskError as error:
            if isinstance(error.cause, (GpureplayError, OSError, ValueError, TypeError, ImportError)):
                raise error.cause from None
            raise
        except (KeyboardInterrupt, SystemExit):  # the latter by SIGTERM, for which ray.init has a handler
            cluster.stop()
            raise
        except ActorFailed:
            cluster.stop(_LAST_WORDS)
            raise
        finally:
            cluster.kill()

    def _watch(self, cluster: _Cluster) -> Settings:
        begun, has_warned = time.monotonic(), False
        while not cluster.is_done(_LOOK):
            stats = cluster.stats()
            if stats is None:
                continue
            self._report(cluster, stats)
            if not has_warned and time.monotonic() > begun + _MISSING_AFTER_SECONDS and stats.actors < cluster.actors:
                has_warned = True
                _log.warning("of %d actors %d have sent something in the last minute; `ray status` tells whether there "
                             "is room for the others", cluster.actors, stats.actors)
        found = cast(Settings, ray.get(cluster.done))
        self._report(cluster, found["stats"])
        return found

    def _report(self, cluster: _Cluster, stats: ApexStats) -> None:
        try:
            if self._on_stats is not None:
                self._on_stats(stats._asdict())
        except Exception:
            cluster.stop()
            raise


def _join() -> None:
    """Joins the cluster, unless the program has done so."""
    if ray.is_initialized():
        return
    try:
        ray.init()
    except RayError as error:  # what it says of a token that is missing is enough
        raise ConnectionError(str(error)) from error
    except ConnectionError as error:
        raise ConnectionError(f"{error}: either no cluster is there, or it has another token than this program. All of "
                              "a cluster need the same one, in ~/.ray/auth_token or RAY_AUTH_TOKEN, and "
                              "RAY_AUTH_MODE=token, or all none") from error


def _result_of(found: Settings) -> TrainResult:
    policy = Policy(found["policy"].pop("obs"), device="cpu", **found.pop("policy"))
    policy.set_weights(found.pop("weights"))
    policy._translation = translation_of(found["config"]["environment"])
    return TrainResult(agent=policy, **found)


def _wishes(options: Mapping[str, Any]) -> dict[str, float]:
    """What an actor of Ray with these options takes, by the names of `ray.cluster_resources`."""
    named = {"CPU": options.get("num_cpus"), "GPU": options.get("num_gpus"), "memory": options.get("memory")}
    return {name: value for name, value in {**named, **(options.get("resources") or {})}.items() if value}


def _unit(name: str, count: float) -> str:
    return f"bytes of {name}" if name == "memory" else name + ("s" if name in ("CPU", "GPU") and count != 1 else "")


def _share_of(cpus: Sequence[float], actors: int, of_learner: float) -> float:
    """The most CPUs of an actor, in hundredths, with which all have a place on machines that have so many, wherever the
    learner is; 0: none."""
    rests = [[free - of_learner * (i == at) for i, free in enumerate(cpus)] for at, most in enumerate(cpus)
             if most >= of_learner]

    def has_room(share: float) -> bool:
        return all(sum(int(free / share + 1e-6) for free in rest if free > 0) >= actors for rest in rests)

    shares = {int(100 * free / count + 1e-6) / 100 for free in {x for rest in rests for x in rest if x > 0}
              for count in range(1, actors + 1)}
    return max((share for share in shares if share > 0 and has_room(share)), default=0.0)


class _Cluster:
    """Learner and actors, as the program that began them sees them."""

    def __init__(self, given: Settings, resources: Mapping[str, Mapping[str, Any]]):
        device = str(given["device"] or "auto")
        # First, as it refuses options that Ray does not have: nothing has begun yet.
        self._make_actor: Any = ray.remote(**{"num_cpus": 1, "max_restarts": -1, **resources["actor"]})(Actor)
        on_gpu = device.startswith("cuda") or (device == "auto" and ray.cluster_resources().get("GPU", 0) > 0)
        options = {"num_cpus": 1, "num_gpus": int(on_gpu), "max_restarts": _LEARNER_RESTARTS,
                   "max_pending_calls": _IN_FLIGHT, "concurrency_groups": {"train": 1, "take": 1},
                   **resources["learner"]}
        self._of_learner, self._of_actor = _wishes(options), _wishes({"num_cpus": 1, **resources["actor"]})
        self._say_what_lacks(0)
        self._learner: Any = ray.remote(**options)(Learner).remote(given)
        self.done: Any = self._learner.train.options(concurrency_group="train", max_task_retries=-1).remote()
        self._actors: list[Any] = []
        self._runs: dict[Any, int] = {}  # the call of each actor
        self._failures: dict[int, int] = {}  # in a row
        self._has_ended = False  # an actor has heard that the training has
        self._wanted: Any = self._learner.settings.remote()  # tells how many actors there are
        self._asked: Any = None

    @property
    def actors(self) -> int:
        return len(self._actors)

    def is_done(self, seconds: float) -> bool:
        """Whether the training has ended. Waits for something to happen."""
        waiting = [self.done, *([] if self._wanted is None else [self._wanted]), *self._runs]
        ready = ray.wait(waiting, timeout=seconds)[0]
        if self.done in ready:
            return True
        for call in ready:
            if call in self._runs:
                self._see_to(call)
            else:
                self._start()
        return False

    def _start(self) -> None:
        wanted, self._wanted = self._wanted, None
        try:
            actors = ray.get(wanted)["apex"]["actors"]
        except RayActorError:  # the learner has died early
            self._wanted = self._learner.settings.remote()
            time.sleep(_GONE)
            return
        except RayTaskError:  # `done` tells why
            return
        self._say_what_lacks(actors)
        self._actors = [self._make_actor.remote(i, [self._learner]) for i in range(actors)]
        for i in range(actors):
            self._run(i)

    def _say_what_lacks(self, actors: int) -> None:
        """Warns if learner and actors want more than the whole cluster has. Ray itself would report it much later. It
        is no error, since more machines may come."""
        there = ray.cluster_resources()
        for name, each in self._of_actor.items() if actors else self._of_learner.items():
            beside = self._of_learner.get(name, 0) if actors else 0
            free, wanted = max(there.get(name, 0) - beside, 0), actors * each if actors else each
            if wanted <= free + 1e-6:
                continue
            who = f"{actors} actors want {wanted:g}" if actors else f"the learner wants {each:g}"
            advice = self._advice(actors, beside) if actors and name == "CPU" else ""
            _log.warning("%s %s, and %g %s there%s%s. Those without a place wait until machines join the cluster", who,
                         _unit(name, wanted), free, "is" if free == 1 else "are",
                         f" beside the learner's {beside:g}" if beside else "", advice)

    @staticmethod
    def _advice(actors: int, of_learner: float) -> str:
        """Resources by which all have a place, the learner's changed only if it must be."""
        cpus = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        for less in (of_learner, of_learner / 2):
            share = _share_of(cpus, actors, less)
            if share:
                learner = "" if less == of_learner else f'"learner": {{"num_cpus": {less:g}}}, '
                return f': resources={{{learner}"actor": {{"num_cpus": {share:g}}}}} gives all of them a place'
        return ""

    def _run(self, actor: int) -> None:
        call = self._actors[actor].run.options(max_task_retries=-1).remote()
        self._runs[call] = actor

    def _see_to(self, call: Any) -> None:
        """An actor has ended."""
        actor = self._runs.pop(call)
        try:
            ray.get(call)
            self._has_ended = True
            return
        except RayTaskError as error:
            failure = error.cause
            if not isinstance(failure, ActorFailed):
                raise
            _log.warning("actor %d: %s", actor, failure)
            if tells_not_finite(str(failure)):  # the next start would show it again
                raise ActorFailed(f"actor {actor}: {failure}", failure.sent) from None
            self._failures[actor] = 0 if failure.sent else self._failures.get(actor, 0) + 1
            if self._failures[actor] >= _QUICK_FAILURES:
                raise ActorFailed(f"actor {actor}: {failure} (for the 5th time in a row it failed before anything of "
                                  "it was received)", 0) from None
            time.sleep(0.025 * 2**self._failures[actor])
        except ActorDiedError as error:
            _log.warning("actor %d is gone for good: %s", actor, error)
            if not self._runs and not self._has_ended:
                raise ActorFailed(f"actor {actor} is gone for good, as all others are: {error}", 0) from None
            return
        except RayActorError:  # it is being restarted
            time.sleep(_GONE)
        self._run(actor)

    def stats(self) -> ApexStats | None:
        """The last statistics. None: the learner has not answered since the last ones."""
        if self._asked is None:
            self._asked = self._learner.stats.remote()
        if not ray.wait([self._asked], timeout=0)[0]:
            return None
        asked, self._asked = self._asked, None
        try:
            return cast(ApexStats, ray.get(asked))
        except RayError as error:
            failure = error.cause if isinstance(error, RayTaskError) else None
            if isinstance(failure, ActorFailed):
                raise failure from None
            return None

    def stop(self, seconds: float | None = None) -> None:
        """Asks the learner to end the training, and waits for its files. A second Ctrl-C ends the wait."""
        self._learner.stop.remote()
        ray.wait([self.done], timeout=seconds)

    def kill(self) -> None:
        """Actors have a moment to end by themselves. Of one that is killed in a call Ray says that it tries again."""
        if self._runs and ray.wait([self.done], timeout=0)[0]:
            ray.wait([*self._runs], num_returns=len(self._runs), timeout=_FAREWELL)
        for handle in (*self._actors, self._learner):
            ray.kill(handle)
