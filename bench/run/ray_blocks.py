#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Blocks of Ape-X through Ray into a replay that is trained on, on one machine, and what follows for clusters.

    python3 -m venv build/rllib
    build/rllib/bin/pip install ray psutil gymnasium matplotlib .
    build/rllib/bin/python bench/run/ray_blocks.py measure --json ray_blocks.json
    build/rllib/bin/python bench/run/ray_blocks.py simulate ray_blocks.json --plot ray_blocks.png

`measure`: processes on Ray pack blocks of 50 transitions of 84 x 84 frames, or of 1,000 rows of 27 floats, as fast as
they can, or at the 12,500 transitions a second of the paper, and hand them to the learner as actors do. Counted are
transitions and bytes that arrive, train steps, and the CPU seconds of the feeding processes, of the learner and of Ray.
Then the same with a limiter that lets hardly a train step in, so that the learner's CPU seconds are those of receiving.

`simulate`: the paper's 360 actors, the network of the learner's machine, and its one thread that receives, which needs
the CPU seconds that were measured.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import heapq
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

PAPER, ACTORS, FEEDERS = 12_500, 360, 4
KINDS = {"frames": {"shape": (84, 84), "dtype": "uint8", "rows": 50, "capacity": 20_000},
         "rows": {"shape": (27,), "dtype": "float32", "rows": 1000, "capacity": 200_000}}
LINKS = {"10 Gbit/s": 1.25e9, "100 Gbit/s": 12.5e9}


def make_env(_lane: int, kind: str = "rows") -> Any:
    """Nobody steps it: the run asks for its spaces."""
    import gymnasium

    env = gymnasium.Env()
    low, high = (0, 255) if kind == "frames" else (-1, 1)
    env.observation_space = gymnasium.spaces.Box(low, high, KINDS[kind]["shape"], KINDS[kind]["dtype"])
    env.action_space = gymnasium.spaces.Discrete(4)
    return env


# The two sides, which are those of gpureplay.ray but for the environments.


