# SPDX-License-Identifier: MIT
"""Spaces of every kind in trainings and buffers: discrete and composed observations, images of either order of axes,
actions that do not begin at 0; and policies from saved files, which speak as the environment does."""

import copy
import functools
import json
import re
import sys
import warnings
from pathlib import Path

import gpureplay
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from support import needs_files, run

SMALL = {"steps": 160, "num_envs": 2, "prepopulation": 40, "target_period": 40, "train_period": 4, "eval_episodes": 1,
         "eval_period": 0, "batch": 4, "capacity": 400, "device": "cpu", "threads": 1, "env_threads": 1,
         "progress": False}
IMAGE = spaces.Box(0, 9, (3, 3, 2), np.uint8)
FLATTENED = {
    "Discrete": spaces.Discrete(4), "Discrete from 3": spaces.Discrete(3, start=3),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]), "MultiDiscrete of two axes": spaces.MultiDiscrete([[2, 3], [4, 2]]),
    "MultiBinary": spaces.MultiBinary(5), "int64": spaces.Box(-4, 4, (3,), np.int64),
    "int8 of two axes": spaces.Box(-4, 4, (2, 2), np.int8), "uint32": spaces.Box(0, 4, (), np.uint32),
    "Tuple": spaces.Tuple((spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2))),
    "Dict": spaces.Dict({"image": IMAGE, "at": spaces.MultiDiscrete([3, 3]), "speed": spaces.Box(-1, 1, (2,))}),
    "nested": spaces.Tuple((spaces.Dict({"a": spaces.MultiBinary(2), "b": spaces.Discrete(2)}), spaces.Discrete(3))),
}


