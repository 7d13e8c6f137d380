# SPDX-License-Identifier: MIT
"""Gymnasium's environments end to end: buffers and their writers hold the transitions that bare environments make, and
stacks of frames are Gymnasium's."""

import functools

import gpureplay
import numpy as np
import pytest
from support import same

gymnasium = pytest.importorskip("gymnasium", minversion="1.1")
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv  # noqa: E402 (after the skip)
from gymnasium.wrappers import FrameStackObservation  # noqa: E402
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


def check_vector(make_vector, world, mode, envs=ENVS):
    """A buffer that reads the vector's spaces and mode holds the transitions of the bare environments."""
    env = make_vector([WORLDS[world]] * envs, autoreset_mode=mode)
    bare = [Unwrapped(WORLDS[world], SEED + number, mode.name.lower()) for number in range(envs)]
    with gpureplay.ReplayBuffer.for_env(10_000, env, device="cpu") as buffer:
        assert buffer.num_envs == envs and buffer._writer.autoreset == mode.name.lower()
        wanted = drive(env, buffer, bare)
        check(buffer, wanted)
        assert sum(bool(row["terminated"] or row["truncated"]) for row in wanted) >= 5 * envs // ENVS
    env.close()


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize("world", WORLDS)
def test_a_vector_of_environments(world, mode):
    check_vector(SyncVectorEnv, world, mode)


@pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.name.lower())
def test_a_vector_of_one_environment(mode):
    check_vector(SyncVectorEnv, "Boxes", mode, envs=1)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.name.lower())
def test_environments_in_processes(mode):
    """They are spawned, because other libraries have threads."""
    check_vector(functools.partial(AsyncVectorEnv, context="spawn"), "Boxes", mode)


@pytest.mark.parametrize("world", WORLDS)
def test_a_single_environment(world):
    env, wanted = WORLDS[world](), []
    env.action_space.seed(SEED)
    with gpureplay.ReplayBuffer(10_000, env.observation_space, env.action_space, device="cpu") as buffer:
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
    with gpureplay.ReplayBuffer(10_000, env.observation_space, env.action_space, device="cpu") as buffer:
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
    """Otherwise its ends of episodes would leave out the next step."""
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
    """Otherwise the next step would count as one that only resets."""
    going, over = np.zeros(2, bool), np.ones(2, bool)
    with two("next_step") as buffer, gpureplay.ReplayBuffer(
            100, gymnasium.spaces.Box(-9, 9, (1,), np.float32), gymnasium.spaces.Discrete(2), device="cpu") as other:
        for source in (buffer, buffer.writer(2), buffer.writer(2, "same_step"), buffer.writer(2, "disabled")):
            for _ in range(3):
                source.add(**step_of_two(terminated=over), final_obs=np.zeros((2, 1)))
                source.reset()
                assert source.add(**step_of_two(terminated=going)) == 2
        other.reset()  # its autoreset mode is unknown: nothing to forget
        closed = other.writer()
        closed.close()
        with pytest.raises(gpureplay.Closed, match="this writer was closed"):
            closed.reset()


def test_a_buffer_for_what_gymnasium_makes_by_default():
    """Also make_vec(num_envs=1): only its metadata says that it resets itself."""
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


# Writers beside a buffer's own, and full buffers.


TWO = 2
SCALARS = {"obs": "float32", "action": "int64", "reward": "float32", "next_obs": "float32", "terminated": "bool"}


def make_scalars(fields=SCALARS, capacity=100, **settings):
    return gpureplay.ReplayBuffer(capacity, fields, **{"device": "cpu", **settings})


def fill(into, mode, steps=10, num_envs=TWO):
    """Every second step ends all episodes. Returns the sum of what `add` returned."""
    count = 0
    for number in range(steps):
        step = {name: np.full(num_envs, number + (name == "next_obs"), kind) for name, kind in SCALARS.items()}
        more = {"final_obs": step["next_obs"]} if mode == "same_step" else {}
        count += into.add(**{**step, "terminated": np.full(num_envs, number % 2 == 1)}, **more)
    return count


@pytest.mark.parametrize("n_step", [1, 2])
@pytest.mark.parametrize("mode, wanted", [("disabled", 20), ("same_step", 20), ("next_step", 12)])
def test_a_writer_resets_as_its_buffer(mode, wanted, n_step):
    """A writer without an argument stores the same steps as the buffer's own."""
    with make_scalars(num_envs=TWO, autoreset=mode, n_step=n_step) as one, \
            make_scalars(num_envs=TWO, autoreset=mode, n_step=n_step) as other:
        writer = other.writer(TWO)
        assert writer.autoreset == mode
        found = fill(one, mode), fill(writer, mode)
        assert found[0] == found[1] == len(one) == len(other)
        if n_step == 1:
            assert found[0] == wanted
            ours, theirs = one.gather(range(wanted)), other.gather(range(wanted))
            assert (ours.obs == theirs.obs).all() and (ours.next_obs == theirs.next_obs).all()


def test_a_writer_may_reset_in_another_way():
    with make_scalars(num_envs=TWO, autoreset="disabled") as buffer:
        for mode in ("next_step", "same_step"):
            assert buffer.writer(TWO, mode).autoreset == mode
        assert buffer.writer(1).autoreset == "disabled"


