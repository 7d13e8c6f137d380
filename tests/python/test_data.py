# SPDX-License-Identifier: MIT
"""Data sets into buffers and out of them, compared with n-step returns, stacks and episodes computed one by one."""

import itertools
import sys

import gpureplay
import numpy as np
import pytest
from gpureplay import _arrow, _episodes, _tables, data
from support import blocks_of_page

GAMMA = 0.9
ENDS = ("terminated", "truncated")
DTYPES = ("float32", "float16", "uint8", "int32", "int64", "bool")


@pytest.fixture(autouse=True, params=[None, 7], ids=["", "in parts of 7 rows"])
def parts(request, monkeypatch):
    """Data sets are read in parts, whose edges fall into episodes if they are small."""
    if request.param is not None:
        monkeypatch.setattr(_tables, "_ROWS_AT_A_TIME", request.param)
        monkeypatch.setattr(_episodes, "_ROWS_AT_A_TIME", request.param)
        monkeypatch.setattr(_episodes, "_STAGE_BYTES", 1000)


def numbers(random, shape, dtype):
    if dtype == "bool":
        return random.random(shape) < 0.5
    return random.normal(size=shape).astype(dtype) if dtype[:5] == "float" else \
        random.integers(0, 250, shape).astype(dtype)


def make_episodes(seed, count=12, longest=9, shape=(3,), dtype="float32"):
    """Of one step and more, terminated or truncated, or both."""
    random = np.random.default_rng(seed)
    episodes = []
    for at in range(count):
        steps = 1 if at in (0, 5) else int(random.integers(1, longest))
        ends = {name: np.zeros(steps, bool) for name in ENDS}
        kind = random.integers(0, 7)
        ends["terminated"][-1], ends["truncated"][-1] = kind < 4, kind > 2
        episodes.append({"obs": numbers(random, (steps + 1, *shape), dtype), "action": random.integers(0, 5, steps),
                         "reward": numbers(random, steps, "float32"), **ends})
    return episodes


def columns_of(episodes, names=("obs", "action", "reward", "next_obs", *ENDS)):
    """The steps of all episodes, (steps, ...) by name."""
    found = [{**one, "obs": one["obs"][:-1], "next_obs": one["obs"][1:]} for one in episodes]
    return {name: np.concatenate([one[name] for one in found]) for name in names}


def reference(episodes, n_step, stack=1):
    """The transitions that must be stored, one by one. stack: obs becomes so many frames, with zeros before the
    first."""
    rows = []
    for one in episodes:
        steps, obs = len(one["reward"]), one["obs"]
        if stack > 1:
            padded = np.concatenate([np.zeros((stack - 1, *obs.shape[1:]), obs.dtype), obs])
            obs = np.stack([padded[at:at + stack] for at in range(steps + 1)])
        for at in range(steps):
            end = min(at + n_step, steps)
            total = sum(GAMMA**k * float(reward) for k, reward in enumerate(one["reward"][at:end]))
            ended = {name: bool(one[name][end - 1]) for name in ENDS}
            rows.append({"obs": obs[at], "action": one["action"][at], "reward": total, "next_obs": obs[end], **ended,
                         "discount": 0.0 if ended["terminated"] else GAMMA**(end - at)})
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def pairs(one, other):
    """As zip(strict=True), which Python 3.9 has not."""
    one, other = list(one), list(other)
    assert len(one) == len(other)
    return zip(one, other)


def check(got, wanted):
    for name, array in wanted.items():
        if name in ("reward", "discount"):
            np.testing.assert_allclose(got[name], array, rtol=2e-6, atol=2e-6, err_msg=name)
        else:
            assert np.array_equal(got[name], array), name


def all_of(buffer):
    return {name: np.asarray(array) for name, array in buffer.gather(range(len(buffer))).items()}


def same_episodes(buffer, episodes, **how):
    """The episodes that `to_d4rl` writes of a buffer are these."""
    found = list(_episodes.restored(buffer, how.get("partial", False)).each)
    assert len(found) == len(episodes)
    for got, one in zip(found, episodes):
        for name, array in (("obs", got.obs[""]), ("action", got.action[""]), ("reward", got.reward),
                            ("terminated", got.terminated), ("truncated", got.truncated)):
            assert np.array_equal(array, one[name]), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_step", [1, 2, 5])
@pytest.mark.parametrize("keep_steps", [False, True])
def test_rows_are_those_of_the_reference(dtype, n_step, keep_steps):
    for seed, shape in ((1, (3,)), (2, ()), (3, (2, 2))):
        episodes = make_episodes(seed, shape=shape, dtype=dtype)
        buffer = data.from_numpy(columns_of(episodes), n_step=n_step, gamma=GAMMA, keep_steps=keep_steps, device="cpu")
        assert len(buffer) == buffer.capacity == sum(len(one["reward"]) for one in episodes)
        check(all_of(buffer), reference(episodes, n_step))
        if keep_steps:
            same_episodes(buffer, episodes)


@pytest.mark.parametrize("n_step", [1, 3])
def test_frames_are_stacked(n_step):
    episodes = make_episodes(4, shape=(5, 6), dtype="uint8", count=20)
    buffer = data.from_numpy(columns_of(episodes), n_step=n_step, gamma=GAMMA, frame_stack=4, observations="frames",
                             keep_steps=True, device="cpu")
    check(all_of(buffer), reference(episodes, n_step, stack=4))
    same_episodes(buffer, episodes)


@pytest.mark.parametrize("n_step", [1, 3])
def test_stacks_are_taken_apart(n_step):
    episodes = make_episodes(5, shape=(4, 5), dtype="uint8", count=20)
    for one in episodes:
        frames = np.concatenate([np.zeros((3, 5), np.uint8), one["obs"][:, 0]])
        one["obs"] = np.stack([frames[at:at + 4] for at in range(len(one["obs"]))])
    buffer = data.from_numpy(columns_of(episodes), n_step=n_step, gamma=GAMMA, frame_stack=4, keep_steps=True,
                             device="cpu")
    assert buffer.config["layout"] == "frames"
    check(all_of(buffer), reference(episodes, n_step))
    same_episodes(buffer, episodes)


def test_each_frame_of_many_short_episodes_has_room():
    episodes = make_episodes(4, shape=(2, 2), dtype="uint8", count=1500, longest=3)
    for stack, given in ((4, "frames"), (2, "stacks")):
        buffer = data.from_numpy(columns_of(episodes), frame_stack=stack, observations=given, device="cpu")
        assert len(buffer) == buffer.capacity
        for one in episodes:  # stacks of two frames, of which those before an episode's first are others, too
            frames = np.concatenate([one["obs"][:1, 1], one["obs"][:, 0]])
            one["obs"] = np.stack([frames[:-1], frames[1:]], axis=1)


def test_flags_tell_where_observations_do_not():
    episodes = [{**one, "obs": np.zeros_like(one["obs"])} for one in make_episodes(24, count=30)]
    same_episodes(data.from_numpy(columns_of(episodes), max_batch=5, device="cpu"), episodes)
    same_episodes(data.from_numpy(columns_of(episodes), n_step=3, keep_steps=True, max_batch=5, device="cpu"), episodes)


def lanes_for(num_lanes, steps, autoreset="same_step", shape=(3,)):
    fields = {"obs": (shape, "float32"), "action": "int64"}
    return gpureplay.LaneBuffer(num_lanes, steps, fields, autoreset=autoreset, gamma=GAMMA, device="cpu")


