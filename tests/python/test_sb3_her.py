# SPDX-License-Identifier: MIT
"""gpureplay.sb3.HerReplayBuffer beside Stable-Baselines3's: the same steps into both, minibatches of which every row is
one that the original could give, as often; in agents; pickles. Skipped, and run, as test_sb3.py."""

import math
import pickle
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sb = pytest.importorskip("stable_baselines3")

import gpureplay  # noqa: E402 (after the skips)
from gpureplay.sb3 import HerReplayBuffer as Ours  # noqa: E402
from gymnasium import spaces  # noqa: E402
from stable_baselines3.common.envs import BitFlippingEnv  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy  # noqa: E402
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as Theirs  # noqa: E402

BOX = spaces.Box(-9, 9, (2,), np.float64)
REACH = spaces.Dict({"observation": BOX, "achieved_goal": BOX, "desired_goal": BOX})
ARM = spaces.Box(-1.0, 1.0, (3,), np.float32)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def compute_reward(achieved, desired, infos):
    assert len(infos) == len(achieved) and infos[0] == {}
    return -np.linalg.norm(achieved - desired, axis=-1)


ENV = types.SimpleNamespace(env_method=lambda name, *given, indices: [{"compute_reward": compute_reward}[name](*given)])


def numbered_steps(envs, steps, ends_in=9):
    """The arguments of `add`. Episode e has the goal (-1, e) and achieves (e, t) before its step t. observation is that
    of the step's number and environment."""
    random = np.random.default_rng(2)
    episodes, at = list(range(envs)), [0] * envs
    for number in range(steps):
        def obs(t, number=number):
            return {"observation": np.array([[number, env] for env in range(envs)], np.float64),
                    "achieved_goal": np.array(list(zip(episodes, t)), np.float64),
                    "desired_goal": np.array([[-1, e] for e in episodes], np.float64)}

        before, after = obs(at), obs([t + 1 for t in at], number + 1)
        done = random.integers(0, ends_in, envs) == 0
        cut = done & (random.integers(0, 2, envs) == 0)
        infos = [{"TimeLimit.truncated": bool(one)} for one in cut]
        yield before, after, np.zeros((envs, 3), np.float32), np.full(envs, number, np.float32), done, infos
        for env in range(envs):
            at[env] = 0 if done[env] else at[env] + 1
            episodes[env] = max(episodes) + 1 if done[env] else episodes[env]


def rows_of(samples):
    """Everything in the rows of a minibatch but the desired goals and rewards; the latter; and the goals."""
    obs, following = samples.observations, samples.next_observations
    same = torch.hstack([obs["observation"], obs["achieved_goal"], following["observation"],
                         following["achieved_goal"], samples.actions, samples.dones])
    assert torch.equal(obs["desired_goal"], following["desired_goal"])
    return list(map(tuple, same.tolist())), samples.rewards[:, 0].tolist(), list(map(tuple,
                                                                                    obs["desired_goal"].tolist()))


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_rows_are_those_of_the_original_and_as_often(strategy, envs):
    buffers = [kind(700 * envs, REACH, ARM, ENV, device="cpu", n_envs=envs, goal_selection_strategy=strategy)
               for kind in (Ours, Theirs)]
    for buffer in buffers:
        for step in numbered_steps(envs, 300):
            buffer.add(*step)
        assert buffer.size() == buffer.pos == 300
    counts = [{}, {}]
    for buffer, found in zip(buffers, counts):
        for _ in range(40):
            for row, reward, goal in zip(*rows_of(buffer.sample(500))):
                found.setdefault(row, []).append((goal, reward))
    ours, theirs = counts
    assert theirs.keys() <= ours.keys() and len(ours) == 300 * envs
    relabeled, goals, rows = [0, 0], [0.0, 0.0], [0, 0]
    for row in theirs:
        for side, found in enumerate((ours[row], theirs[row])):
            new = [one for one in found if one[0][0] >= 0]
            relabeled[side] += len(new)
            rows[side] += len(found)
            goals[side] += sum(goal[1] for goal, _ in new)
            for goal, reward in new:
                assert goal[0] == row[2] and reward == pytest.approx(-math.dist(row[6:8], goal))
        if strategy == "final":
            assert len({one for one in ours[row] + theirs[row] if one[0][0] >= 0}) == 1
    for row in ours.keys() - theirs.keys():  # of episodes that are open
        assert all(goal[0] == -1 for goal, _ in ours[row])
    assert relabeled[1] == rows[1] * 0.8 and abs(relabeled[0] / rows[0] - 0.8) < 0.015
    means = [total / count for total, count in zip(goals, relabeled)]
    assert abs(means[0] - means[1]) < 0.03 * means[1]


