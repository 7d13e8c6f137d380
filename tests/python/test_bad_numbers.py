# SPDX-License-Identifier: MIT
"""Every door through which numbers come in from Python, and what each does with a bad one. The doors of C alone are in
tests/replay/writer/test_finite.c."""

import contextlib
import ctypes
import functools
import json
import os
import pathlib
import re
import tempfile
import warnings
from decimal import Decimal
from fractions import Fraction

import gpureplay
import gymnasium
import numpy as np
import pytest
from gpureplay import _c_api, _writer, lib
from gpureplay._library import check
from gymnasium import spaces
from support import TRANSITION, Exporter, needs_files

# Numbers that are not finite are refused with their place, and nothing changes. With check_nan=False they are taken.

NAN, INF = float("nan"), float("inf")
BAD = pytest.mark.parametrize("value, word", [(NAN, "NaN"), (INF, "infinite"), (-INF, "infinite")])


def buffer_of(check=True, **settings):
    settings = {"device": "cpu", "num_envs": 2, "autoreset": "disabled", **settings}
    return gpureplay.ReplayBuffer(2000, settings.pop("fields", TRANSITION), check_nan=check, **settings)


def rows(count=2, **bad):
    """Rows whose last one has these numbers."""
    made = {name: np.zeros((count, *shape), dtype) for name, (shape, dtype) in TRANSITION.items()}
    for name, value in bad.items():
        made[name].reshape(count, -1)[-1, -1] = value
    return made


class Door:
    """One way in. `go(value, check)` gives one bad number. It raises, or with check False returns."""

    def __init__(self, text, go):
        self.text, self.go = text, go


def add(name, **settings):
    def go(value, check):
        with buffer_of(check, **settings) as buffer:
            with unchanged(buffer):
                buffer.add(**rows(**{name: value}))
    return go


def extend(name, into="extend"):
    def go(value, check):
        with buffer_of(check) as buffer:
            writer = buffer if into == "extend" else buffer.writer(2, "disabled")
            with unchanged(buffer):
                writer.extend(**rows(7, **{name: value}))
    return go


@contextlib.contextmanager
def unchanged(buffer):
    before = buffer.stats.appended
    try:
        yield
    except (ValueError, gpureplay.FileError):
        assert buffer.stats.appended == before
        raise


def add_final(value, check):
    with buffer_of(check, autoreset="same_step", n_step=2) as buffer:
        step = {**rows(), "terminated": np.ones(2, bool), "truncated": np.zeros(2, bool)}
        final = np.zeros((2, 3), np.float32)
        final[1, 2] = value
        buffer.add(**step, final_obs=final)


def load(value, check):
    with tempfile.TemporaryDirectory() as folder, buffer_of(False) as careless, buffer_of(check) as buffer:
        careless.extend(**rows(40, next_obs=value))
        careless.save(f"{folder}/rows")
        buffer.extend(**rows(3))
        with unchanged(buffer):
            buffer.load(f"{folder}/rows")


def learner_act(value, check):
    with buffer_of(check) as buffer, gpureplay.DQN(buffer, 2, trunk=[4]) as agent:
        agent.act([[0, 0, value]])


def policy_act(value, check):
    with gpureplay.Policy(((3,), "float32"), 2, trunk=[4], device="cpu", check_nan=check) as policy:
        policy.act([[0, 0, 0], [0, 0, value]])


def actor_critic(value, check, returns=0.0):
    with gpureplay.ActorCritic(((3,), "float32"), 2, trunk=[4], device="cpu", check_nan=check) as learner:
        obs = np.zeros((2, 3), np.float32)
        obs[1, 2] = value
        learner.train(obs, [0, 1], [0.0, returns])


class Env(gymnasium.Env):
    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, bad=0.0, first=0.0, reward=0.0, after=30):
        self.bad, self.first, self.bad_reward, self.after, self.count, self.at = bad, first, reward, after, 0, 0

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return np.array([0, 1, self.first if self.count >= self.after else 0], "f4"), {}

    def step(self, action):
        self.count, self.at = self.count + 1, self.at + 1
        is_bad = self.count == self.after
        return (np.array([1, self.at, self.bad if is_bad else 0], "f4"), self.bad_reward if is_bad else 1.0, False,
                self.at == 5, {})


DQN_RUN = {"preset": "fast-dqn-small", "num_envs": 2, "prepopulation": 20, "target_period": 40, "capacity": 500}
GA3C_RUN = {"preset": "ga3c-small", "agents": 2}


def train(make, settings):
    def go(value, check):
        gpureplay.train(make(value), steps=120, progress=False, eval_episodes=0, device="cpu", check_nan=check,
                        **{"threads": 1, **settings})
    return go


def of_lane(**bad):
    """Of lane 1, an environment that is bad once."""
    return lambda value: lambda lane: Env(**{name: value for name in bad}) if lane == 1 else Env()


def of_agents(name):
    """Of all agents, environments that are bad once; how many of the steps each agent takes depends on the threads."""
    return lambda value: lambda agent: Env(**{name: value})


def vector(mode):
    def make(value):
        envs = [lambda: Env(), lambda: Env(bad=value)]
        return gymnasium.vector.SyncVectorEnv(envs, autoreset_mode=mode)
    return make


def run(value, check):
    with buffer_of(check) as buffer, gpureplay.DQN(buffer, 2, trunk=[4], target_period=10) as agent:
        with gpureplay.Run(agent, [Env(), Env(bad=value)], target_period=40, train_period=4, prepopulation=20,
                           eval_period=0, eval_episodes=0) as made:
            made.advance(120)


def make_env(lane):
    """Of actors' processes, which import this module."""
    return Env(bad=float(os.environ["BAD_NUMBER"]), after=3)


def apex(value, check):
    """An actor, in a process."""
    os.environ["BAD_NUMBER"] = repr(value)
    fields = {**TRANSITION, "priority": ((), "float32")}
    with buffer_of(check, fields=fields, prioritized=True, min_size=500) as buffer:
        with gpureplay.DQN(buffer, 2, trunk=[4]) as agent:
            with gpureplay.Apex(agent, "test_bad_numbers:make_env", actors=1, block_rows=2) as made:
                made.advance(10**6 if check else 100)
                assert made.stats.deaths == 0


