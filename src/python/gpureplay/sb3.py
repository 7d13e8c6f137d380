# SPDX-License-Identifier: MIT
"""Replay buffers with the signature of Stable-Baselines3's and CleanRL's, to use in their agents.

Stable-Baselines3, any off-policy algorithm (DQN, SAC, TD3, DDPG; Box and Dict observations):

    import gpureplay.sb3
    from stable_baselines3 import DQN

    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=gpureplay.sb3.ReplayBuffer)

CleanRL, dqn.py and other programs with `rb = ReplayBuffer(...)`: change one import.

    from cleanrl_utils.buffers import ReplayBuffer              # before the change, since 2025
    from stable_baselines3.common.buffers import ReplayBuffer   # before the change, until 2025
    from gpureplay.sb3 import ReplayBuffer                      # after the change

To store each observation once, and to learn from returns of several steps:

    model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=gpureplay.sb3.ReplayBuffer, optimize_memory_usage=True,
                replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99})

HerReplayBuffer replaces goals by achieved ones. PrioritizedReplayBuffer samples by priority; its documentation says
what an agent must do for that.

The module needs PyTorch, and Stable-Baselines3 only if that is the caller.
"""

from __future__ import annotations

import math
import pickle
import sys
import tempfile
import warnings
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _buffer, _c_api
from ._batch import Batch
from ._choices import CHOICES
from ._device import caller_depth
from ._hindsight import Hindsight, checked_rewards
from ._inputs import convert, integer, refuse_mask, refuse_one_memory
from ._library import InvalidArgument, Unavailable, lib
from ._schema import from_spaces, obs_of
from ._spaces import is_a, parts_of
from ._tuples import PriorityStats

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gpureplay.sb3 makes PyTorch's tensors, and PyTorch is not installed; `pip install "
                              "torch`, or use gpureplay.ReplayBuffer, which needs NumPy alone") from error

try:
    from stable_baselines3.common import buffers as _sb3_buffers
    from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
except ModuleNotFoundError:
    _sb3_buffers = None

    class ReplayBufferSamples(NamedTuple):  # type: ignore[no-redef]
        """A minibatch of B transitions as tensors. Under a Dict space observations are a dict of tensors."""

        observations: Any  # (B, ...)
        actions: torch.Tensor  # (B, numbers in an action)
        next_observations: Any  # (B, ...)
        dones: torch.Tensor  # (B, 1) float32
        rewards: torch.Tensor  # (B, 1) float32
        discounts: torch.Tensor | None = None

    DictReplayBufferSamples = ReplayBufferSamples

__all__ = ["HerReplayBuffer", "PrioritizedReplayBuffer", "PrioritizedReplayBufferSamples", "ReplayBuffer"]

_CUT_STEPS = 16  # if more than half of so many steps continue no episode, there is a warning
_NEEDS_FILES = ("optimize_memory_usage, n_steps above 1, priorities and hindsight are pickled, which "
                "`save_replay_buffer` does, as files of the library, and this one was built without cJSON or xxHash: "
                "`sudo apt install libcjson-dev libxxhash-dev`, then `pip install --force-reinstall --no-cache-dir .` "
                "in its sources")
_Fields = dict[str, tuple[tuple[int, ...], np.dtype]]


class PrioritizedReplayBufferSamples(NamedTuple):
    """A minibatch of B transitions that were sampled by priority: the tensors of ReplayBufferSamples, and two more."""

    observations: Any  # (B, ...), or a dict of such
    actions: torch.Tensor  # (B, numbers in an action)
    next_observations: Any  # (B, ...), or a dict of such
    dones: torch.Tensor  # (B, 1) float32
    rewards: torch.Tensor  # (B, 1) float32
    discounts: torch.Tensor | None  # (B, 1) float32, with n_steps above 1
    weights: torch.Tensor  # (B, 1) float32
    indices: torch.Tensor  # (B,) int64


