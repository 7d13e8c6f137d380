# SPDX-License-Identifier: MIT
"""The uniform buffer of gpureplay.sb3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _buffer, _inputs, _sb3_fields, _sb3_state, _sb3_steps
from ._accelerator import tried_in_c
from ._batch import Batch
from ._sb3_types import DictReplayBufferSamples, ReplayBufferSamples, joined, register, torch, torch_device


class ReplayBuffer:
    """A ring of transitions in the memory of the device that trains, which Stable-Baselines3 and CleanRL take for
    theirs.

    buffer_size: transitions in all; buffer_size // n_envs steps of all environments.
    observation_space, action_space: Gymnasium's. float64 is kept as float32; a Dict of leaves becomes a dict of
        tensors.
    device: PyTorch's, where the transitions lie and the batches appear: "auto", "cpu", "cuda", "cuda:N".
    n_envs: environments that one `add` steps.
    optimize_memory_usage: each observation is kept once; see below.
    handle_timeout_termination: an episode that its time limit ended (infos[i]["TimeLimit.truncated"]) is not done.
    seed: of the draws; None: as NumPy's global generator was seeded.
    max_batch: the largest batch that is drawn at once; None: 4,096, or 15/16 of the transitions if less; with
        optimize_memory_usage an eighth of them, but 1,024, or half of them, if that is more. A larger one is put
        together of several draws, which costs a copy.
    update_size: transitions that are copied to the device at once; None: the library's default.
    check_nan: a step with NaN in it is refused.
    n_steps, gamma: above 1, a transition's reward is that of so many steps, or of fewer at an episode's end or where it
        was cut, and a batch has `discounts`: gamma to the power of the steps there were, 0 where the task ended.
    frame_stack, stack_axis: with optimize_memory_usage, of observations that are stacks (VecFrameStack), how many
        frames these have, and on which axis, "first" or "last": each frame is then kept once.

    With optimize_memory_usage the last observation of an episode is kept, too, and what its time limit ended is
    bootstrapped from; so it goes together with handle_timeout_termination, which the originals refuse. Episodes that
    are shorter than 64 steps on average leave room for fewer transitions than buffer_size. With it, or with n_steps
    above 1, a space of observations is no Dict; `add` follows episodes, and an obs that is not the next_obs given
    before begins a new one of that environment: the old one counts as cut. With n_steps, the newest steps are not drawn
    before their return is known; a VecNormalize scales, and clips, a sum of rewards as it would one; and there is no
    `_get_samples`.

    Beside the methods below it has what the originals have under the names buffer_size (steps), observation_space,
    action_space, obs_shape, action_dim, device, n_envs, handle_timeout_termination; not their arrays (observations,
    actions, ...), which are on the device. It can be pickled, so `save_replay_buffer` and `load_replay_buffer` work;
    a library without cJSON and xxHash refuses, as Unavailable, to make what it could not pickle: optimize_memory_usage,
    n_steps above 1, priorities. One thread's at a time.
    """

    _more: dict[str, Any] = {}  # settings of the replay that a subclass has

    def __init__(self, buffer_size: int, observation_space: Any, action_space: Any,
                 device: torch.device | str = "auto", n_envs: int = 1, optimize_memory_usage: bool = False,
                 handle_timeout_termination: bool = True, *, seed: int | None = None, max_batch: int | None = None,
                 update_size: int | None = None, check_nan: bool = True, n_steps: int = 1, gamma: float = 0.99,
                 frame_stack: int = 1, stack_axis: str = "first"):
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.observation_space, self.action_space = observation_space, action_space
        self.n_envs, self.handle_timeout_termination = n_envs, handle_timeout_termination
        self._device = torch_device(device)
        self.optimize_memory_usage, self.n_steps, self.gamma = bool(optimize_memory_usage), n_steps, gamma
        self._by_steps = self.optimize_memory_usage or n_steps > 1
        _sb3_state.check(self)
        self._fields = _sb3_fields.fields_of(observation_space, action_space, self._by_steps)
        self._keys = [name[len("obs."):] for name in self._fields if name.startswith("obs.")]  # of a Dict space
        self._shapes = {name: (n_envs, *shape) for name, (shape, _) in self._fields.items()}  # of a step
        self._shapes["done"] = self._shapes["truncated"] = self._shapes["reward"]
        self._max_batch: int = max_batch or _sb3_fields.most_of(self.buffer_size * n_envs, update_size,
                                                                self.optimize_memory_usage)
        self._settings: dict[str, Any] = {"update_size": update_size, "check_nan": check_nan, **self._more,
                                          **_sb3_fields.settings_of(self, frame_stack, stack_axis),
                                          "seed": _sb3_fields.seed_of_numpy() if seed is None else seed}
        self.reset()

    def reset(self) -> None:
        """Forgets every transition."""
        if "_replay" in self.__dict__:
            self.close()
        self._replay = _buffer.ReplayBuffer(self.buffer_size * self.n_envs, self._fields, device=str(self._device),
                                            num_envs=self.n_envs, autoreset="disabled", max_batch=self._max_batch,
                                            **self._settings)
        self._in_c = _sb3_fields.in_c(self._replay, self.observation_space, self.action_space)
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
        if self._by_steps:
            return len(self._replay) // self.n_envs
        return min(self._steps, self.buffer_size)

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any,
            infos: Sequence[Mapping[str, Any]]) -> None:
        """One step of every environment.

        obs, next_obs: (n_envs, ...), or a dict of such; next_obs is the episode's last where it ended. action:
        (n_envs, ...). reward, done: (n_envs,). infos: one dict an environment; not looked at without
        handle_timeout_termination.

        ValueError, TypeError: another shape or dtype, or NaN; nothing was added."""
        cut = self._cut(infos) if self.handle_timeout_termination else None
        if self._by_steps:
            ends = {"terminated": done} if cut is None else self._ends(done, cut)
            self._give(obs=obs, action=action, reward=reward, next_obs=next_obs, **ends)
        else:
            if cut is not None:
                done = self._shaped("done", done) * ~cut[:, np.newaxis]
            if self._keys:
                leaves = {**self._leaves("obs", obs), **self._leaves("next_obs", next_obs)}
                self._give(**leaves, action=action, reward=reward, done=done)
            else:
                self._give(obs=obs, next_obs=next_obs, action=action, reward=reward, done=done)
        self._steps += 1

    @tried_in_c("_in_c")
    def _give(self, **values: Any) -> None:
        """A step's arrays, of one shape or another, to the replay."""
        rows = {name: self._shaped(name, value) for name, value in values.items()}
        if self._by_steps:
            _sb3_steps.add(self._replay, rows)
        else:
            self._replay.add(**rows)

    def _ends(self, done: Any, cut: np.ndarray) -> dict[str, np.ndarray]:
        """By steps: what was cut by the time limit is not terminated."""
        over = self._shaped("done", done) != 0
        return {"terminated": over & ~cut, "truncated": over & cut}

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
        if self.n_steps > 1:
            raise NotImplementedError(f"transitions of n_steps={self.n_steps} have no positions; `sample` draws them")
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
        return {f"{name}.{key}": value[key] for key in self._keys}

    def _shaped(self, name: str, value: Any) -> np.ndarray:
        """(n_envs, ...) as the field is; one environment's may come without the axis, an action in its own shape."""
        name = "done" if name == "terminated" else name
        _inputs.refuse_mask(name, value)
        array, wanted = np.asarray(value), self._shapes[name]
        if array.shape == wanted:
            return array
        if array.size != math.prod(wanted) or (self.n_envs > 1 and array.shape[0] != self.n_envs):
            raise ValueError(f"{name} has shape {array.shape}; it must be {wanted}")
        return array.reshape(wanted)

    def _cut(self, infos: Sequence[Mapping[str, Any]]) -> np.ndarray | None:
        """(n_envs,) bool: whether the time limit ended the episode. None: nobody's."""
        if type(infos) is not list or len(infos) != self.n_envs:
            self._refuse_infos(infos)
        for info in infos:
            if info.get("TimeLimit.truncated"):
                return np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        return None

    def _refuse_infos(self, infos: Any) -> None:
        if isinstance(infos, Mapping):
            raise TypeError("infos is a dict, as Gymnasium's vector environments give it; it must be a list of one "
                            "dict an environment, or pass handle_timeout_termination=False and as `done` the "
                            "terminations")
        if len(infos) != self.n_envs:
            raise ValueError(f"infos has {len(infos)} entries; it must have {self.n_envs}, one an environment")

    def _stream(self) -> int | None:
        """PyTorch's current CUDA stream; its 0 is the legacy default one."""
        if self._device.type != "cuda":
            return None
        return torch.cuda.current_stream(self._device).cuda_stream or 1

    def _ids(self, batch_inds: np.ndarray, envs: np.ndarray) -> np.ndarray:
        """The ids of transitions by position and environment: a position holds the latest step that came there; where
        there was no room for all of those, positions are those of the steps that are there, oldest first."""
        if batch_inds.size and not 0 <= batch_inds.min() <= batch_inds.max() < self.size():
            raise IndexError(f"positions {batch_inds.min()} to {batch_inds.max()}; they must be 0 to "
                             f"{self.size() - 1}")
        last, size = self._steps - 1, self.size()
        if size < min(self._steps, self.buffer_size):
            steps = self._steps - size + batch_inds
        else:
            steps = last - (last - batch_inds) % self.buffer_size
        ids: np.ndarray = (steps - self._first) * self.n_envs + envs
        return ids

    def _samples(self, batch: Batch, env: Any) -> Any:
        kind = DictReplayBufferSamples if self._keys else ReplayBufferSamples
        obs, next_obs = self._observations(batch, "obs", env), self._observations(batch, "next_obs", env)
        if self._by_steps:
            reward, done = self._column(batch["reward"]), self._column(batch["terminated"])
        else:
            reward, done = self._tensor(batch["reward"]), self._tensor(batch["done"])
        if env is not None:
            normal = env.normalize_reward(np.asarray(batch["reward"]).reshape(-1, 1))
            reward = self.to_torch(normal.astype(np.float32, copy=False), copy=False)
        discounts = self._column(batch["discount"]) if self.n_steps > 1 else None
        return kind(obs, self._tensor(batch["action"]), next_obs, done, reward, discounts)

    def _column(self, array: Any) -> torch.Tensor:
        """(B, 1) float32 of (B,): without a copy where it is float32."""
        return self._tensor(array).to(torch.float32).reshape(-1, 1)

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

    @property
    def dones(self) -> Any:
        """For Stable-Baselines3 alone, which writes True for the last step where a run begins anew: the open episodes
        end there, as if cut."""
        return _sb3_steps.Dones(self)

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in self.__dict__.items() if name not in ("_replay", "_in_c", "_tensor")}
        return {**own, **_sb3_state.contents(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A buffer of a GPU that is not here lands on the CPU."""
        kept = _sb3_state.taken_out(state)
        self.__dict__.update({**_sb3_state.OLD, **state})
        if self._device.type == "cuda" and not torch.cuda.is_available():
            self._device = torch.device("cpu")
        steps = self._steps
        self.reset()
        self._steps = steps
        _sb3_state.put_back(self, kept)

    def __repr__(self) -> str:
        steps = f"{self.size()} of {self.buffer_size} steps of {self.n_envs}"
        return f"<gpureplay.sb3.{type(self).__name__}, {steps} on {self._device}>"


register(ReplayBuffer)
