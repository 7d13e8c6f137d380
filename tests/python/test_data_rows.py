# SPDX-License-Identifier: MIT
"""What a buffer stores goes into a data set of rows and comes back bit for bit: of random steps, also of episodes that
go on, were reset, or have lost their first rows."""

import gpureplay
import numpy as np
import pytest
from gpureplay import ReplayBuffer, _episodes, _tables, data
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

GAMMA = 0.9
ENDS = {"action": "int64", "reward": "float32", "terminated": "bool", "truncated": "bool"}
FIELDS = {
    "rows": {"obs": ((3,), "float32"), "next_obs": ((3,), "float32"), **ENDS, "tag": "int32"},
    "frames": {"obs": ((2, 3), "uint8"), "next_obs": ((2, 3), "uint8"), **ENDS},
    "dict": {"obs.a": ((3,), "float32"), "obs.b": "uint8", "next_obs.a": ((3,), "float32"), "next_obs.b": "uint8",
             **ENDS}}


class Player:
    """Plays environments at random."""

    def __init__(self, kind, seed, envs):
        self.kind, self.random, self.envs, self.steps = kind, np.random.default_rng(seed), envs, 0
        self.obs = self._observe()

    def _observe(self):
        random, envs = self.random, self.envs
        if self.kind == "frames":  # of which some are zeros, and some alike
            return random.integers(0, 3, (envs, 1, 1), np.uint8) * random.integers(0, 2, (envs, 2, 3), np.uint8)
        found = {"a": random.normal(size=(envs, 3)).astype("f4"), "b": random.integers(0, 255, envs, np.uint8)}
        return found if self.kind == "dict" else found["a"]

    def _mixed(self, where, one, other):
        if isinstance(one, dict):
            return {key: self._mixed(where, one[key], other[key]) for key in one}
        return np.where(where.reshape(-1, *[1] * (one.ndim - 1)), one, other)

    def play(self, buffer, steps):
        random, envs = self.random, self.envs
        for _ in range(steps):
            after, terminated, truncated = self._observe(), random.random(envs) < 0.07, random.random(envs) < 0.05
            self.steps += 1
            own = {"tag": np.full(envs, self.steps)} if self.kind == "rows" else {}
            buffer.add(obs=self.obs, action=random.integers(0, 5, envs), next_obs=after, terminated=terminated,
                       reward=random.normal(size=envs).astype("f4"), truncated=truncated, **own)
            reset = (terminated | truncated) | (random.random() < 0.04)
            if reset.any():
                buffer.reset(reset)
            self.obs = self._mixed(reset, self._observe(), after)


def ways(tmp_path):
    found = [lambda buffer, **more: data.from_numpy(data.to_numpy(buffer), **more)]
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        return found

    def by_file(buffer, **more):
        data.to_parquet(buffer, tmp_path / "rows.parquet")
        return data.from_parquet(tmp_path / "rows.parquet", **more)

    return [*found, lambda buffer, **more: data.from_arrow(data.to_arrow(buffer), **more), by_file]


def same_rows(wanted, got, is_moved, is_cut):
    """is_moved: the order may be that of episodes. is_cut: the ids, and the links that are ids, are others."""
    assert got.keys() == wanted.keys()
    if is_cut or is_moved:
        assert len(got["id"]) == len(wanted["id"])
        wanted, got = ({name: array for name, array in one.items() if name not in ("id", "previous")}
                       for one in (wanted, got))
    if is_moved:
        wanted, got = ({name: array[np.lexsort([array.reshape(len(array), -1).astype("f8").sum(1)
                                                for array in one.values()])] for name, array in one.items()}
                       for one in (wanted, got))
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype and got[name].tobytes() == array.tobytes(), name


def episodes_of(buffer):
    """Of stacks the newest frames."""
    found = list(_episodes.restored(buffer, True).each)
    obs = [next(iter(one.obs.values())) for one in found]
    return sorted((array[:, -1].tobytes() if array.ndim > 3 else array.tobytes(), one.reward.tobytes(),
                   one.terminated.tobytes()) for array, one in zip(obs, found))


@pytest.mark.filterwarnings("ignore:.* transitions are left out")
@pytest.mark.parametrize(("kind", "n_step"), [("rows", 1), ("rows", 3), ("frames", 1), ("frames", 3), ("frames", 6),
                                              ("dict", 1)])
@pytest.mark.parametrize("keep_steps", [False, True])
@settings(max_examples=8, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), envs=st.integers(1, 3), steps=st.integers(9, 70),
       capacity=st.sampled_from([40, 300]), rows_at_a_time=st.sampled_from([7, 2**14]))
