#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch's own layers, derivatives and Adam make of the first train steps of Ape-X DPG's networks, on weights and
transitions that follow from a hash: writes tests/support/torch_dpg.h, which test_torch_dpg.c trains against. Run it
with PyTorch (any version, CPU) and NumPy; the test needs neither. It computes in float64.

usage: torch_dpg.py > torch_dpg.h
"""

import copy

import numpy as np
import torch
from torch import nn

STEPS, ROWS, FEATURES, ACTIONS, SAMPLES = 8, 64, 17, 6, 4
RATE, CLIP, PENALTY, TARGET_PERIOD = (*(float(np.float32(x)) for x in (1e-4, 0.05, 0.05)), 3)


def unit(count, sequence):
    """`count` numbers in [0, 1), number i of a sequence: a 32-bit hash, the same as in torch_unit.h."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(sequence * 40503 % 2**32)
    for shift, factor in ((16, 2246822519), (13, 3266489917)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return (x ^ (x >> np.uint32(16))).astype(np.float64) * 2.0**-32


def numbers(count, sequence):
    """-1 to 1, as float32 has them."""
    return torch.tensor((2 * unit(count, sequence) - 1).astype(np.float32)).double()


def network(sizes, sequence):
    """Section 4.2 and appendix D of Horgan et al. 2018: tanh after the first layer alone."""
    layers = [nn.Linear(a, b).double() for a, b in zip(sizes, sizes[1:])]
    with torch.no_grad():
        for index, layer in enumerate(layers):
            limit = 1 / layer.in_features**0.5
            for parameter, place in ((layer.weight, 2 * index), (layer.bias, 2 * index + 1)):
                values = (limit * (2 * unit(parameter.numel(), sequence + place) - 1)).astype(np.float32)
                parameter.copy_(torch.tensor(values).double().reshape(parameter.shape))
    return nn.Sequential(layers[0], nn.Tanh(), *layers[1:])


def gradients(name, out, net):
    """A line for each tensor's gradient."""
    layers = [layer for layer in net if isinstance(layer, nn.Linear)]
    for layer_name, layer in zip(("trunk.0", "trunk.1", out), layers):
        for part in ("weight", "bias"):
            g = getattr(layer, part).grad.flatten().numpy()
            values = ", ".join(f"{g[int(len(g) * k / SAMPLES)]:.9g}" for k in range(SAMPLES))
            yield f'    {{"{name}.{layer_name}.{part}", {np.sqrt((g * g).sum()):.9g}, {{{values}}}}},'


def norm_of(net):
    return torch.sqrt(sum((w.grad**2).sum() for w in net.parameters())).item()


def main():
    actor, critic = network((FEATURES, 300, 200, ACTIONS), 10), network((FEATURES + ACTIONS, 400, 300, 1), 20)
    targets = copy.deepcopy(actor), copy.deepcopy(critic)
    optimizers = [torch.optim.Adam(net.parameters(), lr=RATE) for net in (actor, critic)]
    obs, next_obs = numbers(ROWS * FEATURES, 1).reshape(ROWS, -1), numbers(ROWS * FEATURES, 2).reshape(ROWS, -1)
    action, reward = numbers(ROWS * ACTIONS, 3).reshape(ROWS, -1), numbers(ROWS, 4)
    discount = torch.tensor([0.0 if row % 5 == 0 else float(np.float32(0.97)) for row in range(ROWS)]).double()

    def q_of(net, obs, action):
        return net(torch.cat([obs, action], 1))[:, 0]

    lines = []
    for step in range(STEPS):
        with torch.no_grad():
            y = reward + discount * q_of(targets[1], next_obs, torch.tanh(targets[0](next_obs)))
        q = q_of(critic, obs, action)
        critic_loss = ((q - y)**2).mean() / 2
        optimizers[1].zero_grad()
        critic_loss.backward()
        critic_norm, mean_q = norm_of(critic), q.mean().item()
        critic_lines = list(gradients("critic", "q.out", critic))
        optimizers[1].step()
        z = actor(obs)
        mu = torch.tanh(z)
        actor_loss = -q_of(critic, obs, mu)
        slope = torch.autograd.grad(-actor_loss.sum(), mu, retain_graph=True)[0]
        clipped = (slope.abs() > CLIP).double().mean().item()
        assert 0.05 < clipped < 0.95, clipped
        optimizers[0].zero_grad()
        (-(slope.clamp(-CLIP, CLIP) * mu).sum(1).mean() + PENALTY * (z**2).sum(1).mean()).backward()
        row = critic_loss.item(), actor_loss.mean().item(), mean_q, critic_norm, norm_of(actor)
        lines.append("    {" + ", ".join(f"{value:.9g}" for value in row) + "},")
        actor_lines = list(gradients("actor", "action.out", actor))
        optimizers[0].step()
        if (step + 1) % TARGET_PERIOD == 0:
            targets = copy.deepcopy(actor), copy.deepcopy(critic)
    version = torch.__version__.split("+")[0]
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by torch_dpg.py with PyTorch {version}: gradients of the last train step (norm, and numbers 0, "
          "n / 4,\n * n / 2, 3 n / 4 of each tensor's n); of all steps the critic's and the actor's loss, the mean of "
          "Q, and\n * the norms of the critic's and the actor's gradient. */")
    print("#pragma once\n")
    print("typedef struct torch_gradient {\n    const char *name;\n    double norm, numbers[4];\n} torch_gradient;\n")
    print(f"enum {{\n    TORCH_STEPS = {STEPS},\n    TORCH_ROWS = {ROWS},\n    TORCH_FEATURES = {FEATURES},\n"
          f"    TORCH_ACTIONS = {ACTIONS},\n    TORCH_TARGET_PERIOD = {TARGET_PERIOD}\n}};")
    print(f"#define TORCH_CLIP {CLIP:.9g}f\n#define TORCH_PENALTY {PENALTY:.9g}f\n")
    print("static const torch_gradient torch_gradients[] = {", *actor_lines, *critic_lines, "};", sep="\n")
    print(f"static const double torch_steps[{STEPS}][5] = {{", *lines, "};", sep="\n")


main()
