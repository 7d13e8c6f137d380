# SPDX-License-Identifier: MIT
"""Action masks: which actions an observation allows, from where environments say it, and as the library's bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._library import InvalidArgument
from ._schema import Field
from ._spaces import MASK_KEY, is_a

NAME = "next_action_mask"  # the field of transitions


def bits_of(name: str, mask: Any, actions: int) -> np.ndarray:
    """A mask (..., actions) of bools, or of numbers 0 and 1, as (..., ceil(actions / 8)) uint8. TypeError, ValueError:
    it is none."""
    array = np.asarray(mask)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} is of {array.dtype}; it must be bools, or numbers 0 and 1")
    if array.ndim == 0 or array.shape[-1] != actions:
        raise ValueError(f"{name} has shape {array.shape}; its last axis must be {actions} long, one for each action")
    if array.dtype.kind != "b" and not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name} has numbers other than 0 and 1; 1 allows an action")
    return np.packbits(array.astype(np.bool_), axis=-1, bitorder="little")


def bits_of_rows(mask: Any, count: int, actions: int) -> np.ndarray:
    """The same of `count` observations, or of one without the first axis."""
    bits = np.ascontiguousarray(np.atleast_2d(bits_of("mask", mask, actions)))
    if bits.ndim != 2 or len(bits) != count:
        raise ValueError(f"mask is for observations of shape {bits.shape[:-1]}; it must be for {count}")
    return bits


def _of_info(info: Any) -> Any:
    """The mask in Gymnasium's dict, or in a list of a dict for each environment. None: there is none."""
    if isinstance(info, Mapping):
        return info.get(MASK_KEY)
    if isinstance(info, (list, tuple)) and info and all(isinstance(one, Mapping) and MASK_KEY in one for one in info):
        return np.stack([one[MASK_KEY] for one in info])
    return None


class Masks:
    """The masks of a buffer with action_mask=True. `space`: of its observations, without the mask."""

    def __init__(self, observation: Any, action: Any):
        if not is_a(action, "Discrete") or int(getattr(action, "start", 0)) != 0:
            raise InvalidArgument(f"action_mask is True and the action space is {action!r}; it must be a Discrete that "
                                  "starts at 0, beside an observation space")
        self.actions = int(action.n)
        self.field = Field(NAME, ((self.actions + 7) // 8,), np.dtype(np.uint8))
        parts = dict(observation.spaces) if is_a(observation, "Dict") else {}
        self._in_obs = parts.pop(MASK_KEY, None) is not None
        self._only = next(iter(parts)) if len(parts) == 1 else None  # the one part beside the mask
        self.space = observation
        if self._in_obs:
            self.space = parts[self._only] if self._only is not None else type(observation)(parts)

    def split(self, obs: Any) -> tuple[Any, Any]:
        """What the network reads of observations as the environment gives them, and their mask or None."""
        if not self._in_obs or not isinstance(obs, Mapping) or MASK_KEY not in obs:
            return obs, None
        rest = {key: part for key, part in obs.items() if key != MASK_KEY}
        return rest if self._only is None else rest[self._only], obs[MASK_KEY]

    def of_step(self, values: dict[str, Any], info: Any) -> dict[str, Any]:
        """The values of a step, with the bits of the mask. ValueError: there is none."""
        values, found = dict(values), None
        for name in ("obs", "next_obs"):
            if name in values:
                values[name], found = self.split(values[name])
        given = values.get(NAME, found)
        given = _of_info(info) if given is None else given
        if given is None:
            raise ValueError(f"there is no mask of next_obs: it must be in info[\"{MASK_KEY}\"], in "
                             f"next_obs[\"{MASK_KEY}\"], or given as {NAME}")
        values[NAME] = given if self._are_bits(given) else bits_of(NAME, given, self.actions)
        return values

    def _are_bits(self, given: Any) -> bool:
        """Whether these are bits already, as batches have them. With one action both are the same."""
        return bool(getattr(given, "dtype", None) == np.uint8 and given.shape[-1:] == self.field.shape)

    def of_block(self, values: dict[str, Any]) -> dict[str, Any]:
        """The same of finished transitions."""
        return self.of_step(values, None)

    def of_act(self, obs: Any, mask: Any) -> tuple[Any, Any]:
        """Observations as the network reads them, and their mask. ValueError: there is none."""
        obs, found = self.split(obs)
        if mask is None and found is None:
            raise ValueError("mask is None and the buffer has action_mask=True; it must be which actions each "
                             "observation allows, (count, num_actions)")
        return obs, found if mask is None else mask