MODES = gymnasium.vector.AutoresetMode
AT = r"^environment 1, step \d+: "
ROW = r"is {word} in row {last} of {count}; its numbers must be finite, or say check_nan=False$"
DOORS = {
    "add obs": Door('"obs" ' + ROW.format(word="{word}", last=1, count=2), add("obs")),
    "add reward": Door('"reward" ' + ROW.format(word="{word}", last=1, count=2), add("reward")),
    "add next_obs, tracked": Door('"next_obs" is {word} in environment 1 of 2;', add("next_obs", n_step=3)),
    "add reward, tracked": Door('"reward" is {word} in environment 1 of 2;', add("reward", n_step=3)),
    "add first obs, tracked": Door('"obs" is {word} in environment 1 of 2;', add("obs", n_step=3)),
    "add final_obs": Door('environment 1: "final_obs" is {word}', add_final),
    "extend": Door('"next_obs" ' + ROW.format(word="{word}", last=6, count=7), extend("next_obs")),
    "a writer's extend": Door('"reward" ' + ROW.format(word="{word}", last=6, count=7), extend("reward", "writer")),
    "load": Door('"next_obs" is {word} in row 39; its numbers must be finite, or say check_nan=False$', load),
    "DQN.act": Door('"obs" ' + ROW.format(word="{word}", last=0, count=1), learner_act),
    "Policy.act": Door('"obs" ' + ROW.format(word="{word}", last=1, count=2), policy_act),
    "ActorCritic.train obs": Door('"obs" ' + ROW.format(word="{word}", last=1, count=2), actor_critic),
    "ActorCritic.train returns": Door('"returns" ' + ROW.format(word="{word}", last=1, count=2),
                                      lambda value, check: actor_critic(0.0, check, value)),
    "train, observation": Door(AT + r"the observation is {word}; its numbers must be finite, or say",
                               train(of_lane(bad=1), DQN_RUN)),
    "train, first observation": Door(AT + r"the observation is {word}", train(of_lane(first=1), DQN_RUN)),
    "train, reward": Door(AT + r"the reward is .*; it must be a finite number, or say check_nan=False$",
                          train(of_lane(reward=1), DQN_RUN)),
    "train, a vector": Door(AT + r"the observation is {word}", train(vector(MODES.NEXT_STEP), DQN_RUN)),
    "train, final observation": Door(AT + r"the observation is {word}",
                                     train(lambda value: gymnasium.vector.SyncVectorEnv(
                                         [lambda: Env(), lambda: Env(bad=value)],
                                         autoreset_mode=MODES.SAME_STEP), DQN_RUN)),
    "Run": Door(AT + r"the observation is {word}", run),
    "Ape-X, a process": Door(r"actor 0: step 2: the observation is {word}; its numbers must be finite, or say "
                             r"check_nan", apex),
    "GA3C, observation": Door(r"^agent \d, step \d+: the observation is {word}", train(of_agents("bad"), GA3C_RUN)),
    "GA3C, reward": Door(r"^agent \d, step \d+: the reward is", train(of_agents("reward"), GA3C_RUN)),
}
# Where training on what is not finite ends by itself, since the learner diverges.
DIVERGES = [name for name in DOORS if name.startswith(("train", "Run", "GA3C", "ActorCritic"))]


@BAD
@pytest.mark.parametrize("name", DOORS)
@needs_files
def test_what_is_not_finite_is_refused_at_every_door(name, value, word):
    with pytest.raises((ValueError, gpureplay.FileError), match=DOORS[name].text.format(word=word)):
        DOORS[name].go(value, True)


@BAD
@pytest.mark.parametrize("name", [name for name in DOORS if name not in DIVERGES])
@needs_files
def test_every_door_takes_it_for_those_who_want_it(name, value, word):
    DOORS[name].go(value, False)


# Weights.


def weights_of_learner(agent, value):
    agent.weights["trunk.0.bias"] = np.array([0, 0, 0, value], np.float32)


def weights_of_policy(agent, value):
    with gpureplay.Policy.for_learner(agent) as policy:
        weights = bytearray(policy.get_weights())
        weights[-4:] = np.float32(value).tobytes()
        policy.set_weights(weights)


def weights_of_file(load, agent, value):
    weights = {name: np.array(numbers) for name, numbers in agent.weights.items()}
    weights["trunk.0.bias"][-1] = value
    header, data = {}, b""
    for name, numbers in weights.items():
        header[name] = {"dtype": "F32", "shape": numbers.shape, "data_offsets": [len(data), len(data) + numbers.nbytes]}
        data += numbers.astype("<f4").tobytes()
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "weights")
        path.write_bytes(len(head).to_bytes(8, "little") + head + data)
        load(agent, path)


def load_into_learner(agent, path):
    agent.load_weights(path)


def load_into_policy(agent, path):
    with gpureplay.Policy.for_learner(agent) as policy:
        policy.load(path)


@BAD
@pytest.mark.parametrize("give", [weights_of_learner, weights_of_policy, *(
    pytest.param(functools.partial(weights_of_file, load), marks=needs_files)
    for load in (load_into_learner, load_into_policy))])
def test_weights_must_be_finite(give, value, word):
    with buffer_of() as buffer, gpureplay.DQN(buffer, 2, trunk=[4]) as agent:
        before = agent.weights["trunk.0.bias"]
        with pytest.raises((ValueError, gpureplay.FileError),
                           match="1 of the . numbers of .* are NaN or infinite; they must be finite"):
            give(agent, value)
        assert (agent.weights["trunk.0.bias"] == before).all()


@pytest.mark.parametrize("n_step", [1, 2])  # of the package, and of the library's tracking of episodes
def test_a_bad_last_observation_is_named_as_that(n_step):
    with buffer_of(num_envs=3, autoreset="same_step", n_step=n_step) as buffer:
        step = {**{name: np.zeros((3, *shape), dtype) for name, (shape, dtype) in TRANSITION.items()},
                "terminated": [False, True, False]}
        bad, good = np.zeros((3, 3), np.float32), np.zeros((3, 3), np.float32)
        bad[1, 2], bad[2, 0] = np.nan, np.inf  # environment 2 has not ended
        for given in ({"final_obs": bad}, {"info": {"final_obs": np.array([None, bad[1], None], object)}}):
            with pytest.raises(ValueError, match='^(environment 1: )?"final_obs" is NaN .*; its numbers must be'):
                buffer.add(**step, **given)
        good[2, 0] = np.inf
        assert buffer.stats.appended == 0
        buffer.add(**step, final_obs=good)