class Shows(gymnasium.Env):
    """Shows samples of a space, in episodes of 7 steps. The reward is 1 for the first action. It remembers what it has
    shown and the actions that it got."""

    def __init__(self, space, start=5, reward=float):
        self.observation_space, self.action_space = space, spaces.Discrete(3, start=start)
        self.shown, self.got, self.reward, self.at = [], [], reward, 0

    def show(self):
        self.shown.append(self.observation_space.sample())
        return self.shown[-1]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.at = 0
        return self.show(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.got.append(int(action))
        self.at += 1
        return self.show(), self.reward(action == self.action_space.start), False, self.at == 7, {}


def flat(space, obs):
    return np.asarray(spaces.flatten(space, obs), np.float32)


def check_acts_on_both(agent, space, start):
    """On what the environment shows, one or a batch, and on it flattened; actions are the environment's."""
    seen = [space.sample() for _ in range(6)]
    vectors = np.stack([flat(space, one) for one in seen])
    wanted = agent.act(vectors)
    assert set(wanted.tolist()) <= {start, start + 1, start + 2}
    batch = gymnasium.vector.utils.concatenate(space, seen, gymnasium.vector.utils.create_empty_array(space, 6))
    assert agent.act(batch).tolist() == wanted.tolist()
    assert [agent.act(one).tolist() for one in seen] == [[action] for action in wanted]
    assert agent.act(vectors[2]).tolist() == [wanted[2]]
    assert np.array_equal(agent.q_values(batch), agent.q_values(vectors))


# Trainings.


@pytest.mark.parametrize("name", FLATTENED)
def test_every_space_that_flattens_trains(name):
    space = FLATTENED[name]
    result = gpureplay.train(lambda lane: Shows(space), **SMALL)
    rows = np.asarray(result.buffer.gather(range(20)).obs)
    assert rows.dtype == np.float32 and rows.shape[1:] == spaces.flatten_space(space).shape
    check_acts_on_both(result.agent, space, 5)


@pytest.mark.parametrize("space", [spaces.Box(-np.inf, np.inf, (4,)), spaces.Box(0, 1, (2,)), spaces.Discrete(500)],
                         ids=str)
def test_all_observations_without_an_image_have_the_same_defaults(space):
    given = {name: SMALL[name] for name in ("num_envs", "prepopulation", "device", "threads", "progress")}
    config = gpureplay.train(lambda lane: Shows(space), steps=8, eval_episodes=1, **given).config
    options, learner = config["options"], config["learner"]
    assert options["preset"] == "fast-dqn-small-vectors"
    assert (options["batch"], options["target-period"], options["exploration-steps"]) == (64, 400, 50_000)
    assert (learner["loss"], learner["double_dqn"], learner["network"]["head"]) == ("squared", 1, "dueling")
    assert learner["optimizer"]["learning_rate"]["last"] == pytest.approx(1e-3)
    assert learner["exploration"]["last"] == pytest.approx(0.05) and config["run"]["eval_epsilon"] == 0


@pytest.mark.parametrize("options", [
    {"preset": "apex-dqn-small", "env": "shows_numbers:make_env", "actors": 1},
    {"preset": "ga3c-small", "agents": 2, "t_max": 5},
    {"preset": "a2c-small", "agents": 2},
    {"preset": "dqn-lambda-2019-small", "lambda_": 0.5, "capacity": 2000, "target_period": 200, "prepopulation": 400},
], ids=lambda options: options["preset"])
def test_every_system_takes_them(options, tmp_path, monkeypatch):
    (tmp_path / "shows_numbers.py").write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_spaces import FLATTENED, Shows\ndef make_env(lane):\n    return Shows(FLATTENED['nested'])\n")
    monkeypatch.syspath_prepend(tmp_path)
    common = {"device": "cpu", "threads": 1, "progress": False, "steps": 400, "eval_episodes": 1}
    apex = {"capacity": 1000, "prepopulation": 100, "batch": 8} if "apex" in options["preset"] else {}
    result = gpureplay.train(**{"env": lambda lane: Shows(FLATTENED["nested"]), **common, **apex, **options})
    agent, space = result.agent, FLATTENED["nested"]
    acting = agent if hasattr(agent, "act") else agent.policy()
    if hasattr(agent, "act"):
        check_acts_on_both(acting, space, 5)
    else:
        seen = [space.sample() for _ in range(3)]
        vectors = np.stack([flat(space, one) for one in seen])
        wanted = acting.act(vectors, greedy=True)
        assert acting.act(seen, greedy=True).tolist() == wanted.tolist() and min(wanted) >= 5
        assert agent.train(vectors, wanted, np.ones(3)).step > 0  # actions as they were given
        for dtype, action in ((np.int64, 4), (np.int32, 8), (np.uint8, 0)):
            with pytest.raises(gpureplay.InvalidArgument, match=rf"^actions\[1\] is {action}; it must be 5 to 7, as"):
                agent.train(vectors, np.array([5, action, 7], dtype), np.ones(3))


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_vector_environments_flatten_too(num_envs, mode):
    space = FLATTENED["nested"]
    envs = gymnasium.vector.SyncVectorEnv([lambda: Shows(space)] * num_envs,
                                          autoreset_mode=gymnasium.vector.AutoresetMode[mode])
    result = gpureplay.train(envs, eval_env=Shows(space),
                             **{**SMALL, "num_envs": None, "steps": 180, "target_period": 60, "env_threads": None})
    check_acts_on_both(result.agent, space, 5)
    shown = {flat(space, one).tobytes() for env in envs.envs for one in env.shown}
    assert {row.tobytes() for row in np.asarray(result.buffer.gather(range(40)).next_obs)} <= shown
    assert all(5 <= action <= 7 for env in envs.envs for action in env.got)


class Sequences(Shows):
    """Shows a space that has no fixed number of numbers."""

    def __init__(self):
        super().__init__(spaces.Sequence(spaces.Discrete(3)))


def test_what_cannot_be_flattened_is_refused_with_advice_that_works():
    with pytest.raises(TypeError, match=r"observation space is Sequence.*; it must be .*TransformObservation\(env, f"):
        gpureplay.train(lambda lane: Sequences(), **SMALL)
    with pytest.raises(TypeError, match=r"is Dict.*, and Text.* is a part of it; it must be"):
        gpureplay.train(lambda lane: Shows(spaces.Dict({"word": spaces.Text(4)})), **SMALL)
    box = spaces.Box(0, np.inf, (3,), np.float32)

    def counted(obs):
        return np.bincount(obs, minlength=3).astype(np.float32)

    result = gpureplay.train(lambda lane: gymnasium.wrappers.TransformObservation(Sequences(), counted, box), **SMALL)
    assert result.agent.act([1, 0, 2]).shape == (1,)
    words = r"is Discrete\(10000000\), whose obs.* 10000000 numbers .*at most 8388544.*Tran"
    with pytest.raises(TypeError, match=words):
        gpureplay.train(lambda lane: Shows(spaces.Discrete(10**7)), **SMALL)
    one = spaces.Box(0, 1, (1,), np.float32)
    gpureplay.train(lambda lane: gymnasium.wrappers.TransformObservation(
        Shows(spaces.Discrete(10**7)), lambda obs: np.array([obs / 1e7], np.float32), one), **SMALL)


def advised(error, name):
    """What the wrapper that an error advises makes of `env`. names: what the advice leaves open."""
    text = str(error.value)
    begin = at = text.index(f"gymnasium.wrappers.{name}(") + len(f"gymnasium.wrappers.{name}(")
    while text[begin:at].count("(") >= text[begin:at].count(")"):
        at += 1
    code = text[begin - len(f"gymnasium.wrappers.{name}("):at]
    return lambda env, **names: eval(code, {"gymnasium": gymnasium, "np": np, "env": env, "envs": env, **names})


STACK = spaces.Box(0, 1, (2, 6, 6, 3))
OF_A_VECTOR = "vector.VectorizeTransform"
ADVICE = {  # observations, how the wrapper begins, and what the advice leaves open
    "no numbers": (spaces.Text(4), OF_A_VECTOR + "Observation",
                   {"function": lambda obs: np.array([len(obs)], np.float32), "space": spaces.Box(0, 9, (1,))}),
    "none": (spaces.Box(-1, 1, (0,)), OF_A_VECTOR + "Observation", {}),
    "too long": (spaces.Discrete(10**7), OF_A_VECTOR + "Observation",
                 {"function": lambda obs: np.array([obs / 1e7], np.float32), "space": spaces.Box(0, 1, (1,))}),
    "four axes": (STACK, OF_A_VECTOR + "Observation", {"space": spaces.Box(0, 1, (6, 6, 6))}),
    "four axes, flattened": (STACK, "vector.FlattenObservation", {}),
    "bytes": (spaces.Box(0, 255, (6, 6, 3), np.int32), "vector.DtypeObservation", {}),
    "part": (spaces.Dict({"image": spaces.Box(0, 255, (6, 6, 3), np.uint8)}), OF_A_VECTOR + "Observation",
             {"function": lambda obs: {"image": np.float32(obs["image"] / 255)},
              "space": spaces.Dict({"image": spaces.Box(0, 1, (6, 6, 3))})}),
    "choices": (spaces.Box(0, 1, (2,)), OF_A_VECTOR + "Action", {}),
}


@pytest.mark.parametrize("name", ADVICE)
def test_advice_for_a_vector_is_a_wrapper_of_vectors_and_works(name):
    space, wrapper, names = ADVICE[name]
    made = [Takes(spaces.MultiDiscrete([3, 2])) if name == "choices" else Shows(space) for _ in range(2)]
    envs, options = gymnasium.vector.SyncVectorEnv([lambda env=env: env for env in made]), {
        **SMALL, "num_envs": None, "env_threads": None, "eval_episodes": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, RuntimeWarning), match="gymnasium") as error:
            gpureplay.train(envs, **options)
        assert not re.search(r"wrappers\.\w*\(", str(error.value))  # of a single environment
        is_image = name == "four axes"
        result = gpureplay.train(advised(error, wrapper)(envs, **names), **options,
                                 **({"agent": {"input_layout": "hwc"}} if is_image else {}))
    assert result.stats.train_steps > 0
    if name == "choices":
        assert len(made[0].taken | made[1].taken) == 6


