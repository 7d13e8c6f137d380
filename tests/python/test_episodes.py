# SPDX-License-Identifier: MIT
"""Gymnasium's environments end to end: buffers and their writers hold the transitions that the environments make
without a vector, and stacks of frames are Gymnasium's."""

import functools

import gpureplay
import numpy as np
import pytest
from support import same

gymnasium = pytest.importorskip("gymnasium", minversion="1.1")
from gymnasium import spaces  # noqa: E402 (after the skip)
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv  # noqa: E402
from gymnasium.wrappers import FrameStackObservation  # noqa: E402

ENVS, STEPS, SEED = 3, 60, 17
MODES = [pytest.param(mode, id=mode.name.lower()) for mode in AutoresetMode]
BOX, DISCRETE = spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2)


class Boxes(gymnasium.Env):
    """A Dict space with a Dict and a Tuple inside, of episodes of 1 to 6 steps."""

    observation_space = spaces.Dict(
        place=spaces.Box(-1, 1, (2,), np.float64), left=spaces.Discrete(7),
        more=spaces.Dict(image=spaces.Box(0, 255, (4, 4, 1), np.uint8),
                         pair=spaces.Tuple((spaces.MultiBinary(3), spaces.MultiDiscrete([3, 4])))))
    action_space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)))

    def _observe(self):
        random = self.np_random
        pair = random.integers(0, 2, 3).astype(np.int8), random.integers(0, 3, 2)
        return {"place": random.uniform(-1, 1, 2), "left": self._left,
                "more": {"image": random.integers(0, 256, (4, 4, 1)).astype(np.uint8), "pair": pair}}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, 7))
        return self._observe(), {}

    def step(self, action):
        self._left -= 1
        return self._observe(), float(action[0]) + float(action[1][0]), self._left == 0, False, {}


def newest(name, steps):
    """Makes the newest version that is installed."""
    spec = max((spec for spec in gymnasium.registry.values() if spec.name == name), key=lambda spec: spec.version or 0)
    return lambda: gymnasium.make(spec.id, max_episode_steps=steps)


ENVIRONMENTS = {
    "CartPole": newest("CartPole", 15),
    "FrozenLake": newest("FrozenLake", 12),
    "Blackjack": newest("Blackjack", 5),
    "Boxes": lambda: gymnasium.wrappers.TimeLimit(Boxes(), 4),
}


def leaves(name, value):
    """{"obs.key.0": ...} of a Dict's or Tuple's value, {"obs": ...} of any other."""
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, tuple):
        parts = enumerate(value)
    else:
        return {name: value}
    return {key: leaf for at, part in parts for key, leaf in leaves(f"{name}.{at}", part).items()}


def transition(obs, action, reward, next_obs, terminated, truncated):
    return {**leaves("obs", obs), **leaves("action", action), "reward": reward, **leaves("next_obs", next_obs),
            "terminated": terminated, "truncated": truncated}


class Single:
    """One environment without a vector, stepped by the rules of an autoreset mode."""

    def __init__(self, make, seed, mode):
        self._env, self._mode, self._over = make(), mode, False
        self._obs, _ = self._env.reset(seed=seed)

    def step(self, action):
        """The transition that the action makes, or None."""
        if self._over:
            self._obs, _ = self._env.reset()
            self._over = False
            return None
        next_obs, reward, terminated, truncated, _ = self._env.step(action)
        made = transition(self._obs, action, reward, next_obs, terminated, truncated)
        self._obs, self._over = next_obs, terminated or truncated
        if self._over and self._mode != "next_step":
            self._obs, _ = self._env.reset()
            self._over = False
        return made


def one(values, env):
    """The action of one environment, from those of a vector."""
    if isinstance(values, tuple):
        return tuple(one(part, env) for part in values)
    return values[env]


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


def steps_of(env, steps=STEPS):
    """The arguments of `add` for random steps of a vector."""
    env.action_space.seed(SEED)
    obs, _ = env.reset(seed=SEED)
    for _ in range(steps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, info = env.step(action)
        yield {"obs": obs, "action": action, "reward": reward, "next_obs": next_obs, "terminated": terminated,
               "truncated": truncated, "info": info}
        obs, ended = next_obs, terminated | truncated
        if env.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})


SPAWNED = functools.partial(AsyncVectorEnv, context="spawn")  # other libraries have threads
VECTORS = [*((SyncVectorEnv, name, ENVS, mode) for name in ENVIRONMENTS for mode in AutoresetMode),
           *((SyncVectorEnv, "Boxes", 1, mode) for mode in AutoresetMode),
           (SPAWNED, "Boxes", ENVS, AutoresetMode.NEXT_STEP), (SPAWNED, "Boxes", ENVS, AutoresetMode.SAME_STEP)]


