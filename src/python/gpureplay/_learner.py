# SPDX-License-Identifier: MIT
"""The built-in learner: DQN, double and dueling, trained on the device with no host round trip."""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

import numpy as np

from . import _files, _inputs, _mirror, _nan, _settings
from ._buffer import ReplayBuffer
from ._dlpack import DeviceArray
from ._handle import Handle
from ._learner_config import learner_config
from ._library import Interrupted, InvalidArgument, lib
from ._numbers import integer, real, stream_of
from ._replay_config import source_of
from ._schema import Field, outputs_of
from ._signals import says_stop
from ._weights import Weights


class LearnerStats(NamedTuple):
    """As of the last finished launch. include/gpureplay/learner.h has each."""

    steps: int
    steps_enqueued: int
    skipped: int
    target_copies: int
    loss: float
    mean_loss: float
    mean_q: float
    gradient_norm: float
    learning_rate: float
    steps_per_second: float
    device_bytes: int
    acts: int
    invalid_actions: int
    pinned_bytes: int


class DQN(Handle):
    """A DQN learner on a buffer. A train step (draw, gather, forward, target, loss, backward, update, target copy) runs
    on the device; nothing of it visits the host.

    buffer: with float32 or uint8 obs and next_obs, int32 or int64 action, float32 reward, bool terminated.
    outputs: actions. None: as many as the buffer's action space has, if it was made from spaces or an environment; else
        the preset's.
    preset: "melee-gpu", "melee-dqn", "melee-double", "nature-dqn", "nature-dueling", "apex-dqn", "cartpole", or None
        for the defaults of gpur_learner_config_init.
    settings: the members of gpur_learner_config by name (include/gpureplay/learner.h), with words for choices:
        trunk [128, (64, "tanh")], head "q" or "dueling", hidden 512, optimizer "adam" ..., learning_rate 1e-3 or
        (first, last, steps), exploration (1.0, 0.05, 10_000), loss "huber" or "squared", double_dqn, batch_size,
        target_period, act "latest", "previous" or "target", math "fp32", "tf32" or "bf16" (on CUDA), step_kernel
        "auto", "libraries" or "one_kernel" (whole train steps in one kernel, for small networks on a GPU), seed.
        Convolutions come first in trunk: ("conv", filters, kernel[, stride[, padding]][, activation]), or
        {"conv": 32, "kernel": 8, "stride": 4, "padding": 0, "activation": "relu"}; input_layout "chw" or "hwc" says how
        obs of three axes lies, and input_scale what it is multiplied by (1 / 255 for frames of uint8).
        How train steps draw: prioritized None (as the buffer), True, "plain" or False; distinct. By priority, each
        transition's loss is weighed, and |TD error| written back as its priority; beta is the exponent of the weights
        by train step: a number, or (first, last, steps[, begin]).

    One thread trains; any number `act` and ask for `stats` meanwhile.
    """

    _kind = "learner"

    def __init__(self, buffer: ReplayBuffer, outputs: int | None = None, preset: str | None = None, **settings: Any):
        if not isinstance(buffer, ReplayBuffer):
            raise TypeError(f"buffer is {buffer!r}; it must be a gpureplay.ReplayBuffer")
        outputs = outputs_of(buffer._action_space, None if outputs is None else integer("outputs", outputs))
        if outputs is not None:
            settings["outputs"] = outputs
        elif preset is None:
            raise InvalidArgument("outputs is None, and the buffer has no Discrete action space; it must be the number "
                                  "of actions")
        config, address = learner_config(preset, settings, source_of(buffer._form.config)), ctypes.c_void_p()
        buffer._call(lib.gpur_learner_create, ctypes.addressof(config), ctypes.addressof(address))
        super().__init__(address.value, lib.gpur_learner_destroy, buffer._owned)
        self._buffer = buffer  # which must outlive this
        buffer._users.add(self)
        self._config = config
        self._outputs: int = config.network.outputs
        self._batch_size: int = config.batch_size
        obs = next(field for field in buffer.fields if field.name == "obs")
        self._obs = Field("obs", obs.shape, obs.dtype)

    def act(self, obs: Any, epsilon: float = 0.0, *, stream: Any = None) -> np.ndarray:
        """Actions for observations (count, ...) as the buffer keeps them, in host memory or the device's: with
        probability epsilon at random, else argmax Q. (count,) int32. One observation without the first axis will do,
        too. All are answered by the same weights. Memory is taken for max_act_batch at first, and more when more come.

        stream: observations in device memory, the stream that made them, as for `ReplayBuffer.extend`.

        TypeError, ValueError: another dtype or shape, or NaN in the host's memory where the buffer has check_nan."""
        held, address, count, stream = self._observations(obs, stream)
        actions, epsilon = np.empty(count, np.int32), real("epsilon", epsilon)
        self._call(lib.gpur_learner_act, count, address, epsilon, actions.ctypes.data, stream)
        del held
        return actions

    def q_values(self, obs: Any, *, stream: Any = None) -> np.ndarray:
        """Q of every action: (count, outputs) float32. `obs` and `stream` as for `act`."""
        held, address, count, stream = self._observations(obs, stream)
        q = np.empty((count, self._outputs), np.float32)
        self._call(lib.gpur_learner_q_values, count, address, q.ctypes.data, stream)
        del held
        return q

    def _observations(self, obs: Any, stream: Any) -> tuple[Any, int, int, int | None]:
        """What holds them, where, how many, and the stream that makes them."""
        stream = stream_of(stream)
        array = _inputs.located(self._obs, obs, self._buffer.device._if_cuda, stream)
        if isinstance(array, DeviceArray):
            _inputs.check_device(array, self._obs)
            address, stream = array.address, _inputs.stream_of([array], stream)
        else:
            array = _inputs.host(array, self._obs)
            address = _inputs.address(array)
        if array.shape != self._obs.shape and (not array.shape or array.shape[1:] != self._obs.shape):
            wanted = _inputs.with_count(self._obs.shape)
            raise ValueError(f"obs has shape {array.shape}; it must be {wanted} or {self._obs.shape}")
        count = 1 if array.shape == self._obs.shape else array.shape[0]
        if self._buffer.check_nan and isinstance(array, np.ndarray):
            _nan.refuse([self._obs], [array.reshape(count, *self._obs.shape)])
        return array, address, count, stream

    def train(self, steps: int = 1, progress: _files.Progress | None = None) -> None:
        """Enqueues train steps and returns before the last is done. They go in launches of 256; Ctrl-C is heard
        between two of them, and what was enqueued stays.

        progress: called after each launch with the steps enqueued and in all; False ends it, as an exception does. May
            use the buffer, and ask for `stats`.

        TooFew: nothing is there to train on, or fewer transitions than the buffer's min_size have been there.
        Interrupted: the progress function ended it."""
        left = steps = integer("steps", steps)
        while True:
            part = min(left, _mirror.LAUNCH_STEPS)
            self._call(lib.gpur_learner_train, part)
            left -= part
            if progress is not None and says_stop(progress(steps - left, steps)):
                raise Interrupted(f"the progress function ended it after {steps - left} of {steps} train steps")
            if left <= 0:
                return

    def train_on(self, ids: Any) -> None:
        """One train step on the transitions of these ids, (batch_size,). Evicted: one that was overwritten.
        InvalidArgument: one that is not there yet."""
        wanted = _inputs.ids(ids)
        if wanted.shape != (self._batch_size,):
            raise ValueError(f"ids has shape {wanted.shape}; it must be ({self._batch_size},)")
        self._call(lib.gpur_learner_train_on, wanted.ctypes.data)

    def sync(self) -> None:
        """Waits for all train steps."""
        self._call(lib.gpur_learner_sync)

    def save(self, path: str | os.PathLike[str], progress: _files.Progress | None = None) -> None:
        """Writes weights, target, optimizer and counters. With the buffer saved at the same point, training goes on
        from both files bit for bit. Otherwise as `ReplayBuffer.save`."""
        _files.call(self, lib.gpur_learner_save, path, progress)

    def load(self, path: str | os.PathLike[str], progress: _files.Progress | None = None) -> None:
        """Reads such a file into this learner, of the same network and kind of optimizer. InvalidArgument: they
        differ. FileError: it is no such file, or is damaged."""
        _files.call(self, lib.gpur_learner_load, path, progress)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Writes the online network's tensors by name: a plain safetensors file."""
        _files.call(self, lib.gpur_learner_save_weights, path, None)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Reads this network's tensors from a safetensors file, whoever made it, into the online network and the
        target. InvalidArgument: one is missing, is one too many, or has another shape or dtype."""
        _files.call(self, lib.gpur_learner_load_weights, path, None)

    def epsilon(self, step: int) -> float:
        """The exploration schedule at an environment step."""
        self._open_handle()
        return float(self._ask(lib.gpur_learner_epsilon, integer("step", step)))

    @property
    def stats(self) -> LearnerStats:
        """As of the last finished launch; `sync` first for all."""
        got = _mirror.LearnerStats()
        self._call(lib.gpur_learner_get_stats, ctypes.addressof(got))
        return LearnerStats(*(getattr(got, name) for name in LearnerStats._fields))

    @property
    def config(self) -> dict[str, Any]:
        """The settings that it was made with, by name, with those of the preset and the defaults filled in. A copy."""
        return _settings.of_learner(self._config)

    @property
    def weights(self) -> Weights:
        """The online network's tensors by name; assign to write one."""
        return Weights(self, _mirror.WEIGHTS_ONLINE)

    @property
    def target_weights(self) -> Weights:
        """The target network's."""
        return Weights(self, _mirror.WEIGHTS_TARGET)

    @property
    def gradients(self) -> Weights:
        """Of the last train step; read only."""
        return Weights(self, _mirror.WEIGHTS_GRADIENT)

    def close(self) -> None:
        """Waits for its work and gives the memory back. The buffer stays."""
        super().close()

    def __repr__(self) -> str:
        if self.closed:
            return f"<gpureplay.DQN, {self._outputs} actions, closed>"
        names = "trunk head hidden optimizer learning_rate loss double_dqn batch_size target_period prioritized"
        state = f"{self._outputs} actions, on {self._buffer.device.name}"
        return f"<gpureplay.DQN, {state}; {_settings.shown(self.config, names)}>"
