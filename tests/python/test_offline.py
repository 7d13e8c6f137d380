# SPDX-License-Identifier: MIT
"""Offline training in Python: on a buffer of one's own and on a file, with environments in Python, and what is
refused."""

import importlib
import os
import subprocess
import sys

import gpureplay
import gymnasium
import numpy as np
import pytest
from gpureplay import data
from support import needs_files

CELLS, LONGEST = 6, 30


class Corridor(gymnasium.Env):
    """Action 1 goes right, to the reward at the end."""

    observation_space = gymnasium.spaces.Box(0, 1, (CELLS,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def _seen(self):
        return np.eye(CELLS, dtype=np.float32)[self.at]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.steps = 0
        return self._seen(), {}

    def step(self, action):
        self.at, self.steps = max(0, self.at + (1 if action == 1 else -1)), self.steps + 1
        at_end = self.at == CELLS - 1
        return self._seen(), float(at_end), at_end, self.steps == LONGEST, {}


def make_env(_number):
    return Corridor()


def walked(steps=1500, **options):
    """A buffer with the steps of random walks."""
    env, random = Corridor(), np.random.default_rng(1)
    buffer = gpureplay.ReplayBuffer.for_env(4000, env, device="cpu", gamma=0.8, **options)
    obs, _ = env.reset()
    for _ in range(steps):
        action = int(random.integers(2))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()
            buffer.reset()
    return buffer


def train(data, **options):
    return gpureplay.train_offline(data, **{"threads": None, "progress": False, "steps": 400, "eval_episodes": 2,
                                            "env": make_env, "learning_rate": 1e-3, **options})


@pytest.mark.parametrize("options", [{}, {"n_step": 3}, {"prioritized": True}])
def test_random_walks_teach_the_way(options):
    buffer = walked(**options)
    seen = []
    result = train(buffer, on_event=seen.append, steps=600, eval_period=300)
    assert result.buffer is buffer and not buffer.closed and len(buffer) > 1000
    assert result.evaluations["step"].tolist() == [300, 600] == [event.env_steps for event in seen]
    assert result.evaluations["mean_return"][-1] == 1 and result.evaluations["length"][-1] == 2 * (CELLS - 1)
    assert result.stats.train_steps == result.stats.env_steps == 600 and result.stats.env_seconds == 0
    assert result.config["options"]["n-step"] == options.get("n_step", 1)
    assert result.config["options"]["prioritized"] == int(bool(options.get("prioritized")))
    assert all(result.agent.act(np.eye(CELLS, dtype=np.float32)[:CELLS - 1]) == 1)
    before = len(buffer)
    buffer.reset()
    buffer.add(obs=np.zeros(CELLS), action=0, reward=0., next_obs=np.ones(CELLS), terminated=True, truncated=False)
    assert len(buffer) > before  # its writer stays open
    result.agent.close()
    buffer.close()


@needs_files
def test_a_file_gives_the_same_as_its_buffer(tmp_path):
    buffer = walked()
    buffer.save(tmp_path / "rows.safetensors")
    weights = [train(data, device="cpu" if data is not buffer else None).agent.weights
               for data in (buffer, tmp_path / "rows.safetensors", str(tmp_path / "rows.safetensors"))]
    for other in weights[1:]:
        assert all(np.array_equal(weights[0][name], other[name]) for name in weights[0])


@pytest.mark.parametrize("name", ["rows.parquet", "rows.hdf5"])
def test_a_data_set_gives_the_same_as_the_buffer_that_reads_it(tmp_path, name):
    read, write, needed = (data.from_parquet, data.to_parquet, "pyarrow") if name == "rows.parquet" else \
        (data.from_d4rl, data.to_d4rl, "h5py")
    pytest.importorskip(needed)
    write(walked(keep_steps=True), tmp_path / name)
    one, other = (train(given, device=device).agent.weights
                  for given, device in ((read(tmp_path / name, device="cpu"), None), (tmp_path / name, "cpu")))
    assert all(np.array_equal(one[key], other[key]) for key in one)
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run([sys.executable, "-m", "gpureplay.train", "offline-dqn", "--data", name, "--steps", "200",
                          "--out", "run"], cwd=tmp_path, env=where, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and (tmp_path / "run/config.json").exists(), run.stderr
    with pytest.raises(FileNotFoundError, match="mine/none-v0.* is not among the local ones of Minari"):
        train("mine/none-v0")


@needs_files
def test_a_run_on_a_buffer_goes_on_without_it(tmp_path):
    whole = train(walked(), steps=300)
    train(walked(), steps=200, out=tmp_path / "run", checkpoint=100)
    resumed = gpureplay.train_offline(resume=tmp_path / "run", env=make_env, steps=300, progress=False)
    one, other = whole.agent.weights, resumed.agent.weights
    assert all(np.array_equal(one[name], other[name]) for name in one) and len(resumed.buffer) == len(whole.buffer)
    (tmp_path / "run/checkpoint/replay.safetensors").unlink()
    with pytest.raises(gpureplay.InvalidArgument, match="data was .an object of Python., and the run has no checkp"):
        gpureplay.train_offline(resume=tmp_path / "run", env=make_env)


@needs_files
def test_stacks_of_frames_are_trained_from_a_file(tmp_path):
    fields = {name: ((4, 12, 12), "uint8") for name in ("obs", "next_obs")}
    others = {"action": ((), "int64"), "reward": ((), "float32"), "terminated": ((), "bool"), "truncated": ((), "bool")}
    random = np.random.default_rng(2)
    for settings in ({}, {"extra_frames": 700}, {"block_rows": 9, "max_batch": 40}):
        buffer = gpureplay.ReplayBuffer(600, {**fields, **others}, frame_stack=4, device="cpu", **settings)
        obs = random.integers(0, 255, (4, 12, 12), np.uint8)
        for step in range(150):
            frame = random.integers(0, 255, (1, 12, 12), np.uint8)
            next_obs = np.concatenate([obs[1:], frame])
            buffer.add(obs=obs, action=step % 3, reward=1., next_obs=next_obs, terminated=False, truncated=False)
            obs = next_obs
        buffer.save(tmp_path / "frames")
        result = gpureplay.train_offline(tmp_path / "frames", steps=20, device="cpu", progress=False)
        assert result.agent.config["trunk"][0][:3] == ("conv", 16, 3) and result.config["options"]["num-actions"] == 3
        assert len(result.buffer) == len(buffer) and result.config["environment"]["observation"]["shape"] == [12, 12]


def vectors(count=400):
    """Transitions whose action is best at 0.5."""
    random = np.random.default_rng(4)
    obs, action = random.normal(size=(count, 3)).astype("f4"), random.uniform(-1, 1, (count, 1)).astype("f4")
    return {"obs": obs, "action": action, "reward": -np.abs(action[:, 0] - 0.5), "next_obs": obs.copy(),
            "terminated": np.ones(count, bool), "truncated": np.zeros(count, bool)}


@pytest.mark.parametrize(("preset", "kind", "settings"), [
    ("offline-qr-dqn", "DQN", {"head": "quantiles", "atoms": 50}), ("offline-c51", "DQN", {"head": "categorical"}),
    ("offline-dpg", "DDPG", {"critics": 1}), ("offline-td3", "TD3", {"critics": 2, "policy_delay": 2}),
    ("offline-sac", "SAC", {"critics": 2, "target_entropy": -1})])
def test_learners_of_each_preset_train_on_data(tmp_path, preset, kind, settings):
    has_vectors = kind != "DQN"
    buffer = data.from_numpy(vectors(), device="cpu") if has_vectors else walked()
    env, own = "Pendulum" if has_vectors else make_env, {"v_min": -2, "v_max": 2} if preset == "offline-c51" else {}
    result = train(buffer, preset=preset, env=env, steps=400, batch=64, learning_rate=3e-3, **own)
    assert type(result.agent).__name__ == kind and result.config["options"]["preset"] == preset
    assert {name: result.agent.config[name] for name in settings} == settings
    assert result.stats.train_steps == 400 and result.evaluations["step"].tolist() == [400]
    if has_vectors:
        greedy = {"greedy": True} if kind == "SAC" else {}
        assert result.agent.policy().act_vectors(vectors()["obs"][:50], **greedy).mean() > 0.1  # of random ones it is 0
    else:
        assert result.evaluations["mean_return"][-1] == 1
    if "files: none" in gpureplay.lib.gpur_build_info().decode():
        return
    buffer.save(tmp_path / "rows")
    for command in ([os.environ["GPUREPLAY_TRAIN"]] if "GPUREPLAY_TRAIN" in os.environ else [],
                    [sys.executable, "-m", "gpureplay.train"]):
        options = ["--v-min", "-2", "--v-max", "2"] if preset == "offline-c51" else []
        where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        run = command and subprocess.run([*command, preset, "--data", "rows", "--steps", "20", *options, "--out",
                                          f"run{len(command)}"], cwd=tmp_path, env=where, capture_output=True,
                                         text=True, check=False)
        assert not command or run.returncode == 0, run.stderr


def test_lanes_become_rows_that_are_trained_on():
    lanes = gpureplay.LaneBuffer(2, 150, {"obs": ((CELLS,), "float32"), "action": "int64"}, device="cpu")
    data.from_numpy(data.to_numpy(walked(90)), into=lanes)
    with pytest.raises(TypeError, match=r"data is <.*LaneBuffer.*>; it must be a ReplayBuffer, as gpureplay.data.fr"):
        train(lanes)
    result = train(data.from_numpy(data.to_numpy(lanes), n_step=2, device="cpu"), steps=20)
    assert result.stats.train_steps == 20


def test_ray_does_not_train_offline():
    with pytest.raises(gpureplay.InvalidArgument, match="--env is missing"):
        importlib.import_module("gpureplay.train")._run({"preset": "offline-dqn", "data": "x", "engine": "ray"})


def test_what_cannot_be_trained_on_is_refused():
    buffer = walked(50)
    empty = gpureplay.ReplayBuffer.for_env(100, Corridor(), device="cpu")
    other = gpureplay.ReplayBuffer(100, {"x": ((), "float32")}, device="cpu")
    other.extend(x=np.zeros(3, np.float32))
    fields = {"obs": ((2,), "float32"), "action": ((), "int32"), "reward": ((), "float32"),
              "next_obs": ((2,), "float32"), "terminated": ((), "bool")}
    negative = gpureplay.ReplayBuffer(100, fields, device="cpu")
    negative.extend(obs=np.zeros((3, 2)), action=np.array([0, -1, 0]), reward=np.zeros(3), next_obs=np.zeros((3, 2)),
                    terminated=np.zeros(3, bool))
    no_env = {"env": None, "eval_episodes": None}
    for data, options, error, text in (
        (3, {}, TypeError, "data is 3; it must be a ReplayBuffer, the path of a file that ReplayBuffer.save wrote, or "
         "that of a data set"),
        (empty, {}, gpureplay.InvalidArgument, "data has no transitions; there must be 1 or more"),
        (other, {}, gpureplay.InvalidArgument, 'the transitions of data have no field "action"; they must have obs'),
        (negative, no_env, gpureplay.InvalidArgument, '"action" is -1 in row 1; it must be 0 or more'),
        (buffer, {"n_step": 3}, gpureplay.InvalidArgument, "n_step is 3 and the transitions of data are of 1 step;"),
        (buffer, {"prioritized": True}, gpureplay.InvalidArgument, "prioritized is 1 and data has no priorities"),
        (buffer, {"num_actions": 1, **no_env}, gpureplay.InvalidArgument, "data has the action 1 and num_actions is 1"),
        (buffer, {"v_min": -2}, gpureplay.InvalidArgument, "leave the option out, or take offline-c51"),
        (buffer, {"preset": "offline-sac"}, gpureplay.InvalidArgument, "preset is offline-sac and the actions of"),
        (buffer, {"preset": "offline-dpg"}, gpureplay.InvalidArgument, "the actions of data are int(32|64);"),
        (buffer, {"preset": "fast-dqn"}, gpureplay.InvalidArgument, "it must be one of offline-dqn, offline-qr-dqn, "),
        (buffer, {"env": "CartPole-v1"}, gpureplay.InvalidArgument, "CartPole-v1: axis 0 of the environment's obs.* 4"),
        (buffer, {"env": [Corridor()]}, TypeError, "it must be a name, or a function make_env"),
        (buffer, {"env": None}, gpureplay.InvalidArgument, "eval_episodes is 2 and env is missing; evaluations need"),
        (buffer, {"buffer": {"n_step": 3}}, gpureplay.InvalidArgument, "offline its settings are those of the data"),
        (buffer, {"device": "cuda:0"}, gpureplay.InvalidArgument, "device is 'cuda:0' and data is a buffer on cpu"),
        (buffer, {"capacity": 10}, gpureplay.InvalidArgument, "capacity is 10 and preset is offline-dqn, which"),
        (None, {}, gpureplay.InvalidArgument, "data is missing; it must be the file of a replay"),
    ):
        with pytest.raises(error, match=text):
            train(data, **options)
    assert not buffer.closed and len(buffer) == 50
