# SPDX-License-Identifier: MIT
"""Medians and their intervals, and ratios of neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Summary(NamedTuple):
    """low to high holds the median of what was sampled, with a chance of at least 95% (from 6 samples on)."""

    median: float
    low: float
    high: float
    min: float
    max: float
    runs: int


def median(values: Sequence[float]) -> float:
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])


def rank(runs: int) -> int:
    """j, where the j-th least to the j-th greatest of so many samples is the median's 95% interval: the binomial of
    (runs, 1/2) has at most 2.5% below j. Needs no distribution of the samples. 1 where there are fewer than 6."""
    j, below = 0, 0.5**runs
    while below <= 0.025:
        j += 1
        below += math.comb(runs, j) * 0.5**runs
    return max(j, 1)


def summarise(values: Sequence[float]) -> Summary:
    """Of one value or more."""
    ordered, j = sorted(values), rank(len(values))
    return Summary(median(ordered), ordered[j - 1], ordered[-j], ordered[0], ordered[-1], len(ordered))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round, so that a machine that slows down slows both. Below 1: ours is faster."""
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} rounds of ours and {len(theirs)} of theirs; they must be as many")
    return [mine / other for mine, other in zip(ours, theirs)]
