# SPDX-License-Identifier: MIT
"""The learners of continuous actions: by deterministic policy gradients, and soft actor-critic. They are trained on the
device without copies to the host."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from . import _c_api
from ._buffer import ReplayBuffer
from ._lanes import LaneBuffer
from ._config import ActionConfig, index_source_of, put_action_settings, settings_of_actions, settings_text
from ._flatten import Translation
from ._learner import ReplayLearner, Weights, refuse_other_buffers, refuse_unread
from ._library import Advice, InvalidArgument, lib
from ._policy import Policy
from ._schema import Field
from ._spaces import actions_refusal, bounds_refusal, has_floats
from ._struct import read_tuple
from ._tuples import DDPGStats, SACStats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._settings import DDPGSettings, PolicyArguments, SACSettings


def _refuse_bounds(space: Any) -> None:
    """InvalidArgument: the actions of the buffer's space are not those that an actor gives."""
    if space is not None and not has_floats(space):
        raise InvalidArgument(actions_refusal(space))
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is not None and high is not None and ((low != -1).any() or (high != 1).any()):
        raise InvalidArgument(bounds_refusal(space))


class ActionLearner(ReplayLearner):
    """What `DDPG`, `TD3` and `SAC` share: an actor and critics of action vectors, trained on a buffer."""

    _advice = Advice('{network}={"learning_rate": ...}', '{network}={"clip_norm": ...}')

    def _create(self, buffer: ReplayBuffer | LaneBuffer, config: ActionConfig, init: Any, create: Any,
                settings: Any) -> None:
        """Creates the learner by these functions of the library, with `settings` over the defaults."""
        refuse_other_buffers(buffer)
        refuse_unread(buffer, "float32")
        _refuse_bounds(buffer._action_space)
        fields = {field.name: field for field in buffer.fields}
        shape = fields["action"].shape if "action" in fields else ()
        if len(shape) != 1:
            raise InvalidArgument(f"the buffer's action has shape {shape}; it must have one axis, as in "
                                  "((num_actions,), \"float32\")")
        put_action_settings(config, init, settings, shape[0], index_source_of(buffer._spec.config))
        super().__init__(buffer, create, config, settings.get("demonstrations"))
        self._translation = Translation(buffer._flattener)
        self._translation.warn(self.config["actor"])
        self._num_actions: int = shape[0]
        self._obs = Field("obs", fields["obs"].shape, fields["obs"].dtype)

    def policy(self, **options: Unpack[PolicyArguments]) -> Policy:
        """A policy with the actor's network, the seed, the device and the present weights. `options` are other
        arguments of `Policy`."""
        return Policy.for_learner(self, **options)

    def _stats(self) -> _c_api.LearnerStats:
        stats = _c_api.LearnerStats()
        self._call(lib.gpur_learner_get_stats, ctypes.addressof(stats))
        self._warn_of_invalid_actions(stats.invalid_actions, "-1 to 1")
        return stats

    @property
    def config(self) -> dict[str, Any]:
        """The settings by name, including the defaults. A copy."""
        return settings_of_actions(self._config)

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.closed:
            return f"<gpureplay.{name}, actions of {self._num_actions} numbers, closed>"
        state = f"actions of {self._num_actions} numbers, on {self._buffer.device.name}"
        return f"<gpureplay.{name}, {state}; {settings_text(self.config, 'batch_size target_period prioritized seed')}>"


class DDPG(ActionLearner):
    """A learner of deterministic policy gradients on a buffer: an actor mu(s) and a critic Q(s, a), as in Ape-X DPG. A
    whole train step of both (sample, gather, forward, targets, losses, backward, updates, target copies) runs on the
    device. Policies act by its actor:

        learner = gpureplay.DDPG(buffer, actor={"trunk": [300, 200]}, critic={"trunk": [400, 300]})
        policy = learner.policy()
        actions = policy.act_vectors(obs, sigma=0.3)
        learner.train(10)
        policy.pull(learner)

    buffer: must have float32 obs, next_obs, reward, a float32 action of one axis with numbers in -1 to 1, and bool
        terminated. A buffer that was made for an action space of other bounds is refused, as is one that has actions
        outside of -1 to 1, and from then on such actions wherever they come from host memory: by `add`, `extend`,
        blocks and `load`. Of arrays on the device they are not trained on, and counted in stats.invalid_actions.
        gymnasium.wrappers.RescaleAction(env, -1, 1) makes an environment that takes -1 to 1 of one with other bounds.
        Its n_step is that of the returns.
    actor, critic: the settings of each network and its optimizer, as for `DQN`: trunk (dense layers), hidden,
        hidden_activation, init, init_scale; optimizer, learning_rate, clip_norm, ... A critic may have the head
        "quantiles" or "categorical", with atoms, v_min and v_max as `QRDQN` and `C51` have them.
    settings: the other members of gpur_dpg_config by name (include/gpureplay/dpg.h): action_gradient_clip,
        preactivation_penalty, batch_size, target_period, target_rate, critics, policy_delay, target_noise,
        target_noise_clip, beta, math, seed; and prioritized, distinct, demonstrations and demonstration_ratio, as for
        `DQN`.

    One thread trains. Any number of threads may pull its weights and read `stats` meanwhile.
    """

    _init = lib.gpur_dpg_config_init

    def __init__(self, buffer: ReplayBuffer | LaneBuffer, **settings: Unpack[DDPGSettings]):
        self._create(buffer, _c_api.DPGConfig(), self._init, lib.gpur_dpg_create, settings)

    @property
    def stats(self) -> DDPGStats:
        """Statistics as of the last finished launch. Call `sync` before to include all. RuntimeWarning: transitions
        trained nothing since the last read, as their actions are not -1 to 1."""
        return read_tuple(DDPGStats, self._stats())


