# SPDX-License-Identifier: MIT
"""The code in docstrings of the package runs, each block alone, with the names that a program has by then. What needs a
GPU, another library, other machines or many minutes is only compiled."""

import importlib
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import gpureplay
from gpureplay import compare, data, plot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs/reference"))
calls = importlib.import_module("calls")
BLOCKS = [*calls.docstrings()]
COMPILED = ("gpureplay.ActorCritic", "gpureplay.Apex", "gpureplay.DDPG", "gpureplay.Device.wait_stream",
            "gpureplay.DeviceError", "gpureplay.EnvError", "gpureplay.FastSAC", "gpureplay.FastTD3", "gpureplay.GA3C",
            "gpureplay.LibraryRun", "gpureplay.SAC", "gpureplay.TD3", "gpureplay.data.from_lerobot",
            "gpureplay.fast_td3", "gpureplay.jax", "gpureplay.ray", "gpureplay.sb3", "gpureplay.tensorboard",
            "gpureplay.train")
CLASSES_AND_MODULES = ("gpureplay", "gpureplay.LaneBuffer", "gpureplay.data")  # whose own blocks are compiled, too
NEEDED = {"arrow": "pyarrow", "parquet": "pyarrow", "lerobot": "pyarrow", "d4rl": "h5py"}
COUNT = 400


def rows():
    numbers = np.random.default_rng(1)
    obs = numbers.random((COUNT + 1, 4), np.float32)
    return {"obs": obs[:-1], "action": numbers.integers(0, 2, COUNT), "reward": np.ones(COUNT, np.float32),
            "next_obs": obs[1:], "terminated": np.arange(COUNT) % 50 == 49, "truncated": np.zeros(COUNT, bool)}


def of_lanes():
    lanes = gpureplay.LaneBuffer(64, 100, {"obs": ((4,), "float32"), "action": ((), "int32")}, prioritized=True,
                                 device="cpu")
    step = {"obs": np.zeros((64, 4), np.float32), "action": np.zeros(64, np.int32), "reward": np.zeros(64, np.float32),
            "terminated": np.zeros(64, bool)}
    for _ in range(20):
        lanes.add(**step)
    return {"lanes": lanes, "errors": np.ones(64, np.float32), **step}


def objects(name):
    """What a program has."""
    env = gymnasium.make("CartPole-v1")
    buffer = gpureplay.ReplayBuffer.for_env(1000, env, device="cpu", prioritized="priorities" in name,
                                            sequences="refresh" in name)
    buffer.extend(**rows())
    buffer.save("replay.safetensors")
    step = {key: array[:2] for key, array in rows().items()}
    return {"agent": gpureplay.DQN(buffer, batch_size=32, trunk=[16]), "arrays": data.to_numpy(buffer),
            "batch": buffer.sample(32), "buffer": buffer, "device": buffer.device, "env": env, "ids": [0],
            "policy": gpureplay.Policy(env.observation_space, 2, trunk=[16], device="cpu"), "rows": rows(),
            "step": step, "obs": step["obs"], "action": step["action"], "returns": step["reward"],
            "compare": compare, "data": data, "gpureplay": gpureplay, "np": np, "plot": plot}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folders of two runs."""
    folders = [tmp_path_factory.mktemp("runs") / str(seed) for seed in (1, 2)]
    for seed, folder in enumerate(folders):
        gpureplay.train("CartPole-v1", steps=1000, out=folder, seed=seed, device="cpu", progress=False)
    return folders


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.file)
def test_the_code_of_a_docstring_runs(block, request, tmp_path, monkeypatch):
    code = compile(block.text, block.file, "exec")
    if block.file in CLASSES_AND_MODULES or block.file.startswith(COMPILED):
        return
    monkeypatch.chdir(tmp_path)
    name = block.file.rpartition(".")[2]
    pytest.importorskip(NEEDED.get(name.rpartition("_")[2], "numpy"))
    names = objects(name)
    if ".LaneBuffer." in block.file:
        names |= of_lanes()
    if ".plot." in block.file or ".compare." in block.file:
        folders = request.getfixturevalue("runs")
        names |= {"folders": folders, "folder": folders[0]}
    exec(code, names)
