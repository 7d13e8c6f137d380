# SPDX-License-Identifier: MIT
"""The loops of examples/python/torch_td3.py and jax_ddpg.py with their LaneBuffer, and with the replay that such loops
have without it, and the first with this library's learner. Networks, settings, steps and seeds are the same."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator
from typing import Any

from harness import HERE, Job, Run

sys.path += [str(HERE.parent / "peers"), str(HERE.parents[1] / "examples/python")]
OURS, RING, FLAT, ITEM = "gpureplay", "ring of tensors", "flashbax", "flashbax, item buffer"
BUILT_IN = "FastTD3, built in"
Curve = Iterator[tuple[int, float, float]]  # environment steps, mean return, seconds; first those of a random player


class Ring:
    """A ring of tensors with the calls of a LaneBuffer."""

    def __init__(self, simulator: Any):
        import torch_td3 as example
        from torch_ring import TorchRing

        shapes = {"obs": (simulator.num_obs,), "next_obs": (simulator.num_obs,), "action": (simulator.num_actions,)}
        self._lanes, self._gamma = example.LANES, example.GAMMA
        self._ring = TorchRing(example.LANES, example.KEPT, shapes, example.GAMMA, "cpu")

    def add(self, terminated: Any, truncated: Any, final_obs: Any, **values: Any) -> None:
        self._ring.add({**values, "next_obs": final_obs, "done": terminated | truncated, "truncated": truncated})

    def sample(self, batch: int) -> dict[str, Any]:
        found = self._ring.sample(batch // self._lanes)
        found["discount"] = self._gamma * ((found["done"] == 0) | (found["truncated"] > 0)).float()
        return found


@functools.lru_cache
def simulator() -> Any:
    import torch_td3 as example

    return example.Simulator(example.ENV, "jax")


class Flashbax:
    """A buffer of flashbax with the calls of gpureplay.jax.Lanes. The token is its state, and a key to draw by."""

    def __init__(self, seed: int, has_next: bool):
        import flashbax
        import jax
        import jax_ddpg as example

        self._jax, self._seed, self._has_next, self._gamma = jax, seed, has_next, example.GAMMA
        size = {"max_length": example.LANES * example.KEPT, "min_length": example.LANES,
                "sample_batch_size": example.BATCH}
        self._buffer = flashbax.make_item_buffer(**size, add_batches=True) if has_next else \
            flashbax.make_flat_buffer(**size, add_sequences=False, add_batch_size=example.LANES)
        self._shapes = {name: shape for name, (shape, _) in example.FIELDS.items()}

    def init(self) -> Any:
        shapes = {**self._shapes, "reward": (), **({"next_obs": self._shapes["obs"]} if self._has_next else {})}
        empty = {name: self._jax.numpy.zeros(shape) for name, shape in shapes.items()}
        empty["ended"] = self._jax.numpy.zeros((), bool)
        return self._buffer.init(empty), self._jax.random.key(self._seed)

    def add(self, token: Any, terminated: Any, truncated: Any, final_obs: Any, **values: Any) -> Any:
        state, key = token
        more = {"next_obs": final_obs, "ended": terminated} if self._has_next else {"ended": terminated | truncated}
        return self._buffer.add(state, {**values, **more}), key

    def sample(self, token: Any, batch: int) -> Any:
        state, key = token
        key, now = self._jax.random.split(key)
        found = self._buffer.sample(state, now).experience
        rows = dict(found if self._has_next else found.first)
        if not self._has_next:
            rows["next_obs"] = found.second["obs"]
        return (state, key), {**rows, "discount": self._gamma * (1.0 - rows["ended"])}


def train_torch(job: Job) -> Curve:
    import torch
    import torch_td3 as example

    torch.set_num_threads(1)
    torch.manual_seed(job.seed)
    buffer = Ring(simulator()) if job.system == RING else example.lane_buffer(simulator(), job.seed)
    learner = example.BuiltIn if job.system == BUILT_IN else example.Torch
    found: Curve = example.train(buffer, simulator(), job.seed, **job.settings, clock=time.process_time,
                                 learner=learner)
    return found


def train_jax(job: Job) -> Curve:
    import gpureplay.jax
    import jax_ddpg as example

    if job.system != OURS:
        yield from example.train(Flashbax(job.seed, job.system == ITEM), job.seed, **job.settings,
                                 clock=time.process_time)
        return
    with example.lane_buffer(job.seed) as buffer:
        yield from example.train(gpureplay.jax.Lanes(buffer), job.seed, **job.settings, clock=time.process_time)


def run(job: Job) -> Run:
    """With JAX, whose first scan is compiled, seconds are those of the other scans, for as many steps as all have."""
    from common import use_threads

    use_threads(1, on_cuda=False)
    start, is_jax = time.perf_counter(), job.experiment == "lanes-jax"
    (_, chance, _), *parts = (train_jax if is_jax else train_torch)(job)
    timed = parts[1:] if is_jax else parts
    seconds = sum(seconds for *_, seconds in timed) * len(parts) / len(timed)
    return {"random": chance, "evaluated": parts[-1][1], "seconds": round(seconds, 2),
            "wall_seconds": round(time.perf_counter() - start, 2),
            "curve": [[steps, round(score, 2)] for steps, score, _ in parts]}