@pytest.mark.parametrize("dtype, looks", [("float32", 1), ("uint8", 0)])
def test_last_observations_of_integers_are_not_searched_for_nan(dtype, looks, monkeypatch):
    looked, refuse = [], _writer.refuse_not_finite
    monkeypatch.setattr(_writer, "refuse_not_finite", lambda field, array: (looked.append(field.name),
                                                                            refuse(field, array)))
    fields = {**TRANSITION, **dict.fromkeys(("obs", "next_obs"), ((3,), dtype))}
    step = {name: np.zeros((3, *shape), kind) for name, (shape, kind) in fields.items()}
    with buffer_of(num_envs=3, autoreset="same_step", fields=fields) as buffer:
        buffer.add(**{**step, "terminated": [False, True, False]}, final_obs=np.ones((3, 3), dtype))
    assert looked.count("final_obs") == looks


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", ["Env", "vector", "GA3C"])
def test_a_reward_beyond_float32_is_said_as_it_is(name, check):
    env = {"Env": lambda lane: Env(reward=1e39), "GA3C": lambda lane: Env(reward=1e39),
           "vector": gymnasium.vector.SyncVectorEnv([lambda: Env(), lambda: Env(reward=-1e39)])}[name]
    with pytest.raises(gpureplay.EnvError, match=r"reward has .*1e\+39.*; float32 holds"):
        gpureplay.train(env, **{**(GA3C_RUN if name == "GA3C" else DQN_RUN), "check_nan": check})


def rewarding_vector(reward):
    """Two environments whose rewards are an array of these; Gymnasium's own vectors give float64."""
    class Vector(gymnasium.vector.SyncVectorEnv):
        def step(self, actions):
            obs, _, *rest = super().step(actions)
            return obs, np.array([reward] * 2), *rest

    return Vector([Env, Env])


@pytest.mark.parametrize("name", ["Env", "vector", "GA3C"])
@pytest.mark.parametrize("reward", [2**25, 2**40 + 1, 10**20, Fraction(1, 2), Decimal("0.25"), np.uint8(3), True])
def test_a_reward_of_any_number_that_float_takes_is_rounded(name, reward):
    wanted, settings = np.float32(float(reward)), {"steps": 80, "progress": False, "eval_episodes": 0, "device": "cpu"}
    if name == "GA3C":
        result = gpureplay.train(lambda lane: Env(reward=reward, after=3), **settings, **GA3C_RUN)
        assert np.isclose(result.episodes["return"], 4 + float(wanted), rtol=1e-6).any()
        return
    env = rewarding_vector(reward) if name == "vector" else lambda lane: Env(reward=reward, after=3)
    result = gpureplay.train(env, **settings, **DQN_RUN)
    assert wanted in np.asarray(result.buffer.gather(range(20)).reward)


@pytest.mark.parametrize("name", ["Env", "vector"])
def test_a_reward_that_is_no_number_is_said_as_that(name):
    env = rewarding_vector(None) if name == "vector" else lambda lane: Env(reward=None)
    with pytest.raises(gpureplay.EnvError, match="reward is object; it must be float32"):
        gpureplay.train(env, steps=60, progress=False, eval_episodes=0, device="cpu", **DQN_RUN)


# Learners whose numbers are no longer finite.

# The numbers that were not finite, the loss before that, and how the door that was used calls what may help.
NUMBER = r"((loss|mean Q|mean value|gradient norm) is (nan|-?inf)(, (?=[lmg])|(?=\))))+|weights"
DIVERGED = (r"^(agent \d, step \d+: |a train step: )*(?P<network>(actor|critic): )?the learner has diverged: after "
            rf"train step (?P<step>\d+) its numbers are not finite \((?P<numbers>{NUMBER})\)"
            r"(, and the loss before was (?P<loss>\S+))?\. It helps most often to (?P<ways>.*)$")


def advised(text, rate, norm, clip):
    """What is known of the learner. ways: as the door has them."""
    found = re.match(DIVERGED, text)
    assert found, text
    assert found["loss"] is None or np.isfinite(float(found["loss"])), text
    network = (found["network"] or "")[:-2]
    wanted = (rf"to lower {re.escape(rate)}, now 1e\+30, to limit the gradient by {re.escape(norm)}, now 0 \(none\), "
              + ("or to scale rewards$" if clip is None else
                 rf"or to scale rewards or clip them by {re.escape(clip)}(, now .*)?$")).replace("NETWORK", network)
    assert re.match(wanted, "to " + found["ways"].removeprefix("to ")), (text, wanted)
    return found


TOO_FAST = {"learning_rate": 1e30, "clip_norm": 0}
TRAININGS = {
    "fast DQN": {"preset": "fast-dqn-small", "num_envs": 2, "prepopulation": 100, "target_period": 80, "steps": 800},
    "fast DQN, keyword": {"preset": "fast-dqn-small", "num_envs": 2, "prepopulation": 100, "target_period": 80,
                          "steps": 800, "learning_rate": 1e30, "agent": {"trunk": [8], "clip_norm": 0}},
    "DQN(lambda)": {"preset": "vrc-2021-small", "lambda_": 0.5, "num_envs": 2, "steps": 40_000},
    "Ape-X, threads": {"preset": "apex-dqn-small", "actors": 1, "steps": 10**6},
    "Ape-X, processes": {"preset": "apex-dqn-small", "actors": 1, "steps": 10**6, "processes": True},
    "Ape-X DPG": {"env": "Pendulum-v1", "preset": "apex-dpg-small", "actors": 1, "steps": 10**6,
                  "agent": {"actor": {"trunk": [8], **TOO_FAST}, "critic": {"trunk": [8], **TOO_FAST}}},
    "GA3C": {"preset": "ga3c-small", "agents": 2, "steps": 10**6},
    "A3C": {"preset": "a3c-small", "agents": 2, "steps": 10**6},
    "A2C": {"preset": "a2c-small", "agents": 2, "steps": 10**6},
}