class ReplayBuffer:
    """A ring of transitions in the memory of the device that trains, with the interface of Stable-Baselines3's and
    CleanRL's buffers.

    buffer_size: the number of transitions: buffer_size // n_envs steps of all environments.
    observation_space, action_space: Gymnasium's. float64 is stored as float32. A Dict of leaves becomes a dict of
        tensors.
    device: PyTorch's device, which holds the transitions and the batches: "auto", "cpu", "cuda", "cuda:N".
    n_envs: the number of environments that one `add` steps.
    optimize_memory_usage: each observation is stored once; see below.
    handle_timeout_termination: an episode that its time limit ended (infos[i]["TimeLimit.truncated"]) is not done.
    seed: of sampling. None: it follows from the state of NumPy's global generator.
    max_batch: the largest batch that is sampled at once. None: 4,096, or all transitions if those are fewer. A larger
        batch is joined from several, which costs a copy.
    block_rows: the number of transitions that are copied to the device at once. None: the library's default.
    check_nan: a step with NaN or infinity in it is refused.
    n_steps, gamma: with n_steps above 1, a transition's reward is the return of that many steps, or of fewer if the
        episode ended or was cut. A batch then has `discounts`: gamma to the power of the number of steps, or 0 if the
        task ended.
    frame_stack, stack_axis: with optimize_memory_usage, for observations that are stacks (VecFrameStack): the number of
        frames of a stack, and their axis, "first" or "last". Each frame is then stored once.

    With optimize_memory_usage the last observation of an episode is stored, too, and transitions that a time limit
    ended are bootstrapped from it. So it goes together with handle_timeout_termination, which Stable-Baselines3
    refuses. Episodes shorter than 64 steps on average leave room for fewer transitions than buffer_size. With it, or
    with n_steps above 1, the space of observations must not be a Dict. `add` then tracks episodes: an obs that is not
    the next_obs given before begins a new episode of its environment, and the old one counts as cut. With n_steps, the
    newest steps are not sampled before their return is known, a VecNormalize scales and clips a sum of rewards like one
    reward, and there is no `_get_samples`.

    Beside the methods below the class has the originals' buffer_size (steps), observation_space, action_space,
    obs_shape, action_dim, device, n_envs and handle_timeout_termination. It does not have their arrays (observations,
    actions, ...), because those are on the device. It can be pickled, so `save_replay_buffer` and `load_replay_buffer`
    work. A library without cJSON and xxHash cannot pickle optimize_memory_usage, n_steps above 1, priorities and
    hindsight; it refuses to make such buffers, as Unavailable. Only one thread at a time may use a buffer.

        buffer = gpureplay.sb3.ReplayBuffer(10_000, env.observation_space, env.action_space, device="cpu")
        buffer.add(obs, next_obs, action, reward, done, infos)
        buffer.extend([obs], [next_obs], [action], [reward], [done], [infos])
        data = buffer.sample(64)                  # data.observations, data.actions, ... are tensors
        print(buffer.size())
        buffer.reset()
        buffer.close()
    """

    _more_settings: dict[str, Any] = {}  # a subclass sets them before it calls __init__; a pickle then has a file
    _more_fields: _Fields = {}  # likewise
    _has_warned = False  # of episodes that are cut

    def __init__(self, buffer_size: int, observation_space: Any, action_space: Any,
                 device: torch.device | str = "auto", n_envs: int = 1, optimize_memory_usage: bool = False,
                 handle_timeout_termination: bool = True, *, seed: int | None = None, max_batch: int | None = None,
                 block_rows: int | None = None, check_nan: bool = True, n_steps: int = 1, gamma: float = 0.99,
                 frame_stack: int = 1, stack_axis: str = "first"):
        n_envs, n_steps = _at_least(1, "n_envs", n_envs), integer("n_steps", n_steps, 1, _c_api.MAX_N_STEP)
        # It holds at least one step of all environments, as in the originals, and at least two transitions.
        buffer_size = _at_least(2 if n_envs == 1 else 1, "buffer_size", buffer_size)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.observation_space, self.action_space = observation_space, action_space
        self.n_envs, self.handle_timeout_termination = n_envs, handle_timeout_termination
        self._device = _torch_device(device)
        self.optimize_memory_usage, self.n_steps, self.gamma = bool(optimize_memory_usage), n_steps, gamma
        self._by_steps = self.optimize_memory_usage or n_steps > 1  # the library tracks episodes
        if self._needs_file and b"\nfiles: none" in lib.gpur_build_info():
            raise Unavailable(_NEEDS_FILES)  # now, and not when an agent that has trained for a day is saved
        self._fields = {**_fields_of(observation_space, action_space, self._by_steps), **self._more_fields}
        self._keys = [name[len("obs."):] for name in self._fields if name.startswith("obs.")]  # of a Dict space
        self._shapes = {name: (n_envs, *shape) for name, (shape, _) in self._fields.items()}  # of a step
        self._shapes["done"] = self._shapes["truncated"] = self._shapes["reward"]
        self._settings: dict[str, Any] = {"max_batch": max_batch, "block_rows": block_rows, "check_nan": check_nan,
                                          **self._more_settings, **_settings_of(self, frame_stack, stack_axis),
                                          "seed": _seed_of_numpy() if seed is None else seed}
        if n_steps == 1:
            _warn_of_n_steps(self)
        self.reset()

    def reset(self) -> None:
        """Removes every transition."""
        if "_replay" in self.__dict__:
            self.close()
        self._replay = _buffer.ReplayBuffer(self.buffer_size * self.n_envs, self._fields, device=str(self._device),
                                            num_envs=self.n_envs, autoreset="disabled", **self._settings)
        self._max_batch: int = self._replay.config["max_batch"]
        # For arrays in the shapes in which Stable-Baselines3 has them: (n_envs, ...) of the spaces' own.
        given = {name: shape for name, shape, _ in from_spaces(self.observation_space, self.action_space)}
        self._adder = self._replay._writer._make_adder({**given, "done": ()})
        self._steps = 0  # steps added since the buffer was made
        self._cuts = self._cuts_since = 0  # episodes that were cut from that step on
        self._first = 0  # the step whose first transition has id 0 in the replay
        self._tensor = torch.from_numpy if self._device.type == "cpu" else torch.from_dlpack  # neither copies

    @property
    def pos(self) -> int:
        """The position of the next step, 0 to buffer_size - 1."""
        return self._steps % self.buffer_size

    @property
    def full(self) -> bool:
        """Whether the next step overwrites the oldest."""
        return self._steps >= self.buffer_size

    @property
    def obs_shape(self) -> Any:
        """The shape of one observation; under a Dict space a dict of shapes."""
        if not self._keys:
            return self._fields["obs"][0]
        return {key: self._fields[f"obs.{key}"][0] for key in self._keys}

    @property
    def action_dim(self) -> int:
        """The count of numbers in an action."""
        return self._fields["action"][0][0]

    @staticmethod
    def swap_and_flatten(arr: np.ndarray) -> np.ndarray:
        """(steps, n_envs, ...) to (n_envs * steps, ...): all steps of the first environment, then those of the next.
        Single numbers get an axis of length 1.

            rows = buffer.swap_and_flatten(steps)
        """
        steps, envs, *features = arr.shape
        return arr.swapaxes(0, 1).reshape(envs * steps, *(features or [1]))

    def size(self) -> int:
        """The number of stored steps, of n_envs transitions each."""
        if self._by_steps:
            return len(self._replay) // self.n_envs
        return min(self._steps, self.buffer_size)

    # Adding steps.

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any,
            infos: Sequence[Mapping[str, Any]]) -> None:
        """Adds one step of every environment.

        obs, next_obs: (n_envs, ...), or a dict of such. Where an episode ended, next_obs is its last observation.
        action: (n_envs, ...). reward, done: (n_envs,). infos: one dict for each environment; it is not read without
        handle_timeout_termination.

        ValueError, TypeError: another shape or dtype, or NaN. Nothing was added."""
        cut = self._cut(infos) if self.handle_timeout_termination else None
        if self._by_steps:
            ends = {"terminated": done} if cut is None else self._ends(done, cut)
            self._store(obs=obs, action=action, reward=reward, next_obs=next_obs, **ends)
        else:
            if cut is not None:
                done = self._shaped("done", done) * ~cut[:, np.newaxis]
            if self._keys:
                leaves = {**self._leaves("obs", obs), **self._leaves("next_obs", next_obs)}
                self._store(**leaves, action=action, reward=reward, done=done)
            else:
                self._store(obs=obs, next_obs=next_obs, action=action, reward=reward, done=done)
        self._steps += 1

    def _store(self, **values: Any) -> None:
        """Adds a step's arrays, of any shape that `_shaped` accepts, to the replay."""
        if self._adder is not None and self._adder.add(**values) is not None:
            return
        refuse_one_memory(values)
        rows = {name: self._shaped(name, value) for name, value in values.items()}
        if self._by_steps:
            rows["terminated"] = rows["terminated"] != 0
            rows["obs"] = convert(rows["obs"], next(field for field in self._replay.fields if field.name == "obs"))
            self._end_broken_episodes(rows)
        self._replay.add(**rows)

    def _end_broken_episodes(self, rows: dict[str, np.ndarray]) -> None:
        """Ends the open episodes that the observations of this step do not continue. Agents do not report to this kind
        of buffer that an episode was broken off. A step of wrong numbers, shapes, types or stacks ends none."""
        obs = rows["obs"]
        tracker = self._replay._writer._tracker
        assert tracker is not None
        gaps = tracker.gaps(obs)
        if gaps:
            tracker.check(rows, self._replay.check_nan)
            self._replay.reset(gaps)
            self._count_cuts(len(gaps))

    def _count_cuts(self, cuts: int) -> None:
        """Warns, once, if most steps do not go on from the one before."""
        if self._steps - self._cuts_since >= _CUT_STEPS:
            self._cuts, self._cuts_since = 0, self._steps
        self._cuts += cuts
        if self._cuts > self.n_envs * _CUT_STEPS // 2 and not self._has_warned:
            self._has_warned = True
            warnings.warn("the obs of most steps is not the next_obs that was given before, so that each of them cuts "
                          f"an episode, and {self._lost_by_cuts}; give both as the environments gave them: where they "
                          "are normalized, normalize what is sampled and not what is added, as Stable-Baselines3's "
                          "VecNormalize does", UserWarning, stacklevel=caller_depth())

    @property
    def _lost_by_cuts(self) -> str:
        return f"n_steps={self.n_steps} is 1 there" if self.n_steps > 1 else "observations are stored twice there"

    def _ends(self, done: Any, cut: np.ndarray) -> dict[str, np.ndarray]:
        """Where the library tracks episodes: what the time limit ended is truncated and not terminated."""
        ended = self._shaped("done", done) != 0
        return {"terminated": ended & ~cut, "truncated": ended & cut}

    def _leaves(self, name: str, value: Any) -> dict[str, Any]:
        return {f"{name}.{key}": value[key] for key in self._keys}

    def _shaped(self, name: str, value: Any) -> np.ndarray:
        """The value as (n_envs, ...) with the field's shape. That of a single environment may come without the first
        axis, and an action in the shape of its space."""
        name = "done" if name == "terminated" else name
        refuse_mask(name, value)
        array, wanted = np.asarray(value), self._shapes[name]
        if array.shape == wanted:
            return array
        if array.size != math.prod(wanted) or (self.n_envs > 1 and array.shape[0] != self.n_envs):
            raise ValueError(f"{name} has shape {array.shape}; it must be {wanted}")
        return array.reshape(wanted)

    def _cut(self, infos: Sequence[Mapping[str, Any]]) -> np.ndarray | None:
        """(n_envs,) bool: whether the time limit ended the episode. None: it ended none."""
        if type(infos) is not list or len(infos) != self.n_envs:
            self._refuse_infos(infos)
        for info in infos:
            if info.get("TimeLimit.truncated"):
                return np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        return None

    def _refuse_infos(self, infos: Any) -> None:
        """Refuses what is no sequence of n_envs dicts."""
        if isinstance(infos, Mapping):
            raise TypeError("infos is a dict, as Gymnasium's vector environments give it; it must be a list of one "
                            "dict an environment, or pass handle_timeout_termination=False and as `done` the "
                            "terminations")
        if len(infos) != self.n_envs:
            raise ValueError(f"infos has {len(infos)} entries; it must have {self.n_envs}, one an environment")

    def extend(self, *args: Sequence[Any]) -> None:
        """Adds several steps: the arguments of `add`, each with one more axis in front."""
        lengths = [len(values) for values in args]
        if len(set(lengths)) > 1:
            raise ValueError(f"the arguments have {lengths} steps; they must be as many")
        for step in zip(*args):
            self.add(*step)

    @property
    def dones(self) -> Any:
        """For Stable-Baselines3, which sets the last step's entry to True when a run begins again: the open episodes
        then end as if cut."""
        return _Dones(self)

    # Sampling.

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """A minibatch of any size, sampled uniformly with replacement on the device. Its tensors share the batch's
        memory (up to max_batch), and nothing overwrites them while they are referenced. env: a VecNormalize, by which
        observations and rewards are normalized on the host.

        TooFew: the buffer is empty."""
        stream, most = self._stream(), self._max_batch
        if batch_size <= most:
            return self._samples(self._replay.sample(batch_size, stream=stream), env)
        sizes = [most] * (batch_size // most) + [batch_size % most] * (batch_size % most > 0)
        return _joined([self._samples(self._replay.sample(size, stream=stream), env) for size in sizes])

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> ReplayBufferSamples:
        """The transitions at these positions (B,), 0 to size() - 1, each of an environment that NumPy's global
        generator chooses, as in the originals. So a subclass whose `sample` chooses positions as theirs does gets what
        they would return.

        IndexError: a position beyond size() - 1."""
        if self.n_steps > 1:
            raise NotImplementedError(f"transitions of n_steps={self.n_steps} have no positions; use `sample`")
        batch_inds = np.asarray(batch_inds)
        envs = np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))
        ids, stream, most = self._ids(batch_inds, envs), self._stream(), self._max_batch
        parts = [ids[at:at + most] for at in range(0, len(ids), most)] or [ids]
        found = [self._samples(self._replay.gather(part, stream=stream), env) for part in parts]
        return found[0] if len(found) == 1 else _joined(found)

    def _ids(self, batch_inds: np.ndarray, envs: np.ndarray) -> np.ndarray:
        """The ids of transitions by position and environment. A position means the latest step that was stored there.
        If there was not room for buffer_size steps, positions count the stored steps, oldest first."""
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

    def _stream(self) -> int | None:
        """PyTorch's current CUDA stream. Its 0 is the legacy default stream."""
        if self._device.type != "cuda":
            return None
        return torch.cuda.current_stream(self._device).cuda_stream or 1

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
        """(B, 1) float32 of (B,). float32 is not copied."""
        return self._tensor(array).to(torch.float32).reshape(-1, 1)

    def _observations(self, batch: Batch, name: str, env: Any) -> Any:
        if env is not None:
            return self._normalized(batch, name, env)
        if not self._keys:
            return self._tensor(batch[name])
        return {key: self._tensor(batch[f"{name}.{key}"]) for key in self._keys}

    def _normalized(self, batch: Batch, name: str, env: Any) -> Any:
        """VecNormalize takes NumPy arrays and returns new ones."""
        if not self._keys:
            return self.to_torch(env.normalize_obs(np.asarray(batch[name])), copy=False)
        normal = env.normalize_obs({key: np.asarray(batch[f"{name}.{key}"]) for key in self._keys})
        return {key: self.to_torch(array, copy=False) for key, array in normal.items()}

    def to_torch(self, array: np.ndarray, copy: bool = True) -> torch.Tensor:
        """A tensor on the device. copy=False shares the memory where that is possible."""
        return torch.tensor(array, device=self._device) if copy else torch.as_tensor(array, device=self._device)

    # The buffer as a whole.

    @property
    def device(self) -> torch.device:
        """The device that holds the transitions. Assigning another one, as `load_replay_buffer` does, moves them."""
        return self._device

    @device.setter
    def device(self, device: torch.device | str) -> None:
        wanted = _torch_device(device)
        if wanted != self._device:
            self.__setstate__({**self.__getstate__(), "_device": wanted})

    def close(self) -> None:
        """Frees the memory. Batches that are still referenced stay valid."""
        self._replay.close()

    @property
    def _needs_file(self) -> bool:
        """Whether a pickle needs more than the rows: open episodes, links between transitions, or priorities."""
        return self._by_steps or bool(self._more_settings)

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
        state = {name: value for name, value in self.__dict__.items() if name not in ("_replay", "_adder", "_tensor")}
        if not self._needs_file:
            return {**state, "_transitions": self._rows()}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "replay")
            self._replay.save(path)
            return {**state, "_file": path.read_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A buffer of a GPU that does not exist here is loaded to the CPU."""
        rows, file = state.pop("_transitions", None), state.pop("_file", None)
        self.__dict__.update(state)
        if self._device.type == "cuda" and not torch.cuda.is_available():
            self._device = torch.device("cpu")
        steps = self._steps
        self.reset()
        self._steps = steps
        if rows is not None:
            self._first = steps - min(steps, self.buffer_size)
            self._replay.extend(**rows)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "replay")
            path.write_bytes(file)
            self._replay.load(path)

    def __repr__(self) -> str:
        steps = f"{self.size()} of {self.buffer_size} steps of {self.n_envs}"
        return f"<gpureplay.sb3.{type(self).__name__}, {steps} on {self._device}>"


class PrioritizedReplayBuffer(ReplayBuffer):
    """Like ReplayBuffer, except that transitions are sampled in proportion to priority ** alpha [Schaul et al. 2016]. A
    minibatch has two more tensors: `weights`, (B, 1) float32, by which each transition's loss must be multiplied, and
    `indices`, (B,) int64, for `update_priorities`. New transitions have the largest priority in the
    buffer.

    The agents of Stable-Baselines3 neither weight losses nor update priorities: with them sampling stays uniform. Use
    the class in a training loop of your own, such as CleanRL's, or in an agent with another `train`:

        data = rb.sample(128)
        ...
        error = target - value                                          # (B, 1), of data's tensors
        loss = (data.weights * torch.nn.functional.smooth_l1_loss(value, target, reduction="none")).mean()
        rb.update_priorities(data.indices, error.abs())

    alpha: 0 is uniform. beta: the exponent of the weights: a number, or (first, last, steps) of batches.
    weight_norm: what weights are divided by: "batch": the batch's largest; "memory": the largest that any transition
        would have; "none". priority_offset: is added to every priority. None: 1e-6.
    more: the arguments of ReplayBuffer, optimize_memory_usage and n_steps among them.
    """

    def __init__(self, *given: Any, alpha: float = 0.6, beta: float | Sequence[float] = 0.4,
                 weight_norm: str = "batch", priority_offset: float | None = None, **more: Any):
        self._more_settings = {"prioritized": True, "alpha": alpha, "beta": beta, "weight_norm": weight_norm,
                                   "priority_offset": priority_offset}
        super().__init__(*given, **more)

    def sample(self, batch_size: int, env: Any = None) -> PrioritizedReplayBufferSamples:
        """A minibatch of at most max_batch transitions: the weights of several batches could not be compared. Otherwise
        as in ReplayBuffer.

        ValueError: batch_size is above max_batch."""
        if batch_size > self._max_batch:
            raise ValueError(f"batch_size is {batch_size}; it must be at most {self._max_batch}: make the buffer with "
                             "max_batch=..., or with a larger buffer_size")
        batch: PrioritizedReplayBufferSamples = super().sample(batch_size, env)
        return batch

    def update_priorities(self, indices: torch.Tensor, priorities: torch.Tensor) -> None:
        """Gives transitions new priorities, such as the size of their errors: (B,) or (B, 1), tensors on the buffer's
        device or the host, or arrays. Transitions that were overwritten meanwhile are skipped. On the CPU a negative,
        infinite or NaN priority is a ValueError, and so is an index that no transition has had; on CUDA the absolute
        value counts, and what is not finite, or of no transition, is skipped and counted."""
        found, given = (torch.as_tensor(values, device=self._device).detach().reshape(-1)
                        for values in (indices, priorities))
        given = given.to(torch.float32)
        if self._device.type == "cpu":
            self._replay.update_priorities(found.numpy(), given.numpy())
        else:
            self._replay.update_priorities(found, given, stream=self._stream())

    @property
    def alpha(self) -> float:
        """The exponent of priorities. Assigning changes it for all later samples."""
        return self._replay.alpha

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        self._replay.alpha = alpha

    @property
    def beta(self) -> float:
        """The exponent of the weights of the next batch. Assigning ends its schedule."""
        return self._replay.beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._replay.beta = beta

    @property
    def priority_stats(self) -> PriorityStats:
        """Statistics of all priorities at this moment, among them the number of updates, and how many of them were of
        transitions that are gone (`stale`) or no priority (`invalid`)."""
        return self._replay.priority_stats

    def _samples(self, batch: Batch, env: Any) -> Any:
        more = self._column(batch["weight"]), self._tensor(batch["id"])
        return PrioritizedReplayBufferSamples._make((*super()._samples(batch, env), *more))


class HerReplayBuffer(ReplayBuffer):
    """Hindsight experience replay [Andrychowicz et al. 2017], with the interface of Stable-Baselines3's
    HerReplayBuffer: goals are replaced on the device while a minibatch is sampled, and their rewards computed by the
    environment's compute_reward, in one call for a minibatch.

        model = SAC("MultiInputPolicy", env, replay_buffer_class=gpureplay.sb3.HerReplayBuffer,
                    replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"})

    observation_space: a Dict with "achieved_goal" and "desired_goal" of one shape, and others.
    env: a VecEnv, or an environment, with compute_reward(achieved_goal, desired_goal, infos) of arrays.
        Stable-Baselines3's agents give theirs. A pickle does not have it: `set_env` gives it again.
    n_sampled_goal: k: a transition gets a new goal with probability k / (k + 1). In the original exactly that part of
        each minibatch does.
    goal_selection_strategy: "future", "final" or "episode", or Stable-Baselines3's GoalSelectionStrategy.
    copy_info_dict: must be False: infos are not stored, and compute_reward gets an empty dict for each transition.
    more: seed, max_batch, block_rows and check_nan of ReplayBuffer.

    Transitions of episodes that have not ended are sampled, too, as they were stored; in the original they are not, and
    `sample` fails before the end of the first one. An obs that is not the next_obs given before begins a new episode.
    After loading the open episodes count as cut, whatever truncate_last_traj is.
    """

    _more_fields = {"truncated": ((), np.dtype(np.bool_))}  # whether the episode is over, for whichever reason

    def __init__(self, buffer_size: int, observation_space: Any, action_space: Any, env: Any,
                 device: torch.device | str = "auto", n_envs: int = 1, optimize_memory_usage: bool = False,
                 handle_timeout_termination: bool = True, n_sampled_goal: int = 4,
                 goal_selection_strategy: Any = "future", copy_info_dict: bool = False, **more: Any):
        if optimize_memory_usage:
            raise InvalidArgument("optimize_memory_usage is True; with hindsight it must be False, as in "
                                  "Stable-Baselines3: a goal is not that of the observation before")
        if copy_info_dict:
            raise InvalidArgument("copy_info_dict is True; it must be False: infos are dicts of any objects, which are "
                                  "not stored on the device; put what compute_reward needs into achieved_goal")
        unknown = more.keys() - {"seed", "max_batch", "block_rows", "check_nan"}
        if unknown:
            raise TypeError(f"{sorted(unknown)} are no arguments of a HerReplayBuffer; beside Stable-Baselines3's it "
                            "has seed, max_batch, block_rows and check_nan")
        self._goals = _goals_of(observation_space)
        self._more_fields = {**self._more_fields, **{
            f"{prefix}{key}": (shape or (1,), np.dtype(np.float32))
            for key, (shape, _) in self._goals.items() for prefix in ("obs.", "next_obs.")}}
        strategy = str(getattr(goal_selection_strategy, "name", goal_selection_strategy)).lower()
        if strategy not in CHOICES["strategy"]:
            raise ValueError(f"goal_selection_strategy is {goal_selection_strategy!r}; it must be one of "
                             f"{', '.join(map(repr, CHOICES['strategy']))}")
        self.env, self.goal_selection_strategy, self.copy_info_dict = env, strategy, False
        self.n_sampled_goal = integer("n_sampled_goal", n_sampled_goal)
        hindsight = Hindsight(strategy, self.n_sampled_goal, "unchanged")  # type: ignore[arg-type]
        self._more_settings = {"hindsight": hindsight}
        super().__init__(buffer_size, observation_space, action_space, device, n_envs,
                         handle_timeout_termination=handle_timeout_termination, **more)

    def set_env(self, env: Any) -> None:
        """Sets the environment of a buffer that was unpickled.
        ValueError: it has one.

            buffer = pickle.loads(saved)
            buffer.set_env(env)
        """
        if self.env is not None:
            raise ValueError("the buffer has an environment; `set_env` is for one that was unpickled")
        self.env = env

    def truncate_last_trajectory(self) -> None:
        """The open episodes end here, though nothing says so."""
        self._replay.reset()
        self._is_open[:] = False

    def reset(self) -> None:
        super().reset()
        self._is_open = np.zeros(self.n_envs, np.bool_)
        self._last: dict[str, np.ndarray] = {}  # the next_obs of the step before, by leaf

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any,
            infos: Sequence[Mapping[str, Any]]) -> None:
        cut = self._cut(infos) if self.handle_timeout_termination else None
        values = {**self._leaves("obs", obs), **self._leaves("next_obs", next_obs), "action": action, "reward": reward}
        refuse_one_memory(values)
        rows = {name: self._shaped(name, value) for name, value in values.items()}
        is_over = self._shaped("done", done) != 0
        rows["done"] = is_over if cut is None else is_over * ~cut[:, np.newaxis]
        rows["truncated"] = is_over[:, 0]
        self._end_broken_episodes(rows)
        self._replay.add(**rows)
        self._is_open, self._last = ~is_over[:, 0], {key: rows[f"next_obs.{key}"].copy() for key in self._keys}
        self._steps += 1

    def _end_broken_episodes(self, rows: dict[str, np.ndarray]) -> None:
        gaps = [env for env in np.flatnonzero(self._is_open).tolist()
                if any((rows[f"obs.{key}"][env] != last[env]).any() for key, last in self._last.items())]
        if gaps:
            self._replay._writer._check_step(rows)
            self._replay.reset(gaps)
            self._count_cuts(len(gaps))

    @property
    def _lost_by_cuts(self) -> str:
        return "the goals of each are those of one step"

    def _samples(self, batch: Batch, env: Any) -> Any:
        """With the rewards of new goals, which are written where those that were stored are."""
        rows = self._tensor(batch["relabeled"]).nonzero()[:, 0]
        if len(rows) > 0:
            achieved, desired = (self._tensor(batch[name])[rows].cpu().numpy().astype(self._goals[key][1], copy=False)
                                 for name, key in (("next_obs.achieved_goal", "achieved_goal"),
                                                   ("obs.desired_goal", "desired_goal")))
            rewards = checked_rewards(np.asarray(self._compute_reward(achieved, desired)), len(rows),
                                      check_nan=self._replay.check_nan)
            self._tensor(batch["reward"])[rows] = self.to_torch(rewards[:, np.newaxis], copy=False)
            if env is not None and self._device.type == "cuda":  # VecNormalize reads the batch by another stream
                torch.cuda.current_stream(self._device).synchronize()
        return super()._samples(batch, env)

    def _compute_reward(self, achieved: np.ndarray, desired: np.ndarray) -> Any:
        if self.env is None:
            raise ValueError("the buffer has no environment to compute rewards with; give it one with `set_env`")
        infos: list[dict[str, Any]] = [{} for _ in range(len(achieved))]
        if hasattr(self.env, "env_method"):
            return self.env.env_method("compute_reward", achieved, desired, infos, indices=[0])[0]
        return self.env.unwrapped.compute_reward(achieved, desired, infos)

    def _observations(self, batch: Batch, name: str, env: Any) -> Any:
        found = super()._observations(batch, name, env)
        if env is None:
            for key, (_, dtype) in self._goals.items():
                found[key] = found[key].to(torch.from_numpy(np.empty(0, dtype)).dtype)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "env"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.env = self.__dict__.get("env")  # of a buffer that moves to another device
        super().__setstate__(state)


def _goals_of(observation_space: Any) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """The shapes and dtypes of both goals, by their keys."""
    parts = dict(parts_of(observation_space)) if is_a(observation_space, "Dict") else {}
    found = {}
    for key in ("achieved_goal", "desired_goal"):
        field = obs_of(parts[key]) if key in parts else []
        if len(field) != 1:
            raise TypeError(f"observation_space is {observation_space}; a HerReplayBuffer needs a Dict with "
                            "\"achieved_goal\" and \"desired_goal\", each one array")
        found[key] = field[0].shape, field[0].dtype
    if found["achieved_goal"] != found["desired_goal"]:
        raise TypeError(f"achieved_goal is {parts['achieved_goal']} and desired_goal {parts['desired_goal']}; they "
                        "must have the same shape and dtype")
    return found


class _Dones:
    """The `dones` of a buffer, which can only be written."""

    def __init__(self, buffer: ReplayBuffer):
        self._buffer = buffer

    def __setitem__(self, position: int, done: Any) -> None:
        buffer = self._buffer
        if position != (buffer.pos - 1) % buffer.buffer_size or not np.all(done):
            raise ValueError(f"dones[{position!r}] is set to {done!r}; only the last step's can be, to True")
        if buffer._by_steps:
            buffer._replay.reset()


def _torch_device(device: Any) -> torch.device:
    """The device with its index. "auto" is the GPU if PyTorch has one."""
    if isinstance(device, str) and device == "auto":
        device = "cuda"
        if not torch.cuda.is_available():
            device = "cpu"
    device = torch.device(device)
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {str(device)!r}; it must be \"auto\", \"cpu\", \"cuda\" or \"cuda:N\"")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _fields_of(observation_space: Any, action_space: Any, by_steps: bool) -> _Fields:
    """The fields in the shapes that a batch should have, so that no tensor must be reshaped: a single number gets an
    axis, and an action is flat. `done` is (1 - timeout) x done, as the losses need it. by_steps: the library tracks
    episodes, which needs its own shapes."""
    found: _Fields = {}
    if any(kind.__name__ == "Tuple" for kind in type(observation_space).__mro__):
        raise TypeError(f"observation_space is {observation_space}; Stable-Baselines3 has no Tuple: make it a Dict")
    for name, shape, dtype in from_spaces(observation_space, action_space):
        if name.partition(".")[0] in ("obs", "next_obs", "reward"):
            found[name] = shape or (1,), dtype
        elif name == "action":
            found[name] = (math.prod(shape),), dtype
    if "action" not in found:
        raise TypeError(f"action_space is {action_space}; it must be one Box, Discrete, MultiDiscrete or MultiBinary")
    if not by_steps:
        return {**found, "done": ((1,), np.dtype(np.float32))}
    if "obs" not in found:
        raise TypeError(f"observation_space is {observation_space}; with optimize_memory_usage, or n_steps above 1, it "
                        "must be one Box, Discrete, MultiDiscrete or MultiBinary")
    return {**found, "reward": ((), np.dtype(np.float32)), "terminated": ((), np.dtype(np.bool_))}


def _at_least(least: int, name: str, value: Any) -> int:
    number = integer(name, value)
    if number < least:
        raise InvalidArgument(f"{name} is {number}; it must be {least} or more")
    return number


def _settings_of(buffer: ReplayBuffer, frame_stack: int, stack_axis: str) -> dict[str, Any]:
    """The settings of the replay behind a buffer."""
    if not buffer.optimize_memory_usage and frame_stack != 1:
        raise ValueError(f"frame_stack is {frame_stack!r}; without optimize_memory_usage it must be 1: stacks are kept "
                         "whole")
    of_frames = {"layout": "frames", "frame_stack": frame_stack, "stack_axis": stack_axis}
    return {**(of_frames if buffer.optimize_memory_usage else {}),
            **({"n_step": buffer.n_steps, "gamma": buffer.gamma} if buffer.n_steps > 1 else {})}


def _warn_of_n_steps(buffer: ReplayBuffer) -> None:
    """Warns if the agent that makes this buffer has n_steps, which Stable-Baselines3 gives to buffers of its own alone.
    From 2.9.2 on it says so itself."""
    version, frame = getattr(sys.modules.get("stable_baselines3"), "__version__", ""), sys._getframe(1)
    while frame.f_back is not None and frame.f_locals.get("self") is buffer:
        frame = frame.f_back
    agent: Any = frame.f_locals.get("self")
    n_steps = getattr(agent, "n_steps", 1)
    if hasattr(agent, "replay_buffer_class") and n_steps > 1 and _numbers_of(version) < (2, 9, 2):
        warnings.warn(f"the agent's n_steps is {n_steps}, which Stable-Baselines3 {version} does not give to this "
                      "buffer, so that it learns from returns of one step; pass replay_buffer_kwargs={\"n_steps\": "
                      f"{n_steps}, \"gamma\": {agent.gamma}}}, too", UserWarning, stacklevel=caller_depth())


def _numbers_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def _seed_of_numpy() -> int:
    """A seed from the state of NumPy's global generator, which does not change: an agent's seed also seeds the
    buffer."""
    return zlib.crc32(pickle.dumps(np.random.get_state(legacy=False)))


def _joined(batches: list[Any]) -> Any:
    """One minibatch of all their transitions, in their order. It is a copy."""
    if isinstance(batches[0], dict):
        return {key: _joined([batch[key] for batch in batches]) for key in batches[0]}
    if isinstance(batches[0], tuple):
        return type(batches[0])(*(_joined(list(parts)) for parts in zip(*batches)))
    return None if batches[0] is None else torch.cat(batches)


if _sb3_buffers is not None:  # `load_replay_buffer` asks whether a buffer is one of Stable-Baselines3's
    from stable_baselines3.her.her_replay_buffer import HerReplayBuffer as _Her

    for _kind in (ReplayBuffer, PrioritizedReplayBuffer):
        _sb3_buffers.ReplayBuffer.register(_kind)
    _Her.register(HerReplayBuffer)  # to which agents give their environment
