# SPDX-License-Identifier: MIT
"""Hindsight beside a model that keeps every episode: each row of a batch is what was stored, or has a goal that its
strategy allows, and then the reward, discount and terminated that follow from it by the definition. The distribution of
goals; rewards by a function; files; refusals. What the library does is also tested in tests/replay/test_hindsight.c."""

import math
import re

import gpureplay
import numpy as np
import pytest
from gpureplay import Hindsight
from gymnasium import spaces
from support import needs_files

ARM = spaces.Dict({"observation": spaces.Box(-9, 9, (2,), np.float64), "desired_goal": spaces.Box(-9, 9, (2,)),
                   "achieved_goal": spaces.Box(-9, 9, (2,))})
PUSH = spaces.Box(-1.0, 1.0, (3,), np.float32)
ROW = {"action": ((3,), "float32"), "reward": "float32", "terminated": "bool", "truncated": "bool"}
PLAIN = {"obs": ((6,), "float32"), "next_obs": ((6,), "float32"), **ROW}
ENDS = {"achieved": ("obs", 1, 3), "desired": ("obs", 3, 5)}
FIELDS = {**{prefix + name: ((2,), "float32") for prefix in ("", "next_") for name in ("seen", "reached", "wanted")},
          **ROW}


def sparse(achieved, desired, info):
    assert info == {}
    return -(np.linalg.norm(achieved - desired, axis=-1) > 0.5).astype(np.float64)


