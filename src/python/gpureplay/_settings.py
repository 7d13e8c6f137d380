# SPDX-License-Identifier: MIT
"""Settings read back from the library's structs, as the constructors take them."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import _mirror
from ._choices import begin
from ._learner_config import ACTS, HEADS, INITS, LAYOUTS, LOSSES, MATHS, OPTIMIZERS, PRIORITIZED, STEP_KERNELS
from ._library import InvalidArgument, lib
from ._replay_config import CHOICES, SOURCES, Form, block_of, most_of, slack_of, source_of
from ._trunk import ACTIVATIONS, trunk_of

Settings = dict[str, Any]
_FLAGS = ("centered", "double_dqn", "target_copy_first", "deterministic")


def _word(choices: dict[Any, int], code: int) -> Any:
    return next(word for word, known in choices.items() if known == code)


def real_of(value: float) -> float:
    """A float32 as the shortest number that stands for it: 0.99, and not 0.9900000095367432."""
    return float(str(np.float32(value)))


def _schedule(given: _mirror.Schedule) -> Any:
    """A number, or (first, last, steps), or with a begin of its own (first, last, steps, begin)."""
    first, last = real_of(given.first), real_of(given.last)
    if first == last:
        return first
    return (first, last, given.steps, given.begin) if given.begin else (first, last, given.steps)


def _plain(struct: ctypes.Structure, name: str) -> Any:
    value = getattr(struct, name)
    if isinstance(value, _mirror.Schedule):
        return _schedule(value)
    return bool(value) if name in _FLAGS else real_of(value) if isinstance(value, float) else value


def _all(struct: ctypes.Structure, names: str) -> Settings:
    return {name: _plain(struct, name) for name in names.split()}


def of_replay(config: _mirror.ReplayConfig) -> Settings:
    """What a buffer's struct says; None where a setting has no meaning there."""
    words = {name: _word(choices, getattr(config, name)) for name, choices in CHOICES.items()}
    by_priority, linked = bool(config.prioritized), config.layout == _mirror.LINKED
    found = {
        **_all(config, "capacity min_size gamma reward_clip"),
        "max_batch": most_of(config), "update_size": block_of(config), "flush": words["flush"],
        "distinct": config.index_source == _mirror.UNIFORM_DISTINCT, "seed": config.seed,
        "prioritized": _word(SOURCES, source_of(config)) if by_priority else False,
        **_all(config, "alpha beta"), "weight_norm": words["weight_norm"], **_all(config, "priority_offset n_step"),
        "layout": words["layout"], "frame_stack": config.frame_stack, "stack_axis": words["stack_axis"],
        "stack_pad": words["stack_pad"], "frame_slack": slack_of(config),
    }
    for name in () if by_priority else ("alpha", "beta", "weight_norm", "priority_offset"):
        found[name] = None
    for name in () if linked else ("frame_stack", "stack_axis", "stack_pad", "frame_slack"):
        found[name] = None
    return found


def of_buffer(form: Form) -> Settings:
    """All but what a buffer keeps beside its form."""
    fields = {field.name: (field.shape, field.dtype.name) for field in form.given}
    found = of_replay(form.config)
    return {"capacity": found.pop("capacity"), "fields": fields, **found,
            "observations": "frames" if form.input == _mirror.INPUT_FRAMES else "stacks"}


def of_learner(config: _mirror.LearnerConfig) -> Settings:
    """What a learner's struct says."""
    network, optimizer, source = config.network, config.optimizer, config.index_source
    return {
        "outputs": network.outputs, "trunk": trunk_of(network), "head": _word(HEADS, network.head),
        "hidden": network.hidden, "hidden_activation": _word(ACTIVATIONS, network.hidden_activation),
        "init": _word(INITS, network.init), **_all(network, "init_scale input_scale"),
        "input_layout": _word(LAYOUTS, network.input_layout), "optimizer": _word(OPTIMIZERS, optimizer.kind),
        **_all(optimizer, "learning_rate centered beta1 beta2 decay momentum epsilon clip_norm clip_value"),
        "loss": _word(LOSSES, config.loss),
        **_all(config, "huber_delta double_dqn batch_size target_period target_copy_first exploration"),
        "prioritized": _word(PRIORITIZED, source) if source in PRIORITIZED.values() else False,
        "distinct": source == _mirror.UNIFORM_DISTINCT, **_all(config, "beta seed"), "act": _word(ACTS, config.act),
        "math": _word(MATHS, config.math), "step_kernel": _word(STEP_KERNELS, config.step_kernel),
        **_all(config, "max_act_batch unroll host_batches deterministic"),
    }


class Preset(NamedTuple):
    """The settings of a published system, as keywords.

    buffer: of `ReplayBuffer`; empty for "cartpole", which says nothing of a buffer.
    agent: of `DQN`.
    """

    buffer: Settings
    agent: Settings


# What no preset says.
_OF_NO_BUFFER = ("max_batch", "flush", "distinct", "seed", "frame_slack")
_OF_NO_AGENT = ("seed", "act", "math", "max_act_batch", "unroll", "host_batches", "deterministic",
                "step_kernel", "distinct")


def preset(name: str) -> Preset:
    """The settings behind `preset=name` of `ReplayBuffer` and `DQN`:

        gpureplay.preset("apex-dqn").agent["batch_size"]

    InvalidArgument: there is none of that name; the text has all names."""
    learner, replay, buffer = _mirror.LearnerConfig(), _mirror.ReplayConfig(), Settings()
    begin(learner, lib.gpur_learner_config_init, lib.gpur_learner_config_preset, name)
    try:
        begin(replay, lib.gpur_replay_config_init, lib.gpur_replay_config_preset, name)
        buffer = of_replay(replay)
        if replay.update_size == 0:
            del buffer["update_size"]  # it goes by the capacity
    except InvalidArgument:
        pass
    agent = of_learner(learner)
    left_out = _OF_NO_AGENT if agent["prioritized"] else (*_OF_NO_AGENT, "prioritized")  # False: as the buffer does
    return Preset({key: value for key, value in buffer.items() if value is not None and key not in _OF_NO_BUFFER},
                  {key: value for key, value in agent.items() if key not in left_out})


def shown(settings: Settings, names: str) -> str:
    """Some of the settings, as in a call."""
    return ", ".join(f"{name}={settings[name]!r}" for name in names.split())
