# SPDX-License-Identifier: MIT
"""Settings of a buffer, and what it tells about itself."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import _mirror
from ._choices import begin, choice, put_choice, put_schedule
from ._library import InvalidArgument, check, lib
from ._numbers import flag, integer, put, put_some
from ._schema import Field, to_c

SOURCES = {False: _mirror.UNIFORM, True: _mirror.PRIORITIZED, "plain": _mirror.PRIORITIZED_PLAIN}
_INPUTS = {"stacks": _mirror.INPUT_STACKS, "frames": _mirror.INPUT_FRAMES}
CHOICES = {
    "flush": {"auto": _mirror.FLUSH_AUTO, "manual": _mirror.FLUSH_MANUAL},
    "weight_norm": {"batch": _mirror.WEIGHT_NORM_BATCH, "memory": _mirror.WEIGHT_NORM_MEMORY,
                    "none": _mirror.WEIGHT_NORM_NONE},
    "layout": {"packed": _mirror.PACKED, "linked": _mirror.LINKED},
    "stack_axis": {"first": _mirror.STACK_FIRST, "last": _mirror.STACK_LAST},
    "stack_pad": {"zero": _mirror.PAD_ZERO, "repeat": _mirror.PAD_REPEAT},
}
_MEMBERS = {
    **{name: put_choice(choices) for name, choices in CHOICES.items()},
    "beta": put_schedule,
    **dict.fromkeys(("update_size", "max_batch", "frame_stack"), put_some),
    **dict.fromkeys(("min_size", "gamma", "reward_clip", "seed", "alpha", "priority_offset", "n_step", "frame_slack"),
                    put),
}
_MOST_FRAMES = 16  # of a stack; more is refused by the library
_BY_PRIORITY = ("alpha", "beta", "weight_norm", "priority_offset")
SETTINGS = ("distinct", "prioritized", "observations", "num_envs", *_MEMBERS)


class Stats(NamedTuple):
    """Counts since creation; seconds and bytes where the name says so. include/gpureplay/replay.h has each."""

    first_id: int
    visible: int
    appended: int
    published: int
    evicted: int
    blocks: int
    episodes_cut: int
    draws: int
    batches_alive: int
    batches_made: int
    waits: int
    wait_seconds: float
    append_seconds: float
    bytes_fed: int
    frames_stored: int


class Plan(NamedTuple):
    """What a buffer takes: frames (of layout "linked") in their number, frame_reach in frames, all else in bytes.
    include/gpureplay/plan.h has each."""

    row_bytes: int
    row_pitch: int
    ring_bytes: int
    feed_bytes: int
    pinned_bytes: int
    batch_bytes: int
    device_bytes: int
    priority_bytes: int
    frames: int
    frame_bytes: int
    frame_pitch: int
    frame_ring_bytes: int
    frame_reach: int


class Form(NamedTuple):
    """All that a buffer is made by."""

    config: _mirror.ReplayConfig
    fields: list[Field]  # of the library's schema, as batches have them
    given: list[Field]  # as `add` is given them
    input: int  # _mirror.INPUT_*


def _set_source(config: _mirror.ReplayConfig, distinct: Any, prioritized: Any) -> None:
    """None: the preset's."""
    if prioritized is not None:
        if not isinstance(prioritized, (str, bool, np.bool_)) or prioritized not in SOURCES:
            raise ValueError(f"prioritized is {prioritized!r}; it must be True, False, \"plain\" or None")
        config.index_source, config.prioritized = SOURCES[prioritized], int(bool(prioritized))
    if distinct is None or not flag("distinct", distinct):
        return
    if config.prioritized:
        raise ValueError("distinct is True and the buffer prioritized; a draw by priority may take a transition twice: "
                         "leave out one of them")
    config.index_source = _mirror.UNIFORM_DISTINCT


def _configure(preset: Any, capacity: Any, settings: dict[str, Any]) -> _mirror.ReplayConfig:
    """`settings`: some of SETTINGS. None: the preset's, or the library's default."""
    config = _mirror.ReplayConfig()
    begin(config, lib.gpur_replay_config_init, lib.gpur_replay_config_preset, preset)
    if capacity is not None:
        config.capacity = integer("capacity", capacity)
    elif preset is None:
        raise TypeError("capacity is None; it must be a number of transitions, or there must be a preset that has it")
    _set_source(config, settings.get("distinct"), settings.get("prioritized"))
    for name, value in settings.items():
        if value is not None and name in _MEMBERS:
            _MEMBERS[name](config, name, value)
    for name in _BY_PRIORITY:
        if settings.get(name) is not None and not config.prioritized:
            raise ValueError(f"{name} is {settings[name]!r} and the buffer is not prioritized; it needs "
                             "prioritized=True or \"plain\"")
    if config.frame_stack > 1 and settings.get("layout") is None:
        config.layout = _mirror.LINKED
    return config