class Play:
    """Random episodes in a buffer, and what it should give. Episode e, whose desired goal is (-1, e), achieves (e, t)
    before its step t. Rewards are the numbers of steps."""

    def __init__(self, kind, envs=1, n_step=1, capacity=500, ends_in=8, seed=3, autoreset="disabled", **hindsight):
        self.kind, self.envs, self.n_step, self.ends_in, self.capacity = kind, envs, n_step, ends_in, capacity
        names = {"plain": ENDS, "fields": {"achieved": "reached", "desired": "wanted"}}.get(kind, {})
        self.hindsight = Hindsight(**{**names, **hindsight})
        what = {"plain": (PLAIN,), "fields": (FIELDS,)}.get(kind, (ARM, PUSH))
        self.settings = {"num_envs": envs, "n_step": n_step, "gamma": 0.5, "device": "cpu", "autoreset": autoreset,
                         "hindsight": self.hindsight, "flatten": kind == "flat"}
        self.what = what
        self.buffer = self.another()
        self.random = np.random.default_rng(seed)
        self.episodes, self.steps = [], []  # of each episode [steps, over, terminated]; of each step (episode, t)
        self.open = [self._begin() for _ in range(envs)]

    def another(self, **settings):
        return gpureplay.ReplayBuffer(self.capacity, *self.what, **{**self.settings, **settings})

    def _begin(self):
        self.episodes.append([0, False, False])
        return len(self.episodes) - 1

    def obs(self, prefix=""):
        """Observations as the environments give them. The first number seen is that of the step to come."""
        where = [(e, self.episodes[e][0]) for e in self.open]
        seen = np.array([[len(self.steps) + env, t] for env, (_, t) in enumerate(where)], np.float32)
        reached = np.array(where, np.float32)
        wanted = np.array([[-1, e] for e, _ in where], np.float32)
        if self.kind == "plain":
            return {f"{prefix}obs": np.hstack([seen[:, :1], reached, wanted, seen[:, 1:]])}
        if self.kind == "fields":
            return {f"{prefix}seen": seen, f"{prefix}reached": reached, f"{prefix}wanted": wanted}
        return {f"{prefix}obs": {"observation": seen.astype(np.float64), "achieved_goal": reached,
                                 "desired_goal": wanted}}

    def step(self):
        before, number = self.obs(), np.arange(len(self.steps), len(self.steps) + self.envs)
        over = self.random.integers(0, self.ends_in, self.envs) == 0
        done = over & (self.random.integers(0, 2, self.envs) == 0)
        for e, is_over, is_done in zip(self.open, over, done):
            self.steps.append((e, self.episodes[e][0]))
            self.episodes[e] = [self.episodes[e][0] + 1, bool(is_over), bool(is_done)]
        self.buffer.add(**before, **self.obs("next_"), action=np.zeros((self.envs, 3), np.float32),
                        reward=number.astype(np.float32), terminated=done, truncated=over & ~done)
        self.open = [self._begin() if is_over else e for e, is_over in zip(self.open, over)]

    def cut(self, env):
        """The caller resets an environment."""
        self.episodes[self.open[env]][1] = True
        self.buffer.reset([env])
        self.open[env] = self._begin()

    def columns(self, batch, prefix=""):
        """Numbers of steps, and achieved and desired goals."""
        if self.kind in ("plain", "flat"):
            obs = batch[f"{prefix}obs"]
            at = {"plain": (0, 1, 3), "flat": (4, 0, 2)}[self.kind]  # a Dict has its keys in their order
            return obs[:, at[0]].astype(int), obs[:, at[1]:at[1] + 2], obs[:, at[2]:at[2] + 2]
        names = ("seen", "reached", "wanted") if self.kind == "fields" else \
            ("obs.observation", "obs.achieved_goal", "obs.desired_goal")
        seen, reached, wanted = (batch[prefix + name] for name in names)
        return seen[:, 0].astype(int), reached, wanted

    def reward_of(self, achieved, goal):
        h, d = self.hindsight, math.dist(achieved, goal)
        if h.reward == "distance":
            return -d
        if h.reward == "nearness":
            return math.exp(-d)
        if callable(h.reward):
            return float(h.reward(np.array([achieved]), np.array([goal]), {})[0])
        return h.reward_reached if d <= h.threshold else h.reward_missed

    def wanted_of(self, number, goal):
        """(reward, discount, terminated) of the transition of a step; goal: a new one, or None."""
        e, t = self.steps[number]
        length, over, done = self.episodes[e]
        n, reward, discount, cut = min(self.n_step, length - t), 0.0, 1.0, False
        ended = over and done and t + n == length
        first = self.steps.index((e, t))
        of_episode = [at for at in range(first, len(self.steps)) if self.steps[at][0] == e]
        for i in range(n):
            achieved = (e, t + i + 1)
            reward += discount * (of_episode[i] if goal is None else self.reward_of(achieved, goal))
            discount *= 0.5
            reaches = goal is not None and self.hindsight.ends_at_goal
            cut = reaches and math.dist(achieved, goal) <= self.hindsight.threshold
            if cut:
                break
        if goal is not None and self.hindsight.ends_at_goal:
            ended = cut
        if goal is not None and self.hindsight.reward == "unchanged":
            reward = of_episode[0]
        return reward, 0.0 if ended else discount, ended

    def check(self, batch):
        """Returns (numbers of the steps, index of the goal in the episode or -1) of the rows."""
        numbers, reached, goals = self.columns(batch)
        _, after, next_goals = self.columns(batch, "next_")
        assert (goals == next_goals).all()
        found = np.full(len(batch), -1)
        for row, number in enumerate(numbers):
            e, t = self.steps[number]
            length, over, _ = self.episodes[e]
            assert reached[row].tolist() == [e, t] and after[row].tolist() == [e, min(t + self.n_step, length)]
            goal = tuple(goals[row].tolist()) if batch.relabeled[row] else None
            if goal is None:
                assert goals[row].tolist() == [-1, e]
            else:
                assert over and goal[0] == e
                found[row] = goal[1] - 1
                low = {"future": t, "final": length - 1, "episode": 0}[self.hindsight.strategy]
                assert low <= found[row] < length
            wanted = self.wanted_of(number, goal)
            got = float(batch.reward[row]), float(batch.discount[row]), bool(batch.terminated[row])
            assert got == pytest.approx(wanted, abs=1e-6), (goal, self.steps[number])
        return numbers, found


