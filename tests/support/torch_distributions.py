#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch's own layers, losses and Adam make of the first train steps of QR-DQN and C51, on weights and
transitions that follow from a hash: writes tests/support/torch_distributions.h, which test_torch_distributions.c
trains against. Run it with PyTorch (any version, CPU) and NumPy; the test needs neither. It computes in float64.

usage: torch_distributions.py > torch_distributions.h
"""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional

STEPS, ROWS, FEATURES, ACTIONS, UNITS, SAMPLES, PERIOD = 12, 64, 7, 4, 32, 4, 3
ATOMS, KAPPA, V_MIN, V_MAX, MIN_GAP = 25, 0.5, -1.5, 1.0, 1e-5
RATE = float(np.float32(1e-3))


def unit(count, sequence):
    """`count` numbers in [0, 1), number i of a sequence: a 32-bit hash, the same as in torch_unit.h."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(sequence * 40503 % 2**32)
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return (x ^ (x >> np.uint32(16))).astype(np.float64) * 2.0**-32


def numbers(count, sequence, limit=1.0):
    """-limit to limit, as float32 has them."""
    return torch.tensor((limit * (2 * unit(count, sequence) - 1)).astype(np.float32)).double()


def network():
    net = nn.Sequential(nn.Linear(FEATURES, UNITS), nn.ReLU(), nn.Linear(UNITS, ACTIONS * ATOMS)).double()
    with torch.no_grad():
        for index, parameter in enumerate(net.parameters()):
            limit = (FEATURES if index < 2 else UNITS)**-0.5
            parameter.copy_(numbers(parameter.numel(), 10 + index, limit).reshape(parameter.shape))
    return net


def quantile_loss(x, target):
    """x, target: (rows, atoms). The sum over x of the mean over the target."""
    tau = (torch.arange(ATOMS).double() + 0.5) / ATOMS
    u = target[:, None, :] - x[:, :, None]
    huber = functional.huber_loss(x[:, :, None].expand_as(u), target[:, None, :].expand_as(u), reduction="none",
                                  delta=KAPPA) / KAPPA
    return ((tau[:, None] - (u < 0).double()).abs() * huber).mean(2).sum(1).mean()


def projected(p, returns):
    """The probabilities p (rows, atoms) of the returns, on the support."""
    place = (returns.clamp(V_MIN, V_MAX) - V_MIN) / ((V_MAX - V_MIN) / (ATOMS - 1))
    below = place.floor().clamp(0, ATOMS - 2)
    m = torch.zeros_like(p)
    m.scatter_add_(1, below.long(), p * (below + 1 - place))
    return m.scatter_add_(1, below.long() + 1, p * (place - below))


def lines_of(net):
    """A line for each tensor's gradient."""
    names = ("trunk.0.weight", "trunk.0.bias", "out.weight", "out.bias")
    for name, parameter in zip(names, net.parameters()):
        g = parameter.grad.flatten().numpy()
        values = ", ".join(f"{g[int(len(g) * k / SAMPLES)]:.9g}" for k in range(SAMPLES))
        yield f'    {{"{name}", {np.sqrt((g * g).sum()):.9g}, {{{values}}}}},'


def train(is_categorical, is_double):
    """The lines of the last step's gradients, and of all steps' losses, means of Q and gradient norms."""
    net = network()
    target, optimizer = copy.deepcopy(net), torch.optim.Adam(net.parameters(), lr=RATE)
    obs, next_obs = numbers(ROWS * FEATURES, 1).reshape(ROWS, -1), numbers(ROWS * FEATURES, 2).reshape(ROWS, -1)
    action, reward = torch.tensor((unit(ROWS, 3) * ACTIONS).astype(np.int64)), numbers(ROWS, 4)
    discount = torch.tensor([0.0 if row % 5 == 0 else float(np.float32(0.97)) for row in range(ROWS)]).double()
    support, rows = torch.linspace(V_MIN, V_MAX, ATOMS).double(), torch.arange(ROWS)

    def distributions(of, observations):
        x = of(observations).reshape(ROWS, ACTIONS, ATOMS)
        return x, (x.softmax(2) * support).sum(2) if is_categorical else x.mean(2)

    lines = []
    for step in range(STEPS):
        with torch.no_grad():
            x_next, q_next = distributions(target, next_obs)
            chooser = distributions(net, next_obs)[1] if is_double else q_next
            best, second = chooser.topk(2, 1).values.T
            assert (best - second).min() > MIN_GAP, (best - second).min()  # no rounding decides
            x_best = x_next[rows, chooser.argmax(1)]
        x, q = distributions(net, obs)
        x, q = x[rows, action], q[rows, action]
        if is_categorical:
            returns = reward[:, None] + discount[:, None] * support
            loss = functional.cross_entropy(x, projected(x_best.softmax(1), returns))
        else:
            loss = quantile_loss(x, reward[:, None] + discount[:, None] * x_best)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((w.grad**2).sum() for w in net.parameters())).item()
        lines.append(f"    {{{loss.item():.9g}, {q.mean().item():.9g}, {norm:.9g}}},")
        tensors = list(lines_of(net))
        optimizer.step()
        if (step + 1) % PERIOD == 0:
            target = copy.deepcopy(net)
    return tensors, lines


def main():
    version = torch.__version__.split("+")[0]
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by torch_distributions.py with PyTorch {version}: tensors with their gradients in the last train "
          "step\n * (norm, and numbers 0, n / 4, n / 2, 3 n / 4 of n); of all steps the loss, the mean of Q and the "
          "gradient's norm. */")
    print("#pragma once\n")
    print("typedef struct torch_tensor {\n    const char *name;\n    double norm, numbers[4];\n} torch_tensor;\n")
    print(f"enum {{\n    TORCH_STEPS = {STEPS},\n    TORCH_ROWS = {ROWS},\n    TORCH_FEATURES = {FEATURES},\n"
          f"    TORCH_ACTIONS = {ACTIONS},\n    TORCH_UNITS = {UNITS},\n    TORCH_ATOMS = {ATOMS},\n"
          f"    TORCH_PERIOD = {PERIOD}\n}};")
    print(f"#define TORCH_KAPPA {KAPPA}f\n#define TORCH_V_MIN {V_MIN}f\n#define TORCH_V_MAX {V_MAX}f\n")
    for name, is_categorical in (("torch_quantiles", False), ("torch_atoms", True)):
        for suffix, is_double in (("", False), ("_double", True)):
            tensors, steps = train(is_categorical, is_double)
            print(f"static const torch_tensor {name}{suffix}[] = {{", *tensors, "};", sep="\n")
            print(f"static const double {name}{suffix}_steps[{STEPS}][3] = {{", *steps, "};", sep="\n")


main()