@pytest.mark.parametrize("make_vector, name, envs, mode", VECTORS, ids=lambda value: getattr(value, "name", None))
def test_a_vector_of_environments(make_vector, name, envs, mode):
    """A buffer that reads the vector's spaces and mode holds the transitions of single environments, which make the
    same steps."""
    env, wanted = make_vector([ENVIRONMENTS[name]] * envs, autoreset_mode=mode), []
    singles = [Single(ENVIRONMENTS[name], SEED + number, mode.name.lower()) for number in range(envs)]
    with gpureplay.ReplayBuffer.for_env(10_000, env, device="cpu") as buffer:
        assert buffer.num_envs == envs and buffer._writer.autoreset == mode.name.lower()
        for given in steps_of(env):
            made = [single.step(one(given["action"], number)) for number, single in enumerate(singles)]
            wanted += [row for row in made if row is not None]
            assert buffer.add(**given) == sum(row is not None for row in made) and len(buffer) == len(wanted)
        check(buffer, wanted)
        assert sum(bool(row["terminated"] or row["truncated"]) for row in wanted) >= 5 * envs // ENVS
    env.close()


def test_a_single_environment():
    env, wanted = ENVIRONMENTS["Boxes"](), []
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
    env = ENVIRONMENTS["Boxes"]()
    with gpureplay.ReplayBuffer(10_000, env.observation_space, env.action_space, device="cpu") as buffer:
        fields = {field.name: (field.shape, field.dtype.name) for field in buffer.fields}
    obs = {"left": ((), "int64"), "more.image": ((4, 4, 1), "uint8"), "more.pair.0": ((3,), "uint8"),
           "more.pair.1": ((2,), "int64"), "place": ((2,), "float32")}
    assert fields == {**{f"obs.{name}": field for name, field in obs.items()}, "action.0": ((), "int64"),
                      "action.1": ((2,), "float32"), "reward": ((), "float32"),
                      **{f"next_obs.{name}": field for name, field in obs.items()}, "terminated": ((), "bool"),
                      "truncated": ((), "bool")}
    with pytest.raises(TypeError, match="obs.words is a Sequence; it must be a Box, Discrete"):
        words = spaces.Dict(words=spaces.Sequence(spaces.Discrete(2)))
        gpureplay.ReplayBuffer(10, words, DISCRETE, device="cpu")
    with pytest.raises(TypeError, match="obs.*dtype.*uint32"):
        numbers = spaces.Box(0, 9, (2,), np.uint32)
        gpureplay.ReplayBuffer(10, numbers, DISCRETE, device="cpu")


def step_of_two(**values):
    """A step of two environments, whose second episode ends."""
    return {"obs": np.zeros((2, 1), np.float32), "action": np.zeros(2, np.int64), "reward": np.zeros(2),
            "next_obs": np.ones((2, 1), np.float32), "terminated": np.array([False, True]),
            "truncated": np.zeros(2, bool), **values}


@pytest.mark.parametrize("given, text", [
    ({}, 'environment 1 ended, and its last next_obs is not given: under autoreset "same_step" pass info='),
    ({"info": {}}, "environment 1 ended"),
    ({"info": [{}, {}]}, "environment 1 ended, and its last next_obs is not given"),
    ({"info": [{"terminal_observation": np.zeros(1)}]}, "environment 1 ended"),
    ({"info": {"final_obs": np.array([np.zeros(1), None], object)}}, "environment 1 ended"),
    ({"final_obs": np.zeros((2, 3))}, r"final_obs of environment 1 has shape \(3,\); it must be \(1,\)"),
])
def test_a_last_observation_that_is_missing_is_asked_for(given, text):
    with gpureplay.ReplayBuffer(100, BOX, DISCRETE, device="cpu", num_envs=2, autoreset="same_step") as buffer:
        with pytest.raises(ValueError, match=text):
            buffer.add(**step_of_two(), **given)
        assert len(buffer) == 0
        assert buffer.add(**step_of_two(), final_obs=np.full((2, 1), 5)) == 2
        assert buffer.gather([0, 1]).next_obs.tolist() == [[1], [5]]
        assert buffer.add(**step_of_two(terminated=np.zeros(2, bool))) == 2


# How environments reset: read from them, or given by the caller, to buffers and to their writers.