def test_rows_come_back(tmp_path, kind, n_step, keep_steps, seed, envs, steps, capacity, rows_at_a_time):
    how = {"n_step": n_step, "gamma": GAMMA, "keep_steps": keep_steps, "prioritized": True, "device": "cpu"}
    layout = {"frame_stack": 4} if kind == "frames" else {}
    buffer = ReplayBuffer(capacity, FIELDS[kind], num_envs=envs, autoreset="disabled", **how, **layout,
                                    **({"observations": "frames"} if layout else {}))
    player = Player(kind, seed, envs)
    player.play(buffer, steps)
    rows = data.to_numpy(buffer)
    buffer.update_priorities(rows["id"], player.random.exponential(size=len(rows["id"])).astype("f4"))
    rows = data.to_numpy(buffer)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tables, "_ROWS_AT_A_TIME", rows_at_a_time)
        for way in ways(tmp_path):
            again = way(buffer, **how, **layout)
            same_rows(rows, data.to_numpy(again), bool(layout) and keep_steps and envs > 1, rows["id"][0] > 0)
            assert again.config["keep_steps"] == keep_steps and len(again) == len(buffer)
            if keep_steps:
                assert episodes_of(again) == episodes_of(buffer)
                into = ReplayBuffer(1000, FIELDS[kind], autoreset="disabled", **{**how, "prioritized": False},
                                              **layout, **({"observations": "frames"} if layout else {}))
                other = Player(kind, 1, 1)
                other.play(into, 20)
                before, held = len(into), episodes_of(into)
                way(buffer, into=into)
                assert len(into) == before + len(buffer) and episodes_of(into) == sorted(held + episodes_of(buffer))
                other.play(into, 9)  # whose episode goes on
                assert len(into) > before + len(buffer)


@pytest.mark.parametrize("autoreset", ["same_step", "disabled"])
@settings(max_examples=8, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), lanes=st.integers(1, 3), steps=st.integers(9, 70), room=st.sampled_from([40, 300]))
def test_rows_of_lanes_come_back(tmp_path, autoreset, seed, lanes, steps, room):
    fields = {"obs": ((3,), "float32"), "action": "int64"}
    buffer = gpureplay.LaneBuffer(lanes, room, fields, autoreset=autoreset, gamma=GAMMA, device="cpu")
    random = np.random.default_rng(seed)
    for _ in range(steps):
        ended = random.random((2, lanes)) < 0.07
        buffer.add(obs=random.normal(size=(lanes, 3)).astype("f4"), action=random.integers(0, 5, lanes),
                   reward=random.normal(size=lanes).astype("f4"), terminated=ended[0], truncated=ended[1] & ~ended[0],
                   final_obs=random.normal(size=(lanes, 3)).astype("f4"))
        if autoreset == "disabled" and ended.any():
            buffer.reset(ended.any(axis=0))
    rows = data.to_numpy(buffer)
    for way in ways(tmp_path):
        for keep_steps in (False, True):
            got = data.to_numpy(way(buffer, keep_steps=keep_steps, device="cpu"))
            wanted = rows if keep_steps else {name: array for name, array in rows.items() if name != "previous"}
            same_rows({name: wanted[name] for name in got}, got, False, True)
        again = way(buffer, into=gpureplay.LaneBuffer(lanes, 900, fields, gamma=GAMMA, device="cpu"))
        goes_on = ~(rows["terminated"] | rows["truncated"]) & ~np.isin(rows["id"], rows["previous"])
        ended = {**rows, "truncated": rows["truncated"] | goes_on}
        same_rows(ended, data.to_numpy(again), True, True)


def test_what_follows_the_newest_row_is_not_invented():
    several = ReplayBuffer(90, FIELDS["rows"], autoreset="disabled", n_step=3, gamma=GAMMA,
                           keep_steps=True, device="cpu")
    player = Player("rows", 4, 1)
    while not len(several) or several.gather([len(several) - 1])["discount"][0] != np.float32(GAMMA)**3:
        player.play(several, 1)
    rows = data.to_numpy(several)
    with pytest.warns(RuntimeWarning, match="^1 episodes of the data set go on, whose newest transition is left out"):
        single = data.from_numpy(rows, keep_steps=True, device="cpu")
    assert len(single) == len(several) - 1


def test_sums_are_not_clipped_again():
    buffer = ReplayBuffer(90, FIELDS["rows"], autoreset="disabled", n_step=3, gamma=GAMMA,
                          reward_clip=0.5, device="cpu")
    Player("rows", 5, 1).play(buffer, 40)
    rows = data.to_numpy(buffer)
    assert (np.abs(rows["reward"]) > 0.5).any()
    with pytest.raises(gpureplay.InvalidArgument, match="reward_clip is 0.5 and the data set has rewards beyond it"):
        data.from_numpy(rows, n_step=3, gamma=GAMMA, reward_clip=0.5, device="cpu")
    same_rows(rows, data.to_numpy(data.from_numpy(rows, n_step=3, gamma=GAMMA, device="cpu")), False, False)


def test_others_may_not_add_amid_linked_rows():
    buffer = ReplayBuffer(90, FIELDS["rows"], autoreset="disabled", keep_steps=True, device="cpu")
    player = Player("rows", 6, 1)
    player.play(buffer, 20)
    into = ReplayBuffer(900, FIELDS["rows"], autoreset="disabled", keep_steps=True, device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tables, "_ROWS_AT_A_TIME", 7)
        with pytest.raises(gpureplay.InvalidArgument, match="others added transitions meanwhile, and the links"):
            data.from_numpy(data.to_numpy(buffer), into=into, progress=lambda *_: player.play(into, 1))