@pytest.mark.parametrize("autoreset", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("num_lanes", [1, 3, 40])
def test_lanes_play_an_episode_each(autoreset, num_lanes):
    episodes = make_episodes(6, count=30)
    buffer = lanes_for(num_lanes, 800, autoreset)
    assert data.from_numpy(columns_of(episodes), into=buffer) is buffer
    total = sum(len(one["reward"]) for one in episodes)
    assert len(buffer) == total
    wanted = reference(episodes, 3)
    steps = data.to_numpy(buffer)
    got = buffer.gather(steps["id"], n_step=3)
    order, rows = np.lexsort(got["obs"].T), np.lexsort(wanted["obs"].T)  # observations are random, and none is twice
    check({name: array[order] for name, array in got.items()}, {name: array[rows] for name, array in wanted.items()})
    found = sorted(_episodes.restored(buffer, False).each, key=lambda one: one.obs[""].tobytes())
    for got, one in pairs(found, sorted(episodes, key=lambda one: one["obs"].tobytes())):
        assert np.array_equal(got.obs[""], one["obs"]) and np.array_equal(got.reward, one["reward"])
        assert np.array_equal(got.terminated, one["terminated"]) and np.array_equal(got.truncated, one["truncated"])


def test_lanes_go_on_with_new_episodes():
    episodes, buffer = make_episodes(7, count=5), lanes_for(2, 100)
    data.from_numpy(columns_of(episodes), into=buffer)
    before = len(buffer)
    for _ in range(3):
        buffer.add(obs=np.ones((2, 3), np.float32), action=np.zeros(2, np.int64), reward=np.ones(2, np.float32),
                   terminated=np.zeros(2, bool), truncated=np.zeros(2, bool))
    assert len(buffer) == before + 4  # the newest step of each lane is not whole
    assert len(list(_episodes.restored(buffer, False).each)) == 7


def test_lanes_without_room_are_refused():
    episodes = make_episodes(8, count=30)
    total = sum(len(one["reward"]) for one in episodes)
    with pytest.raises(ValueError, match=rf"steps is 4 and the data set's 30 episodes of {total} transitions need"):
        data.from_numpy(columns_of(episodes), into=lanes_for(2, 4))
    with pytest.raises(ValueError, match=r"room for 5 final observations, and the data set has 30 episodes"):
        data.from_numpy(columns_of(make_episodes(8, count=30, longest=4)), into=lanes_for(1, 110))


def test_float64_is_rounded():
    episodes = make_episodes(9)
    for one in episodes:
        one["obs"] = one["obs"].astype("float64") * (1 + 1e-9)
        one["reward"] = one["reward"].astype("float64") / 3
    buffer = data.from_numpy(columns_of(episodes), device="cpu")
    got, given = all_of(buffer), columns_of(episodes)
    assert got["obs"].dtype == np.float32 and np.array_equal(got["obs"], given["obs"].astype(np.float32))
    assert np.array_equal(got["reward"], given["reward"].astype(np.float32))
    episodes[3]["obs"][0] = 1e300
    with pytest.raises(ValueError, match=r"obs has .* to 1e\+300; float32 holds"):
        data.from_numpy(columns_of(episodes), device="cpu")


# What the ring no longer has.


def play(buffer, episodes, last=None):
    """Adds the steps of episodes as a program does, the last episode without its end if `last` steps are given."""
    for at, one in enumerate(episodes):
        for t in range(len(one["reward"]) if last is None or at < len(episodes) - 1 else last):
            buffer.add(obs=one["obs"][t], next_obs=one["obs"][t + 1], action=one["action"][t], reward=one["reward"][t],
                       terminated=one["terminated"][t], truncated=one["truncated"][t])


FIELDS = {"obs": ((3,), "float32"), "action": "int64", "reward": "float32", "next_obs": ((3,), "float32"),
          "terminated": "bool", "truncated": "bool"}


def cut(one, first, steps, truncated=True):
    """Steps first ... first + steps - 1 of an episode."""
    part = {name: array[first:first + steps + (name == "obs")].copy() for name, array in one.items()}
    if truncated:
        part["truncated"][-1] = True
    return part


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("keep_steps", [False, True])
def test_overwritten_episodes_are_left_out(n_step, keep_steps):
    if n_step > 1 and not keep_steps:
        return
    long = [{**one, **{name: np.arange(20) == 19 if name == "terminated" else np.zeros(20, bool) for name in ENDS},
             "obs": np.random.default_rng(at).normal(size=(21, 3)).astype("f4"), "action": np.arange(20),
             "reward": np.arange(20, dtype="f4") / 7} for at, one in enumerate(make_episodes(10, count=4))]
    buffer = gpureplay.ReplayBuffer(50, FIELDS, n_step=n_step, gamma=GAMMA, keep_steps=keep_steps, device="cpu")
    play(buffer, long)
    lost = buffer.stats.first_id
    assert 20 < lost < 40
    with pytest.warns(RuntimeWarning, match=rf"^{40 - lost} transitions are left out"):
        same_episodes(buffer, long[2:])
    same_episodes(buffer, [cut(long[1], lost - 20, 40 - lost, truncated=False), *long[2:]], partial=True)
    buffer.trim(15)
    with pytest.raises(ValueError, match=r"15 transitions and no episode from its beginning"):
        same_episodes(buffer, [])


@pytest.mark.parametrize(("n_step", "missing"), [(1, 0), (3, 3), (2, 2)])
def test_open_episodes_end_truncated(n_step, missing):
    episodes = make_episodes(11, count=3, longest=9)
    episodes.append({"obs": np.random.default_rng(1).normal(size=(9, 3)).astype("f4"), "action": np.arange(8),
                     "reward": np.arange(8, dtype="f4"), **{name: np.zeros(8, bool) for name in ENDS}})
    buffer = gpureplay.ReplayBuffer(90, FIELDS, n_step=n_step, gamma=GAMMA, keep_steps=True, device="cpu")
    play(buffer, episodes, last=7)
    same_episodes(buffer, [*episodes[:-1], cut(episodes[-1], 0, 7 - missing)])


def test_environments_in_turns_are_told_apart():
    episodes = make_episodes(12, count=10)
    for keep_steps in (True, False):
        buffer = gpureplay.ReplayBuffer(200, FIELDS, n_step=1, num_envs=2, autoreset="disabled", keep_steps=keep_steps,
                                        device="cpu")
        lanes = [columns_of(episodes[:5]), columns_of(episodes[5:])]
        steps = min(len(lane["reward"]) for lane in lanes)
        for t in range(steps):
            buffer.add(**{name: np.stack([lane[name][t] for lane in lanes]) for name in lanes[0]})
        if not keep_steps:
            with pytest.raises(gpureplay.InvalidArgument, match=r"of 2 environments .* keep_steps=True"):
                list(_episodes.restored(buffer, False).each)
            continue
        found = {one.obs[""].tobytes() for one in _episodes.restored(buffer, False).each}
        for lane in (episodes[:5], episodes[5:]):
            for one, end in zip(lane, itertools.accumulate(len(one["reward"]) for one in lane)):
                assert end > steps or one["obs"].tobytes() in found
        again = data.from_numpy(data.to_numpy(buffer), n_step=3, gamma=GAMMA, device="cpu")
        assert len(again) == len(buffer)  # by id and previous


def test_writers_in_turns_are_not_one_environment():
    lanes = [columns_of(make_episodes(seed)) for seed in (31, 32)]
    for keep_steps in (True, False):
        buffer = gpureplay.ReplayBuffer(200, FIELDS, keep_steps=keep_steps, device="cpu")
        for t in range(20):
            writers = [buffer.writer(1, "disabled") for _ in lanes] if t == 0 else writers
            for writer, lane in zip(writers, lanes):
                writer.add(**{name: array[t] for name, array in lane.items()})
        for writer in writers:
            writer.close()
        if keep_steps:
            assert sum(one.steps for one in _episodes.restored(buffer, False).each) == 40
        else:
            with pytest.raises(gpureplay.InvalidArgument, match=r"transition \d+ does not go on where \d+ left off"):
                _episodes.restored(buffer, False)


def test_what_a_run_has_stored_comes_out():
    env = gpureplay.make_env("CartPole-v1")
    buffer = gpureplay.ReplayBuffer.for_env(4_000, env, min_size=100, keep_steps=True, device="cpu")
    agent = gpureplay.DQN(buffer, preset="cartpole")
    with gpureplay.Run(agent, "CartPole-v1", num_envs=2, eval_period=0) as run:
        run.advance(1)
    episodes = list(_episodes.restored(buffer, True).each)
    assert len(episodes) > 3
    assert sum(one.steps for one in episodes) == len(buffer) == data.to_numpy(buffer)["id"].size
    assert all((one.reward == 1).all() for one in episodes)
    assert sorted(one.steps for one in episodes if one.terminated[-1])[2:][0] > 5  # two may be partial
    assert sum(not one.terminated[-1] for one in episodes) <= 2


def test_sums_of_rewards_are_refused():
    buffer = data.from_numpy(columns_of(make_episodes(13)), n_step=3, device="cpu")
    with pytest.raises(gpureplay.InvalidArgument, match=r"n_step is 3, .* keep_steps=True"):
        _episodes.restored(buffer, False)
    by_priority = gpureplay.ReplayBuffer(50, FIELDS, prioritized=True, eviction="priority", device="cpu")
    with pytest.raises(gpureplay.InvalidArgument, match=r'eviction is "priority"'):
        data.to_numpy(by_priority)


def test_keep_steps_fills_in_the_field():
    buffer = gpureplay.ReplayBuffer(50, FIELDS, n_step=3, gamma=GAMMA, keep_steps=True, reward_clip=0.5, num_envs=2,
                                    autoreset="same_step", device="cpu")
    assert buffer.config["keep_steps"] and buffer.config["sequences"]
    zeros, rewards = np.zeros((2, 3), np.float32), np.random.default_rng(1).normal(size=(10, 2)).astype("f4")
    for t, reward in enumerate(rewards):
        buffer.add(obs=zeros + t, action=[0, 1], reward=reward, next_obs=zeros + t + 1, terminated=[False] * 2,
                   truncated=[t == 9] * 2, final_obs=zeros + 99)
    got = all_of(buffer)
    assert sorted(got["step_reward"]) == sorted(rewards.ravel())  # not clipped
    assert np.abs(got["reward"]).max() <= 0.5 * (1 + GAMMA + GAMMA**2)
    with pytest.raises(TypeError, match="step_reward"):
        buffer.add(obs=zeros, action=[0, 1], reward=[0, 0], next_obs=zeros + 1, terminated=[False] * 2,
                   step_reward=[0, 0])
    with pytest.raises(ValueError, match=r"a field is called 'step_reward', as the one that keep_steps=True adds"):
        gpureplay.ReplayBuffer(50, {**FIELDS, "step_reward": "float32"}, n_step=3, keep_steps=True)
    with pytest.raises(TypeError, match="keep_steps is 1; it must be True or False"):
        gpureplay.ReplayBuffer(50, FIELDS, keep_steps=1)


def test_learners_train_on_what_keeps_its_steps(tmp_path):
    buffer = data.from_numpy(columns_of(make_episodes(14)), n_step=3, keep_steps=True, device="cpu")
    agent = gpureplay.DQN(buffer, num_actions=5, trunk=[8], batch_size=4)
    agent.train(5)
    assert agent.stats.steps == 5
    buffer.save(tmp_path / "buffer")
    other = gpureplay.ReplayBuffer(buffer.capacity, FIELDS, n_step=3, keep_steps=True, device="cpu")
    other.load(tmp_path / "buffer")
    check(all_of(other), all_of(buffer))


# D4RL's form.

D4RL = {"observations": "obs", "actions": "action", "rewards": "reward", "next_observations": "next_obs",
        "terminals": "terminated", "timeouts": "truncated"}


def d4rl_of(episodes, *left_out):
    columns = columns_of(episodes)
    return {name: columns[own] for name, own in D4RL.items() if name not in left_out}


def without_last(one):
    """An episode without next observations: the last one of an episode that was truncated is that of the step before,
    and what follows a terminal is zeros."""
    if one["terminated"][-1]:
        return {**one, "obs": np.concatenate([one["obs"][:-1], np.zeros_like(one["obs"][:1])])}
    return cut(one, 0, len(one["reward"]) - 1) if len(one["reward"]) > 1 else None


@pytest.mark.parametrize("n_step", [1, 3])
def test_d4rl_with_and_without_next_observations(n_step):
    episodes = make_episodes(15, count=20)
    settings = {"n_step": n_step, "gamma": GAMMA, "keep_steps": True, "device": "cpu"}
    same_episodes(data.from_d4rl(d4rl_of(episodes), **settings), episodes)
    shorter = [one for one in map(without_last, episodes) if one is not None]
    assert len(shorter) < len(episodes)
    same_episodes(data.from_d4rl(d4rl_of(episodes, "next_observations"), **settings), shorter)


def test_d4rl_pitfalls():
    episodes = make_episodes(16, count=20)
    for one in episodes:
        one["truncated"] &= ~one["terminated"]
    # Without timeouts the observations tell, where there are next ones.
    same_episodes(data.from_d4rl(d4rl_of(episodes, "timeouts"), keep_steps=True, device="cpu"), episodes)
    # The last row has no flag: with its next observation it is a step, else it is none.
    last = {**episodes[0], "obs": episodes[3]["obs"][:5], "action": np.arange(4), "reward": np.ones(4, np.float32),
            **{name: np.zeros(4, bool) for name in ENDS}}
    last["obs"] = np.random.default_rng(3).normal(size=(5, 3)).astype("f4")
    opened = [*episodes, last]
    same_episodes(data.from_d4rl(d4rl_of(opened), device="cpu"), [*episodes, cut(last, 0, 4)])
    found = list(_episodes.restored(data.from_d4rl(d4rl_of(opened, "next_observations"), device="cpu"), False).each)
    assert found[-1].steps == 3 and np.array_equal(found[-1].obs[""], last["obs"][:4])
    # Neither timeouts nor next observations: a limit of steps says where episodes end.
    steps = {"observations": np.arange(30, dtype="f4").reshape(30, 1), "actions": np.zeros((30, 2), "f4"),
             "rewards": np.zeros((30, 1), "f4"), "terminals": np.zeros(30, "f4")}
    buffer = data.from_d4rl(steps, max_episode_steps=10, n_step=4, gamma=GAMMA, keep_steps=True, device="cpu")
    assert [one.steps for one in _episodes.restored(buffer, False).each] == [9, 9, 9]
    assert not np.isin(all_of(buffer)["obs"], [9, 19, 29]).any()
    assert set(np.unique(all_of(buffer)["next_obs"]) % 10) == {4, 5, 6, 7, 8, 9}
    for missing, arrays in (("terminals", {**steps, "terminals": None}), ("rewards", {**steps, "rewards": None})):
        arrays = {name: array for name, array in arrays.items() if array is not None}
        with pytest.raises(KeyError, match=f"the data set has no {missing}"):
            data.from_d4rl(arrays, device="cpu")
    with pytest.raises(ValueError, match=r"observations has 29 rows and rewards 30"):
        data.from_d4rl({**steps, "observations": steps["observations"][1:]}, device="cpu")
    for name in ("terminals", "timeouts"):
        for value in (np.nan, 0.5, 2, -1):
            flags = np.zeros(30, "f4")
            flags[7] = value
            with pytest.raises(ValueError, match=rf"{name} has {value}(\.0)? in row 7; it must be 0 or 1 in each"):
                data.from_d4rl({**steps, name: flags}, device="cpu")
    with pytest.warns(RuntimeWarning, match="timeout is read as a field of your own; D4RL's name is timeouts"):
        data.from_d4rl({**steps, "timeout": np.zeros(30)}, device="cpu")
    with pytest.warns(RuntimeWarning, match="the name here is (obs|action|reward|terminated), and from_d4rl takes"):
        data.from_numpy(steps, device="cpu")
    rows = {"obs": steps["observations"], "action": steps["actions"], "reward": np.ones(30, "f4")}
    with pytest.raises(ValueError, match=r"terminated has 2 in row 0; it must be 0 or 1 in each"):
        data.from_numpy({**rows, "terminated": np.full(30, 2)}, device="cpu")


def test_d4rl_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    episodes, path = make_episodes(17, count=20), tmp_path / "data.hdf5"
    buffer = data.from_numpy(columns_of(episodes), n_step=3, keep_steps=True, device="cpu")
    data.to_d4rl(buffer, path, compression="gzip")
    wanted = d4rl_of(episodes)
    with h5py.File(path) as file:
        assert set(file) == set(wanted)
        for name, array in wanted.items():
            assert file[name].dtype == array.dtype and np.array_equal(file[name][()], array), name
    calls = []
    again = data.from_d4rl(path, keep_steps=True, device="cpu", progress=lambda *done: calls.append(done))
    same_episodes(again, episodes)
    assert calls[-1] == (len(again), len(again)) and calls == sorted(calls)

    def stop(done, steps):
        raise KeyboardInterrupt

    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        data.to_d4rl(buffer, path, progress=stop)
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["data.hdf5"]
    parts = gpureplay.ReplayBuffer(50, {"obs.a": ((3,), "float32"), "obs.b": "uint8", "action": "int64", "tag": "int32",
                                        "reward": "float32", "next_obs.a": ((3,), "float32"), "next_obs.b": "uint8",
                                        "terminated": "bool", "truncated": "bool"}, device="cpu")
    columns, tags = columns_of(episodes[:5]), np.arange(50, dtype=np.int32)
    count = len(columns["reward"])
    small = np.arange(1 + count, dtype=np.uint8)
    breaks = np.flatnonzero(columns["terminated"] | columns["truncated"])
    parts.extend(obs={"a": columns.pop("obs"), "b": small[:-1]}, next_obs={"a": columns.pop("next_obs"),
                                                                           "b": small[1:]}, tag=tags[:count], **columns)
    data.to_d4rl(parts, path)
    with h5py.File(path) as file:
        assert set(file["observations"]) == {"a", "b"} and np.array_equal(file["tag"], tags[:count])
    back = data.from_d4rl(path, device="cpu")
    assert np.array_equal(all_of(back)["obs.a"], all_of(parts)["obs.a"]) and len(breaks) == 5


# Rows as they are stored.


def round_trips(tmp_path):
    """Ways out and back in."""
    ways = [lambda buffer, **more: data.from_numpy(data.to_numpy(buffer), **more)]
    if sys.modules.get("pyarrow") or _has("pyarrow"):
        def by_file(buffer, **more):
            data.to_parquet(buffer, tmp_path / "rows.parquet")
            return data.from_parquet(tmp_path / "rows.parquet", **more)
        ways += [lambda buffer, **more: data.from_arrow(data.to_arrow(buffer), **more), by_file]
    return ways


def _has(package):
    try:
        __import__(package)
    except ImportError:
        return False
    return True


def test_rows_of_several_steps_go_there_and_back(tmp_path):
    for dtype, shape in (("float32", (3,)), ("uint8", (2, 3, 2)), ("float16", (1,)), ("bool", (2,)), ("int64", ())):
        episodes = make_episodes(18, shape=shape, dtype=dtype)
        buffer = data.from_numpy(columns_of(episodes), n_step=3, gamma=GAMMA, device="cpu")
        for way in round_trips(tmp_path):
            again = way(buffer, n_step=3, gamma=GAMMA, device="cpu")
            assert [field for field in again.fields] == buffer.fields
            for name, array in all_of(buffer).items():
                assert array.tobytes() == all_of(again)[name].tobytes(), name


def test_priorities_go_there_and_back(tmp_path):
    columns = columns_of(make_episodes(19))
    buffer = data.from_numpy(columns, prioritized=True, device="cpu")
    ids = np.arange(len(buffer))
    buffer.update_priorities(ids, np.random.default_rng(1).exponential(size=len(ids)) * 10.0**(ids % 9 - 5))
    for way in round_trips(tmp_path):
        again = way(buffer, prioritized=True, device="cpu")
        assert np.array_equal(again.get_priorities(ids), buffer.get_priorities(ids))
        assert "priority" not in [field.name for field in way(buffer, device="cpu").fields]


def test_steps_that_were_kept_go_there_and_back(tmp_path):
    episodes = make_episodes(20)
    buffer = data.from_numpy(columns_of(episodes), n_step=3, gamma=GAMMA, keep_steps=True, device="cpu")
    lanes = data.from_numpy(columns_of(episodes), into=lanes_for(1, 400))
    for way in round_trips(tmp_path):
        again = way(buffer, n_step=3, gamma=GAMMA, keep_steps=True, device="cpu")
        for name, array in all_of(buffer).items():
            assert array.tobytes() == all_of(again)[name].tobytes(), name
        for settings in ({"n_step": 1, "keep_steps": True}, {}):
            same_episodes(way(buffer, device="cpu", **settings), episodes)
        same_episodes(way(lanes, n_step=2, keep_steps=True, device="cpu"), episodes)
        same_episodes(way(buffer, into=lanes_for(1, 400)), episodes)
    summed = data.to_numpy(data.from_numpy(columns_of(episodes), n_step=3, gamma=GAMMA, device="cpu"))
    for into in (lanes_for(1, 400), gpureplay.ReplayBuffer(400, FIELDS, device="cpu")):
        with pytest.raises(gpureplay.InvalidArgument, match="discount, as transitions of several steps have"):
            data.from_numpy(summed, into=into)


def test_free_fields_go_there_and_back(tmp_path):
    for fields in ({"x": ((2,), "float32")}, {"x.a": "float32", "x.b": "int32", "flag": "bool"},
                   {"obs": ((2,), "uint8"), "action": "int64"}, {"obs": "float16", "next_obs": "float16"},
                   {"obs": "float32", "action": "int32", "reward": ((3,), "float32"), "discount": "float32"}):
        for prioritized in (False, True):
            buffer = gpureplay.ReplayBuffer(40, fields, prioritized=prioritized, device="cpu")
            random = np.random.default_rng(31)
            buffer.writer(1, "disabled").extend(**{field.name: numbers(random, (30, *field.shape), field.dtype.name)
                                                   for field in buffer.fields})
            if prioritized:
                buffer.update_priorities(np.arange(30), random.random(30))
            wanted = data.to_numpy(buffer)
            for way in round_trips(tmp_path):
                into = gpureplay.ReplayBuffer(40, fields, prioritized=prioritized, device="cpu")
                for settings in ({"prioritized": prioritized, "device": "cpu"}, {"into": into}):
                    got = data.to_numpy(way(buffer, **settings))
                    assert got.keys() == wanted.keys()
                    for name, array in wanted.items():
                        assert np.array_equal(got[name], array) and got[name].dtype == array.dtype, (fields, name)
    columns = columns_of(make_episodes(18))
    some = gpureplay.ReplayBuffer(400, {"obs": ((3,), "float32"), "action": "int64"}, device="cpu")
    data.from_numpy({name: columns[name] for name in ("obs", "action", "reward", "terminated")}, into=some)
    for name in ("obs", "action"):
        assert np.array_equal(all_of(some)[name], columns[name])


def test_rows_that_are_no_steps_are_refused_where_episodes_are_built():
    rows = {"obs": np.zeros((9, 3), "f4"), "action": np.zeros(9, "i8")}
    lanes = gpureplay.LaneBuffer(2, 9, {"obs": ((3,), "float32"), "action": "int64", "reward": "float32",
                                        "terminated": "bool", "truncated": "bool"}, device="cpu")
    for settings in ({"into": lanes}, {"into": gpureplay.ReplayBuffer(20, FIELDS, device="cpu")},
                     {"sequences": True, "device": "cpu"}, {"frame_stack": 2, "device": "cpu"}):
        with pytest.raises(KeyError, match="the data set has no reward, which steps of episodes have; it has obs, a"):
            data.from_numpy(rows, **settings)
    with pytest.raises(ValueError, match="n_step above 1 .*want obs, action, reward"):
        data.from_numpy(rows, n_step=3, device="cpu")
    for arrays in (rows, {"x": rows["obs"]}):
        with pytest.raises(ValueError, match=r"y has 3 rows and (obs|x) 9"):
            data.from_numpy({**arrays, "y": np.zeros(3)}, device="cpu")
    with pytest.raises(ValueError, match="there is no action, and action_bounds is given"):
        data.from_numpy({"x": rows["obs"]}, action_bounds=(-1, 1), device="cpu")
    with pytest.raises(KeyError, match="the data set has no columns"):
        data.from_numpy({}, device="cpu")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_full_buffer_overwrites_is_told(tmp_path, monkeypatch):
    spaces = pytest.importorskip("gymnasium").spaces
    box, action = spaces.Box(-9, 9, (3,)), spaces.Box(-2, 2, (1,))
    columns = columns_of(make_episodes(24))
    columns["action"] = columns["action"].astype("f4").reshape(-1, 1)
    count, source = len(columns["reward"]), data.from_numpy(columns, device="cpu")
    ways = [lambda into: data.from_numpy(columns, into=into)]
    if _has("pyarrow"):
        data.to_parquet(source, tmp_path / "rows.parquet")
        data.to_lerobot(source, tmp_path / "set")
        ways += [lambda into: data.from_parquet(tmp_path / "rows.parquet", into=into),
                 lambda into: data.from_lerobot(tmp_path / "set", into=into)]
    if _has("h5py"):
        data.to_d4rl(source, tmp_path / "set.hdf5")
        ways.append(lambda into: data.from_d4rl(tmp_path / "set.hdf5", into=into))
    if _has("minari"):
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
        data.to_minari(source, "of/set-v0", action_space=action)
        ways.append(lambda into: data.from_minari("of/set-v0", into=into))
    for way in ways:
        for n_step in (1, 2):
            buffer = gpureplay.ReplayBuffer(count + 5, box, action, n_step=n_step, device="cpu")
            way(buffer)
            with pytest.warns(RuntimeWarning, match=rf"was full, so that {count - 5} transitions were overwritten; its "
                                                    rf"capacity is {count + 5}") as told:
                way(buffer)
            assert [one.filename for one in told] == [__file__] and len(buffer) == count + 5
        lanes = gpureplay.LaneBuffer(1, count + 17, box, action, autoreset="next_step", device="cpu")
        way(lanes)  # after each of the 12 episodes the lane has a step that resets
        with pytest.warns(RuntimeWarning, match=rf"{count + 7} steps of each lane were overwritten; its steps are"):
            way(lanes)


def test_columns_of_other_forms():
    pa = pytest.importorskip("pyarrow")
    columns = columns_of(make_episodes(21, shape=(2, 3)))
    tensors = {name: pa.FixedShapeTensorArray.from_numpy_ndarray(array) if array.ndim > 1 else pa.array(array)
               for name, array in columns.items()}
    lists = {name: pa.array(array.tolist()) for name, array in columns.items()}
    for given in (tensors, lists):
        buffer = data.from_arrow(pa.table(given), device="cpu")
        assert np.array_equal(all_of(buffer)["obs"], columns["obs"])
    for wrong, match in (([[1.0], [2.0, 3.0]], "lists of"), ([1.0, None], "rows without a value"),
                         (["a", "b"], "it must be")):
        table = pa.table({"obs": pa.array(wrong), "action": [1, 2], "reward": [0.0, 0.0], "terminated": [False, True]})
        with pytest.raises((ValueError, TypeError), match=match):
            data.from_arrow(table, device="cpu")


# Minari.


def minari_of(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari = pytest.importorskip("minari")
    pytest.importorskip("h5py")
    pytest.importorskip("PIL")
    return minari


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one.dtype == other.dtype and np.array_equal(one, other)


def sampled(space, count):
    import gymnasium
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: sampled(part, count) for key, part in space.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(sampled(part, count) for part in space)
    found = np.stack([np.asarray(space.sample()) for _ in range(count)])
    return found.astype(np.float32).astype(space.dtype) if space.dtype == np.float64 else found


def minari_dataset(minari, spaces, name="of/test-v0"):
    """Of episodes whose numbers float32 holds."""
    from minari.data_collector import EpisodeBuffer
    if spaces[0].shape != (3,) and not _takes_jpeg(minari):
        pytest.skip("Minari before 0.5.4 makes JPEGs of uint8")
    buffers = []
    for space in spaces:
        space.seed(3)
    for one in make_episodes(22):
        steps = len(one["reward"])
        buffers.append(EpisodeBuffer(
            observations=sampled(spaces[0], steps + 1), actions=sampled(spaces[1], steps),
            rewards=one["reward"].astype("float64"), terminations=one["terminated"],
            truncations=one["truncated"] | ~one["terminated"] & (np.arange(steps) == steps - 1),
            infos={"tag": np.arange(steps + 1)}))
    return minari.create_dataset_from_buffers(name, buffers, observation_space=spaces[0], action_space=spaces[1],
                                              **({"jpeg_encoding": False} if _takes_jpeg(minari) else {}))


def _takes_jpeg(minari):
    import inspect
    return "jpeg_encoding" in inspect.signature(minari.create_dataset_from_buffers).parameters


def spaces_of(kind):
    from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
    if kind == "box":
        return Box(-5, 5, (3,), np.float64), Discrete(3)
    if kind == "image":
        return Box(0, 255, (36, 40, 3), np.uint8), Box(-1, 1, (2,), np.float32)
    parts = {"a": Box(-1, 1, (2, 2), np.float32), "b": Tuple((Discrete(4, start=2), MultiBinary(3))),
             "c": Box(0, 200, (4,), np.uint8), "d": MultiDiscrete([2, 3]), "e.f": Box(-9, 9, (1,), np.int16)}
    return Dict(parts), Box(-1, 1, (2,), np.float32)


def same_datasets(one, other):
    assert one.observation_space == other.observation_space and one.action_space == other.action_space
    for wanted, got in pairs(one.iterate_episodes(), other.iterate_episodes()):
        for name in ("observations", "actions", "rewards", "terminations", "truncations"):
            assert equal(getattr(wanted, name), getattr(got, name)), name


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kind", "n_step", "flatten"), [
    ("box", 1, False), ("box", 3, False), ("image", 1, False), ("image", 3, False), ("dict", 1, False),
    ("dict", 1, True), ("dict", 3, True)])