def test_a_buffer_reads_how_an_environment_resets():
    """Also make_vec(num_envs=1): only its metadata says that it resets itself."""
    single = ENVIRONMENTS["CartPole"]()
    vectors = [gymnasium.make_vec("CartPole-v1", num_envs=envs) for envs in (1, 2)]
    same_step = SyncVectorEnv([ENVIRONMENTS["CartPole"]] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    resetting = gymnasium.wrappers.Autoreset(single)
    for env, envs, wanted, more in (
            (vectors[0], 1, "next_step", {}), (vectors[1], 2, "next_step", {}), (same_step, 2, "same_step", {}),
            (gymnasium.wrappers.vector.RecordEpisodeStatistics(vectors[0]), 1, "next_step", {}),
            (single, 1, "disabled", {}), (single, 1, "same_step", {"autoreset": "same_step"}),
            (resetting, 1, "next_step", {}), (gymnasium.wrappers.TimeLimit(resetting, 9), 1, "next_step", {})):
        with gpureplay.ReplayBuffer.for_env(100, env, device="cpu", min_size=7, **more) as buffer:
            assert (buffer.num_envs, buffer._writer.autoreset, buffer.capacity) == (envs, wanted, 100), env
            assert buffer.fields[0].shape == (4,) and buffer.writer(envs).autoreset == wanted
    silent = SyncVectorEnv([ENVIRONMENTS["CartPole"]] * 2)
    silent.metadata, silent.autoreset_mode = {}, None
    with pytest.raises(ValueError, match='no "autoreset_mode".*pass autoreset='):
        gpureplay.ReplayBuffer.for_env(100, silent, device="cpu")
    for given in (None, "CartPole-v1", DISCRETE):
        with pytest.raises(TypeError, match="must be an Env or a VectorEnv"):
            gpureplay.ReplayBuffer.for_env(100, given, device="cpu")
    with pytest.raises(TypeError, match="num_envs"):
        gpureplay.ReplayBuffer.for_env(100, single, num_envs=2, device="cpu")


@pytest.mark.parametrize("of", [lambda buffer: buffer, lambda buffer: buffer.writer()], ids=["buffer", "writer"])
def test_a_vector_of_one_must_say_how_it_resets(of):
    vectors = {name: value[:1] for name, value in step_of_two().items()}
    single = {name: value[0] for name, value in step_of_two().items()}
    with gpureplay.ReplayBuffer(100, BOX, DISCRETE, device="cpu") as buffer:
        source = of(buffer)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"terminated has shape \(1,\), as a vector.*for_env.*autoreset="):
                source.add(**vectors)
        assert len(buffer) == 0 and source.add(**single) == source.add(**single) == 1
        buffer.reset()  # its autoreset mode is unknown: nothing to forget
    for mode in ("next_step", "same_step", "disabled"):
        with gpureplay.ReplayBuffer(100, BOX, DISCRETE, device="cpu", autoreset=mode) as buffer:
            assert buffer.add(**vectors) == 1
    with gpureplay.ReplayBuffer(100, {"x": "float32"}, device="cpu") as buffer:  # it has no episodes
        assert buffer.add(x=np.zeros(1)) == 1


WRITERS = [  # autoreset and num_envs of the buffer; arguments of `writer`; how it resets
    *((mode, 2, (envs,), mode) for mode in ("disabled", "next_step", "same_step") for envs in (1, 2)),
    *(("disabled", 2, (2, mode), mode) for mode in ("next_step", "same_step")),
    *((None, of_buffer, (envs,), mode) for of_buffer in (1, 2) for envs, mode in ((1, "disabled"), (2, "next_step")))]


@pytest.mark.parametrize("of_buffer, num_envs, given, wanted", WRITERS)
def test_a_writer_resets_as_its_buffer_or_as_it_is_told(of_buffer, num_envs, given, wanted):
    """Each step ends the second episode. Under "next_step" the step after that only resets it."""
    with gpureplay.ReplayBuffer(100, BOX, DISCRETE, device="cpu", num_envs=num_envs, autoreset=of_buffer) as buffer:
        writer, last = buffer.writer(*given), np.full((2, 1), 5)
        assert writer.autoreset == wanted
        if given[0] == 2:
            counts = [writer.add(**step_of_two(), final_obs=last) for _ in range(4)]
            assert counts == ([2, 1, 2, 1] if wanted == "next_step" else [2] * 4)
            assert buffer.gather([1]).next_obs.tolist() == [[5 if wanted == "same_step" else 1]]


