# SPDX-License-Identifier: MIT
"""Experience replay in the memory of the device that trains on it: a GPU (CUDA) or the CPU.

Transitions go to the device in blocks. Sampling, n-step returns, frame stacks, priorities and, with the built-in
learner, whole train steps are computed there. Batches are NumPy arrays on the CPU and DLPack arrays on CUDA, without
copies.

    import gymnasium, gpureplay

    envs = gymnasium.make_vec("CartPole-v1", num_envs=8)
    buffer = gpureplay.ReplayBuffer.for_env(100_000, envs)
    agent = gpureplay.DQN(buffer, preset="cartpole")
    obs, info = envs.reset(seed=1)
    for step in range(10_000):
        action = agent.act(obs, epsilon=agent.epsilon(8 * step))
        next_obs, reward, terminated, truncated, info = envs.step(action)
        buffer.add(obs=obs, action=action, reward=reward, next_obs=next_obs, terminated=terminated, truncated=truncated)
        obs = next_obs
        if buffer.can_sample:
            agent.train(4)                # enqueues four train steps

A network of your own takes batches instead of the learner:

    batch = buffer.sample(256)            # batch.obs, batch.action, ... batch.weight, batch.id
    loss = my_loss(torch.from_dlpack(batch.obs), ...)

A whole training is one call, which acts, fills a buffer and trains in threads of its own:

    result = gpureplay.train("MinAtar/Breakout", steps=300_000, out="runs/breakout")

The main names:

    ReplayBuffer    the transitions: add, extend, sample, gather, epoch, update_priorities, write_field, trim,
                    clear, save, load, config
    LaneBuffer      the transitions of simulators on the device, which never pass the host: add, sample, gather
    DQN             the learner: act, train, stats, weights, save, load, config
    QRDQN, C51      the same with distributions of returns
    train           a whole training: environments, buffer, learner, files, evaluations
    train_dqn, train_apex, train_ddpg, train_ga3c  the same by one system, with its options alone
    train_offline   a training on saved transitions, without an environment
    Run             the same over a buffer and a learner of your own: advance, evaluate, save, load, stats
    Apex            Ape-X over a buffer and a learner of your own: actors in threads or processes, advance, save, stats
    GA3C            GA3C, A3C and A2C over an actor-critic of your own: agents, predictors, trainers; advance, evaluate
    ActorCritic     a learner of a policy and a value on batches of your own: train, policy, weights, save, load
    DDPG, SAC, TD3  learners of continuous actions: train, policy, weights, save, load, stats; FastTD3 and FastSAC are
                    TD3 and SAC with other settings
    Policy          a network that acts beside a learner, or without one: act, pull, save, load, get_weights
    Batch, Array    what `sample` returns, and one of its arrays on CUDA
    SequenceBatch   what `sample_sequences` returns: (batch_size, length, ...) arrays for recurrent agents
    Hindsight       goals that were achieved later, for sampled transitions: a setting of ReplayBuffer
    Writer          one more source of transitions, for one more thread
    Device          an open device, to be shared or set up
    make_env, make_vec  the library's games as environments of Gymnasium, one or many that step together
    preset          the settings of a published system
    show_config     prints what was built in, which devices there are, and what is missing
    file_info       what is in a file

Modules that `import gpureplay` leaves out, since they need other packages:

    gpureplay.envs  the classes of make_env and make_vec, and ids for gymnasium.make: import gpureplay.envs
    gpureplay.plot, gpureplay.tensorboard  learning curves of runs: python -m gpureplay.plot RUN
    gpureplay.data  buffers from Minari, D4RL, Parquet, NumPy, and back: from gpureplay import data
    gpureplay.ray   Ape-X on the machines of a Ray cluster: import gpureplay.ray
    gpureplay.fast_td3  a replay buffer for FastTD3: from gpureplay.fast_td3 import SimpleReplayBuffer
    gpureplay.jax   lanes inside jax.jit and jax.lax.scan: import gpureplay.jax
    gpureplay.sb3   replay buffers for Stable-Baselines3 and CleanRL: import gpureplay.sb3

Every exception that the library raises is a GpureplayError, and beside that the built-in one that fits (ValueError,
MemoryError, LookupError, OSError, RuntimeError).
"""

from ._actor_critic import ActorCritic
from ._apex import Apex
from ._batch import Array, Batch, SequenceBatch
from ._buffer import ReplayBuffer
from ._ddpg import DDPG, SAC, TD3, FastSAC, FastTD3
from ._device import Device
from ._ga3c import GA3C
from ._handle import file_info
from ._hindsight import Hindsight
from ._lanes import LaneBuffer
from ._learner import C51, DQN, QRDQN, Weights
from ._library import (Closed, DeviceError, Evicted, FileError, GpureplayError, Interrupted, InvalidArgument,
                       OutOfMemory, TooFew, Unavailable, WouldBlock, lib)
from ._make_envs import make_env, make_vec
from ._config import Preset, preset
from ._policy import Acted, ActedByPolicy, Policy
from ._run import EnvError, Run
from ._show import show_config
from ._train import TrainResult, train, train_apex, train_ddpg, train_dqn, train_ga3c, train_offline
from ._tuples import (ActorCriticLosses, ApexStats, DDPGStats, DeviceInfo, FileInfo, GA3CStats, LaneStats,
                      LearnerStats, Plan, PolicyStats, PriorityStats, RunEvent, RunStats, SACStats, Stats)
from ._writer import Writer

__version__: str = lib.gpur_version().decode()
__all__ = [
    "Acted", "ActedByPolicy", "ActorCritic", "ActorCriticLosses", "Apex", "ApexStats", "Array", "Batch", "C51",
    "Closed", "DDPG", "DDPGStats", "DQN", "Device", "DeviceError", "DeviceInfo", "EnvError", "Evicted", "FastSAC",
    "FastTD3", "FileError", "FileInfo", "GA3C", "GA3CStats", "GpureplayError", "Hindsight", "Interrupted",
    "InvalidArgument", "LaneBuffer", "LaneStats", "LearnerStats", "OutOfMemory", "Plan", "Policy", "PolicyStats",
    "Preset", "PriorityStats", "QRDQN", "ReplayBuffer", "Run", "RunEvent", "RunStats", "SAC", "SACStats",
    "SequenceBatch", "Stats", "TD3", "TooFew", "TrainResult", "Unavailable", "Weights", "WouldBlock", "Writer",
    "file_info", "make_env", "make_vec", "preset", "show_config", "train", "train_apex", "train_ddpg", "train_dqn",
    "train_ga3c", "train_offline",
]
