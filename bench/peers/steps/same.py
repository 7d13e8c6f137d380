# SPDX-License-Identifier: MIT
"""Whether a contestant trains as ours does: the same losses on the same rows, step by step, past a target copy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from base import Steps
from networks import BLOCK, Case

BLOCKS = 2  # more, and float32's own roundings grow to what is told apart
# Of a loss, by arithmetic. On a CPU the presets' losses in BF16, of PyTorch and of JAX, came to within 3e-3 of those in
# FP32; without a copy to the target the second block's are 7e-2 and more away.
TOLERANCES = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 3e-2}


class Found(NamedTuple):
    """losses: (BLOCKS * BLOCK) of given rows; drawn: of who draws as ours does; priorities: of the rows that were given
    once, and in the last block only, where draws are by priority."""

    losses: np.ndarray
    drawn: np.ndarray
    priorities: np.ndarray


def ids_of(case: Case) -> np.ndarray:
    """(BLOCKS, BLOCK, batch) rows by chance."""
    return np.random.default_rng(4).integers(0, case.rows, (BLOCKS, BLOCK, case.batch))


def _once(ids: np.ndarray) -> np.ndarray:
    """Whose priority is that of one certain step, whatever is done with a row that a batch has twice."""
    found, counts = np.unique(ids, return_counts=True)
    return np.intersect1d(found[counts == 1], ids[-1])


def found_of(contestant: Steps) -> Found:
    ids = ids_of(contestant.case)
    losses = np.concatenate([contestant.train_on(block) for block in ids])
    priorities = contestant.priorities(_once(ids)) if contestant.case.draws == "prioritized" else np.zeros(0)
    return Found(losses, np.array(contestant.drawn_losses()), np.asarray(priorities))


def _apart(what: str, given: np.ndarray, wanted: np.ndarray, most: float, least: float = 0.0) -> str:
    """The first that is further from what is wanted than `most` of it, and than `least`, which is for differences of
    numbers that are rounded themselves; "" when none is."""
    near = np.abs(given - wanted) <= np.maximum(most * np.abs(wanted), least)  # NaN is near nothing
    if near.all():
        return ""
    at = np.flatnonzero(~near)[0]
    return (f"its {what} {at + 1} is {given[at]:.7g}; that of ours is {wanted[at]:.7g}, and they may be {most:g} of it "
            "apart")


def fault(found: Found, wanted: Found, math: str) -> str:
    """"" when they are the same, and tell anything: ones that do not fall or rise would be the same for anybody."""
    if len(set(wanted.losses.tolist())) < len(wanted.losses) // 2:
        return "the losses of ours hardly differ from each other, which tells nothing"
    if found.priorities.shape != wanted.priorities.shape:
        return f"it has {len(found.priorities)} priorities; ours has {len(wanted.priorities)}"
    most = TOLERANCES[math]
    near_zero = most * float(np.abs(wanted.priorities).mean()) if len(wanted.priorities) else 0.0
    return (_apart("loss of step", found.losses, wanted.losses, most)
            or (_apart("mean loss of drawn block", found.drawn, wanted.drawn, most) if len(found.drawn) else "")
            or _apart("priority", found.priorities, wanted.priorities, most, near_zero))
