#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ape-X on a cluster of Ray of three nodes on this machine, with actors and nodes killed, beside the same without.

    python3 -m venv build/rllib
    build/rllib/bin/pip install ray .
    build/rllib/bin/python bench/run/ray_kills.py --json ray_kills.json

Each training is that of "apex-dqn-small" in MinAtar/Freeway with four actors and uniform draws, whose returns vary less
there than those by priority. 20 actors are killed by the ids of their processes, and 5 times a node with all that runs
on it, for which another one joins: at random moments, evenly over the steps. The learner is on a node that stays, and
so is the actor that evaluates. Counted are what was lost and what was refused, and the mean return of the evaluations
in the last third of the steps. Kills do no harm if the lower end of the 95% interval of the difference is above -10% of
what is gained over the random player.

Trainings that are in the file already are not made again, so that it can be stopped and started again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))
from common import describe_machine  # noqa: E402
from learning import interval  # noqa: E402

ENV, ACTORS, ACTOR_KILLS, NODE_KILLS = "MinAtar/Freeway", 4, 20, 5
EVALUATIONS, EPISODES = 15, 10  # of a training; of an evaluation
RANDOM = 0.07  # mean return of the random player: bench/results/cpu-amd-epyc/ape_x.json
NODE = {"object_store_memory": 150 * 2**20}


class Killer:
    """Kills what is due when so many steps have come. `look` is on_stats."""

    def __init__(self, cluster: Any, steps: int, kills: bool, seed: int):
        self._cluster, self._random = cluster, random.Random(seed)
        kinds = ["actor"] * ACTOR_KILLS + ["node"] * NODE_KILLS if kills else []
        self._random.shuffle(kinds)
        self._due = [(steps * (i + 0.5 + self._random.random()) / (len(kinds) + 1), kind)
                     for i, kind in enumerate(kinds)]
        self._nodes_missing: list[float] = []
        self.killed = {"actor": 0, "node": 0}

    def look(self, stats: dict[str, Any]) -> None:
        if self._nodes_missing and time.monotonic() > self._nodes_missing[0]:
            self._nodes_missing.pop(0)
            self._cluster.add_node(**NODE, num_cpus=ACTORS)
        if not self._due or stats["rows"] < self._due[0][0]:
            return
        if self._due[0][1] == "actor":
            self._kill_actor()
        else:
            self._kill_node()

    def _kill_actor(self) -> None:
        import ray

        processes = [info["Pid"] for info in ray._private.state.actors().values()
                     if info["ActorClassName"] == "Actor" and info["State"] == "ALIVE" and info["Pid"]]
        try:
            os.kill(self._random.choice(processes), signal.SIGKILL)
        except (IndexError, ProcessLookupError):  # they are being started again, or died with a node: the next look
            return
        self.killed["actor"] += 1
        self._due.pop(0)

    def _kill_node(self) -> None:
        nodes = sorted(self._cluster.worker_nodes, key=id)
        if len(nodes) > 1:
            self._cluster.remove_node(self._random.choice(nodes), allow_graceful=False)
            self._nodes_missing.append(time.monotonic() + 5)
            self.killed["node"] += 1
            self._due.pop(0)


def train(steps: int, kills: bool, seed: int) -> dict[str, Any]:
    import ray
    from gpureplay.ray import ApeX
    from ray.cluster_utils import Cluster

    place, began = tempfile.mkdtemp(prefix="gpr"), time.perf_counter()
    os.makedirs("/tmp/ray", exist_ok=True)  # where ray.init writes the cluster's address, wherever temp_dir is
    cluster = Cluster()
    try:
        cluster.add_node(**NODE, num_cpus=0, resources={"head": 2}, include_dashboard=False, temp_dir=place)
        for _ in range(2):
            cluster.add_node(**NODE, num_cpus=ACTORS)
        ray.init(address=cluster.address, log_to_driver=False)
        killer = Killer(cluster, steps, kills, seed)
        apex = ApeX(ENV, preset="apex-dqn-small", actors=ACTORS, seed=seed, device="cpu", threads=1, prioritized=False,
                    eval_episodes=EPISODES, eval_period=steps // EVALUATIONS, progress=False, on_stats=killer.look,
                    resources={
                        "learner": {"num_cpus": 0, "resources": {"head": 1}},
                        "actor": {"num_cpus": 1, "scheduling_strategy": "SPREAD"}})
        result = apex.train(steps)
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(place, ignore_errors=True)
    stats, evaluations = result.stats, result.evaluations
    if kills and killer.killed != {"actor": ACTOR_KILLS, "node": NODE_KILLS}:
        raise RuntimeError(f"only {killer.killed} were killed before the training ended")
    last = evaluations["mean_return"][evaluations["step"] > steps * 2 // 3]
    return {"kills": kills, "seed": seed, "steps": steps, "seconds": time.perf_counter() - began,
            "killed": killer.killed, "rows": stats.rows, "starts": stats.starts, "deaths": stats.deaths,
            "lost_blocks": stats.lost_blocks, "refused_blocks": stats.refused_blocks, "train_steps": stats.train_steps,
            "evaluations": [[int(step), float(value)] for step, value in zip(evaluations["step"],
                                                                             evaluations["mean_return"])],
            "return": float(last.mean())}


def print_difference(found: list[dict[str, Any]]) -> None:
    killed, whole = ([one["return"] for one in found if one["kills"] == kills] for kills in (True, False))
    if min(len(killed), len(whole)) < 2:
        return
    for name, returns in (("without kills", whole), ("with kills", killed)):
        print(f"{name}: {statistics.mean(returns):.2f}, deviation {statistics.stdev(returns):.2f}, of {len(returns)}")
    difference, half = interval(killed, whole)
    print(f"difference: {difference:+.2f} ({difference - half:+.2f} to {difference + half:+.2f}); allowed "
          f"{-0.1 * (statistics.mean(whole) - RANDOM):+.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150_000, help="of each training")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--json", help="file for the result, written after each training")
    given = parser.parse_args()
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0",
                      RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    found: list[dict[str, Any]] = []
    if given.json and Path(given.json).exists():
        found = json.loads(Path(given.json).read_text(encoding="utf-8"))["trainings"]
    done = {(one["seed"], one["kills"], one["steps"]) for one in found}
    print("| kills of actors, nodes | seed | steps | deaths seen | lost blocks | refused | return | minutes |\n"
          + "|---" * 8 + "|")
    for seed in range(1, given.seeds + 1):
        for kills in (False, True):
            if (seed, kills, given.steps) in done:
                continue
            found.append(one := train(given.steps, kills, seed))
            print(f"| {one['killed']['actor']}, {one['killed']['node']} | {seed} | {one['rows']:,} | {one['deaths']} | "
                  f"{one['lost_blocks']} | {one['refused_blocks']} | {one['return']:.2f} | "
                  f"{one['seconds'] / 60:.1f} |", flush=True)
            if given.json:
                write_report(given.json, found)
    print_difference(found)


def write_report(path: str, found: list[dict[str, Any]]) -> None:
    machine = describe_machine()
    document = {"title": "ray kills", "commit": machine.pop("commit"),
                "when": time.strftime("%FT%TZ", time.gmtime()), "machine": machine, "env": ENV, "trainings": found}
    Path(path).write_text(json.dumps(document).replace('{"kills"', '\n{"kills"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
