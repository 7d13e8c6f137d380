# SPDX-License-Identifier: MIT
"""gpureplay.sb3 against Stable-Baselines3's own buffers: the same steps into both, the same tensors out of both; random
schedules; pickles; priorities. Skipped where PyTorch or Stable-Baselines3 are missing. To run it, `pip install
stable-baselines3` beside the package and pytest. GPUR_TEST_DEVICES: the devices of the schedules, as elsewhere."""

import copy
import os
import pickle
import random
import re
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("stable_baselines3.common.buffers")

import gymnasium  # noqa: E402 (after the skips)
from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

import gpureplay  # noqa: E402
from gpureplay import sb3  # noqa: E402
from gpureplay._accelerator import fast  # noqa: E402
from gpureplay.sb3 import PrioritizedReplayBuffer, ReplayBuffer, _joined  # noqa: E402

OBS, REWARDS = 0, 4  # in a batch
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (2, 5, 4), np.uint8)
DICT = spaces.Dict({"seen": IMAGE, "felt": BOX, "room": spaces.Discrete(7)})
TWO, ARM = spaces.Discrete(2), spaces.Box(-1.0, 1.0, (2, 3), np.float32)
SPACES = {"box": (BOX, TWO), "doubles": (spaces.Box(-9.0, 9.0, (3,), np.float64), ARM), "image": (IMAGE, ARM),
          "discrete": (spaces.Discrete(900), TWO), "dict": (DICT, ARM),
          "multi": (spaces.MultiDiscrete([3, 4]), spaces.MultiDiscrete([2, 5]))}
ONCE, RETURNS = {"optimize_memory_usage": True}, {"n_steps": 3, "gamma": 0.9}
KINDS = {"transitions": (ReplayBuffer, {}), "once": (ReplayBuffer, ONCE), "returns": (ReplayBuffer, RETURNS),
         "returns, once": (ReplayBuffer, {**ONCE, **RETURNS}), "by priority": (PrioritizedReplayBuffer, {}),
         "by priority, once": (PrioritizedReplayBuffer, ONCE),
         "returns by priority": (PrioritizedReplayBuffer, RETURNS)}


def observe(space, envs):
    """One observation of every environment, as a VecEnv gives it."""
    if isinstance(space, spaces.Dict):
        return {key: observe(part, envs) for key, part in space.spaces.items()}
    return np.stack([space.sample() for _ in range(envs)])


def choose(done, one, other):
    """`one` where an environment is done, else `other`."""
    if isinstance(one, dict):
        return {key: choose(done, one[key], other[key]) for key in one}
    return np.where(done.reshape(-1, *[1] * (one.ndim - 1)), one, other)


class Episodes:
    """The random steps that an agent adds. Episodes end, terminated or truncated, after random numbers of steps. The
    reward of a transition is its number and a tenth. stack: observations are stacks of so many frames."""

    def __init__(self, space, action_space, envs=1, length=6, seed=1, stack=0):
        self._spaces, self._envs, self._length, self._stack = (space, action_space), envs, length, stack
        self._random = np.random.default_rng(seed)
        for part in self._spaces:
            part.seed(seed)
        self.obs, self.rows = self._observe([None] * envs), []
        self.count = envs  # episodes

    def _observe(self, before):
        fresh = observe(self._spaces[0], self._envs)
        for env, old in enumerate(before if self._stack else ()):
            fresh[env, :-1] = 0 if old is None else old[1:]
        return fresh

    def step(self):
        """The arguments of `add`."""
        envs, number = self._envs, len(self.rows) + np.arange(self._envs)
        done = self._random.integers(0, self._length, envs) == 0
        cut = done & (self._random.integers(0, 2, envs) == 0)
        next_obs, action = self._observe(self.obs), observe(self._spaces[1], envs)
        given = self.obs, next_obs, action, number + 0.1, done, [{"TimeLimit.truncated": True} if one else {}
                                                                 for one in cut]
        self.rows += [(env, *given[:3], done[env] & ~cut[env]) for env in range(envs)]
        self.obs = choose(done, self._observe([None] * envs), next_obs)
        self.count += int(done.sum())
        return given

    def add(self, buffers, steps):
        for _ in range(steps):
            given = self.step()
            for buffer in buffers:
                buffer.add(*copy.deepcopy(given))

    def check(self, batch, size):
        """The tensors are those of the transitions whose rewards the batch has. Returns their numbers."""
        assert len(batch.actions) == len(batch.dones) == size and batch.rewards.shape == (size, 1)
        numbers = batch.rewards[:, 0].cpu().numpy().astype(int)
        for at, number in enumerate(numbers):
            env, *wanted, done = self.rows[number]
            for found, values in zip((batch.observations, batch.next_observations, batch.actions), wanted):
                for key, array in values.items() if isinstance(values, dict) else ((..., values),):
                    tensor = found[key][at].cpu().numpy()
                    assert (tensor == array[env].astype(np.float32).reshape(tensor.shape)).all()
            assert batch.dones[at] == done
        return numbers


