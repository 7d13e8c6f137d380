# SPDX-License-Identifier: MIT
"""Training in one call: environments in Python against the same in C, the same bits in each run, errors and Ctrl-C from
environments, resuming, the program, the picture and TensorBoard's events."""

import contextlib
import copy
import importlib.util
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import gpureplay
import gymnasium
import numpy as np
import pytest
from gpureplay import _door, _options, _run_folder, train
from support import PACKAGE, Done, Endless, compile_plugin, needs_files, program, run

# A corridor of 6 cells: action 1 goes right, 0 goes left. The reward is at its right end. Nothing in it is random. With
# FRAMES it is shown in frames like those of Atari. Option fails=N: the step after N steps is refused.

CORRIDOR = """
#include <gpureplay/env.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef FRAMES
typedef unsigned char number;
static const gpur_space space = {.dtype = GPUR_UINT8, .shape = {84, 84}, .high = 255};
enum { COUNT = 84 * 84 };
#else
typedef float number;
static const gpur_space space = {.dtype = GPUR_FLOAT32, .shape = {6}, .high = 1};
enum { COUNT = 6 };
#endif

typedef struct corridor { int at, steps, left; } corridor;

static void show(const corridor *c, number *obs)
{
    for (int i = 0; i < COUNT; i++)
        obs[i] = i == c->at;
}

static const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    info->obs = space;
    info->action = (gpur_space){.dtype = GPUR_INT32, .num_actions = 2, .high = 1};
    corridor *const c = *env = calloc(1, sizeof(corridor));
    c->left = INT_MAX;
    sscanf(options, "fails=%d", &c->left);
    return NULL;
}

static const char *reset(void *env, void *obs)
{
    corridor *const c = env;
    c->at = 2;
    c->steps = 0;
    show(env, obs);
    return NULL;
}

static const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    corridor *const c = env;
    if (c->left-- == 0)
        return "enough";
    c->at += *(const int32_t *)action ? 1 : c->at > 0 ? -1 : 0;
    show(c, obs);
    *result = (gpur_env_result){.reward = c->at == 5, .terminated = c->at == 5, .truncated = ++c->steps == 30};
    return NULL;
}

static const gpur_env_type type = {.size = sizeof type, .name = "Corridor", .init = init, .reset = reset, .step = step,
                                   .close = free};
const gpur_env_type *gpur_env_plugin(const char *name) { return &type; }
#ifdef NAMES
const char *gpur_env_plugin_name(int32_t index) { return index == 0 ? "Left" : index == 1 ? "Right" : NULL; }
#endif
"""


class Corridor(gymnasium.Env):
    """The same. Its actions are 1 and 2, its observations float64, to be converted. fails: {step: exception}."""

    observation_space = gymnasium.spaces.Box(0, 1, (6,), np.float64)
    action_space = gymnasium.spaces.Discrete(2, start=1)

    def __init__(self, fails=None, delays=None):
        self.at, self.steps, self.fails, self.delays, self.closed = 2, 0, fails or {}, delays, 0
        self.total = 0

    def show(self):
        return np.eye(6)[self.at]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = 2, 0
        return self.show(), {}

    def step(self, action):
        self.total += 1
        if self.total in self.fails:
            raise self.fails[self.total]
        if self.delays is not None:
            time.sleep(self.delays.random() * 2e-4)
        self.at = self.at + 1 if action == 2 else max(0, self.at - 1)
        self.steps += 1
        return self.show(), float(self.at == 5), self.at == 5, self.steps == 30, {}

    def close(self):
        self.closed += 1


class Switches(Corridor):
    action_space = gymnasium.spaces.MultiBinary(2)


