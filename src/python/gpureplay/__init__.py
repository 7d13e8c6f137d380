# SPDX-License-Identifier: MIT
"""Experience replay in the memory of the device that trains on it.

    buffer = gpureplay.ReplayBuffer.for_env(1_000_000, envs)    # a Gymnasium Env, or a vector of them
    buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)
    batch = buffer.sample(256)                       # batch.obs, batch.action, ...: no copies
    agent = gpureplay.DQN(buffer, outputs=5, preset="melee-gpu")
    agent.train(100)                                 # on the device, returns before it is done
"""

from ._array import Array
from ._batch import Batch
from ._buffer import ReplayBuffer
from ._device import Device, DeviceInfo
from ._files import FileInfo, file_info
from ._learner import DQN, LearnerStats
from ._library import (
    Closed,
    DeviceError,
    Evicted,
    FileError,
    GpureplayError,
    Interrupted,
    InvalidArgument,
    OutOfMemory,
    TooFew,
    Unavailable,
    WouldBlock,
    lib,
)
from ._priorities import PriorityStats
from ._replay_config import Plan, Stats
from ._show import show_config
from ._weights import Weights
from ._writer import Writer

__version__: str = lib.gpur_version().decode()
__all__ = [
    "Array", "Batch", "Closed", "DQN", "Device", "DeviceError", "DeviceInfo", "Evicted", "FileError", "FileInfo",
    "GpureplayError", "Interrupted", "InvalidArgument", "LearnerStats", "OutOfMemory", "Plan", "PriorityStats",
    "ReplayBuffer", "Stats", "TooFew", "Unavailable", "Weights", "WouldBlock", "Writer", "file_info", "show_config",
]
