# SPDX-License-Identifier: MIT
"""gpureplay.sb3 with each observation kept once, and with returns of several steps, against Stable-Baselines3's own
buffers: the same episodes into both, the same transitions out of both. Skipped, and run, as test_sb3.py."""

import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("stable_baselines3.common.buffers")

import stable_baselines3 as sb  # noqa: E402
from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.env_util import make_vec_env  # noqa: E402

from gpureplay import sb3  # noqa: E402
from gpureplay._sb3_types import joined  # noqa: E402

BOX, TWO = spaces.Box(-9.0, 9.0, (3,), np.float64), spaces.Discrete(2)
ARM = spaces.Box(-1.0, 1.0, (2, 3), np.float32)
SPACES = {"box": (BOX, TWO), "image": (spaces.Box(0, 255, (2, 5, 4), np.uint8), ARM),
          "discrete": (spaces.Discrete(900), spaces.MultiDiscrete([2, 5]))}
ONCE = {"optimize_memory_usage": True}


class Episodes:
    """What an agent tells its buffer, step by step; episodes end, by themselves or cut, every so many steps."""

    def __init__(self, space, action_space, envs, length=6, seed=1, stack=0):
        self._spaces, self._envs, self._length, self._stack = (space, action_space), envs, length, stack
        self._draw = np.random.default_rng(seed)
        for part in self._spaces:
            part.seed(seed)
        self.obs = self._seen([None] * envs)
        self.episodes = envs

    def _seen(self, before):
        """One observation of every environment; with stacks, behind the frames of the one before, or of zeros."""
        fresh = np.stack([self._spaces[0].sample() for _ in range(self._envs)])
        if self._stack:
            for env, old in enumerate(before):
                fresh[env, :-1] = 0 if old is None else old[1:]
        return fresh

    def step(self):
        draw, envs = self._draw, self._envs
        done = draw.integers(0, self._length, envs) == 0
        cut = done & (draw.integers(0, 2, envs) == 0)
        next_obs = self._seen(self.obs)
        action = np.stack([self._spaces[1].sample() for _ in range(envs)])
        infos = [{"TimeLimit.truncated": True} if one else {} for one in cut]
        given = self.obs, next_obs, action, draw.normal(size=envs), done, infos
        start = self._seen([None] * envs)
        self.obs = np.where(done.reshape(-1, *[1] * (next_obs.ndim - 1)), start, next_obs)
        self.episodes += int(done.sum())
        return given


def pair(name, envs, steps, kind=theirs.ReplayBuffer, **settings):
    made = {"device": "cpu", "n_envs": envs}
    more = {key: settings[key] for key in ("n_steps", "gamma") if key in settings}
    return (sb3.ReplayBuffer(steps * envs, *SPACES[name], **made, **settings),
            kind(steps * envs, *SPACES[name], **made, **more))


def fill(buffers, episodes, steps):
    for _ in range(steps):
        given = episodes.step()
        for buffer in buffers:
            buffer.add(*pickle.loads(pickle.dumps(given)))


def positions_of(ours):
    """Of the steps that are there, oldest first, in ours and in theirs. Short episodes leave room for fewer."""
    size, room = ours.size(), ours.buffer_size
    steps = np.arange(ours._steps - size, ours._steps)
    return (steps % room if size == min(ours._steps, room) else np.arange(size)), steps % room


def at(buffer, positions):
    np.random.seed(3)
    return buffer._get_samples(positions)


def same(ours, wanted):
    return all(one.dtype == other.dtype and torch.equal(one, other) for one, other in zip(ours[:5], wanted[:5]))


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("handled", [True, False])
def test_observations_kept_once_give_the_same_tensors(name, envs, handled):
    buffers = pair(name, envs, 200, handle_timeout_termination=handled, **ONCE)
    buffers[1].handle_timeout_termination = handled
    episodes = Episodes(*SPACES[name], envs, length=20)
    for steps in (1, 30, 150, 333):
        fill(buffers, episodes, steps)
        size, all_steps = buffers[0].size(), min(buffers[1].pos + 200 * buffers[1].full, 200)
        assert all_steps * 0.9 < size <= all_steps and buffers[0].pos == buffers[1].pos
        ours, wanted = map(at, buffers, positions_of(buffers[0]))
        if name == "box":
            wanted = [tensor.to(torch.float32) for tensor in wanted[:5]]
            wanted[1] = wanted[1].to(torch.int64)
        assert same(ours, wanted) and (steps < 300 or 0 < ours.dones.sum() < size)
    assert buffers[0]._replay.stats.frames_stored == 514 * envs + episodes.episodes - np.count_nonzero(
        buffers[0]._replay._writer._by_steps._state.standing == 0)


