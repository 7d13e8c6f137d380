# SPDX-License-Identifier: MIT
"""Gymnasium's environments end to end: what the buffer holds are the transitions that the bare environments make."""

import gpureplay
import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", minversion="1.1")
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv  # noqa: E402 (after the skip)
from worlds import WORLDS, Unwrapped, leaves, one, transition  # noqa: E402

ENVS, STEPS, SEED = 3, 60, 17


def check(buffer, wanted):
    """The buffer's rows are these, in this order."""
    assert len(buffer) == len(wanted) > 0
    for first in range(0, len(wanted), 64):
        rows = wanted[first:first + 64]
        batch = buffer.gather(range(first, first + len(rows)))
        for name in batch.keys()[:-3]:
            given = np.stack([np.asarray(row[name]) for row in rows])
            assert batch[name].shape == given.shape
            assert (batch[name] == given.astype(batch[name].dtype)).all(), name


def make(env, autoreset, num_envs):
    observation = getattr(env, "single_observation_space", env.observation_space)
    action = getattr(env, "single_action_space", env.action_space)
    return gpureplay.ReplayBuffer(10_000, observation, action, device="cpu", num_envs=num_envs, autoreset=autoreset)


def drive(env, buffer, bare):
    """Steps the vector and the bare environments with the same actions; returns the bare ones' transitions."""
    env.action_space.seed(SEED)
    obs, _ = env.reset(seed=SEED)
    wanted = []
    for _ in range(STEPS):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, info = env.step(action)
        made = [single.step(one(action, number)) for number, single in enumerate(bare)]
        made = [row for row in made if row is not None]
        added = buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated,
                           truncated=truncated, info=info)
        assert added == len(made) and len(buffer) == len(wanted) + added
        wanted += made
        ended = terminated | truncated
        obs = next_obs
        if env.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})
    return wanted


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize("world", WORLDS)
def test_a_vector_of_environments(world, mode):
    env = SyncVectorEnv([WORLDS[world]] * ENVS, autoreset_mode=mode)
    bare = [Unwrapped(WORLDS[world], SEED + number, mode.name.lower()) for number in range(ENVS)]
    with make(env, env.metadata["autoreset_mode"], ENVS) as buffer:
        wanted = drive(env, buffer, bare)
        check(buffer, wanted)
        assert sum(bool(row["terminated"] or row["truncated"]) for row in wanted) >= 5
    env.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.name.lower())
def test_environments_in_processes(mode):
    env = AsyncVectorEnv([WORLDS["Boxes"]] * ENVS, autoreset_mode=mode, context="spawn")  # other libraries have threads
    bare = [Unwrapped(WORLDS["Boxes"], SEED + number, mode.name.lower()) for number in range(ENVS)]
    with make(env, mode, ENVS) as buffer:
        check(buffer, drive(env, buffer, bare))
    env.close()


@pytest.mark.parametrize("world", WORLDS)
def test_a_single_environment(world):
    env, wanted = WORLDS[world](), []
    env.action_space.seed(SEED)
    with make(env, None, 1) as buffer:
        assert buffer._writer.autoreset == "disabled"
        obs, _ = env.reset(seed=SEED)
        for _ in range(2 * STEPS):
            action = env.action_space.sample()
            next_obs, reward, terminated, truncated, _ = env.step(action)
            assert buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated,
                              truncated=truncated) == 1
            wanted.append(transition(obs, action, reward, next_obs, terminated, truncated))
            obs = env.reset()[0] if terminated or truncated else next_obs
        check(buffer, wanted)


