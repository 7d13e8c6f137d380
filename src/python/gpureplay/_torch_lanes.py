# SPDX-License-Identifier: MIT
"""Lanes as operators of PyTorch, for functions that torch.compile takes. Each changes `token`, a tensor that a buffer
has for this alone: so PyTorch keeps the calls, and keeps them in order. Batches are made where they are drawn, by
torch.empty, so that a graph plans their memory."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from ._inputs import refuse_gradient
from ._lanes import Ask
from ._library import Closed, InvalidArgument

if TYPE_CHECKING:
    from ._lanes import LaneBuffer

_buffers: list[weakref.ref[LaneBuffer]] = []  # by their numbers in graphs

_library = torch.library.Library("gpureplay", "DEF")
_library.define("add_lanes(Tensor(a!) token, int buffer, Tensor?[] values) -> ()")
_library.define("reset_lanes(Tensor(a!) token, int buffer, Tensor? lanes) -> ()")
_library.define("draw_lanes(Tensor(a!) token, int buffer, int count, int n_step, float gamma, bool per_lane, "
                "int length, int min_length, bool across_episodes, Tensor? ids, Tensor(b!)[] out, str[] names) -> ()")
_library.define("update_lanes(Tensor(a!) token, int buffer, Tensor ids, Tensor priorities) -> ()")


def _of(number: int) -> LaneBuffer:
    buffer = _buffers[number]()
    if buffer is None:
        raise Closed("the buffer of lanes that this function was compiled with is gone; compile it with another")
    return buffer


def _add(_token: Any, number: int, values: list[Any]) -> None:
    _of(number)._add_now(values, None)


def _reset(_token: Any, number: int, lanes: Any) -> None:
    _of(number)._reset_now(lanes, None)


def _draw(_token: Any, number: int, count: int, *arguments: Any) -> None:
    *ask, ids, out, names = arguments
    _of(number)._draw_now(count, ids, Ask(*ask), dict(zip(names, out)), None)


def _update(_token: Any, number: int, ids: Any, priorities: Any) -> None:
    _of(number)._update_now(ids, priorities, None)


def _nothing(*_: Any) -> None:
    """The fake kernel of each operator: all of them write into arrays that are given, and return nothing."""


for _name, _function in (("add_lanes", _add), ("reset_lanes", _reset), ("draw_lanes", _draw),
                         ("update_lanes", _update)):
    for _key in "CPU", "CUDA":
        _library.impl(_name, _function, _key)
    torch.library.register_fake(f"gpureplay::{_name}", _nothing, lib=_library)


def _refuse_stream(stream: Any) -> None:
    if stream is not None:
        raise InvalidArgument(f"stream is {stream!r} in a function that torch.compile takes; it must be None: the "
                              "calls run on PyTorch's current stream")


def _refuse_gradients(names: Iterable[str], arrays: Iterable[Any]) -> None:
    """While the function is traced: the operators get tensors that no longer tell."""
    for name, array in zip(names, arrays):
        if isinstance(array, torch.Tensor):
            refuse_gradient(name, array)


def _refuse_one_tensor(out: Mapping[str, Any]) -> None:
    """PyTorch gives the operator copies of what it writes, of which the last one would stay."""
    names = list(out)
    for at, name in enumerate(names):
        for other in names[:at]:
            if out[other] is out[name]:
                raise ValueError(f"{other} and {name} of out are one tensor; they must be tensors of their own")


class Operators:
    """The operators of one buffer."""

    def __init__(self, buffer: LaneBuffer):
        _buffers.append(weakref.ref(buffer))
        self._number, self._device = len(_buffers) - 1, torch.device(buffer.device.name)
        self._token = torch.zeros((), dtype=torch.int64, device=self._device)
        torch._dynamo.mark_static_address(self._token)  # CUDA graphs may change it where it is
        self._given = list(buffer._order)
        self._new = [(name, field.shape, getattr(torch, field.dtype.name)) for name, field in buffer._outputs.items()]
        self._new_sequences = [*self._new, ("mask", (), torch.bool), ("is_first", (), torch.bool)]

    def add(self, values: list[Any], stream: Any) -> None:
        _refuse_stream(stream)
        _refuse_gradients(self._given, values)
        torch.ops.gpureplay.add_lanes(self._token, self._number, values)

    def reset(self, lanes: Any, stream: Any) -> None:
        _refuse_stream(stream)
        torch.ops.gpureplay.reset_lanes(self._token, self._number, lanes)

    def draw(self, count: int, ids: Any, ask: Ask, out: Mapping[str, Any] | None, stream: Any) -> dict[str, Any]:
        _refuse_stream(stream)
        if out is None:
            new, axis = (self._new, ()) if ask.length == 0 else (self._new_sequences, (ask.length,))
            out = {name: torch.empty((count, *axis, *shape), dtype=dtype, device=self._device)
                   for name, shape, dtype in new}
        _refuse_gradients([f'out["{name}"]' for name in out], out.values())
        _refuse_one_tensor(out)
        torch.ops.gpureplay.draw_lanes(self._token, self._number, count, ask.n_step, ask.gamma, ask.per_lane,
                                       ask.length, ask.min_length, ask.across_episodes, ids, list(out.values()),
                                       list(out))
        return out if isinstance(out, dict) else dict(out)

    def update(self, ids: Any, priorities: Any, stream: Any) -> None:
        _refuse_stream(stream)
        _refuse_gradients(("priorities",), (priorities,))
        torch.ops.gpureplay.update_lanes(self._token, self._number, ids, priorities)
