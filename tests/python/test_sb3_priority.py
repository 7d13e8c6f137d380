# SPDX-License-Identifier: MIT
"""gpureplay.sb3.PrioritizedReplayBuffer: what its samples have, and agents that use it. Skipped, and run, as
test_sb3.py."""

import pickle
import re
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sb = pytest.importorskip("stable_baselines3")

from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.buffers import ReplayBuffer as Theirs  # noqa: E402
from torch.nn.functional import smooth_l1_loss  # noqa: E402

import gpureplay  # noqa: E402
from gpureplay import _sb3_fields, _sb3_state, sb3  # noqa: E402

BOX, TWO = spaces.Box(-9.0, 9.0, (3,), np.float32), spaces.Discrete(2)


def make(steps=100, capacity=100, envs=1, space=BOX, **settings):
    """Of transitions whose reward is their number, and of which each tenth ends an episode."""
    buffer = sb3.PrioritizedReplayBuffer(capacity, space, TWO, device="cpu", n_envs=envs, **settings)
    for step in range(steps):
        number = step * envs + np.arange(envs)
        obs, next_obs = (np.repeat((number + more)[:, None], 3, axis=1).astype(np.float32) % 8 for more in (0, envs))
        if isinstance(space, spaces.Dict):
            obs, next_obs = {"a": obs}, {"a": next_obs}
        buffer.add(obs, next_obs, number % 2, number, np.full(envs, step % 10 == 9), [{}] * envs)
    return buffer


def numbers(batch):
    return batch.rewards[:, 0].to(torch.int64)


@pytest.mark.parametrize("settings", [{}, {"optimize_memory_usage": True, "max_batch": 50},
                                      {"space": spaces.Dict({"a": BOX})}], ids=["kept twice", "kept once", "a Dict"])
def test_draws_and_weights_follow_the_priorities(settings):
    buffer = make(alpha=1.0, beta=0.5, **settings)
    first = buffer.sample(50)
    assert torch.equal(first.weights, torch.ones(50, 1)) and torch.equal(first.indices, numbers(first))
    held = torch.arange(100)[-len(buffer._replay):]
    for part in held.split(50):
        buffer.update_priorities(part, torch.where(part % 10 == 5, 3.0, 1.0))
    counts = torch.zeros(100)
    for _ in range(300):
        batch = buffer.sample(50)
        counts += torch.bincount(numbers(batch), minlength=100)
    assert abs(float(counts[5::10].sum() / counts.sum()) - 30 / 120) < 0.02
    assert batch.weights.shape == (50, 1) and batch.weights.dtype == torch.float32
    assert torch.allclose(batch.weights, torch.where(batch.indices % 10 == 5, 3**-0.5, 1.0)[:, None], rtol=1e-4)
    assert torch.equal(batch.indices, numbers(batch)) and batch.discounts is None
    assert torch.equal(batch.dones[:, 0] == 1, batch.indices % 10 == 9)


@pytest.mark.parametrize("change", [
    lambda errors: errors, lambda errors: errors[:, None], lambda errors: errors.double(),
    lambda errors: errors.numpy(), lambda errors: errors.tolist(), lambda errors: errors.clone().requires_grad_()])
def test_errors_come_in_many_forms(change):
    buffer = make()
    batch = buffer.sample(20)
    errors = batch.indices / 4
    buffer.update_priorities(batch.indices, change(errors))
    assert np.allclose(buffer._replay.get_priorities(batch.indices.numpy()), errors.numpy() + 1e-6)


def test_alpha_and_beta():
    buffer = make(beta=(0.4, 1.0, 3), weight_norm="none", priority_offset=0.5)
    assert buffer.alpha == np.float32(0.6) and buffer.beta == np.float32(0.4)
    for _ in range(4):
        buffer.sample(2)
    assert buffer.beta == 1.0
    buffer.alpha, buffer.beta = 0.0, 0.0
    buffer.update_priorities(torch.tensor([1]), torch.tensor([3.5]))
    assert buffer.alpha == 0 and buffer._replay.get_priorities([1]) == [4.0]
    assert torch.equal(buffer.sample(9).weights, torch.ones(9, 1))


@pytest.mark.parametrize("settings", [{}, {"n_steps": 3, "gamma": 0.9}, {"optimize_memory_usage": True}])
def test_a_pickle_keeps_the_priorities(settings):
    buffer = make(envs=2, steps=40, **settings)
    batch = buffer.sample(8)
    buffer.update_priorities(batch.indices, batch.rewards)
    copy = pickle.loads(pickle.dumps(buffer))
    assert type(copy) is sb3.PrioritizedReplayBuffer and isinstance(copy, Theirs)
    for _ in range(3):
        one, other = buffer.sample(8), copy.sample(8)
        assert all(torch.equal(*both) for both in zip(one[:5] + one[6:], other[:5] + other[6:]))
        assert len(one.weights.unique()) > 1
        assert (one.discounts is None) == ("n_steps" not in settings) and copy.pos == buffer.pos == 40


