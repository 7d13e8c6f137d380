# SPDX-License-Identifier: MIT
"""The network and its loss in PyTorch, as functions of weights by name."""

from __future__ import annotations

import torch
from networks import World
from torch.nn import functional

Weights = dict[str, torch.Tensor]


def lowered(weights: Weights, dtype: torch.dtype) -> Weights:
    """Those that are used in this type: all but the heads'."""
    return {name: weight if ".out." in name else weight.to(dtype) for name, weight in weights.items()}


def _dense(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def _trunk(world: World, weights: Weights, obs: torch.Tensor) -> torch.Tensor:
    x = obs.to(weights["trunk.0.weight"].dtype)
    if not world.is_image:
        return functional.relu(_dense(weights, "trunk.0", x))
    x = x * (1 / 255)
    for layer in world.convolutions:
        weight, bias = weights[f"{layer.name}.weight"], weights[f"{layer.name}.bias"]
        x = functional.relu(functional.conv2d(x, weight, bias, layer.stride))
    return x.flatten(1)


def values(world: World, weights: Weights, obs: torch.Tensor) -> torch.Tensor:
    """Q of every action, (batch, actions) float32, with weights that were `lowered`. The heads compute in float32."""
    x = _trunk(world, weights, obs)
    value, advantage = (
        _dense(weights, f"{stream}.out", functional.relu(_dense(weights, f"{stream}.hidden", x)).float())
        for stream in ("value", "advantage"))
    return value + advantage - advantage.mean(1, keepdim=True)


def targets(world: World, double: bool, online: Weights, target: Weights, batch: Weights) -> torch.Tensor:
    """r + discount Q_target(s', a*), (batch), of weights that were `lowered`."""
    with torch.no_grad():
        following = values(world, target, batch["next_obs"])
        best = (values(world, online, batch["next_obs"]) if double else following).argmax(1, keepdim=True)
        return batch["reward"] + batch["discount"] * following.gather(1, best)[:, 0]


def errors(world: World, double: bool, dtype: torch.dtype, online: Weights, target: Weights,
           batch: Weights) -> torch.Tensor:
    """Q(s, a) - target, (batch) float32."""
    online = lowered(online, dtype)
    wanted = targets(world, double, online, lowered(target, dtype), batch)
    return values(world, online, batch["obs"]).gather(1, batch["action"])[:, 0] - wanted


def mean_huber(error: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """weight: (batch), None: 1 each."""
    loss = functional.huber_loss(error, torch.zeros_like(error), reduction="none")
    return (loss if weight is None else loss * weight).mean()