class Random(Corridor):
    """It begins anywhere, by its own random numbers."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(0, 5))
        return self.show(), {}


SMALL = {"device": "cpu", "threads": 1, "num_envs": 4, "target_period": 80, "prepopulation": 50, "capacity": 1000,
         "exploration_steps": 300, "eval_period": 160, "eval_episodes": 2, "steps": 400, "progress": False,
         "agent": {"trunk": [16]}}
VARIANTS = [(False, False), (True, False), (False, True), (True, True)]


def small(env, **options):
    return gpureplay.train(env, **{**SMALL, **options})


def outcome(result):
    """Everything that must be the same bits."""
    weights = {name: tensor.tobytes() for name, tensor in result.agent.weights.items()}
    return result.episodes.tobytes(), result.evaluations.tobytes(), weights


# Environments in Python.


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    return compile_plugin(tmp_path_factory.mktemp("plugin"), CORRIDOR)


@pytest.fixture(scope="module")
def frames_plugin(tmp_path_factory):
    return compile_plugin(tmp_path_factory.mktemp("plugin"), CORRIDOR, "-DFRAMES")


@pytest.mark.parametrize("concurrent, synchronized", VARIANTS)
def test_an_environment_in_python_gives_the_bits_of_the_same_in_c(plugin, concurrent, synchronized):
    options = {"concurrent": concurrent, "synchronized": synchronized}
    in_c, in_python = small(plugin, **options), small(lambda lane: Corridor(), **options)
    assert outcome(in_c) == outcome(in_python)
    assert len(in_c.episodes) > 10 and in_c.evaluations["step"].tolist() == [160, 320, 400]
    assert in_c.stats.env_steps == 400 and in_c.stats.train_steps == 100 and in_c.stats.prepopulated >= 50


@pytest.mark.parametrize("concurrent, synchronized, env_threads", [(False, False, 0), (True, True, 2),
                                                                   (True, False, 4)])
def test_delays_change_nothing(concurrent, synchronized, env_threads):
    options = {"concurrent": concurrent, "synchronized": synchronized}
    plain = small(lambda lane: Random(), env_threads=1, **options)
    generators = [np.random.default_rng(lane) for lane in range(5)]
    delayed = small(lambda lane: Random(delays=generators[lane]), env_threads=env_threads, **options)
    other = small(lambda lane: Random(), seed=2, **options)
    assert outcome(plain) == outcome(delayed) != outcome(other)


def test_a_list_of_environments_is_as_good_as_a_function():
    envs, judge = [Random() for _ in range(4)], Random()
    made = []

    def make_env(lane):
        made.append(Random())
        assert lane == len(made) - 1
        return made[-1]

    listed = small(envs, num_envs=None, eval_env=judge)
    assert outcome(listed) == outcome(small(make_env))
    assert [env.closed for env in [*envs, judge]] == [0] * 5 and [env.closed for env in made] == [1] * 5
    alone = small(envs, eval_period=None, eval_episodes=None)
    assert len(alone.evaluations) == 0 and alone.stats.evaluations == 0


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_a_vector_environment_runs_synchronized(tmp_path, mode):
    def make():
        return gymnasium.vector.SyncVectorEnv([Random] * 4, autoreset_mode=gymnasium.vector.AutoresetMode[mode])

    one, other = (small(make(), eval_env=Random(), num_envs=None) for _ in range(2))
    assert outcome(one) == outcome(other) and len(one.episodes) > 10 and len(one.evaluations) == 3
    assert set(one.episodes["return"]) <= {0.0, 1.0} and one.episodes["length"].max() <= 30
    with pytest.raises(gpureplay.InvalidArgument, match="synchronized is 0"):
        small(make(), synchronized=False, eval_episodes=0, eval_period=0)
    with pytest.raises(gpureplay.InvalidArgument, match="steps is 402 and num_envs is 4"):
        small(make(), num_envs=None, eval_env=Random(), steps=402, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_images_of_bytes_and_ids_of_gymnasium(tmp_path):
    class Image(Random):
        observation_space = gymnasium.spaces.Box(0, 255, (7, 7), np.uint8)

        def show(self):
            image = np.zeros((7, 7), np.uint8)
            image[self.at, self.at] = 255
            return image

    frames = small(lambda lane: Image(), agent=None)
    assert frames.buffer.config["layout"] == "frames" and frames.buffer.config["frame_stack"] == 4
    assert frames.config["learner"]["network"]["input_scale"] == pytest.approx(1 / 255)
    one = small(lambda lane: Image(), agent=None, frame_stack=1, out=tmp_path)  # the agent sees a single frame
    assert one.buffer.config["frame_stack"] == 1 and one.buffer.config["fields"]["obs"] == ((1, 7, 7), "uint8")
    assert "--frame-stack 1\n" in (tmp_path / "options.txt").read_text()
    made = small("gymnasium:CartPole-v1", env_options={"max_episode_steps": 9}, steps=80)
    assert made.episodes["length"].max() <= 9 and made.config["environment"]["name"] == "CartPole-v1"
    assert made.config["options"]["env-options"] == "max_episode_steps=9"


@pytest.mark.parametrize("name, value", [("config", {"a": 1, "b": 2}), ("config", [1, 2]), ("x", "200"), ("x", "True"),
                                         ("x", "a,b"), ("x", float("nan"))])
def test_env_options_that_a_text_cannot_hold_are_refused(name, value, tmp_path):
    options = {"max_episode_steps": 9, name: value}
    with pytest.raises(gpureplay.InvalidArgument) as refused:
        small("gymnasium:CartPole-v1", env_options=options, out=tmp_path / "run")
    assert f"env_options[{name!r}] is {value!r}" in str(refused.value) and not (tmp_path / "run").exists()


def test_env_options_come_back_equal(tmp_path):
    options = {"max_episode_steps": 9, "sutton_barto_reward": True, "render_mode": None}
    small("gymnasium:CartPole-v1", env_options=options, out=tmp_path, checkpoint=80, steps=80)
    assert "--env-options max_episode_steps=9,sutton_barto_reward=True,render_mode=None\n" in \
        (tmp_path / "options.txt").read_text()
    again = gpureplay.train(resume=tmp_path, steps=160, progress=False)
    assert again.episodes["length"].max() <= 9 and again.episodes["return"].max() <= 0  # Sutton and Barto's rewards
    gpureplay.train(resume=tmp_path, env_options=options, progress=False)
    with pytest.raises(gpureplay.InvalidArgument, match="is max_episode_steps=8, and the run that is to be resumed"):
        gpureplay.train(resume=tmp_path, env_options={"max_episode_steps": 8}, progress=False)


def test_config_has_the_network_that_the_run_acts_by():
    by = {concurrent: small(lambda lane: Random(), concurrent=concurrent, steps=80).config["run"]["act"]
          for concurrent in (True, False)}
    assert by == {True: "target", False: "latest"}


def test_large_images_need_a_preset():
    class Screen(Corridor):
        observation_space = gymnasium.spaces.Box(0, 255, (210, 160, 3), np.uint8)

    with pytest.raises(gpureplay.InvalidArgument, match="images of 210 x 160 and preset is missing; .*atari.so"):
        small(lambda lane: Screen())


def test_it_learns_the_corridor():
    result = small(lambda lane: Random(), steps=8000, eval_period=0, eval_episodes=20, learning_rate=3e-3,
                   exploration_steps=4000, env_threads=1)
    assert result.evaluations["mean_return"][-1] > 0.9
    assert result.agent.act(np.eye(6, dtype=np.float32)[:5]).tolist() == [2] * 5  # its actions are 1 and 2


# What ends a training.


@pytest.mark.parametrize("make, text, cause", [
    (lambda lane: Corridor({100: ZeroDivisionError("no motor")} if lane == 2 else None),
     r"environment 2, step \d+: ZeroDivisionError: no motor", ZeroDivisionError),
    (lambda lane: Corridor() if lane < 1 else 1 / 0, "environment 1: ZeroDivisionError: division by zero",
     ZeroDivisionError),
    (lambda lane: Corridor({5: OSError("gone")} if lane == 4 else None), "the evaluation: OSError: gone", OSError),
    (lambda lane: Wrong(), r"ValueError: the observation has shape \(5,\); it must be \(6,\)", ValueError),
    (lambda lane: Other() if lane == 3 else Corridor(),
     "environment 3: ValueError: the spaces are .* must be those of the first environment", ValueError),
], ids=["step", "make", "evaluation", "shape", "spaces"])
def test_what_an_environment_raises_is_the_cause(make, text, cause):
    with pytest.raises(gpureplay.EnvError, match=text) as caught:
        small(make)
    assert type(caught.value.__cause__) is cause


class Wrong(Corridor):
    def show(self):
        return np.zeros(5) if self.at == 4 else super().show()


class Other(Corridor):
    action_space = gymnasium.spaces.Discrete(3)


def test_an_exit_in_an_environment_is_an_exit():
    with pytest.raises(SystemExit, match="enough"):
        small(lambda lane: Corridor({70: SystemExit("enough")}))


def test_a_vector_environment_that_fails_is_the_cause():
    envs = gymnasium.vector.SyncVectorEnv([lambda: Corridor({60: ArithmeticError("worn out")})] * 4)
    text = r"SyncVectorEnv, steps \d+ to \d+: ArithmeticError: worn out"
    with pytest.raises(gpureplay.EnvError, match=text) as caught:
        small(envs, eval_period=0, eval_episodes=0)
    assert isinstance(caught.value.__cause__, ArithmeticError)


def test_events_can_end_a_training():
    seen = []
    result = small(lambda lane: Corridor(), on_event=lambda event: seen.append(event) or len(seen) < 5)
    assert len(result.episodes) >= 5 and result.stats.env_steps < 400 and seen[0].kind == "episode"
    assert [event.mean_return for event in seen] == result.episodes["return"][:len(seen)].tolist()

    def fail(event):
        raise ArithmeticError("of the caller")

    with pytest.raises(ArithmeticError, match="of the caller"):
        small(lambda lane: Corridor(), on_event=fail)


@pytest.mark.parametrize("given, advice", [
    ({"buffer": {"alpha": 0.7}}, 1), ({"buffer": {"first_priority": "ever"}}, 1), ({"buffer": {"beta": 0.4}}, 1),
    ({"agent": {"trunk": [16], "prioritized": True}}, 1), ({"buffer": {"evict_alpha": -0.4}}, 2),
    ({"buffer": {"eviction": "priority"}, "agent": {"trunk": [16], "prioritized": True}}, 1),
    ({"buffer": {"alpha": 0.7}, "agent": {"trunk": [16], "prioritized": True}}, 1)])
def test_advice_about_settings_that_a_buffer_and_an_agent_have_helps(given, advice):
    given = copy.deepcopy(given)
    for _ in range(advice):
        with pytest.raises(ValueError, match="it needs|it must be") as error:
            small(lambda lane: Corridor(), **given)
        place, name, value = re.search(r"(?:it needs |, and )(buffer|agent)=\{\"(\w+)\": (True|\"\w+\"|\.\.\.)\}",
                                       str(error.value)).groups()
        assert value != "..." or "is False; it must be True" in str(error.value)
        given.setdefault(place, {})[name] = value.strip('"') if '"' in value else True
    assert small(lambda lane: Corridor(), **given).buffer.config["prioritized"]


def interrupt_soon(seconds):
    """Ctrl-C."""
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    return timer


@needs_files
def test_ctrl_c_saves_what_there_is_and_the_run_goes_on(tmp_path):
    options = {**SMALL, "num_envs": 2, "steps": 10**6, "checkpoint": 80, "out": tmp_path}
    timer = interrupt_soon(1.0)
    with pytest.raises(KeyboardInterrupt):
        gpureplay.train(lambda lane: Random(delays=np.random.default_rng(lane)), **options)
    timer.join()
    saved = _run_folder.read_array(tmp_path, "rates")["step"]
    assert gpureplay.file_info(tmp_path / "learner.safetensors").kind == "learner"
    step = int((tmp_path / "checkpoint/position.txt").read_text().split()[1])
    assert step > 0 and step % 80 == 0 and step == saved[-1]  # it went on to where a checkpoint can be taken
    again = gpureplay.train(lambda lane: Random(), resume=tmp_path, steps=step + 100, progress=False)
    assert again.episodes["step"].max() > step and again.agent.stats.steps == 20 * ((step + 100 + 79) // 80)
    with pytest.raises(gpureplay.InvalidArgument, match=r"num_envs is 3, and the run that is to be resumed has 2; "
                       "leave it out, or begin another run: out with another folder in place of resume$"):
        gpureplay.train(lambda lane: Random(), resume=tmp_path, num_envs=3)
    other = gpureplay.train(lambda lane: Random(), **{**SMALL, "num_envs": 4, "steps": 160, "out": tmp_path / "other"})
    assert other.buffer is not None and (tmp_path / "other" / "config.json").exists()
    for settings, words in (({"trunk": [8]}, r"agent\['trunk'\] is \[8\], and the run .* has \[16\]; leave agent out"),
                            ({}, None), ({"trunk": [16], "clip_norm": 5}, r"agent\['clip_norm'\] is 5, .* has none; "),
                            ({"clip_norm": 5}, r"agent\['clip_norm'\] is 5, and the run")):
        if words:
            with pytest.raises(gpureplay.InvalidArgument, match="^" + words):
                gpureplay.train(lambda lane: Random(), resume=tmp_path, agent=settings)
    with pytest.raises(gpureplay.InvalidArgument, match=r"steps is 1; the run has taken \d+ steps, and no fewer"):
        gpureplay.train(lambda lane: Random(), resume=tmp_path, steps=1, progress=False)
    with pytest.raises(FileExistsError, match=f"options.txt is there already; resume='{tmp_path}' goes on .*other out"):
        gpureplay.train(lambda lane: Random(), **options)


@pytest.mark.parametrize("options, error, text", [
    ({"num_envs": 3}, gpureplay.InvalidArgument, "target_period is 80 and num_envs is 3"),
    ({"env_threads": 3, "num_envs": 2}, gpureplay.InvalidArgument, "env_threads is 3 and num_envs is 2; the first"),
    ({"train_period": 7}, gpureplay.InvalidArgument, "target_period is 80 and train_period is 7"),
    ({"num_envs": 1, "synchronized": True}, gpureplay.InvalidArgument, "synchronized is 1 and num_envs is 1"),
    ({"checkpoint": 100}, gpureplay.InvalidArgument, "checkpoint is 100 and target_period is 80"),
    ({"preset": "slow-dqn"}, gpureplay.InvalidArgument, f"preset is slow-dqn; it must be "
     f"{', '.join([*_options.PRESETS][:-1])} or offline-sac$"),
    ({"preset": "apex-dqn-smal"}, gpureplay.InvalidArgument, "preset is apex-dqn-smal; it must be fast-dqn, "),
    ({"agent": {"check_nan": False}}, TypeError, r"agent has .*keyword of `train`: train\(\.\.\., check_nan=False\)$"),
    ({"buffer": {"check_nan": False}}, TypeError, r"buffer has .* `train`: train\(\.\.\., check_nan=False\)$"),
    ({"preset": ["fast-dqn"]}, gpureplay.InvalidArgument, r"preset is \['fast-dqn'\]; it must be fast-dqn, "),
    ({"preset": "fast-dqn"}, gpureplay.InvalidArgument, "84 x 84"),
    ({"steps": 0}, gpureplay.InvalidArgument, 'steps is "0"; it must be a whole number of 1 to'),
    ({"learning_rate": float("nan")}, gpureplay.InvalidArgument, 'learning_rate is "nan"; it must be a number of 0'),
    ({"env_options": "a=1"}, TypeError, "options go with a name"),
    ({"eval_env": 1}, TypeError, "only a list of environments and a vector environment need an eval_env"),
    ({"agent": {"trunks": 1}}, TypeError, "'trunks' is no setting; they are trunk"),
    ({"buffer": {"cap": 1}}, TypeError, "buffer has 'cap', which is no setting of it; they are .*, n_step"),
    ({"device": gpureplay.Device("cpu")}, gpureplay.InvalidArgument, "threads is 1 and device is an open Device"),
    ({"device": gpureplay.Device("cpu"), "threads": None, "deterministic": True}, gpureplay.InvalidArgument,
     r"deterministic is True and device is an open Device, which is not; .*Device\(\.\.\., deterministic=True\)"),
    ({"agent": {"deterministic": True}}, TypeError, r"'deterministic' is no setting of .* of its device: device=Dev"),
    ({"out": "a", "resume": "b"}, gpureplay.InvalidArgument, "only one of the two"),
    ({"burst": True, "concurrent": True}, gpureplay.InvalidArgument, "burst is 1 and concurrent is 1"),
    ({"lambda_": 0.5}, gpureplay.InvalidArgument, "lambda_ is 0.5 and preset is fast-dqn-small-vectors, which has"),
    ({"preset": "vrc-2021-small"}, gpureplay.InvalidArgument, "lambda_ is missing; .*vrc-2021-small .*estimator"),
    ({"preset": "vrc-2021-small", "estimator": "sarsa"}, gpureplay.InvalidArgument, 'estimator is "sarsa"; it must be'),
    ({"preset": "vrc-2021-small", "lambda_": 0.5, "n_step": 3}, gpureplay.InvalidArgument, "n_step is 3 and est"),
    ({"frame_stack": 2}, gpureplay.InvalidArgument, "frame_stack is 2, and .* does not show one image"),
])
def test_options_that_are_refused(options, error, text):
    with pytest.raises(error, match=text):
        small(lambda lane: Corridor(), **options)


@pytest.mark.parametrize("env, error, text", [
    (3, TypeError, "env is 3; it must be the name of a game"),
    (lambda: Corridor(), TypeError, "env is .*, a function with the arguments \\(\\); it must be make_env\\(lane\\)"),
    (Corridor, TypeError, "a function that .*; lambda lane: Corridor\\(\\) makes those of a class"),
    ([], ValueError, "env has 0 environments"),
    ("Nothing-v9", ValueError, "no game of the library .*CartPole-v1.*; Gymnasium says: .*Nothing"),
    ("./nothing.so", gpureplay.InvalidArgument, "nothing.so"),
    (lambda lane: gymnasium.make("gymnasium:Pendulum-v1"), gpureplay.InvalidArgument, "has continuous actions"),
    (lambda lane: Switches(), TypeError, "the action space is MultiBinary.* must be Discrete, or for a DDPG .* a Box"),
    (lambda lane: gymnasium.wrappers.Autoreset(Corridor()), TypeError, "resets itself"),
])
def test_environments_that_are_refused(env, error, text):
    with pytest.raises(error, match=text):
        small(env, num_envs=None)


# Runs without `train`.


FIELDS = {"obs": ((6,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((6,), "float32"),
          "terminated": "bool", "truncated": "bool"}


def learner():
    buffer = gpureplay.ReplayBuffer(1000, FIELDS, device="cpu", min_size=50)
    return gpureplay.DQN(buffer, num_actions=2, trunk=[16], target_period=20)


def test_a_run_over_a_buffer_and_a_learner_of_ones_own():
    agent, events = learner(), []
    with pytest.raises(TypeError, match="'speed' is no setting; they are num_envs"):
        gpureplay.Run(agent, "CartPole-v1", speed=3)
    with gpureplay.Run(agent, lambda lane: Random(), num_envs=2, prepopulation=50, eval_period=0, eval_episodes=3,
                       on_event=events.append) as run:
        assert run.config["target_period"] == 80 and "2" in repr(run)
        run.advance(160)
        run.evaluate()
        assert run.stats.env_steps == 160 and events[-1].kind == "evaluation" and events[-1].episodes == 3
        with pytest.raises(gpureplay.Closed, match="gave way to those of a gpureplay.Run"):
            agent._buffer.add(obs=np.zeros(6), action=0, reward=0.0, next_obs=np.zeros(6), terminated=False)
        run.stop()
        with pytest.raises(gpureplay.Interrupted):
            run.advance(10**9)
    assert run.closed and len(agent._buffer) >= 130
    agent.train(3)


CUT = "cut off after 27000 steps, as this environment tells no limit .* gymnasium.wrappers.TimeLimit\\(env, steps\\)"


def test_a_game_of_an_evaluation_has_an_end():
    with gpureplay.ReplayBuffer(400, Endless.observation_space, Endless.action_space, device="cpu") as buffer:
        agent = gpureplay.DQN(buffer, trunk=[8], target_period=20, batch_size=8)
        with gpureplay.Run(agent, lambda lane: Endless(), num_envs=2, prepopulation=50, eval_period=0,
                           eval_episodes=2) as run, pytest.warns(RuntimeWarning, match=f"^2 games of .* were {CUT}"):
            run.evaluate()
        assert run.closed
    critic = gpureplay.ActorCritic(Endless.observation_space, 2, trunk=[8], device="cpu")
    with gpureplay.GA3C(critic, lambda number: Endless(), agents=1) as run:
        with pytest.warns(RuntimeWarning, match=f"^1 game of .* was {CUT}"):
            assert run.evaluate(1) == 27000
        assert run.stats.eval_cut == 1
    once = {**SMALL, "steps": 160, "eval_period": 0, "eval_episodes": 1}
    with pytest.warns(RuntimeWarning, match=CUT):
        result = gpureplay.train(lambda lane: Endless(), **once)
    assert result.evaluations["mean_return"].tolist() == [27000] and result.stats.eval_cut == 1
    with warnings.catch_warnings():  # the advice
        warnings.simplefilter("error")
        result = gpureplay.train(lambda lane: gymnasium.wrappers.TimeLimit(Endless(), 27010), **once)
    assert result.evaluations["length"].tolist() == [27010] and result.stats.eval_cut == 0


def test_ctrl_c_ends_an_evaluation():
    class Interrupting(Endless):
        def __init__(self, lane):
            self.left = 1000 if lane == SMALL["num_envs"] else 10**9

        def step(self, action):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return super().step(action)

    with pytest.raises(KeyboardInterrupt):
        gpureplay.train(lambda lane: Interrupting(lane), **{**SMALL, "eval_period": 0, "eval_episodes": 10**6})


@needs_files
def test_the_end_may_be_asked_for_at_any_event(tmp_path):
    """Also in the last call before a checkpoint or an evaluation."""
    for at in range(6):
        events = []
        result = gpureplay.train(lambda lane: Random(), **{**SMALL, "num_envs": 2, "steps": 240, "checkpoint": 80,
                                                           "eval_episodes": 1, "out": tmp_path / str(at)},
                                 on_event=lambda event: events.append(event) or len(events) <= at * 3)
        assert len(events) > at * 3
        assert (tmp_path / str(at) / "learner.safetensors").exists() == (result.stats.env_steps > 0)
        assert result.stats.env_steps <= 240 and (at > 0 or result.stats.env_steps < 240)


@needs_files
def test_a_second_ctrl_c_ends_a_training_at_once(tmp_path, capsys):
    """Before the next checkpoint, which is far."""
    class Interrupting(Random):
        def step(self, action):
            if self.total in (400, 410):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.5)
            return super().step(action)

    with pytest.raises(KeyboardInterrupt):
        gpureplay.train(lambda lane: Interrupting(), **{**SMALL, "num_envs": 1, "target_period": 10**6, "steps": 10**7,
                                                        "checkpoint": 10**6, "eval_episodes": 0, "eval_period": 0,
                                                        "concurrent": False, "out": tmp_path, "progress": True})
    assert _run_folder.read_array(tmp_path, "rates")["step"][-1] < 2000 and not (tmp_path / "checkpoint").exists()
    assert (tmp_path / "learner.safetensors").exists()
    assert "and there is no checkpoint to go on from\n" in capsys.readouterr().out


class Interrupting(io.StringIO):
    """Ctrl-C comes when these words are written."""

    def __init__(self, words):
        super().__init__()
        self._words = words

    def write(self, text):
        if self._words in text:
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


@needs_files
@pytest.mark.parametrize("words", ["writes to", "100.0%"])
def test_ctrl_c_while_a_training_begins_or_finishes(tmp_path, words):
    options = {**SMALL, "num_envs": 2, "steps": 240, "checkpoint": 80}
    whole = gpureplay.train("CartPole-v1", **options)
    out = Interrupting(words)
    with contextlib.redirect_stdout(out), pytest.raises(KeyboardInterrupt):
        gpureplay.train("CartPole-v1", **{**options, "progress": True, "out": tmp_path})
    assert re.search(r"^interrupted; .* goes on after step \d+\n\Z", out.getvalue(), re.M), out.getvalue()
    again = gpureplay.train(resume=tmp_path, progress=False)
    for name, weights in whole.agent.weights.items():
        np.testing.assert_array_equal(weights, again.agent.weights[name])


@needs_files
def test_a_run_of_an_object_is_resumed_with_one(tmp_path):
    options = {**SMALL, "num_envs": 2, "checkpoint": 80}
    gpureplay.train(lambda lane: Random(), **{**options, "steps": 160, "out": tmp_path / "run"})
    with pytest.raises(gpureplay.InvalidArgument, match="had an environment without a name"):
        gpureplay.train(resume=tmp_path / "run", steps=240, progress=False)
    result = gpureplay.train(lambda lane: Random(), resume=tmp_path / "run", steps=240, progress=False)
    assert result.stats.env_steps == 240 and result.config["environment"]["name"] == "Random"


def test_one_environment_for_all_lanes_is_refused():
    env = Random()
    with pytest.raises(gpureplay.EnvError, match="environment 1 is that of another slot"):
        gpureplay.train(lambda lane: env, **{**SMALL, "num_envs": 2, "steps": 160})


@pytest.mark.parametrize("which", ["run", "learner", "buffer"])
def test_on_event_cannot_close_what_the_call_uses(which):
    agent = learner()
    run = gpureplay.Run(agent, lambda lane: Random(), num_envs=2, prepopulation=50, eval_period=0, eval_episodes=0,
                        on_event=lambda event: {"run": run, "learner": agent, "buffer": agent._buffer}[which].close())
    with pytest.raises(RuntimeError, match="cannot be closed by a function that its own call runs"):
        run.advance(10**6)
    assert run.stats.prepopulated > 0 and not run.closed
    agent._buffer.close()


def test_runs_close_with_their_learner_and_in_any_order():
    for close in ("close", "buffer", "drop"):
        agent = learner()
        run = gpureplay.Run(agent, lambda lane: Random(), num_envs=2, prepopulation=50, eval_period=0, eval_episodes=0)
        run.advance(8)
        if close == "drop":
            agent.me, run.me = run, agent
            del agent, run
            continue
        agent.close() if close == "close" else agent._buffer.close()
        with pytest.raises(gpureplay.Closed, match="this run was closed with its learner"):
            run.advance(1)


@pytest.mark.parametrize("is_training", [False, True])
def test_the_interpreter_ends_beside_a_call_of_a_daemon_thread(is_training):
    out, err = run(f"""
