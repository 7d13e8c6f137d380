# SPDX-License-Identifier: MIT
"""Ape-X: actors in threads and processes, environments in C and in Python, actors that fail or are killed, resuming,
the program and what reads its files."""

import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import gpureplay
import numpy as np
import pytest
from gpureplay import _run_folder
from support import PACKAGE, needs_files

pytestmark = needs_files  # blocks have checksums, too

SMALL = {"preset": "apex-dqn-small", "actors": 2, "device": "cpu", "threads": 1, "capacity": 2000, "steps": 1500,
         "prepopulation": 300, "samples_per_insert": 2.0, "progress": False, "agent": {"trunk": [16], "hidden": 16}}

# A corridor as in test_train.py. make_env is where actors find it.
MODULE = """
import gymnasium
import numpy as np

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (6,), np.float64)
    action_space = gymnasium.spaces.Discrete(2, start=1)

    def __init__(self, fails):
        self.at, self.total, self.fails = 2, 0, fails

    def reset(self, *, seed=None, options=None):
        self.at = 2
        return np.eye(6)[self.at], {}

    def step(self, action):
        self.total += 1
        if self.total == self.fails:
            raise KeyError("the motor is broken")
        self.at = self.at + 1 if action == 2 else max(0, self.at - 1)
        return np.eye(6)[self.at], float(self.at == 5), self.at == 5, False, {}

def make_env(lane, fails=0, length=30):
    return gymnasium.wrappers.TimeLimit(Corridor(fails), length)
"""


