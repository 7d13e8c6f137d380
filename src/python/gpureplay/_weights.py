# SPDX-License-Identifier: MIT
"""A network's tensors by name."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _inputs, _mirror
from ._library import InvalidArgument, check, lib
from ._schema import Field

if TYPE_CHECKING:
    from ._learner import DQN

_FLOAT32 = np.dtype(np.float32)
_Tensors = MutableMapping[str, np.ndarray]


class Weights(_Tensors):
    """Tensors by name ("trunk.0.weight", "advantage.out.bias", ...): each a copy, (units, inputs) or (units,) float32,
    as it is behind the last train step. Assign to write one."""

    def __init__(self, learner: DQN, which: int):
        self._learner, self._which = learner, which
        learner._open_handle()
        self._shapes: dict[str, tuple[int, ...]] = dict(learner._ask(_tensors))

    def _shape(self, name: str) -> tuple[int, ...]:
        if name not in self._shapes:
            raise KeyError(f"{name!r} is no tensor of the network; they are {', '.join(self._shapes)}")
        return self._shapes[name]

    def __getitem__(self, name: str) -> np.ndarray:
        out = np.empty(self._shape(name), _FLOAT32)
        self._learner._call(lib.gpur_learner_read_weights, self._which, name.encode(), out.ctypes.data, out.size)
        return out

    def __setitem__(self, name: str, value: Any) -> None:
        self._write(name, self._checked(name, value))

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"{name!r} belongs to the network; it can be read and written")

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def load(self, tensors: Mapping[str, Any]) -> None:
        """Writes all of these; none, if one of them does not fit."""
        checked = {name: self._checked(name, value) for name, value in tensors.items()}
        for name, array in checked.items():
            self._write(name, array)

    def _checked(self, name: str, value: Any) -> np.ndarray:
        shape = self._shape(name)
        field = Field(name, shape, _FLOAT32)
        array = _inputs.host(np.asarray(_inputs.located(field, value, None)), field)
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")
        bad = array.size - int(np.count_nonzero(np.isfinite(array)))
        if bad:
            raise ValueError(f"{bad} of the {array.size} numbers of {name} are NaN or infinite; they must be finite")
        return array

    def _write(self, name: str, array: np.ndarray) -> None:
        self._learner._call(lib.gpur_learner_write_weights, self._which, name.encode(), array.ctypes.data, array.size)

    def __repr__(self) -> str:
        return f"<gpureplay weights: {', '.join(f'{name} {shape}' for name, shape in self._shapes.items())}>"


def _tensors(handle: int) -> list[tuple[str, tuple[int, ...]]]:
    found = []
    for index in range(lib.gpur_learner_weight_count(handle)):
        info = _mirror.WeightInfo()
        check(lib.gpur_learner_weight(handle, index, ctypes.addressof(info)))
        found.append((info.name.decode(), tuple(info.shape[:info.dims])))
    return found
