#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adding a step of many environments that step together, and drawing a batch: LaneBuffer beside a ring of PyTorch
tensors as FastTD3 and its like write it (each observation stored twice), flashbax and TorchRL.

    build/peers/bin/python bench/peers/lanes.py --threads 1 --json lanes.json

1,024 environments with observations of 97 numbers and actions of 29, 512 steps of each, batches of 8,192. The arrays
are each library's own; all on one device. LaneBuffer draws into a new batch each time, as the others do, and into the
arrays of one batch (`sample(out=)`). "Copies" is what no draw can do without: PyTorch's `index_select` of as many
random rows, whose numbers are known, from such arrays into those of one batch. Flashbax has jitted functions, and gives
the state away to `add`. The ring draws as many transitions of each environment, and ours as many of all; with n = 3 it
gathers all rewards and flags of three steps, as they do. Before the first sample each buffer is filled more than once
over.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import common
from common import OURS

ROUNDS, QUICK_ROUNDS = 21, 6
LANES, STEPS, OBS, ACTION, BATCH, GAMMA = 1024, 512, 97, 29, 8192, 0.99
QUICK_STEPS = 64
INTO = f"{OURS}, out="
COPIES, RING, FLASHBAX, TORCHRL = "copies", "torch ring", "flashbax", "TorchRL"
DISTINCT_STEPS = 8  # that are added again and again
DISTINCT_DRAWS = 64  # of known rows
Call = Callable[[], None]


class Contender:
    """add() adds the next step; sample(n) draws a batch of transitions of n steps, or is None for this n."""

    bytes = 0  # of the memory that it holds

    def add(self) -> None:
        raise NotImplementedError

    def sample(self, n: int) -> Call | None:
        raise NotImplementedError


def torch_steps(device: str) -> list[dict[str, Any]]:
    import torch

    generator = torch.Generator().manual_seed(1)
    steps = []
    for _ in range(DISTINCT_STEPS):
        ends = torch.rand(2, LANES, generator=generator) < 0.005
        steps.append({name: value.to(device) for name, value in {
            "obs": torch.randn(LANES, OBS, generator=generator),
            "action": torch.randn(LANES, ACTION, generator=generator),
            "reward": torch.randn(LANES, generator=generator), "terminated": ends[0], "truncated": ends[1],
            "final_obs": torch.randn(LANES, OBS, generator=generator)}.items()})
    return steps


class Ours(Contender):
    def __init__(self, device: str, threads: int, kept: int):
        import gpureplay

        opened = gpureplay.Device(device) if device.startswith("cuda") else gpureplay.Device(device, threads=threads)
        fields = {"obs": ((OBS,), "float32"), "action": ((ACTION,), "float32")}
        before = opened.info.memory_used
        self._buffer = gpureplay.LaneBuffer(LANES, kept, fields, gamma=GAMMA, device=opened)
        self.bytes = opened.info.memory_used - before
        self._steps, self._at = torch_steps(device), 0

    def add(self) -> None:
        self._at += 1
        self._buffer.add(**self._steps[self._at % DISTINCT_STEPS])

    def sample(self, n: int) -> Call:
        def call() -> None:
            self._batch = self._buffer.sample(BATCH, n_step=n)  # the one before lives until here

        return call


class Into(Ours):
    def sample(self, n: int) -> Call:
        batch = self._buffer.sample(BATCH)
        return lambda: self._buffer.sample(BATCH, n_step=n, out=batch)


class Copies(Contender):
    """Observations, next ones and actions, as Ours has them in memory. Nothing is added."""

    def __init__(self, device: str, threads: int, kept: int):
        import torch

        self._at = 0
        self._obs, self._action = (torch.randn(LANES * kept, width, device=device) for width in (OBS, ACTION))

    def add(self) -> None:
        pass

    def sample(self, n: int) -> Call:
        import torch

        rows = torch.randint(0, len(self._obs) - n * LANES, (DISTINCT_DRAWS, BATCH), device=self._obs.device)
        copied = [(ring, first, torch.empty(BATCH, ring.shape[1], device=ring.device))
                  for ring, first in ((self._obs, 0), (self._obs, n * LANES), (self._action, 0))]

        def call() -> None:
            self._at += 1
            for ring, first, out in copied:
                torch.index_select(ring[first:], 0, rows[self._at % DISTINCT_DRAWS], out=out)

        return call