class Env:
    from gymnasium import spaces
    observation_space, action_space = spaces.Box(0, 1, (2,)), spaces.Discrete(2)
    steps = 0
    def reset(self, seed=None, options=None):
        return np.zeros(2), {{}}
    def step(self, action):
        Env.steps += 1
        return np.ones(2), 1.0, False, False, {{}}
    def close(self):
        pass
def train():
    gpureplay.train(lambda lane: Env(), steps=10**9, prepopulation=20, eval_period=0, eval_episodes=0, device="cpu",
                    progress=False)
def advance():
    fields = {{"obs": ((2,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((2,), "float32"),
              "terminated": "bool", "truncated": "bool"}}
    buffer = gpureplay.ReplayBuffer(500, fields, device="cpu", min_size=10)
    agent = gpureplay.DQN(buffer, num_actions=2, trunk=[8], target_period=20)
    run = gpureplay.Run(agent, lambda lane: Env(), num_envs=2, prepopulation=20, eval_period=0, eval_episodes=0)
    run.advance(10**9)
threading.Thread(target={"train" if is_training else "advance"}, daemon=True).start()
while Env.steps < 100:
    time.sleep(0.01)
print("ends")
""")
    assert out == "ends\n" and err == ""


# The program and the files.

FLAGS = ["--device", "cpu", "--threads", "1", "--target-period", "80", "--prepopulation", "250", "--capacity", "1000",
         "--eval-period", "160", "--eval-episodes", "2", "--exploration-steps", "300", "--checkpoint", "80"]
LAMBDA = ["--preset", "vrc-2021-small", "--lambda", "0.75", "--num-envs", "2"]


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    """Three runs of the program. What it writes is tested by tests/examples/test_train.py."""
    folder = tmp_path_factory.mktemp("runs")
    for name, seed in (("whole", 1), ("other", 2)):
        program("--env", "CartPole-v1", *FLAGS, "--steps", 400, "--seed", seed, "--out", folder / name, "--quiet")
    program("--env", "CartPole-v1", *FLAGS, *LAMBDA, "--steps", 400, "--out", folder / "lambda", "--quiet")
    return folder


# Messages of trainings as the package has them, with the preset; in the words of the function; and in those of the
# program. None: not tested.
WORDS = [
    ("steps is 7 and lambda_ is 2; leave env_options=a out", "vrc-2021", "steps is 7 and lambda_ is 2; leave "
     "env_options=a out", "--steps is 7 and --lambda is 2; leave --env-options a out"),
    ("reward_clip is -1; it must be 0 or more", "fast-dqn", 'buffer={"reward_clip": ...} is -1; it must be 0 or more',
     'buffer={"reward_clip": ...} of gpureplay.train in Python is -1; it must be 0 or more'),
    ("clip_norm is -1; double_dqn is 3", "a2c", 'agent={"clip_norm": ...} is -1; double_dqn is 3', None),
    ("'gamma' is no setting of a learner, but of its buffer: ReplayBuffer(..., gamma=...)", "fast-dqn",
     "'gamma' is no setting of a learner, but of its buffer: buffer={\"gamma\": ...}", None),
    ("the loss is 3 and the file of a folder is /steps", "fast-dqn", "the loss is 3 and the file of a folder is /steps",
     None),
]


@pytest.mark.parametrize("text, preset, keywords, options", WORDS)
def test_messages_are_in_the_words_of_the_door(text, preset, keywords, options):
    for door, wanted in ((contextlib.nullcontext, keywords), (_door.program_words, options)):
        with door(), pytest.raises(gpureplay.InvalidArgument) as error:
            with _door.own_words(_options.system_of(preset)):
                raise gpureplay.InvalidArgument(text)
        if wanted:
            assert str(error.value) == wanted


def test_messages_of_the_library_are_in_the_words_of_the_door(tmp_path):
    with pytest.raises(gpureplay.InvalidArgument) as error:
        small(lambda lane: Corridor(), num_envs=3)
    in_words = ("target_period is 80 and num_envs is 3; with synchronized 1 the first must be a multiple of the "
                "second: change one of them, or give synchronized 0")
    assert str(error.value) == in_words
    refused = program("--env", "CartPole-v1", *FLAGS, "--num-envs", 3, "--out", tmp_path / "run", wanted=2).stderr
    for name in ("target_period", "num_envs", "synchronized"):
        in_words = in_words.replace(name, "--" + name.replace("_", "-"))
    assert refused == f"python -m gpureplay.train: {in_words}\n" and not (tmp_path / "run").exists()


@needs_files
def test_the_program_names_its_own_options(cartpole, tmp_path, monkeypatch):
    (tmp_path / "shows_nan.py").write_text(
        "import gymnasium, numpy as np\nclass Shows(gymnasium.Env):\n"
        "    observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n        return np.full(2, np.nan, np.float32), {}\n"
        "def make_env(lane):\n    return Shows()\n")
    monkeypatch.syspath_prepend(tmp_path)
    refused = program("--env", "shows_nan:make_env", "--out", tmp_path / "run", "--quiet", wanted=2).stderr
    assert "environment 0, step 0: the observation is NaN; its numbers must be finite\n" in refused
    refused = program("--resume", cartpole / "whole", "--num-envs", 3, "--quiet", wanted=2).stderr
    assert "--num-envs is 3, and the run that is to be resumed has 8; leave it out" in refused
    refused = program("--env", "CartPole-v1", *FLAGS, "--out", cartpole / "whole", wanted=2).stderr
    assert f"is there already; --resume {cartpole / 'whole'} goes on with" in refused
    with pytest.raises(gpureplay.InvalidArgument, match="^num_envs is 3, and"):  # the function has its own again
        gpureplay.train(resume=cartpole / "whole", num_envs=3, progress=False)


def test_a_plugin_may_be_a_path(plugin, tmp_path, monkeypatch):
    path = Path(plugin.partition(":")[0])
    monkeypatch.chdir(path.parent)
    result = small(Path(path.name), out=tmp_path / "run")
    assert result.config["options"]["env"].startswith(str(path.parent.resolve()))
    pytest.importorskip("gymnasium")
    assert gpureplay.make_vec(Path(path.name), 2).num_envs == 2
    assert gpureplay.make_env(Path(path.name)).action_space is not None


def test_an_environment_of_evaluations_is_refused_before_the_training():
    wanted = r"^eval_env is .*; it must be an Env of Gymnasium like those that train, or None$"
    for judge in (Random, "CartPole-v1"):
        for envs in ([Random(), Random()], gymnasium.vector.SyncVectorEnv([Random] * 2)):
            with pytest.raises(TypeError, match=wanted):
                small(envs, num_envs=None, eval_env=judge)
    with pytest.raises(gpureplay.InvalidArgument, match="objects need an eval_env, .*; eval_episodes=0 leaves them"):
        small([Random(), Random()], num_envs=None)


@needs_files
@pytest.mark.skipif("GPUREPLAY_TRAIN" not in os.environ, reason="GPUREPLAY_TRAIN does not name gpureplay-train")
@pytest.mark.parametrize("run_name, flags", [("whole", []), ("lambda", LAMBDA)])
def test_the_program_in_c_writes_the_same(cartpole, tmp_path, run_name, flags):
    whole = cartpole / run_name
    subprocess.run([os.environ["GPUREPLAY_TRAIN"], "--env", "CartPole-v1", *FLAGS, *flags, "--steps", "400", "--out",
                    tmp_path / "c", "--quiet"], check=True, timeout=120)
    for name in ("episodes.csv", "evaluations.csv", "options.txt", "learner.safetensors"):
        assert (tmp_path / "c" / name).read_bytes() == (whole / name).read_bytes(), name
    c, python = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path / "c", whole))
    assert c.pop("program") == "gpureplay-train" and python.pop("program") == "gpureplay.train"
    assert python.pop("overrides") == {"buffer": {}, "agent": {}} and python.pop("python")
    assert c == python
    missing = _run_folder.read_array(whole, "rates")["missing_share"]
    assert set(missing[~np.isnan(missing)]) == ({0} if run_name == "lambda" else set())
    # Each goes on with the other's run.
    shutil.copytree(whole, tmp_path / "python")
    program("--resume", tmp_path / "c", "--steps", 600, "--quiet")
    subprocess.run([os.environ["GPUREPLAY_TRAIN"], "--resume", tmp_path / "python", "--steps", "600", "--quiet"],
                   check=True, timeout=120)
    for name in ("episodes.csv", "evaluations.csv", "options.txt", "learner.safetensors"):
        assert (tmp_path / "c" / name).read_bytes() == (tmp_path / "python" / name).read_bytes(), name


def config_of(folder):
    """What both programs write alike."""
    config = json.loads((folder / "config.json").read_text())
    for name in ("program", "overrides", "python", "build"):
        config.pop(name, None)
    return config


@pytest.mark.skipif("GPUREPLAY_TRAIN" not in os.environ, reason="GPUREPLAY_TRAIN does not name gpureplay-train")
@pytest.mark.parametrize("fixture, preset, options, steps, epsilon", [
    ("frames_plugin", "dqn-lambda-2019", {"lambda": 0.5}, 10_000_000 - 50_000, (1, 1, 1_000_000)),
    ("frames_plugin", "vrc-2021", {"lambda": 0.5, "batch": 24, "capacity": 200}, 5_000_000 - 50_000,
     (0.955, 0, 950_000)),
    ("plugin", "dqn-lambda-2019", {}, 500_000 - 50_000, (1, 1, 300_000)),
    ("plugin", "dqn-lambda-2019-small", {"lambda": 0.5}, 1_000_000, (1, 1, 100_000)),
    ("plugin", "vrc-2021-small", {"lambda": 0.5}, 1_000_000, (0.955, 0, 95_000)),
    ("plugin", "vrc-2021-small", {"lambda": 0.5, "prepopulation": 300, "exploration-steps": 1000}, 1_000_000,
     (0.73, 0, 700)),
    ("plugin", "vrc-2021-small", {"lambda": 0.5, "exploration-steps": 5000}, 1_000_000, (0.1, 0, 0)),
])
def test_a_preset_of_dqn_lambda_is_the_same_in_both_programs(request, tmp_path, fixture, preset, options, steps,
                                                             epsilon):
    """Its settings, and the first episodes of runs of its length, which end where the environment refuses a step. The
    epsilon of vrc-2021 falls from the first random step on, in a line that reaches 0.1 after the exploration steps."""
    random = options.get("prepopulation", 5000 if "-small" in preset else 50_000)
    options = {"env": request.getfixturevalue(fixture), "env-options": f"fails={random + 120}", "preset": preset,
               "device": "cpu", "threads": 1, "capacity": 1000, "target-period": 8, "batch": 4, **options}
    flags = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    done = subprocess.run([os.environ["GPUREPLAY_TRAIN"], *flags, "--out", tmp_path / "c"], capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 2 and "enough" in done.stderr, done.stderr
    assert "enough" in program(*flags, "--out", tmp_path / "python", wanted=2).stderr
    c, python = (config_of(tmp_path / name) for name in ("c", "python"))
    assert c == python and c["options"]["steps"] == steps and c["run"]["prepopulation"] == random
    assert c["learner"]["exploration"] == {"first": epsilon[0], "last": 0.1, "begin": epsilon[1], "steps": epsilon[2]}
    episodes = [(tmp_path / name / "episodes.csv").read_text() for name in ("c", "python")]
    assert episodes[0] == episodes[1] and int(episodes[0].splitlines()[-1].split(",")[0]) > 60


@needs_files
@pytest.mark.skipif("GPUREPLAY_TRAIN" not in os.environ, reason="GPUREPLAY_TRAIN does not name gpureplay-train")
@pytest.mark.parametrize("fixture, preset, options", [
    ("frames_plugin", "ga3c", {"agents": 2}), ("frames_plugin", "ga3c-large-4", {"agents": 2, "tuner": "code"}),
    ("frames_plugin", "a3c-cpu", {"agents": 2, "entropy": 0.1}), ("frames_plugin", "a2c", {"agents": 2, "t-max": 3}),
    ("plugin", "ga3c-small", {"when-full": "drop-oldest", "queue-room": 3, "min-train-batch": 7}),
    ("plugin", "a3c-small", {"learning-rate": 0.1}), ("plugin", "a2c-small", {"deterministic": 1}),
])
def test_a_preset_of_an_actor_critic_is_the_same_in_both_programs(request, tmp_path, fixture, preset, options):
    """Its settings; and each goes on with the other's run."""
    options = {"env": request.getfixturevalue(fixture), "preset": preset, "device": "cpu", "threads": 1, "steps": 40,
               "eval-episodes": 0, **options}
    flags = [str(word) for name, value in options.items() for word in (f"--{name}", value)]

    program_in_c(*flags, "--out", tmp_path / "c", "--quiet")
    program(*flags, "--out", tmp_path / "python", "--quiet")
    assert config_of(tmp_path / "c") == config_of(tmp_path / "python")
    assert (tmp_path / "c/options.txt").read_bytes() == (tmp_path / "python/options.txt").read_bytes()
    program("--resume", tmp_path / "c", "--steps", 60, "--quiet")
    program_in_c("--resume", tmp_path / "python", "--steps", "60", "--quiet")
    for name in ("c", "python"):
        assert [_run_folder.read_array(tmp_path / name, "rates")["step"][-1]] == [60]


def test_an_actor_critic_trains_in_environments_that_a_function_makes():
    events = []
    result = gpureplay.train(lambda number: Corridor(), preset="a2c-small", agents=3, steps=300, seed=5, threads=1,
                             device="cpu", progress=False, eval_episodes=2, on_event=events.append)
    assert isinstance(result.agent, gpureplay.ActorCritic) and result.buffer is None and result.folder is None
    assert result.stats.env_steps == result.rates["step"][-1] == 300 and result.config["ga3c"]["system"] == "a2c"
    assert {event.kind for event in events} == {"episode", "evaluation"}
    episodes = [event.env_index for event in events if event.kind == "episode"]
    assert episodes == result.episodes["agent"].tolist() and len(episodes) > 5
    (evaluation,) = result.evaluations
    assert evaluation["episodes"] == 2 and evaluation["mean_return"] > 0
    assert result.agent.policy().act(np.eye(6, dtype=np.float32)).shape == (6,)
    with pytest.raises(gpureplay.InvalidArgument, match="buffer is .*; GA3C, A3C and A2C have none"):
        gpureplay.train("CartPole-v1", preset="a2c-small", buffer={"capacity": 3})
    with pytest.raises(TypeError, match="for GA3C it must be a name, or a function make_env"):
        gpureplay.train([Corridor()], preset="a2c-small")


def test_the_page_of_dqn_lambda_says_what_works():
    page = (Path(__file__).resolve().parents[2] / "docs/dqn-lambda.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```", page, re.M | re.S).group(1)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, "docs/dqn-lambda.md", "exec"), names)
    assert out.getvalue().splitlines()[-1].startswith("3 ") and names["result"].agent.config["draw"] == "replacement"