def test_a_batch_of_several_draws_is_refused():
    buffer = make(max_batch=20)
    with pytest.raises(ValueError, match="batch_size is 21; it must be at most 20: make the buffer with max_batch="):
        buffer.sample(21)
    with pytest.raises(gpureplay.InvalidArgument, match="-1"):
        sb3.PrioritizedReplayBuffer(10, BOX, TWO, device="cpu", alpha=-1)


def test_a_small_buffer_draws_what_agents_want():
    """Where observations are kept once, too."""
    buffer = make(steps=1500, capacity=2000, optimize_memory_usage=True)
    assert buffer.sample(256).weights.shape == (256, 1)
    for capacity in range(2, 70):
        small = sb3.PrioritizedReplayBuffer(capacity, BOX, TWO, device="cpu", optimize_memory_usage=True)
        assert small._max_batch == capacity // 2
    assert _sb3_fields.most_of(1_000_000, None, True) == 4096 and _sb3_fields.most_of(16_000, None, True) == 2000


def test_what_became_of_updates_is_told():
    buffer = make(steps=150)
    buffer.update_priorities(torch.tensor([0, 149, 148]), torch.tensor([1.0, 5.0, -1.0]))
    stats = buffer.priority_stats
    assert (stats.updates, stats.stale, stats.invalid) == (1, 1, 1) and stats.max_priority == np.float32(5 + 1e-6)


UNSAVED = {
    "priorities": (sb3.PrioritizedReplayBuffer, {}),
    "observations kept once": (sb3.ReplayBuffer, {"optimize_memory_usage": True}),
    "n steps": (sb3.ReplayBuffer, {"n_steps": 2}),
}


@pytest.mark.parametrize("case", UNSAVED)
def test_what_could_not_be_pickled_is_not_made(case, monkeypatch):
    """By a library without files; rows alone need none."""
    kind, settings = UNSAVED[case]
    told = gpureplay.lib.gpur_build_info()
    monkeypatch.setattr(_sb3_state, "lib", types.SimpleNamespace(
        gpur_build_info=lambda: re.sub(b"\nfiles: .*", b"\nfiles: none, no saving and loading", told)))
    with pytest.raises(gpureplay.Unavailable, match="save_replay_buffer.*apt install libcjson-dev libxxhash-dev"):
        kind(10, BOX, TWO, device="cpu", **settings)
    pickle.loads(pickle.dumps(sb3.ReplayBuffer(10, BOX, TWO, device="cpu")))


class PrioritizedDQN(sb.DQN):
    """Stable-Baselines3's DQN with weighed losses, whose errors become priorities."""

    def train(self, gradient_steps, batch_size=100):
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        for _ in range(gradient_steps):
            data = self.replay_buffer.sample(batch_size)
            discounts = self.gamma if data.discounts is None else data.discounts
            with torch.no_grad():
                following = self.q_net_target(data.next_observations).max(dim=1, keepdim=True).values
                target = data.rewards + (1 - data.dones) * discounts * following
            value = self.q_net(data.observations).gather(1, data.actions)
            loss = (data.weights * smooth_l1_loss(value, target, reduction="none")).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            self.replay_buffer.update_priorities(data.indices, (target - value).abs())
        self._n_updates += gradient_steps


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_an_agent_learns_by_priority(one_thread):
    """With observations kept once and returns of three steps. The bound is test_sb3_agents.py's; seeds 1 to 3
    gave 184, 222 and 267."""
    agent = PrioritizedDQN("MlpPolicy", "CartPole-v1", seed=1, device="cpu", learning_rate=1e-3, buffer_size=20_000,
                           replay_buffer_class=sb3.PrioritizedReplayBuffer, learning_starts=1000, batch_size=64,
                           train_freq=4, gradient_steps=4, target_update_interval=128, exploration_fraction=0.3,
                           exploration_final_eps=0.04, optimize_memory_usage=True,
                           replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99})
    agent.learn(9000)
    stats = agent.replay_buffer._replay.priority_stats
    assert stats.updates >= 64 * agent._n_updates > 0 and stats.stale == 0
    assert np.mean([episode["l"] for episode in list(agent.ep_info_buffer)[-10:]]) > 60