@pytest.fixture
def corridor(tmp_path, monkeypatch):
    """The name of a module that has make_env, in a folder that is in this process's path alone."""
    (tmp_path / "some_corridor.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "some_corridor:make_env"


def small(env="CartPole-v1", **options):
    return gpureplay.train(env, **{**SMALL, **options})


def learner(**settings):
    fields = {"obs": ((4,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((4,), "float32"),
              "terminated": "bool", "truncated": "bool", "discount": "float32", "priority": "float32"}
    buffer = gpureplay.ReplayBuffer(2000, fields, device="cpu", min_size=200, prioritized=True, n_step=3, gamma=0.99)
    return gpureplay.DQN(buffer, **{"num_actions": 2, "trunk": [16], "batch_size": 32, **settings})


def check_counts(run):
    """Everything that steps began has arrived, is lost, or is in a block that is not full."""
    stats = run.stats
    assert stats.learned == 32 * stats.train_steps and stats.refused_blocks == 0
    assert len(run._agent._buffer) == min(2000, stats.rows) and stats.rows <= stats.env_steps


# Runs over a buffer and a learner of one's own.


def test_actors_in_threads():
    agent, events = learner(), []
    with pytest.raises(TypeError, match="'speed' is no setting; they are actors, epsilon_base"):
        gpureplay.Apex(agent, "CartPole-v1", speed=3)
    with gpureplay.Apex(agent, "CartPole-v1", actors=3, epsilons=[0.5, 0.25], eval_episodes=2, samples_per_insert=2.0,
                        on_event=events.append) as run:
        assert run.config["epsilons"] == [0.5, 0.25] and run.config["initial_priorities"] == "td"
        assert run.config["processes"] is False and "actors=3" in repr(run) and run.actor_process(0) is None
        run.advance(2000)
        while len({event.env_index for event in events if event.kind == "episode"}) < 3 or run.stats.starts < 3:
            run.advance(500)
        stats = run.stats
        assert stats.env_steps >= 2000 and stats.train_steps > 0 and stats.actors == 3 and stats.starts == 3
        check_counts(run)
        run.advance(train_steps=10)
        assert run.stats.train_steps == stats.train_steps + 10
        run.set_actors(1)
        while run.stats.actors > 1:
            run.advance(500)
        run.stop()
        with pytest.raises(gpureplay.Interrupted):
            run.advance(10**9)
        run.advance(100)  # it goes on
        run.set_actors(0)
        run.advance()  # until they have ended
        assert run.stats.actors == 0 and run.evaluate() == run.stats.evaluated_return > 5
        with pytest.raises(gpureplay.InvalidArgument, match="the run has 0 actors and no folder"):
            run.advance(100)
        with pytest.raises(gpureplay.Closed, match="gave way to those of a gpureplay.Apex"):
            agent._buffer.flush()
    kinds = {kind: [event for event in events if event.kind == kind]
             for kind in ("episode", "evaluation", "started", "ended")}
    epsilons = {event.env_index: event.epsilon for event in kinds["episode"]}
    assert epsilons == {0: 0.5, 1: 0.25, 2: 0.5} and all(event.mean_return == event.length
                                                         for event in kinds["episode"])
    assert len(kinds["started"]) == 4 and {event.env_index for event in kinds["ended"]} == {0, 1, 2}
    assert [event.episodes for event in kinds["evaluation"]] == [2] and kinds["evaluation"][0].env_steps >= 2000
    assert all(event.asked and event.error == "" for event in kinds["ended"])
    assert run.closed and "closed" in repr(run)
    agent.train(3)


def test_on_event_stops_the_run_or_raises():
    with gpureplay.Apex(learner(), "CartPole-v1", actors=1, on_event=lambda event: event.kind != "episode") as run:
        with pytest.raises(gpureplay.Interrupted):
            run.advance(10**9)
        assert run.was_stopped_by_event

    def fail(event):
        raise ArithmeticError("no more")

    with gpureplay.Apex(learner(), "CartPole-v1", actors=1, on_event=fail) as run:
        with pytest.raises(ArithmeticError, match="no more"):
            run.advance(10**9)


def test_a_killed_actor_is_started_again_and_counted():
    events = []
    with gpureplay.Apex(learner(), "CartPole-v1", actors=2, processes=True, samples_per_insert=1.0,
                        on_event=events.append) as run:
        while not any(event.kind == "episode" and event.env_index == 1 for event in events):
            run.advance(200)
        process = run.actor_process(1)
        os.kill(process, signal.SIGKILL)
        while not any(event.kind == "ended" for event in events) or run.actor_process(1) is None:
            run.advance(200)
        stats = run.stats
        assert stats.deaths == 1 and stats.starts == 3 and stats.actors == 2 and run.actor_process(1) != process
        (ended,) = (event for event in events if event.kind == "ended")
        assert ended.env_index == 1 and not ended.asked and "killed by signal 9" in ended.error
        assert stats.lost_rows == ended.lost_rows and ended.length > 0
        check_counts(run)
        processes = [run.actor_process(actor) for actor in (0, 1)]
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_a_run_is_saved_and_loaded(tmp_path):
    with gpureplay.Apex(learner(), "CartPole-v1", actors=2) as run:
        run.advance(800)
        run.save(tmp_path)
        saved = run.stats
    for refill in (False, True):
        agent = learner()
        with gpureplay.Apex(agent, "CartPole-v1", actors=3) as run:
            run.load(tmp_path, refill=refill)
            assert run.stats.env_steps == saved.env_steps and run.stats.train_steps == saved.train_steps
            assert len(agent._buffer) == (0 if refill else min(2000, saved.rows))
            run.advance(400)
            assert run.stats.env_steps >= saved.env_steps + 400
    with gpureplay.Apex(learner(), "CartPole-v1", seed=5) as run:
        with pytest.raises(gpureplay.InvalidArgument, match="seed"):
            run.load(tmp_path)


# Environments in Python.


@pytest.mark.parametrize("env, env_options, length", [
    ("gymnasium:CartPole-v1", {"max_episode_steps": 20}, 20), ("corridor", "length=9", 9),
])
def test_environments_in_python_are_in_processes(request, env, env_options, length):
    env = request.getfixturevalue(env) if env == "corridor" else env
    result = small(env, env_options=env_options)
    assert result.stats.starts == 3 and result.stats.deaths == 0  # one evaluates
    assert result.stats.env_steps >= 1500 and result.stats.train_steps > 0 and result.episodes["length"].max() <= length
    assert set(result.episodes["actor"]) <= {0, 1} and result.config["apex"]["processes"] == 1
    if "corridor" in env:  # its actions begin at 1
        act, obs = result.agent.act, np.eye(6, dtype="f4")
        assert {*act(obs, 1.0), *act(obs)} <= {1, 2}
    with pytest.raises(gpureplay.InvalidArgument, match="processes is 0 and env is .*; processes must be 1"):
        small(env, env_options=env_options, processes=False)


def test_what_an_environment_raises_is_the_learners_error(corridor, capfd):
    line = MODULE.splitlines().index('            raise KeyError("the motor is broken")') + 1
    with pytest.raises(gpureplay.InvalidArgument) as raised:
        small(corridor, env_options={"fails": 3}, actors=1, eval_episodes=0, progress=True)
    text = f"step 2: KeyError: 'the motor is broken' (some_corridor.py, line {line})"
    assert f"actor 0: {text} (for the 5th time in a row it died" in str(raised.value)
    out, err = capfd.readouterr()
    assert f"actor 0 ended: {text} (early death number 4 in a row; the next start is in 0.4 s)\n" in out and err == ""
    assert f"actor 0 ended: {text}\n" in out  # the last time


def test_an_actor_that_fails_now_and_then_is_started_again(corridor):
    with pytest.warns(RuntimeWarning, match=r"^actor \d ended: step 399: KeyError: 'the motor is broken'") as told:
        result = small(corridor, env_options={"fails": 400}, eval_episodes=0)
    assert [warning.filename for warning in told] == [__file__]  # which called train
    assert result.stats.deaths > 0 and result.stats.env_steps >= 1500 and result.stats.lost_rows > 0


def test_a_last_evaluation_that_is_missing_is_always_told(tmp_path, monkeypatch):
    place = tmp_path / "killed"
    module = MODULE + f"""
import os, signal

def reset(self, *, seed=None, options=None, old=Corridor.reset):
    if os.path.exists({str(place)!r}):
        os.kill(os.getpid(), signal.SIGKILL)
    return old(self, seed=seed, options=options)

Corridor.reset = reset
"""
    (tmp_path / "some_deaths.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def kill(event):
        if event.kind == "started" and event.env_index == 1024 and event.train_steps > 0:
            place.touch()

    with pytest.warns(RuntimeWarning, match="^the actor that evaluates ended: ") as told:
        result = small("some_deaths:make_env", actors=1, eval_episodes=50, eval_period=0, on_event=kill)
    texts = [str(warning.message) for warning in told]
    assert len(texts) == 2 and "(early death number 1 in a row" in texts[0]
    assert "the evaluation is missing (progress=True" in texts[1] and {w.filename for w in told} == {__file__}
    assert len(result.evaluations) == 0 and result.stats.train_steps > 0


# Whole trainings.


def lines_of(folder, name):
    return (folder / name).read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with files, and its result."""
    folder = tmp_path_factory.mktemp("apex") / "run"
    return folder, small(out=folder, checkpoint=2000, steps=5000, env_options={"max_steps": 40})


COLUMNS = {
    "episode": "step actor length return epsilon",
    "evaluation": "step episodes length mean_return return_deviation",
    "rates": "seconds step train_steps episodes env_steps_per_second transitions_per_second megabytes_per_second "
             "train_steps_per_second learned_per_second samples_per_insert weights_age actors deaths lost_transitions "
             "refused_blocks limiter_timeouts train_share broadcast_share receive_share learner_wait_share "
             "actor_env_share actor_infer_share actor_wait_share recent_return evaluated_return learning_rate loss "
             "mean_q gradient_norm",
}


def test_a_training_writes_its_files(trained):
    folder, result = trained
    for kind, rows in (("episode", result.episodes), ("evaluation", result.evaluations), ("rates", result.rates)):
        found = _run_folder.read_array(folder, kind)
        assert found.dtype.names == tuple(COLUMNS[kind].split()) and len(found) == len(rows)
        assert all(np.allclose(found[name], rows[name], rtol=1e-5, equal_nan=True) for name in found.dtype.names)
    assert set(np.round(result.episodes["epsilon"], 5)) == {0.4, round(0.4**8, 5)}
    assert len(result.evaluations) == 1  # at the end
    assert result.evaluations["episodes"][0] == 30 and result.evaluations["mean_return"][0] > 5
    assert result.evaluations["step"][0] == result.stats.env_steps
    assert result.evaluations["mean_return"][0] == result.stats.evaluated_return
    assert result.stats.env_steps >= 5000 and result.rates["step"][-1] == result.stats.env_steps
    assert np.nanmin(result.rates["samples_per_insert"]) >= 0 and result.rates["transitions_per_second"].max() > 0
    shares = sum(result.rates[f"actor_{part}_share"] for part in ("env", "infer", "wait"))
    assert 0 < np.nanmin(shares) and np.nanmax(shares) < 1.01
    actors = _run_folder.read_array(folder, "actor")
    for event, those in (("started", [0, 1, 1024]), ("ended", [0, 1])):  # the one that evaluates ends with the run
        assert sorted(actors["actor"][actors["event"] == event]) == those
    assert actors["asked"][actors["event"] == "ended"].all() and not actors["lost_rows"].any()
    kinds = [json.loads(line)["kind"] for line in lines_of(folder, "log.jsonl")]
    assert kinds.count("episode") == len(result.episodes) and kinds.count("actor") == 5
    options = dict(line.split(" ", 1) for line in lines_of(folder, "options.txt") if line.startswith("--"))
    assert options["--actors"] == "2" and options["--initial-priorities"] == "td" and options["--eval-episodes"] == "30"
    assert "--num-envs" not in options and "--epsilons" not in options
    config = json.loads((folder / "config.json").read_text())
    assert config["replay"]["capacity"] == 2000 + 2000 // 16 and config["apex"]["soft_capacity"] == 2000
    assert config["replay"]["min_size"] == 300 and "run" not in config
    assert (folder / "learner.safetensors").exists() and (folder / "checkpoint/run.safetensors").exists()


@pytest.mark.parametrize("refill", [False, True])
def test_a_training_is_resumed(tmp_path, refill):
    folder = tmp_path / "run"
    first = small(out=folder, checkpoint=500)
    again = gpureplay.train(resume=folder, progress=False, refill=refill)  # with nothing left to do
    assert again.stats.env_steps == first.stats.env_steps
    more = gpureplay.train(resume=folder, progress=False, steps=8000, refill=refill)
    assert more.stats.env_steps >= 8000 and more.stats.train_steps > first.stats.train_steps
    assert len(more.episodes) > len(first.episodes) and np.all(np.diff(more.episodes["step"]) >= 0)
    assert more.episodes[:len(first.episodes)].tobytes() == first.episodes.tobytes()
    actors = _run_folder.read_array(folder, "actor")
    assert actors["incarnation"][actors["actor"] < 1024].max() == 1  # none began while there was nothing to do
    with pytest.raises(gpureplay.InvalidArgument, match="actors is 5, and the run that is to be resumed has 2"):
        gpureplay.train(resume=folder, actors=5)
    with pytest.raises(gpureplay.InvalidArgument, match="steps is 1000; the run has taken 8000 steps"):
        gpureplay.train(resume=folder, steps=1000)


@pytest.mark.parametrize("options, text", [
    ({"num_envs": 4}, "num_envs is 4 and preset is apex-dqn-small"),
    ({"exploration_steps": 10}, "exploration_steps is 10 and preset is apex-dqn-small"),
    ({"lambda_": 0.5}, "lambda_ is 0.5 and preset is apex-dqn-small"),
    ({"preset": None}, "actors is 2 and preset is fast-dqn-small-vectors, .* or take a preset of apex-dqn or"),
    ({"preset": "vrc-2021-small", "lambda_": 0.5}, "actors is 2 and preset is vrc-2021-small"),
    ({"preset": "apex-dqn"}, "\"apex-dqn\" needs frames of 84 x 84 bytes"),
    ({"actors": 1025}, 'actors is "1025"; it must be a whole number of 0 to 1024'),
    ({"epsilons": "0.4,x"}, "epsilons is \"0.4,x\"; it must be numbers"),
    ({"epsilons": [0.4, 2.0]}, 'epsilons is "0.4,2"; it must be numbers of 0 to 1'),
    ({"initial_priorities": "mean"}, 'initial_priorities is "mean"; it must be max or td'),
    ({"prepopulation": 3000}, "prepopulation is 3000 and capacity is 2000"),
    ({"batch": 1500}, "capacity is 2000 and batch is 1500"),
    ({"buffer": {"capacity": 1999}}, r'^capacity is 2000 beside buffer={"capacity": 1999}, .*; leave the second out'),
    ({"refill": True}, "refill is given and resume is missing"),
    ({"refill": True, "preset": "fast-dqn-small"}, "refill is given and resume is missing"),
])
def test_options_that_are_refused(tmp_path, options, text):
    with pytest.raises(ValueError, match=text):
        small(out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_one_event_ends_a_training():
    """Those that come while it ends say nothing."""
    result = small(steps=10**7, eval_episodes=0, on_event=lambda event: event.kind != "episode")
    assert result.stats.episodes > 0 and result.stats.env_steps < 10**7


def test_settings_reach_the_run():
    result = small(epsilons=[0.1, 0.2], prioritized=False, initial_priorities="max", replicate=2, eval_episodes=0,
                   pull_period=7, target_period=20, batch=16, steps=800)
    apex = result.config["apex"]
    names = ("replicate", "pull_period", "eval_episodes", "initial_priorities")
    assert [apex[name] for name in names] == [2, 7, 0, "max"]
    assert result.config["options"]["epsilons"] == "0.1,0.2" and len(result.evaluations) == 0
    assert set(np.round(result.episodes["epsilon"], 6)) <= {0.1, 0.2}
    agent = result.agent.config
    assert (agent["prioritized"], agent["batch_size"], agent["target_period"]) == (False, 16, 20)
    with pytest.raises(TypeError, match="env is .*; for Ape-X it must be a name"):
        small(lambda lane: None)


def test_ctrl_c_ends_the_program_with_what_there_is(tmp_path):
    command = [sys.executable, "-m", "gpureplay.train", "--env", "CartPole-v1", "--preset", "apex-dqn-small",
               "--actors", "2", "--processes", "1", "--device", "cpu", "--prepopulation", "200", "--checkpoint", "1000",
               "--out", tmp_path / "run"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
        while not (tmp_path / "run/checkpoint").exists() and run.poll() is None:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=300)
    assert run.returncode == 130 and err == "", err
    assert "2 actors in processes, by apex-dqn-small on cpu" in out and "--resume" in out
    table = out[out.index("this run"):]
    for part in ("environment steps", "transitions received", "transitions learned", "12,500", "9,700", "MB/s"):
        assert part in table
    assert (tmp_path / "run/learner.safetensors").exists()


# What reads the files.


def test_the_learning_curve_is_that_of_the_greediest_actor(trained):
    folder, result = trained
    plot = importlib.import_module("gpureplay.plot")
    (runs,) = plot.read_runs([folder])
    assert runs.label == "CartPole-v1, Ape-X, 2 actors"
    greediest = result.episodes[result.episodes["actor"] == 1]
    assert runs.episodes[0].steps.tolist() == greediest["step"].tolist()
    assert np.isclose(runs.episodes[0].returns[-1], greediest["return"][-100:].mean())
    assert runs.evaluations[0].returns.tolist() == result.evaluations["mean_return"].tolist()


def test_the_curves_for_tensorboard(trained):
    folder, result = trained
    rows = importlib.import_module("gpureplay.tensorboard")._Curves(folder).read()
    values = {}
    for _, step, row in rows:
        for tag, value in row.items():
            values.setdefault(tag, []).append((step, value))
    greediest = result.episodes[result.episodes["actor"] == 1]
    assert values["episode/return"] == list(zip(greediest["step"].tolist(), greediest["return"].tolist()))
    assert len(values["evaluation/mean_return"]) == (result.evaluations["step"] > 0).sum()
    assert {"rates/learned_per_second", "rates/weights_age"} <= values.keys()


def test_the_page_of_ape_x_says_what_works(tmp_path):
    page = (PACKAGE.parents[1] / "docs/ape-x.md").read_text(encoding="utf-8")
    blocks = page.split("```python\n")[1:]
    assert len(blocks) == 3
    for block in blocks:
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(block.split("```")[0])], cwd=tmp_path, check=False,
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        assert done.returncode == 0, done.stderr
