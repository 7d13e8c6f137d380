# SPDX-License-Identifier: MIT
"""The rules of examples/python/atari_env.py on games that are made up, and where ale-py is there on its own; what the
agent sees against what the replay rebuilds; and checkpoints that are whole or not there."""

import importlib.util
import sys
import types
from pathlib import Path

import gpureplay
import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"
ENVS, LIVES, LIFE, LAST_STEP = 3, 3, 4, 11  # a life goes with every fourth step, the game with the eleventh


class Games:
    """Games as AtariVectorEnv plays them: frames of one random byte each; game `env` begins `env` steps late."""

    def __init__(self, game, num_envs, **settings):
        self.num_envs, self.settings = num_envs, settings
        self.single_action_space = types.SimpleNamespace(n=4)
        self.rng, self.at = np.random.default_rng(3), np.zeros(num_envs, int)
        self.frames, self.resets = np.zeros((num_envs, 1, 84, 84), np.uint8), []

    def reset(self, seed=None, options=None):
        mask = options["reset_mask"]
        self.resets.append(mask)
        self.at[mask] = -np.arange(self.num_envs)[mask]
        return self._frames(mask), {"lives": self._lives()}

    def step(self, action):
        assert not (self.at >= LAST_STEP).any(), "a game that is over was stepped"
        self.at += 1
        over = self.at == LAST_STEP
        reward = np.full(self.num_envs, 2, np.int32)
        return self._frames(over | True), reward, over, over & False, {"lives": self._lives()}

    def _lives(self):
        return np.where(self.at >= LAST_STEP, 0, LIVES - np.maximum(self.at, 0) // LIFE)

    def _frames(self, new):
        values = self.rng.integers(1, 256, (self.num_envs, 1, 1, 1), np.uint8)
        self.frames = np.where(new[:, None, None, None], values, self.frames)
        return self.frames


def module(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def atari_env(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", types.ModuleType("ale_py"))
    vector = types.ModuleType("ale_py.vector_env")
    vector.AtariVectorEnv = Games
    monkeypatch.setitem(sys.modules, "ale_py.vector_env", vector)
    return module("atari_env")


def replay(capacity):
    fields = {"obs": ((84, 84), "uint8"), "action": "int32", "reward": "float32", "next_obs": ((84, 84), "uint8"),
              "terminated": "bool"}
    return gpureplay.ReplayBuffer(capacity, fields, preset="nature-dueling", observations="frames", device="cpu",
                                  num_envs=ENVS, autoreset="disabled", min_size=1, max_batch=32)


def steps_of(games, steps, buffer=None):
    """(stacks before, step) of each step."""
    games.reset(1)
    for _ in range(steps):
        obs, seen, action = games.obs, games.stacks.copy(), np.zeros(ENVS, np.int32)
        result = games.step(action)
        if buffer is not None:
            buffer.add(obs=obs, action=action, reward=result.reward, next_obs=result.next_obs,
                       terminated=result.terminated, truncated=result.truncated)
        yield seen, result


# settings: {step: environments that are terminated then}, {step: those that are truncated}, {step: scores}
ENDS = {
    "a lost life ends an episode and not the game": (
        {}, {4: [0], 5: [1], 6: [2], 8: [0], 9: [1], 10: [2], 11: [0], 12: [1]}, {}, {11: {0: 22.0}, 12: {1: 24.0}}),
    "without life_loss an episode is a game": ({"life_loss": False}, {11: [0], 12: [1]}, {},
                                               {11: {0: 22.0}, 12: {1: 24.0}}),
    "a game that lasts too long is truncated and begins again": (
        {"life_loss": False, "cap": 6}, {}, {6: [0, 1, 2], 12: [0, 1, 2]},
        {6: dict.fromkeys(range(ENVS), 12.0), 12: dict.fromkeys(range(ENVS), 12.0)}),
    "a life that is lost in the last step terminates": (
        {"cap": LIFE}, {4: [0], 8: [0], 12: [0]}, {4: [1, 2], 8: [1, 2], 12: [1, 2]},
        {step: dict.fromkeys(range(ENVS), 8.0) for step in (4, 8, 12)}),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_ends_an_episode_and_a_game(atari_env, case):
    settings, terminated, truncated, scores = ENDS[case]
    games = atari_env.Atari("any", ENVS, **settings)
    found = {at: result for at, (_, result) in enumerate(steps_of(games, 12), 1)}
    for name, wanted in (("terminated", terminated), ("truncated", truncated)):
        of = {at: np.flatnonzero(getattr(result, name)).tolist() for at, result in found.items()}
        assert {at: envs for at, envs in of.items() if envs} == wanted, name
    assert {at: result.scores for at, result in found.items() if result.scores} == scores
    assert [mask.tolist() for mask in games.envs.resets[1:]] == [[env in ended for env in range(ENVS)]
                                                                 for ended in scores.values()]


def test_ale_py_gets_the_rules(atari_env):
    given = atari_env.Atari("any", ENVS, noops=7, fire=False, frame_skip=5, cap=100).envs.settings
    assert given["noop_max"] == 8 and given["use_fire_reset"] is False and given["frameskip"] == 5
    assert given["max_num_frames_per_episode"] > 100 * 5  # it never cuts one off itself
    assert given["reward_clipping"] is False  # the replay clips; scores are whole


@pytest.mark.parametrize("cap", [27_000, 6])
def test_what_the_agent_saw_is_what_the_replay_rebuilds(atari_env, cap):
    """Every transition that is still there, when the ring has gone round several times."""
    games, seen_by_agent = atari_env.Atari("any", ENVS, cap=cap), []
    with replay(600) as buffer:
        for at, (seen, result) in enumerate(steps_of(games, 700, buffer)):
            seen_by_agent += zip(seen, atari_env.pushed(seen, result.next_obs), result.terminated)
            if at % 233 == 232:
                check_all(buffer, seen_by_agent)
        assert buffer.stats.evicted > 1_200


def check_all(buffer, seen_by_agent):
    stats = buffer.stats
    assert stats.first_id + stats.visible == len(seen_by_agent)
    for ids in np.array_split(np.arange(stats.first_id, len(seen_by_agent)), stats.visible // 32 + 1):
        batch, wanted = buffer.gather(ids), [seen_by_agent[at] for at in ids]
        assert np.array_equal(batch.obs, [one for one, _, _ in wanted])
        assert np.array_equal(batch.next_obs, [one for _, one, _ in wanted])
        assert np.array_equal(batch.terminated, [one for _, _, one in wanted])
        assert (np.asarray(batch.reward) == 1).all()  # 2, clipped


def test_without_ale_py_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    monkeypatch.delitem(sys.modules, "ale_py.vector_env", raising=False)
    with pytest.raises(SystemExit, match='pip install "ale-py'):
        module("atari_env")


class Saves:
    """A buffer or an agent."""

    def __init__(self, error=None):
        self.error = error

    def save(self, path):
        path.write_text("saved")
        if self.error:
            raise self.error


def test_a_checkpoint_is_whole_or_not_there(tmp_path):
    checkpoints = module("checkpoints")
    assert checkpoints.newest(tmp_path) is None
    checkpoints.save(tmp_path, 9, Saves(), Saves(), {"step": 9})
    for error in (OSError("no room"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            checkpoints.save(tmp_path, 10, Saves(), Saves(error), {"step": 10})
        path, = tmp_path.iterdir()
        assert checkpoints.newest(tmp_path) == path and checkpoints.settings(path) == {"step": 9}
    (tmp_path / "checkpoint-000000000011.part").mkdir()  # of a program that was killed
    assert checkpoints.newest(tmp_path) == path
    checkpoints.save(tmp_path, 12, Saves(), Saves(), {"step": 12})
    path, = tmp_path.iterdir()
    assert checkpoints.newest(tmp_path) == path and checkpoints.settings(path) == {"step": 12}


@pytest.fixture
def atari(atari_env, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("atari_checks", "checkpoints", "curve"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "atari_env", atari_env)
    made = module("atari")
    monkeypatch.setattr(made.signal, "signal", lambda *_: None)
    return made


def begun(atari, monkeypatch, tmp_path, *more):
    """The run that a command line begins, in the quick form."""
    monkeypatch.setattr(sys, "argv", ["atari.py", "--smoke", "--device", "cpu", "--out", str(tmp_path / "out"), *more])
    return atari.begin(atari.arguments())


def test_a_run_begins_where_it_can_be_saved_and_goes_on_from_a_checkpoint(atari, monkeypatch, tmp_path):
    (tmp_path / "out").write_text("no folder")
    with pytest.raises(SystemExit, match="checkpoints cannot be written to .*out"):
        begun(atari, monkeypatch, tmp_path)
    (tmp_path / "out").unlink()
    with pytest.raises(SystemExit, match="there is no checkpoint in .*out to go on from; without --resume a run beg"):
        begun(atari, monkeypatch, tmp_path, "--resume")
    run = begun(atari, monkeypatch, tmp_path)
    run.step = 7
    run.save()
    with pytest.raises(SystemExit, match="checkpoint-000000000007 is there: --resume goes on from it"):
        begun(atari, monkeypatch, tmp_path)
    with pytest.raises(SystemExit, match="is of a run with seed 1, not 2"):
        begun(atari, monkeypatch, tmp_path, "--resume", "--seed", "2")
    assert begun(atari, monkeypatch, tmp_path, "--resume").step == 7


@pytest.mark.skipif(not importlib.util.find_spec("ale_py"), reason="needs ale_py")
def test_the_last_observation_of_a_truncated_game_is_that_of_a_longer_one():
    """What ale-py's own limit gets wrong: see atari_env.py."""
    atari_env = module("atari_env")
    short, long = (atari_env.Atari("pong", 1, cap=cap) for cap in (60, 1000))
    short.reset(5), long.reset(5)
    for at in range(60):
        action = np.array([at // 7 % 6], np.int32)
        one, other = short.step(action), long.step(action)
        assert np.array_equal(one.next_obs, other.next_obs) and one.truncated[0] == (at == 59)
    assert short.obs[0].any() and np.count_nonzero(short.stacks.any(axis=(2, 3))) == 1
