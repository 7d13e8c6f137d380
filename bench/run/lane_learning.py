#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Learning from lanes: the loops of examples/python/torch_td3.py and jax_ddpg.py with their LaneBuffer, and with the
replay that such loops have without it. Networks, settings, steps and seeds are the same.

    python3 -m venv build/simulators && build/simulators/bin/pip install torch playground "gymnax>=1" six flashbax jax
    build/simulators/bin/pip install .
    build/simulators/bin/python bench/run/lane_learning.py run torch learning_lanes_torch.json
    build/simulators/bin/python bench/run/lane_learning.py run jax learning_lanes_jax.json
    build/simulators/bin/python bench/run/lane_learning.py table learning_lanes_torch.json

    torch   cartpole swing-up of MuJoCo Playground, with a ring of PyTorch tensors as FastTD3 and its like write it: it
            stores each observation twice, and draws as many transitions of each lane.
    jax     gymnax's Pendulum-v1, with flashbax's flat buffer, as its users write it: it stores each observation once
            and has no final ones, so that targets are cut where an episode was truncated. And with its item buffer,
            which stores transitions with both their observations, and has the final ones.

Compared is the mean return of 64 episodes after the last step. The systems take turns with each seed, from 1 on. After
5 seeds and more `run` ends once the 95% interval of each difference is at most 15% of what the peer gained over a
random player, to either side; else after 20. A difference is shown if the lower end of its interval is above -25% of
that gain. What the file has is not run again. Run with --seeds 101,102 to choose settings by others.

"seconds" are of the processor, for acting, storing, drawing and training without evaluations, by one thread: other work
on the machine does not count. With JAX, whose first scan is compiled, they are those of the other scans, for as many
steps as all have. "wall_seconds" are of the whole run. The file names commit, time and machine of its last run; or set
GPUREPLAY_COMMIT.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench/peers"), str(ROOT / "examples/python")]
from common import OURS, describe_machine, use_threads  # noqa: E402
from learning import interval  # noqa: E402

FEWEST, MOST, WIDEST, LOWEST = 5, 20, 0.15, -0.25  # seeds; shares of the gain over a random player
RING, FLAT, ITEM = "ring of tensors", "flashbax", "flashbax, item buffer"
Curve = Iterator[tuple[int, float, float]]  # environment steps, mean return, seconds; first those of a random player


class Experiment(NamedTuple):
    """run: a training of a system with a seed."""

    run: Callable[[str, int], Curve]
    systems: tuple[str, ...]
    settings: dict[str, int]


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


def run_torch(system: str, seed: int) -> Curve:
    import torch
    import torch_td3 as example

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    buffer = example.lane_buffer(simulator(), seed) if system == OURS else Ring(simulator())
    found: Curve = example.train(buffer, simulator(), seed, **TORCH, clock=time.process_time)
    return found


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


def run_jax(system: str, seed: int) -> Curve:
    import gpureplay.jax
    import jax_ddpg as example

    if system == OURS:
        with example.lane_buffer(seed) as buffer:
            yield from example.train(gpureplay.jax.Lanes(buffer), seed, **JAX, clock=time.process_time)
    else:
        yield from example.train(Flashbax(seed, has_next=system == ITEM), seed, **JAX, clock=time.process_time)


TORCH, JAX = {"steps": 2000, "parts": 4}, {"steps": 2000, "parts": 10}
EXPERIMENTS = {"torch": Experiment(run_torch, (OURS, RING), TORCH),
               "jax": Experiment(run_jax, (OURS, FLAT, ITEM), JAX)}


def one(name: str, system: str, seed: int) -> dict[str, Any]:
    start = time.perf_counter()
    (_, chance, _), *parts = EXPERIMENTS[name].run(system, seed)
    timed = parts[1:] if name == "jax" else parts
    seconds = sum(seconds for *_, seconds in timed) * len(parts) / len(timed)
    return {"system": system, "seed": seed, "random": chance, "evaluated": parts[-1][1], "seconds": round(seconds, 2),
            "wall_seconds": round(time.perf_counter() - start, 2),
            "curve": [[steps, round(score, 2)] for steps, score, _ in parts]}


def of(runs: list[dict[str, Any]], system: str, key: str) -> list[float]:
    return [one[key] for one in runs if one["system"] == system]


def difference(runs: list[dict[str, Any]], peer: str) -> tuple[float, float, float]:
    """Ours minus the peer's mean, half of its interval, and the peer's gain over a random player."""
    theirs = of(runs, peer, "evaluated")
    gain = statistics.mean(theirs) - statistics.mean(of(runs, peer, "random"))
    return *interval(of(runs, OURS, "evaluated"), theirs), gain


def is_enough(runs: list[dict[str, Any]], peers: tuple[str, ...]) -> bool:
    """All systems have as many seeds, and no interval is too wide."""
    if len(of(runs, OURS, "seed")) < FEWEST:
        return False
    return all(half <= WIDEST * gain for _, half, gain in (difference(runs, peer) for peer in peers))


def run(given: argparse.Namespace) -> None:
    use_threads(1, on_cuda=False)
    experiment = EXPERIMENTS[given.experiment]
    runs = json.loads(given.file.read_text())["runs"] if given.file.exists() else []
    for seed in given.seeds or range(1, MOST + 1):
        if not given.seeds and is_enough([one for one in runs if one["seed"] < seed], experiment.systems[1:]):
            break
        for system in experiment.systems:
            if (system, seed) in {(one["system"], one["seed"]) for one in runs}:
                continue
            runs.append(one(given.experiment, system, seed))
            print(runs[-1], flush=True)
            machine = describe_machine()
            document = {"title": "learning from lanes", "experiment": given.experiment,
                        "commit": machine.pop("commit"), "when": time.strftime("%FT%TZ", time.gmtime()),
                        "machine": machine, "settings": experiment.settings, "runs": runs}
            given.file.write_text(json.dumps(document).replace('{"system"', '\n{"system"') + "\n")


def table(given: argparse.Namespace) -> None:
    document = json.loads(given.file.read_text())
    runs, systems = document["runs"], EXPERIMENTS[document["experiment"]].systems
    print("| replay | seeds | evaluated, and deviation | random player | seconds a run, median "
          "| by the clock, median |\n"
          + "|---" * 6 + "|")
    for system in systems:
        returns = of(runs, system, "evaluated")
        print(f"| {system} | {len(returns)} | {statistics.mean(returns):.1f}, {statistics.stdev(returns):.1f} | "
              f"{statistics.mean(of(runs, system, 'random')):.1f} | "
              f"{statistics.median(of(runs, system, 'seconds')):.1f} | "
              f"{statistics.median(of(runs, system, 'wall_seconds')):.1f} |")
    print("\n| difference | | its 95% interval | half-width, and as a share of the gain | lowest allowed "
          "| criterion |\n"
          + "|---" * 6 + "|")
    for peer in systems[1:]:
        found, half, gain = difference(runs, peer)
        print(f"| {OURS} minus {peer} | {found:+.1f} | {found - half:+.1f} to {found + half:+.1f} | "
              f"{half:.1f}, {half / gain:.0%} | {LOWEST * gain:+.1f} | "
              f"{'holds' if found - half > LOWEST * gain else 'fails'} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function in (run, table):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        if function is run:
            command.add_argument("experiment", choices=sorted(EXPERIMENTS))
            command.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")],
                                 help="these, separated by commas")
        command.add_argument("file", type=Path)
    given = parser.parse_args()
    given.function(given)


if __name__ == "__main__":
    main()