def program_in_c(*words, wanted=0):
    done = subprocess.run([os.environ["GPUREPLAY_TRAIN"], *words], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == wanted, done
    return Done(done.stdout, done.stderr)


@needs_files
@pytest.mark.skipif("GPUREPLAY_TRAIN" not in os.environ, reason="GPUREPLAY_TRAIN does not name gpureplay-train")
def test_the_program_in_c_refuses_settings_that_only_python_takes(tmp_path):
    small("CartPole-v1", out=tmp_path / "run")
    err = program_in_c("--resume", tmp_path / "run", "--steps", "800", wanted=2).stderr
    assert 'the line "agent {"trunk": [16]}"' in err
    assert "settings that Python alone takes; python -m gpureplay.train --resume goes on with this run" in err
    small(lambda lane: Random(), agent=None, out=tmp_path / "object")
    for words in (["--resume", tmp_path / "object", "--steps", "800"], ["evaluate", tmp_path / "object"]):
        assert "train: the run had an environment that was an object of Python" in program_in_c(*words, wanted=2).stderr


@needs_files
@pytest.mark.skipif("GPUREPLAY_TRAIN" not in os.environ, reason="GPUREPLAY_TRAIN does not name gpureplay-train")
def test_the_program_in_c_plays_what_was_trained_with_settings_of_python(tmp_path):
    """The learner's file has them, but for how a stack of frames begins."""
    small("CartPole-v1", out=tmp_path / "run", buffer={"reward_clip": 1.0})
    for weights in ("best", "last"):
        shown = program_in_c("evaluate", tmp_path / "run", "--episodes", "2", "--weights", weights).stdout
        assert "mean return " in shown and " of 2 games" in shown
    with open(tmp_path / "run/options.txt", "a") as file:
        file.write('buffer {"stack_pad": "repeat"}\n')
    assert '{"stack_pad": "repeat"}", settings that Python' in program_in_c("play", tmp_path / "run", wanted=2).stderr


@needs_files
@pytest.mark.skipif("GPUREPLAY_TRAIN" not in os.environ, reason="GPUREPLAY_TRAIN does not name gpureplay-train")
def test_a_run_of_an_object_goes_on_in_a_plugin_of_the_same_name(plugin, tmp_path):
    """Its evaluations are in one environment, as an object is one; those of a plug-in would be in two."""
    small(lambda lane: Corridor(), agent=None, out=tmp_path)
    program_in_c("--resume", tmp_path, "--env", plugin, "--steps", "800", "--quiet")
    assert _run_folder.read_array(tmp_path, "evaluation")["step"].tolist() == [160, 320, 480, 640, 800]


def test_a_plugin_that_is_gone_may_have_moved(tmp_path):
    moved = compile_plugin(tmp_path, CORRIDOR)
    small(moved, out=tmp_path / "run")
    os.rename(moved, tmp_path / "other.so")
    call = ["-c", f"import gpureplay; gpureplay.train(resume={str(tmp_path / 'run')!r})"]
    for words, wanted in ((call, "env=FILE"), (["-m", "gpureplay", "--resume", tmp_path / "run"], "--env FILE"),
                          (["-m", "gpureplay", "play", tmp_path / "run"], "--env FILE")):  # this one has it open
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        assert done.stderr.endswith(f"; {wanted} names the file to which it was moved\n"), done.stderr


def test_a_function_a_system_has_its_options_alone(tmp_path):
    few = {"device": "cpu", "threads": 1, "progress": False, "eval_episodes": 0}
    result = gpureplay.train_dqn("CartPole-v1", steps=80, prepopulation=50, target_period=80, eval_period=0, **few)
    assert result.stats.env_steps == 80 and result.config["options"]["preset"] == "fast-dqn-small-vectors"
    result = gpureplay.train_apex("CartPole-v1", preset="apex-dqn-small", steps=300, actors=1, prepopulation=100, **few)
    assert result.stats.env_steps >= 300
    result = gpureplay.train_ddpg("Pendulum", preset="apex-dpg-small", steps=300, actors=1, prepopulation=100,
                                  samples_per_insert=1, batch=16, **few)
    assert isinstance(result.agent, gpureplay.DDPG)
    result = gpureplay.train_ga3c("CartPole-v1", preset="a3c-small", agents=2, steps=200, out=tmp_path, **few)
    assert result.config["ga3c"]["system"] == "a3c"
    assert gpureplay.train_ga3c(resume=tmp_path, progress=False).stats.env_steps == 200
    with pytest.raises(gpureplay.InvalidArgument, match="preset is 'fast-dqn'; it must be one of apex-dqn, apex-dqn-s"):
        gpureplay.train_apex("CartPole-v1", preset="fast-dqn")
    with pytest.raises(gpureplay.InvalidArgument, match='"apex-dqn" needs frames of 84 x 84 bytes'):
        gpureplay.train_apex("CartPole-v1")
    with pytest.raises(TypeError, match=r"train\(\) has no argument 'speed'; options of training are env, "):
        gpureplay.train("CartPole-v1", speed=3)
    with pytest.raises(TypeError, match=r"^train_apex\(\) has no argument 'speed'; .* actors, ") as refused:
        gpureplay.train_apex("CartPole-v1", speed=3)
    assert " num_envs" not in str(refused.value) and " agents" not in str(refused.value)
    for function, preset in ((gpureplay.train, "a2c-small"), (gpureplay.train_ga3c, "a2c-small")):
        result = function("CartPole-v1", preset, agents=2, steps=100, **few)
        assert result.config["options"]["preset"] == preset
    for function, option, other in ((gpureplay.train_dqn, "num_envs 8", "actors"),
                                    (gpureplay.train_apex, "samples_per_insert 0", "num_envs"),
                                    (gpureplay.train_ddpg, "sigma 0.3", "epsilons"),
                                    (gpureplay.train_ga3c, "t_max 5", "capacity")):
        assert f"\n      {option} " in function.__doc__ and f"\n      {other}" not in function.__doc__


def test_the_program_has_the_words_of_the_program_in_c(tmp_path):
    assert "python -m gpureplay.train PRESET --help" in program("--help").stdout == program().stdout
    commands = re.findall(r"^ +python -m gpureplay.train ([a-z]+) ", program("--help").stdout, flags=re.M)
    assert {*commands} == {"play", "evaluate", "compare", "list"} and "--work" not in program("--help").stdout
    assert "an id of Gymnasium, or a function: module:make_env\n" in program("a2c", "--help").stdout
    assert program("list", "--help").stdout.startswith("usage: python -m gpureplay.train list [NAME] [options]\n")
    assert program("list", "CartPole-v1").stdout == program("--list", "--env", "CartPole-v1").stdout
    assert "no-such-run" in program("play", tmp_path / "no-such-run", wanted=2).stderr
    shown = program("apex-dqn-small", "--help").stdout
    assert "--capacity 100000 " in shown and "--engine local|ray " in shown and "--num-envs" not in shown
    assert re.search(r"\n  --refill .*\n  --engine ", shown)
    out = tmp_path / "run"
    program("fast-dqn-small-vectors", "--env=CartPole-v1", *FLAGS, "--steps", "1.6e2", "--out", out, "--quiet")
    assert "--steps 160\n" in (out / "options.txt").read_text()
    for words, text in ((("--steps",), "--steps has no value; it must have one: N"), (("--quiet=1",), "--quiet has a "),
                        (("--nonsense", "1"), "--nonsense is not an option"), (("steps", "1", "2"), "steps is no pres"),
                        (("a2c", "1", "2"), "1 is not an option; python -m gpureplay.train a2c --help lists them"),
                        (("--work", "1"), "--work is an option of gpureplay-train alone"),
                        (("--seeds", "5-3"), '--seeds is "5-3"; it must be A-B, whole numbers from A to B, at most 1'),
                        (("--seeds", "1-2", "--seed", "3"), "--seeds is 1-2, and --seed is given, too; it must be l"),
                        (("--resume", tmp_path), f"{tmp_path} is no folder of a run: it has no options.txt"),
                        (("--resume", ""), "--resume is empty; it must be the folder of a run"),
                        (("list", "nothing"), "--env is 'nothing', which is no game of the library"),
                        (("--env", "nowhere:make"), "--env is 'nowhere:make', and no module is called 'nowhere'"),
                        (("--env", "json:make"), "--env is 'json:make', which is no game "),
                        (("--env", "json:make"), "no plug-in's file, and json has no function 'make'; Gymnasium says"),
                        (("--env", "json:JSONEncoder"), "--env is 'json:JSONEncoder', which is a class; it must be a "),
                        (("--seed", "1", "--seed", "2"), "--seed is given twice")):
        assert text in program(*words, wanted=2).stderr
    done = subprocess.run([sys.executable, "-m", "gpureplay", "--list"], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)}, check=True)
    assert "MinAtar/Breakout\n  observation  uint8 (10, 10, 4)" in done.stdout