def make(kind="by priority", steps=100, capacity=100, envs=1, space=BOX, action=TWO, **settings):
    """A buffer with that many steps, and their Episodes."""
    buffer_class, more = KINDS[kind]
    episodes = Episodes(space, action, envs, length=10)
    buffer = buffer_class(capacity * envs, space, action, **{"device": "cpu", "n_envs": envs, **more, **settings})
    episodes.add([buffer], steps)
    return buffer, episodes


def same(ours, wanted):
    """Dtype, shape and every bit, of tensors and of dicts of them. Ours has no float64."""
    if isinstance(wanted, dict):
        return {*ours} == {*wanted} and all(same(ours[key], wanted[key]) for key in wanted)
    wanted = wanted.to(torch.float32) if wanted.dtype == torch.float64 else wanted
    return ours.dtype == wanted.dtype and torch.equal(ours, wanted)


def positions_of(ours):
    """Of the steps that are there, oldest first, in ours and in theirs. Short episodes leave room for fewer."""
    size, room = ours.size(), ours.buffer_size
    steps = np.arange(ours._steps - size, ours._steps)
    return (steps % room if size == min(ours._steps, room) else np.arange(size)), steps % room


def at(buffer, positions, env=None):
    """The tensors of these positions, of environments that depend on NumPy's seed."""
    np.random.seed(3)
    return buffer._get_samples(positions, env)[:5]