def test_what_is_drawn_is_what_was_added():
    buffer, _ = pair("box", 2, 100, **ONCE)
    episodes, held = Episodes(*SPACES["box"], 2), {}
    for _ in range(400):
        given = episodes.step()
        buffer.add(*given)
        for env in range(2):
            done = float(given[4][env] and not given[5][env])
            held[given[3][env].astype(np.float32)] = *(given[at][env].astype(np.float32) for at in (0, 1)), done
        batch = buffer.sample(16)
        for obs, next_obs, done, reward in zip(batch.observations, batch.next_observations, batch.dones, batch.rewards):
            wanted = held[np.float32(reward.item())]
            assert np.array_equal(obs, wanted[0]) and np.array_equal(next_obs, wanted[1]) and done == wanted[2]


def test_frames_of_stacks_are_kept_once():
    space = spaces.Box(1, 255, (4, 6, 5), np.uint8)
    made = [sb3.ReplayBuffer(300, space, TWO, device="cpu", **ONCE, frame_stack=4),
            theirs.ReplayBuffer(300, space, TWO, device="cpu")]
    episodes = Episodes(space, TWO, 1, length=30, stack=4)
    fill(made, episodes, 250)
    positions = positions_of(made[0])
    assert same(*map(at, made, positions)) and len(positions[0]) == 250
    assert made[0]._replay.stats.frames_stored <= 250 + episodes.episodes
    assert made[0]._replay.plan(300, made[0]._fields, **{key: made[0]._settings[key] for key in (
        "layout", "frame_stack", "stack_axis")}, max_batch=made[0]._max_batch).frame_bytes == 30


def n_step_transitions(buffer, steps, envs):
    """Theirs, of every step and environment, oldest first."""
    found = []
    for step in range(steps):
        for env in range(envs):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(np.random, "randint", lambda *_, size, env=env, **__: np.full(size, env))
                found.append(buffer._get_samples(np.array([step])))
    return found


