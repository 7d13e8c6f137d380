# SPDX-License-Identifier: MIT
"""Which settings the library's structs have in Python, and the words of those that are numbers in C. Needs the standard
library alone."""

from __future__ import annotations

from typing import Any

from . import _c_api
from ._struct import Struct

SOURCES = {False: _c_api.UNIFORM, True: _c_api.PRIORITIZED_STRATIFIED, "independent": _c_api.PRIORITIZED_INDEPENDENT}
ACTIVATIONS = {"linear": _c_api.LINEAR, "relu": _c_api.RELU, "tanh": _c_api.TANH}
NORMS = {"none": 0, "layer_norm": _c_api.LAYER_NORM}

# By the setting's name, and before that by the struct's and the setting's.
CHOICES: dict[str, dict[str, int]] = {
    # Buffers.
    "flush": {"auto": _c_api.FLUSH_AUTO, "manual": _c_api.FLUSH_MANUAL},
    "weight_norm": {"batch": _c_api.WEIGHT_NORM_BATCH, "memory": _c_api.WEIGHT_NORM_MEMORY,
                    "none": _c_api.WEIGHT_NORM_NONE},
    "layout": {"rows": _c_api.LAYOUT_ROWS, "frames": _c_api.LAYOUT_FRAMES},
    "stack_axis": {"first": _c_api.STACK_FIRST, "last": _c_api.STACK_LAST},
    "stack_pad": {"zero": _c_api.PAD_ZERO, "repeat": _c_api.PAD_REPEAT},
    "eviction": {"oldest": _c_api.EVICT_OLDEST, "priority": _c_api.EVICT_BY_PRIORITY},
    "first_priority": {"window": _c_api.FIRST_PRIORITY_WINDOW, "ever": _c_api.FIRST_PRIORITY_EVER},
    "observations": {"stacks": _c_api.OBSERVATIONS_STACKS, "frames": _c_api.OBSERVATIONS_FRAMES},
    "strategy": {"future": _c_api.HINDSIGHT_FUTURE, "final": _c_api.HINDSIGHT_FINAL,
                 "episode": _c_api.HINDSIGHT_EPISODE},
    "gpur_hindsight_config.reward": {"sparse": _c_api.GOAL_REWARD_SPARSE, "distance": _c_api.GOAL_REWARD_DISTANCE,
                                     "nearness": _c_api.GOAL_REWARD_NEARNESS,
                                     "unchanged": _c_api.GOAL_REWARD_UNCHANGED},
    # Learners and policies.
    "estimator": {"peng": _c_api.ESTIMATOR_PENG, "n-step": _c_api.ESTIMATOR_N_STEP,
                  "watkins": _c_api.ESTIMATOR_WATKINS, "peng-median": _c_api.ESTIMATOR_PENG_MEDIAN,
                  "watkins-median": _c_api.ESTIMATOR_WATKINS_MEDIAN,
                  "peng-error-bound": _c_api.ESTIMATOR_PENG_ERROR_BOUND,
                  "watkins-error-bound": _c_api.ESTIMATOR_WATKINS_ERROR_BOUND},
    "storage": {"virtual": _c_api.CACHE_VIRTUAL, "physical": _c_api.CACHE_PHYSICAL},
    "draw": {"permutation": _c_api.CACHE_PERMUTATION, "replacement": _c_api.CACHE_REPLACEMENT},
    "head": {"q": _c_api.HEAD_Q, "dueling": _c_api.HEAD_DUELING, "softmax_value": _c_api.HEAD_SOFTMAX_VALUE,
             "tanh_action": _c_api.HEAD_TANH_ACTION, "squashed_gaussian": _c_api.HEAD_SQUASHED_GAUSSIAN,
             "quantiles": _c_api.HEAD_QUANTILES, "categorical": _c_api.HEAD_CATEGORICAL},
    "hidden_activation": ACTIVATIONS,
    "init": {"fan_in": _c_api.INIT_FAN_IN, "glorot": _c_api.INIT_GLOROT, "normal": _c_api.INIT_NORMAL},
    "input_layout": {"auto": _c_api.INPUT_AUTO, "chw": _c_api.CHW, "hwc": _c_api.HWC},
    "optimizer": {"adam": _c_api.ADAM, "rmsprop_tf": _c_api.RMSPROP_TF, "rmsprop_keras2": _c_api.RMSPROP_KERAS2,
                  "rmsprop_torch": _c_api.RMSPROP_TORCH, "rmsprop_deepmind": _c_api.RMSPROP_DEEPMIND,
                  "adam_tf": _c_api.ADAM_TF},
    "log": {"add": _c_api.LOG_ADD, "max": _c_api.LOG_MAX, "softmax": _c_api.LOG_SOFTMAX},
    "loss": {"huber": _c_api.LOSS_HUBER, "squared": _c_api.LOSS_SQUARED},
    "act": {"latest": _c_api.ACT_LATEST, "previous": _c_api.ACT_PREVIOUS, "target": _c_api.ACT_TARGET},
    "math": {"fp32": _c_api.MATH_FP32, "tf32": _c_api.MATH_TF32, "bf16": _c_api.MATH_BF16,
             "auto": _c_api.MATH_AUTO},
    "step_kernel": {"auto": _c_api.STEP_AUTO, "libraries": _c_api.STEP_LIBRARIES, "fused": _c_api.STEP_FUSED},
    # Runs.
    "gpur_fast_dqn_config.act": {"latest": _c_api.ACT_LATEST, "target": _c_api.ACT_TARGET},
    "initial_priorities": {"td": 1, "max": 0},
    "system": {"ga3c": _c_api.GA3C, "a3c": _c_api.A3C, "a2c": _c_api.A2C},
    "gpur_ga3c_config.when_full": {"wait": _c_api.QUEUE_WAIT, "refuse": _c_api.QUEUE_REFUSE,
                                   "drop_oldest": _c_api.QUEUE_DROP_OLDEST},
    "tuner": {"none": _c_api.TUNER_NONE, "paper": _c_api.TUNER_PAPER, "code": _c_api.TUNER_CODE},
}

