#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What torch.distributions makes of a normal distribution that TanhTransform squashes, as the actor of SAC has it: the
log-probability of drawn actions, and its gradient and that of the loss alpha log pi - slope a by mean and log sigma,
which clamp limits. Writes tests/support/torch_gaussian.h, which test_squashed_gaussian.c compares. Run it with PyTorch
(any version, CPU) and NumPy; the test needs neither. It computes in float64.

usage: torch_gaussian.py > torch_gaussian.h
"""

import numpy as np
import torch
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

ROWS, ACTIONS, ALPHA = 48, 3, 0.25


def unit(count, sequence):
    """`count` numbers in [0, 1), number i of a sequence: a 32-bit hash, the same as in torch_unit.h."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(sequence * 40503 % 2**32)
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return (x ^ (x >> np.uint32(16))).astype(np.float64) * 2.0**-32


def numbers(sequence, scale):
    """-scale to scale, as float32 has them."""
    values = (2 * unit(ROWS * ACTIONS, sequence) - 1).astype(np.float32) * np.float32(scale)
    return torch.tensor(values).double().reshape(ROWS, ACTIONS)


def main():
    mean, slope, noise = numbers(1, 4).requires_grad_(), numbers(3, 2), numbers(4, 3)
    raw = numbers(2, 3).requires_grad_()  # some above the limit of 2
    policy = Independent(TransformedDistribution(Normal(mean, raw.clamp(-20, 2).exp()),
                                                 [TanhTransform(cache_size=1)]), 1)
    base = policy.base_dist.base_dist
    action = policy.base_dist.transforms[0](base.loc + base.scale * noise)  # its cache has the inverse
    log_prob = policy.log_prob(action)
    loss = (ALPHA * log_prob - (slope * action).sum(1)).mean()
    loss.backward()
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by torch_gaussian.py with PyTorch {torch.__version__.split('+')[0]}. */")
    print("#pragma once\n")
    print(f"enum {{ TORCH_ROWS = {ROWS}, TORCH_ACTIONS = {ACTIONS} }};\n#define TORCH_ALPHA {ALPHA}f\n")
    lines = [", ".join(f"{x:.9g}" for x in (*log_prob[i:i + 1].tolist(), *mean.grad[i].tolist(), *raw.grad[i].tolist()))
             for i in range(ROWS)]
    print("/* Of each row: log pi, the gradients by the means, and those by the log sigmas. */")
    print("static const double torch_rows[TORCH_ROWS][1 + 2 * TORCH_ACTIONS] = {")
    print(*(f"    {{{line}}}," for line in lines), "};", sep="\n")


main()
