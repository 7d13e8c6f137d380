#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch makes of the first train steps of TD3 [algorithm 1 of Fujimoto et al. 2018, with the networks and
constants of its section 6.1], on the weights and transitions of torch_dpg.py: writes tests/support/torch_td3.h, which
test_torch_dpg.c trains against. Without the target's noise, which in the library follows from the place of a row in its
batch.

usage: torch_td3.py > torch_td3.h
"""

import copy

import numpy as np
import torch
from torch import nn
from torch_dpg import ACTIONS, FEATURES, SAMPLES, STEPS, Network, batch, norm_of, q_of, step_line

RATE, TARGET_RATE, DELAY = (*(float(np.float32(x)) for x in (1e-3, 0.005)), 2)


def samples(x):
    x = x.detach().flatten().numpy()
    return ", ".join(f"{x[int(len(x) * k / SAMPLES)]:.9g}" for k in range(SAMPLES))


def main():
    relus = nn.ReLU(), nn.ReLU()
    networks = [Network("actor", "action.out", (FEATURES, 400, 300, ACTIONS), 10, relus),
                *(Network(f"critic.{i}", "q.out", (FEATURES + ACTIONS, 400, 300, 1), 10 + 10 * i, relus)
                  for i in (1, 2))]
    nets = actor, *critics = [network.net for network in networks]
    targets = copy.deepcopy(networks)
    of_actor = torch.optim.Adam(actor.parameters(), lr=RATE)
    of_critics = torch.optim.Adam([w for critic in critics for w in critic.parameters()], lr=RATE)
    obs, next_obs, action, reward, discount = batch()
    actor_numbers, steps = (0.0, 0.0), []
    for step in range(1, STEPS + 1):
        with torch.no_grad():
            next_action = torch.tanh(targets[0].net(next_obs))
            y = reward + discount * torch.minimum(*(q_of(target.net, next_obs, next_action) for target in targets[1:]))
        values = [q_of(critic, obs, action) for critic in critics]
        critic_loss = sum(((q - y)**2).mean() / 2 for q in values)
        of_critics.zero_grad()
        critic_loss.backward()
        critic_norm, mean_q = norm_of(*critics), sum(q.mean().item() for q in values) / 2
        lines = [line for network in networks[1:] for line in network.lines()]
        of_critics.step()
        if step % DELAY == 0:
            loss = -q_of(critics[0], obs, torch.tanh(actor(obs))).mean()
            of_actor.zero_grad()
            loss.backward()
            actor_numbers = loss.item(), norm_of(actor)
            lines = [*networks[0].lines(), *lines]
            of_actor.step()
            with torch.no_grad():
                for net, target in zip(nets, targets):
                    for new, old in zip(net.parameters(), target.net.parameters()):
                        old.copy_(torch.lerp(old, new, TARGET_RATE))
        steps.append(step_line(critic_loss.item(), actor_numbers[0], mean_q, critic_norm, actor_numbers[1]))
    weights = [f'    {{"{name}", {{{samples(network.tensors[name][0])}}}, {{{samples(target.tensors[name][0])}}}}},'
               for network, target in zip(networks, targets) for name in network.tensors]
    version = torch.__version__.split("+")[0]
    print("/* SPDX-License-Identifier: MIT */")
    print(f"/* Made by torch_td3.py with PyTorch {version}: as in torch_dpg.h, and numbers 0, n / 4, n / 2, 3 n / 4 of "
          "each\n * tensor's n, and of its target's, at the end. In the first step the actor is not trained. */")
    print('#pragma once\n\n#include "support/torch_dpg.h"\n')
    print("typedef struct torch_weight {\n    const char *name;\n    double online[4], target[4];\n} torch_weight;\n")
    print("static const torch_tensor torch_td3[] = {", *lines, "};", sep="\n")
    print(f"static const double torch_td3_steps[{STEPS}][5] = {{", *steps, "};", sep="\n")
    print("static const torch_weight torch_td3_weights[] = {", *weights, "};", sep="\n")


if __name__ == "__main__":
    main()
