# SPDX-License-Identifier: MIT
"""Settings of a learner by name, as the library's struct."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from . import _mirror
from ._choices import begin, choice, put_choice, put_schedule
from ._library import lib
from ._numbers import put
from ._trunk import ACTIVATIONS, set_trunk

HEADS = {"q": _mirror.HEAD_Q, "dueling": _mirror.HEAD_DUELING}
INITS = {"fan_in": _mirror.INIT_FAN_IN, "glorot": _mirror.INIT_GLOROT, "normal": _mirror.INIT_NORMAL}
LOSSES = {"huber": _mirror.LOSS_HUBER, "squared": _mirror.LOSS_SQUARED}
OPTIMIZERS = {
    "adam": _mirror.ADAM,
    "rmsprop_tf": _mirror.RMSPROP_TF,
    "rmsprop_keras2": _mirror.RMSPROP_KERAS2,
    "rmsprop_torch": _mirror.RMSPROP_TORCH,
    "rmsprop_deepmind": _mirror.RMSPROP_DEEPMIND,
}
ACTS = {"latest": _mirror.ACT_LATEST, "previous": _mirror.ACT_PREVIOUS, "target": _mirror.ACT_TARGET}
MATHS = {"fp32": _mirror.MATH_FP32, "tf32": _mirror.MATH_TF32, "bf16": _mirror.MATH_BF16}
STEP_KERNELS = {"auto": _mirror.STEP_AUTO, "libraries": _mirror.STEP_LIBRARIES,
                 "one_kernel": _mirror.STEP_ONE_KERNEL}
LAYOUTS = {"chw": _mirror.CHW, "hwc": _mirror.HWC}
PRIORITIZED = {False: _mirror.UNIFORM, True: _mirror.PRIORITIZED, "plain": _mirror.PRIORITIZED_PLAIN}

# How each setting gets into which part of the struct. None is the struct itself.
_NETWORK = {
    "trunk": lambda network, _, layers: set_trunk(network, layers),
    "head": put_choice(HEADS),
    "hidden": put,
    "hidden_activation": put_choice(ACTIVATIONS),
    "outputs": put,
    "init": put_choice(INITS),
    "init_scale": put,
    "input_scale": put,
    "input_layout": put_choice(LAYOUTS),
}
_OPTIMIZER = {
    "optimizer": lambda optimizer, name, kind: setattr(optimizer, "kind", choice(name, kind, OPTIMIZERS)),
    "learning_rate": put_schedule,
    **dict.fromkeys(("centered", "beta1", "beta2", "decay", "momentum", "epsilon", "clip_norm", "clip_value"), put),
}
_TOP = {
    "exploration": put_schedule,
    "beta": put_schedule,
    "loss": put_choice(LOSSES),
    "act": put_choice(ACTS),
    "math": put_choice(MATHS),
    "step_kernel": put_choice(STEP_KERNELS),
    **dict.fromkeys(("double_dqn", "huber_delta", "batch_size", "target_period", "target_copy_first", "max_act_batch",
                     "unroll", "seed", "host_batches", "deterministic"), put),
}
_DRAWS = ("distinct", "prioritized")
SETTINGS = (*_NETWORK, *_OPTIMIZER, *_TOP, *_DRAWS)


def _index_source(distinct: Any, prioritized: Any, of_buffer: int, of_preset: int) -> int:
    """How train steps draw: as told, else as the buffer does that has priorities, else as the preset wants it."""
    if prioritized is not None and (not isinstance(prioritized, Hashable) or prioritized not in PRIORITIZED):
        raise ValueError(f"prioritized is {prioritized!r}; it must be True, False, \"plain\" or None")
    if distinct and prioritized:
        raise ValueError(f"distinct is {distinct!r} and prioritized {prioritized!r}; a draw by priority may take a "
                         f"transition twice: leave out one of them")
    if distinct:
        return _mirror.UNIFORM_DISTINCT
    if prioritized is not None:
        return PRIORITIZED[prioritized]
    return of_buffer if of_buffer in (_mirror.PRIORITIZED, _mirror.PRIORITIZED_PLAIN) else of_preset or of_buffer


def learner_config(preset: str | None, settings: dict[str, Any], index_source: int) -> _mirror.LearnerConfig:
    """The preset's settings, or the defaults, and then these. index_source: the buffer's."""
    config = _mirror.LearnerConfig()
    begin(config, lib.gpur_learner_config_init, lib.gpur_learner_config_preset, preset)
    for name, value in settings.items():
        for part, setters in ((config.network, _NETWORK), (config.optimizer, _OPTIMIZER), (config, _TOP)):
            if name in setters:
                setters[name](part, name, value)
                break
        else:
            if name not in _DRAWS:
                raise TypeError(f"{name!r} is no setting; they are {', '.join(SETTINGS)}")
    config.index_source = _index_source(settings.get("distinct"), settings.get("prioritized"), index_source,
                                        config.index_source)
    return config
