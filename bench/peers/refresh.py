#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One refresh of a cache of 80,000 lambda-returns beside the same loop in PyTorch: same frames, network and returns.

    build/peers/bin/python bench/peers/refresh.py --device cuda:0 --json refresh.json

The replay has stacks of four frames of 84 x 84 and the network of preset "nature-dqn"; blocks are of 100 transitions,
lambda is 0.75. PyTorch has each frame once, builds the stacks of ten blocks by their indices, evaluates them at once,
and computes the returns of all blocks side by side. Before it is timed, return - Q(s, a) of each entry of one block is
compared with ours. Two episodes terminate within that block, and a third goes on at its end.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterable
from typing import Any

import common
import numpy as np
import timing
from common import OURS

ROUNDS, QUICK_ROUNDS = 6, 6
ENTRIES, QUICK_ENTRIES = 80_000, 400
FRAMES, QUICK_FRAMES = 20_000, 2_000
BLOCK, CHUNK, STACK, SIDE, ACTIONS = 100, 1000, 4, 84, 18
EPISODE, CHECKED_EPISODE = 500, 40
GAMMA, LAMBDA = 0.99, 0.75
TOLERANCE = 1e-4  # of return - Q(s, a); rewards are normal, with a deviation of 1
REFRESHES = 50


class Frames:
    """An endless game: noise, an episode of so many steps after another, each beginning with a frame of its own."""

    def __init__(self, steps: int, episode: int):
        rng = np.random.default_rng(1)
        self.frames = rng.integers(0, 256, (-(-steps // episode) * (episode + 1), SIDE, SIDE), np.uint8)
        self.action = rng.integers(0, ACTIONS, steps, np.int32)
        self.reward = rng.standard_normal(steps, np.float32)
        self.terminated = np.arange(1, steps + 1) % episode == 0
        self.steps, self.episode = steps, episode

    def newest(self, step: Any) -> Any:
        """The number of the frame that is the newest before this step, or before each of these steps."""
        return step + step // self.episode

    def oldest(self, step: Any) -> Any:
        """The number of the first frame of the episode."""
        return step // self.episode * (self.episode + 1)

    def fill(self, buffer: Any) -> None:
        for step in range(self.steps):
            at = self.newest(step)
            buffer.add(obs=self.frames[at], action=self.action[step], reward=self.reward[step],
                       next_obs=self.frames[at + 1], terminated=self.terminated[step])


class Ours:
    name, as_used = OURS, "DQN.refresh(), and a train step of one entry, so that the next refresh draws other blocks"

    def __init__(self, game: Frames, entries: int, device: str):
        import gpureplay

        fields = {"obs": ((SIDE, SIDE), "uint8"), "action": "int32", "reward": "float32",
                  "next_obs": ((SIDE, SIDE), "uint8"), "terminated": "bool", "truncated": "bool",
                  "previous": ((), "int64")}
        self._buffer = gpureplay.ReplayBuffer(game.steps, fields, device=device, gamma=GAMMA, frame_stack=STACK,
                                              observations="frames", max_batch=16)
        game.fill(self._buffer)
        self._entries = entries
        self.learner = gpureplay.DQN(self._buffer, num_actions=ACTIONS, preset="nature-dqn", loss="squared",
                                     batch_size=1, learning_rate=0.0, cache_size=entries, block_length=BLOCK,
                                     lambda_=LAMBDA)

    def run(self, repeats: int) -> None:
        for _ in range(repeats):
            self.learner.refresh()
            self.learner.train()
        self.learner.sync()

    def errors(self) -> list[tuple[int, float]]:
        """Action and return - Q(s, a) of each entry, sorted: what a train step on this entry alone has as the gradient
        of the output's bias, with the other sign. The learning rate is 0, and train steps draw each entry once."""
        bias, found = _output(self.learner.weights, "bias"), []
        self.learner.refresh()
        for _ in range(self._entries):
            self.learner.train()
            gradient = self.learner.gradients[bias]
            action = int(np.abs(gradient).argmax())
            found.append((action, -float(gradient[action])))
        self.learner.sync()
        return sorted(found)

    def close(self) -> None:
        self.learner.close()
        self._buffer.close()


class Torch:
    name, as_used = "PyTorch", "eager, torch.inference_mode, 1,000 stacks at a time"

    def __init__(self, game: Frames, entries: int, device: str, weights: Any):
        import torch

        self._torch, self._blocks, self._steps = torch, entries // BLOCK, game.steps
        steps = np.arange(game.steps)
        at = game.newest(steps) + 1
        links = at[:, None] + np.arange(1 - STACK, 1)
        first = game.oldest(steps)[:, None]
        self._next = self._tensor(np.where(links < first, len(game.frames), links), device)
        self._obs = self._tensor(np.where(links - 1 < first, len(game.frames), links - 1), device)
        self._frames = self._tensor(np.concatenate([game.frames, np.zeros((1, SIDE, SIDE), np.uint8)]), device)
        self._action = self._tensor(game.action.astype(np.int64), device)
        self._reward = self._tensor(game.reward, device)
        self._discount = self._tensor(np.where(game.terminated, 0, GAMMA).astype(np.float32), device)
        self._weights = {name: self._tensor(self._channels_first(name, weights[name]), device) for name in weights}
        self._on_cuda = device.startswith("cuda")

    def _tensor(self, array: np.ndarray, device: str) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(array)).to(device)

    @staticmethod
    def _channels_first(name: str, weight: np.ndarray) -> np.ndarray:
        if weight.ndim == 4:
            return weight.transpose(0, 3, 1, 2)
        if name == "trunk.3.weight":  # its inputs are the last convolution's, (7, 7, 64)
            return weight.reshape(-1, 7, 7, 64).transpose(0, 3, 1, 2).reshape(weight.shape)
        return weight

    def values(self, links: Any) -> Any:
        """Q of every action for stacks of these frames."""
        functional, w = self._torch.nn.functional, self._weights
        x = self._frames[links].float() * (1 / 255)
        for i, stride in enumerate((4, 2, 1)):
            x = functional.relu(functional.conv2d(x, w[f"trunk.{i}.weight"], w[f"trunk.{i}.bias"], stride))
        x = functional.relu(functional.linear(x.flatten(1), w["trunk.3.weight"], w["trunk.3.bias"]))
        return functional.linear(x, w[_output(w, "weight")], w[_output(w, "bias")])

    def returns(self, firsts: Any) -> Any:
        """(blocks, BLOCK) Peng's returns of the blocks that begin with these steps."""
        torch = self._torch
        rows = firsts[:, None] + torch.arange(BLOCK, device=firsts.device)
        value = torch.cat([self.values(self._next[part]).amax(1) for part in rows.flatten().split(CHUNK)])
        value = value.view(rows.shape)
        found = torch.empty_like(value)
        following = value[:, -1]
        for t in reversed(range(BLOCK)):
            mixed = LAMBDA * following + (1 - LAMBDA) * value[:, t]
            found[:, t] = following = self._reward[rows[:, t]] + self._discount[rows[:, t]] * mixed
        return rows, found

    def run(self, repeats: int) -> None:
        torch = self._torch
        with torch.inference_mode():
            for _ in range(repeats):
                firsts = torch.randint(0, self._steps - BLOCK + 1, (self._blocks,), device=self._frames.device)
                self.returns(firsts)
        if self._on_cuda:
            torch.cuda.synchronize()

    def errors(self, first: int) -> list[tuple[int, float]]:
        """Action and return - Q(s, a) of each step of the block that begins with this one, sorted."""
        torch = self._torch
        with torch.inference_mode():
            rows, found = self.returns(torch.tensor([first], device=self._frames.device))
            action = self._action[rows[0]]
            taken = self.values(self._obs[rows[0]]).gather(1, action[:, None])[:, 0]
            return sorted(zip(action.tolist(), (found[0] - taken).tolist()))

    def close(self) -> None:
        """Its memory goes with it."""


def _output(weights: Iterable[str], part: str) -> str:
    """The name of the last layer's weight or bias."""
    return next(name for name in weights if name.endswith(f"out.{part}"))


def _fault(device: str) -> str:
    """"" if the errors of a block's entries agree. The replay has BLOCK + 1 transitions, so there are two blocks; about
    one refresh of four finds neither, since few draws hit a transition that a whole block ends with."""
    game = Frames(BLOCK + 1, CHECKED_EPISODE)
    ours = Ours(game, BLOCK, device)
    for _ in range(REFRESHES):
        missing, found = ours.learner.stats.missing_rows, ours.errors()
        if ours.learner.stats.missing_rows == missing:
            break
    theirs = Torch(game, BLOCK, device, dict(ours.learner.weights))
    ours.close()
    furthest = min(_furthest(found, theirs.errors(first)) for first in (0, 1))
    return "" if furthest <= TOLERANCE else f"return - Q(s, a) of its entries differs from ours by up to {furthest:.3g}"


def _furthest(found: list[tuple[int, float]], wanted: list[tuple[int, float]]) -> float:
    """The largest difference of two entries. Infinite if their actions differ."""
    return max(abs(x - y) if a == b else np.inf for (a, x), (b, y) in zip(found, wanted))


def _measure(given: argparse.Namespace) -> dict[str, Any]:
    entries, steps = (QUICK_ENTRIES, QUICK_FRAMES) if given.quick else (ENTRIES, FRAMES)
    name = f"refresh of {entries:,} entries, nature-dqn"
    absent = {}
    game = Frames(steps, EPISODE)
    ours = Ours(game, entries, given.device)
    opened: dict[str, Any] = {OURS: ours}
    try:
        fault = _fault(given.device)
        if fault:
            absent[Torch.name] = fault
        else:
            opened[Torch.name] = Torch(game, entries, given.device, dict(ours.learner.weights))
    except Exception as error:  # noqa: BLE001  another library may raise anything
        absent[Torch.name] = f"it raised {common.error_text(error)}"
    common.show(f"timing {', '.join(opened)}")
    samples = timing.interleave({name: one.run for name, one in opened.items()}, given.rounds, 0.0, 0)
    for one in opened.values():
        one.close()
    return {"name": name, "entries": entries, "rows": steps, "tolerance": TOLERANCE,
            "variants": common.variants(samples, absent)}


def main(arguments: list[str]) -> int:
    """Exit status: 1 when PyTorch's returns differ from ours, 77 when the device is not here; 130 after Ctrl-C."""
    parser = common.parser_of(__doc__, ROUNDS, f"{QUICK_ENTRIES} entries", "not used here")
    common.add_device(parser)
    given = common.parse(parser, arguments, ROUNDS, QUICK_ROUNDS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cores = common.use_threads(given.threads, given.device.startswith("cuda"))
    error = common.device_error(given.device)
    if error:
        print(f"refresh.py: {given.device}: {error}", file=sys.stderr)
        return 77
    head = {"title": "refresh of a cache of returns", "machine": common.describe_machine(),
            "settings": {"device": given.device, "threads": given.threads, "cores": cores, "rounds": given.rounds,
                         "quick": given.quick},
            "libraries": [{"name": kind.name, "as_used": kind.as_used} for kind in (Ours, Torch)],
            "absent": {}, "interrupted": False}
    print(f"{head['machine']}\n{head['settings']}\nTimes of one refresh; ours / theirs, below 1: ours is faster.")
    cases = common.collect(head, (_measure(given) for _ in range(1)), given.json)
    if head["interrupted"]:
        return 130
    return int(any("of its entries" in one.get("absent", "") for case in cases for one in case["variants"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
