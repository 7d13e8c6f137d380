# SPDX-License-Identifier: MIT
"""gpureplay.sb3.ReplayBuffer against Stable-Baselines3's own: the same steps into both, the same positions out of both.

Skipped where PyTorch or Stable-Baselines3 are missing. To run it: `pip install stable-baselines3` beside the package
and pytest, then `pytest tests/python/test_sb3.py tests/python/test_sb3_agents.py`.
"""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("stable_baselines3.common.buffers")

import gymnasium  # noqa: E402
from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

import gpureplay  # noqa: E402
from gpureplay import sb3  # noqa: E402
from gpureplay._accelerator import fast  # noqa: E402

OBS, DONES, REWARDS = 0, 3, 4  # in a batch
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (2, 5, 4), np.uint8)
DICT = spaces.Dict({"seen": IMAGE, "felt": BOX, "room": spaces.Discrete(7)})
TWO, ARM = spaces.Discrete(2), spaces.Box(-1.0, 1.0, (2, 3), np.float32)
SPACES = {"box": (BOX, TWO), "image": (IMAGE, TWO), "discrete": (spaces.Discrete(9), TWO), "dict": (DICT, ARM),
          "multi": (spaces.MultiDiscrete([3, 4]), spaces.MultiDiscrete([2, 5])), "arm": (BOX, ARM)}


def pair(space, action_space, steps, envs, **settings):
    return tuple(kind.ReplayBuffer(steps * envs, space, action_space, device="cpu", n_envs=envs, **settings)
                 for kind in (sb3, theirs))


def dict_pair(space, action_space, steps, envs):
    ours = sb3.ReplayBuffer(steps * envs, space, action_space, device="cpu", n_envs=envs)
    return ours, theirs.DictReplayBuffer(steps * envs, space, action_space, device="cpu", n_envs=envs)


def seen(space, envs):
    """One observation of every environment, as a VecEnv gives it."""
    if isinstance(space, spaces.Dict):
        return {key: seen(part, envs) for key, part in space.spaces.items()}
    return np.stack([space.sample() for _ in range(envs)])


def step(space, action_space, envs, draw):
    """The arguments of one `add`; half of what is done was cut by the time limit."""
    infos = [{"TimeLimit.truncated": bool(cut)} if cut else {} for cut in draw.integers(0, 2, envs)]
    return (seen(space, envs), seen(space, envs), seen(action_space, envs), draw.normal(size=envs),
            draw.integers(0, 2, envs).astype(bool), infos)


def fill(buffers, space, action_space, envs, steps, seed=5):
    draw = np.random.default_rng(seed)
    for part in (space, action_space):
        part.seed(seed)
    for _ in range(steps):
        given = step(space, action_space, envs, draw)
        for buffer in buffers:
            buffer.add(*pickle.loads(pickle.dumps(given)))


