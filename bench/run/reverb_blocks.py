#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `ray_blocks.py measure` counts, by Reverb's server: transitions that processes hand to a replay on one machine.

    python3.11 -m venv build/reverb && build/reverb/bin/pip install -r bench/peers/requirements-reverb.txt psutil
    build/reverb/bin/python bench/run/reverb_blocks.py --json reverb_blocks.json

Four processes write, as fast as they can, transitions of three steps of stacks of 84 x 84 frames, each frame once, or
of rows of 27 floats, each with a priority, to a server in a process of its own. A fifth one samples batches of 32 by
priority and updates their priorities, or does nothing. Counted are transitions that the server has, bytes as
ray_blocks.py counts them, and CPU seconds of all five and the server.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))
from common import describe_machine  # noqa: E402

FEEDERS, BATCH, UNSENT = 4, 32, 128
KINDS = {"frames": {"shape": (84, 84), "dtype": "uint8", "steps": 7, "capacity": 20_000, "bytes": 7957},
         "rows": {"shape": (27,), "dtype": "float32", "steps": 2, "capacity": 200_000, "bytes": 236}}


def serve(kind: str, port: Any, ended: Any) -> None:
    import reverb

    table = reverb.Table("transitions", reverb.selectors.Prioritized(0.6), reverb.selectors.Fifo(),
                         KINDS[kind]["capacity"], reverb.rate_limiters.MinSize(1))
    server = reverb.Server([table])
    port.value = server.port
    ended.wait()
    server.stop()


def feed(kind: str, port: int, number: int, ended: Any) -> None:
    """An item has the frames of both observations, the first four and the last four of seven; or two rows."""
    import reverb

    random, steps = np.random.default_rng(number), KINDS[kind]["steps"]
    observations = (random.random((64, *KINDS[kind]["shape"])) * 255).astype(KINDS[kind]["dtype"])
    writer = reverb.Client(f"localhost:{port}").trajectory_writer(num_keep_alive_refs=steps)
    count = 0
    while not ended.is_set():
        writer.append({"obs": observations[count % 64], "action": np.int32(1), "reward": np.float32(0.5),
                       "discount": np.float32(0.99)})
        count += 1
        if count >= steps:
            past = writer.history
            writer.create_item("transitions", 1.0 + count % 7, {
                "obs": past["obs"][-steps:], "action": past["action"][-steps:][:1], "reward": past["reward"][-1:],
                "discount": past["discount"][-1:]})
        if count % UNSENT == 0:
            writer.flush(UNSENT // 2)
    writer.close()


def sample(port: int, batches: Any, ended: Any) -> None:
    import reverb

    client = reverb.Client(f"localhost:{port}")
    while not ended.is_set():
        keys = [one.info.key for one in client.sample("transitions", BATCH, emit_timesteps=False)]
        client.mutate_priorities("transitions", {key: 2.0 for key in keys})
        batches.value += 1


def measure(kind: str, samples: bool, seconds: float) -> dict[str, Any]:
    import psutil
    import reverb

    context = multiprocessing.get_context("spawn")
    port, batches, ended = context.Value("i", 0), context.Value("i", 0), context.Event()
    server = context.Process(target=serve, args=(kind, port, ended))
    server.start()
    while not port.value:
        time.sleep(0.1)
    workers = [context.Process(target=feed, args=(kind, port.value, i, ended)) for i in range(FEEDERS)]
    workers += [context.Process(target=sample, args=(port.value, batches, ended))] if samples else []
    for worker in workers:
        worker.start()
    client = reverb.Client(f"localhost:{port.value}")

    def counts() -> tuple[int, int, float, float]:
        inserted = client.server_info()["transitions"].rate_limiter_info.insert_stats.completed
        spent = [psutil.Process(one.pid).cpu_times() for one in (server, *workers)]
        return inserted, batches.value, time.perf_counter(), sum(one.user + one.system for one in spent)

    while client.server_info()["transitions"].current_size < KINDS[kind]["capacity"] // 4:
        time.sleep(0.1)
    time.sleep(5)
    before = counts()
    time.sleep(seconds)
    rows, drawn, elapsed, cpu = (b - a for a, b in zip(before, counts()))
    ended.set()
    for one in (*workers, server):
        one.join(20)
        one.kill()
    return {"kind": kind, "samples": samples, "seconds": elapsed, "rows": rows, "bytes": rows * KINDS[kind]["bytes"],
            "batches": drawn, "cpu_seconds": cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--json", help="file for the result")
    given = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    print("| transitions of | accepted, transitions/s | MB/s | batches sampled/s | CPU seconds for a GB |\n"
          + "|---" * 5 + "|")
    found = []
    for kind, samples in (("frames", True), ("frames", False), ("rows", True), ("rows", False)):
        one = measure(kind, samples, given.seconds)
        found.append(one)
        print(f"| {kind} | {one['rows'] / one['seconds']:,.0f} | {one['bytes'] / one['seconds'] / 1e6:,.1f} | "
              f"{one['batches'] / one['seconds']:,.0f} | {one['cpu_seconds'] / one['bytes'] * 1e9:.1f} |", flush=True)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"title": "Reverb", "reverb": importlib.metadata.version("dm-reverb"),
                       "machine": describe_machine(), "when": time.strftime("%FT%TZ", time.gmtime()),
                       "measurements": found}, file, indent=1)


if __name__ == "__main__":
    main()
