# SPDX-License-Identifier: MIT
"""Settings of a buffer, and what it tells about itself."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from . import _mirror
from ._choices import choice, put_choice, put_schedule
from ._library import check, lib
from ._numbers import integer, put
from ._schema import Field, to_c

_SOURCES = {False: _mirror.UNIFORM, True: _mirror.PRIORITIZED, "plain": _mirror.PRIORITIZED_PLAIN}
_INPUTS = {"stacks": _mirror.INPUT_STACKS, "frames": _mirror.INPUT_FRAMES}
_MEMBERS = {
    "flush": put_choice({"auto": _mirror.FLUSH_AUTO, "manual": _mirror.FLUSH_MANUAL}),
    "weight_norm": put_choice({"batch": _mirror.WEIGHT_NORM_BATCH, "memory": _mirror.WEIGHT_NORM_MEMORY,
                               "none": _mirror.WEIGHT_NORM_NONE}),
    "layout": put_choice({"packed": _mirror.PACKED, "linked": _mirror.LINKED}),
    "stack_axis": put_choice({"first": _mirror.STACK_FIRST, "last": _mirror.STACK_LAST}),
    "stack_pad": put_choice({"zero": _mirror.PAD_ZERO, "repeat": _mirror.PAD_REPEAT}),
    "beta": put_schedule,
    **dict.fromkeys(("update_size", "min_size", "max_batch", "gamma", "reward_clip", "seed", "alpha", "priority_offset",
                     "n_step", "frame_stack", "frame_slack"), put),
}
_BY_PRIORITY = ("alpha", "beta", "weight_norm", "priority_offset")
SETTINGS = ("distinct", "prioritized", "observations", *_MEMBERS)


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
        if prioritized not in _SOURCES:
            raise ValueError(f"prioritized is {prioritized!r}; it must be True, False, \"plain\" or None")
        config.index_source, config.prioritized = _SOURCES[prioritized], int(bool(prioritized))
    if distinct and config.prioritized:
        raise ValueError("distinct is True and the buffer prioritized; a draw by priority may take a transition twice: "
                         "leave out one of them")
    if distinct:
        config.index_source = _mirror.UNIFORM_DISTINCT


def _preset(name: Any) -> _mirror.ReplayConfig:
    """Its settings, or with None the defaults."""
    config = _mirror.ReplayConfig()
    address = ctypes.addressof(config)
    check(lib.gpur_replay_config_init(address, ctypes.sizeof(config)))
    if name is not None:
        if not isinstance(name, str):
            raise TypeError(f"preset is {name!r}; it must be a name, or None")
        check(lib.gpur_replay_config_preset(address, name.encode()))
    return config


def _configure(preset: Any, capacity: Any, settings: dict[str, Any]) -> _mirror.ReplayConfig:
    """`settings`: some of SETTINGS. None: the preset's, or the library's default."""
    config = _preset(preset)
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


def form_of(given: list[Field], capacity: Any, preset: Any, settings: dict[str, Any]) -> Form:
    """What the library needs for fields that `add` is given like that."""
    config, fields = _configure(preset, capacity, settings), list(given)
    taken = choice("observations", settings.get("observations", "stacks"), _INPUTS)
    if taken == _mirror.INPUT_FRAMES:
        if config.layout != _mirror.LINKED:
            raise ValueError("observations is \"frames\" and layout \"packed\"; stacks are made of frames by layout "
                             "\"linked\", which frame_stack above 1 chooses by itself")
        fields = [_stacked(field, config) for field in fields]
    if config.n_step > 1 and all(field.name != "discount" for field in fields):
        fields.append(Field("discount", (), np.dtype(np.float32)))
    config.fields, config.field_count = to_c(fields), len(fields)
    return Form(config, fields, given, taken)
