# SPDX-License-Identifier: MIT
"""Whether a contestant trains as ours does: the same losses on the same rows, step by step, past a target copy."""

from __future__ import annotations

import numpy as np
from base import Steps
from networks import BLOCK, Case

BLOCKS = 2  # more, and float32's own roundings grow to what is told apart
TOLERANCES = {"fp32": 1e-3, "tf32": 2e-2}  # of a loss, by arithmetic


def ids_of(case: Case) -> np.ndarray:
    """(BLOCKS, BLOCK, batch) rows by chance."""
    return np.random.default_rng(4).integers(0, case.rows, (BLOCKS, BLOCK, case.batch))


def losses_of(contestant: Steps) -> np.ndarray:
    return np.concatenate([contestant.train_on(ids) for ids in ids_of(contestant.case)])


def fault(losses: np.ndarray, wanted: np.ndarray, math: str) -> str:
    """"" when they are the same, and tell anything: ones that do not fall or rise would be the same for anybody."""
    if len(set(wanted.tolist())) < len(wanted) // 2:
        return "the losses of ours hardly differ from each other, which tells nothing"
    apart = np.abs(losses - wanted) / np.abs(wanted)
    far = np.flatnonzero(~(apart <= TOLERANCES[math]))  # NaN is far from anything
    if not far.size:
        return ""
    return (f"its loss of step {far[0] + 1} is {losses[far[0]]:.7g}; that of ours is {wanted[far[0]]:.7g}, and they "
            f"may be {TOLERANCES[math]:g} of it apart")
