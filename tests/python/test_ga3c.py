# SPDX-License-Identifier: MIT
"""GA3C, A3C and A2C: learning, what they count, environments in Python, threads that come and go, files, and what is
refused."""

import importlib
import math
import os
import signal
import threading
from contextlib import nullcontext

import gpureplay
import gymnasium
import numpy as np
import pytest
from gpureplay._config import ga3c_preset
from gpureplay._envs import open_envs
from support import needs_files

SYSTEMS = ("ga3c", "a3c", "a2c")


def make(shape=(4,), actions=2, **settings):
    return gpureplay.ActorCritic((shape, "float32"), actions, device="cpu", **{"trunk": [16], "seed": 1, **settings})


def start(learner=None, env="CartPole-v1", **settings):
    return gpureplay.GA3C(make() if learner is None else learner, env,
                          **{"agents": 4, "predictors": 2, "trainers": 1, "seed": 3, **settings})


def weights_of(learner):
    return {name: tensor.tobytes() for name, tensor in learner.weights.items()}


# Learning.


def test_cartpole_is_learned_by_a_preset():
    found = ga3c_preset("ga3c-small", open_envs("CartPole-v1").type, b"")
    learner = gpureplay.ActorCritic(device="cpu", **{**found.learner, "seed": 2})
    with gpureplay.GA3C(learner, "CartPole-v1", **{**found.run, "agents": 8, "predictors": 1, "trainers": 1}) as run:
        assert run.evaluate(100) < 60  # a random policy's is about 22
        while run.evaluate(30) <= 100:
            assert run.stats.env_steps < 200_000, run.stats
            run.advance(20_000)


@pytest.mark.parametrize("preset", ["ga3c-small", "a3c-small", "a2c-small"])
def test_presets_are_settings_of_a_learner_and_a_run(preset):
    envs = open_envs("MinAtar/Breakout")
    found = ga3c_preset(preset, envs.type, envs.options)
    assert found.run["system"] == preset.partition("-")[0] and found.learner["head"] == "softmax_value"
    learner = gpureplay.ActorCritic(device="cpu", **{**found.learner, "max_batch": 64})
    with gpureplay.GA3C(learner, "MinAtar/Breakout", **{**found.run, "agents": 4}) as run:
        assert run.config == {**found.run, "agents": 4}
        wanted = {name: value for name, value in found.learner.items() if name not in ("obs", "max_batch")}
        assert {name: learner.config[name] for name in wanted} == {**wanted, "math": "fp32"}
        run.advance(100)
        assert run.stats.env_steps == 100 and learner.steps == run.stats.train_steps > 0


