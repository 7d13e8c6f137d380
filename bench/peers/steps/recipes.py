# SPDX-License-Identifier: MIT
"""How weights change: the optimiser of each network's preset, and Adam on all, which PyTorch has in one kernel."""

from __future__ import annotations

from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """kind: "adam", "rmsprop_tf" or "rmsprop_deepmind", whose formulas include/gpureplay/optimizer.h has. `first` is
    what the mean of squares begins with."""

    kind: str
    rate: float
    epsilon: float
    double: bool
    decay: float = 0.0
    momentum: float = 0.0
    clip_norm: float = 0.0  # 0: gradients stay as they are
    first: float = 0.0


BETAS = 0.9, 0.999
ADAM = Recipe("adam", 6.25e-5, 1.5e-4, double=True)  # as Hessel et al. 2018 have it, table 1
PRESETS = {  # as src/learn/config.c has them
    "melee-gpu": Recipe("rmsprop_tf", 2.5e-4, 0.01, double=False, decay=0.95, momentum=0.95, first=1.0),
    "nature-dueling": Recipe("rmsprop_deepmind", 2.5e-4, 0.01, double=True, decay=0.95, clip_norm=10.0),
}
OPTIMIZERS = ("preset", "adam")


def recipe_of(preset: str, optimizer: str) -> Recipe:
    return ADAM if optimizer == "adam" else PRESETS[preset]


def settings_of(preset: str, optimizer: str) -> dict[str, Any]:
    """What our learner is told beside the preset's name."""
    if optimizer == "preset":
        return {}
    recipe = recipe_of(preset, optimizer)
    return {"optimizer": recipe.kind, "learning_rate": recipe.rate, "epsilon": recipe.epsilon, "beta1": BETAS[0],
            "beta2": BETAS[1], "clip_norm": recipe.clip_norm, "double_dqn": recipe.double}