def all_of(buffer):
    """Ours, oldest first."""
    first, count = buffer._replay.stats.first_id, len(buffer._replay)
    parts = np.array_split(np.arange(first, first + count), count // buffer._max_batch + 1)
    return _joined([buffer._samples(buffer._replay.gather(part), None) for part in parts])


# The same tensors as of theirs.


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("handled", [True, False])
@pytest.mark.parametrize("settings", [{}, ONCE], ids=["transitions", "once"])
def test_the_same_positions_give_the_same_tensors(name, envs, handled, settings):
    """With observations stored once, each is stored once."""
    if settings and name == "dict":
        pytest.skip("observations of a Dict space are not stored once")
    wanted_class = theirs.DictReplayBuffer if name == "dict" else theirs.ReplayBuffer
    both = {"device": "cpu", "n_envs": envs, "handle_timeout_termination": handled}
    ours = ReplayBuffer(200 * envs, *SPACES[name], **both, **settings)
    other = wanted_class(200 * envs, *SPACES[name], **both)
    assert isinstance(ours, theirs.ReplayBuffer)
    episodes = Episodes(*SPACES[name], envs, length=20)
    for steps in (1, 30, 150, 333):
        episodes.add([ours, other], steps)
        for attribute in ("pos", "full", "buffer_size", "n_envs", "device", "obs_shape", "action_dim"):
            assert getattr(ours, attribute) == getattr(other, attribute), attribute
        assert other.size() * (0.9 if settings else 1) <= ours.size() <= other.size()
        found, wanted = (at(buffer, positions) for buffer, positions in zip((ours, other), positions_of(ours)))
        assert all(same(*tensors) for tensors in zip(found, wanted))
        assert steps < 300 or 0 < found[3].sum() < ours.size()
    if settings:
        not_begun = np.count_nonzero(ours._replay._writer._tracker.envs.state == 0)
        assert ours._replay.stats.frames_stored == 514 * envs + episodes.count - not_begun


def test_frames_of_stacks_are_stored_once():
    space = spaces.Box(1, 255, (4, 6, 5), np.uint8)
    made = [ReplayBuffer(300, space, TWO, device="cpu", **ONCE, frame_stack=4),
            theirs.ReplayBuffer(300, space, TWO, device="cpu")]
    episodes = Episodes(space, TWO, 1, length=30, stack=4)
    episodes.add(made, 250)
    positions = positions_of(made[0])
    assert all(same(*tensors) for tensors in zip(*map(at, made, positions))) and len(positions[0]) == 250
    assert made[0]._replay.stats.frames_stored <= 250 + episodes.count
    assert made[0]._replay.plan(300, made[0]._fields, **{key: made[0]._settings[key] for key in (
        "layout", "frame_stack", "stack_axis")}, max_batch=made[0]._max_batch).frame_bytes == 30


@pytest.mark.skipif(fast is None, reason="the extension module is not here, or is switched off")
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("kind", ["transitions", "once"])
@pytest.mark.parametrize("name", SPACES)
def test_an_ordinary_step_is_taken_by_the_extension(name, kind, envs, monkeypatch):
    """In the shapes of Stable-Baselines3, so that Python neither checks, reshapes nor copies."""
    if kind == "once" and name == "dict":
        pytest.skip("observations of a Dict space are not stored once")
    # The first step asks the library where each environment's episode is.
    buffer, episodes = make(kind, steps=1, envs=envs, space=SPACES[name][0], action=SPACES[name][1])
    monkeypatch.setattr(buffer, "_shaped", lambda name, value: pytest.fail(f"{name} was checked in Python"))
    for number in range(10):
        obs, next_obs, action, reward, *_ = episodes.step()
        buffer.add(obs, next_obs, action, reward, np.full(envs, number == 5), [{"other": 1}] * envs)
        episodes.obs = next_obs
    assert buffer.size() == 11


@pytest.mark.parametrize("space", [BOX, spaces.Dict({"a": BOX, "b": spaces.Box(-9, 9, (2, 2), np.float32)})],
                         ids=["box", "dict"])
def test_a_vec_normalize_is_honored(space):
    class Still(gymnasium.Env):
        """It is never stepped."""

        observation_space, action_space = space, TWO

    env, numbers = VecNormalize(DummyVecEnv([Still] * 2)), np.random.default_rng(3)
    for rms in env.obs_rms.values() if isinstance(space, spaces.Dict) else [env.obs_rms]:
        rms.mean, rms.var = numbers.normal(size=rms.mean.shape), numbers.uniform(0.5, 2, rms.var.shape)
    env.ret_rms.var = np.float64(3.7)
    other_class = theirs.DictReplayBuffer if isinstance(space, spaces.Dict) else theirs.ReplayBuffer
    ours, other = (kind(40, space, TWO, device="cpu", n_envs=2) for kind in (ReplayBuffer, other_class))
    Episodes(space, TWO, 2).add([ours, other], 20)
    found, wanted, raw = at(ours, np.arange(20), env), at(other, np.arange(20), env), at(ours, np.arange(20))
    assert all(same(*tensors) for tensors in zip(found, wanted))
    assert not same(found[REWARDS], raw[REWARDS]) and not same(found[OBS], raw[OBS])


def n_step_transitions(buffer, steps, envs):
    """theirs.NStepReplayBuffer's, of every step and environment, oldest first."""
    found = []
    for step in range(steps):
        for env in range(envs):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(np.random, "randint", lambda *_, size, env=env, **__: np.full(size, env))
                found.append(buffer._get_samples(np.array([step])))
    return found


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("n_steps", [2, 3, 5])
def test_returns_of_several_steps_are_theirs(n_steps, envs, once):
    both = {"device": "cpu", "n_envs": envs, "n_steps": n_steps, "gamma": 0.9}
    ours = ReplayBuffer(100 * envs, *SPACES["image"], optimize_memory_usage=once, **both)
    other = theirs.NStepReplayBuffer(100 * envs, *SPACES["image"], **both)
    Episodes(*SPACES["image"], envs).add([ours, other], 90)
    count, found = len(ours._replay), all_of(ours)
    assert 90 * envs - n_steps * envs < count <= 90 * envs or once
    wanted = {one.observations.numpy().tobytes(): one for one in n_step_transitions(other, 90, envs)}
    assert found.discounts.shape == found.rewards.shape == found.dones.shape == (count, 1)
    for row in range(count):
        one = wanted[found.observations[row].numpy().tobytes()]
        assert torch.equal(found.next_observations[row], one.next_observations[0])
        assert torch.equal(found.actions[row], one.actions[0]) and found.dones[row] == one.dones[0]
        assert torch.allclose(found.rewards[row], one.rewards[0], atol=1e-6)
        assert torch.allclose(found.discounts[row], (1 - one.dones[0]) * one.discounts[0])
    assert 0 < found.dones.sum() < count and len(found.discounts.unique()) == n_steps + 1


@pytest.mark.parametrize("kind", ["returns", "returns, once"])
def test_an_episode_that_is_broken_off_is_truncated(kind):
    """CleanRL reports a truncation only by another obs. The episodes of the other environments continue."""
    buffer, _ = make(kind, 0, 1000, 4, handle_timeout_termination=False)
    obs = np.zeros((4, 3), np.float32)
    obs[:, 0] = range(4)
    for step in range(300):
        next_obs = obs + np.float32([0, 1, 0])
        buffer.add(obs, next_obs, np.zeros(4, int), np.ones(4), np.zeros(4, bool), [{}] * 4)
        obs = next_obs.copy()
        if step % 5 == 4:
            obs[0] = 0, 1000 * step, 0
    found = all_of(buffer)
    lengths, env = (found.next_observations - found.observations)[:, 1], found.observations[:, 0]
    assert set(lengths[env > 0].tolist()) == {3.0} and len(lengths[env > 0]) == 3 * 298
    assert torch.bincount(lengths[env == 0].to(torch.int64)).tolist() == [0, 59, 59, 180]


def returns_of(see, kind="returns", steps=40):
    """The rewards and discounts of a buffer that is given 40 steps of reward 1, where `see` makes obs of the next_obs
    before."""
    buffer = KINDS[kind][0](1000, BOX, TWO, device="cpu", n_envs=2, **KINDS[kind][1])
    random, obs = np.random.default_rng(1), np.ones((2, 3), np.float32)
    for step in range(steps):
        next_obs = np.where(random.random((2, 3)) < 0.5, np.float32(-0.0), random.random((2, 3))).astype(np.float32)
        buffer.add(obs, next_obs, np.zeros(2, int), np.ones(2), np.zeros(2, bool), [{}] * 2)
        obs = see(next_obs)
    found = all_of(buffer)
    return set(found.rewards.flatten().tolist()), found


@pytest.mark.parametrize("kind", ["returns", "returns, once", "once"])
def test_a_zero_of_another_sign_goes_on(kind, recwarn):
    """next_obs * (1 - done) + first_obs * done makes 0.0 of -0.0."""
    rewards, found = returns_of(lambda next_obs: next_obs * np.float32(1) + np.float32(0), kind)
    assert rewards == ({1.0} if kind == "once" else {np.float32(1 + 0.9 + 0.81)}) and not recwarn.list
    assert len(found.rewards) == (80 if kind == "once" else 76)


@pytest.mark.parametrize("kind, losing", [("returns", "n_steps=3 is 1 there"), ("once", "stored twice there")])
def test_a_step_that_continues_none_is_warned_of_once(kind, losing):
    """As with a running normalization, by which obs is another than the next_obs that it was."""
    words = f"the obs of most steps is not .*{losing}; .*normalize what is sampled"
    with pytest.warns(UserWarning, match=words) as got:
        returns_of(lambda next_obs: next_obs * np.float32(0.99), kind)
    assert len(got) == 1 and got[0].filename == __file__


def test_some_episodes_that_are_cut_are_no_reason_to_warn(recwarn):
    cut = iter([False, False, True] * 20)
    assert len(returns_of(lambda next_obs: next_obs + next(cut))[0]) == 3
    assert not recwarn.list


def test_reset_forgets_and_extend_adds_steps():
    both = [kind(20, BOX, TWO, device="cpu") for kind in (ReplayBuffer, theirs.ReplayBuffer)]
    episodes = Episodes(BOX, TWO)
    episodes.add(both, 30)
    steps = [episodes.step() for _ in range(7)]
    for buffer in both:
        buffer.reset()
        assert buffer.size() == buffer.pos == 0 and not buffer.full
        buffer.extend(*zip(*steps))
        assert buffer.size() == 7
    assert all(same(*tensors) for tensors in zip(*(at(buffer, np.arange(7)) for buffer in both)))
    with pytest.raises(ValueError, match=r"\[2, 1"):
        both[0].extend([1, 2], [1])
    for shape in ((5, 3), (5, 3, 4), (5, 3, 4, 2)):
        array = np.arange(np.prod(shape)).reshape(shape)
        found, wanted = (kind.swap_and_flatten(array) for kind in (ReplayBuffer, theirs.ReplayBuffer))
        assert found.shape == wanted.shape and (found == wanted).all()


# Random schedules: batches of many sizes are sampled, held and dropped while steps are added, and no tensor changes.


SIZES = (1, 31, 32, 33, 64, 65, 100, 128, 129, 256, 300, 511)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind, space", [(kind, space) for kind, (_, settings) in KINDS.items() for space in (BOX, DICT)
                                         if "n_steps" not in settings and (space is BOX or not settings)])
