# SPDX-License-Identifier: MIT
"""The built-in learner: DQN, double and dueling, trained on the device without copies to the host."""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _c_api
from ._buffer import ReplayBuffer
from ._lanes import LaneBuffer
from ._config import (ActionConfig, index_source_of, learner_config, refuse_document, refuse_doubtful_layout,
                      settings_of_learner, settings_text)
from ._device import caller_depth
from ._flatten import Translation
from ._handle import Handle, Progress, WeakItems, call_with_file, says_stop
from ._hindsight import refuse_learner
from ._inputs import convert, id_array, integer, read_array, read_observations, real
from ._library import Advice, Interrupted, InvalidArgument, check, lib
from ._masks import Masks, bits_of_rows
from ._schema import Field, num_actions_of
from ._spaces import actions_refusal, has_choices
from ._struct import read_tuple
from ._tuples import LearnerStats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import DQNSettings

_FLOAT32 = np.dtype(np.float32)
_Tensors = MutableMapping[str, np.ndarray]


class Weights(_Tensors):
    """Tensors of a network by name ("trunk.0.weight", "advantage.out.bias", ...). Reading gives a copy, (units, inputs)
    or (units,) float32, as it is after the last train step. Assigning writes the tensor."""

    def __init__(self, learner: Learner, which: int, prefix: str = ""):
        self._learner, self._which = learner, which
        learner._open_handle()
        self._shapes: dict[str, tuple[int, ...]] = {
            name: shape for name, shape in learner._invoke(self._shapes_of) if name.startswith(prefix)}

    def _shapes_of(self, handle: int) -> list[tuple[str, tuple[int, ...]]]:
        found = []
        for index in range(lib.gpur_learner_weight_count(handle)):
            info = _c_api.WeightInfo()
            check(lib.gpur_learner_get_weight_info(handle, index, ctypes.addressof(info)))
            found.append((info.name.decode(), tuple(info.shape[:info.dims])))
        return found

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self._shapes:
            raise KeyError(f"{name!r} is no tensor of the network; they are {', '.join(self._shapes)}")
        return self._shapes[name]

    def __getitem__(self, name: str) -> np.ndarray:
        out = np.empty(self._shape(name), _FLOAT32)
        self._learner._call(lib.gpur_learner_read_weights, self._which, name.encode(), out.ctypes.data, out.size)
        return out

    def __setitem__(self, name: str, value: Any) -> None:
        self._write(name, self._checked(name, value))

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"{name!r} belongs to the network; it can be read and written")

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def load(self, tensors: Mapping[str, Any]) -> None:
        """Writes all of these tensors,
        or none if one of them does not fit.

            before = dict(agent.weights)              # copies
            agent.train(100)
            agent.weights.load(before)
        """
        checked = {name: self._checked(name, value) for name, value in tensors.items()}
        for name, array in checked.items():
            self._write(name, array)

    def _checked(self, name: str, value: Any) -> np.ndarray:
        shape = self._shape(name)
        field = Field(name, shape, _FLOAT32)
        array = convert(np.asarray(read_array(field, value, None)), field)
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
        bad = array.size - int(np.count_nonzero(np.isfinite(array)))
        if bad:
            raise ValueError(f"{bad} of the {array.size} numbers of {name} are NaN or infinite; they must be finite")
        return array

    def _write(self, name: str, array: np.ndarray) -> None:
        self._learner._call(lib.gpur_learner_write_weights, self._which, name.encode(), array.ctypes.data, array.size)

    def __repr__(self) -> str:
        return f"<gpureplay weights: {', '.join(f'{name} {shape}' for name, shape in self._shapes.items())}>"


