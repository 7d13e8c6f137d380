# SPDX-License-Identifier: MIT
"""Settings of a learner by name, as the library's struct."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _mirror
from ._library import check, lib
from ._numbers import put

_ACTIVATIONS = {"linear": _mirror.LINEAR, "relu": _mirror.RELU, "tanh": _mirror.TANH}
_HEADS = {"q": _mirror.HEAD_Q, "dueling": _mirror.HEAD_DUELING}
_INITS = {"fan_in": _mirror.INIT_FAN_IN, "glorot": _mirror.INIT_GLOROT, "normal": _mirror.INIT_NORMAL}
_LOSSES = {"huber": _mirror.LOSS_HUBER, "squared": _mirror.LOSS_SQUARED}
_OPTIMIZERS = {
    "adam": _mirror.ADAM,
    "rmsprop_tf": _mirror.RMSPROP_TF,
    "rmsprop_keras2": _mirror.RMSPROP_KERAS2,
    "rmsprop_torch": _mirror.RMSPROP_TORCH,
    "rmsprop_deepmind": _mirror.RMSPROP_DEEPMIND,
}
_ACTS = {"latest": _mirror.ACT_LATEST, "previous": _mirror.ACT_PREVIOUS, "target": _mirror.ACT_TARGET}
_MATHS = {"fp32": _mirror.MATH_FP32, "tf32": _mirror.MATH_TF32, "bf16": _mirror.MATH_BF16}

_TRUNK = "a list of units or (units, activation)"


def _choice(name: str, value: Any, choices: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, choices))}")
    return choices[value]


def _set_trunk(network: _mirror.NetworkConfig, layers: Sequence[Any]) -> None:
    """(units, activation) each, or units alone for relu."""
    if not isinstance(layers, (tuple, list)):
        raise TypeError(f"trunk is {layers!r}; it must be {_TRUNK}")
    if len(layers) > _mirror.MAX_LAYERS:
        raise ValueError(f"trunk has {len(layers)} layers; it may have {_mirror.MAX_LAYERS}")
    for at, layer in zip(network.trunk, layers):
        pair = layer if isinstance(layer, (tuple, list)) else (layer, "relu")
        if len(pair) != 2:
            raise TypeError(f"trunk has {layer!r}; it must be {_TRUNK}")
        units, activation = pair
        at.kind, at.kernel, at.stride, at.padding = _mirror.DENSE, 0, 0, 0
        put(at, "units", units)
        at.activation = _choice("activation in trunk", activation, _ACTIVATIONS)
    network.trunk_count = len(layers)


def _schedule(name: str, value: Any) -> _mirror.Schedule:
    """A number, or (first, last, steps) or (first, last, steps, begin)."""
    if not isinstance(value, (tuple, list)):
        value = (value, value, 0)
    if len(value) not in (3, 4):
        raise ValueError(f"{name} is {value!r}; it must be a number, (first, last, steps) or (first, last, steps, "
                         f"begin)")
    schedule = _mirror.Schedule()
    for member, number in zip(("first", "last", "steps", "begin"), value):
        put(schedule, member, number)
    return schedule


def _put_choice(choices: dict[str, int]) -> Any:
    def set_it(struct: ctypes.Structure, name: str, value: Any) -> None:
        setattr(struct, name, _choice(name, value, choices))
    return set_it


def _put_schedule(struct: ctypes.Structure, name: str, value: Any) -> None:
    setattr(struct, name, _schedule(name, value))


# How each setting gets into which part of the struct. None is the struct itself.
_NETWORK = {
    "trunk": lambda network, _, layers: _set_trunk(network, layers),
    "head": _put_choice(_HEADS),
    "hidden": put,
    "hidden_activation": _put_choice(_ACTIVATIONS),
    "outputs": put,
    "init": _put_choice(_INITS),
    "init_scale": put,
    "input_scale": put,
}
_OPTIMIZER = {
    "optimizer": lambda optimizer, name, kind: setattr(optimizer, "kind", _choice(name, kind, _OPTIMIZERS)),
    "learning_rate": _put_schedule,
    **dict.fromkeys(("centered", "beta1", "beta2", "decay", "momentum", "epsilon", "clip_norm", "clip_value"), put),
}
_TOP = {
    "distinct": lambda config, _, distinct: setattr(config, "index_source", int(distinct)),
    "exploration": _put_schedule,
    "loss": _put_choice(_LOSSES),
    "act": _put_choice(_ACTS),
    "math": _put_choice(_MATHS),
    **dict.fromkeys(("double_dqn", "huber_delta", "batch_size", "target_period", "target_copy_first", "max_act_batch",
                     "unroll", "seed", "host_batches", "deterministic"), put),
}
SETTINGS = (*_NETWORK, *_OPTIMIZER, *_TOP)


def learner_config(preset: str | None, settings: dict[str, Any]) -> _mirror.LearnerConfig:
    """The preset's settings, or the defaults, and then these."""
    config = _mirror.LearnerConfig()
    address = ctypes.addressof(config)
    check(lib.gpur_learner_config_init(address, ctypes.sizeof(config)))
    if preset is not None:
        if not isinstance(preset, str):
            raise TypeError(f"preset is {preset!r}; it must be a name, or None")
        check(lib.gpur_learner_config_preset(address, preset.encode()))
    for name, value in settings.items():
        for part, setters in ((config.network, _NETWORK), (config.optimizer, _OPTIMIZER), (config, _TOP)):
            if name in setters:
                setters[name](part, name, value)
                break
        else:
            raise TypeError(f"{name!r} is no setting; they are {', '.join(SETTINGS)}")
    return config