def bits(count=1, **options):
    return DummyVecEnv([lambda: BitFlippingEnv(**{"n_bits": 4, "continuous": False, **options})] * count)


@pytest.mark.parametrize("options", [{}, {"discrete_obs_space": True}, {"image_obs_space": True}, {"continuous": True}])
def test_observations_have_the_types_of_the_space(options):
    """The rewards are those of the environment, for goals of integers, too."""
    env = bits(2, **options)
    buffer = Ours(200, env.observation_space, env.action_space, env, device="cpu", n_envs=2,
                  goal_selection_strategy=GoalSelectionStrategy.EPISODE)
    obs = env.reset()
    for _ in range(40):
        action = np.array([env.action_space.sample() for _ in range(2)])
        following, reward, done, infos = env.step(action)
        real = {key: value.copy() for key, value in following.items()}
        for index in np.flatnonzero(done):
            for key in real:
                real[key][index] = infos[index]["terminal_observation"][key]
        buffer.add(obs, real, action, reward, done, infos)
        obs = following
    samples = buffer.sample(100)
    new, wanted = (samples.next_observations[key].numpy() for key in ("achieved_goal", "desired_goal"))
    integers = {"image_obs_space": torch.uint8, "discrete_obs_space": torch.int64}
    kind = next((integers[name] for name in options if name in integers), torch.uint8)
    assert samples.observations["desired_goal"].dtype == samples.next_observations["achieved_goal"].dtype == kind
    rewards = env.env_method("compute_reward", new, wanted, [{}] * 100, indices=[0])[0]
    assert (samples.rewards[:, 0].numpy() == rewards).all() and len(set(rewards.tolist())) == 2


@pytest.mark.parametrize("kind", [Ours, Theirs])
def test_an_agent_flips_bits(kind):
    """Eight bits, one seed: in 200 steps there is time for about 45 episodes that reach their goal."""
    env = bits(n_bits=8, max_steps=8)
    agent = sb.DQN("MultiInputPolicy", env, seed=1, device="cpu", replay_buffer_class=kind, learning_rate=1e-3,
                   learning_starts=200, batch_size=64, buffer_size=20_000, train_freq=1, gradient_steps=1, gamma=0.95,
                   exploration_fraction=0.4, exploration_final_eps=0.05, target_update_interval=200,
                   policy_kwargs={"net_arch": [64]})
    agent.learn(2500)
    obs, solved = env.reset(), 0
    for _ in range(200):
        obs, _, _, infos = env.step(agent.predict(obs, deterministic=True)[0])
        solved += infos[0].get("is_success", False)
    assert solved >= 20


def test_a_normalized_environment():
    buffer = Ours(300, REACH, ARM, ENV, device="cpu")
    for step in numbered_steps(1, 100):
        buffer.add(*step)

    class Halves(VecNormalize):
        def __init__(self):
            pass

        def normalize_obs(self, obs):
            return {key: value / 2 for key, value in obs.items()}

        def normalize_reward(self, reward):
            return reward / 2

    samples = buffer.sample(100, env=Halves())
    assert samples.rewards.shape == (100, 1)
    new = samples.observations["desired_goal"][:, 0] >= 0
    distance = torch.linalg.norm(samples.next_observations["achieved_goal"] - samples.observations["desired_goal"],
                                 dim=1)
    assert new.sum() > 50 and torch.allclose(samples.rewards[new, 0], -distance[new])