def test_games_of_a_plugin_are_listed(tmp_path):
    named = compile_plugin(tmp_path, CORRIDOR, "-DNAMES")
    assert program("list", named).stdout == f"{named}:Left\n{named}:Right\n"
    assert "Corridor\n  observation  float32 (6)" in program("list", f"{named}:Right").stdout


def test_the_program_takes_ids_of_gymnasium():
    assert "CartPole-v1" in program("--list", "--env", "gymnasium:CartPole-v1").stdout
    assert "Gymnasium says" in program("--env", "Nothing-v9", wanted=2).stderr


def test_the_module_can_be_called_like_the_function():
    out, _ = run("""
import gpureplay.train
print(callable(gpureplay.train), gpureplay.train.__call__ is gpureplay._train.train)
""")
    assert out == "True True\n"


# Pictures and TensorBoard.


@needs_files
def test_the_learning_curve_of_one_run_and_of_several(cartpole, tmp_path):
    """In this Python or in Debian's, whichever has matplotlib."""
    code = """
import sys
from gpureplay import plot
one, other, out = sys.argv[1:]
for sys.argv in (["plot", one], ["plot", one, other, "--out", out]):
    assert plot.main() == 0
"""
    both = tmp_path / "both.png"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")]),
                   "GPUREPLAY_FAST": "off"}
    for python in filter(os.path.exists, (sys.executable, "/usr/bin/python3")):
        command = [python, "-c", f"import matplotlib, numpy\n{code}", cartpole / "whole", cartpole / "other", both]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
        if done.returncode == 0:
            break
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("needs matplotlib")
    assert done.stdout == f"{cartpole}/whole/curve.png\n{both}\n", done.stderr
    for picture in (cartpole / "whole/curve.png", both):
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000