def same(ours, theirs):
    """Dtype, shape and every bit, of tensors and of dicts of them."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        return all(same(ours[key], theirs[key]) for key in theirs)
    return ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def drawn(buffers, positions, env=None):
    """What each gives for these positions."""
    got = []
    for buffer in buffers:
        np.random.seed(11)
        batch = buffer._get_samples(positions, env) if len(positions) else None
        assert batch is None or batch.discounts is None
        got.append([] if batch is None else batch[:5])
    return got


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("steps", [1, 9, 20, 47])
def test_the_same_positions_give_the_same_tensors(name, envs, steps):
    space, action_space = SPACES[name]
    buffers = (dict_pair if name == "dict" else pair)(space, action_space, 20, envs)
    fill(buffers, space, action_space, envs, steps)
    for attribute in ("pos", "full", "buffer_size", "n_envs", "device", "obs_shape", "action_dim"):
        assert getattr(buffers[0], attribute) == getattr(buffers[1], attribute), attribute
    assert buffers[0].size() == buffers[1].size() == min(steps, 20)
    positions = np.arange(buffers[0].size())
    assert all(same(*both) for both in zip(*drawn(buffers, positions)))


@pytest.mark.skipif(fast is None, reason="the extension module is not here, or is switched off")
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_an_ordinary_step_is_taken_by_the_extension(name, once, envs, monkeypatch):
    """In the shapes in which Stable-Baselines3 has it, so that nothing is looked at, reshaped or copied in Python."""
    space, action_space = SPACES[name]
    if once and name == "dict":
        pytest.skip("observations of a Dict space are not kept once")
    buffer = sb3.ReplayBuffer(60, space, action_space, device="cpu", n_envs=envs, optimize_memory_usage=once)
    obs = [seen(space, envs) for _ in range(12)]

    def add(number, done=False):
        buffer.add(obs[number], obs[number + 1], seen(action_space, envs), np.zeros(envs), np.full(envs, done),
                   [{"other": 1}] * envs)

    add(0)  # what each environment's episode is at is asked of the library once
    monkeypatch.setattr(buffer, "_shaped", lambda name, value: pytest.fail(f"{name} was looked at in Python"))
    for number in range(1, 11):
        add(number, done=number == 5)
    assert buffer.size() == 11
    buffer.close()


def test_without_timeouts_done_is_done():
    buffers = pair(BOX, TWO, 20, 2, handle_timeout_termination=False)
    fill(buffers, BOX, TWO, 2, 20)
    ours, wanted = drawn(buffers, np.arange(20))
    assert same(ours[DONES], wanted[DONES]) and 0 < ours[DONES].sum() < 20


def normalising(space, envs):
    """A VecNormalize that has seen something; its environments are never stepped."""
    class Still(gymnasium.Env):
        observation_space, action_space = space, TWO

    env = VecNormalize(DummyVecEnv([Still] * envs))
    draw = np.random.default_rng(3)
    for rms in env.obs_rms.values() if isinstance(space, spaces.Dict) else [env.obs_rms]:
        rms.mean, rms.var = draw.normal(size=rms.mean.shape), draw.uniform(0.5, 2, rms.var.shape)
    env.ret_rms.var = np.float64(3.7)
    return env


@pytest.mark.parametrize("space", [BOX, spaces.Dict({"a": BOX, "b": spaces.Box(-9, 9, (2, 2), np.float32)})],
                         ids=["box", "dict"])
def test_a_vec_normalize_is_honoured(space):
    buffers = (dict_pair if isinstance(space, spaces.Dict) else pair)(space, TWO, 20, 2)
    fill(buffers, space, TWO, 2, 20)
    env = normalising(space, 2)
    (ours, wanted), raw = drawn(buffers, np.arange(20), env), drawn(buffers, np.arange(20))[0]
    assert all(same(*both) for both in zip(ours, wanted))
    assert not same(ours[REWARDS], raw[REWARDS]) and not same(ours[OBS], raw[OBS])


def ids_of(buffer, batch):
    """Which steps these are: `fill_counting` wrote their numbers into the rewards."""
    return batch.rewards[:, 0].numpy().astype(int)


def fill_counting(buffer, steps):
    for number in range(steps):
        obs = np.full((1, 3), number, np.float32)
        buffer.add(obs, obs + 1, np.array([number % 2]), np.array([number]), np.array([False]), [{}])


def test_samples_are_whole_transitions_of_the_last_steps():
    buffer = sb3.ReplayBuffer(100, BOX, TWO, device="cpu", handle_timeout_termination=True)
    fill_counting(buffer, 250)
    found = set()
    for _ in range(60):
        batch = buffer.sample(32)
        number = ids_of(buffer, batch)
        found.update(number)
        assert (batch.observations[:, 0].numpy() == number).all() and (batch.actions[:, 0].numpy() == number % 2).all()
        assert (batch.next_observations[:, 2].numpy() == number + 1).all() and not batch.dones.any()
    assert found == set(range(150, 250))  # 1,920 draws: one of 100 is missed with probability 4e-7


def test_a_step_is_drawn_from_right_after_it_was_added():
    buffer = sb3.ReplayBuffer(100, BOX, TWO, device="cpu")
    fill_counting(buffer, 1)
    assert ids_of(buffer, buffer.sample(4)).tolist() == [0] * 4


def test_tensors_are_the_batchs_memory_and_stay_as_they_are():
    buffer = sb3.ReplayBuffer(1000, BOX, TWO, device="cpu")
    fill_counting(buffer, 300)
    held = buffer.sample(64)
    before = [tensor.clone() for tensor in held[:5]]
    pointers = {tensor.data_ptr() for tensor in held[:5]}
    assert len(pointers) == 5 and all(pointer % 256 == 0 for pointer in pointers)
    drawn_meanwhile = set()
    for _ in range(1000):
        drawn_meanwhile.add(buffer.sample(64).observations.data_ptr())
    assert all(torch.equal(*both) for both in zip(held[:5], before)) and not drawn_meanwhile & pointers
    assert len(drawn_meanwhile) < 10  # and not a copy of their own each
    buffer.close()
    assert all(torch.equal(*both) for both in zip(held[:5], before))


def test_draws_follow_numpys_seed_or_their_own():
    def draws(numpy_seed, seed=None):
        np.random.seed(numpy_seed)
        buffer = sb3.ReplayBuffer(100, BOX, TWO, device="cpu", seed=seed)
        fill_counting(buffer, 100)
        return ids_of(buffer, buffer.sample(50)).tolist()

    assert draws(1) == draws(1) != draws(2)
    assert draws(1, seed=7) == draws(2, seed=7) != draws(1, seed=8)


@pytest.mark.parametrize("steps", [0, 12, 47])
def test_a_pickle_keeps_transitions_and_positions(steps):
    ours, wanted = pair(BOX, TWO, 20, 2)
    fill((ours, wanted), BOX, TWO, 2, steps)
    copies = pickle.loads(pickle.dumps(ours)), wanted
    for more in (0, 5, 30):
        fill(copies, BOX, TWO, 2, more, seed=more)
        assert copies[0].pos == wanted.pos and copies[0].full == wanted.full
        ours_drawn, wanted_drawn = drawn(copies, np.arange(wanted.size()))
        assert all(same(*both) for both in zip(ours_drawn, wanted_drawn))
    assert ours.size() == min(steps, 20)


def test_reset_forgets_and_extend_adds_steps():
    buffers = pair(BOX, TWO, 20, 1)
    fill(buffers, BOX, TWO, 1, 30)
    draw = np.random.default_rng(0)
    steps = [step(BOX, TWO, 1, draw) for _ in range(7)]
    for buffer in buffers:
        buffer.reset()
        assert buffer.size() == buffer.pos == 0 and not buffer.full
        buffer.extend(*zip(*steps))
    assert buffers[0].size() == buffers[1].size() == 7
    assert all(same(*both) for both in zip(*drawn(buffers, np.arange(7))))
    with pytest.raises(ValueError, match=r"\[2, 1"):
        buffers[0].extend([1, 2], [1])


@pytest.mark.parametrize("capacity, batch", [(300, 256), (3, 2), (2, 1), (100_000, 4096), (50, 64), (5000, 4999),
                                             (2, 2), (100, 100), (10, 1000), (20_000, 10_000)])
def test_a_small_buffer_gives_large_batches(capacity, batch):
    buffer = sb3.ReplayBuffer(capacity, BOX, TWO, device="cpu")
    fill_counting(buffer, 5)
    drawn = buffer.sample(batch)
    assert all(len(tensor) == batch for tensor in drawn[:5]) and drawn.discounts is None
    assert (drawn.observations[:, 1:2] == drawn.rewards).all()


def test_a_batch_of_several_draws_is_as_uniform_as_one():
    """Of 10,000 draws of 100 transitions each comes 100 times, give or take 10; 60 is six times that."""
    buffer = sb3.ReplayBuffer(100, BOX, TWO, device="cpu", max_batch=37, seed=3)
    fill_counting(buffer, 100)
    counts = np.bincount(ids_of(buffer, buffer.sample(10_000)), minlength=100)
    assert len(counts) == 100 and abs(counts - 100).max() < 60
    parts = ids_of(buffer, buffer.sample(2 * 37)).reshape(2, 37)
    assert (parts[0] != parts[1]).any()


def test_observations_of_a_dict_are_joined_by_key():
    buffer, _ = dict_pair(DICT, ARM, 20, 1)
    fill([buffer], DICT, ARM, 1, 20)
    batch = buffer.sample(50)
    assert {key: tensor.shape for key, tensor in batch.observations.items()} == {
        "felt": (50, 3), "room": (50, 1), "seen": (50, 2, 5, 4)} and batch.actions.shape == (50, 6)


@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 4), (5, 3, 4, 2)])
def test_swap_and_flatten_is_theirs(shape):
    array = np.arange(np.prod(shape)).reshape(shape)
    ours, wanted = (kind.ReplayBuffer.swap_and_flatten(array) for kind in (sb3, theirs))
    assert ours.shape == wanted.shape and (ours == wanted).all()


def test_it_counts_as_theirs():
    assert isinstance(sb3.ReplayBuffer(10, BOX, TWO, device="cpu"), theirs.ReplayBuffer)


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
def test_a_bad_step_is_refused_and_changes_nothing(change, error, words):
    buffer = sb3.ReplayBuffer(40, BOX, TWO, device="cpu", n_envs=2)
    good = {"obs": np.zeros((2, 3)), "next_obs": np.zeros((2, 3)), "action": np.zeros(2, int), "reward": np.zeros(2),
            "done": np.zeros(2), "infos": [{}, {}]}
    buffer.add(**good)
    with pytest.raises(error, match=words):
        buffer.add(**{**good, **change})
    assert buffer.size() == 1 and len(buffer._replay) == 2


def test_what_it_cannot_do_is_refused():
    with pytest.raises(ValueError, match="'meta'; it must be"):
        sb3.ReplayBuffer(10, BOX, TWO, device="meta")
    with pytest.raises(TypeError, match="action_space is Dict"):
        sb3.ReplayBuffer(10, BOX, spaces.Dict({"a": TWO}), device="cpu")
    buffer = sb3.ReplayBuffer(10, BOX, TWO, device="cpu", max_batch=4)
    with pytest.raises(gpureplay.TooFew):
        buffer.sample(4)
    fill_counting(buffer, 3)
    with pytest.raises(gpureplay.InvalidArgument, match="count is 0"):
        buffer.sample(0)
    for positions in ([3], [-1]):
        with pytest.raises(IndexError, match="they must be 0 to 2"):
            buffer._get_samples(positions)
