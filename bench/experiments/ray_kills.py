# SPDX-License-Identifier: MIT
"""Ape-X on a cluster of Ray of three nodes on this machine, with actors and nodes killed, or without."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import tempfile
import time
from typing import Any

from harness import Job, Run

ACTORS, ACTOR_KILLS, NODE_KILLS = 4, 20, 5
EVALUATIONS, EPISODES = 15, 10  # of a training; of an evaluation
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


def run(job: Job) -> Run:
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0",
                      RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
    import ray
    from gpureplay.ray import ApeX
    from ray.cluster_utils import Cluster

    steps, seed, kills = job.settings["steps"], job.seed, bool(job.options)
    place, began = tempfile.mkdtemp(prefix="gpr"), time.perf_counter()
    os.makedirs("/tmp/ray", exist_ok=True)  # where ray.init writes the cluster's address, wherever temp_dir is
    cluster = Cluster()
    try:
        cluster.add_node(**NODE, num_cpus=0, resources={"head": 2}, include_dashboard=False, temp_dir=place)
        for _ in range(2):
            cluster.add_node(**NODE, num_cpus=ACTORS)
        ray.init(address=cluster.address, log_to_driver=False)
        killer = Killer(cluster, steps, kills, seed)
        apex = ApeX(job.task, preset="apex-dqn-small", actors=ACTORS, seed=seed, device="cpu", threads=1,
                    prioritized=False, eval_episodes=EPISODES, eval_period=steps // EVALUATIONS, progress=False,
                    on_stats=killer.look,
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
    return {"steps": steps, "seconds": time.perf_counter() - began,
            "killed": killer.killed, "rows": stats.rows, "starts": stats.starts, "deaths": stats.deaths,
            "lost_blocks": stats.lost_blocks, "refused_blocks": stats.refused_blocks, "train_steps": stats.train_steps,
            "evaluations": [[int(step), float(value)] for step, value in zip(evaluations["step"],
                                                                             evaluations["mean_return"])],
            "evaluated": float(last.mean())}
