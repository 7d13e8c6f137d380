# SPDX-License-Identifier: MIT
"""Actions of data sets, which are -1 to 1 in the buffers of a learner of action vectors: -1 and 1 stand for bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ._episodes import Episodes, Leaves, is_leaf_of
from ._spaces import has_floats
from ._tables import Table

_BEYOND = 1e-6  # of the range, which rounding may have added


class ActionBounds(NamedTuple):
    """Of each number of an action, or of all, in float64."""

    low: np.ndarray
    high: np.ndarray

    def stored(self, actions: np.ndarray) -> np.ndarray:
        """What the buffer has for those of the data set. ValueError: one is beyond the bounds."""
        self.refuse_shape(actions.shape[1:])
        if actions.dtype.kind != "f":
            raise TypeError(f"actions are {actions.dtype} and action_bounds is given; only floats are scaled")
        found = (actions - self.low) / (self.high - self.low) * 2 - 1
        is_beyond = np.abs(found) > 1 + 2 * _BEYOND  # the buffer refuses NaN
        if is_beyond.any():
            raise ValueError(f"an action has {actions[is_beyond][0]:g}; it must be within action_bounds, "
                             f"{self.low.tolist()} to {self.high.tolist()}")
        return np.asarray(np.clip(found, -1, 1), np.float32)

    def given(self, actions: np.ndarray) -> np.ndarray:
        """The reverse."""
        self.refuse_shape(actions.shape[1:])
        return np.asarray(self.low + (actions.astype(np.float64) + 1) / 2 * (self.high - self.low), np.float32)

    def refuse_shape(self, shape: tuple[int, ...]) -> None:
        """ValueError: actions of this shape would become others."""
        given = np.broadcast_shapes(self.low.shape, self.high.shape)
        if len(given) > len(shape) or any(n not in (1, m) for n, m in zip(given[::-1], shape[::-1])):
            raise ValueError(f"action_bounds has shape {given} and an action {shape}; it must be two numbers, or two "
                             "arrays of the shape of an action")

    def store(self, episodes: Episodes) -> Episodes:
        return episodes._replace(each=(one._replace(action={"": self.stored(_only(one.action))})
                                       for one in episodes.each))

    def give(self, episodes: Episodes) -> Episodes:
        return episodes._replace(each=(one._replace(action={"": self.given(_only(one.action))})
                                       for one in episodes.each))

    def store_column(self, table: Table) -> Table:
        return table._replace(columns={**table.columns, "action": _Column(_only(_actions_of(table.columns)), self)})

    def give_column(self, rows: Leaves) -> Leaves:
        return {**rows, "action": self.given(_only(_actions_of(rows)))}

    def space(self, like: Any) -> Any:
        """A Box of -1 to 1 for the actions of a Box."""
        return type(like)(-1, 1, like.shape, np.float32)


class _Column:
    """A column of a data set whose parts are scaled as they are read."""

    def __init__(self, column: Any, bounds: ActionBounds):
        self._column, self._bounds = column, bounds

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._bounds.stored(np.asarray(self._column[rows]))


def _actions_of(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name[len("action"):]: column for name, column in columns.items() if is_leaf_of(name, "action")}


def _only(actions: dict[str, Any]) -> Any:
    if not actions:
        raise ValueError("there is no action, and action_bounds is given; it must be None")
    if list(actions) != [""]:
        raise ValueError(f"actions have the parts {', '.join(actions)} and action_bounds is given; they must be one "
                         "array")
    return actions[""]


def bounds_of(given: Any, space: Any) -> ActionBounds | None:
    """given: None, (low, high), or True: those of the space. ValueError: they are none."""
    if given is None:
        return None
    if given is True:
        if space is None or not has_floats(space):
            raise ValueError(f"action_bounds is True and the action space is {space}; it must be a Box of floats, or "
                             "action_bounds (low, high)")
        given = space.low, space.high
    try:
        low, high = (np.asarray(bound, np.float64) for bound in given)
        low, high = (bound.reshape(()) if bound.size == 1 else bound for bound in (low, high))
        np.broadcast_shapes(low.shape, high.shape)
    except (TypeError, ValueError):
        raise TypeError(f"action_bounds is {given!r}; it must be (low, high), True or None") from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(f"action_bounds is {low.tolist()} to {high.tolist()}; the bounds must be finite, and low "
                         "below high")
    return ActionBounds(low, high)