# Full buffers, and frames that are stored once: the same batches as of whole stacks, and as Gymnasium's own wrapper
# makes.


FOUR = {"obs": ((4,), "float32"), "action": "int64", "reward": "float32", "next_obs": ((4,), "float32"),
        "terminated": "bool"}
PADS = {"zero": "zero", "repeat": "reset"}  # ours: Gymnasium's
STACK = 4


def test_full_is_also_a_ring_of_frames_that_is_used_up():
    """Episodes of one step need two frames each, and there is little more than one for each transition."""
    with gpureplay.ReplayBuffer(400, FOUR, device="cpu", layout="frames", extra_frames=20) as buffer:
        for number in range(800):
            assert buffer.is_full == (buffer.stats.evicted > 0)
            buffer.add(obs=np.full(4, 2 * number), action=0, reward=0.0, next_obs=np.full(4, 2 * number + 1),
                       terminated=True)
        assert len(buffer) < 400 and buffer.is_full


def test_the_error_about_frames_that_are_taken_for_stacks_says_what_to_set():
    """Four numbers of one observation are no four frames of one number."""
    step = {"obs": np.arange(4.0), "action": 0, "reward": 0.0, "next_obs": np.arange(4.0) * 3, "terminated": False}
    with gpureplay.ReplayBuffer(100, FOUR, device="cpu", frame_stack=4) as buffer:
        with pytest.raises(gpureplay.InvalidArgument, match='if obs is one frame .*observations="frames", and if '
                                                            'its last axis .*stack_axis="last"'):
            buffer.add(**step)
        assert buffer.stats.appended == 0
    with gpureplay.ReplayBuffer(100, FOUR, device="cpu", frame_stack=4, observations="frames") as buffer:
        assert buffer.add(**step) == 1


def test_the_default_extra_frames_are_as_many_as_the_environments_need():
    """Of the default that is for 64, a hundred would store most frames again and again."""
    settings = {"frame_stack": 4, "layout": "frames", "num_envs": 100}
    for more, wanted in (({}, 100 * (4 + 2)), ({"num_envs": 64}, 64 * (4 + 2)), ({"extra_frames": 700}, 700)):
        assert gpureplay.ReplayBuffer.plan(300, FOUR, **{**settings, **more}).frame_reach == wanted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("n_step", [1, 3])
def test_stacks_are_gymnasiums(pad, mode, n_step):
    """Frames of the bare environments, and stacks of wrapped ones that step alike, stored as rows or as frames: the
    same samples are the same bits."""
    frames, stacks = (SyncVectorEnv([lambda wrap=wrap: wrap(ENVIRONMENTS["CartPole"]())] * ENVS, autoreset_mode=mode)
                      for wrap in (lambda env: env,
                                   lambda env: FrameStackObservation(env, STACK, padding_type=PADS[pad])))
    cases = ((frames, {"frame_stack": STACK, "observations": "frames", "stack_pad": pad}),
             (stacks, {"frame_stack": STACK, "stack_pad": pad}), (stacks, {"layout": "rows"}))
    buffers = [gpureplay.ReplayBuffer.for_env(3000, env, device="cpu", max_batch=100, n_step=n_step, seed=1, **more)
               for env, more in cases]
    for (env, _), buffer in zip(cases, buffers):
        for given in steps_of(env, 80):
            buffer.add(**given)
    assert len({len(buffer) for buffer in buffers}) == 1 and len(buffers[0]) > 100
    for size in (1, 32, 100) * 4:
        first, *others = (buffer.sample(size) for buffer in buffers)
        assert first.obs.shape == (size, STACK, 4)
        for batch in others:
            assert batch.keys() == first.keys()
            assert all(same(batch[name], first[name]) for name in batch.keys())
    for opened in (*buffers, frames, stacks):
        opened.close()


def test_a_list_of_infos_as_of_stable_baselines3_has_the_last_observations():
    with gpureplay.ReplayBuffer(100, BOX, DISCRETE, device="cpu", num_envs=2, autoreset="same_step") as buffer:
        infos = [{"TimeLimit.truncated": False}, {"terminal_observation": np.full(1, 5.0), "TimeLimit.truncated": True}]
        assert buffer.add(**step_of_two(), info=infos) == 2
        assert buffer.gather([0, 1]).next_obs[1] == 5
        with pytest.raises(TypeError, match="info is a str; it must be Gymnasium's dict, or Stable-Baselines3's list"):
            buffer.add(**step_of_two(), info="none")
