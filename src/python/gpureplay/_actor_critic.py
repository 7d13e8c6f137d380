# SPDX-License-Identifier: MIT
"""The actor-critic learner: a policy and a value, trained on the caller's own batches."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any

from . import _c_api
from ._config import actor_critic_config, refuse_doubtful_layout, settings_of, settings_text
from ._device import Device, TorchDevice, as_device
from ._flatten import Translation, reading_of
from ._handle import note_library_threads
from ._inputs import address_of, column, flag, integer, read_observations
from ._learner import Learner
from ._library import Advice, lib
from ._policy import FLOAT32, INT32, Policy
from ._schema import to_c
from ._struct import read_tuple
from ._tuples import ActorCriticLosses

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import ActorCriticSettings, PolicyArguments


class ActorCritic(Learner):
    """An actor-critic learner: a network with a policy and a value, which trains on batches of observations, actions
    and returns that the caller computes. Policies act by its weights:

        learner = gpureplay.ActorCritic(env.observation_space, 6, trunk=[128], learning_rate=3e-4)
        policy = learner.policy()
        acted = policy.act_with_values(obs)
        losses = learner.train(obs, acted.actions, returns)
        policy.pull(learner)

    The loss is that of Babaeizadeh et al. 2017, summed over the rows of a batch.

    obs: an observation: as for `Policy`.
    num_actions: the number of actions.
    device: as for `Policy`.
    check_nan: observations and returns that are NaN or infinite are refused, also those of the environments of runs.
        False: they are taken.
    settings: the members of gpur_actor_critic_config by name (include/gpureplay/actor_critic.h), written as for `DQN`:
        trunk, hidden, ... of the network; optimizer, learning_rate, decay, epsilon, clip_norm, ...; dual_optimizer, log
        "add", "max" or "softmax", log_epsilon, policy_floor, value_coefficient, entropy (a number or (first, last,
        steps)), max_batch, math, seed.

    Any number of threads may call; their train steps are done one after another.
    """

    _advice = Advice(reward_clip=None)

    def __init__(self, obs: Any, num_actions: int, *, device: str | TorchDevice | Device = "auto",
                 check_nan: bool = True, **settings: Unpack[ActorCriticSettings]):
        given = {**settings, "num_actions": integer("num_actions", num_actions)}
        self._config, (self._obs, flattener) = actor_critic_config(given), reading_of(obs)
        self._translation = Translation(flattener)
        refuse_doubtful_layout(self._config.network, self._obs)
        self._config.obs = to_c([self._obs])[0]
        self._config.obs.name = None  # which the library does not read; Python's bytes are freed
        self._config.check_finite, self.device = flag("check_nan", check_nan), as_device(device)
        self._num_actions: int = self._config.network.num_actions
        note_library_threads()
        create = functools.partial(self.device._call, lib.gpur_actor_critic_create, ctypes.addressof(self._config))
        super().__init__(create)
        self._config.math = self._invoke(lib.gpur_learner_math)  # "auto" has become one of the others
        self._translation.warn(self.config)

    def train(self, obs: Any, actions: Any, returns: Any) -> ActorCriticLosses:
        """Trains on a batch, and returns when that is done.

        obs: (count, ...) in host memory, of 1 to max_batch rows. actions: (count,) integers, as `Policy.act` gives
        them. returns: (count,), the discounted return R that each observation's value is trained towards.

        InvalidArgument, TypeError, ValueError: a shape, an action or a return that does not fit; nothing is trained."""
        obs = self._translation.read(obs)
        held, address, count, _ = read_observations(self._obs, obs, None, None, False)
        actions = self._translation.numbers("actions", actions, self._num_actions)
        columns = column("actions", actions, count, INT32), column("returns", returns, count, FLOAT32)
        batch, losses = _c_api.ActorCriticBatch(), _c_api.ActorCriticLosses()
        batch.count, batch.obs = count, address
        batch.actions, batch.returns = (None if part is None else address_of(part) for part in columns)
        self._call(lib.gpur_actor_critic_train, ctypes.addressof(batch), ctypes.addressof(losses))
        del held
        return read_tuple(ActorCriticLosses, losses)

    @property
    def check_nan(self) -> bool:
        """Whether numbers that are NaN or infinite are refused."""
        return bool(self._config.check_finite)

    def policy(self, **options: Unpack[PolicyArguments]) -> Policy:
        """A policy with the network, the seed, the device and the present weights. `options` are other arguments of
        `Policy`."""
        return Policy.for_learner(self, **options)

    @property
    def steps(self) -> int:
        """Train steps done."""
        stats = _c_api.LearnerStats()
        self._call(lib.gpur_learner_get_stats, ctypes.addressof(stats))
        return int(stats.steps)

    @property
    def config(self) -> dict[str, Any]:
        """The settings by name, including the defaults. A copy."""
        return settings_of(self._config)

    def __repr__(self) -> str:
        if self.closed:
            return f"<gpureplay.ActorCritic, {self._num_actions} actions, closed>"
        state = f"{self._num_actions} actions, on {self.device.name}, {self.steps} train steps"
        return (f"<gpureplay.ActorCritic, {state}; "
                f"{settings_text(self.config, 'trunk hidden optimizer learning_rate entropy seed')}>")