def test_actions_without_bounds_are_refused_with_advice_that_works():
    class Free(gymnasium.ActionWrapper):
        action_space, taken = spaces.Box(-np.inf, np.inf, (2,)), None

        def action(self, action):
            self.taken = action
            return 5

    def buffer_of(env):
        return gpureplay.ReplayBuffer.for_env(99, env, device="cpu")

    def ddpg_of(buffer):
        return gpureplay.DDPG(buffer, actor={"trunk": [8]}, critic={"trunk": [8]}, batch_size=4)

    for count in (0, 2):
        made = [Free(Shows(spaces.Box(0, 1, (2,)))) for _ in range(max(1, count))]
        env = gymnasium.vector.SyncVectorEnv([lambda env=env: env for env in made]) if count else made[0]
        with buffer_of(env) as buffer, pytest.raises(gpureplay.InvalidArgument, match="without finite bounds") as error:
            ddpg_of(buffer)
        env = advised(error, OF_A_VECTOR + "Action" if count else "TransformAction")(env)
        with buffer_of(env) as buffer:
            policy = ddpg_of(buffer).policy()
            obs, _ = env.reset(seed=1)
            actions = policy.act_vectors(obs, sigma=1.0)
            env.step(actions if count else actions[0])
            assert np.array_equal([one.taken for one in made], 10 * actions)


NOTHING = [spaces.Box(-1, 1, (0,)), spaces.Box(0, 255, (0, 3), np.uint8), spaces.Box(0, 9, (2, 0), np.int64),
           spaces.MultiDiscrete(np.zeros(0, np.int64)), spaces.Tuple([]), spaces.Dict({}),
           spaces.Dict({"none": spaces.Tuple([]), "empty": spaces.Box(-1, 1, (0,))})]


@pytest.mark.parametrize("space", NOTHING, ids=str)
def test_a_space_of_no_numbers_is_refused_at_every_door(space):
    doors = [lambda: gpureplay.train(lambda lane: Shows(space), **SMALL),
             lambda: gpureplay.train(lambda lane: Shows(space), preset="ga3c-small", device="cpu"),
             lambda: gpureplay.train(gymnasium.vector.SyncVectorEnv([lambda: Shows(space)] * 2), device="cpu"),
             lambda: gpureplay.Policy(space, 2, device="cpu"), lambda: gpureplay.ActorCritic(space, 2, device="cpu"),
             lambda: gpureplay.ReplayBuffer(9, space, spaces.Discrete(2), device="cpu", flatten=True)]
    words = rf"space is {re.escape(str(space))}, which has no numbers; it must"
    for door in doors:
        with pytest.raises(TypeError, match=words) as error:
            door()
    gpureplay.train(lambda lane: advised(error, "TransformObservation")(Shows(space)), **SMALL)
    with pytest.raises((TypeError, ValueError), match="has shape .*; it must be|which has no parts; it must have one"):
        gpureplay.ReplayBuffer(9, space, spaces.Discrete(2), device="cpu")


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("raised", [ZeroDivisionError("probe"), Speechless()], ids=["probe", "speechless"])
@pytest.mark.parametrize("is_vector", [False, True])
def test_nothing_is_raised_through_c(raised, is_vector, monkeypatch):
    def fails(self, info_at):
        raise raised

    def given():
        return gymnasium.vector.SyncVectorEnv([lambda: Shows(IMAGE)] * 2) if is_vector else lambda lane: Shows(IMAGE)

    wanted = "ZeroDivisionError: probe|Speechless, whose text raised RuntimeError"
    with monkeypatch.context() as patched:  # the spaces are told in functions that the library calls, too
        patched.setattr("gpureplay._python_envs._PythonType._describe", fails)
        with pytest.raises(gpureplay.InvalidArgument, match=wanted):
            gpureplay.train(given(), **{**SMALL, "eval_episodes": None})
    monkeypatch.setattr(Shows, "step", fails)
    with pytest.raises(gpureplay.EnvError, match=wanted):
        gpureplay.train(given(), **{**SMALL, "eval_episodes": 0, "eval_period": None})


@pytest.mark.parametrize("space, wrong", [(spaces.Discrete(4), 4), (spaces.Discrete(4), -1),
                                          (spaces.MultiDiscrete([3, 2]), np.array([1, 2])),
                                          (FLATTENED["Tuple"], (31, 11, 0))])
