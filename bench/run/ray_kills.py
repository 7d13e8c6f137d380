#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ape-X on a cluster of Ray of three nodes on this machine, with actors and nodes killed, beside the same without.

    python3 -m venv build/rllib
    build/rllib/bin/pip install ray .
    build/rllib/bin/python bench/run/ray_kills.py --json ray_kills.json

Each training is that of "apex-dqn-small" in MinAtar/Breakout with four actors. 20 actors are killed by the ids of their
processes, and 5 times a node with all that runs on it, for which another one joins: at random moments, evenly over the
steps. The learner is on a node that stays. Counted are what was lost and what was refused, and the mean return of the
last episodes of the actor with the smallest epsilon.
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
import tempfile
import time
from pathlib import Path
from typing import Any

ENV, ACTORS, ACTOR_KILLS, NODE_KILLS = "MinAtar/Breakout", 4, 20, 5
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
        if processes:  # else they are all being started again: the next look finds some
            os.kill(self._random.choice(processes), signal.SIGKILL)
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
        apex = ApeX(ENV, preset="apex-dqn-small", actors=ACTORS, seed=seed, device="cpu", threads=1, eval_episodes=0,
                    progress=False, on_stats=killer.look, resources={
                        "learner": {"num_cpus": 0, "resources": {"head": 1}},
                        "actor": {"num_cpus": 1, "scheduling_strategy": "SPREAD"}})
        result = apex.train(steps)
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(place, ignore_errors=True)
    stats, episodes = result.stats, result.episodes
    greediest = episodes["return"][(episodes["actor"] == ACTORS - 1) & (episodes["step"] > steps * 5 // 6)]
    return {"kills": kills, "seed": seed, "seconds": time.perf_counter() - began, "killed": killer.killed,
            "rows": stats.rows, "starts": stats.starts, "deaths": stats.deaths, "lost_blocks": stats.lost_blocks,
            "refused_blocks": stats.refused_blocks, "train_steps": stats.train_steps, "episodes": len(greediest),
            "return": float(greediest.mean()) if len(greediest) else None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300_000, help="of each training")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kills", type=int, choices=(0, 1), help="1: only with kills, 0: only without")
    parser.add_argument("--json", help="file for the result")
    given = parser.parse_args()
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0",
                      RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    found = []
    print("| kills of actors, nodes | seed | steps | deaths seen | lost blocks | refused | return | minutes |\n"
          + "|---" * 8 + "|")
    for seed in range(1, given.seeds + 1):
        for kills in [kills for kills in (False, True) if given.kills in (None, int(kills))]:
            found.append(one := train(given.steps, kills, seed))
            value = "-" if one["return"] is None else f"{one['return']:.2f}"
            print(f"| {one['killed']['actor']}, {one['killed']['node']} | {seed} | {one['rows']:,} | {one['deaths']} | "
                  f"{one['lost_blocks']} | {one['refused_blocks']} | {value} | {one['seconds'] / 60:.1f} |", flush=True)
    for kills in (False, True):
        returns = [one["return"] for one in found if one["kills"] == kills and one["return"] is not None]
        if len(returns) > 1:
            print(f"{'with' if kills else 'without'} kills: {statistics.mean(returns):.2f}, deviation "
                  f"{statistics.stdev(returns):.2f}")
    if given.json:
        Path(given.json).write_text(json.dumps({"trainings": found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