def test_an_agent_is_saved_and_goes_on(tmp_path):
    def agent_of():
        env = bits(2)
        return sb.DQN("MultiInputPolicy", env, seed=1, device="cpu", replay_buffer_class=Ours, learning_starts=20,
                      batch_size=16, buffer_size=1000, replay_buffer_kwargs={"n_sampled_goal": 3})

    agent = agent_of()
    agent.learn(200)
    agent.save_replay_buffer(tmp_path / "replay")
    other = agent_of()
    other.load_replay_buffer(tmp_path / "replay.pkl")
    buffer = other.replay_buffer
    assert buffer.env is other.env and buffer.size() == 100 and buffer.n_sampled_goal == 3
    found = [one._replay.gather(range(200)) for one in (agent.replay_buffer, buffer)]
    assert all((found[0][name] == found[1][name]).all() for name in found[0].keys())
    assert buffer._replay.sample(200).relabeled.sum() > 80
    other.learn(64, reset_num_timesteps=False)
    assert buffer.size() == 132


def test_what_does_not_go_on_begins_an_episode():
    buffer = Ours(300, REACH, ARM, ENV, device="cpu", goal_selection_strategy="final", n_sampled_goal=1000)

    def obs(x):
        return {key: np.full((1, 2), x, np.float64) for key in REACH.spaces}

    for x in (0, 1, 2, 10, 11, 12, 13):
        buffer.add(obs(x), obs(x + 1), np.zeros((1, 3)), [0], [x == 13], [{}])
    samples = buffer.sample(50)
    goal, before = (samples.observations[key][:, 0] for key in ("desired_goal", "achieved_goal"))
    new = samples.rewards[:, 0] != 0
    assert set(goal[before < 5].tolist()) <= {3, 0, 1, 2} and (goal[before < 5] == 3).sum() > 5
    assert (goal[(before >= 10)] == 14).float().mean() > 0.9 and new.any()
    buffer.add(obs(20), obs(21), np.zeros((1, 3)), [0], [False], [{}])
    with pytest.raises(ValueError, match="NaN"):
        buffer.add(obs(np.nan), obs(22), np.zeros((1, 3)), [0], [False], [{}])
    assert buffer._is_open.all() and buffer.size() == 8
    buffer.truncate_last_trajectory()
    assert not buffer._is_open.any()
    buffer.add(obs(21), obs(22), np.zeros((1, 3)), [0], [True], [{}])
    samples = buffer.sample(200)
    goal, before = (samples.observations[key][:, 0].numpy() for key in ("desired_goal", "achieved_goal"))
    assert (goal[before == 20] == 21).mean() > 0.9 and (goal[before == 21] == 22).mean() > 0.9


def test_what_cannot_be_is_refused():
    def made(space=REACH, **given):
        return Ours(100, space, ARM, ENV, device="cpu", **given)

    for arguments, kind, text in (
            ({"copy_info_dict": True}, ValueError, "copy_info_dict is True; it must be False"),
            ({"optimize_memory_usage": True}, ValueError, "optimize_memory_usage is True; with hindsight it must be"),
            ({"goal_selection_strategy": "last"}, ValueError, "goal_selection_strategy is 'last'; it must be one of"),
            ({"n_sampled_goal": -1}, ValueError, "n_sampled_goal is -1; it must be 0 to"),
            ({"n_steps": 3}, TypeError, "'n_steps'.* are no arguments of a HerReplayBuffer"),
            ({"space": BOX}, TypeError, "observation_space is Box.* needs a Dict with \"achieved_goal\""),
            ({"space": spaces.Dict({"achieved_goal": BOX})}, TypeError, "needs a Dict with \"achieved_goal\""),
            ({"space": spaces.Dict({**REACH.spaces, "desired_goal": ARM})}, TypeError,
             "achieved_goal is .* and desired_goal Box.*; they must have the same shape")):
        with pytest.raises(kind, match=text):
            made(**arguments)
    buffer = made()
    with pytest.raises(ValueError, match="the buffer has an environment"):
        buffer.set_env(ENV)
    for step in numbered_steps(1, 60):
        buffer.add(*step)
    other = pickle.loads(pickle.dumps(buffer))
    with pytest.raises(ValueError, match="no environment to compute rewards with; give it one with `set_env`"):
        other.sample(50)
    other.set_env(ENV)
    assert len(other.sample(50).rewards) == 50
    assert issubclass(Ours, Theirs) and not isinstance(buffer, gpureplay.ReplayBuffer)
