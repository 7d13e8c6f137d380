# SPDX-License-Identifier: MIT
"""What `add` and `extend` were given, as one array for each field of the schema, in its order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from . import _inputs
from ._dlpack import DeviceArray
from ._schema import Field

if TYPE_CHECKING:
    from ._device import Device

Arrays = list[Any]  # of np.ndarray or DeviceArray


class Columns:
    """Knows the schema, how many environments there are, and whether device arrays may come."""

    def __init__(self, fields: list[Field], num_envs: int, device: Device | None):
        self._fields, self._num_envs, self._device = fields, num_envs, device
        self._names = {field.name for field in fields}
        self._bools = [at for at, field in enumerate(fields) if field.dtype.kind == "b"]
        self._steps = [(field, field.name, field.dtype, (num_envs, *field.shape)) for field in fields]

    def of_step(self, values: dict[str, Any]) -> Arrays:
        """One step of every environment: (num_envs, ...) each. What is that already is taken without a second look."""
        values, found = self._in_order(values), []
        for field, name, dtype, shape in self._steps:
            value = values[name]
            if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape \
                    or not value.flags.c_contiguous:
                value = self._step(field, value, shape)
            found.append(value)
        for at in self._bools:
            found[at] = _inputs.bools(found[at])
        return found

    def of_block(self, values: dict[str, Any], stream: int | None) -> Arrays:
        """Finished transitions: (count, ...) each, all in one memory."""
        values, found = self._in_order(values), []
        for field, name, dtype, _ in self._steps:
            value = values[name]
            if type(value) is not np.ndarray or value.dtype is not dtype or value.ndim == 0 \
                    or value.shape[1:] != field.shape or not value.flags.c_contiguous:
                value = self._block(field, value, stream)
            found.append(value)
        kind, count = type(found[0]), found[0].shape[0]
        for field, array in zip(self._fields, found):
            if type(array) is not kind or array.shape[0] != count:
                self._refuse_beside(field, array, found[0])
        if kind is np.ndarray:
            for at in self._bools:
                found[at] = _inputs.bools(found[at])
        return found

    def _in_order(self, values: dict[str, Any]) -> dict[str, Any]:
        return values if values.keys() == self._names else self._flatten(values)

    def _flatten(self, values: dict[str, Any]) -> dict[str, Any]:
        """Dicts and tuples of a space become their leaves, and a missing `truncated` zeros."""
        flat: dict[str, Any] = {}
        for name, value in values.items():
            self._spread(flat, name, value)
        if "truncated" in self._names and "truncated" not in flat and "terminated" in flat:
            flat["truncated"] = np.zeros(np.shape(flat["terminated"]), np.bool_)
        missing, unknown = self._names - flat.keys(), flat.keys() - self._names
        if missing or unknown:
            raise TypeError(f"missing {sorted(missing)}, unknown {sorted(unknown)}; the fields are "
                            f"{', '.join(field.name for field in self._fields)}")
        return flat

    def _spread(self, flat: dict[str, Any], name: str, value: Any) -> None:
        if name not in self._names and isinstance(value, (Mapping, tuple)):
            for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
                self._spread(flat, f"{name}.{key}", part)
        else:
            flat[name] = value

    def _step(self, field: Field, value: Any, wanted: tuple[int, ...]) -> np.ndarray:
        array = _inputs.located(field, value, self._device)
        if isinstance(array, DeviceArray):
            raise TypeError(f"{field.name} is in the memory of a CUDA device; `add` takes host arrays, `extend` both")
        array = _inputs.host(array, field)
        if array.shape == wanted:
            return array
        if self._num_envs == 1 and array.shape == field.shape:
            return array[np.newaxis]
        raise ValueError(f"{field.name} has shape {array.shape}; it must be {wanted}"
                         + (f" or {field.shape}" if self._num_envs == 1 else ""))

    def _block(self, field: Field, value: Any, stream: int | None) -> np.ndarray | DeviceArray:
        array = _inputs.located(field, value, self._device, stream)
        if isinstance(array, DeviceArray):
            _inputs.check_device(array, field)
        else:
            array = _inputs.host(array, field)
        if len(array.shape) == 0 or array.shape[1:] != field.shape:
            raise ValueError(f"{field.name} has shape {array.shape}; it must be {_inputs.with_count(field.shape)}")
        return array

    def _refuse_beside(self, field: Field, array: Any, first: Any) -> NoReturn:
        """Two columns that do not go together."""
        other, places = self._fields[0].name, {np.ndarray: "host", DeviceArray: "device"}
        if type(array) is not type(first):
            raise TypeError(f"{field.name} is in {places[type(array)]} memory and {other} in {places[type(first)]} "
                            "memory; they must be all in one")
        raise ValueError(f"{field.name} has {array.shape[0]} transitions and {other} {first.shape[0]}; they must be as "
                         f"many")