# What trainings call them.
OF_AGENT, OF_BUFFER = 'agent={"clip_norm": ...}', 'buffer={"reward_clip": ...}'


@pytest.mark.parametrize("name", TRAININGS)
def test_a_learner_that_has_diverged_ends_its_training(name):
    """The advice has what the door has, and the learning rate as it was given; a training that follows it is begun."""
    is_dpg, has_buffer = "DPG" in name, name not in ("GA3C", "A3C", "A2C")
    settings = {"env": "CartPole-v1", "agent": {"trunk": [8], **TOO_FAST}, "eval_episodes": 0, "device": "cpu",
                "threads": 1, "progress": False, **TRAININGS[name]}
    env = settings.pop("env")
    with pytest.raises(gpureplay.InvalidArgument) as raised:
        gpureplay.train(env, **settings)
    is_keyword = "learning_rate" in settings
    rate = ("learning_rate" if is_keyword else 'agent={"NETWORK": {"learning_rate": ...}}' if is_dpg else
            'agent={"learning_rate": ...}')
    advised(str(raised.value), rate, 'agent={"NETWORK": {"clip_norm": ...}}' if is_dpg else OF_AGENT,
            OF_BUFFER if has_buffer else None)
    lower = {"learning_rate": 1e-4}
    mended = {"clip_norm": 1.0, "trunk": [8], **({} if is_keyword else lower)}
    follows = {**(lower if is_keyword else {}), "agent": {"actor": mended, "critic": mended} if is_dpg else mended,
               **({"buffer": {"reward_clip": 1.0}} if has_buffer else {})}
    with pytest.raises(KeyError, match="as it is begun"):
        gpureplay.train(env, **{**settings, **follows}, on_event=end_it)


@pytest.mark.parametrize("preset, keyword, dicts, other", [
    ("fast-dqn-small", {"learning_rate": 1e-4}, {"agent": {"learning_rate": 1e30}}, 'agent={"learning_rate": 1e+30}'),
    ("fast-dqn-small", {"batch": 32}, {"agent": {"batch_size": 64}}, 'agent={"batch_size": 64}'),
    ("fast-dqn-small", {"capacity": 900}, {"buffer": {"capacity": 800}}, 'buffer={"capacity": 800}'),
    ("fast-dqn-small", {"target_period": 80}, {"agent": {"target_period": 20}}, 'agent={"target_period": 20}'),
    ("apex-dqn-small", {"prepopulation": 9}, {"buffer": {"min_size": 8}}, 'buffer={"min_size": 8}'),
    ("apex-dqn-small", {"target_period": 10}, {"agent": {"target_period": 20}}, 'agent={"target_period": 20}'),
    ("apex-dpg-small", {"learning_rate": 1e-4}, {"agent": {"critic": {"learning_rate": 1e30}}},
     'agent={"critic": {"learning_rate": 1e+30}}'),
    ("ga3c-small", {"learning_rate": 1e-4}, {"agent": {"learning_rate": 1e30}}, 'agent={"learning_rate": 1e+30}'),
    ("a2c-small", {"entropy": 0.5}, {"agent": {"entropy": 0.1}}, 'agent={"entropy": 0.1}')])
def test_a_keyword_beside_the_same_setting_in_a_dict_is_refused(preset, keyword, dicts, other):
    [(name, value)] = keyword.items()
    env = "Pendulum-v1" if "dpg" in preset else "CartPole-v1"
    with pytest.raises(gpureplay.InvalidArgument) as raised:
        gpureplay.train(env, preset=preset, steps=100, device="cpu", progress=False, **keyword, **dicts)
    assert str(raised.value) == (f"{name} is {value!r} beside {other}, which is the same setting; leave one of them "
                                 "out")


def test_a_keyword_beside_another_setting_of_the_same_name_is_taken():
    result = gpureplay.train("CartPole-v1", preset="fast-dqn-small", steps=160, num_envs=2, prepopulation=100,
                             target_period=80, eval_episodes=0, eval_period=0, device="cpu", progress=False, seed=7,
                             act="latest", agent={"trunk": [8], "seed": 3, "act": "target"}, buffer={"seed": 4})
    assert (result.agent.config["seed"], result.agent.config["act"], result.buffer.config["seed"]) == (3, "target", 4)


def end_it(event):
    raise KeyError("as it is begun")


@needs_files
def test_a_learner_that_has_diverged_says_so(tmp_path):
    with buffer_of() as buffer, gpureplay.DQN(buffer, 2, trunk=[4], batch_size=4, **TOO_FAST) as agent:
        buffer.extend(**{**rows(40), "reward": np.ones(40, np.float32), "obs": np.ones((40, 3), np.float32)})
        agent.save(tmp_path / "before")
        agent.save_weights(tmp_path / "weights")
        agent.train(1)
        agent.sync()
        assert agent.stats.diverged_at == 0
        with pytest.raises(gpureplay.InvalidArgument) as raised:
            agent.train(8)
            agent.sync()
        step = agent.stats.diverged_at
        assert 2 <= step <= 9
        found = advised(str(raised.value), "learning_rate", "clip_norm", "the buffer's reward_clip")
        assert int(found["step"]) == step and found["loss"] is not None
        for call in (agent.train, agent.sync, lambda: agent.act([[0, 0, 0]]),
                     lambda: gpureplay.Policy.for_learner(agent), lambda: agent.save(tmp_path / "before"),
                     lambda: agent.save_weights(tmp_path / "weights")):
            with pytest.raises(gpureplay.InvalidArgument, match=f"after train step {step} its numbers"):
                call()
        with gpureplay.Policy.open(tmp_path / "weights", device="cpu") as policy:
            assert np.isfinite(policy.q_values([[1, 1, 1]])).all()
        assert not np.isfinite(agent.q_values([[1, 1, 1]])).all()
        agent.load(tmp_path / "before")
        agent.train(1)
        assert agent.act([[0, 0, 0]]).shape == (1,)


# One reward, what it does to the loss, and the number by which a learner that it spoils is known.
ONE_REWARD = {
    "squared, clipped": ({"loss": "squared", "clip_norm": 10.0}, 1e20, None),
    "squared, clipped by value": ({"loss": "squared", "clip_value": 1.0}, 1e20, None),
    "squared": ({"loss": "squared"}, 1e20, "gradient norm is inf"),
    "squared, infinite, clipped": ({"loss": "squared", "clip_norm": 10.0}, np.inf, "gradient norm is nan"),
    "Huber, infinite": ({"loss": "huber"}, np.inf, None),
}