@pytest.mark.parametrize("env", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_a2c_gives_equal_weights_with_equal_seeds(env):
    found = {}
    for name, seed, calls in (("one", 5, (900,)), ("split", 5, (331, 569)), ("other", 6, (900,))):
        learner = make()
        with start(learner, env, system="a2c", seed=seed) as run:
            for steps in calls:
                run.advance(steps)
        found[name] = weights_of(learner)
    assert found["one"] == found["split"] != found["other"]


# Counts and events.


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_it_counts_adds_up(system):
    learner, events = make(), []
    with start(learner, system=system, drop_terminal=True, min_train_batch=7 if system == "ga3c" else 0,
               on_event=events.append) as run:
        run.advance(700)
        run.advance(301)
        stats, config = run.stats, run.config
        assert stats.env_steps == 1001 and f"1001 steps; system='{system}', agents=4" in repr(run)
    assert config["system"] == system and config["drop_terminal"] is True and config["when_full"] == "wait"
    wanted = 2 if system == "ga3c" else 1
    assert (stats.agents, stats.predictors, stats.trainers) == (4, wanted, 1)
    assert 0 <= stats.env_steps - stats.trained_rows - stats.dropped_rows <= 4 * config["t_max"]
    assert stats.dropped_rows == stats.episodes == len(events) > 0  # the terminal ones, and there are no others
    assert len(stats.lags) == 64 and sum(stats.lags) == stats.trained_rows
    assert stats.train_steps == learner.steps <= stats.training_batches
    assert (stats.train_steps < stats.training_batches) == (system != "a3c")  # rollouts are joined
    assert (stats.predictions >= 1001) == (system != "a3c")
    assert stats.seconds > 0 and stats.train_seconds > 0 and stats.learning_rate == pytest.approx(3e-4)
    if system == "a2c":
        assert stats.largest_lag == 0
    assert all(event.kind == "episode" and event.mean_return == event.length for event in events)
    assert {event.env_index for event in events} <= set(range(4)) and sum(event.length for event in events) <= 1001
    assert stats.recent_return == pytest.approx(np.mean([event.mean_return for event in events[-100:]]))


def test_a_tuner_measures_its_numbers():
    events = []
    with start(tuner="code", tuner_period=0.02, tuner_settling=0.0, max_agents=6, on_event=events.append) as run:
        while sum(event.kind == "tuned" for event in events) < 3:
            run.advance(500)
    tuned = [event for event in events if event.kind == "tuned"]
    assert (tuned[0].agents, tuned[0].predictors, tuned[0].trainers, tuned[0].accepted) == (4, 2, 1, True)
    assert all(event.rate >= 0 and 1 <= event.agents <= 6 for event in tuned)


@pytest.mark.parametrize("tuner", [None, "none"])
def test_without_a_tuner_numbers_stay(tuner):
    with start(tuner=tuner, tuner_period=1e-6, tuner_settling=0.0) as run:
        run.advance(500)
        assert run.config["tuner"] == "none" and run.stats.agents == 4


@needs_files
def test_the_learning_curve_has_a_name(tmp_path):
    gpureplay.train("CartPole-v1", preset="ga3c-small", steps=2000, device="cpu", progress=False,
                    eval_episodes=0, out=tmp_path / "run")
    (runs,) = importlib.import_module("gpureplay.plot").read_runs([tmp_path / "run"])
    assert runs.label.startswith("CartPole-v1, ga3c, ") and runs.label.endswith(" agents")


# Stopping, and threads that come and go.


def test_a_run_is_stopped_and_goes_on():
    answers = []
    with start(on_event=lambda event: answers.pop() if answers else None) as run:
        answers.append(False)
        with pytest.raises(gpureplay.Interrupted, match="the run was stopped after"):
            run.advance(10**9)
        assert run.was_stopped_by_event
        run.stop()
        with pytest.raises(gpureplay.Interrupted):
            run.advance(10**9)
        before = run.stats.env_steps
        run.advance(100)
        assert run.stats.env_steps == before + 100
    assert run.closed and "closed" in repr(run)
    with pytest.raises(gpureplay.Closed):
        run.advance(1)


def test_what_on_event_raises_stops_the_run():
    acts = [lambda: 1 / 0]
    with start(on_event=lambda event: acts.pop()() if acts else None) as run:
        with pytest.raises(ZeroDivisionError):
            run.advance(10**9)
        before = run.stats.env_steps
        run.advance(100)
        assert run.stats.env_steps == before + 100


@pytest.fixture
def has_sigint():
    """Python's handler also where a shell started the tests in the background, for which SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@needs_files
@pytest.mark.parametrize("raises", [False, True])
def test_the_weights_of_an_evaluation_are_saved_in_on_event_alone(tmp_path, raises):
    events = []

    def keep(event):
        events.append(event)
        event.weights.save(tmp_path / "policy.safetensors")
        if raises:
            raise KeyError("mine")

    learner = make()
    with start(learner, on_event=keep) as run, pytest.raises(KeyError, match="mine") if raises else nullcontext():
        run.evaluate(2)
    (event,) = events
    assert event.agent is learner and event.version == 0
    with pytest.raises(gpureplay.InvalidArgument, match="can be saved until on_event returns, and it has returned"):
        event.weights.save(tmp_path / "late.safetensors")
    assert not (tmp_path / "late.safetensors").exists()
    with gpureplay.Policy.open(tmp_path / "policy.safetensors", device="cpu") as policy:
        assert policy.version == 0


@pytest.mark.usefixtures("has_sigint")
def test_ctrl_c_stops_the_run():
    signals = [signal.SIGINT]
    with start(on_event=lambda event: os.kill(os.getpid(), signals.pop()) if signals else None) as run:
        with pytest.raises(KeyboardInterrupt):
            run.advance(10**9)
        before = run.stats.env_steps
        run.advance(100)
        assert run.stats.env_steps == before + 100


@pytest.mark.parametrize("system", SYSTEMS)
def test_numbers_of_threads_change_while_it_runs(system):
    wanted = [(2, 1, 2), (7, 3, 1), (1, 1, 1), (4, 2, 2)]
    done = threading.Event()

    def note(_event):
        if wanted:
            run.set_counts(*wanted.pop(0))

    def change():
        for count in (3, 9, 5):
            run.set_counts(count, 1, 1)
        done.set()

    with start(system=system, on_event=note) as run:
        while wanted:
            run.advance(50)
        other = threading.Thread(target=change)
        other.start()
        while not done.is_set():
            run.advance(50)
        other.join()
        run.advance(200)
        stats = run.stats
    assert (stats.agents, stats.predictors, stats.trainers) == (5, 1, 1) and stats.env_steps % 50 == 0
    assert 0 <= stats.env_steps - stats.trained_rows - stats.dropped_rows <= 5 * 5


def test_a_learner_closes_its_runs():
    learner = make()
    run = start(learner)
    run.advance(100)
    learner.close()
    with pytest.raises(gpureplay.Closed, match="this run was closed with its learner"):
        run.advance(1)


# Environments in Python.


class Corridor(gymnasium.Env):
    """The goal is to the right, which action 2 goes to."""

    observation_space = gymnasium.spaces.Box(0, 1, (6,), np.float64)
    action_space = gymnasium.spaces.Discrete(2, start=1)

    def __init__(self, error=None, after=100):
        self.at, self.total, self.error, self.after = 2, 0, error, after
        self.seeds, self.closed = [], False

    def reset(self, *, seed=None, options=None):
        self.at = 2
        self.seeds.append(seed)
        return np.eye(6)[self.at], {}

    def step(self, action):
        self.total += 1
        if self.total == self.after and self.error is not None:
            raise self.error
        self.at = self.at + 1 if action == 2 else max(0, self.at - 1)
        return np.eye(6)[self.at], float(self.at == 5), self.at == 5, self.total % 40 == 0, {}

    def close(self):
        self.closed = True


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_agent_has_its_environment_in_python(system):
    made = {}

    def make_env(number):
        made[number] = Corridor()
        return made[number]

    with start(make((6,)), make_env, system=system, agents=3) as run:
        run.advance(400)
        assert sorted(made) == [0, 1, 2] and sum(env.total for env in made.values()) == 400
        assert all(env.seeds[0] is not None and set(env.seeds[1:]) <= {None} for env in made.values())
        assert len({env.seeds[0] for env in made.values()}) == 3
        assert 0 <= run.evaluate(5) <= 1
        run.set_counts(1, 1, 1)
        run.set_counts(5, 1, 1)  # those that are there are taken first
        run.advance(200)
        assert sorted(made) == [0, 1, 2, 3, 4] and "Corridor" in repr(run)
        assert not any(env.closed for env in made.values())
    assert all(env.closed for env in made.values())


def test_a_policy_learns_the_corridor():
    with start(make((6,), optimizer="adam", learning_rate=1e-2), lambda number: Corridor()) as run:
        while run.evaluate(10, greedy=True) < 1:
            assert run.stats.env_steps < 100_000, run.stats
            run.advance(1000)


def test_ids_and_modules_name_environments(tmp_path, monkeypatch):
    (tmp_path / "some_poles.py").write_text("import gymnasium\ndef make_env(number, length):\n"
                                            "    return gymnasium.make('CartPole-v1', max_episode_steps=length)\n",
                                            encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for env, options in (("gymnasium:CartPole-v1", {"max_episode_steps": 9}), ("some_poles:make_env", "length=9")):
        events = []
        with start(env=env, env_options=options, on_event=events.append) as run:
            run.advance(200)
            assert 5 < run.evaluate(3) <= 9
        lengths = [event.length for event in events if event.kind == "episode"]
        assert max(lengths) == 9 and sum(lengths) >= 200 - 4 * 8


class Wide(Corridor):
    action_space = gymnasium.spaces.Discrete(3)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("make_env, text, cause", [
    (lambda number: Corridor(OSError("no motor") if number == 2 else None),
     r"agent \d, step \d+: OSError: no motor$", OSError),
    (lambda number: Corridor() if number < 1 else 1 / 0, r"agent \d: ZeroDivisionError: division", ZeroDivisionError),
    (lambda number: Wide() if number == 3 else Corridor(), r"agent \d: ValueError: the spaces are .* of the first",
     ValueError),
    (lambda number: Corridor(KeyError("ü" * 400)), r"agent \d, step \d+: KeyError: 'ü+$", KeyError),
], ids=["step", "make", "spaces", "long"])
def test_what_an_environment_raises_is_the_cause(system, make_env, text, cause):
    learner = make((6,))
    with start(learner, make_env, system=system) as run:
        with pytest.raises(gpureplay.EnvError, match=text) as caught:
            run.advance(10**9)
        assert type(caught.value.__cause__) is cause
        with pytest.raises(gpureplay.InvalidArgument, match="the run has ended by an error, .*: agent"):
            run.advance(1)
    learner.train(np.zeros((1, 6)), [1], [1.0])


def test_an_evaluation_that_fails_leaves_the_run():
    with start(make((6,)), lambda number: Corridor(OSError("gone") if number == 4 else None, after=3)) as run:
        run.advance(40)
        with pytest.raises(gpureplay.EnvError, match="the evaluation: OSError: gone") as caught:
            run.evaluate(100)
        assert type(caught.value.__cause__) is OSError
        run.advance(40)
        assert run.stats.env_steps == 80


def test_an_exit_in_an_environment_is_raised_as_it_is():
    with start(make((6,)), lambda number: Corridor(SystemExit(3))) as run:
        with pytest.raises(SystemExit):
            run.advance(10**9)


# Files.


@needs_files
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_is_saved_and_loaded(tmp_path, system):
    learner = make()
    with start(learner, system=system) as run:
        run.advance(500)
        run.set_counts(3, 1, 2)
        run.save(tmp_path / "run")
        saved = run.stats
        with pytest.raises(gpureplay.InvalidArgument, match="load before the first"):
            run.load(tmp_path / "run")
    other = make(seed=9)
    with start(other, system=system) as run:
        assert math.isnan(run.stats.recent_return)
        run.load(tmp_path / "run")
        assert weights_of(other) == weights_of(learner) and other.steps == learner.steps
        counts = ("env_steps", "episodes", "predictions", "train_steps", "trained_rows", "lags", "mean_lag", "agents",
                  "predictors", "trainers", "recent_return")
        assert all(getattr(run.stats, name) == getattr(saved, name) for name in counts)
        run.advance(100)
        assert run.stats.env_steps == 600 and other.steps > learner.steps
    with start(system=system, seed=4) as run:
        with pytest.raises(gpureplay.InvalidArgument, match="seed"):
            run.load(tmp_path / "run")
    with pytest.raises(gpureplay.FileError), start(system=system) as run:
        run.load(tmp_path / "nothing")


# What is refused.


@pytest.mark.parametrize("settings, error, text", [
    ({"speed": 3}, TypeError, "'speed' is no setting; they are system, agents, predictors"),
    ({"learner": 3}, TypeError, "learner is 3; it must be a gpureplay.ActorCritic"),
    ({"env": 3}, TypeError, "env is 3; for GA3C it must be a name, or a function"),
    ({"env": ["CartPole-v1"]}, TypeError, r"env is \['CartPole-v1'\]; for GA3C it must be a name"),
    ({"env": "CartPole-v7"}, ValueError, "env is 'CartPole-v7', which is no game of the library"),
    ({"system": "dqn"}, ValueError, "system is 'dqn'; it must be one of 'ga3c', 'a3c', 'a2c'"),
    ({"when_full": "error"}, ValueError, "when_full is 'error'; it must be one of 'wait', 'refuse', 'drop_oldest'"),
    ({"tuner": "best"}, ValueError, "tuner is 'best'; it must be one of 'none', 'paper', 'code'"),
    ({"tuner": "code", "system": "a3c"}, gpureplay.InvalidArgument, 'a tuner is for "ga3c"'),
    ({"agents": 0}, gpureplay.InvalidArgument, "agents is 0; it must be 1 to 1024"),
    ({"agents": 2.5}, TypeError, "agents is 2.5; it must be an integer"),
    ({"predictors": 65}, gpureplay.InvalidArgument, "predictors is 65; it must be 1 to 64"),
    ({"t_max": 257}, gpureplay.InvalidArgument, "t_max is 257; it must be 1 to 256"),
    ({"discount": 1.5}, gpureplay.InvalidArgument, "discount is 1.5; it must be 0 to 1"),
    ({"drop_terminal": 2}, gpureplay.InvalidArgument, "drop_terminal is 2; it must be 0 or 1"),
    ({"min_train_batch": 124}, gpureplay.InvalidArgument, "min_train_batch is 124 and t_max 5.*max_batch 128"),
    ({"system": "a2c", "agents": 26}, gpureplay.InvalidArgument, "agents is 26 and t_max 5.*max_batch 128"),
    ({"env": "MinAtar/Breakout"}, gpureplay.InvalidArgument, "has 6 discrete actions and the learner's network 2"),
])
def test_settings_that_are_refused(settings, error, text):
    with pytest.raises(error, match=text):
        start(**settings)


def test_a_vector_environment_is_refused():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=2)
    with pytest.raises(TypeError, match="for GA3C it must be a name, or a function"):
        start(env=envs)
    envs.close()


def test_arguments_that_are_refused():
    with start() as run:
        for call, error, text in (
                (lambda: run.advance(-1), ValueError, "env_steps is -1; it must be 0"),
                (lambda: run.advance(1.5), TypeError, "env_steps is 1.5; it must be an integer"),
                (lambda: run.evaluate(0), ValueError, "episodes is 0; it must be 1"),
                (lambda: run.evaluate(1, greedy=1), TypeError, "greedy is 1; it must be True or False"),
                (lambda: run.set_counts(0, 1, 1), gpureplay.InvalidArgument, "agents is 0; it must be 1 to 1024"),
                (lambda: run.set_counts(2**40, 1, 1), gpureplay.InvalidArgument, "agents is 1099511627776; it must"),
                (lambda: run.save("a\0b"), ValueError, "it must have no NUL")):
            with pytest.raises(error, match=text):
                call()
        run.advance(10)
        assert run.stats.env_steps == 10 and run.stats.agents == 4
    for name, text in (("ga3c-huge", "preset is \"ga3c-huge\"; it must be"), ("ga3c", "84"), ("a\0b", "no NUL")):
        with pytest.raises(ValueError, match=text):
            ga3c_preset(name, open_envs("CartPole-v1").type, b"")
