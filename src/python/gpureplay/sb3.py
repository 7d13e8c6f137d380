# SPDX-License-Identifier: MIT
"""The replay in other people's agents: a buffer with the signature of Stable-Baselines3's and CleanRL's.

Stable-Baselines3, any off-policy algorithm (DQN, SAC, TD3, DDPG; Box and Dict observations):

    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=gpureplay.sb3.ReplayBuffer)

CleanRL, dqn.py and what else has `rb = ReplayBuffer(...)`: one import changes.

    from cleanrl_utils.buffers import ReplayBuffer              # as it was; before 2025:
    from stable_baselines3.common.buffers import ReplayBuffer   # as it was
    from gpureplay.sb3 import ReplayBuffer                      # as it is now

Needs PyTorch; Stable-Baselines3 only where it is the one that asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _buffer, _inputs, _sb3_fields
from ._batch import Batch
from ._sb3_types import DictReplayBufferSamples, ReplayBufferSamples, joined, register, torch, torch_device

_MOST = 4096  # transitions that are drawn at once


class ReplayBuffer:
    """A ring of transitions in the memory of the device that trains, which Stable-Baselines3 and CleanRL take for
    theirs.

    buffer_size: transitions in all; buffer_size // n_envs steps of all environments.
    observation_space, action_space: Gymnasium's. float64 is kept as float32; a Dict of leaves becomes a dict of
        tensors.
    device: PyTorch's, where the transitions lie and the batches appear: "auto", "cpu", "cuda", "cuda:N".
    n_envs: environments that one `add` steps.
    optimize_memory_usage: must be False: each observation is kept twice.
    handle_timeout_termination: an episode that its time limit ended (infos[i]["TimeLimit.truncated"]) is not done.
    seed: of the draws; None: as NumPy's global generator was seeded.
    max_batch: the largest batch that is drawn at once; None: 4,096, or 15/16 of the transitions if less. A larger one
        is put together of several draws, which costs a copy.
    update_size: transitions that are copied to the device at once; None: the library's default.
    check_nan: a step with NaN in it is refused.

    Beside the methods below it has what the originals have under the names buffer_size (steps), observation_space,
    action_space, obs_shape, action_dim, device, n_envs, handle_timeout_termination; not their arrays (observations,
    actions, ...), which are on the device. It can be pickled, so `save_replay_buffer` and `load_replay_buffer` work.
    One thread's at a time.
    """

    optimize_memory_usage = False

    def __init__(self, buffer_size: int, observation_space: Any, action_space: Any,
                 device: torch.device | str = "auto", n_envs: int = 1, optimize_memory_usage: bool = False,
                 handle_timeout_termination: bool = True, *, seed: int | None = None, max_batch: int | None = None,
                 update_size: int | None = None, check_nan: bool = True):
        if optimize_memory_usage:
            raise ValueError("optimize_memory_usage is True; it must be False: observations that are kept once are not "
                             "there yet")
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.observation_space, self.action_space = observation_space, action_space
        self.n_envs, self.handle_timeout_termination = n_envs, handle_timeout_termination
        self._device = torch_device(device)
        self._fields = _sb3_fields.fields_of(observation_space, action_space)
        self._keys = [name[len("obs."):] for name in self._fields if name.startswith("obs.")]  # of a Dict space
        self._shapes = {name: (n_envs, *shape) for name, (shape, _) in self._fields.items()}  # of a step
        self._max_batch: int = max_batch or self._most(update_size)
        self._settings: dict[str, Any] = {"update_size": update_size, "check_nan": check_nan,
                                          "seed": _sb3_fields.seed_of_numpy() if seed is None else seed}
        self.reset()

    def _most(self, update_size: int | None) -> int:
        """Larger than the library's default where the buffer is small: the originals draw as many as they hold."""
        capacity = self.buffer_size * self.n_envs
        return max(min(_MOST, capacity - (update_size or max(capacity // 16, 1))), 1)

    def reset(self) -> None:
        """Forgets every transition."""
        if "_replay" in self.__dict__:
            self.close()
        self._replay = _buffer.ReplayBuffer(self.buffer_size * self.n_envs, self._fields, device=str(self._device),
                                            num_envs=self.n_envs, autoreset="disabled", max_batch=self._max_batch,
                                            **self._settings)
        self._steps = 0  # added in all
        self._first = 0  # step whose first transition has id 0 in the replay
        self._tensor = torch.from_numpy if self._device.type == "cpu" else torch.from_dlpack  # neither copies

    @property
    def pos(self) -> int:
        """Where the next step goes, 0 to buffer_size - 1."""
        return self._steps % self.buffer_size

    @property
    def full(self) -> bool:
        """The next step overwrites the oldest."""
        return self._steps >= self.buffer_size

    @property
    def obs_shape(self) -> Any:
        """Of one observation; under a Dict space a dict of such."""
        if not self._keys:
            return self._fields["obs"][0]
        return {key: self._fields[f"obs.{key}"][0] for key in self._keys}

    @property
    def action_dim(self) -> int:
        """Numbers in an action."""
        return self._fields["action"][0][0]

    @staticmethod
    def swap_and_flatten(arr: np.ndarray) -> np.ndarray:
        """(steps, n_envs, ...) to (n_envs * steps, ...): all steps of an environment, then those of the next; numbers
        without a further axis get one of 1."""
        steps, envs, *features = arr.shape
        return arr.swapaxes(0, 1).reshape(envs * steps, *(features or [1]))

    def size(self) -> int:
        """Steps that are there, of n_envs transitions each."""
        return min(self._steps, self.buffer_size)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any,
            infos: Sequence[Mapping[str, Any]]) -> None:
        """One step of every environment.

        obs, next_obs: (n_envs, ...), or a dict of such; next_obs is the episode's last where it ended. action:
        (n_envs, ...). reward, done: (n_envs,). infos: one dict an environment; not looked at without
        handle_timeout_termination.

        ValueError, TypeError: another shape or dtype, or NaN; nothing was added."""
        values = {**self._leaves("obs", obs), **self._leaves("next_obs", next_obs), "action": action, "reward": reward,
                  "done": done}
        rows = {name: self._shaped(name, value) for name, value in values.items()}
        if self.handle_timeout_termination:
            rows["done"] = rows["done"] * self._not_by_timeout(infos)
        self._replay.add(**rows)
        self._steps += 1

    def extend(self, *args: Sequence[Any]) -> None:
        """Steps, one after another: `add`'s arguments, each with one more axis in front."""
        lengths = [len(values) for values in args]
        if len(set(lengths)) > 1:
            raise ValueError(f"the arguments have {lengths} steps; they must be as many")
        for step in zip(*args):
            self.add(*step)

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """A minibatch of any size, drawn uniformly with replacement on the device; its tensors are the batch's memory
        (up to max_batch), and stay as they are while they are held. env: a VecNormalize, by which observations and
        rewards are normalised, on the host.

        TooFew: nothing is there."""
        stream, most = self._stream(), self._max_batch
        if batch_size <= most:
            return self._samples(self._replay.sample(batch_size, stream=stream), env)
        sizes = [most] * (batch_size // most) + [batch_size % most] * (batch_size % most > 0)
        return joined([self._samples(self._replay.sample(size, stream=stream), env) for size in sizes])

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> ReplayBufferSamples:
        """The transitions at these positions (B,), 0 to size() - 1, each of an environment that NumPy's global
        generator picks: as the originals do it, so a subclass whose `sample` draws as theirs trains on what they would
        give.

        IndexError: nothing is there."""
        batch_inds = np.asarray(batch_inds)
        envs = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))
        ids, stream, most = self._ids(batch_inds, envs), self._stream(), self._max_batch
        parts = [ids[at:at + most] for at in range(0, len(ids), most)] or [ids]
        found = [self._samples(self._replay.gather(part, stream=stream), env) for part in parts]
        return found[0] if len(found) == 1 else joined(found)

    def to_torch(self, array: np.ndarray, copy: bool = True) -> torch.Tensor:
        """A tensor on the device. copy: also where the memory could be shared."""
        return torch.tensor(array, device=self._device) if copy else torch.as_tensor(array, device=self._device)

    def close(self) -> None:
        """Gives the memory back. Batches that are held live on."""
        self._replay.close()

    def _leaves(self, name: str, value: Any) -> dict[str, Any]:
        if not self._keys:
            return {name: value}
        return {f"{name}.{key}": value[key] for key in self._keys}

    def _shaped(self, name: str, value: Any) -> np.ndarray:
        """(n_envs, ...) as the field is; one environment's may come without the axis, an action in its own shape."""
        _inputs.refuse_mask(name, value)
        array, wanted = np.asarray(value), self._shapes[name]
        if array.shape == wanted:
            return array
        if array.size != math.prod(wanted) or (self.n_envs > 1 and array.shape[0] != self.n_envs):
            raise ValueError(f"{name} has shape {array.shape}; it must be {wanted}")
        return array.reshape(wanted)

    def _not_by_timeout(self, infos: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """(n_envs, 1) float32: 0 where the time limit ended the episode."""
        if isinstance(infos, Mapping):
            raise TypeError("infos is a dict, as Gymnasium's vector environments give it; it must be a list of one "
                            "dict an environment, or pass handle_timeout_termination=False and as `done` the "
                            "terminations")
        if len(infos) != self.n_envs:
            raise ValueError(f"infos has {len(infos)} entries; it must have {self.n_envs}, one an environment")
        return np.array([[not info.get("TimeLimit.truncated", False)] for info in infos], np.float32)

    def _stream(self) -> int | None:
        """PyTorch's current CUDA stream; its 0 is the legacy default one."""
        if self._device.type != "cuda":
            return None
        return torch.cuda.current_stream(self._device).cuda_stream or 1

    def _ids(self, batch_inds: np.ndarray, envs: np.ndarray) -> np.ndarray:
        """The ids of transitions by position and environment: a position holds the latest step that came there."""
        if batch_inds.size and not 0 <= batch_inds.min() <= batch_inds.max() < self.size():
            raise IndexError(f"positions {batch_inds.min()} to {batch_inds.max()}; they must be 0 to "
                             f"{self.size() - 1}")
        last = self._steps - 1
        steps = last - (last - batch_inds) % self.buffer_size - self._first
        ids: np.ndarray = steps * self.n_envs + envs
        return ids

    def _samples(self, batch: Batch, env: Any) -> ReplayBufferSamples:
        kind = DictReplayBufferSamples if self._keys else ReplayBufferSamples
        obs, next_obs = self._observations(batch, "obs", env), self._observations(batch, "next_obs", env)
        reward = self._tensor(batch["reward"])
        if env is not None:
            normal = env.normalize_reward(np.asarray(batch["reward"]))
            reward = self.to_torch(normal.astype(np.float32, copy=False), copy=False)
        return kind(obs, self._tensor(batch["action"]), next_obs, self._tensor(batch["done"]), reward)

    def _observations(self, batch: Batch, name: str, env: Any) -> Any:
        if env is not None:
            return self._normalized(batch, name, env)
        if not self._keys:
            return self._tensor(batch[name])
        return {key: self._tensor(batch[f"{name}.{key}"]) for key in self._keys}

    def _normalized(self, batch: Batch, name: str, env: Any) -> Any:
        """VecNormalize knows NumPy alone, and returns arrays of its own."""
        if not self._keys:
            return self.to_torch(env.normalize_obs(np.asarray(batch[name])), copy=False)
        normal = env.normalize_obs({key: np.asarray(batch[f"{name}.{key}"]) for key in self._keys})
        return {key: self.to_torch(array, copy=False) for key, array in normal.items()}

    @property
    def device(self) -> torch.device:
        """Where the transitions lie. Another one, as `load_replay_buffer` assigns it, moves them there."""
        return self._device

    @device.setter
    def device(self, device: torch.device | str) -> None:
        wanted = torch_device(device)
        if wanted != self._device:
            self.__setstate__({**self.__getstate__(), "_device": wanted})

    def _rows(self) -> dict[str, np.ndarray]:
        """All transitions on the host, oldest first: (count, ...) by field."""
        count, begin = self.size() * self.n_envs, (self._steps - self.size() - self._first) * self.n_envs
        rows = {name: np.empty((count, *shape), dtype) for name, (shape, dtype) in self._fields.items()}
        most = self._max_batch
        for at in range(0, count, most):
            batch = self._replay.gather(np.arange(begin + at, begin + min(at + most, count)))
            for name, array in rows.items():
                array[at:at + most] = batch[name]
        return rows

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in self.__dict__.items() if name not in ("_replay", "_tensor")}
        return {**own, "_transitions": self._rows()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A buffer of a GPU that is not here lands on the CPU."""
        rows = state.pop("_transitions")
        self.__dict__.update(state)
        if self._device.type == "cuda" and not torch.cuda.is_available():
            self._device = torch.device("cpu")
        steps = self._steps
        self.reset()
        self._steps, self._first = steps, steps - min(steps, self.buffer_size)
        self._replay.extend(**rows)

    def __repr__(self) -> str:
        steps = f"{self.size()} of {self.buffer_size} steps of {self.n_envs}"
        return f"<gpureplay.sb3.ReplayBuffer, {steps} on {self._device}>"


register(ReplayBuffer)
