# SPDX-License-Identifier: MIT
"""Ape-X of DPG, TD3 and SAC: actors in threads and processes that act by vectors, environments in C and in Python,
trainings with their files, the control suite, and what is refused."""

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import gpureplay
import numpy as np
import pytest
from support import PACKAGE, needs_files

pytestmark = needs_files  # blocks have checksums, too

SMALL = {"preset": "apex-dpg-small", "actors": 2, "device": "cpu", "threads": 1, "capacity": 2000, "steps": 900,
         "prepopulation": 300, "batch": 16, "samples_per_insert": 2.0, "progress": False, "eval_episodes": 2,
         "agent": {"actor": {"trunk": [16]}, "critic": {"trunk": [16]}}}

# An environment that shows the action that it got. make_env is where actors find it.
MODULE = """
import gymnasium
import numpy as np

class Echo(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-100, 100, (2,), np.float32)
    action_space = gymnasium.spaces.Box(np.array([-1.0, 10.0]), np.array([3.0, 20.0]), dtype=np.float64)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert action.dtype == np.float64 and action.shape == (2,)
        self.steps += 1
        return action.astype(np.float32), float(action[0]), False, self.steps == 20, {}

def make_env(lane):
    return Echo()
"""


@pytest.fixture
def echo(tmp_path, monkeypatch):
    """The name of a module that has make_env, in a folder that is in this process's path alone."""
    (tmp_path / "some_echo.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "some_echo:make_env"


def small(env="Pendulum", **options):
    return gpureplay.train(env, **{**SMALL, **options})


@contextlib.contextmanager
def learner(features, actions, kind=gpureplay.DDPG, **settings):
    fields = {"obs": ((features,), "float32"), "action": ((actions,), "float32"), "reward": "float32",
              "next_obs": ((features,), "float32"), "terminated": "bool", "truncated": "bool", "discount": "float32",
              "priority": "float32"}
    with gpureplay.ReplayBuffer(20_000, fields, device="cpu", prioritized=True, min_size=100, block_rows=64) as buffer:
        yield kind(buffer, **{"actor": {"trunk": [16]}, "critic": {"trunk": [16]}, "batch_size": 16,
                                        **settings})


def rows_of(agent):
    """The last rows of the buffer, by field."""
    end = agent._buffer.stats.appended
    batch = agent._buffer.gather(np.arange(end - min(900, len(agent._buffer)), end))
    return {name: np.array(batch[name]) for name in ("obs", "action", "next_obs", "reward", "truncated", "priority")}


def test_actors_in_threads():
    events = []
    with learner(3, 1) as agent, gpureplay.Apex(agent, "Pendulum", actors=2, sigma=0.5, eval_episodes=2,
                                                block_rows=10, samples_per_insert=2, on_event=events.append) as run:
        assert run.config["sigma"] == 0.5 and not run.config["processes"]
        run.advance(train_steps=20)
        run.set_actors(0)
        run.advance()
        assert run.evaluate() < 0
        rows, stats = rows_of(agent), run.stats
        assert stats.train_steps == agent.stats.steps >= 20 and stats.rows == agent._buffer.stats.appended
        assert np.abs(rows["action"]).max() <= 1 and np.std(rows["action"]) > 0.2
        assert np.nanmin(rows["priority"]) >= 0  # NaN: of rows that are given none
        policy = agent.policy()
        assert np.array_equal(policy.act_vectors(rows["obs"][0]), policy.act_vectors(rows["obs"][0]))
    evaluations = [event for event in events if event.kind == "evaluation"]
    assert len(evaluations) == 1 and evaluations[0].length == 400 
    assert {event.epsilon for event in events if event.kind == "started" and event.env_index < 2} == {0.5}


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("kind", [gpureplay.TD3, gpureplay.SAC])
@pytest.mark.parametrize("head", ["q", "categorical"])
def test_actors_of_two_critics(kind, head, processes):
    critic = {"trunk": [16], **({"head": head, "atoms": 11, "v_min": -50, "v_max": 0} if head != "q" else {})}
    with learner(3, 1, kind, critic=critic) as agent, \
            gpureplay.Apex(agent, "Pendulum", actors=2, processes=processes, block_rows=10) as run:
        run.advance(train_steps=20)
        run.set_actors(0)
        run.advance()
        rows = rows_of(agent)
        assert np.abs(rows["action"]).max() <= 1 and np.std(rows["action"]) > 0.1
        known = rows["priority"][~np.isnan(rows["priority"])]
        assert len(known) >= 50 and (known >= 0).all() and np.std(known) > 0


def test_environments_in_python_get_actions_within_their_bounds(echo):
    """The buffer has actions from -1 to 1, and the environment's observations are those that it got."""
    with learner(2, 2) as agent, gpureplay.Apex(agent, echo, actors=2, sigma=2.0, block_rows=10,
                                                samples_per_insert=2) as run:
        assert run.config["processes"]
        run.advance(env_steps=400)
        run.set_actors(0)
        run.advance()
        rows = rows_of(agent)
    low, high = np.array([-1, 10]), np.array([3, 20])
    assert np.allclose(rows["next_obs"], low + (rows["action"] + 1) / 2 * (high - low), rtol=1e-6)
    assert np.array_equal(rows["reward"], rows["next_obs"][:, 0])
    assert rows["next_obs"].min(0) == pytest.approx(low) and rows["next_obs"].max(0) == pytest.approx(high)
    assert rows["truncated"].sum() >= 400 // 20 - 2


def test_a_training_writes_its_files_and_is_resumed(tmp_path):
    first = small(out=tmp_path / "run", checkpoint=450, sigma=0.2, eviction="priority")
    assert first.stats.env_steps >= 900 and isinstance(first.agent, gpureplay.DDPG)
    assert (first.evaluations["mean_return"] < 0).all() and set(first.episodes["epsilon"]) == {0.2}
    config = json.loads((tmp_path / "run/config.json").read_text(encoding="utf-8"))
    assert config["apex"]["sigma"] == 0.2 and config["options"]["sigma"] == 0.2 and "learner" not in config
    assert config["replay"]["eviction"] == config["options"]["eviction"] == "priority"
    assert config["dpg"]["actor"]["head"] == "tanh_action" and config["dpg"]["batch_size"] == 16
    rates = first.rates[~np.isnan(first.rates["loss"])]
    assert len(rates) > 0 and np.isfinite(rates["mean_q"]).all() and (rates["gradient_norm"] > 0).all()
    steps = first.stats.env_steps + 2000  # more than actors may be ahead of the learner
    more = gpureplay.train(resume=tmp_path / "run", steps=steps, progress=False)
    assert more.stats.env_steps >= steps and more.stats.train_steps > first.stats.train_steps
    policy = more.agent.policy()
    policy.load(tmp_path / "run/learner.safetensors")
    assert np.abs(policy.act_vectors(np.zeros(3, np.float32))).max() <= 2


@pytest.mark.parametrize("env, features, low, high", [("Pendulum", 3, [-2], [2]), ("echo", 2, [-1, 10], [3, 20])])
def test_the_policies_of_a_run_act_within_its_bounds(request, tmp_path, env, features, low, high):
    env = request.getfixturevalue(env) if env == "echo" else env
    result = small(env, out=tmp_path / "run", steps=400, checkpoint=0, eval_episodes=0)
    obs = np.random.default_rng(1).normal(size=(40, features)).astype("f4")
    shutil.copy(tmp_path / "run/learner.safetensors", tmp_path / "alone.safetensors")
    with gpureplay.Policy.open(tmp_path / "alone.safetensors", device="cpu") as policy:
        unit = policy.act_vectors(obs)
    for policy in (gpureplay.Policy.open(tmp_path / "run", device="cpu"), result.agent.policy(),
                   gpureplay.Policy.open(tmp_path / "run/learner.safetensors", device="cpu")):
        acted, noisy = policy.act_vectors(obs), policy.act_vectors(obs, sigma=9.0)
        wanted = low + (unit + 1) / 2 * np.subtract(high, low)
        assert np.allclose(acted, wanted, atol=1e-5) and acted.dtype == np.float32
        assert np.array_equal(noisy.min(0), low) and np.array_equal(noisy.max(0), high)


@pytest.mark.parametrize("options, text", [
    ({"epsilons": "0.1"}, "epsilons is 0.1 and preset is apex-dpg-small, .* take a preset of apex-dqn$"),
    ({"frame_stack": 4}, "frame_stack is 4 and preset is apex-dpg-small"),
    ({"sigma": 0.1, "preset": "apex-dqn-small", "env": "CartPole-v1"}, "take a preset of ddpg, td3 or apex-dpg$"),
    ({"env": "CartPole-v1"}, "CartPole-v1: the environment's actions are discrete"),
    ({"preset": "apex-dqn-small"}, 'Pendulum: its actions are vectors; preset "apex-dqn-small" needs discrete actions, '
                                   'and "ddpg", "ddpg-small", "td3", "td3-small", "sac", "sac-small", '),
    ({"preset": "ga3c-small", "actors": None, "capacity": None, "prepopulation": None, "samples_per_insert": None,
      "batch": None}, 'Pendulum: its actions are vectors; preset "ga3c-small" needs discrete actions'),
    ({"preset": None}, "Pendulum has continuous actions and preset is missing; it must be ddpg"),
    ({"batch": 2000}, "capacity is 2000 and batch is 2000"),
    ({"eviction": "fifo"}, "eviction is \"fifo\"; it must be oldest or priority"),
    ({"second_activation": "linear"}, "second_activation is \"linear\"; it must be none, relu or tanh"),
    ({"eviction": "priority", "prioritized": False}, "eviction is priority and prioritized is 0; it must be 1"),
])
def test_options_that_are_refused(options, text):
    with pytest.raises(gpureplay.InvalidArgument, match=text):
        small(**options)


def test_without_priorities_the_oldest_leave():
    assert small(preset="apex-dpg", prioritized=False).config["options"]["eviction"] == "oldest"


@pytest.mark.parametrize("options, activations", [
    ({"preset": "apex-dpg"}, ("none", "linear")),
    ({"preset": "apex-dpg", "second_activation": "tanh"}, ("tanh", "tanh")),
    ({}, ("relu", "relu")), ({"second_activation": "none"}, ("none", "linear")),
])
def test_the_second_layers_have_the_activation_that_is_chosen(options, activations):
    """As the paper has it, none; the first layers keep theirs."""
    config = small(**options, agent=None, steps=300, eval_episodes=0).config
    assert config["options"]["second-activation"] == activations[0]
    first = "tanh" if "preset" in options else "relu"
    for network in ("actor", "critic"):
        assert [layer["activation"] for layer in config["dpg"][network]["trunk"]] == [first, activations[1]]


def test_a_network_keeps_what_the_caller_does_not_name():
    result = small(agent={"actor": {"trunk": [(32, "tanh")]}, "critic": {"clip_norm": 2.0}}, steps=300, eval_episodes=0)
    actor, critic = result.agent.config["actor"], result.agent.config["critic"]
    assert actor["trunk"] == [(32, "tanh")] and [layer[0] for layer in critic["trunk"]] == [128, 128]
    assert actor["learning_rate"] == critic["learning_rate"] == pytest.approx(1e-3)
    assert actor["init"] == "normal" and critic["clip_norm"] == 2.0


def test_agents_and_environments_that_do_not_fit_are_refused():
    with learner(3, 2) as agent:
        with pytest.raises(gpureplay.InvalidArgument, match="vectors of 1 numbers, and the actor's network has 2"):
            gpureplay.Apex(agent, "Pendulum")
        with pytest.raises(gpureplay.InvalidArgument, match="a float that is 0 or more|sigma is -1"):
            gpureplay.Apex(agent, "Pendulum", sigma=-1.0)
    with pytest.raises(TypeError, match="it must be a gpureplay.DQN, DDPG, TD3 or SAC"):
        gpureplay.Apex(None, "Pendulum")


def test_pendulum_is_learned():
    """A random agent's mean return is about -1,200. That of six seeds was -202 to -136."""
    result = gpureplay.train("Pendulum", preset="apex-dpg-small", actors=2, steps=10_000, eval_period=0, device="cpu",
                             progress=False)
    assert result.evaluations["mean_return"][-1] > -400


def test_the_program_shows_environments_and_trains(tmp_path):
    program = [sys.executable, "-m", "gpureplay.train"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    shown = subprocess.run([*program, "--list", "--env", "Pendulum"], env=environment, capture_output=True, text=True,
                           check=True).stdout
    assert "actions      float32 (1), from -2 to 2" in shown
    done = subprocess.run([*program, "--preset", "apex-dpg-small", "--env", "Pendulum", "--steps", "600", "--actors",
                           "2", "--prepopulation", "300", "--eval-episodes", "1", "--out", tmp_path / "run"],
                          env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "22,000" in done.stdout and (tmp_path / "run/actors.csv").exists()


# The control suite.

needs_dm_control = pytest.mark.skipif(importlib.util.find_spec("dm_control") is None, reason="needs dm_control")


@needs_dm_control
def test_the_control_suite_is_what_dm_control_has():
    from gpureplay._dm_control import ControlEnv, suite
    env, theirs = ControlEnv("dm_control/humanoid-stand", {}), suite.load("humanoid", "stand")
    assert env.observation_space.shape == (67,) and env.action_space.shape == (21,)  # as the paper has it
    assert np.array_equal(env.action_space.low, theirs.action_spec().minimum)
    first, again, other = (env.reset(seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    env.reset(seed=3)
    rewards = []
    for _ in range(1000):
        obs, reward, terminated, truncated, _ = env.step(np.full(21, 0.1, np.float32))
        rewards.append(reward)
        assert not terminated and truncated == (len(rewards) == 1000)
    shown = np.concatenate([np.ravel(part) for part in env._env.task.get_observation(env._env.physics).values()])
    assert np.allclose(obs, shown, atol=1e-6) and 0 <= min(rewards) <= max(rewards) <= 1
    for name, options, text in (("humanoid-fly", {}, "env is 'dm_control/humanoid-fly'; .*humanoid-stand"),
                                ("lqr-lqr_2_1", {}, "env is 'dm_control/lqr-lqr_2_1', whose actions have no limits"),
                                ("cartpole-swingup", {"random": 5}, "env_options has random=5; it must not"),
                                ("cartpole-swingup", {"timelimit": 5}, "'timelimit': 5.*dm_control/cartpole-swingup"),
                                ("cartpole-swingup", {"time_limit": "x"}, "'time_limit': 'x'.*cartpole-swingup")):
        with pytest.raises(ValueError, match=text):
            ControlEnv(f"dm_control/{name}", options)


@needs_dm_control
def test_the_control_suite_is_trained_on():
    result = small("dm_control/pendulum-swingup", steps=2000, env_options={"time_limit": 5})
    assert result.config["environment"]["name"] == "dm_control/pendulum-swingup"
    assert set(result.episodes["length"]) == {250} and result.stats.train_steps > 0


@pytest.mark.skipif(importlib.util.find_spec("dm_control") is not None, reason="dm_control is installed")
def test_without_dm_control_it_is_asked_for():
    with pytest.raises(ModuleNotFoundError, match=r"pip install gpureplay\[dm_control\]"):
        small("dm_control/cartpole-swingup")