def _stacked(field: Field, config: _mirror.ReplayConfig) -> Field:
    """An observation of frames that are given one by one."""
    if field.name not in ("obs", "next_obs"):
        return field
    of = (config.frame_stack,)
    return field._replace(shape=of + field.shape if config.stack_axis == _mirror.STACK_FIRST else field.shape + of)


def _check_stack(fields: list[Field], config: _mirror.ReplayConfig) -> None:
    """InvalidArgument: observations, given as stacks, that are no stacks of so many frames."""
    count, (axis, at) = config.frame_stack, ("first", 0) if config.stack_axis == _mirror.STACK_FIRST else ("last", -1)
    if config.layout != _mirror.LINKED or not 1 < count <= _MOST_FRAMES:
        return
    for field in fields:
        found = field.shape[at] if field.shape else 0
        if field.name in ("obs", "next_obs") and found != count:
            other = "last" if axis == "first" else "first"
            raise InvalidArgument(
                f"frame_stack is {count} and the {axis} axis of \"{field.name}\" is {found} long, its shape being "
                f"{field.shape}; say stack_axis=\"{other}\" where the {other} axis counts the frames, or "
                "observations=\"frames\" where each is one frame")


def _reach(config: _mirror.ReplayConfig, fields: list[Field], num_envs: Any) -> None:
    """frame_slack that was not given: of so many environments no frame is to be stored twice."""
    wanted = integer("num_envs", num_envs, 1, 2**31 - 1) * (config.frame_stack + 2 * config.n_step)
    plan, names = _mirror.ReplayPlan(), {field.name for field in fields}
    if config.layout == _mirror.LINKED and config.frame_slack == 0 and {"obs", "next_obs"} <= names:
        check(lib.gpur_replay_plan_bytes(ctypes.addressof(config), ctypes.addressof(plan)))
        if plan.frame_reach < wanted:
            config.frame_slack = wanted


def most_of(config: _mirror.ReplayConfig) -> int:
    """The largest batch: max_batch, or what the library makes of a 0. include/gpureplay/replay.h has the rule."""
    of_row = min(2 * config.frame_stack, config.frame_stack + config.n_step) if config.layout == _mirror.LINKED else 1
    return int(config.max_batch) or min(4096, max(1, config.capacity // 2 // of_row))


def source_of(config: _mirror.ReplayConfig) -> int:
    """index_source, or what the library makes of SOURCE_AUTO."""
    return int(config.index_source) or (_mirror.PRIORITIZED if config.prioritized else _mirror.UNIFORM)


def block_of(config: _mirror.ReplayConfig) -> int:
    """update_size, or what the library makes of a 0."""
    part = 64 if config.layout == _mirror.LINKED else 16
    return int(config.update_size) or min(2000, max(1, config.capacity // part))


def slack_of(config: _mirror.ReplayConfig) -> int:
    """frame_slack of layout "linked", or what the library makes of a 0."""
    return int(config.frame_slack) or max(config.capacity // 64, 64 * (config.frame_stack + 2 * config.n_step))


def form_of(given: list[Field], capacity: Any, preset: Any, settings: dict[str, Any]) -> Form:
    """What the library needs for fields that `add` is given like that."""
    config, fields = _configure(preset, capacity, settings), list(given)
    taken = choice("observations", settings.get("observations", "stacks"), _INPUTS)
    if taken == _mirror.INPUT_STACKS:
        _check_stack(fields, config)
    else:
        if config.layout != _mirror.LINKED:
            raise ValueError("observations is \"frames\" and layout \"packed\"; stacks are made of frames by layout "
                             "\"linked\", which frame_stack above 1 chooses by itself")
        fields = [_stacked(field, config) for field in fields]
    if config.n_step > 1 and all(field.name != "discount" for field in fields):
        fields.append(Field("discount", (), np.dtype(np.float32)))
    config.fields, config.field_count = to_c(fields), len(fields)
    _reach(config, fields, settings.get("num_envs", 1))
    return Form(config, fields, given, taken)
