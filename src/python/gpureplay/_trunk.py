# SPDX-License-Identifier: MIT
"""The layers of a network's trunk, as Python has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _mirror
from ._choices import choice
from ._numbers import put

ACTIVATIONS = {"linear": _mirror.LINEAR, "relu": _mirror.RELU, "tanh": _mirror.TANH}

_KINDS = {"dense": _mirror.DENSE, "conv": _mirror.CONV}
# What a layer of each kind may name, in the order of a tuple, and what it is where it is not said. None: say it.
_MEMBERS: dict[str, dict[str, Any]] = {
    "dense": {"dense": None, "activation": "relu"},
    "conv": {"conv": None, "kernel": None, "stride": 1, "padding": 0, "activation": "relu"},
}
_TRUNK = ('a list of units or (units, activation), and before them ("conv", filters, kernel[, stride[, padding]][, '
          'activation]), or a dict of such names')


def _refuse(layer: Any) -> TypeError:
    return TypeError(f"trunk has {layer!r}; it must be {_TRUNK}")


def _of_tuple(layer: Any, parts: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    kind = "dense"
    if isinstance(parts[0], str) and parts[0] in _KINDS and len(parts) > 1:
        kind, parts = parts[0], parts[1:]
    has_activation = len(parts) > 1 and isinstance(parts[-1], str)
    numbers, names = parts[:-1] if has_activation else parts, list(_MEMBERS[kind])[:-1]
    if len(numbers) > len(names):
        raise _refuse(layer)
    return kind, {**dict(zip(names, numbers)), **({"activation": parts[-1]} if has_activation else {})}


def _of_dict(layer: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    kinds = [kind for kind in _KINDS if kind in layer]
    if len(kinds) != 1 or set(layer) - set(_MEMBERS[kinds[0]]):
        raise _refuse(layer)
    return kinds[0], dict(layer)


def _set_layer(at: _mirror.Layer, layer: Any) -> None:
    if isinstance(layer, Mapping):
        kind, named = _of_dict(layer)
    else:
        kind, named = _of_tuple(layer, tuple(layer) or (None,) if isinstance(layer, (tuple, list)) else (layer,))
    values = {**_MEMBERS[kind], **named}
    if None in values.values():
        raise _refuse(layer)
    at.kind = _KINDS[kind]
    put(at, "units", values[kind])
    for member in ("kernel", "stride", "padding"):
        put(at, member, values.get(member, 0))
    at.activation = choice("activation in trunk", values["activation"], ACTIVATIONS)


def trunk_of(network: _mirror.NetworkConfig) -> list[Any]:
    """The layers as `set_trunk` takes them: (units, activation), and ("conv", filters, kernel, stride, padding,
    activation)."""
    words = {code: word for word, code in ACTIVATIONS.items()}
    layers = network.trunk[:network.trunk_count]
    return [(layer.units, words[layer.activation]) if layer.kind == _mirror.DENSE else
            ("conv", layer.units, layer.kernel, layer.stride, layer.padding, words[layer.activation])
            for layer in layers]


def set_trunk(network: _mirror.NetworkConfig, layers: Sequence[Any]) -> None:
    """Units, (units, activation), ("conv", filters, kernel[, stride[, padding]][, activation]), or a dict, each. The
    activation is relu where none is said."""
    if not isinstance(layers, (tuple, list)):
        raise TypeError(f"trunk is {layers!r}; it must be {_TRUNK}")
    if len(layers) > _mirror.MAX_LAYERS:
        raise ValueError(f"trunk has {len(layers)} layers; it may have {_mirror.MAX_LAYERS}")
    for at, layer in zip(network.trunk, layers):
        _set_layer(at, layer)
    network.trunk_count = len(layers)