class TD3(DDPG):
    """A learner by TD3 [Fujimoto et al. 2018]: a `DDPG` with that paper's settings in place of its defaults. They are
    two critics, the smaller value of which makes the target, noise on the target's actions, an actor that is trained
    in every second step, and soft targets:

        learner = gpureplay.TD3(buffer, actor={"trunk": [256, 256], "learning_rate": 3e-4},
                                critic={"trunk": [256, 256], "learning_rate": 3e-4}, batch_size=256)

    has the networks and constants of the code that its authors published later.

    buffer, actor, critic, settings: as for `DDPG`. `critic` describes each of the critics, whose tensors are
        "critic.1.trunk.0.weight", "critic.2.trunk.0.weight" and so on.
    """

    _init = lib.gpur_td3_config_init


class FastTD3(TD3):
    """A `TD3` with the settings of FastTD3 [Seo et al. 2025], for a `LaneBuffer` of many environments that step
    together: networks of three layers, critics with distributions of returns, AdamW, and batches of 32,768:

        learner = gpureplay.FastTD3(lanes, critic={"v_min": -10, "v_max": 10})

    The task decides v_min and v_max, which are -250 and 250. include/gpureplay/dpg.h has all of them, and what differs
    from that paper's code.

    buffer, actor, critic, settings: as for `TD3`.
    """

    _init = lib.gpur_fast_td3_config_init


class SAC(ActionLearner):
    """A learner of soft actor-critic on a buffer [Haarnoja et al. 2018]: a policy pi(a|s) whose entropy is part of what
    it maximizes, and two critics. A whole train step of all of them and of the temperature runs on the device. Policies
    draw actions from its actor, or with `greedy` act by its mean:

        learner = gpureplay.SAC(buffer, actor={"trunk": [64, 64]}, critic={"trunk": [64, 64]})
        policy = learner.policy()
        actions = policy.act_vectors(obs)
        learner.train()
        policy.pull(learner)

    buffer: as for `DDPG`.
    actor, critic: the settings of each network and its optimizer, as for `DQN`: trunk (dense layers), hidden,
        hidden_activation, init, init_scale; optimizer, learning_rate, clip_norm, ... `critic` describes each of the
        critics, whose tensors are "critic.1.trunk.0.weight", "critic.2.trunk.0.weight" and so on, and may have a head
        of distributions, as that of `DDPG`.
    temperature: the weight of the entropy beside the rewards, with which training begins; default 1. It is learned,
        with the settings of temperature_optimizer, so that the policy's entropy stays near target_entropy for each
        number of an action; or with fixed_temperature=True it stays what it is. Its logarithm is the tensor
        "temperature.log_alpha", which can be set.
    settings: the other members of gpur_sac_config by name (include/gpureplay/sac.h): target_entropy, critics,
        batch_size, target_period, target_rate, beta, math, seed; and prioritized, distinct, demonstrations and
        demonstration_ratio, as for `DQN`.

    One thread trains. Any number of threads may pull its weights and read `stats` meanwhile.
    """

    _init = lib.gpur_sac_config_init

    def __init__(self, buffer: ReplayBuffer | LaneBuffer, **settings: Unpack[SACSettings]):
        self._create(buffer, _c_api.SACConfig(), self._init, lib.gpur_sac_create, settings)

    @property
    def target_weights(self) -> Weights:
        """The tensors of the critics' targets; the actor and the temperature have none."""
        return Weights(self, _c_api.WEIGHTS_TARGET, "critic.")

    @property
    def stats(self) -> SACStats:
        """Statistics as of the last finished launch: those of `DDPG`, the temperature and the policy's entropy. Call
        `sync` before to include all. RuntimeWarning: transitions trained nothing since the last read, as their actions
        are not -1 to 1."""
        return read_tuple(SACStats, self._stats())


class FastSAC(SAC):
    """A `SAC` with the settings of FastSAC [Seo et al. 2025b], as far as there are such settings, for a `LaneBuffer` of
    many environments that step together: networks of three layers with layer normalization, AdamW, and batches of
    8,192. include/gpureplay/sac.h has all of them, and what differs from that paper's code.

    buffer, settings: as for `SAC`.

        learner = gpureplay.FastSAC(lanes, batch_size=1024)
    """

    _init = lib.gpur_fast_sac_config_init