@pytest.mark.parametrize("name", ONE_REWARD)
@pytest.mark.parametrize("trunk", [[4], [300]])  # a fused step, and one of several kernels
@needs_files
def test_a_learner_is_refused_if_its_weights_are_spoiled_and_not_for_its_loss(name, trunk, tmp_path):
    settings, reward, spoils = ONE_REWARD[name]
    with buffer_of(check=False) as buffer, gpureplay.DQN(buffer, 2, trunk=trunk, batch_size=8, **settings) as agent:
        buffer.extend(**{**rows(40, reward=reward), "obs": np.ones((40, 3), np.float32)})
        losses = []
        while not losses or np.isfinite(losses[-1]):
            agent.train(1)
            agent.q_values([[1, 1, 1]])  # waits, and refuses nothing
            losses.append(agent.stats.loss)
        assert losses[-1] == np.inf
        if spoils is None:
            assert agent.stats.mean_loss == np.inf
            agent.train(300)
            agent.sync()
            assert agent.stats.diverged_at == 0 and agent.stats.steps == len(losses) + 300
            assert all(np.isfinite(numbers).all() for numbers in agent.weights.values())
            agent.save(tmp_path / "learner")
            with gpureplay.DQN(buffer, 2, trunk=trunk, batch_size=8, **settings) as other:
                other.load(tmp_path / "learner")
                assert np.isfinite(other.stats.mean_loss)
        else:
            with pytest.raises(gpureplay.InvalidArgument) as raised:
                agent.train(300)
                agent.sync()
            with pytest.raises(gpureplay.InvalidArgument):  # all steps are done
                agent.sync()
            found, stats = re.match(DIVERGED, str(raised.value)), agent.stats
            assert found and re.search(spoils, found[0]), raised.value
            assert int(found["step"]) == stats.diverged_at <= len(losses) + 1, raised.value
            numbers = {"loss": stats.loss, "mean Q": stats.mean_q, "gradient norm": stats.gradient_norm}
            said = [f"{name} is {number:g}" for name, number in numbers.items() if not np.isfinite(number)]
            assert ", ".join(said) == found["numbers"], (raised.value, numbers)
            assert np.isnan(stats.mean_loss)


@needs_files
def test_an_actor_critic_that_has_diverged_says_so(tmp_path):
    batch = np.ones((4, 3), np.float32), [0, 1, 0, 1], np.ones(4, np.float32)
    with gpureplay.ActorCritic(((3,), "float32"), 2, trunk=[4], device="cpu", **TOO_FAST) as learner:
        learner.save(tmp_path / "learner")
        policy = learner.policy()
        before = policy.get_weights()
        with pytest.raises(gpureplay.InvalidArgument) as raised:
            for _ in range(20):
                learner.train(*batch)
        advised(str(raised.value), "learning_rate", "clip_norm", None)
        for call in (lambda: learner.train(*batch), learner.policy, lambda: policy.pull(learner),
                     lambda: learner.save(tmp_path / "learner")):
            with pytest.raises(gpureplay.InvalidArgument, match=re.escape(str(raised.value)[:70])):
                call()
        assert policy.get_weights() == before
        learner.load(tmp_path / "learner")
        learner.train(*batch)
        policy.pull(learner)


def test_an_actor_critic_goes_on_after_an_infinite_loss_of_which_its_weights_know_nothing():
    returns = np.ones(4, np.float32)
    with gpureplay.ActorCritic(((3,), "float32"), 2, trunk=[4], device="cpu", clip_norm=1.0) as learner:
        assert learner.train(np.ones((4, 3), np.float32), [0] * 4, returns * np.float32(1e20)).value == np.inf
        assert np.isfinite(learner.train(np.ones((4, 3), np.float32), [0] * 4, returns).value)
        learner.policy()


@pytest.mark.parametrize("dual", [False, True])
def test_an_infinite_gradient_of_the_value_spoils_an_actor_critic(dual):
    with gpureplay.ActorCritic(((3,), "float32"), 2, trunk=[4], device="cpu", clip_norm=0, value_coefficient=1e8,
                               dual_optimizer=dual) as learner:
        with pytest.raises(gpureplay.InvalidArgument, match=r"after train step 1 .*\(gradient norm is inf\)"):
            learner.train(np.ones((4, 3), np.float32), [0] * 4, np.full(4, 1e14, np.float32))
        with pytest.raises(gpureplay.InvalidArgument, match="the learner has diverged"):
            learner.train(np.ones((4, 3), np.float32), [0] * 4, np.ones(4, np.float32))


@pytest.mark.parametrize("network", ["actor", "critic"])
def test_of_two_networks_the_one_that_has_diverged_is_named(network):
    """The loss before is that of this network: of the actor minus the mean Q, of the critic a square."""
    with buffer_of(fields=VECTORS) as buffer:
        ones = {"reward": np.ones(40, np.float32), "obs": np.ones((40, 3), "f4")}
        buffer.extend(**{**rows_of_vectors(40, 0.5), **ones})
        agent = gpureplay.DDPG(buffer, batch_size=4, seed=3, actor={"trunk": [4]}, critic={"trunk": [4]})
        agent.train(1)
        agent.sync()
        before = agent.stats.actor_loss if network == "actor" else agent.stats.critic_loss
        name = {"actor": "actor: ", "critic": "critic: "}[network]
        agent.weights[f"{network}.trunk.0.weight"] = np.full_like(agent.weights[f"{network}.trunk.0.weight"], 3e38)
        with pytest.raises(gpureplay.InvalidArgument) as raised:
            agent.train(1)
            agent.sync()
        found = re.match(DIVERGED, str(raised.value))
        assert found and found["step"] == "2" and float(found["loss"]) == pytest.approx(before, rel=1e-5), raised.value
        assert found["network"] == name and f'{network}={{"learning_rate": ...}}' in found["ways"], raised.value


# Actions of continuous learners are -1 to 1.

VECTORS = {**TRANSITION, "action": ((2,), "float32")}