def test_an_observation_outside_of_its_space_ends_the_training(space, wrong):
    class Lies(Shows):
        def show(self):
            return wrong if self.at == 4 else super().show()

    with pytest.raises(gpureplay.EnvError, match=r"environment 0, step.*is not in its space"):
        gpureplay.train(lambda lane: Lies(space), **SMALL)


@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_an_observation_of_a_tuple_may_be_what_gymnasium_takes_for_one(kind):
    class Given(Shows):
        def show(self):
            obs = kind(super().show())
            assert self.observation_space.contains(obs)
            return obs

    env = Given(FLATTENED["Tuple"])
    result = gpureplay.train(lambda lane: env, **{**SMALL, "num_envs": 1, "eval_episodes": 0, "eval_period": None})
    shown = np.stack([flat(env.observation_space, one) for one in env.shown[:7]])
    assert np.array_equal(np.asarray(result.buffer.gather(range(7)).obs), shown)


@pytest.mark.parametrize("space, wrong, text", [
    (FLATTENED["Dict"], {"image": np.zeros((3, 3, 2), np.uint8)}, "^the observation has no 'at'; it must have "),
    (FLATTENED["Dict"], {}, "^the observation has no '"),
    (FLATTENED["Tuple"], (1,), "^the observation has 1 parts; it must have 3"),
    (FLATTENED["Tuple"], (1, 2, 0, 1), "^the observation has 4 parts; it must have 3, as its space is Tuple"),
    (FLATTENED["nested"], ({"a": [0, 1]}, 2), r"^the observation's part \[0\] has no 'b'; it must have 'a', 'b', as"),
    (FLATTENED["nested"], (3, 2), r"^the observation's part \[0\] is 3; it must be a dict")])
def test_an_observation_without_its_parts_is_refused_in_words(space, wrong, text):
    with gpureplay.ReplayBuffer(99, space, spaces.Discrete(3), device="cpu", flatten=True) as buffer:
        agent = gpureplay.DQN(buffer, trunk=[8])
        policy = gpureplay.Policy(space, 3, trunk=[8], device="cpu")
        rest = {"action": 0, "reward": 0.0, "terminated": False}
        for call in (lambda: agent.act(wrong), lambda: agent.act([wrong, wrong]), lambda: policy.act(wrong),
                     lambda: buffer.add(obs=space.sample(), next_obs=wrong, **rest),
                     lambda: buffer.add(obs=wrong, next_obs=space.sample(), **rest)):
            with pytest.raises(ValueError, match=text):
                call()


@pytest.mark.parametrize("bounds, dtype", [((0, 2**40), np.int64), ((-2**63, 2**63 - 1), np.int64),
                                           ((0, 2**62), np.uint64)])
def test_wide_integers_are_rounded(bounds, dtype):
    space = spaces.Box(*bounds, (2,), dtype)
    result = gpureplay.train(lambda lane: Shows(space), **{**SMALL, "agent": {"input_scale": 2.0**-64}})
    shown = np.asarray(result.buffer.gather(range(20)).obs)
    assert abs(shown).max() > 2**24
    wide = np.array([2**24 + 1, 5], dtype)
    assert result.agent.act(wide).tolist() == result.agent.act(wide.astype(np.float32)).tolist()


# Numbers of 0 to 255.


BYTES = spaces.Box(0, 255, (6, 6, 3), np.uint8)