KINDS = ("plain", "flat", "dict", "fields")


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_as_stored_or_as_their_new_goals_say(kind, strategy, envs):
    for reward in ("sparse", "distance", "nearness", "unchanged", sparse):
        play = Play(kind, envs, reward=reward, strategy=strategy, threshold=0.25, reward_reached=2.0)
        relabeled = 0
        for round in range(12):
            for _ in range(int(play.random.integers(4, 20))):
                play.step()
            if round % 4 == 3:
                play.cut(int(play.random.integers(envs)))
                play.step()
            numbers, found = play.check(play.buffer.sample(64))
            relabeled += (found >= 0).sum()
        assert relabeled > 200
        assert play.buffer.config["hindsight"] == play.hindsight and play.buffer.config["sequences"]


@pytest.mark.parametrize("kind", ["plain", "flat"])
@pytest.mark.parametrize("ends_at_goal", [False, True])
@pytest.mark.parametrize("n_step", [1, 3])
def test_returns_of_several_steps_are_summed_and_cut(kind, ends_at_goal, n_step):
    for reward in ("sparse", "distance"):
        play = Play(kind, 2, n_step, reward=reward, ends_at_goal=ends_at_goal, threshold=1.0)
        relabeled = 0
        for _ in range(15):
            for _ in range(10):
                play.step()
            relabeled += (play.check(play.buffer.sample(64))[1] >= 0).sum()
        assert relabeled > 200


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_gives_the_rewards_of_the_library(kind):
    """Bit for bit, into batches and into `out`; it is called once for each, with the relabeled rows alone."""
    calls = []

    def function(achieved, desired, info):
        calls.append((achieved.shape, desired.shape))
        return sparse(achieved, desired, info)

    ours = Play(kind, reward=function, seed=5)
    theirs = Play(kind, reward="sparse", threshold=0.5, seed=5)
    buffers = [play.another(seed=7) for play in (ours, theirs)]
    for play, buffer in zip((ours, theirs), buffers):
        play.buffer = buffer
        for _ in range(300):
            play.step()
    one, other = (buffer.sample(64) for buffer in buffers)
    for _ in range(20):
        assert (one.id == other.id).all() and (one.relabeled == other.relabeled).all()
        assert (one.reward == other.reward).all() and len(set(one.reward[one.relabeled].tolist())) == 2
        count = int(one.relabeled.sum())
        assert calls == [((count, 2), (count, 2))]
        calls.clear()
        assert buffers[0].sample(64, out=one) is one and buffers[1].sample(64, out=other) is other
    calls.clear()
    ids = np.arange(300 - 64, 300)
    gathered = buffers[0].gather(ids)
    assert not calls and not gathered.relabeled.any() and (gathered.reward == ids).all()