def all_of(buffer):
    """Ours, oldest first."""
    first, count = buffer._replay.stats.first_id, len(buffer._replay)
    parts = np.array_split(np.arange(first, first + count), count // buffer._max_batch + 1)
    return joined([buffer._samples(buffer._replay.gather(part), None) for part in parts])


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("n_steps", [2, 3, 5])
def test_returns_of_several_steps_are_theirs(n_steps, envs, once):
    buffers = pair("image", envs, 100, theirs.NStepReplayBuffer, n_steps=n_steps, gamma=0.9, optimize_memory_usage=once)
    episodes = Episodes(*SPACES["image"], envs)
    fill(buffers, episodes, 90)
    count = len(buffers[0]._replay)
    assert 90 * envs - n_steps * envs < count <= 90 * envs or once
    ours = all_of(buffers[0])
    wanted = {one.observations.numpy().tobytes(): one for one in n_step_transitions(buffers[1], 90, envs)}
    assert ours.discounts.shape == ours.rewards.shape == ours.dones.shape == (count, 1)
    for row in range(count):
        other = wanted[ours.observations[row].numpy().tobytes()]
        assert torch.equal(ours.next_observations[row], other.next_observations[0])
        assert torch.equal(ours.actions[row], other.actions[0]) and ours.dones[row] == other.dones[0]
        assert torch.allclose(ours.rewards[row], other.rewards[0], atol=1e-6)
        assert torch.allclose(ours.discounts[row], (1 - other.dones[0]) * other.discounts[0])
    assert 0 < ours.dones.sum() < count and len(ours.discounts.unique()) == n_steps + 1


def agent_of(kind, **settings):
    env = make_vec_env("CartPole-v1", n_envs=2, seed=4)
    return sb.DQN("MlpPolicy", env, seed=4, device="cpu", replay_buffer_class=kind, batch_size=32, learning_starts=50,
                  buffer_size=5000, train_freq=1, gradient_steps=2, target_update_interval=40, **settings)


class AtTheirPositions(sb3.ReplayBuffer):
    def sample(self, batch_size, env=None):
        return self._get_samples(np.random.randint(0, self.size(), size=batch_size), env)


def weights_after(agent, steps):
    agent.learn(steps)
    return torch.cat([weight.flatten() for weight in agent.q_net.state_dict().values()])


def test_an_agent_that_saves_memory_learns_the_same():
    """Their own buffer cannot do that: with optimize_memory_usage it has no time limits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    wanted = weights_after(agent_of(theirs.ReplayBuffer), 400)
    ours = weights_after(agent_of(AtTheirPositions, optimize_memory_usage=True), 400)
    torch.set_num_threads(threads)
    assert torch.equal(ours, wanted)
    with pytest.raises(ValueError, match="does not support optimize_memory_usage = True"):
        agent_of(theirs.ReplayBuffer, optimize_memory_usage=True)


@pytest.mark.parametrize("settings", [ONCE, {"replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.99}},
                                      {**ONCE, "replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.99}}])
def test_a_run_that_begins_anew_cuts_the_open_episodes(settings):
    agent = agent_of(sb3.ReplayBuffer, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theirs: the last trajectory will be truncated
        for _ in range(3):
            agent.learn(101)
    replay = agent.replay_buffer._replay
    count, ends = len(replay), agent.replay_buffer.n_steps
    assert 306 - 2 * ends < count <= 306 and agent.replay_buffer.pos == 153
    found = replay.gather(range(count))
    later = np.arange(count)
    follows = [any(np.array_equal(found.next_obs[row], found.obs[other]) for other in later) for row in range(count)]
    cut = ~np.array(follows) & ~found.terminated
    assert (ends == 1 and 4 <= cut.sum() <= 6) or ends == 3


@pytest.mark.parametrize("settings", [{"n_steps": 3}, {**ONCE, "n_steps": 3}])
def test_who_is_broken_off_alone_is_cut(settings):
    """CleanRL tells of ends that are no terminations by another obs alone: the other environments' episodes go on."""
    buffer = sb3.ReplayBuffer(4000, BOX, TWO, device="cpu", n_envs=4, handle_timeout_termination=False, **settings)
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


def test_a_pickle_goes_on_in_the_midst_of_episodes():
    for settings in (ONCE, {"n_steps": 3}, {**ONCE, "n_steps": 3}):
        ours = sb3.ReplayBuffer(200, *SPACES["box"], device="cpu", n_envs=2, **settings)
        episodes = Episodes(*SPACES["box"], 2)
        fill([ours], episodes, 77)
        other = pickle.loads(pickle.dumps(ours))
        fill([ours, other], episodes, 50)
        assert (other.pos, other.size(), other.full) == (ours.pos, ours.size(), ours.full)
        assert same(ours.sample(64), other.sample(64)) and same(ours.sample(64), other.sample(64))


BAD = {
    "a Dict": (lambda: sb3.ReplayBuffer(10, spaces.Dict({"a": BOX}), TWO, "cpu", 1, True), TypeError,
               "observation_space is Dict.*it must be one Box, Discrete"),
    "stacks kept whole": (lambda: sb3.ReplayBuffer(10, BOX, TWO, "cpu", frame_stack=4), ValueError,
                          "frame_stack is 4; without optimize_memory_usage it must be 1"),
    "another stack": (lambda: sb3.ReplayBuffer(10, BOX, TWO, "cpu", 1, True, frame_stack=4), ValueError, "4"),
    "n_steps": (lambda: sb3.ReplayBuffer(10, BOX, TWO, "cpu", n_steps=65), ValueError, "65"),
    "positions": (lambda: sb3.ReplayBuffer(10, BOX, TWO, "cpu", n_steps=3)._get_samples(np.array([0])),
                  NotImplementedError, "transitions of n_steps=3 have no positions; `sample` draws them"),
    "another done": (lambda: sb3.ReplayBuffer(10, BOX, TWO, "cpu", 1, True).dones.__setitem__(3, True), ValueError,
                     r"dones\[3\] is set to True; only the last step's can be"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_it_cannot_do_is_refused(case):
    call, error, text = BAD[case]
    with pytest.raises(error, match=text):
        call()