def test_numbers_of_images_that_are_not_scaled_are_said():
    wide, parts = spaces.Box(0, 255, (6, 6, 3), np.int32), spaces.Dict({"image": BYTES, "at": spaces.Discrete(3)})
    for space, words in ((wide, "of it are.*DtypeObservation"), (parts, "of its part Box.*TransformObservation")):
        with pytest.warns(RuntimeWarning, match=words):
            gpureplay.train(lambda lane: Shows(space), **SMALL)
        with pytest.warns(RuntimeWarning, match=words):
            gpureplay.ActorCritic(space, 3, trunk=[8], device="cpu")
        for make, actions, networks in LEARNERS.values():
            with pytest.warns(RuntimeWarning, match=words), \
                    gpureplay.ReplayBuffer(99, space, actions, device="cpu", flatten=True) as buffer:
                make(buffer, **networks)
    with pytest.warns(RuntimeWarning, match="leave out flatten=True.*input_scale=1 / 255"), \
            gpureplay.ReplayBuffer(99, BYTES, spaces.Discrete(3), device="cpu", flatten=True) as buffer:
        gpureplay.DQN(buffer, trunk=[8])
    scaled = spaces.Dict({"image": spaces.Box(0, 1, (6, 6, 3)), "at": spaces.Discrete(3)})
    followed = [lambda lane: gymnasium.wrappers.DtypeObservation(Shows(wide), np.uint8),
                lambda lane: gymnasium.wrappers.TransformObservation(
                    Shows(parts), lambda obs: {**obs, "image": np.float32(obs["image"] / 255)}, scaled)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [gpureplay.train(make_env, **SMALL) for make_env in followed]
        for name in ("int64", "uint32"):
            gpureplay.train(lambda lane: Shows(FLATTENED[name]), **SMALL)
        gpureplay.train(lambda lane: Shows(parts), agent={"input_scale": 1 / 255}, **SMALL)
        with gpureplay.ReplayBuffer(99, BYTES, spaces.Discrete(3), device="cpu") as buffer:
            gpureplay.DQN(buffer, trunk=[8], input_scale=1 / 255)
    assert results[0].config["learner"]["network"]["input_scale"] == pytest.approx(1 / 255)
    assert results[0].config["learner"]["network"]["trunk"][0]["kind"] == "conv"
    assert np.asarray(results[1].buffer.gather(range(20)).obs).max() <= 1


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_observations_of_four_axes_are_refused_with_advice_that_works(dtype):
    space = spaces.Box(0, 1 if dtype is np.float32 else 255, (2, 6, 6, 3), dtype)
    for preset in (None, "fast-dqn-small"):
        words = r"the shape \(2, 6, 6, 3\), of 4 axes; .*must be 2 or 3: .*\"trunk\": \[128\]"
        with pytest.raises(TypeError, match=words):
            gpureplay.train(lambda lane: Shows(space), preset=preset, **SMALL)
    with pytest.raises(TypeError, match="4 axes"):
        gpureplay.train(lambda lane: Shows(space), preset="a2c-small", device="cpu")
    one = spaces.Box(0, space.high.max(), (6, 6, 6), dtype)
    result = gpureplay.train(lambda lane: gymnasium.wrappers.TransformObservation(
        Shows(space), lambda obs: np.concatenate(obs, axis=-1), one), agent={"input_layout": "hwc"}, **SMALL)
    assert result.agent.weights["trunk.0.weight"].shape == (16, 3, 3, 6)
    gpureplay.train(lambda lane: gymnasium.wrappers.FlattenObservation(Shows(space)), **SMALL)
    gpureplay.train(lambda lane: Shows(space), agent={"trunk": [128]}, **SMALL)
    for door in (lambda: gpureplay.train(lambda lane: Shows(spaces.Box(0, 1, (1,) * 7)), **SMALL),
                 lambda: gpureplay.Policy(spaces.Box(0, 1, (1,) * 7), 2, device="cpu")):
        with pytest.raises(TypeError, match="of 7 axes; .*FlattenObservation"):
            door()


# Images.


@pytest.mark.parametrize("shape, wanted", [((10, 10, 4), 4), ((7, 7, 3), 3), ((64, 64, 3), 3), ((84, 84, 4), 4),
                                           ((4, 84, 84), 4), ((3, 64, 64), 3), ((10, 10, 7), 7)])
def test_images_tell_where_their_channels_are(shape, wanted):
    space, trunk = spaces.Box(0, 255, shape, np.uint8), [("conv", 16, 3), 32]
    with gpureplay.ReplayBuffer(100, space, spaces.Discrete(3), device="cpu") as buffer:
        agent = gpureplay.DQN(buffer, trunk=trunk)
        assert agent.weights["trunk.0.weight"].shape == (16, 3, 3, wanted)
        policy = gpureplay.Policy.for_learner(agent)
        assert policy.act(np.zeros(shape, np.uint8)).shape == (1,)
    critic = gpureplay.ActorCritic(space, 3, trunk=trunk, device="cpu")
    assert critic.weights["trunk.0.weight"].shape == (16, 3, 3, wanted)
    assert gpureplay.Policy(space, 3, trunk=trunk, device="cpu").config["input_layout"] == "auto"


def test_images_that_leave_a_doubt_need_input_layout():
    space, trunk = spaces.Box(0, 255, (10, 10, 10), np.uint8), [("conv", 4, 3), 8]
    refused = pytest.raises(gpureplay.InvalidArgument, match=r"\(10, 10, 10\), does not tell .* must be 'chw' \(chan")
    with gpureplay.ReplayBuffer(100, space, spaces.Discrete(3), device="cpu") as buffer:
        with refused:
            gpureplay.DQN(buffer, trunk=trunk)
        assert gpureplay.DQN(buffer, trunk=trunk, input_layout="hwc").config["input_layout"] == "hwc"
        assert gpureplay.DQN(buffer, trunk=[8]).act(np.zeros((10, 10, 10), np.uint8)).shape == (1,)
    for make in (gpureplay.Policy, gpureplay.ActorCritic):
        with refused:
            make(space, 3, trunk=trunk, device="cpu")
        make(space, 3, trunk=trunk, device="cpu", input_layout="chw")


@pytest.mark.parametrize("shape, layout", [((3, 8, 8), "chw"), ((8, 8, 3), "hwc")])
def test_trainings_take_images_of_both_orders(shape, layout):
    result = gpureplay.train(lambda lane: Shows(spaces.Box(0, 255, shape, np.uint8)), **SMALL)
    assert result.config["learner"]["network"]["input_layout"] == layout
    assert result.agent.weights["trunk.0.weight"].shape == (16, 3, 3, 3)


def test_a_training_asks_where_the_channels_are():
    def make_env(lane):
        return Shows(spaces.Box(0, 255, (6, 6, 6), np.uint8))

    with pytest.raises(gpureplay.InvalidArgument, match=r"images of \(6, 6, 6\).*say agent={\"input_layout\": \"hwc"):
        gpureplay.train(make_env, **SMALL)
    for layout in ("hwc", "chw"):
        result = gpureplay.train(make_env, agent={"input_layout": layout}, **SMALL)
        assert result.config["learner"]["network"]["input_layout"] == layout


# Rewards and actions.


class Takes(gymnasium.ActionWrapper):
    """Has an action space, of which the environment gets none."""

    def __init__(self, space):
        super().__init__(Shows(spaces.Box(0, 1, (2,))))
        self.action_space, self.taken = space, set()

    def action(self, action):
        assert self.action_space.contains(action), action
        self.taken.add(tuple(np.ravel(action).tolist()))
        return 5


COMBINED = {"MultiDiscrete": (spaces.MultiDiscrete([3, 2]), 6), "MultiBinary": (spaces.MultiBinary(3), 8),
            "two axes": (spaces.MultiDiscrete([[2, 1], [2, 2]]), 8),
            "start": (spaces.MultiDiscrete([3, 2], start=[4, -1]), 6)}


@pytest.mark.parametrize("name", COMBINED)
def test_actions_of_several_choices_are_refused_with_advice_that_works(name):
    space, count = COMBINED[name]
    wanted = rf"the action space is {re.escape(str(space))}; it must be Discrete, .*Box of floats: .*crete\({count}\)"
    with pytest.raises(TypeError, match=wanted) as error:
        gpureplay.train(lambda lane: Takes(space), **SMALL)
    for num_actions in (None, 6):
        with pytest.raises(gpureplay.InvalidArgument, match=wanted), \
                gpureplay.ReplayBuffer(99, spaces.Box(0, 1, (2,)), space, device="cpu") as buffer:
            gpureplay.DQN(buffer, num_actions)
    env = advised(error, "TransformAction")(Takes(space))
    gpureplay.train([env], prepopulation=80, **{key: value for key, value in SMALL.items()
                                                if key not in ("num_envs", "eval_episodes", "prepopulation")})
    assert len(env.env.taken) == count


def test_other_actions_are_refused_by_the_same_sentence():
    for space in (spaces.Box(0, 5, (2,), np.int32), spaces.Tuple([spaces.Discrete(2)]), spaces.MultiBinary(40),
                  spaces.Box(-1, 1, (0,))):
        wanted = rf"the action space is {re.escape(str(space))}; it must be Discrete.*function, gymnasium.spaces.Discr"
        with pytest.raises(TypeError, match=wanted):
            gpureplay.train(lambda lane: Takes(space), **SMALL)
        for make in (gpureplay.DQN, gpureplay.DDPG):
            if space.shape != (0,):
                with pytest.raises(gpureplay.InvalidArgument, match=wanted), \
                        gpureplay.ReplayBuffer(99, spaces.Box(0, 1, (2,)), space, device="cpu") as buffer:
                    make(buffer)
    for make, space, words in (
            (gpureplay.DQN, spaces.Box(-1, 1, (2,)), "that of a DQN must be Discrete: a Box of floats is for a DDPG"),
            (gpureplay.DDPG, spaces.Discrete(2), "that of a DDPG must be a Box of floats: Discrete is for a DQN$")):
        with pytest.raises(gpureplay.InvalidArgument, match=words), \
                gpureplay.ReplayBuffer(99, spaces.Box(0, 1, (2,)), space, device="cpu") as buffer:
            make(buffer)


def test_a_reward_may_be_an_array_of_one_number():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = gpureplay.train(lambda lane: Shows(spaces.Discrete(3), reward=lambda hit: np.array([hit * 2.0])),
                                 **SMALL)
    assert set(np.asarray(result.buffer.gather(range(60)).reward).tolist()) == {0.0, 2.0}
    with pytest.raises(gpureplay.EnvError, match=r"the reward is \[1 2\], of shape \(2,\); it must be one number"):
        gpureplay.train(lambda lane: Shows(spaces.Discrete(3), reward=lambda hit: np.array([1, 2])), **SMALL)


@pytest.mark.parametrize("start", [-2, 0, 5])
def test_actions_are_those_of_the_environment(start):
    result = gpureplay.train(lambda lane: Shows(spaces.Box(0, 1, (2,)), start), **SMALL)
    obs, allowed = np.zeros((4, 2), np.float32), {start, start + 1, start + 2}
    assert set(result.agent.act(obs, 1.0).tolist()) <= allowed and result.agent.act(obs).dtype == np.int32
    policy = gpureplay.Policy.for_learner(result.agent)
    assert policy.act(obs).tolist() == policy.act_with_q(obs).actions.tolist() == result.agent.act(obs).tolist()


# Buffers of the caller's own.


@pytest.mark.parametrize("name", FLATTENED)
def test_a_flattened_next_obs_of_the_same_memory_is_refused(name):
    space = FLATTENED[name]
    with gpureplay.ReplayBuffer(64, space, spaces.Discrete(2), device="cpu", num_envs=2, autoreset="disabled",
                                flatten=True) as buffer:
        batch = gymnasium.vector.utils.batch_space(space, 2)
        obs, rest = batch.sample(), {"action": [0, 1], "reward": [0, 0], "terminated": [False] * 2}
        with pytest.raises(ValueError, match="are the same memory"):
            buffer.extend(obs=obs, next_obs=obs, truncated=[False] * 2, **rest)
        for method in (buffer.add, buffer.writer(2, "disabled").add):
            with pytest.raises(ValueError, match="are the same memory, so that both"):
                method(obs=obs, next_obs=obs, **rest)
            assert buffer.stats.appended == 0


@pytest.mark.parametrize("name", ["Discrete", "Tuple", "Dict"])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_a_buffer_flattens_what_an_environment_shows(name, n_step, mode):
    space = FLATTENED[name]
    envs = gymnasium.vector.SyncVectorEnv([lambda: Shows(space, 0)] * 2,
                                          autoreset_mode=gymnasium.vector.AutoresetMode[mode])
    with gpureplay.ReplayBuffer.for_env(200, envs, device="cpu", flatten=True, n_step=n_step) as buffer:
        obs, _ = envs.reset(seed=1)
        for _ in range(20):
            action = envs.action_space.sample()
            next_obs, reward, terminated, truncated, info = envs.step(action)
            buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated,
                       truncated=truncated, info=info)
            obs = next_obs
        rows = buffer.gather(range(len(buffer)))
        shown = {flat(space, one).tobytes() for env in envs.envs for one in env.shown}
        assert {row.tobytes() for row in np.concatenate([np.asarray(rows.obs), np.asarray(rows.next_obs)])} <= shown
        agent = gpureplay.DQN(buffer, trunk=[8], batch_size=4)
        agent.train(2)
        check_acts_on_both(agent, space, 0)