@pytest.mark.parametrize("device", os.environ.get("GPUR_TEST_DEVICES", "cpu,cuda:0").split(","))
def test_every_tensor_is_what_its_reward_says(device, kind, space, seed):
    if device.startswith("cuda") and not torch.cuda.is_available():
        pytest.skip(f"PyTorch has no {device} here")
    by_priority, max_batch = "priority" in kind, None if "once" in kind else 256
    try:
        buffer, episodes = make(kind, 0, 300, 3, space, ARM, device=device, max_batch=max_batch)
    except gpureplay.Unavailable as error:
        pytest.skip(str(error))
    schedule, held = random.Random(seed), []
    for step in range(200):
        call = schedule.choice(("add", "sample", "sample", "sample", "positions", "release"))
        size = min(schedule.choice(SIZES), buffer._max_batch if by_priority else 10**9)
        if step == 0 or call == "add":
            episodes.add([buffer], schedule.choice((1, 1, 20)) if step else 1)
        elif call == "release" and held:
            held.pop(schedule.randrange(len(held)))
        elif call != "release":
            positions = np.array([schedule.randrange(buffer.size()) for _ in range(size)])
            by_positions = call == "positions" and "once" not in kind
            batch = buffer._get_samples(positions) if by_positions else buffer.sample(size)
            numbers = episodes.check(batch, size)
            assert numbers.min() >= len(episodes.rows) - 900  # of the last steps alone
            assert batch.discounts is None
            if by_priority:
                assert (batch.indices.cpu().numpy() == numbers).all() and batch.weights.shape == (size, 1)
                assert bool(((batch.weights > 0) & (batch.weights <= 1)).all())
                buffer.update_priorities(batch.indices, torch.rand(size, 1).to(batch.weights.device))
            if schedule.random() < 0.5 and len(held) < 9:
                held.append((batch, size))
        if schedule.random() < 0.1:
            for each in held:
                episodes.check(*each)
    buffer.close()
    for each in held:
        episodes.check(*each)