def rows_of_vectors(count, action):
    made = {**rows(count), "action": np.zeros((count, 2), np.float32)}
    made["action"][-1, -1] = action
    return made


def ddpg_of(buffer):
    return gpureplay.DDPG(buffer, actor={"trunk": [4]}, critic={"trunk": [4]}, batch_size=4)


def block_of_vectors(buffer, value):
    block, writer = pack(buffer._spec.config, rows_of_vectors(ROWS, value)), buffer.writer(ROWS)
    check(lib.gpur_writer_append_block(writer._handle, block, len(block), None))


def file_of_vectors(buffer, value):
    with tempfile.TemporaryDirectory() as folder, buffer_of(fields=VECTORS, n_step=buffer.config["n_step"]) as careless:
        careless.extend(**rows_of_vectors(40, value))
        careless.save(f"{folder}/rows")
        buffer.load(f"{folder}/rows")


# How actions come, and how an error then names the place of the one that is outside. Where a step is followed, its row
# is there only later.
ACTION_DOORS = {
    "add": ({}, lambda buffer, value: buffer.add(**rows_of_vectors(2, value)), "row 1 of 2"),
    "add, tracked": ({"n_step": 2}, lambda buffer, value: buffer.add(**rows_of_vectors(2, value)),
                     "environment 1 of 2"),
    "extend": ({}, lambda buffer, value: buffer.extend(**rows_of_vectors(9, value)), "row 8 of 9"),
    "extend many": ({}, lambda buffer, value: buffer.extend(**rows_of_vectors(900, value)), "row 899 of 900"),
    "a writer": ({}, lambda buffer, value: buffer.writer(2, "disabled").add(**rows_of_vectors(2, value)),
                 "row 1 of 2"),
    "a block": ({}, block_of_vectors, "row 1 of 2"),
    "a file": ({}, file_of_vectors, "row 39"),
}


@needs_files
@pytest.mark.parametrize("value", [1.5, -1.0001])
@pytest.mark.parametrize("door", ACTION_DOORS)
def test_actions_outside_of_the_actors_are_refused(door, value):
    """After the learner is made, and before it is: then it is not made."""
    settings, give, where = ACTION_DOORS[door]
    with buffer_of(fields=VECTORS, **settings) as buffer, ddpg_of(buffer) as agent:
        before = buffer.stats.appended
        with pytest.raises((ValueError, gpureplay.FileError), match=f'"action" is {value:g} in {where}; it must be -1'):
            give(buffer, value)
        assert buffer.stats.appended == before
        give(buffer, np.sign(value))
        for _ in range(3):
            buffer.add(**rows_of_vectors(2, 1.0))
        agent.train(9)
        agent.sync()
        assert agent.stats.invalid_actions == 0
    with buffer_of(fields=VECTORS, **settings) as buffer:
        give(buffer, value)  # no learner has said what it takes
        if "tracked" in door:
            for _ in range(2):
                give(buffer, 0.0)
        with pytest.raises(ValueError, match=rf'"action" is {value:g} in row \d+; it must be -1 to 1'):
            ddpg_of(buffer)
        give(buffer, value)  # as before
        for _ in range(20):
            buffer.add(**rows_of_vectors(2, 0.0))
        buffer.trim(20)
        ddpg_of(buffer).close()


# A DQN's are 0 to num_actions - 1.

NUMBER_DOORS = {
    "add": ({}, lambda buffer, made: buffer.add(**made(2)), "row 1 of 2"),
    "add, tracked": ({"n_step": 2}, lambda buffer, made: buffer.add(**made(2)), "environment 1 of 2"),
    "extend": ({}, lambda buffer, made: buffer.extend(**made(9)), "row 8 of 9"),
    "extend many": ({}, lambda buffer, made: buffer.extend(**made(900)), "row 899 of 900"),
    "a writer": ({}, lambda buffer, made: buffer.writer(2, "disabled").add(**made(2)), "row 1 of 2"),
}


@pytest.mark.parametrize("value", [3, -1])
@pytest.mark.parametrize("door", NUMBER_DOORS)
def test_actions_that_a_dqn_does_not_have_are_refused(door, value):
    settings, give, where = NUMBER_DOORS[door]

    def made(count, last=value):
        found = rows(count)
        found["action"][-1] = last
        return found

    with buffer_of(**settings) as buffer:
        give(buffer, made)  # no learner has said what it takes
        with gpureplay.DQN(buffer, 3, trunk=[4], batch_size=4), gpureplay.DQN(buffer, 9, trunk=[4], batch_size=4):
            before = buffer.stats.appended
            with pytest.raises(ValueError, match=f'"action" is {value} in {where}; it must be 0 to 2, as the replay\'s '
                                                 "learner has num_actions 3"):
                give(buffer, made)
            assert buffer.stats.appended == before
            give(buffer, lambda count: made(count, 2))
        give(buffer, made)  # the learner is gone


def test_stored_actions_that_a_learner_does_not_have_are_warned_of():
    with buffer_of() as buffer:
        buffer.extend(**{**rows(9), "action": np.arange(9)})
        with gpureplay.DQN(buffer, 3, trunk=[4], batch_size=64) as agent:
            agent.train(3)
            with pytest.warns(RuntimeWarning, match=r"^\d+ sampled transitions trained nothing, .* is not 0 to "
                                                    "num_actions - 1 = 2; the buffer has such actions from before"):
                agent.sync()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                agent.sync()
                assert 0 < agent.stats.invalid_actions < 3 * 64


@pytest.mark.parametrize("count", [0, 2])
def test_the_advice_for_other_bounds_leads_to_a_training(count):
    def make():
        return gymnasium.make("Pendulum-v1")

    env = gymnasium.vector.SyncVectorEnv([make] * count) if count else make()
    with gpureplay.ReplayBuffer.for_env(500, env, device="cpu") as buffer:
        with pytest.raises(gpureplay.InvalidArgument, match=r"Box\(-2.0, 2.0.* a DDPG's are -1 to 1; make the"):
            gpureplay.DDPG(buffer, actor={"trunk": [4]}, critic={"trunk": [4]})
    wrappers = gymnasium.wrappers.vector if count else gymnasium.wrappers
    env = wrappers.RescaleAction(env, -1, 1)
    with gpureplay.ReplayBuffer.for_env(500, env, device="cpu") as buffer:
        agent = gpureplay.DDPG(buffer, actor={"trunk": [4]}, critic={"trunk": [4]}, batch_size=8)
        policy, (obs, _) = agent.policy(), env.reset(seed=3)
        for step in range(12):
            action = policy.act_vectors(obs, sigma=0.5).reshape(env.action_space.shape)
            next_obs, reward, terminated, truncated, info = env.step(action)
            buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated,
                       truncated=truncated, info=info)
            obs = next_obs
        agent.train(4)
        agent.sync()
        assert agent.stats.diverged_at == 0