# Settings that are 0 or 1 in C.
FLAGS = ("centered", "double_dqn", "target_copy_first", "deterministic", "concurrent", "synchronized",
         "whole_episodes", "burst", "truncation_terminates", "restarts", "dual_optimizer",
         "drop_terminal", "fixed_temperature", "ends_at_goal")

_RENAMED = {"kind": "optimizer", "lambda": "lambda_"}  # members; "lambda" is Python's
_OTHERS = ("size", "trunk_count", "index_source", "check_finite", "epsilon_count")  # members that are no settings


def member_of(name: str) -> str:
    """The member of a struct that a setting is."""
    return next((member for member, setting in _RENAMED.items() if setting == name), name)


def _is_setting(member: str, kind: Any) -> bool:
    """Numbers and schedules are."""
    is_number = isinstance(getattr(kind, "_type_", None), str) and kind._type_ not in ("P", "z")
    return (is_number or kind is _c_api.Schedule) and member not in _OTHERS and not member.startswith("reserved")


def settings_in(struct: type[Struct]) -> tuple[str, ...]:
    """The settings that are members of the struct itself, and of a network its trunk."""
    found = (_RENAMED.get(member, member) for member, kind in struct._fields_ if _is_setting(member, kind))
    return (("trunk",) if struct is _c_api.NetworkConfig else ()) + tuple(found)


def parts_in(struct: type[Struct]) -> dict[str, type[Struct]]:
    """The members of a config that are structs with settings, by name."""
    return {member: kind for member, kind in struct._fields_ if isinstance(kind, type) and issubclass(kind, Struct)
            and kind not in (_c_api.Schedule, _c_api.Field)}


def choices_of(struct: type[Struct], name: str) -> dict[str, int] | None:
    """The words of a setting. None: it has none."""
    return CHOICES.get(f"{struct.c_name}.{name}") or CHOICES.get(name)