def test_tensors_are_the_batchs_memory():
    buffer, _ = make("transitions", 300, 1000)
    held = buffer.sample(64)
    pointers = {tensor.data_ptr() for tensor in held[:5]}
    assert len(pointers) == 5 and all(pointer % 256 == 0 for pointer in pointers)
    later = {buffer.sample(64).observations.data_ptr() for _ in range(1000)}
    assert not later & pointers and len(later) < 10  # and not a copy of their own each


def test_samples_follow_numpys_seed_or_their_own():
    def samples(numpy_seed, seed=None):
        np.random.seed(numpy_seed)
        return make("transitions", seed=seed)[0].sample(50).rewards.tolist()

    assert samples(1) == samples(1) != samples(2)
    assert samples(1, seed=7) == samples(2, seed=7) != samples(1, seed=8)


@pytest.mark.parametrize("capacity, batch", [(300, 256), (3, 2), (2, 1), (100_000, 4096), (50, 64), (5000, 4999),
                                             (10, 1000), (20_000, 10_000)])
def test_a_small_buffer_gives_large_batches(capacity, batch):
    """If they are joined of several, the parts are other samples."""
    buffer, episodes = make("transitions", 5, capacity)
    episodes.check(buffer.sample(batch), batch)
    parts = make("transitions", max_batch=37, seed=3)[0].sample(2 * 37).rewards.reshape(2, 37)
    assert (parts[0] != parts[1]).any()


