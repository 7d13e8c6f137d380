# SPDX-License-Identifier: MIT
"""Whether draws follow priorities, weights make up for it, and indices name the rows that they come with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from adapters.priorities import ALPHA, BETA, INDEX, WEIGHT, Prioritized
from workloads import tags_of

TOTAL, EACH = 65_536, 128  # draws in all, and at once
BINS, MOST_CHI_SQUARE = 16, 60.0  # of 15 degrees of freedom: one right contestant in three million is above 60
UNEVEN = 1.01  # most that weights may differ from the formula's, once scaled: some add a little to each priority


def _given(adapter: Prioritized) -> np.ndarray:
    """Gives every row a priority; (capacity,) float32, by slot."""
    priorities = np.random.default_rng(3).random(adapter.capacity, np.float32) + np.float32(0.05)
    for first in range(0, adapter.capacity, adapter.most):
        slots = np.arange(first, min(first + adapter.most, adapter.capacity))
        adapter.update(adapter.indices_as(adapter.places(slots)), adapter.priorities_as(priorities[slots]))
    adapter.finish()
    return priorities


def _wrong_batch(adapter: Prioritized, priorities: np.ndarray, slots: np.ndarray, read: dict[str, np.ndarray]) -> str:
    places = adapter.places(slots)
    if not np.array_equal(places, np.asarray(read[INDEX]).reshape(-1)):
        return f"index {np.asarray(read[INDEX]).reshape(-1)[:4]} came with the rows of {places[:4]}"
    scaled = np.asarray(read[WEIGHT], np.float64).reshape(-1) * priorities[slots].astype(np.float64)**(ALPHA * BETA)
    if not (scaled.min() > 0 and scaled.max() / scaled.min() < UNEVEN):
        return f"weights differ from (N P)^-{BETA} by a factor from {scaled.min():.4g} to {scaled.max():.4g}"
    return ""


def _chi_square(priorities: np.ndarray, drawn: np.ndarray) -> float:
    """Of as many bins of rows, by their priorities; (capacity,) counts."""
    mass = priorities.astype(np.float64)**ALPHA
    order = np.argsort(priorities, kind="stable")
    wanted = np.array([part.sum() for part in np.array_split(mass[order], BINS)]) / mass.sum() * drawn.sum()
    found = np.array([part.sum() for part in np.array_split(drawn[order], BINS)])
    return float(((found - wanted)**2 / wanted).sum())


class Found(NamedTuple):
    """`wrong`: a row, a weight or an index is. `skewed`: they are right, but do not come as often as they should."""

    wrong: str
    skewed: str


def verify(adapter: Prioritized) -> Found:
    """Of a full buffer from which rows were drawn; "" where all is well. Leaves it with random priorities."""
    priorities = _given(adapter)
    drawn = np.zeros(adapter.capacity, np.int64)
    for _ in range(TOTAL // EACH):
        read = adapter.read(adapter.sample(EACH))
        slots = tags_of(adapter.schema, read) % adapter.capacity
        wrong = _wrong_batch(adapter, priorities, slots, read)
        if wrong:
            return Found(wrong, "")
        np.add.at(drawn, slots, 1)
    chi_square = _chi_square(priorities, drawn)
    if chi_square <= MOST_CHI_SQUARE:
        return Found("", "")
    return Found("", f"draws do not follow priorities: chi-square {chi_square:.0f} with {BINS - 1} degrees of freedom")