LEARNERS = {"DQN": (gpureplay.DQN, spaces.Discrete(2), {"trunk": [8]}),
            "DDPG": (gpureplay.DDPG, spaces.Box(-1, 1, (2,)),
                     {"actor": {"trunk": [8]}, "critic": {"trunk": [8]}, "batch_size": 4})}


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", ["Discrete", "MultiDiscrete", "MultiBinary", "int64", "Tuple", "Dict"])
def test_a_learner_says_how_its_buffer_is_to_be_made(name, learner):
    space, (make, actions, networks) = FLATTENED[name], LEARNERS[learner]
    with gpureplay.ReplayBuffer(100, space, actions, device="cpu") as buffer:
        if name == "MultiBinary" and learner == "DQN":  # of bytes
            assert gpureplay.DQN(buffer, trunk=[8]).act(np.zeros(5, np.uint8)).shape == (1,)
            return
        wanted = rf"are of the space {re.escape(str(space))}, stored as obs.*; this learner .*: make the .* with flat"
        with pytest.raises(gpureplay.InvalidArgument, match=wanted):
            make(buffer, **networks)
    with gpureplay.ReplayBuffer(100, space, actions, device="cpu", flatten=True) as buffer:
        agent = make(buffer, **networks)
        if learner == "DQN":
            assert agent.act(space.sample()).shape == (1,)
        else:
            assert agent.policy().act_vectors(space.sample()).shape == (1, 2)


