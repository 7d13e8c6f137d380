# SPDX-License-Identifier: MIT
"""Train steps of SAC and TD3 in PyTorch as one writes them by hand: eager, in CleanRL's style (a module for each
network, torch.optim.Adam, soft copies parameter by parameter), and compiled, as PyTorch advises (updates with their
optimizer in torch.compile, soft copies of all parameters at once)."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from torch.nn import functional

GAMMA, TAU, RATE, DELAY, NOISE, CLIP = 0.99, 0.005, 1e-3, 2, 0.2, 0.5
Rows = dict[str, torch.Tensor]


def mlp(inputs: int, units: list[int], outputs: int) -> torch.nn.Sequential:
    sizes = [inputs, *units]
    layers = [part for wide in itertools.pairwise(sizes) for part in (torch.nn.Linear(*wide), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], outputs))


class Learner:
    """rows: a replay of tensors, (count, ...), with obs, action, reward, next_obs and terminated (float)."""

    outputs = 1  # of the actor, for each number of an action
    delay = 1    # critic updates for each of the actor

    def __init__(self, rows: Rows, units: list[int], batch: int, compiled: bool):
        self._rows, self._batch, self._count = rows, batch, 0
        obs, actions = rows["obs"].shape[1], rows["action"].shape[1]
        self._actor = mlp(obs, units, self.outputs * actions)
        self._critics = [mlp(obs + actions, units, 1) for _ in range(2)]
        self._pairs = [(net, copy.deepcopy(net).requires_grad_(False)) for net in self.followed()]
        self._targets = dict(self._pairs)
        self._by_actor = torch.optim.Adam(self._actor.parameters(), RATE)
        self._by_critic = torch.optim.Adam([*self._critics[0].parameters(), *self._critics[1].parameters()], RATE)
        self._copy = self._copy_all if compiled else self._copy_each
        self._update_critics, self._update_actor = (torch.compile(update) if compiled else update
                                                    for update in (self.update_critics, self.update_actor))

    def followed(self) -> list[torch.nn.Module]:
        """The networks that have a target network."""
        return self._critics

    def values(self, networks: Any, obs: torch.Tensor, action: torch.Tensor) -> list[torch.Tensor]:
        x = torch.cat([obs, action], 1)
        return [network(x)[:, 0] for network in networks]

    def update_critics(self, rows: Rows) -> None:
        with torch.no_grad():
            action, bonus = self.next_action(rows["next_obs"])
            values = self.values([self._targets[net] for net in self._critics], rows["next_obs"], action)
            wanted = rows["reward"] + GAMMA * (1 - rows["terminated"]) * (torch.minimum(*values) + bonus)
        loss = sum(functional.mse_loss(value, wanted)
                   for value in self.values(self._critics, rows["obs"], rows["action"]))
        self._by_critic.zero_grad()
        loss.backward()
        self._by_critic.step()

    def next_action(self, obs: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """That of the target, and what is added to its value."""
        raise NotImplementedError

    def update_actor(self, rows: Rows) -> None:
        raise NotImplementedError

    def _copy_each(self) -> None:
        for net, target in self._pairs:
            for mine, theirs in zip(net.parameters(), target.parameters()):
                theirs.data.copy_(TAU * mine.data + (1 - TAU) * theirs.data)

    @torch.no_grad()
    def _copy_all(self) -> None:
        torch._foreach_lerp_([p for _, target in self._pairs for p in target.parameters()],
                             [p for net, _ in self._pairs for p in net.parameters()], TAU)

    def train(self, steps: int) -> None:
        for _ in range(steps):
            ids = torch.randint(0, len(self._rows["obs"]), (self._batch,))
            rows = {name: values.index_select(0, ids) for name, values in self._rows.items()}
            self._update_critics(rows)
            self._count += 1
            if self._count % self.delay == 0:
                self._update_actor(rows)
                self._copy()


class TD3(Learner):
    delay = DELAY

    def followed(self) -> list[torch.nn.Module]:
        return [*self._critics, self._actor]

    def next_action(self, obs: torch.Tensor) -> tuple[torch.Tensor, Any]:
        action = torch.tanh(self._targets[self._actor](obs))
        return (action + (NOISE * torch.randn_like(action)).clamp(-CLIP, CLIP)).clamp(-1, 1), 0.0

    def update_actor(self, rows: Rows) -> None:
        loss = -self.values(self._critics[:1], rows["obs"], torch.tanh(self._actor(rows["obs"])))[0].mean()
        self._by_actor.zero_grad()
        loss.backward()
        self._by_actor.step()


class SAC(Learner):
    outputs = 2

    def __init__(self, rows: Rows, *args: Any):
        super().__init__(rows, *args)
        self._log_alpha = torch.zeros(1, requires_grad=True)
        self._by_alpha = torch.optim.Adam([self._log_alpha], RATE)
        self._wanted_entropy = -rows["action"].shape[1]

    def _drawn(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions, and their log-probabilities."""
        mean, log_std = self._actor(obs).chunk(2, 1)
        noise, log_std = torch.randn_like(mean), log_std.clamp(-20, 2)
        raw = mean + log_std.exp() * noise
        correction = 2 * (0.6931472 - raw - functional.softplus(-2 * raw))
        return torch.tanh(raw), (-0.5 * noise ** 2 - log_std - 0.9189385 - correction).sum(1)

    def next_action(self, obs: torch.Tensor) -> tuple[torch.Tensor, Any]:
        action, log_prob = self._drawn(obs)
        return action, -self._log_alpha.exp() * log_prob

    def update_actor(self, rows: Rows) -> None:
        action, log_prob = self._drawn(rows["obs"])
        value = torch.minimum(*self.values(self._critics, rows["obs"], action))
        loss = (self._log_alpha.exp().detach() * log_prob - value).mean()
        self._by_actor.zero_grad()
        loss.backward()
        self._by_actor.step()
        self._by_alpha.zero_grad()
        (-self._log_alpha * (log_prob.detach() + self._wanted_entropy)).mean().backward()
        self._by_alpha.step()