def test_weights_that_the_last_train_step_spoiled_are_no_success():
    """The loss of the only train step is finite, and the weights after it are not."""
    with pytest.raises(gpureplay.InvalidArgument, match="the learner has diverged: after train step 1 its numbers"):
        gpureplay.train("CartPole-v1", preset="fast-dqn-small", num_envs=1, prepopulation=50, target_period=4,
                        train_period=4, steps=4, eval_episodes=0, device="cpu", threads=1, progress=False,
                        agent={"trunk": [8], "optimizer": "adam", "learning_rate": 3e38, "clip_norm": 0})


# Priorities, and discounts of terminal rows, of the package's calls and of the library's own.

ROWS = 2  # of each call; the second one is bad
PRIORITIZED = {"obs": ((3,), "float32"), "action": "int32", "reward": "float32", "next_obs": ((3,), "float32"),
               "terminated": "bool", "truncated": "bool", "discount": "float32", "priority": "float32"}
UPLOAD_SCATTER = 1


def prioritized(**settings):
    return gpureplay.ReplayBuffer(100, PRIORITIZED, **{"device": "cpu", "prioritized": True, "num_envs": ROWS,
                                                       "autoreset": "disabled", "block_rows": 8, **settings})


def pair(**changes):
    """Two transitions, of which the second one has these values."""
    made = {"obs": np.ones((ROWS, 3), np.float32), "action": np.zeros(ROWS, np.int32),
            "reward": np.zeros(ROWS, np.float32), "next_obs": np.ones((ROWS, 3), np.float32),
            "terminated": np.zeros(ROWS, np.bool_), "truncated": np.zeros(ROWS, np.bool_),
            "discount": np.full(ROWS, 0.5, np.float32), "priority": np.full(ROWS, 0.25, np.float32)}
    for name, value in changes.items():
        made[name][1] = value
    return made


def addresses_of(given):
    """Of the columns, for the library. They must outlive the call."""
    return (ctypes.c_void_p * len(given))(*(array.ctypes.data for array in given.values()))


def append_packed(buffer, given):
    formats = [(array.dtype, array.shape[1:]) for array in given.values()]
    layout = np.dtype({"names": list(PRIORITIZED), "formats": formats}, align=True)
    packed = np.zeros(ROWS, layout)
    for name, array in given.items():
        packed[name] = array
    writer = buffer.writer(ROWS)
    check(lib.gpur_writer_append(writer._handle, ROWS, packed.ctypes.data, None))


def append_fields(buffer, given):
    writer = buffer.writer(ROWS)
    check(lib.gpur_writer_append_fields(writer._handle, ROWS, addresses_of(given), None, None))


def try_append_fields(buffer, given):
    writer = buffer.writer(ROWS)
    check(lib.gpur_writer_try_append_fields(writer._handle, ROWS, addresses_of(given)))


def step_in_c(buffer, given):
    """Of the rows the step makes `discount` itself."""
    writer, zeros = buffer.writer(ROWS), np.zeros((ROWS, 3), np.float32)
    check(lib.gpur_writer_reset(writer._handle, -1, zeros.ctypes.data))
    extras = addresses_of(given)
    taken = _c_api.StepInput()
    taken.extras = ctypes.addressof(extras)
    for name, array in given.items():
        if name not in ("obs", "discount", "priority"):
            setattr(taken, name, array.ctypes.data)
    check(lib.gpur_writer_step_ex(writer._handle, ctypes.addressof(taken)))


def pack(config, given):
    """The bytes of a block of these rows."""
    made, size, arrays = ctypes.c_void_p(), ctypes.c_int64(), addresses_of(given)
    check(lib.gpur_block_format_create(ctypes.addressof(config), ctypes.addressof(made)))
    try:
        taken = _c_api.BlockInput()
        taken.rows, taken.fields = ROWS, ctypes.addressof(arrays)
        room = ctypes.create_string_buffer(lib.gpur_block_max_bytes(made, ROWS, 0))
        check(lib.gpur_block_pack(made, ctypes.addressof(taken), room, len(room), ctypes.addressof(size)))
        return room.raw[:size.value]
    finally:
        lib.gpur_block_format_destroy(made)


def pack_block(buffer, given):
    pack(buffer._spec.config, given)


def append_block(buffer, given):
    """From a program that does not know that the replay is prioritized: its blocks have the same format."""
    with prioritized(prioritized=False) as other:
        block = pack(other._spec.config, given)
    writer = buffer.writer(ROWS)
    check(lib.gpur_writer_append_block(writer._handle, block, len(block), None))


def scatter(_buffer, given):
    """Into a replay whose arrays count as arrays of the device."""
    replay, writer = ctypes.c_void_p(), ctypes.c_void_p()
    with prioritized() as other:
        config = other._spec.config
        config.upload = UPLOAD_SCATTER
        check(lib.gpur_replay_create(other.device._handle, ctypes.addressof(config), ctypes.addressof(replay)))
        try:
            check(lib.gpur_writer_create(replay, 1, ctypes.addressof(writer)))
            check(lib.gpur_writer_append_fields(writer, ROWS, addresses_of(given), None, None))
        finally:
            assert lib.gpur_replay_size(replay) == 0
            lib.gpur_writer_destroy(writer)
            lib.gpur_replay_destroy(replay)


def add_steps(_buffer, given):
    """Which the package follows, and the library joins."""
    with prioritized(n_step=3) as other:
        try:
            other.add(**{name: array for name, array in given.items() if name != "discount"})
        finally:
            assert other.stats.appended == 0