@pytest.mark.parametrize("name", FLATTENED)
@pytest.mark.parametrize("make", [gpureplay.Policy, gpureplay.ActorCritic], ids=lambda make: make.__name__)
def test_policies_flatten_by_themselves(name, make):
    space = FLATTENED[name]
    agent = make(space, 3, trunk=[8], device="cpu")
    policy = agent if make is gpureplay.Policy else agent.policy()
    seen = [space.sample() for _ in range(3)]
    vectors = np.stack([flat(space, one) for one in seen])
    wanted = policy.act(vectors, 1.0, steps=0)
    assert [int(policy.act(one, 1.0, lane, 0)[0]) for lane, one in enumerate(seen)] == wanted.tolist()
    if make is gpureplay.ActorCritic:
        obs = seen if name in ("Tuple", "Dict", "nested") else np.stack(seen)
        assert agent.train(obs, [0, 1, 2], np.ones(3)).step == 1


def test_a_learner_says_whose_setting_gamma_is():
    with gpureplay.ReplayBuffer(100, spaces.Box(0, 1, (2,)), spaces.Discrete(2), device="cpu") as buffer:
        with pytest.raises(TypeError, match=r"^'gamma' is no setting of a learner, but of its buffer: ReplayBuffer\(."):
            gpureplay.DQN(buffer, gamma=0.9)


# Saved policies.


@needs_files
@pytest.mark.parametrize("name", ["nested", "vector", "image"])
def test_a_policy_is_opened_from_a_run_alone(name, tmp_path):
    space = {"vector": spaces.Box(-1, 1, (4,)), "image": spaces.Box(0, 255, (6, 6, 3), np.uint8)}.get(name) or \
        FLATTENED[name]
    result = gpureplay.train(lambda lane: Shows(space), out=tmp_path / "run", checkpoint=160, **SMALL)
    seen = [space.sample() for _ in range(5)]
    wanted = [int(result.agent.act(one)[0]) for one in seen]
    with gpureplay.Policy.open(tmp_path / "run", device="cpu", max_batch=8) as policy:
        assert [int(policy.act(one)[0]) for one in seen] == wanted and policy.config["max_batch"] == 8
        assert policy.version == result.agent.stats.steps
    printed, _ = run(f"""
        import numpy as np
        policy = gpureplay.Policy.open({str(tmp_path / "run")!r}, device="cpu")
        print(policy.act(np.zeros(policy._obs.shape, policy._obs.dtype)).tolist())""")
    zeros = np.zeros(result.agent._obs.shape, result.agent._obs.dtype)
    assert json.loads(printed) == result.agent.act(zeros).tolist()
    for place in ("run/learner.safetensors", "run/checkpoint/learner.safetensors", "run/checkpoint"):
        with gpureplay.Policy.open(tmp_path / place, device="cpu") as policy:
            assert [int(policy.act(one)[0]) in (5, 6, 7) for one in seen] == [True] * 5
            assert "checkpoint" in place or [int(policy.act(one)[0]) for one in seen] == wanted
    (tmp_path / "run/learner.safetensors").rename(tmp_path / "run/other.safetensors")
    with gpureplay.Policy.open(tmp_path / "run/other.safetensors", device="cpu") as policy:  # as the network has it
        assert policy.act(zeros).tolist() == [int(result.agent.act(zeros)[0]) - 5]