def test_minari_there_and_back(tmp_path, monkeypatch, kind, n_step, flatten):
    minari = minari_of(tmp_path, monkeypatch)
    dataset = minari_dataset(minari, spaces_of(kind))
    monkeypatch.setattr(data, "_GROUP_BYTES", 500)
    buffer = data.from_minari("of/test-v0", n_step=n_step, flatten=flatten, keep_steps=n_step > 1, device="cpu")
    assert len(buffer) == buffer.capacity == dataset.total_steps
    same_datasets(dataset, data.to_minari(buffer, "of/other-v0"))
    half = dataset.filter_episodes(lambda one: one.terminations[-1])
    assert 0 < half.total_episodes < dataset.total_episodes
    again = data.from_minari(half, n_step=n_step, flatten=flatten, keep_steps=n_step > 1, device="cpu")
    same_datasets(half, data.to_minari(again, "of/half-v0"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_minari_in_lanes_and_with_fields_of_its_own(tmp_path, monkeypatch):
    minari = minari_of(tmp_path, monkeypatch)
    spaces = spaces_of("dict")
    dataset = minari_dataset(minari, spaces)
    lanes = gpureplay.LaneBuffer(1, 200, *spaces, device="cpu", autoreset="next_step")
    data.from_minari(dataset, into=lanes)
    same_datasets(dataset, data.to_minari(lanes, "of/lanes-v0"))
    box = minari_dataset(minari, spaces_of("box"), "of/box-v0")
    buffer = gpureplay.ReplayBuffer(200, {**FIELDS, "tag": "int64"}, n_step=3, keep_steps=True, device="cpu")
    data.from_minari(box, into=buffer)
    other = data.to_minari(buffer, "of/tags-v0", action_space=box.action_space)
    for wanted, got in pairs(box.iterate_episodes(), other.iterate_episodes()):
        assert np.array_equal(wanted.infos["tag"], got.infos["tag"])
        assert np.array_equal(wanted.observations, got.observations) and got.observations.dtype == np.float32
    with pytest.raises(ValueError, match=r"capacity is 7 and the data set has \d+ transitions"):
        data.from_minari(box, capacity=7, device="cpu")
    with pytest.raises(ValueError, match=r"the space is Box\(.*of shape \(3,\), and the buffer's arrays have"):
        data.to_minari(data.from_numpy(columns_of(make_episodes(1, shape=(4,))), device="cpu"), "of/wrong-v0",
                       observation_space=box.observation_space)

    with pytest.raises(TypeError, match="dataset is 3; it must be a minari.MinariDataset, or the id of one"):
        data.from_minari(3)
    with pytest.raises(ValueError, match='dataset_id is \'mine\'; it must be a text such as "namespace/name-v0"'):
        data.to_minari(buffer, "mine")

    def stop(done, steps):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.to_minari(buffer, "of/stopped-v0", progress=stop)
    assert "of/stopped-v0" not in minari.list_local_datasets()


# Actions that are not -1 to 1.


def pendulum_columns(count=60):
    """The steps of three episodes, with actions of two numbers, which have bounds of their own."""
    random = np.random.default_rng(31)
    obs = numbers(random, (count + 1, 3), "float32")
    actions = random.uniform([-2, 0], [2, 10], (count, 2)).astype("float32")
    actions[0], actions[1] = (-2, 0), (2, 10)
    ends = np.arange(count) % 20 == 19
    return {"obs": obs[:-1], "action": actions, "reward": numbers(random, count, "float32"), "next_obs": obs[1:],
            "terminated": np.zeros(count, bool), "truncated": ends}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", ["numpy", "d4rl", "arrow", "parquet", "lerobot", "minari"])
def test_actions_are_scaled_and_come_back(tmp_path, monkeypatch, way):
    columns, bounds = pendulum_columns(), ([-2, 0], [2, 10])
    low, high = np.array(bounds, np.float64)
    buffer = data.from_numpy(columns, action_bounds=bounds, device="cpu")
    order = np.argsort(buffer.gather(np.arange(60)).id)
    wanted = (columns["action"].astype(np.float64) - low) / (high - low) * 2 - 1
    stored = np.array(buffer.gather(np.arange(60)).action)[order]
    assert np.abs(stored - wanted).max() < 1e-6 and (np.abs(stored) <= 1).all()
    assert (stored[0] == -1).all() and (stored[1] == 1).all()
    given, place = {"device": "cpu", "action_bounds": bounds}, tmp_path / "there"
    if way == "numpy":
        found, again = data.to_numpy(buffer, action_bounds=bounds)["action"], buffer
    elif way == "arrow":
        pytest.importorskip("pyarrow")
        again = data.from_arrow(data.to_arrow(buffer, action_bounds=bounds), **given)
    elif way == "minari":
        minari_of(tmp_path, monkeypatch)
        dataset = data.to_minari(buffer, "of/bounds-v0", action_bounds=bounds)
        assert dataset.action_space.low.tolist() == bounds[0] and dataset.action_space.high.tolist() == bounds[1]
        found = np.concatenate([one.actions for one in dataset.iterate_episodes()])
        again = data.from_minari(dataset, device="cpu", action_bounds=True)
        assert again._action_space.low.tolist() == [-1, -1] and again._action_space.high.tolist() == [1, 1]
    else:
        pytest.importorskip({"d4rl": "h5py"}.get(way, "pyarrow"))
        getattr(data, f"to_{way}")(buffer, place, action_bounds=bounds)
        again = getattr(data, f"from_{way}")(place, **given)
    if way in ("numpy", "minari"):
        assert np.abs(found - columns["action"]).max() < 2e-6 and found.dtype == np.float32
    got = np.array(again.gather(np.arange(60)).action)
    assert np.abs(got - stored).max() < 1e-6 and (np.abs(got) <= 1).all()


def test_a_learner_of_vectors_trains_on_scaled_actions(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    columns = pendulum_columns(100)
    columns["action"] = columns["action"][:, :1]
    spaces = {"observation_space": gymnasium.spaces.Box(-9, 9, (3,)), "action_space": gymnasium.spaces.Box(-2, 2, (1,))}
    refused = data.from_numpy(columns, device="cpu", **spaces)
    with pytest.raises(gpureplay.InvalidArgument, match="action_bounds=True"):
        gpureplay.train_offline(refused, "offline-dpg", steps=5, progress=False)
    buffer = data.from_numpy(columns, action_bounds=True, device="cpu", **spaces)
    result = gpureplay.train_offline(buffer, "offline-dpg", env="Pendulum", steps=20, eval_episodes=1, progress=False)
    assert result.stats.train_steps == 20 and -3000 < result.evaluations["mean_return"][0] < 0


def test_bounds_that_do_not_fit_are_refused():
    columns = pendulum_columns()
    for bounds, error, match in (
            (True, ValueError, r"action_bounds is True and the action space is None; it must be a Box"),
            ((0, 1, 2), TypeError, r"action_bounds is \(0, 1, 2\); it must be \(low, high\), True or None"),
            ((1, -1), ValueError, "action_bounds is 1.0 to -1.0; the bounds must be finite, and low below high"),
            ((0, float("inf")), ValueError, "the bounds must be finite"),
            ((-1, 1), ValueError, "an action has -2; it must be within action_bounds, -1.0 to 1.0")):
        with pytest.raises(error, match=match):
            data.from_numpy(columns, action_bounds=bounds, device="cpu")
    with pytest.raises(TypeError, match="actions are int64 and action_bounds is given; only floats are scaled"):
        data.from_numpy({**columns, "action": np.zeros(60, np.int64)}, action_bounds=(0, 1), device="cpu")
    parts = {"action.a": columns["action"], "action.b": columns["action"]}
    del columns["action"]
    with pytest.raises(ValueError, match="actions have the parts .a, .b and action_bounds is given"):
        data.from_numpy({**columns, **parts}, action_bounds=(0, 1), device="cpu")


# What is refused.


def test_what_does_not_fit_is_refused(monkeypatch):
    columns = columns_of(make_episodes(23))
    count, buffer = len(columns["reward"]), gpureplay.ReplayBuffer(20, FIELDS, device="cpu")
    for settings in ({"into": buffer}, {"capacity": 20, "device": "cpu"},
                     {"capacity": 20, "n_step": 3, "device": "cpu"}):
        with pytest.raises(ValueError, match=rf"capacity is 20 and the data set has {count} transitions"):
            data.from_numpy(columns, **settings)
    assert len(buffer) == 0 and buffer.stats.appended == 0
    wide = gpureplay.ReplayBuffer(500, {**FIELDS, "tag": "int32"}, device="cpu")
    stepped = gpureplay.ReplayBuffer(500, {**FIELDS, "tag": "int32"}, n_step=2, device="cpu")
    for into in (wide, stepped):
        with pytest.raises(TypeError, match=r"the data set lacks \['tag'\]"):
            data.from_numpy(columns, into=into)
        with pytest.raises(TypeError, match=r"has \['obs.x'\] beyond"):
            data.from_numpy({**columns, "tag": columns["action"], "obs.x": columns["obs"],
                             "next_obs.x": columns["obs"]}, into=into)
        with pytest.raises(TypeError, match="action is float32; it must be int64"):
            data.from_numpy({**columns, "tag": columns["action"], "action": columns["reward"]}, into=into)
        assert len(into) == 0
    with pytest.raises(TypeError, match="into is given, and n_step, seed"):
        data.from_numpy(columns, into=wide, n_step=3, seed=1)
    with pytest.raises(TypeError, match="into is a dict; it must be a ReplayBuffer or a LaneBuffer"):
        data.from_numpy(columns, into={})
    with pytest.raises(ValueError, match="the data set has no rows"):
        data.from_numpy({name: array[:0] for name, array in columns.items()}, device="cpu")
    for call, match in ((data.from_numpy, "arrays is 3; it must be a dict of arrays"),
                        (data.from_d4rl, "source is 3; it must be a path, an h5py.File or a dict of arrays")):
        with pytest.raises(TypeError, match=match):
            call(3)
    for call, package in ((lambda: data.from_minari("x"), "minari"), (lambda: data.from_d4rl("x"), "h5py"),
                          (lambda: data.from_parquet("x"), "pyarrow"), (lambda: data.to_arrow(wide), "pyarrow")):
        for name in [name for name in sys.modules if name.partition(".")[0] == package] + [package]:
            monkeypatch.setitem(sys.modules, name, None)
        wide.extend(**{**{name: array[:5] for name, array in columns.items()}, "tag": np.arange(5)})
        with pytest.raises(ModuleNotFoundError, match=rf"needs {package}, .*`pip install {package}"):
            call()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_page_runs(tmp_path, monkeypatch, capsys):
    minari_of(tmp_path, monkeypatch)
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    block, = blocks_of_page("data.md")
    found = {}
    exec(compile(block, "data.md", "exec"), found)
    assert capsys.readouterr().out == "990\n" and len(found["lanes"]) == 990


# LeRobot.


@pytest.mark.parametrize(("shape", "dtype", "n_step"), [
    ((3,), "float32", 1), ((3,), "float32", 3), ((5, 6, 3), "uint8", 1), ((4, 5, 6), "uint8", 3),
    ((2, 3), "float32", 1), ((), "int64", 1)])
def test_lerobot_there_and_back(tmp_path, shape, dtype, n_step):
    pytest.importorskip("pyarrow")
    if shape[-1:] == (3,) and len(shape) == 3:
        pytest.importorskip("PIL")
    episodes = make_episodes(25, shape=shape, dtype=dtype)
    buffer = data.from_numpy(columns_of(episodes), n_step=n_step, keep_steps=True, device="cpu")
    data.to_lerobot(buffer, tmp_path / "set", fps=10, task="a task")
    again = data.from_lerobot(tmp_path / "set", n_step=n_step, keep_steps=True, device="cpu")
    assert {field.name: field for field in again.fields} == {field.name: field for field in buffer.fields}
    same_episodes(again, episodes)
    same_episodes(data.from_lerobot(tmp_path / "set", into=lanes_for(1, 800, shape=shape)), episodes) \
        if dtype == "float32" else None


def test_lerobot_writes_several_files_and_parts(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from gpureplay import _lerobot
    monkeypatch.setattr(_lerobot, "_FILE_BYTES", 1000)
    monkeypatch.setattr(_lerobot, "_FILES_OF_A_CHUNK", 3)
    fields = {"obs.a": ((3,), "float32"), "obs.b.c": "uint8", "action": ((2,), "float32"), "tag": "int32",
              "reward": "float32", "next_obs.a": ((3,), "float32"), "next_obs.b.c": "uint8", "terminated": "bool",
              "truncated": "bool"}
    columns = columns_of(make_episodes(26, count=30))
    count = len(columns["reward"])
    small = np.arange(count + 1, dtype=np.uint8)
    columns.update({"obs.a": columns.pop("obs"), "next_obs.a": columns.pop("next_obs"), "tag": np.arange(count),
                    "obs.b.c": small[:-1], "next_obs.b.c": small[1:],
                    "action": np.random.default_rng(1).normal(size=(count, 2)).astype("f4")})
    buffer = gpureplay.ReplayBuffer(400, fields, device="cpu")
    buffer.extend(**columns)
    data.to_lerobot(buffer, tmp_path / "set")
    files = sorted(path.relative_to(tmp_path / "set/data").as_posix() for path in tmp_path.glob("set/data/*/*"))
    assert len(files) > 4 and files[3] == "chunk-001/file-000.parquet"
    frames = _arrow.of_files([str(tmp_path / "set/data" / name) for name in files]).columns
    assert np.array_equal(frames["index"][:], np.arange(count)) and set(frames["episode_index"][:]) == set(range(30))
    assert np.allclose(frames["timestamp"][:], frames["frame_index"][:] / 30)
    again = data.from_lerobot(tmp_path / "set", into=gpureplay.ReplayBuffer(400, fields, device="cpu"))
    for name, array in all_of(buffer).items():
        assert np.array_equal(all_of(again)[name], array), name
    chosen = data.from_lerobot(tmp_path / "set", observations=["observation.a"], device="cpu")
    assert np.array_equal(all_of(chosen)["obs"], columns["obs.a"])

    def stop(done, steps):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.to_lerobot(buffer, tmp_path / "stopped", progress=stop)
    assert not (tmp_path / "stopped").exists()
    with pytest.raises(FileExistsError):
        data.to_lerobot(buffer, tmp_path / "set")


def lerobot_of(folder, episodes, left_out=(), **features):
    """A data set in form 2.1: a file for each episode, with lists, and without the last observations."""
    import json

    import pyarrow as pa
    import pyarrow.parquet
    names = {"observation.state": "obs", "action": "action", "next.reward": "reward", "next.done": "terminated"}
    (folder / "meta").mkdir(parents=True)
    (folder / "data/chunk-000").mkdir(parents=True)
    described = {"observation.state": {"dtype": "float32", "shape": [3]}, "action": {"dtype": "int64", "shape": [1]},
                 "next.reward": {"dtype": "float32", "shape": [1]}, "next.done": {"dtype": "bool", "shape": [1]},
                 **features}
    for name in left_out:
        del described[name]
    (folder / "meta/info.json").write_text(json.dumps({"codebase_version": "v2.1", "features": described}))
    for at, one in enumerate(episodes):
        steps = len(one["reward"])
        columns = {name: pa.array(one[own][:steps].tolist()) for name, own in names.items() if name in described}
        pa.parquet.write_table(pa.table({**columns, "episode_index": [at] * steps}),
                               folder / f"data/chunk-000/episode_{at:06d}.parquet")


def test_lerobot_of_others(tmp_path):
    pytest.importorskip("pyarrow")
    episodes = make_episodes(27, count=15)
    for one in episodes:
        one["truncated"] &= ~one["terminated"]
    lerobot_of(tmp_path / "a", episodes)
    same_episodes(data.from_lerobot(tmp_path / "a", keep_steps=True, n_step=3, device="cpu"),
                  [one for one in map(without_last, episodes) if one is not None])
    lerobot_of(tmp_path / "b", episodes, left_out=("next.reward", "next.done"))
    with pytest.raises(KeyError, match=r"has no next.reward; .* final_reward=1.0"):
        data.from_lerobot(tmp_path / "b", device="cpu")
    buffer = data.from_lerobot(tmp_path / "b", final_reward=1.0, device="cpu")
    ends = np.concatenate([np.arange(len(one["reward"])) == len(one["reward"]) - 1 for one in episodes])
    got = all_of(buffer)
    assert np.array_equal(got["terminated"], ends) and np.array_equal(got["reward"], ends)
    assert not got["truncated"].any() and not got["next_obs"][ends].any()
    with pytest.raises(ValueError, match=r"final_reward is 1.0 and the data set has next.reward"):
        data.from_lerobot(tmp_path / "a", final_reward=1.0, device="cpu")
    lerobot_of(tmp_path / "c", episodes, **{"observation.images.top": {"dtype": "video", "shape": [4, 4, 3]}})
    with pytest.raises(ValueError, match=r"observation.images.top is a video"):
        data.from_lerobot(tmp_path / "c", device="cpu")
    data.from_lerobot(tmp_path / "c", observations=["observation.state"], device="cpu")
    with pytest.raises(KeyError, match=r"observations has 'observation.x'"):
        data.from_lerobot(tmp_path / "c", observations=["observation.x"], device="cpu")
    with pytest.raises(FileNotFoundError, match=r"has no meta/info.json"):
        data.from_lerobot(tmp_path, device="cpu")


@pytest.mark.parametrize("shape", [(3,), (1,), (5, 6, 3), (2, 3), (2, 3, 4)])
def test_lerobot_reads_what_is_written(tmp_path, shape):
    """LeRobot's own reader, where it is installed."""
    pytest.importorskip("pyarrow")
    lerobot_dataset = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    is_image = len(shape) == 3 and shape[-1] == 3
    episodes = make_episodes(28, shape=shape, dtype="uint8" if is_image else "float32")
    data.to_lerobot(data.from_numpy(columns_of(episodes), device="cpu"), tmp_path / "set", fps=10, task="a task")
    found = lerobot_dataset.LeRobotDataset("of/test", root=tmp_path / "set")
    columns = columns_of(episodes)
    assert found.num_episodes == len(episodes) and len(found) == len(columns["reward"]) and found.fps == 10
    for at in range(len(found)):
        frame = found[at]
        obs = frame["observation.image"].numpy().transpose(1, 2, 0) * 255 if is_image else \
            frame["observation.state"].numpy()
        assert np.allclose(obs.reshape(shape), columns["obs"][at]) and frame["task"] == "a task"
        assert frame["action"] == columns["action"][at] and frame["next.reward"] == columns["reward"][at]
        assert frame["next.done"] == columns["terminated"][at] and frame["next.truncated"] == columns["truncated"][at]
    stats = found.meta.stats["observation.image" if is_image else "observation.state"]
    numbers = columns["obs"].reshape(-1, 3) / 255 if is_image else columns["obs"].reshape(len(found), -1)
    assert np.allclose(stats["mean"].ravel(), numbers.mean(0), atol=1e-5)
    assert np.allclose(stats["std"].ravel(), numbers.std(0), atol=1e-5)


def test_what_lerobot_writes_is_read(tmp_path):
    lerobot_dataset = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    features = {"observation.state": {"dtype": "float32", "shape": (3,), "names": None},
                "observation.image": {"dtype": "image", "shape": (8, 9, 3), "names": ["height", "width", "channels"]},
                "action": {"dtype": "float32", "shape": (2,), "names": None},
                "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
                "next.done": {"dtype": "bool", "shape": (1,), "names": None}}
    random, frames = np.random.default_rng(29), []
    written = lerobot_dataset.LeRobotDataset.create("of/test", fps=10, features=features, root=tmp_path / "set",
                                                    use_videos=False)
    for steps in (4, 1, 7):
        for t in range(steps):
            frame = {"observation.state": random.normal(size=3).astype("f4"),
                     "observation.image": random.integers(0, 255, (8, 9, 3), dtype=np.uint8),
                     "action": random.normal(size=2).astype("f4"), "next.reward": np.array([t], "f4"),
                     "next.done": np.array([t == steps - 1])}
            frames.append(frame)
            written.add_frame({**frame, "task": "a task"})
        written.save_episode()
    written.finalize()
    got = all_of(data.from_lerobot(tmp_path / "set", device="cpu"))
    for name, own in (("obs.state", "observation.state"), ("obs.image", "observation.image"), ("action", "action")):
        assert np.array_equal(got[name], np.stack([frame[own] for frame in frames])), name
    assert np.flatnonzero(got["terminated"]).tolist() == [3, 4, 11] and got["reward"].tolist()[5:] == [*range(7)]
    assert np.array_equal(got["next_obs.state"][:3], got["obs.state"][1:4]) and not got["next_obs.image"][11].any()


# What is refused where it is given.


def test_actions_keep_their_shape(tmp_path, monkeypatch):
    columns = pendulum_columns()
    one = {**columns, "action": columns["action"][:, :1] / 2}
    match = r"action_bounds has shape \(3,\) and an action \(1,\); it must be two numbers, or two arrays of the shape"
    with pytest.raises(ValueError, match=match):
        data.from_numpy(one, action_bounds=([-2] * 3, [2] * 3), device="cpu")
    buffer = data.from_numpy(one, action_bounds=(-2, 2), device="cpu")
    with pytest.raises(ValueError, match=match):
        data.to_numpy(buffer, action_bounds=([-2] * 3, [2] * 3))
    with pytest.raises(TypeError, match=r"it must be \(low, high\), True or None"):
        data.from_numpy(columns, action_bounds=([-2] * 2, [2] * 3), device="cpu")
    flat = {**one, "action": one["action"].reshape(-1)}
    assert data.from_numpy(flat, action_bounds=([-2], [2]), device="cpu").gather([0])["action"].shape == (1,)
    if _has("gymnasium"):
        spaces = sys.modules["gymnasium"].spaces
        with pytest.raises(ValueError, match=r"has shape \(4,\) and an action \(1,\)"):
            data.from_numpy(one, action_space=spaces.Box(-2, 2, (4,)), action_bounds=True, device="cpu")
        minari_of(tmp_path, monkeypatch)
        with pytest.raises(ValueError, match=match):
            data.to_minari(buffer, "of/bounds-v0", action_bounds=([-2] * 3, [2] * 3))


def test_rows_of_other_steps_are_refused(tmp_path):
    columns = columns_of(make_episodes(18))
    buffer = data.from_numpy(columns, n_step=3, gamma=GAMMA, device="cpu")
    for at, way in enumerate(round_trips(tmp_path)):
        for n_step, gamma, found in ((5, GAMMA, "n_step 3"), (2, GAMMA, "n_step 3"), (1, GAMMA, "n_step 3"),
                                     (3, 0.5, "gamma 0.9" if at else "a discount of 0.")):
            with pytest.raises(gpureplay.InvalidArgument, match=f"n_step is {n_step} and gamma {gamma}, .*{found}"):
                way(buffer, n_step=n_step, gamma=gamma, device="cpu")
    kept = data.from_numpy(columns, n_step=3, gamma=GAMMA, keep_steps=True, device="cpu")
    for way in round_trips(tmp_path):
        for n_step, gamma in ((5, GAMMA), (2, GAMMA), (3, 0.5)):
            got = all_of(way(kept, n_step=n_step, gamma=gamma, device="cpu"))
            wanted = all_of(data.from_numpy(columns, n_step=n_step, gamma=gamma, device="cpu"))
            for name, array in wanted.items():
                assert np.array_equal(got[name], array), name
    own = {**columns, "discount": np.where(columns["terminated"], 0, 0.77).astype(np.float32)}
    assert np.array_equal(all_of(data.from_numpy(own, device="cpu"))["discount"], own["discount"])


def test_own_fields_come_back_from_d4rl(tmp_path):
    pytest.importorskip("h5py")
    columns = columns_of(make_episodes(17))
    columns["cost"] = np.arange(len(columns["reward"]), dtype=np.float32)
    buffer = data.from_numpy(columns, device="cpu")
    data.to_d4rl(buffer, tmp_path / "own.hdf5")
    fields = {**FIELDS, "cost": "float32"}
    for settings in ({"device": "cpu"}, {"into": gpureplay.ReplayBuffer(400, fields, device="cpu")}):
        again = data.from_d4rl(tmp_path / "own.hdf5", **settings)
        assert np.array_equal(all_of(again)["cost"], columns["cost"])
    given = {**d4rl_of(make_episodes(17)), "name": "x", "infos/qpos": columns["obs"], "few": np.zeros(2)}
    assert not {"name", "infos/qpos", "few"} & {one.name for one in data.from_d4rl(given, device="cpu").fields}


def test_no_buffer_is_refused(tmp_path):
    for call in (lambda: data.to_numpy("b"), lambda: data.to_arrow("b"), lambda: data.to_d4rl("b", tmp_path / "x"),
                 lambda: data.to_parquet("b", tmp_path / "x"), lambda: data.to_lerobot("b", tmp_path / "x")):
        with pytest.raises(TypeError, match="buffer is 'b'; it must be a ReplayBuffer or a LaneBuffer"):
            call()
    assert not list(tmp_path.iterdir())


def test_rewards_are_a_number_for_each_row():
    arrays = d4rl_of(make_episodes(17))
    count = len(arrays["rewards"])
    for name, wrong, match in (
            ("rewards", np.ones((count, 2), np.float32), rf"rewards is float32 of shape \({count}, 2\); it must be a"),
            ("rewards", 1.0, "rewards is 1.0; it must be an array with a row for each step"),
            ("timeouts", np.zeros((count, 2)), r"timeouts is float64 of shape .*, 2\); it must be a number for each")):
        with pytest.raises(TypeError, match=match):
            data.from_d4rl({**arrays, name: wrong}, device="cpu")


def test_spaces_are_given_together():
    spaces = pytest.importorskip("gymnasium").spaces
    columns = columns_of(make_episodes(17))
    box = spaces.Box(-9, 9, (3,))
    for name, other in (("observation_space", "action_space None"), ("action_space", "observation_space is None")):
        with pytest.raises(TypeError, match=f"{other}.*both must be given, or neither"):
            data.from_numpy(columns, device="cpu", **{name: box})
    with pytest.raises(TypeError, match="flatten=True needs observation_space= and action_space="):
        data.from_numpy(columns, flatten=True, device="cpu")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_not_there_is_said_in_words(tmp_path, monkeypatch):
    columns = columns_of(make_episodes(17))
    buffer = data.from_numpy(columns, device="cpu")
    if _has("h5py"):
        (tmp_path / "text.hdf5").write_text("text")
        with pytest.raises(OSError, match=r"source is '.*text.hdf5', which HDF5 cannot read"):
            data.from_d4rl(tmp_path / "text.hdf5", device="cpu")
        with pytest.raises(FileNotFoundError, match=r"none.hdf5"):
            data.from_d4rl(tmp_path / "none.hdf5", device="cpu")
    if _has("minari"):
        minari_of(tmp_path, monkeypatch)
        with pytest.raises(FileNotFoundError, match="`minari download of/none-v0` gets it"):
            data.from_minari("of/none-v0", device="cpu")
        data.to_minari(buffer, "of/some-v0")
        for path in (tmp_path / "of/some-v0/data").iterdir():
            was = path.read_bytes()
            path.write_text("text")
            with pytest.raises(OSError, match="dataset is 'of/some-v0', which Minari cannot read"):
                data.from_minari("of/some-v0", device="cpu")
            path.write_bytes(was)
    if _has("pyarrow"):
        data.to_lerobot(buffer, tmp_path / "set")
        with pytest.raises(TypeError, match=r"observations is 'observation.state'; it must be a list of features"):
            data.from_lerobot(tmp_path / "set", observations="observation.state", device="cpu")
        (tmp_path / "text.parquet").write_text("text of a dozen letters")
        with pytest.raises(OSError, match=r"'.*text.parquet' cannot be read; it must be a Parquet file"):
            data.from_parquet(tmp_path / "text.parquet", device="cpu")
        with pytest.raises(FileNotFoundError, match=r"none.parquet"):
            data.from_parquet(tmp_path / "none.parquet", device="cpu")
        for path in ("data/chunk-000", "meta/episodes/chunk-000"):
            file = tmp_path / "set" / path / "file-000.parquet"
            was = file.read_bytes()
            file.write_bytes(was[:len(was) // 2])
            with pytest.raises(OSError, match=rf"set/{path}/file-000.parquet' cannot be read; it must be a Parquet"):
                data.from_lerobot(tmp_path / "set", device="cpu")
            file.write_bytes(was)
        for text in ("text", "[]", "{}", '{"features": 3}'):
            (tmp_path / "set/meta/info.json").write_text(text)
            with pytest.raises(ValueError, match=r"set/meta/info.json has .*must be the folder of a data set of LeRo"):
                data.from_lerobot(tmp_path / "set", device="cpu")
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"] + ["pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match="needs pyarrow"):
        data.to_lerobot(buffer, tmp_path / "again")
    assert not (tmp_path / "again").exists()