def test_the_schema_of_spaces():
    env = WORLDS["Boxes"]()
    with make(env, None, 1) as buffer:
        fields = {field.name: (field.shape, field.dtype.name) for field in buffer.fields}
    obs = {"left": ((), "int64"), "more.image": ((4, 4, 1), "uint8"), "more.pair.0": ((3,), "uint8"),
           "more.pair.1": ((2,), "int64"), "place": ((2,), "float32")}
    assert fields == {**{f"obs.{name}": field for name, field in obs.items()}, "action.0": ((), "int64"),
                      "action.1": ((2,), "float32"), "reward": ((), "float32"),
                      **{f"next_obs.{name}": field for name, field in obs.items()}, "terminated": ((), "bool"),
                      "truncated": ((), "bool")}
    with pytest.raises(TypeError, match="obs.words is a Sequence; it must be a Box, Discrete"):
        words = gymnasium.spaces.Dict(words=gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2)))
        gpureplay.ReplayBuffer(10, words, gymnasium.spaces.Discrete(2), device="cpu")
    with pytest.raises(TypeError, match="obs.*dtype.*uint32"):
        numbers = gymnasium.spaces.Box(0, 9, (2,), np.uint32)
        gpureplay.ReplayBuffer(10, numbers, gymnasium.spaces.Discrete(2), device="cpu")


def step_of_two(**values):
    return {"obs": np.zeros((2, 1), np.float32), "action": np.zeros(2, np.int64), "reward": np.zeros(2),
            "next_obs": np.ones((2, 1), np.float32), "terminated": np.array([False, True]),
            "truncated": np.zeros(2, bool), **values}


def two(autoreset):
    spaces = gymnasium.spaces.Box(-9, 9, (1,), np.float32), gymnasium.spaces.Discrete(2)
    return gpureplay.ReplayBuffer(100, *spaces, device="cpu", num_envs=2, autoreset=autoreset)


@pytest.mark.parametrize("given, text", [
    ({}, 'environment 1 ended, and its last next_obs is not given: under autoreset "same_step" pass info='),
    ({"info": {}}, "environment 1 ended"),
    ({"info": {"final_obs": np.array([np.zeros(1), None], object)}}, "environment 1 ended"),
    ({"final_obs": np.zeros((2, 3))}, r"final_obs of environment 1 has shape \(3,\); it must be \(1,\)"),
])
def test_a_last_observation_that_is_missing_is_asked_for(given, text):
    with two("same_step") as buffer:
        with pytest.raises(ValueError, match=text):
            buffer.add(**step_of_two(), **given)
        assert len(buffer) == 0
        assert buffer.add(**step_of_two(), final_obs=np.full((2, 1), 5)) == 2
        assert buffer.gather([0, 1]).next_obs.tolist() == [[1], [5]]
        assert buffer.add(**step_of_two(terminated=np.zeros(2, bool))) == 2


def test_a_step_that_was_refused_is_not_remembered():
    """Else its ends of episodes would leave out the next step."""
    with two("next_step") as buffer:
        with pytest.raises(ValueError, match="NaN"):
            buffer.add(**step_of_two(reward=np.array([np.nan, 0])))
        assert buffer.add(**step_of_two()) == 2
        assert buffer.add(**step_of_two(terminated=np.array([True, True]))) == 1
        assert buffer.add(**step_of_two()) == 1
        assert buffer.add(**step_of_two(terminated=np.zeros(2, bool))) == 1
        assert buffer.add(**step_of_two()) == 2


def test_every_environment_may_reset_at_once():
    with two("next_step") as buffer:
        assert buffer.add(**step_of_two(terminated=np.ones(2, bool))) == 2
        assert buffer.add(**step_of_two()) == 0
        assert buffer.add(**step_of_two()) == 2 and len(buffer) == 4


def test_leaves_are_named_as_the_fields():
    assert leaves("obs", {"a": (1, {"b": 2})}) == {"obs.a.0": 1, "obs.a.1.b": 2}


def test_a_reset_of_the_callers_begins_new_episodes():
    """Else the first real step after it would be taken for the one that only resets."""
    going, over = np.zeros(2, bool), np.ones(2, bool)
    with two("next_step") as buffer, gpureplay.ReplayBuffer(
            100, gymnasium.spaces.Box(-9, 9, (1,), np.float32), gymnasium.spaces.Discrete(2), device="cpu") as other:
        for source in (buffer, buffer.writer(2), buffer.writer(2, "same_step"), buffer.writer(2, "disabled")):
            for _ in range(3):
                source.add(**step_of_two(terminated=over), final_obs=np.zeros((2, 1)))
                source.reset()
                assert source.add(**step_of_two(terminated=going)) == 2
        other.reset()  # nobody said how it resets: nothing to forget
        closed = other.writer()
        closed.close()
        with pytest.raises(gpureplay.Closed, match="this writer was closed"):
            closed.reset()