def test_without_a_mode_each_writer_has_its_default():
    with make_scalars() as single, make_scalars(num_envs=TWO) as vector:
        assert [single.writer(count).autoreset for count in (1, TWO)] == ["disabled", "next_step"]
        assert [vector.writer(count).autoreset for count in (1, TWO)] == ["disabled", "next_step"]
        with pytest.raises(ValueError, match="nobody said how that one resets"):
            fill(vector.writer(1), "disabled", num_envs=1)


def test_the_mode_of_an_environment_is_its_writers_too():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=TWO, vectorization_mode="sync",
                              vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP})
    with gpureplay.ReplayBuffer.for_env(100, envs, device="cpu") as buffer:
        assert buffer.writer(TWO).autoreset == buffer.writer().autoreset == "same_step"
    envs.close()


def test_full_is_also_a_ring_of_frames_that_is_used_up():
    """Episodes of one step need two frames each, and there is little more than one for each transition."""
    fields = {**SCALARS, "obs": ((4,), "float32"), "next_obs": ((4,), "float32")}
    with make_scalars(fields, 400, layout="frames", extra_frames=20, autoreset="disabled") as buffer:
        for number in range(800):
            assert buffer.is_full == (buffer.stats.evicted > 0)
            buffer.add(obs=np.full(4, 2 * number), action=0, reward=0.0, next_obs=np.full(4, 2 * number + 1),
                       terminated=True)
        assert len(buffer) < 400 and buffer.is_full


def test_frames_that_are_taken_for_stacks_name_the_cure():
    """Four numbers of one observation are no four frames of one number."""
    fields = {**SCALARS, "obs": ((4,), "float32"), "next_obs": ((4,), "float32")}
    step = {"obs": np.arange(4.0), "action": 0, "reward": 0.0, "next_obs": np.arange(4.0) * 3, "terminated": False}
    with make_scalars(fields, frame_stack=4) as buffer:
        with pytest.raises(gpureplay.InvalidArgument, match='if obs is one frame .*observations="frames", and if '
                                                            'its last axis .*stack_axis="last"'):
            buffer.add(**step)
        assert buffer.stats.appended == 0
    with make_scalars(fields, frame_stack=4, observations="frames") as buffer:
        assert buffer.add(**step) == 1


# Frames that are stored once: the same batches as of whole stacks, and as Gymnasium's own wrapper makes.


MODES = [pytest.param(mode, id=mode.name.lower()) for mode in AutoresetMode]
PADS = {"zero": "zero", "repeat": "reset"}  # ours: Gymnasium's
STACK = 4


def same_batches(*buffers):
    """Bit for bit, of the same draws."""
    assert len({len(buffer) for buffer in buffers}) == 1 and len(buffers[0]) > 100
    for size in (1, 32, 100) * 4:
        first, *others = (buffer.sample(size) for buffer in buffers)
        for batch in others:
            assert batch.keys() == first.keys()
            for name in batch.keys():
                assert same(batch[name], first[name]), name


def test_the_slack_is_as_many_environments_need():
    """Of the default that is for 64, a hundred would store most frames again and again."""
    settings = {"frame_stack": 4, "layout": "frames", "num_envs": 100}
    fields = {"obs": ((4, 2), "uint8"), "action": "int32", "reward": "float32", "next_obs": ((4, 2), "uint8"),
              "terminated": "bool"}
    assert gpureplay.ReplayBuffer.plan(300, fields, **settings).frame_reach == 100 * (4 + 2)
    assert gpureplay.ReplayBuffer.plan(300, fields, **{**settings, "num_envs": 64}).frame_reach == 64 * (4 + 2)
    assert gpureplay.ReplayBuffer.plan(300, fields, **settings, extra_frames=700).frame_reach == 700


def vector(mode, wrap):
    return SyncVectorEnv([lambda: wrap(WORLDS["CartPole"]())] * ENVS, autoreset_mode=mode)


def drive_stacks(env, buffer, steps=80):
    """The same actions for every call."""
    random = np.random.default_rng(5)
    obs, _ = env.reset(seed=11)
    for number in range(steps):
        action = random.integers(0, 2, ENVS)
        next_obs, reward, terminated, truncated, info = env.step(action)
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated,
                   truncated=truncated, info=info)
        obs, ended = next_obs, terminated | truncated
        if env.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})
        if number == 40:
            obs, _ = env.reset(seed=12)
            buffer.reset()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("n_step", [1, 3])
def test_stacks_are_gymnasiums(pad, mode, n_step):
    """Frames of the bare environments, and stacks of wrapped ones that step alike: packed, or taken apart again."""
    bare = vector(mode, lambda env: env)
    stacked = vector(mode, lambda env: FrameStackObservation(env, STACK, padding_type=PADS[pad]))
    options = {"device": "cpu", "max_batch": 100, "n_step": n_step, "seed": 1}
    of_frames = gpureplay.ReplayBuffer.for_env(3000, bare, frame_stack=STACK, observations="frames", stack_pad=pad,
                                               **options)
    of_stacks = gpureplay.ReplayBuffer.for_env(3000, stacked, frame_stack=STACK, stack_pad=pad, **options)
    packed = gpureplay.ReplayBuffer.for_env(3000, stacked, layout="rows", **options)
    with of_frames, of_stacks, packed:
        for env, buffer in ((bare, of_frames), (stacked, of_stacks), (stacked, packed)):
            drive_stacks(env, buffer)
        assert of_frames.sample(7).obs.shape == of_stacks.sample(7).obs.shape == packed.sample(7).obs.shape == \
            (7, STACK, 4)
        same_batches(of_frames, of_stacks, packed)
    for env in (bare, stacked):
        env.close()