@needs_files
@pytest.mark.parametrize("text", ['{"model_type": "other"}', "[1]", "{", "\xff", '{"environment": "CartPole-v1"}'])
def test_a_config_of_another_program_beside_a_learner_is_not_read(text, tmp_path):
    with gpureplay.ReplayBuffer(100, spaces.Box(-9, 9, (4,)), spaces.Discrete(3), device="cpu") as buffer:
        agent = gpureplay.DQN(buffer, trunk=[8])
        agent.save(tmp_path / "learner.safetensors")
        (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
        obs = np.random.default_rng(1).normal(size=(7, 4)).astype("f4")
        with gpureplay.Policy.open(tmp_path / "learner.safetensors", device="cpu") as policy:
            assert np.array_equal(policy.q_values(obs), agent.q_values(obs))
    with pytest.raises(gpureplay.FileError, match="config.json is not that of a run: .* open the file learner.safet"):
        gpureplay.Policy.open(tmp_path, device="cpu")


@needs_files
def test_a_policy_is_opened_from_each_kind_of_file(tmp_path):
    obs = np.random.default_rng(1).normal(size=(7, 4)).astype("f4")
    box = spaces.Box(-9, 9, (4,))
    with gpureplay.ReplayBuffer(100, box, spaces.Discrete(3), device="cpu") as buffer:
        agent = gpureplay.DQN(buffer, trunk=[16, (8, "tanh")], head="dueling", hidden=8, input_scale=0.5,
                              input_shift=0.25)
        agent.save(tmp_path / "learner")
        agent.save_weights(tmp_path / "weights")
        gpureplay.Policy.for_learner(agent).save(tmp_path / "policy")
        for file in ("learner", "weights", "policy"):
            with gpureplay.Policy.open(tmp_path / file, device="cpu") as policy:
                assert np.array_equal(policy.q_values(obs), agent.q_values(obs))
        with gpureplay.Policy(box, 3, trunk=[16, (8, "tanh")], head="dueling", hidden=8, input_layout="hwc",
                              device="cpu") as policy:
            policy.load(tmp_path / "learner")  # the order of axes is nothing to a vector
        with gpureplay.Policy(box, 3, trunk=[9], device="cpu") as policy, \
                pytest.raises(gpureplay.InvalidArgument,
                              match=r'trunk\[0\] is \(16, "relu"\) in the file; this policy has \(9'):
            policy.load(tmp_path / "learner")
    critic = gpureplay.ActorCritic(box, 3, trunk=[8], policy_floor=0.01, device="cpu")
    critic.save(tmp_path / "critic")
    with gpureplay.Policy.open(tmp_path / "critic", device="cpu") as policy:
        assert np.array_equal(policy.act_with_values(obs, greedy=True).probabilities,
                              critic.policy().act_with_values(obs, greedy=True).probabilities)
    fields = {"obs": ((4,), "float32"), "action": ((2,), "float32"), "reward": "float32", "next_obs": ((4,), "float32"),
              "terminated": "bool", "truncated": "bool"}
    with gpureplay.ReplayBuffer(100, fields, device="cpu") as buffer:
        ddpg = gpureplay.DDPG(buffer, actor={"trunk": [8]}, critic={"trunk": [8]}, batch_size=4)
        ddpg.save(tmp_path / "ddpg")
        with gpureplay.Policy.open(tmp_path / "ddpg", device="cpu") as policy:
            assert np.array_equal(policy.act_vectors(obs), ddpg.policy().act_vectors(obs))


@needs_files
def test_what_no_policy_can_be_opened_from_is_said(tmp_path):
    with pytest.raises(gpureplay.FileError, match="is a folder and has neither learner.safetensors nor checkpoint/"):
        gpureplay.Policy.open(tmp_path)
    with pytest.raises(gpureplay.FileError, match="none"):
        gpureplay.Policy.open(tmp_path / "none")
    (tmp_path / "text").write_text("a page of words that are no numbers, and no header", encoding="utf-8")
    with pytest.raises(gpureplay.FileError, match="text: it is no safetensors file, or damaged: its header should"):
        gpureplay.Policy.open(tmp_path / "text")
    with gpureplay.ReplayBuffer(100, spaces.Box(0, 1, (2,)), spaces.Discrete(2), device="cpu") as buffer:
        gpureplay.DQN(buffer, trunk=[8]).save(tmp_path / "learner")
        buffer.save(tmp_path / "replay")
        with pytest.raises(gpureplay.FileError, match="replay is a replay file, which has no network; it must be a "
                                                      "file of a learner, of a policy or of weights, or the folder of "
                                                      "a run"):
            gpureplay.Policy.open(tmp_path / "replay")
        for make in (gpureplay.Policy, functools.partial(gpureplay.DQN, buffer)):  # as config.json has it
            with pytest.raises(TypeError, match=r"'network' is no setting, but what config.json calls .* Policy.open"):
                make(*([spaces.Box(0, 1, (2,))] if make is gpureplay.Policy else []), network={"head": "q"})
        with pytest.raises(TypeError, match="'trunk' is no option of Policy.open, which reads the network from"):
            gpureplay.Policy.open(tmp_path / "learner", trunk=[8])
        with pytest.raises(TypeError, match=r"'optimizer' is no setting of a policy; .* Policy.open\(path\) for its"):
            gpureplay.Policy(spaces.Box(0, 1, (2,)), 2, optimizer="adam", device="cpu")