def test_runs_with_the_same_settings_are_one_curve(tmp_path):
    from gpureplay import plot

    assert "config.json" in program(tmp_path, module="plot", wanted=2).stderr
    for seed in (1, 2, 3):
        small(lambda lane: Random(), seed=seed, out=tmp_path / str(seed), checkpoint=0)
    small(lambda lane: Random(), out=tmp_path / "other", checkpoint=0, concurrent=False)
    groups = plot.read_runs([tmp_path / name for name in ("1", "other", "2", "3")])
    assert [len(group.episodes) for group in groups] == [3, 1] and "mean of 3 runs" in groups[0].label
    x, mean, half = plot.average_evaluations(groups[0].evaluations, "steps")
    values = np.array([curve.returns for curve in groups[0].evaluations])
    assert x.tolist() == [160, 320, 400] and np.allclose(mean, values.mean(axis=0))
    assert np.allclose(half, 4.303 * values.std(axis=0, ddof=1) / np.sqrt(3))
    seconds = plot.average_evaluations(groups[0].evaluations, "seconds")[0]
    assert np.allclose(seconds, np.mean([curve.seconds for curve in groups[0].evaluations], axis=0))
    assert len(plot.average_episodes(groups[0].episodes, "seconds")[0]) == 200


def test_intervals_have_the_quantiles_of_students_t(monkeypatch):
    """Those of curves and those of bench/experiments, by the integral of the density from 0, which is 0.475."""
    from gpureplay import plot

    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "bench/experiments"))
    harness = importlib.import_module("harness")
    for degrees in (*range(1, 36), 100, 1000):
        t = plot._t(degrees)
        x = np.linspace(0, t, 20_001)
        density = (1 + x**2 / degrees) ** (-(degrees + 1) / 2)
        factor = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
        area = factor * (density.sum() - (density[0] + density[-1]) / 2) * x[1]
        assert abs(area - 0.475) < 3e-5 and (degrees > 31 or abs(harness.t_975(degrees + 1) - t) < 6e-4)
    for count in (0, 1, 33):
        with pytest.raises(ValueError, match=f"an interval of {count} values; there must be 2 to 32"):
            harness.t_975(count)
    x, y = np.random.default_rng(1).normal(size=(2, 6)).tolist()
    assert np.isclose(harness.interval(x, y)[1], 2.571 * math.sqrt((np.var(x, ddof=1) + np.var(y, ddof=1)) / 6))


@needs_files
@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="needs tensorboard")
def test_events_for_tensorboard(cartpole):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):  # the second replaces the first
        program(cartpole / "whole", module="tensorboard")
    events = EventAccumulator(str(cartpole / "whole/tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    rows = _run_folder.read_array(cartpole / "whole", "evaluation")
    found = events.Scalars("evaluation/mean_return")
    assert [event.step for event in found] == rows["step"].tolist()
    assert np.allclose([event.value for event in found], rows["mean_return"])
    episodes = _run_folder.read_array(cartpole / "whole", "episode")
    assert len(events.Scalars("episode/return")) == (episodes["step"] > 0).sum()
    assert {"rates/env_steps_per_second", "rates/loss"} <= set(events.Tags()["scalars"])


@pytest.mark.parametrize("module, package", [("plot", "matplotlib"), ("tensorboard", "tensorboard")])
def test_a_missing_package_comes_with_the_command(cartpole, monkeypatch, module, package):
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    assert f"`pip install {package}`" in program(cartpole / "whole", module=module, wanted=2).stderr