# Refusals.


@pytest.mark.parametrize("kind", ["transitions", "once", "returns"])
def test_one_number_may_have_an_axis_of_its_own(kind):
    buffer = ReplayBuffer(40, BOX, TWO, device="cpu", n_envs=2, **KINDS[kind][1])
    for shape in ((2,), (2, 1)):
        buffer.add(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(shape, int), np.ones(shape), np.ones(shape), [{}, {}])
    assert buffer.sample(9).rewards.shape == (9, 1) and buffer._replay.stats.appended == 4


@pytest.mark.parametrize("change, error, words", [
    ({"obs": np.zeros((2, 4))}, ValueError, r"obs has shape \(2, 4\); it must be \(2, 3\)"),
    ({"obs": np.zeros((3, 2))}, ValueError, r"obs has shape \(3, 2\); it must be \(2, 3\)"),
    ({"action": np.zeros(3, int)}, ValueError, r"action has shape \(3,\); it must be \(2, 1\)"),
    ({"obs": np.ma.zeros((2, 3))}, TypeError, "obs is a masked array; it must be an array without a mask"),
    ({"action": np.zeros(2)}, TypeError, "action is float64; it must be int64"),
    ({"reward": np.array([0, np.nan])}, ValueError, "reward.*NaN"),
    ({"infos": [{}]}, ValueError, "infos has 1 entries; it must have 2"),
    ({"infos": {}}, TypeError, "infos is a dict"),
])
@pytest.mark.parametrize("kind", ["transitions", "once", "returns"])
def test_a_bad_step_is_refused_and_changes_nothing(change, error, words, kind):
    buffer = ReplayBuffer(40, BOX, TWO, device="cpu", n_envs=2, **KINDS[kind][1])
    good = {"obs": np.zeros((2, 3)), "next_obs": np.zeros((2, 3)), "action": np.zeros(2, int), "reward": np.zeros(2),
            "done": np.zeros(2), "infos": [{}, {}]}
    buffer.add(**good)
    before = buffer._steps, buffer._replay.stats
    with pytest.raises(error, match=words):
        buffer.add(**{**good, **change})
    assert (buffer._steps, buffer._replay.stats) == before
    with pytest.raises(error, match=words):  # nor does one that would cut the episodes end them
        buffer.add(**{**good, "obs": np.ones((2, 3)), **change})
    assert (buffer._steps, buffer._replay.stats, buffer._cuts) == (*before, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["transitions", "once", "returns"])
def test_a_next_obs_in_the_memory_of_obs_is_refused(kind, dtype):
    buffer, rest = ReplayBuffer(40, BOX, TWO, device="cpu", **KINDS[kind][1]), ([0], [0.0], [True], [{}])
    numbers = np.zeros((1, 3), dtype)
    for shown in (numbers, torch.from_numpy(numbers), [numbers[0]]):
        with pytest.raises(ValueError, match="^obs and next_obs are the same memory"):
            buffer.add(shown, shown[:], *rest)
    buffer.add(numbers.copy(), numbers, *rest)
    assert buffer._replay.stats.appended == 1
    composed = ReplayBuffer(40, spaces.Dict({"a": BOX, "b": BOX}), TWO, device="cpu")
    with pytest.raises(ValueError, match="^obs and next_obs are the same memory"):
        composed.add({"a": numbers, "b": numbers}, {"a": numbers, "b": numbers}, *rest)
    composed.add({"a": numbers, "b": numbers}, {"a": numbers.copy(), "b": numbers}, *rest)