@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name.lower())
def test_a_buffer_for_a_vector(mode, envs):
    env = SyncVectorEnv([WORLDS["Boxes"]] * envs, autoreset_mode=mode)
    bare = [Unwrapped(WORLDS["Boxes"], SEED + number, mode.name.lower()) for number in range(envs)]
    with gpureplay.ReplayBuffer.for_env(10_000, env, device="cpu") as buffer:
        assert buffer.num_envs == envs and buffer._writer.autoreset == mode.name.lower()
        check(buffer, drive(env, buffer, bare))


def test_a_buffer_for_what_gymnasium_makes_by_default():
    """make_vec(num_envs=1), too, of which nothing but its metadata tells that it resets itself."""
    for envs in (1, 2):
        env = gymnasium.make_vec("CartPole-v1", num_envs=envs)
        for given in (env, gymnasium.wrappers.vector.RecordEpisodeStatistics(env)):
            with gpureplay.ReplayBuffer.for_env(100, given, device="cpu", min_size=7) as buffer:
                assert (buffer.num_envs, buffer._writer.autoreset, buffer.capacity) == (envs, "next_step", 100)
                assert buffer.fields[0].shape == (4,)


def test_a_buffer_for_one_environment():
    env = WORLDS["CartPole"]()
    for given, mode in ((env, "disabled"), (gymnasium.wrappers.Autoreset(env), "next_step"),
                        (gymnasium.wrappers.TimeLimit(gymnasium.wrappers.Autoreset(env), 9), "next_step")):
        with gpureplay.ReplayBuffer.for_env(100, given, device="cpu") as buffer:
            assert (buffer.num_envs, buffer._writer.autoreset) == (1, mode)
    with gpureplay.ReplayBuffer.for_env(100, env, device="cpu", autoreset="same_step") as buffer:
        assert buffer._writer.autoreset == "same_step"


def test_what_is_no_environment_is_refused():
    silent = SyncVectorEnv([WORLDS["CartPole"]] * 2)
    silent.metadata, silent.autoreset_mode = {}, None
    with pytest.raises(ValueError, match='no "autoreset_mode".*pass autoreset='):
        gpureplay.ReplayBuffer.for_env(100, silent, device="cpu")
    for given in (None, "CartPole-v1", gymnasium.spaces.Discrete(2)):
        with pytest.raises(TypeError, match="must be an Env or a VectorEnv"):
            gpureplay.ReplayBuffer.for_env(100, given, device="cpu")
    with pytest.raises(TypeError, match="num_envs"):
        gpureplay.ReplayBuffer.for_env(100, WORLDS["CartPole"](), num_envs=2, device="cpu")


@pytest.mark.parametrize("of", [lambda buffer: buffer, lambda buffer: buffer.writer()], ids=["buffer", "writer"])
def test_a_vector_of_one_must_say_how_it_resets(of):
    spaces = gymnasium.spaces.Box(-9, 9, (1,), np.float32), gymnasium.spaces.Discrete(2)
    vectors = {name: value[:1] for name, value in step_of_two().items()}
    single = {name: value[0] for name, value in step_of_two().items()}
    with gpureplay.ReplayBuffer(100, *spaces, device="cpu") as buffer:
        source = of(buffer)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"terminated has shape \(1,\), as a vector.*for_env.*autoreset="):
                source.add(**vectors)
        assert len(buffer) == 0 and source.add(**single) == source.add(**single) == 1
    for mode in ("next_step", "same_step", "disabled"):
        with gpureplay.ReplayBuffer(100, *spaces, device="cpu", autoreset=mode) as buffer:
            assert buffer.add(**vectors) == 1
    with gpureplay.ReplayBuffer(100, {"x": "float32"}, device="cpu") as buffer:  # no episodes to know of
        assert buffer.add(x=np.zeros(1)) == 1