class Ring(Contender):
    def __init__(self, device: str, threads: int, kept: int):
        from torch_ring import TorchRing

        self._ring, self._at = TorchRing(LANES, kept, {"obs": (OBS,), "next_obs": (OBS,), "action": (ACTION,)}, GAMMA,
                                         device), 0
        self.bytes = self._ring.bytes
        self._steps = [{"obs": step["obs"], "next_obs": step["final_obs"], "action": step["action"],
                        "reward": step["reward"], "done": (step["terminated"] | step["truncated"]).long(),
                        "truncated": step["truncated"].long()} for step in torch_steps(device)]

    def add(self) -> None:
        self._at += 1
        self._ring.add(self._steps[self._at % DISTINCT_STEPS])

    def sample(self, n: int) -> Call:
        def call() -> None:
            self._batch = self._ring.sample(BATCH // LANES, n)

        return call


class Flashbax(Contender):
    """Its flat buffer finds a transition's next observation in the next step: it stores each once, too, and knows no
    final ones."""

    def __init__(self, device: str, threads: int, kept: int):
        import flashbax
        import jax

        steps = [{name: jax.numpy.asarray(value.cpu().numpy()) for name, value in step.items() if name != "final_obs"}
                 for step in torch_steps("cpu")]
        made = flashbax.make_flat_buffer(max_length=LANES * kept, min_length=LANES, sample_batch_size=BATCH,
                                         add_sequences=False, add_batch_size=LANES)
        self._jax, self._steps, self._at, self._key = jax, steps, 0, jax.random.key(1)
        self._state = made.init({name: value[0] for name, value in steps[0].items()})
        self.bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(self._state))
        self._add = jax.jit(made.add, donate_argnums=0)
        self._sample = jax.jit(lambda state, key: (lambda new, now: (new, made.sample(state, now)))(
            *jax.random.split(key)))

    def add(self) -> None:
        self._at += 1
        self._state = self._add(self._state, self._steps[self._at % DISTINCT_STEPS])
        self._jax.block_until_ready(self._state)

    def sample(self, n: int) -> Call | None:
        if n > 1:
            return None

        def call() -> None:
            self._key, self._batch = self._sample(self._state, self._key)
            self._jax.block_until_ready(self._batch)

        return call


class TorchRL(Contender):
    """A replay buffer of tensors in memory, each transition with both its observations."""

    def __init__(self, device: str, threads: int, kept: int):
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

        self._buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(LANES * kept, device=device), batch_size=BATCH)
        self._steps = [TensorDict(step, batch_size=LANES) for step in torch_steps(device)]
        self._at = 0
        self.bytes = LANES * kept * sum(value.nbytes // LANES for value in self._steps[0].values())

    def add(self) -> None:
        self._at += 1
        self._buffer.extend(self._steps[self._at % DISTINCT_STEPS])

    def sample(self, n: int) -> Call | None:
        if n > 1:
            return None

        def call() -> None:
            self._batch = self._buffer.sample()

        return call


MAKERS: dict[str, type[Any]] = {OURS: Ours, INTO: Into, COPIES: Copies, RING: Ring, FLASHBAX: Flashbax,
                                TORCHRL: TorchRL}
DRAWS_ONLY = (INTO, COPIES)


def finisher(device: str) -> Call:
    """Waits for what PyTorch's stream has been given."""
    if not device.startswith("cuda"):
        return lambda: None
    import torch

    return torch.cuda.synchronize


def seconds_of(call: Call, finish: Call, repeats: int) -> float:
    finish()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    finish()
    return (time.perf_counter() - start) / repeats


def repeats_for(call: Call, finish: Call, wanted: float) -> int:
    """So many that a sample takes about `wanted` seconds."""
    return max(1, int(wanted / seconds_of(call, finish, 3)))


def case_of(name: str, calls: dict[str, Call], absent: dict[str, str], given: argparse.Namespace) -> dict[str, Any]:
    finish = finisher(given.device)
    repeats = {who: repeats_for(call, finish, 0.01 if given.quick else 0.05) for who, call in calls.items()}
    samples: dict[str, list[float]] = {who: [] for who in calls}
    for round_ in range(given.rounds):
        common.show(f"{name}: round {round_ + 1} of {given.rounds}")
        for who, call in calls.items():
            samples[who].append(seconds_of(call, finish, repeats[who]))
    return {"name": name, "variants": common.variants(samples, absent)}


def measure(given: argparse.Namespace) -> Iterable[dict[str, Any]]:
    wanted = None if given.only is None else {OURS, *DRAWS_ONLY, *given.only.split(",")}
    kept = QUICK_STEPS if given.quick else STEPS
    found: dict[str, Contender] = {}
    absent: dict[str, str] = {}
    for name, make in MAKERS.items():
        if wanted is not None and name not in wanted:
            continue
        common.show(f"{name}: {kept} steps of {LANES} environments")
        try:
            found[name] = made = make(given.device, given.threads, kept)
            for _ in range(kept + kept // 4):
                made.add()
        except ImportError as error:
            absent[name] = common.error_text(error)
    adds = {name: one.add for name, one in found.items() if name not in DRAWS_ONLY}
    yield case_of(f"add a step of {LANES} environments", adds, absent, given)
    for n in (1, 3):
        calls = {name: call for name, one in found.items() if (call := one.sample(n)) is not None}
        missing = {name: f"no transitions of {n} steps" for name in found if name not in calls}
        yield case_of(f"draw {BATCH} transitions, n = {n}", calls, absent | missing, given)
    sizes = (f"{name} {one.bytes / (LANES * kept):.1f}" for name, one in found.items() if name not in DRAWS_ONLY)
    print("\nbytes a transition: " + ", ".join(sizes))


def main(arguments: list[str]) -> None:
    parser = common.parser_of(__doc__, ROUNDS, "a short try", "libraries")
    common.add_device(parser)
    given = common.parse(parser, arguments, ROUNDS, QUICK_ROUNDS)
    cores = common.use_threads(given.threads, on_cuda=given.device.startswith("cuda"))
    head = {"title": "lanes", "machine": common.describe_machine(), "device": given.device, "threads": given.threads,
            "cores": cores, "rounds": given.rounds, "interrupted": False,
            "sizes": [LANES, QUICK_STEPS if given.quick else STEPS, OBS, ACTION, BATCH]}
    common.collect(head, measure(given), given.json)


if __name__ == "__main__":
    main(sys.argv[1:])