@pytest.mark.parametrize("axis, shape", [("first", (4, 6)), ("last", (6, 4))])
def test_a_step_with_another_stack_is_refused_and_ends_no_episode(axis, shape):
    buffer = ReplayBuffer(60, spaces.Box(0, 255, shape, np.uint8), TWO, device="cpu", n_envs=2, **ONCE, frame_stack=4,
                          stack_axis=axis)

    def stacks(*frames):
        return np.stack([np.full((2, 6), frame, np.uint8) for frame in frames], 1 if axis == "first" else 2)

    rest = np.zeros(2, int), np.zeros(2), np.zeros(2), [{}, {}]
    buffer.add(stacks(0, 0, 0, 1), stacks(0, 0, 1, 2), *rest)
    before = buffer._steps, buffer._cuts, buffer._replay.stats
    words = "next_obs of environment 0 has a frame 1 of its stack, .* that is not frame 2 of the stack before"
    for obs, next_obs in (((0, 0, 1, 2), (0, 5, 2, 3)), ((7, 8, 1, 9), (8, 5, 9, 3))):  # the latter begins an episode
        with pytest.raises(ValueError, match=words):
            buffer.add(stacks(*obs), stacks(*next_obs), *rest)
        assert (buffer._steps, buffer._cuts, buffer._replay.stats) == before
    buffer.add(stacks(0, 0, 1, 2), stacks(0, 1, 2, 3), *rest)
    assert buffer._replay.stats.frames_stored == 2 * 3 and len(buffer._replay) == 4


def three(**settings):
    """A buffer of ten, with three steps."""
    return make("transitions", 3, 10, **settings)[0]