class Learner(Handle):
    """What `DQN`, `DDPG` and `ActorCritic` share: runs train it, and end with it."""

    _kind = "learner"
    _translation = Translation()  # of the environment that it was trained in
    _advice = Advice()

    def __init__(self, create: Callable[[int], None], bases: Sequence[Handle] = ()):
        self._users: WeakItems[Handle] = WeakItems()  # its runs
        super().__init__(create, lib.gpur_learner_destroy, bases)

    def _explain(self, error: Exception) -> Exception:
        error.args = tuple(self._advice.reword(part) if isinstance(part, str) else part for part in error.args)
        return super()._explain(error)

    def save(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Writes weights, targets if there are any, the state of the optimizers and the counters. If the buffer is
        saved at the same point, training continues from both files bit for bit. progress and errors are as for
        `ReplayBuffer.save`."""
        call_with_file(self, lib.gpur_learner_save, path, progress)

    def load(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Reads such a file into this learner, which must have the same networks and kinds of optimizers.
        InvalidArgument: they differ. FileError: the file is of another kind, or damaged.

            agent.save("agent.safetensors")
            agent.load("agent.safetensors")
        """
        call_with_file(self, lib.gpur_learner_load, path, progress)

    @property
    def weights(self) -> Weights:
        """The tensors by name, those of the online networks. Assigning writes one."""
        return Weights(self, _c_api.WEIGHTS_ONLINE)

    @property
    def gradients(self) -> Weights:
        """The gradients of the last train step. They are read-only."""
        return Weights(self, _c_api.WEIGHTS_GRADIENT)

    def _take_run(self, run: Handle) -> None:
        """From now on the run trains it."""
        self._users.add(run)

    def close(self) -> None:
        """Waits for the learner's work and frees its memory.
        Its runs are closed, too.

            with gpureplay.ActorCritic(env.observation_space, 2) as learner:
                losses = learner.train(obs, action, returns)
        """
        for run in self._users:
            run.close()
            run._closed_by = "was closed with its learner"
        super().close()


class ReplayLearner(Learner):
    """What `DQN`, `DDPG` and `SAC` share: they train on a buffer."""

    _buffer: ReplayBuffer | LaneBuffer
    _invalid_actions = 0  # of which the last read of stats knew
    stats: Any

    def __init__(self, buffer: ReplayBuffer | LaneBuffer, create: Callable[..., int],
                 config: _c_api.DQNConfig | ActionConfig, demonstrations: Any):
        """create: the library's function."""
        if demonstrations is not None and not isinstance(demonstrations, ReplayBuffer):
            raise TypeError(f"demonstrations is {demonstrations!r}; it must be a gpureplay.ReplayBuffer, or None")
        self._buffers = (buffer,) if demonstrations is None else (buffer, demonstrations)  # keeps them alive
        for one in self._buffers:
            refuse_learner(one._goals if isinstance(one, ReplayBuffer) else None)
        self._buffer = buffer
        self._config: Any = config

        def make(address: int) -> None:
            buffer._call(create, ctypes.addressof(config), address)

        def make_with(address: int, handle: int) -> int:
            config.demonstrations = handle
            make(address)
            return 0

        if demonstrations is None:
            super().__init__(make, self._buffers)
        else:
            demonstrations._open_handle()
            if demonstrations.device is not buffer.device:
                raise InvalidArgument("demonstrations is a buffer on a device that was opened apart; it must be made "
                                      "with device=buffer.device, that of the learner's buffer")
            super().__init__(lambda address: demonstrations._call(functools.partial(make_with, address)), self._buffers)
        for one in self._buffers:
            one._users.add(self)
        config.math = self._invoke(lib.gpur_learner_math)  # "auto" has become one of the others

    def _users_of_call(self) -> tuple[Handle, ...]:
        return (self, *self._buffers)

    def _call_on_buffer(self, function: Callable[..., int], *arguments: Any) -> None:
        """A call that reads the buffer: what JAX adds to it comes before."""
        if isinstance(self._buffer, LaneBuffer):
            self._buffer._wait_for_jax()
        self._call(function, *arguments)

    def train(self, steps: int = 1, progress: Progress | None = None) -> None:
        """Enqueues train steps and returns before the last one is done. They are enqueued in launches of 256. Ctrl-C
        takes effect between two launches; those that were enqueued still run.

        progress: is called after each launch with the steps enqueued and the steps in all. False ends the call, as an
            exception does. It may use the buffer and read `stats`.

        A LaneBuffer's functions in JAX that were called before are waited for.

        TooFew: the buffer is empty, or has had fewer transitions than its min_size. Interrupted: the progress function
        ended the call. InvalidArgument: the learner has diverged, in a step that is done by now and has spoiled its
        weights, and nothing but `load` brings it back. The text has the step, what was not finite in it, the loss
        before, and the settings that most often are why; `stats.diverged_at` is the step."""
        left = steps = integer("steps", steps)
        while True:
            part = min(left, _c_api.LAUNCH_STEPS)
            self._call_on_buffer(lib.gpur_learner_train, part)
            left -= part
            if progress is not None and says_stop(progress(steps - left, steps)):
                raise Interrupted(f"the progress function ended it after {steps - left} of {steps} train steps")
            if left <= 0:
                return

    def sync(self) -> None:
        """Waits for all train steps. InvalidArgument: the learner has diverged in one of them. It warns as `stats`
        does."""
        self._call(lib.gpur_learner_sync)
        _ = self.stats

    def _warn_of_invalid_actions(self, count: int, wanted: str) -> None:
        """RuntimeWarning: transitions trained nothing since it was called last. count: of all."""
        invalid, self._invalid_actions = count - self._invalid_actions, count
        if invalid > 0:
            warnings.warn(f"{invalid} sampled transitions trained nothing, as their action is not {wanted}; the buffer "
                          "has such actions from before the learner was made, or from arrays on the device",
                          RuntimeWarning, stacklevel=caller_depth())

    @property
    def target_weights(self) -> Weights:
        """The tensors of the target networks."""
        return Weights(self, _c_api.WEIGHTS_TARGET)


class DQN(ReplayLearner):
    """A DQN learner on a buffer. A whole train step (sample, gather, forward, target, loss, backward, update, target
    copy) runs on the device.

    buffer: must have float32 or uint8 obs and next_obs, int32 or int64 action, float32 reward, bool terminated.
    num_actions: the number of actions. None: that of the buffer's action space, if the buffer was made from spaces or
        an environment, else the preset's. While the learner is open, the buffer refuses actions in host memory that are
        not 0 to num_actions - 1. Others, as those it has already, train nothing, and are counted and warned of.
    preset: "melee-gpu", "melee-dqn", "melee-double", "nature-dqn", "nature-dueling", "qr-dqn", "c51", "apex-dqn",
        "cartpole", or None for the defaults of gpur_dqn_config_init.
    settings: the members of gpur_dqn_config by name (include/gpureplay/dqn.h). Choices are words:
        trunk [128, (64, "tanh")], head "q" or "dueling" (those of `QRDQN` and `C51` have classes of their own), hidden
        512, optimizer "adam" ..., learning_rate 1e-3 or (first, last, steps), exploration (1.0, 0.05, 10_000), loss
        "huber" or "squared", double_dqn, batch_size, target_period, target_rate 0.005 for soft targets, act "latest",
        "previous" or "target", math "fp32", "tf32", "bf16" (on CUDA) or "auto",
        step_kernel "auto", "libraries" or "fused" (whole train steps in one kernel, for small networks on a GPU), seed.
        A layer of trunk (64, "relu", "layer_norm"), or {"dense": 64, "norm": "layer_norm"}, is normalized.
        Convolutions come first in trunk: ("conv", filters, kernel[, stride[, padding]][, activation]), or
        {"conv": 32, "kernel": 8, "stride": 4, "padding": 0, "activation": "relu"}, where padding may be "same", as in
        TensorFlow; input_layout "chw" or "hwc" is the order of the axes of an obs with three, and "auto", the default,
        the one that its shape tells, as (84, 84, 4) and (10, 10, 7) do, and (10, 10, 10) does not. The network reads
        obs * input_scale + input_shift (for uint8 frames 1 / 255 and 0, or 1 / 128 and -1).
        prioritized None (as the buffer), True, "independent" or False, and distinct say how train steps sample. By
        priority, each transition's loss is weighted, and its |TD error| is written back as its priority; beta is the
        exponent of the weights by train step: a number, or (first, last, steps[, begin]).
        cache_size above 0 trains on returns of several steps, without a target network: `refresh` computes that many,
        in blocks of block_length successive transitions, and the train steps after it draw from them. The buffer must
        have n_step 1 and, but for a LaneBuffer, sequences=True. estimator "peng" (needs lambda_), "n-step" (n_step),
        "watkins" (lambda_), "peng-median", "watkins-median", "peng-error-bound" or "watkins-error-bound"
        (error_bound); draw "permutation" or "replacement"; storage "virtual" or "physical"; prioritization;
        truncation_terminates (include/gpureplay/returns.h).
        demonstrations is a second ReplayBuffer on the same device, and demonstration_ratio, 0.5 by default, the part of
        every batch that is drawn from it, always as many transitions, as that buffer samples. Both must have the same
        observations, actions, n_step, gamma, reward_clip and layout.

    One thread trains. Any number of threads may call `act` and read `stats` meanwhile.
    """

    _of_head: Mapping[str, Any] = {}  # the settings of a subclass, the head first, which another one cannot replace

    def __init__(self, buffer: ReplayBuffer | LaneBuffer, num_actions: int | None = None, preset: str | None = None,
                 **settings: Unpack[DQNSettings]):
        refuse_other_buffers(buffer)
        refuse_document(settings)
        refuse_unread(buffer, "float32", "uint8")
        _refuse_actions(buffer, num_actions is not None or preset is not None)
        num_actions = num_actions_of(buffer._action_space, None if num_actions is None
                                     else integer("num_actions", num_actions))
        given: dict[str, Any] = {**self._of_head, **settings}
        if self._of_head and given["head"] != self._of_head["head"]:
            raise InvalidArgument(f"head is {given['head']!r}; that of a {type(self).__name__} is "
                                  f"{self._of_head['head']!r}: leave it out")
        if num_actions is not None:
            given["num_actions"] = num_actions
        elif preset is None:
            raise InvalidArgument("num_actions is None, and the buffer has no Discrete action space; it must be the "
                                  "number of actions")
        config = learner_config(preset, given, index_source_of(buffer._spec.config))
        is_linked = isinstance(buffer, LaneBuffer) or any(field.name == "previous" for field in buffer.fields)
        if config.returns.cache_size > 0 and not is_linked:
            raise InvalidArgument(f"cache_size is {config.returns.cache_size} and the buffer has no field \"previous\" "
                                  "to find successive transitions by; it must be made with sequences=True")
        obs = next((field for field in buffer.fields if field.name == "obs"), None)
        if obs is not None:
            refuse_doubtful_layout(config.network, obs)
        super().__init__(buffer, lib.gpur_dqn_create, config, settings.get("demonstrations"))
        self._masks: Masks | None = getattr(buffer, "_masks", None)
        self._empty_refreshes = 0  # of which the last read of stats knew
        self._translation = Translation(buffer._flattener)
        self._translation.warn(self.config)
        self._num_actions: int = config.network.num_actions
        self._batch_size: int = config.batch_size
        assert obs is not None  # the library has checked it
        self._obs = obs

    def act(self, obs: Any, epsilon: float = 0.0, *, mask: Any = None, stream: Any = None) -> np.ndarray:
        """Actions, (count,) int32, for observations (count, ...) of the buffer's dtype and shape, in host or device
        memory: with probability epsilon a random action, else argmax Q. One observation without the first axis is
        accepted, too. All are computed with the same weights. Memory is allocated for 64 observations at first,
        and again when more come.

        mask: (count, num_actions) bools, or 0 and 1: the allowed actions; no others are chosen. None: all are, or where
            the buffer has action_mask=True and a Dict space those of obs["action_mask"].
        stream: for observations in device memory, the stream that made them, as for `ReplayBuffer.extend`.

        TypeError, ValueError: another dtype or shape, no mask where the buffer has action_mask=True, or NaN or infinity
        in host memory if the buffer has check_nan. InvalidArgument: a mask that allows no action."""
        if self._masks is not None:
            obs, mask = self._masks.of_act(obs, mask)
        held, address, count, stream = self._observations(obs, stream)
        actions, epsilon = np.empty(count, np.int32), real("epsilon", epsilon)
        if mask is None:
            self._call(lib.gpur_learner_act, count, address, epsilon, actions.ctypes.data, stream)
        else:
            bits = bits_of_rows(mask, count, self._num_actions)
            self._call(lib.gpur_learner_act_masked, count, address, bits.ctypes.data, epsilon, actions.ctypes.data,
                       stream)
        del held
        return self._translation.actions(actions)

    def q_values(self, obs: Any, *, stream: Any = None) -> np.ndarray:
        """The Q value of every action: (count, num_actions) float32.
        `obs` and `stream` are as for `act`.

            q = agent.q_values(obs)
            best = q.argmax(axis=1)
        """
        held, address, count, stream = self._observations(obs, stream)
        q = np.empty((count, self._num_actions), np.float32)
        self._call(lib.gpur_learner_q_values, count, address, q.ctypes.data, stream)
        del held
        return q

    def _observations(self, obs: Any, stream: Any) -> tuple[Any, int, int, int | None]:
        obs = self._translation.read(obs if self._masks is None else self._masks.split(obs)[0])
        return read_observations(self._obs, obs, self._buffer.device._if_cuda, stream, self._buffer.check_nan)

    def refresh(self) -> None:
        """Enqueues one refresh of the cache of returns, from which the train steps that follow draw. In the thread that
        trains.

        InvalidArgument: cache_size is 0. TooFew: the buffer has block_length transitions or fewer, of all environments
        together, or has had fewer than its min_size. Where no environment has block_length of them, entries are missing
        and train nothing: reading `stats` warns of it, and counts them in `missing_rows` and `empty_refreshes`.

            agent = gpureplay.DQN(buffer, num_actions=2, cache_size=800, block_length=20, lambda_=0.8)
            agent.refresh()
            agent.train(25)
        """
        self._call_on_buffer(lib.gpur_learner_refresh)

    def train_ids(self, ids: Any) -> None:
        """Runs one train step on the transitions of these ids, (batch_size,). Evicted: a transition that was
        overwritten. InvalidArgument: an id that was not given out yet.

            agent.train_ids(buffer.sample(32).id)
        """
        wanted = id_array(ids)
        if wanted.shape != (self._batch_size,):
            raise ValueError(f"ids has shape {wanted.shape}; it must be ({self._batch_size},)")
        self._call(lib.gpur_learner_train_ids, wanted.ctypes.data)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Writes the online network's tensors by name, as a plain safetensors file. InvalidArgument: the learner has
        diverged, and a file that is there stays."""
        call_with_file(self, lib.gpur_learner_save_weights, path, None)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Reads this network's tensors from any safetensors file into the online and the target network.
        InvalidArgument: a tensor is missing, unknown, or of another shape or dtype.

            agent.save_weights("weights.safetensors")
            agent.load_weights("weights.safetensors")
        """
        call_with_file(self, lib.gpur_learner_load_weights, path, None)

    def epsilon(self, step: int) -> float:
        """The exploration rate at an environment step, by the schedule."""
        self._open_handle()
        return float(self._invoke(lib.gpur_learner_epsilon, integer("step", step)))

    @property
    def stats(self) -> LearnerStats:
        """Statistics as of the last finished launch. Call `sync` before to include all. RuntimeWarning: since the last
        read a refresh found no block of block_length transitions, so that the train steps after it trained nothing; or
        transitions trained nothing, because the network has no such action."""
        stats = _c_api.LearnerStats()
        self._call(lib.gpur_learner_get_stats, ctypes.addressof(stats))
        self._warn_of_empty_refreshes(stats.empty_refreshes)
        self._warn_of_invalid_actions(stats.invalid_actions, f"0 to num_actions - 1 = {self._num_actions - 1}")
        return read_tuple(LearnerStats, stats)

    def _warn_of_empty_refreshes(self, count: int) -> None:
        empty, self._empty_refreshes = count - self._empty_refreshes, count
        if empty > 0:
            length = self._config.returns.block_length
            warnings.warn(f"{empty} refresh{'es' if empty > 1 else ''} found no {length} successive transitions of an "
                          "environment, and the train steps until the next one trained nothing; the buffer must have "
                          f"far more than block_length = {length} of each environment", RuntimeWarning,
                          stacklevel=caller_depth())

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the learner by name, including those of the preset and the defaults. A copy."""
        return settings_of_learner(self._config)

    def _take_run(self, run: Handle) -> None:
        super()._take_run(run)
        if isinstance(self._buffer, ReplayBuffer) and getattr(run, "_adds", True):  # into another one no run writes
            self._buffer._close_writer(f"gave way to those of a gpureplay.{type(run).__name__}")

    def close(self) -> None:
        """Waits for the learner's work and frees its memory. Its runs are closed, too.
        The buffer stays open.

            with gpureplay.DQN(buffer, num_actions=2) as agent:
                agent.train(100)                      # the block closes it at its end
        """
        super().close()

    def __repr__(self) -> str:
        if self.closed:
            return f"<gpureplay.{type(self).__name__}, {self._num_actions} actions, closed>"
        names = "trunk head hidden optimizer learning_rate loss double_dqn batch_size target_period prioritized"
        state = f"{self._num_actions} actions, on {self._buffer.device.name}"
        return f"<gpureplay.{type(self).__name__}, {state}; {settings_text(self.config, names)}>"


class QRDQN(DQN):
    """QR-DQN [Dabney et al. 2018]: a `DQN` that learns the quantiles of each action's returns, and acts by their mean.
    Its arguments and methods are those of `DQN`, with the settings

    atoms: the number of quantiles; default 200.
    huber_delta: kappa of the quantile Huber loss, 0 or more; default 1. 0: the loss of quantile regression.

    What is a TD error of `DQN`, such as a priority, is here the loss of the transition, without its weight.

        agent = gpureplay.QRDQN(buffer, num_actions=2, atoms=50)
    """

    _of_head = {"head": "quantiles", "atoms": 200}


class C51(DQN):
    """C51 [Bellemare et al. 2017]: a `DQN` that learns how probable each of some returns is, for each action, and acts
    by their mean. Its arguments and methods are those of `DQN`, with the settings

    atoms: the number of returns, 2 or more; default 51.
    v_min, v_max: the smallest and the largest of them; default -10 and 10. The others lie between them at equal
        distances, and returns beyond count as these.

    The loss is the cross-entropy, and loss and huber_delta are not used. What is a TD error of `DQN`, such as a
    priority, is here the loss of the transition, without its weight.

        agent = gpureplay.C51(buffer, num_actions=2, v_min=0, v_max=100)
    """

    _of_head = {"head": "categorical", "atoms": 51, "v_min": -10.0, "v_max": 10.0}


def refuse_other_buffers(buffer: Any) -> None:
    if not isinstance(buffer, (ReplayBuffer, LaneBuffer)):
        raise TypeError(f"buffer is {buffer!r}; it must be a gpureplay.ReplayBuffer or a LaneBuffer")


def refuse_unread(buffer: ReplayBuffer | LaneBuffer, *dtypes: str) -> None:
    """InvalidArgument, with what to do: the buffer's observations are not one array of one of these dtypes, which a
    learner reads."""
    parts = [field for field in buffer.fields if field.name.partition(".")[0] == "obs"]
    if not parts or (parts[0].name == "obs" and parts[0].dtype.name in dtypes):
        return
    space = "" if buffer._obs_space is None else f"of the space {buffer._obs_space}, "
    stored = ", ".join(f"{field.name} of {field.dtype} and shape {field.shape}" for field in parts)
    raise InvalidArgument(f"the buffer's observations are {space}stored as {stored}; this learner reads one array of "
                          f"{' or '.join(dtypes)}: " +
                          ("make the buffer with flatten=True, which stores a vector of float32 for each" if space else
                           "store float32, or make the buffer for an observation space, with flatten=True"))


def _refuse_actions(buffer: ReplayBuffer | LaneBuffer, is_counted: bool) -> None:
    """InvalidArgument, with what to do: the buffer's actions are no single integer, so that no number of actions would
    help; or are of a space that does not tell their number. is_counted: it is known."""
    action, space = next((field for field in buffer.fields if field.name == "action"), None), buffer._action_space
    is_integer = action is not None and action.dtype.kind == "i" and action.shape in ((), (1,))
    if is_integer and (is_counted or space is None or has_choices(space)):
        return
    if space is not None:
        raise InvalidArgument(actions_refusal(space))
    if action is not None:
        raise InvalidArgument(f"the buffer's actions are {action.dtype} of shape {action.shape}; those of a DQN must "
                              "be single integers, int32 or int64, below num_actions; vectors of floats are for a DDPG")