def tail_of(chi_square, freedom):
    """How probable so large a value is [Wilson and Hilferty 1931]."""
    z = ((chi_square / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return math.erfc(z / math.sqrt(2)) / 2


@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
@pytest.mark.parametrize("kind", ["plain", "dict"])
def test_goals_are_equally_likely(kind, strategy):
    """Every step that a strategy allows, for each step of episodes of 12; and k of k + 1 rows have one."""
    length, k = 12, 3
    play = Play(kind, strategy=strategy, n_sampled_goal=k, ends_in=2**40)
    for _ in range(20):
        for _ in range(length):
            play.step()
        play.cut(0)
    play.step()  # tells that the episode before has ended
    counts, draws = np.zeros((length, length)), 200
    relabeled = rows = 0
    for _ in range(draws):
        batch = play.buffer.sample(256)
        numbers, reached, goals = play.columns(batch)
        ended = numbers < 20 * length
        rows, relabeled = rows + ended.sum(), relabeled + batch.relabeled[ended].sum()
        assert not batch.relabeled[~ended].any()
        found = goals[batch.relabeled].astype(int)
        assert (found[:, 0] == reached[batch.relabeled][:, 0]).all()
        np.add.at(counts, (reached[batch.relabeled][:, 1].astype(int), found[:, 1] - 1), 1)
    allowed = np.array([[{"future": g >= t, "final": g == length - 1, "episode": True}[strategy]
                         for g in range(length)] for t in range(length)])
    assert not counts[~allowed].any()
    expected = counts.sum(1, keepdims=True) / allowed.sum(1, keepdims=True)
    chi_square = (((counts - expected) ** 2 / expected)[allowed]).sum()
    freedom = allowed.sum() - length
    assert freedom == 0 or 1e-6 < tail_of(chi_square, freedom) < 1 - 1e-6
    share = k / (k + 1)
    assert abs(relabeled - rows * share) < 5 * math.sqrt(rows * share * (1 - share))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("kind", ["flat", "dict"])
def test_vectors_that_reset_themselves(kind, mode):
    """Environment e counts from 0 to 3 + e, and its goal is e. Achieved goals are of the episode, to its last step."""
    envs, ends = 3, np.array([3, 4, 5])
    buffer = gpureplay.ReplayBuffer(400, ARM, PUSH, num_envs=envs, autoreset=mode, device="cpu", flatten=kind == "flat",
                                    hindsight=Hindsight(strategy="final", n_sampled_goal=1000))

    def obs_of(at):
        goals = np.stack([np.arange(envs), at], 1).astype(np.float32)
        return {"observation": goals.astype(np.float64), "achieved_goal": goals, "desired_goal": 0 * goals - 1}

    at = np.zeros(envs, int)
    was_over = np.zeros(envs, bool)
    for _ in range(100):
        after = np.where(was_over, 0, at + 1) if mode == "next_step" else at + 1
        over = after == ends
        final = [{key: value[env] for key, value in obs_of(after).items()} if over[env] else None
                 for env in range(envs)]
        shown = np.where(over, 0, after) if mode == "same_step" else after
        buffer.add(obs=obs_of(at), next_obs=obs_of(shown), action=np.zeros((envs, 3), np.float32),
                   reward=np.zeros(envs, np.float32), terminated=np.zeros(envs, bool), truncated=over,
                   info={"final_obs": np.array(final, object)} if over.any() else {})
        at, was_over = shown, over if mode == "next_step" else was_over
    batch = buffer.sample(256)
    assert batch.relabeled.mean() > 0.8
    goals = batch.obs[:, 2:4] if kind == "flat" else batch["obs.desired_goal"]
    reached = batch.obs[:, :2] if kind == "flat" else batch["obs.achieved_goal"]
    env = reached[:, 0].astype(int)
    assert (goals[batch.relabeled] == np.stack([env, ends[env]], 1)[batch.relabeled]).all()
    assert (reached[:, 1] < ends[env]).all()  # no step that only resets


def test_where_truncated_is_no_field_it_ends_episodes():
    fields = {name: kind for name, kind in FIELDS.items() if name != "truncated"}
    for envs in (1, 2):
        with gpureplay.ReplayBuffer(300, fields, num_envs=envs, autoreset="disabled", device="cpu",
                                    hindsight=Hindsight(achieved="reached", desired="wanted",
                                                        strategy="final", n_sampled_goal=1000)) as buffer:
            for t in range(100):
                values = {name: np.full((envs, 2), t, np.float32) for name in ("seen", "reached", "wanted")}
                after = {f"next_{name}": value + 1 for name, value in values.items()}
                buffer.add(**values, **after, action=np.zeros((envs, 3), np.float32), reward=np.zeros(envs),
                           terminated=np.zeros(envs, bool), truncated=np.full(envs, t % 10 == 9))
            batch = buffer.sample(128)
            rows = np.asarray(batch.relabeled)
            assert rows.mean() > 0.8
            last = batch["reached"][rows][:, 0] // 10 * 10 + 10
            assert (batch["wanted"][rows] == last[:, np.newaxis]).all()


def test_sequences_are_what_was_stored():
    play = Play("dict", 2, n_sampled_goal=1000)
    for _ in range(100):
        play.step()
    batch = play.buffer.sample_sequences(16, 4)
    assert "relabeled" not in batch and (batch["obs.desired_goal"][..., 0] == -1).all()
    assert (batch.reward == batch["obs.observation"][..., 0]).all()


def test_by_priority():
    play = Play("plain", 2)
    play.buffer = play.another(prioritized=True)
    for _ in range(100):
        play.step()
    batch = play.buffer.sample(64)
    assert (play.check(batch)[1] >= 0).sum() > 30
    play.buffer.update_priorities(batch.id, np.ones(64))


@needs_files
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_file_has_its_episodes(kind, tmp_path):
    """The settings are those of the buffer that loads it, and a file of a buffer without hindsight will do."""
    play = Play(kind, 2)
    for with_hindsight in (True, False):
        play.buffer = play.another() if with_hindsight else play.another(hindsight=None, sequences=True)
        play.episodes, play.steps = [], []
        play.open = [play._begin() for _ in range(2)]
        for _ in range(100):
            play.step()
        play.buffer.save(tmp_path / "replay")
        assert gpureplay.file_info(tmp_path / "replay").envs == 2
        play.buffer.close()
        play.buffer = play.another()
        play.buffer.load(tmp_path / "replay")
        assert (play.check(play.buffer.sample(128))[1] >= 0).sum() > 60


@needs_files
def test_a_loaded_vector_goes_on_where_it_was(tmp_path):
    """Under "next_step" the environment that had ended is only reset by the first step after the load."""
    settings = {"num_envs": 3, "autoreset": "next_step", "device": "cpu", "hindsight": Hindsight()}

    def add(buffer, at, ended):
        obs = {key: np.full((3, 2), at, np.float32) for key in ARM.spaces}
        return buffer.add(obs=obs, next_obs={key: part + 1 for key, part in obs.items()}, reward=np.zeros(3),
                          action=np.zeros((3, 3), np.float32), terminated=np.array(ended), truncated=np.zeros(3, bool))

    with gpureplay.ReplayBuffer(100, ARM, PUSH, **settings) as buffer:
        assert add(buffer, 0, [False, False, True]) == 3
        buffer.save(tmp_path / "replay")
    with gpureplay.ReplayBuffer(100, ARM, PUSH, **settings) as buffer:
        buffer.load(tmp_path / "replay")
        assert add(buffer, 1, [False] * 3) == 2 and add(buffer, 2, [False] * 3) == 3


def test_extended_transitions_are_another_environments():
    play = Play("dict", 2, strategy="final", n_sampled_goal=1000)
    for _ in range(20):
        play.step()
        obs = {key: np.full((1, 2), 700, np.float32) for key in ARM.spaces}
        play.buffer.extend(obs=obs, next_obs={key: part + 1 for key, part in obs.items()}, reward=[0],
                           action=np.zeros((1, 3), np.float32), terminated=[False], truncated=[len(play.steps) == 40])
    assert len(play.buffer) == 60
    batch = play.buffer.sample(200)
    extended = batch["obs.achieved_goal"][:, 0] == 700
    assert batch.relabeled[extended].mean() > 0.9 and (batch["obs.desired_goal"][extended] == 701).any()
    assert (batch["obs.desired_goal"][~extended] < 700).all()
    play.buffer.close()
    with pytest.raises(gpureplay.Closed):
        play.buffer.extend(obs=obs, next_obs={key: part + 1 for key, part in obs.items()}, reward=[0],
                           action=np.zeros((1, 3), np.float32), terminated=[False], truncated=[False])


def test_a_function_needs_arrays_on_the_host():
    with gpureplay.Device("cpu") as device:
        device.is_cuda = True
        with pytest.raises(gpureplay.InvalidArgument, match="hindsight has a function as reward, which reads host mem"):
            gpureplay.ReplayBuffer(100, PLAIN, device=device, hindsight=Hindsight(**ENDS, reward=sparse))


def test_learners_train_on_new_goals():
    """A value of rewards that only new goals have."""
    play = Play("flat", n_sampled_goal=10**6, reward_reached=1.0, reward_missed=1.0)
    play.buffer = gpureplay.ReplayBuffer(500, ARM, spaces.Discrete(2), flatten=True, device="cpu", gamma=0.0,
                                         hindsight=play.hindsight)
    for t in range(200):
        obs = {name: np.full(2, t % 10, np.float32) for name in ARM.spaces}
        play.buffer.add(obs=obs, next_obs={name: part + 1 for name, part in obs.items()}, action=0, reward=-1.0,
                        terminated=False, truncated=t % 10 == 9)
        if t % 10 == 9:
            play.buffer.reset()
    agent = gpureplay.DQN(play.buffer, trunk=[16], learning_rate=1e-2, batch_size=64, target_period=10)
    agent.train(400)
    agent.sync()
    values = agent.q_values({name: np.full((1, 2), 5, np.float32) for name in ARM.spaces})[:, 0]
    assert values == pytest.approx(1.0, abs=0.1)


def test_the_memory_can_be_planned():
    for arguments in (((ARM, PUSH), {}), ((ARM, PUSH), {"flatten": True}), ((PLAIN,), {})):
        names = ENDS if arguments[0] == (PLAIN,) else {}
        plans = [gpureplay.ReplayBuffer.plan(1000, *arguments[0], **arguments[1], **settings)
                 for settings in ({"sequences": True}, {"hindsight": Hindsight(**names)})]
        assert plans[1].priority_bytes - plans[0].priority_bytes == 28 * 1000 + 8


def buffer_with(what=(PLAIN,), n_step=1, settings=None, **hindsight):
    return gpureplay.ReplayBuffer(100, *what, n_step=n_step, device="cpu", hindsight=Hindsight(**hindsight),
                                  **(settings or {}))


def calls(function):
    """A buffer whose rewards the function computes, with an episode that ended."""
    buffer = buffer_with(**ENDS, n_sampled_goal=10**6, reward=function)
    for t in range(10):
        buffer.add(obs=np.zeros(6, np.float32), next_obs=np.zeros(6, np.float32), action=np.zeros(3, np.float32),
                   reward=0.0, terminated=t == 9, truncated=False)
    return buffer.sample(8)


TWO = spaces.Dict({"observation": PUSH, "achieved_goal": PUSH, "desired_goal": spaces.Box(-1, 1, (2,))})
WHOLE = spaces.Dict({key: spaces.MultiDiscrete([3, 3]) for key in ("observation", "achieved_goal", "desired_goal")})
REFUSED = {
    "hindsight is True; it must be a gpureplay.Hindsight, or None": lambda: gpureplay.ReplayBuffer(
        100, PLAIN, device="cpu", hindsight=True),
    "achieved is 'achieved_goal'; the fields are 'obs', 'next_obs'": buffer_with,
    "desired is 'goal'; the keys of the observation are 'achieved_goal', 'desired_goal', 'observation', and the fields":
        lambda: buffer_with((ARM, PUSH), desired="goal"),
    "desired is 'aim'; the keys of the observation are": lambda: buffer_with((ARM, PUSH), settings={"flatten": True},
                                                                            desired="aim"),
    "achieved is ('obs', 3); it must be the key of an observation, the name of a field, or (field, first, end)":
        lambda: buffer_with(achieved=("obs", 3)),
    "end of achieved is 7; it must be 2 to 6": lambda: buffer_with(achieved=("obs", 1, 7)),
    "first of achieved is -1; it must be 0 to 5": lambda: buffer_with(achieved=("obs", -1, 3)),
    "achieved is 'x'; the fields are": lambda: buffer_with(achieved=("x", 1, 3)),
    "achieved is in field 'action', float32 of shape (3,); there must be a field \"next_action\" of the same, and "
    "there is none": lambda: buffer_with(achieved="action"),
    "achieved is in field 'obs.achieved_goal', which is int64; goals must be float32, as flatten=True makes":
        lambda: buffer_with((WHOLE, PUSH)),
    "the achieved goal has 3 numbers and the desired one 2; they must have as many":
        lambda: buffer_with((TWO, PUSH)),
    "the achieved goal is numbers 1 to 2 of field 'obs', and the desired one 2 to 3; they must not overlap":
        lambda: buffer_with(achieved=("obs", 1, 3), desired=("obs", 2, 4)),
    "strategy is 'last'; it must be one of 'future', 'final', 'episode'": lambda: buffer_with(strategy="last", **ENDS),
    "n_sampled_goal is -1; it must be 0 to 1000000": lambda: buffer_with(n_sampled_goal=-1, **ENDS),
    "n_sampled_goal is 1000001; it must be 0 to 1000000": lambda: buffer_with(n_sampled_goal=1000001, **ENDS),
    "n_sampled_goal is 2.5": lambda: buffer_with(n_sampled_goal=2.5, **ENDS),
    "threshold is -1; it must be 0 or more": lambda: buffer_with(threshold=-1.0, **ENDS),
    "reward is 'dense'; it must be one of 'sparse', 'distance', 'nearness', 'unchanged'":
        lambda: buffer_with(reward="dense", **ENDS),
    "reward is 3; it must be one of 'sparse', 'distance', 'nearness', 'unchanged', or a function of arrays":
        lambda: buffer_with(reward=3, **ENDS),
    "reward is 'unchanged', ends_at_goal False and n_step 3; they must be False and 1":
        lambda: buffer_with(reward="unchanged", n_step=3, **ENDS),
    "ends_at_goal True and n_step 1; they must be False and 1": lambda: buffer_with(
        reward=sparse, ends_at_goal=True, **ENDS),
    'hindsight is set and layout is "frames"; hindsight needs layout="rows"': lambda: buffer_with(
        settings={"layout": "frames", "observations": "frames"}, **ENDS),
    "hindsight is set, and the schema has no field \"reward\" of one float32": lambda: buffer_with(
        ({name: kind for name, kind in PLAIN.items() if name != "reward"},), **ENDS),
    "hindsight is set, and the schema has a field \"relabeled\"": lambda: buffer_with(
        ({**PLAIN, "relabeled": "bool"},), **ENDS),
    "with n_step above 1 or layout \"frames\" steps want obs, action, reward, next_obs, terminated, each one array":
        lambda: buffer_with((ARM, PUSH), n_step=3),
    "hindsight has reward='unchanged', and learners draw their samples without Python": lambda: gpureplay.DDPG(
        buffer_with(reward="unchanged", **ENDS)),
    "the reward function gave shape (8, 1) for 8 goals; it must be (8,)": lambda: calls(
        lambda achieved, desired, info: np.zeros((len(achieved), 1))),
    "the reward function gave <U1; it must be numbers": lambda: calls(
        lambda achieved, desired, info: np.array(["x"] * len(achieved))),
    '"reward" is NaN in row 0 of 8': lambda: calls(lambda achieved, desired, info: np.full(len(achieved), np.nan)),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_is_refused(text):
    with pytest.raises((TypeError, ValueError), match=re.escape(text)) as raised:
        REFUSED[text]()
    assert "gpur_" not in str(raised.value) and "GPUR_" not in str(raised.value)


def test_a_function_may_raise():
    def function(achieved, desired, info):
        raise RuntimeError("no such goal")

    with pytest.raises(RuntimeError, match="no such goal"):
        calls(function)


def test_a_step_that_is_refused_adds_nothing():
    """Also where several environments are linked one by one."""
    play = Play("dict", 3)
    for _ in range(5):
        play.step()
    obs, after = play.obs(), play.obs("next_")
    after["next_obs"]["achieved_goal"] = after["next_obs"]["achieved_goal"] + [[0, 1], [0, 1], [0, np.nan]]
    with pytest.raises(ValueError, match="next_obs.achieved_goal.* is NaN in row 2 of 3"):
        play.buffer.add(**obs, **after, action=np.zeros((3, 3), np.float32), reward=np.zeros(3),
                        terminated=np.zeros(3, bool), truncated=np.zeros(3, bool))
    assert len(play.buffer) == 15