def settings_of(kind: str) -> dict[str, Any]:
    """Of the buffer and of the learner."""
    shape, dtype, rows = (KINDS[kind][name] for name in ("shape", "dtype", "rows"))
    is_frames = kind == "frames"
    stack = ((4, *shape), dtype) if is_frames else (shape, dtype)
    fields = {"obs": stack, "action": "int32", "reward": "float32", "next_obs": stack, "terminated": "bool",
              "truncated": "bool", "discount": "float32", "priority": "float32"}
    capacity = KINDS[kind]["capacity"]
    buffer = {"capacity": capacity, "fields": fields, "prioritized": True, "n_step": 3, "gamma": 0.99, "max_batch": 32,
              "block_rows": 2 * rows, "min_size": 2_000}
    if is_frames:  # each block repeats 6 frames
        buffer.update(layout="frames", frame_stack=4, extra_frames=capacity * 6 // rows)
    trunk = [("conv", 16, 8, 4), ("conv", 32, 4, 2), (256, "relu")] if is_frames else [128]
    return {"buffer": buffer, "agent": {"num_actions": 4, "trunk": trunk, "batch_size": 32, "target_period": 250}}


def sink_class() -> Any:
    import gpureplay
    import gpureplay.ray

    class Sink(gpureplay.ray.Learner):
        """A learner that nobody tells how long to train."""

        def _open(self) -> Any:
            kind, trains = self._given["kind"], self._given["trains"]
            given = settings_of(kind)
            self.buffer = gpureplay.ReplayBuffer(device=gpureplay.Device("cpu", threads=1), **given["buffer"])
            agent = gpureplay.DQN(self.buffer, **given["agent"])
            run = gpureplay.Apex(agent, "ray_blocks:make_env", env_options={"kind": kind}, actors=0,
                                 remote_actors=FEEDERS,
                                 block_rows=KINDS[kind]["rows"], samples_per_insert=0.0 if trains else 1e-9)
            return SimpleNamespace(run=run)

        def train(self) -> None:
            self._training = self._open()
            self._is_open.set()
            self._training.run.advance(2**60)

        def spend(self) -> float:
            """CPU seconds, those of train steps among them."""
            return time.process_time()

    return Sink


class Feeder:
    """Packs blocks of noise. A rate of 0: as fast as it can."""

    def feed(self, learner: Any, actor: int, kind: str, rate: float, seconds: float) -> tuple[int, float]:
        """Blocks, and CPU seconds."""
        from gpureplay import ray as on_ray

        pack, link = Packer(kind, actor), on_ray._Link(learner, actor)
        began, cpu, count = time.perf_counter(), time.process_time(), 0
        with contextlib.suppress(on_ray._Ended):
            while time.perf_counter() - began < seconds:
                if rate and count > rate * (time.perf_counter() - began):
                    time.sleep(0.001)
                    continue
                link.take_block(*pack.next(count))
                count += 1
        return count, time.process_time() - cpu


class Packer:
    """Makes blocks that differ in their number alone."""

    def __init__(self, kind: str, actor: int):
        from gpureplay import _c_api, _config, _schema
        from gpureplay._library import check, lib

        self._lib, self._check, self._room = lib, check, 1 << 20
        buffer = dict(settings_of(kind)["buffer"])
        fields = _schema.fields_of(buffer.pop("fields"))
        self._spec = _config.make_spec(fields, buffer.pop("capacity"), None, buffer)
        self._format, self._bytes = ctypes.c_void_p(), ctypes.c_int64()
        check(lib.gpur_block_format_create(ctypes.addressof(self._spec.config), ctypes.addressof(self._format)))
        rows, random = KINDS[kind]["rows"], np.random.default_rng(actor)
        self._arrays = [np.zeros((rows, *field.shape), field.dtype) for field in self._spec.fields]
        for array in self._arrays:
            if array.dtype == np.float32:
                array[...] = random.random(array.shape)
        self._frames = random.integers(0, 255, (rows + 6, 84, 84), np.uint8)
        first = np.arange(rows)[:, None, None] + np.array([0, 3])[None, :, None] + np.arange(4)
        self._links = np.ascontiguousarray(first, np.int32)
        self._pointers = (ctypes.c_void_p * len(self._arrays))(*(array.ctypes.data for array in self._arrays))
        self._block = np.empty(self._room, np.uint8)
        self._input = given = _c_api.BlockInput()
        given.actor, given.incarnation, given.rows = actor, int(time.time()), rows
        given.fields = ctypes.addressof(self._pointers)
        if kind == "frames":
            given.frames, given.frame_data = len(self._frames), self._frames.ctypes.data
            given.links = self._links.ctypes.data

    def next(self, number: int) -> tuple[int, int]:
        """The block's address and size."""
        self._input.sequence, self._input.first_step = number, number * self._input.rows
        self._check(self._lib.gpur_block_pack(self._format, ctypes.addressof(self._input), self._block.ctypes.data,
                                              self._room, ctypes.addressof(self._bytes)))
        return self._block.ctypes.data, self._bytes.value


# Measuring.


def cpu_seconds(process: Any) -> float:
    """Of a process and of all that it started."""
    import psutil

    seconds = 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            seconds += times.user + times.system
    return seconds


def measure(kind: str, rate: float, seconds: float, trains: bool) -> dict[str, Any]:
    import psutil
    import ray

    me = psutil.Process()
    learner = ray.remote(num_cpus=1, concurrency_groups={"train": 1, "take": 1})(sink_class()).remote(
        {"kind": kind, "trains": trains, "out": None})
    training = learner.train.options(concurrency_group="train").remote()
    ray.get(learner.stats.remote())
    feeders = [ray.remote(num_cpus=1)(Feeder).remote() for _ in range(FEEDERS)]
    blocks_a_second = rate / KINDS[kind]["rows"] / FEEDERS

    def feed(time_s: float) -> list[tuple[int, float]]:
        return list(ray.get([feeder.feed.remote(learner, i, kind, blocks_a_second, time_s)
                             for i, feeder in enumerate(feeders)]))

    def counts() -> tuple[Any, Any, float, float]:
        return (ray.get(learner.stats.remote()), ray.get(learner.spend.remote()), time.perf_counter(),
                cpu_seconds(me))

    feed(3.0)  # training begins
    before = counts()
    fed = feed(seconds)
    after = counts()
    for actor in (*feeders, learner):
        ray.kill(actor)
    with contextlib.suppress(ray.exceptions.RayError):
        ray.get(training)
    elapsed = after[2] - before[2]
    rows, size = (getattr(after[0], name) - getattr(before[0], name) for name in ("rows", "bytes"))
    learner_cpu = after[1] - before[1]
    feeder_cpu = sum(cpu for _, cpu in fed)
    return {"kind": kind, "offered": rate, "trains": trains, "seconds": elapsed, "rows": rows, "bytes": size,
            "blocks": after[0].blocks - before[0].blocks, "refused": after[0].refused_blocks,
            "lost": after[0].lost_blocks, "train_steps": after[0].train_steps - before[0].train_steps,
            "append_seconds": after[0].receive_seconds - before[0].receive_seconds, "learner_cpu": learner_cpu,
            "feeder_cpu": feeder_cpu,
            "ray_cpu": max(0.0, after[3] - before[3] - learner_cpu - feeder_cpu)}


def show(one: dict[str, Any]) -> str:
    seconds, gigabytes = one["seconds"], one["bytes"] / 1e9
    cpu = one["learner_cpu"] + one["feeder_cpu"] + one["ray_cpu"]
    return (f"| {one['kind']} | {one['offered'] or 'all it can'} | {one['rows'] / seconds:,.0f} | "
            f"{one['bytes'] / seconds / 1e6:,.1f} | {one['train_steps'] / seconds:,.0f} | {cpu / gigabytes:.1f} |")


HEADER = ("| blocks of | offered, transitions/s | accepted, transitions/s | MB/s | train steps/s | CPU s for a GB |\n"
          + "|---" * 6 + "|")


def measure_all(seconds: float, hold: float) -> list[dict[str, Any]]:
    import ray

    ray.init(num_cpus=1 + FEEDERS, include_dashboard=False, log_to_driver=False, object_store_memory=400 * 2**20)
    try:
        print(HEADER)
        found = []
        for kind, rate, time_s, trains in (("frames", PAPER, hold, True), ("frames", 0, seconds, True),
                                           ("rows", 0, seconds, True), ("frames", 0, seconds, False),
                                           ("rows", 0, seconds, False)):
            found.append(measure(kind, rate, time_s, trains))
            print(show(found[-1]), flush=True)
        return found
    finally:
        ray.shutdown()


# Simulating.


def receive_cost(found: list[dict[str, Any]]) -> dict[str, float]:
    """CPU seconds for a block: of the learner, which receives it, for each size; and for a byte of Ray's own."""
    costs = {}
    for one in found:
        if not one["trains"]:
            costs[one["kind"]] = one["learner_cpu"] / one["blocks"]
            costs[f"{one['kind']} bytes"] = one["bytes"] / one["blocks"]
            costs[f"{one['kind']} ray"] = one["ray_cpu"] / one["bytes"]
    return costs


def simulate(costs: dict[str, float], kind: str, rate: float, link: float) -> dict[str, float]:
    """The paper's 360 actors make blocks at equal distances, have one call on its way, of up to four blocks, and wait
    when four more are made. What is shared: the network into the learner's machine, and the thread that receives."""
    rows, size, service = KINDS[kind]["rows"], costs[f"{kind} bytes"], costs[kind]
    actors = ACTORS
    period, random = rows * actors / rate, np.random.default_rng(1)
    seconds = max(20.0, 20 * period)
    waiting, is_away, made = np.zeros(actors, int), np.zeros(actors, bool), np.zeros(actors, bool)
    events = [(start, 0, i) for i, start in enumerate(random.random(actors) * period)]  # 0: a block is made
    heapq.heapify(events)
    network = thread = used_network = used_thread = now = 0.0
    arrived = 0
    while events and now < seconds:
        now, what, i = heapq.heappop(events)
        if what == 0:
            waiting[i] += 1
            made[i] = waiting[i] >= 4  # it acts no more
            if not made[i]:
                heapq.heappush(events, (now + period, 0, i))
        else:
            is_away[i] = False
            arrived += what
        if waiting[i] and not is_away[i]:
            count, waiting[i], is_away[i] = int(waiting[i]), 0, True
            network = max(network, now) + count * size / link
            thread = max(thread, network) + count * service
            used_network += count * size / link
            used_thread += count * service
            heapq.heappush(events, (thread, count, i))
            if made[i]:
                made[i] = False
                heapq.heappush(events, (now + period, 0, i))
    return {"accepted": arrived * rows / now, "network": min(1.0, used_network / now),
            "thread": min(1.0, used_thread / now)}


def limits(costs: dict[str, float]) -> str:
    """What each part could take alone, in transitions a second."""
    lines = ["| blocks of | bytes a transition | one receiving thread | " + " | ".join(LINKS) +
             " | CPU s of Ray for a GB |", "|---" * (4 + len(LINKS)) + "|"]
    for kind, settings in KINDS.items():
        size = costs[f"{kind} bytes"] / settings["rows"]
        network = " | ".join(f"{link / size:,.0f}" for link in LINKS.values())
        lines.append(f"| {kind} | {size:,.0f} | {settings['rows'] / costs[kind]:,.0f} | {network} | "
                     f"{costs[f'{kind} ray'] * 1e9:.1f} |")
    return "\n".join(lines)


def simulate_all(found: list[dict[str, Any]], plot: str | None) -> None:
    costs = receive_cost(found)
    shown, rates = (10_000, 100_000, 1_000_000), [10_000, PAPER, 30_000, 100_000, 300_000, 1_000_000]
    offered = " | ".join(f"accepted of {rate:,}/s" for rate in shown)
    print(f"{limits(costs)}\n\n| blocks of | network | {offered} | full first |\n{'|---' * 6}|")
    lines: dict[str, list[float]] = {}
    for kind in KINDS:
        for name, link in LINKS.items():
            all_of_it = {rate: simulate(costs, kind, rate, link) for rate in rates}
            lines[f"{kind}, {name}"] = [one["accepted"] for one in all_of_it.values()]
            last = all_of_it[rates[-1]]
            full = max(("network", "thread"), key=last.__getitem__) if max(last["network"], last["thread"]) > 0.9 \
                else "-"
            print(f"| {kind} | {name} | " +
                  " | ".join(f"{all_of_it[rate]['accepted']:,.0f}" for rate in shown) + f" | {full} |")
    if plot is not None:
        draw(rates, lines, plot)


def draw(rates: list[int], lines: dict[str, list[float]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, both = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axes, kind in zip(both, KINDS):
        axes.plot(rates, rates, color="lightgray", label="all")
        for name, accepted in lines.items():
            if name.startswith(kind):
                axes.plot(rates, accepted, marker="o", label=name.partition(", ")[2])
        axes.set(xscale="log", yscale="log", xlabel="transitions offered a second", title=f"blocks of {kind}")
        axes.legend(fontsize=8)
    both[0].set_ylabel("accepted a second (simulated)")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring, simulating = commands.add_parser("measure"), commands.add_parser("simulate")
    measuring.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    measuring.add_argument("--hold", type=float, default=60.0, help="seconds of the paper's rate")
    measuring.add_argument("--json", help="file for the result")
    simulating.add_argument("file", help="of measure --json")
    simulating.add_argument("--plot", help="file for a picture")
    given = parser.parse_args()
    if given.command == "simulate":
        simulate_all(json.loads(Path(given.file).read_text(encoding="utf-8"))["measurements"], given.plot)
        return
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    here = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    import ray_blocks  # so that workers get its classes by that name

    found = ray_blocks.measure_all(given.seconds, given.hold)
    if given.json:
        import gpureplay
        import ray

        sys.path.append(str(Path(here).parent / "peers"))
        from common import describe_machine

        document = {"title": "blocks through Ray", "machine": describe_machine(), "ray": ray.__version__,
                    "when": time.strftime("%FT%TZ", time.gmtime()), "measurements": found,
                    "build": gpureplay.lib.gpur_build_info().decode()}
        Path(given.json).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