REFUSED = {
    "a device": (lambda: three(device="meta"), ValueError, "'meta'; it must be"),
    "a Dict of actions": (lambda: ReplayBuffer(10, BOX, spaces.Dict({"a": TWO}), device="cpu"), TypeError,
                          "action_space is Dict"),
    "too few": (lambda: ReplayBuffer(10, BOX, TWO, device="cpu").sample(4), gpureplay.TooFew, "empty"),
    "none": (lambda: three().sample(0), gpureplay.InvalidArgument, "count is 0"),
    "a position": (lambda: three()._get_samples([3]), IndexError, "they must be 0 to 2"),
    "a position below": (lambda: three()._get_samples([-1]), IndexError, "they must be 0 to 2"),
    "a Dict": (lambda: three(space=spaces.Dict({"a": BOX}), **ONCE), TypeError,
               "observation_space is Dict.*it must be one Box, Discrete"),
    "whole stacks": (lambda: three(frame_stack=4), ValueError,
                     "frame_stack is 4; without optimize_memory_usage it must be 1"),
    "another stack": (lambda: three(frame_stack=4, **ONCE), ValueError, "4"),
    "n_steps": (lambda: three(n_steps=65), ValueError, "65"),
    "positions of returns": (lambda: three(n_steps=3)._get_samples(np.array([0])), NotImplementedError,
                             "transitions of n_steps=3 have no positions; use `sample`"),
    "another done": (lambda: three(**ONCE).dones.__setitem__(5, True), ValueError,
                     r"dones\[5\] is set to True; only the last step's can be"),
    "parts by priority": (lambda: make(max_batch=20)[0].sample(21), ValueError,
                          "batch_size is 21; it must be at most 20: make the buffer with max_batch="),
    "alpha": (lambda: make(alpha=-1), gpureplay.InvalidArgument, "-1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_do_is_refused(case):
    call, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        call()


# Pickles.


@pytest.mark.parametrize("steps", [0, 12, 77])
@pytest.mark.parametrize("kind", KINDS)
def test_a_pickle_goes_on_where_the_buffer_was(kind, steps):
    """Also in the midst of episodes."""
    ours, episodes = make(kind, steps, 50, 2, block_rows=8)
    if steps and "priority" in kind:
        batch = ours.sample(8)
        ours.update_priorities(batch.indices, batch.rewards)
    other, deep = pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours)
    for more in (0, 5, 50):
        episodes.add([ours, other, deep], more)
        for copied in (other, deep):
            assert type(copied) is type(ours) and isinstance(copied, theirs.ReplayBuffer)
            assert (copied.pos, copied.size(), copied.full) == (ours.pos, ours.size(), ours.full)
            assert copied._settings["block_rows"] == 8
            if ours.size():
                assert all(same(*tensors) for tensors in zip(all_of(ours)[:5], all_of(copied)[:5]))
        if ours._needs_file and ours.size():
            found = [[tensor for tensor in buffer.sample(8) if tensor is not None] for buffer in (ours, other, deep)]
            assert all(torch.equal(one, two) and torch.equal(one, three) for one, two, three in zip(*found))
            assert len(found[0]) == 5 + ("returns" in kind) + 2 * ("priority" in kind)


@pytest.mark.parametrize("kind", ["by priority", "once", "returns"])
def test_what_could_not_be_pickled_is_not_made(kind, monkeypatch):
    """By a library without files; rows alone need none."""
    info = gpureplay.lib.gpur_build_info()
    monkeypatch.setattr(sb3, "lib", types.SimpleNamespace(
        gpur_build_info=lambda: re.sub(b"\nfiles: .*", b"\nfiles: none, no saving and loading", info)))
    with pytest.raises(gpureplay.Unavailable, match="save_replay_buffer.*apt install libcjson-dev libxxhash-dev"):
        make(kind)
    pickle.loads(pickle.dumps(ReplayBuffer(10, BOX, TWO, device="cpu")))


# Priorities.


@pytest.mark.parametrize("change", [
    lambda errors: errors, lambda errors: errors[:, None], lambda errors: errors.double(),
    lambda errors: errors.numpy(), lambda errors: errors.tolist(), lambda errors: errors.clone().requires_grad_()])
def test_errors_come_in_many_forms(change):
    buffer, _ = make()
    batch = buffer.sample(20)
    errors = batch.indices / 4
    buffer.update_priorities(batch.indices, change(errors))
    assert np.allclose(buffer._replay.get_priorities(batch.indices.numpy()), errors.numpy() + 1e-6)


def test_alpha_beta_and_statistics():
    buffer, _ = make(steps=150, beta=(0.4, 1.0, 3), weight_norm="none", priority_offset=0.5)
    assert buffer.alpha == np.float32(0.6) and buffer.beta == np.float32(0.4)
    for _ in range(4):
        buffer.sample(2)
    assert buffer.beta == 1.0
    buffer.alpha, buffer.beta = 0.0, 0.0
    buffer.update_priorities(torch.tensor([0, 149]), torch.tensor([1.0, 3.5]))
    stats = buffer.priority_stats
    assert (stats.updates, stats.stale, stats.invalid, stats.max_priority) == (1, 1, 0, 4.0)
    assert buffer.alpha == 0 and buffer._replay.get_priorities([149]) == [4.0]
    assert torch.equal(buffer.sample(9).weights, torch.ones(9, 1))


def test_a_small_buffer_samples_what_agents_want():
    """Also with observations stored once."""
    buffer, _ = make("by priority, once", steps=1500, capacity=2000)
    assert buffer.sample(256).weights.shape == (256, 1)
    for capacity in (2, 9, 69):
        assert make("by priority, once", 0, capacity)[0]._max_batch == capacity


@pytest.mark.parametrize("settings, text", [
    ({"buffer_size": 0}, "buffer_size is 0; it must be 2 or more"),
    ({"buffer_size": 1}, "buffer_size is 1; it must be 2 or more"),
    ({"buffer_size": -3, "n_envs": 8}, "buffer_size is -3; it must be 1 or more"),
    ({"n_envs": 0}, "n_envs is 0; it must be 1 or more"), ({"n_steps": 65}, "n_steps is 65; it must be 1 to 64"),
    ({"n_steps": 0}, "n_steps is 0; it must be 1 to 64"), ({"n_steps": -1}, "n_steps is -1; it must be 1 to 64")])
def test_numbers_out_of_range_are_refused_by_the_names_that_were_used(settings, text):
    for make in (ReplayBuffer, PrioritizedReplayBuffer):
        with pytest.raises(gpureplay.InvalidArgument, match=f"^{text}$"):
            make(**{"buffer_size": 100, "observation_space": spaces.Box(-9, 9, (2,)),
                    "action_space": spaces.Discrete(2), "device": "cpu", **settings})