# By which door whole transitions come.
ROW_DOORS = {
    "add": lambda buffer, given: buffer.add(**given),
    "extend": lambda buffer, given: buffer.extend(**given),
    "extend with lists": lambda buffer, given: buffer.extend(**{name: a.tolist() for name, a in given.items()}),
    "extend by DLPack": lambda buffer, given: buffer.extend(**{
        name: a if a.dtype == np.bool_ else Exporter(a) for name, a in given.items()}),
    "a writer's add": lambda buffer, given: buffer.writer(ROWS).add(**given),
    "a writer's extend": lambda buffer, given: buffer.writer(ROWS).extend(**given),
    "gpur_writer_append": append_packed,
    "gpur_writer_append_fields": append_fields,
    "gpur_writer_append_fields, GPUR_UPLOAD_SCATTER": scatter,
    "gpur_writer_try_append_fields": try_append_fields,
    "gpur_block_pack": pack_block,
    "gpur_writer_append_block": append_block,
}
# By which priorities come, but no discount.
STEPS = {"add, n_step 3": add_steps, "gpur_writer_step_ex": step_in_c}
BLOCKS = ("gpur_block_pack", "gpur_writer_append_block")


def refuses_row(door, given, match):
    with prioritized() as buffer:
        buffer.extend(**pair())
        before = buffer.stats.appended
        with pytest.raises(ValueError, match=match):
            door(buffer, given)
        assert buffer.stats.appended == before == len(buffer)
        assert buffer.priority_stats.invalid == 0 and buffer.check_priorities() == 0


@pytest.mark.parametrize("door", [*ROW_DOORS, *STEPS])
@pytest.mark.parametrize("priority", [-0.5, -1.0, np.inf, -np.inf])
def test_a_row_with_a_bad_priority_is_refused(door, priority):
    if door in BLOCKS and priority == -1.0:
        pytest.skip("there it is what earlier versions wrote for none")
    refuses_row({**ROW_DOORS, **STEPS}[door], pair(priority=priority),
            f"the priority of row 1 is {priority:g}; it must be 0 or more and finite, or NaN")


@pytest.mark.parametrize("door", ROW_DOORS)
@pytest.mark.parametrize("discount", [0.99, -0.5])
def test_a_terminal_row_with_a_discount_is_refused(door, discount):
    refuses_row(ROW_DOORS[door], pair(terminated=True, discount=discount),
            f"row 1 has terminated 1 and discount {discount:g}; the discount of a terminal row must be 0")


@pytest.mark.parametrize("door, none", [(door, none) for door in ROW_DOORS for none in (np.nan, -1.0)
                                        if (none != -1.0 or door in BLOCKS) and "SCATTER" not in door])
def test_a_row_that_is_given_no_priority_gets_the_largest_one(door, none):
    with prioritized() as buffer:
        buffer.extend(**pair(priority=7.0))
        ROW_DOORS[door](buffer, pair(priority=none))
        found = buffer.get_priorities(np.arange(len(buffer)))
        assert door == "gpur_block_pack" or np.allclose(found[2:], [0.25, 7.0])
        assert buffer.priority_stats.invalid == 0


def update_in_c(buffer, ids, priorities):
    ids, priorities = np.asarray(ids, np.int64), np.asarray(priorities, np.float32)
    check(lib.gpur_replay_update_priorities(buffer._handle, len(ids), ids.ctypes.data, priorities.ctypes.data, None))


UPDATES = {
    "arrays": lambda buffer, ids, values: buffer.update_priorities(ids, np.asarray(values, np.float32)),
    "doubles": lambda buffer, ids, values: buffer.update_priorities(ids.astype(np.int32), np.asarray(values)),
    "lists": lambda buffer, ids, values: buffer.update_priorities(ids.tolist(), values),
    "DLPack": lambda buffer, ids, values: buffer.update_priorities(
        Exporter(ids), Exporter(np.asarray(values, np.float32))),
    "gpur_replay_update_priorities": update_in_c,
}


@pytest.mark.parametrize("door", UPDATES)
@pytest.mark.parametrize("priority", [-0.5, np.inf, -np.inf, np.nan])
def test_an_update_with_a_bad_priority_is_refused(door, priority):
    with prioritized() as buffer:
        buffer.extend(**pair())
        with pytest.raises(ValueError, match=rf"priorities\[1\] is {priority:g}; it must be 0 or more and finite"):
            UPDATES[door](buffer, np.arange(2), [3.0, priority])
        assert np.allclose(buffer.get_priorities([0, 1]), 0.25)
        assert buffer.priority_stats[-4:] == (0, 0, 0, 0)  # updates, stale, invalid, raised


@pytest.mark.parametrize("door", UPDATES)
@pytest.mark.parametrize("eviction, known", [
    ("oldest", "; the visible transitions are 0 to 1"),
    ("priority", ", which no transition has had; their ids are 0 to 1 at most"),
])
@pytest.mark.parametrize("position", [5000, 2, -2, -5, -2**31])
def test_an_update_of_a_position_outside_is_refused(door, eviction, known, position):
    """-1, with which batches mark that there is no row, and overwritten rows are skipped and counted."""
    with prioritized(eviction=eviction) as buffer:
        buffer.extend(**pair())
        with pytest.raises(gpureplay.InvalidArgument, match=rf"^ids\[1\] is {position}{known}$"):
            UPDATES[door](buffer, np.array([0, position]), [3.0, 4.0])
        assert np.allclose(buffer.get_priorities([0, 1]), 0.25) and buffer.priority_stats[-4:] == (0, 0, 0, 0)
        UPDATES[door](buffer, np.array([0, -1]), [3.0, 4.0])
        assert np.allclose(buffer.get_priorities([0, 1]), [3, 0.25]) and buffer.priority_stats[-4:] == (1, 1, 0, 0)


def test_an_update_skips_and_counts_transitions_that_were_overwritten():
    with buffer_of(prioritized=True) as buffer:
        for _ in range(3):
            buffer.extend(**rows(1000))
        buffer.update_priorities([999, 1000], [3.0, 4.0])
        assert buffer.priority_stats[-4:] == (1, 1, 0, 0)


def test_an_update_of_a_buffer_without_transitions_is_refused():
    with prioritized() as buffer:
        with pytest.raises(gpureplay.InvalidArgument, match=r"^ids\[0\] is 0, and no transition is visible yet$"):
            buffer.update_priorities([0], [3.0])
