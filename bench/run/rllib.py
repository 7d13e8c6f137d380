#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ape-X of this library beside RLlib's DQN with prioritized replay and remote environments, on one machine.

    python3 -m venv build/rllib
    build/rllib/bin/pip install "ray[rllib]" torch psutil .
    build/rllib/bin/python bench/run/rllib.py --json rllib.json

All train on CartPole: two processes act, and one learns with a layer of 128 units, a dueling head of 128, returns of 3
steps, and priorities with alpha 0.6 and beta 0.4. Each transition is learned 8 times, in batches of 32 and of 512. Ours
acts in Gymnasium's environment, as RLlib does, and in its own. RLlib has no Ape-X any more; its DQN acts and learns by
turns.

Counted are the transitions that the learner receives and those that it learns a second, and the CPU seconds of all
processes for a million of either, from when training has begun, in several rounds, each system in turn.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))
from common import describe_machine  # noqa: E402

PEER = "RLlib"
SYSTEMS = {"Ape-X, Gymnasium's CartPole": "gymnasium:CartPole-v1", "Ape-X, the library's CartPole": "CartPole-v1",
           PEER: None}
ACTORS, SAMPLES_PER_INSERT, MIN_SIZE, BATCHES = 2, 8, 5_000, (32, 512)


def cpu_seconds(process: Any) -> float:
    """Of a process and of all that it started."""
    import psutil

    seconds = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
            seconds += times.user + times.system
        except psutil.NoSuchProcess:
            pass
    return seconds


def run_rllib(batch: int, seconds: float) -> list[float]:
    """Transitions received and learned, seconds, and CPU seconds."""
    import logging

    import psutil
    import ray
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    ray.init(num_cpus=ACTORS + 1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    config = (DQNConfig().environment("CartPole-v1")
              .env_runners(num_env_runners=ACTORS, rollout_fragment_length=50)
              .training(train_batch_size_per_learner=batch, training_intensity=SAMPLES_PER_INSERT, n_step=3, lr=2.5e-4,
                        num_steps_sampled_before_learning_starts=MIN_SIZE,
                        replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer", "capacity": 100_000,
                                              "alpha": 0.6, "beta": 0.4})
              .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[128], head_fcnet_hiddens=[128])))
    algorithm, me = config.build_algo(), psutil.Process()

    def counts() -> tuple[float, ...]:
        result = algorithm.train()
        learned = result.get("learners", {}).get("__all_modules__", {}).get("num_env_steps_trained_lifetime", 0)
        return result["num_env_steps_sampled_lifetime"], learned, time.perf_counter(), cpu_seconds(me)

    first = counts()
    while not first[1]:
        first = counts()
    last = counts()
    while last[2] - first[2] < seconds:
        last = counts()
    algorithm.stop()
    ray.shutdown()
    return [b - a for a, b in zip(first, last)]


def run_ours(env: str, batch: int, seconds: float) -> list[float]:
    """The same, between two rows of the run's rates."""
    import psutil

    with tempfile.TemporaryDirectory() as folder:
        rates = Path(folder) / "run/rates.csv"
        command = [sys.executable, "-m", "gpureplay.train", "--env", env, "--preset", "apex-dqn-small", "--actors",
                   str(ACTORS), "--processes", "1", "--eval-episodes", "0", "--batch", str(batch),
                   "--samples-per-insert", str(SAMPLES_PER_INSERT), "--prepopulation", str(MIN_SIZE), "--steps",
                   "1000000000", "--checkpoint", "0", "--device", "cpu", "--threads", "1", "--seed", "1", "--quiet",
                   "--out", str(rates.parent)]
        with subprocess.Popen(command) as process:
            moments: list[tuple[dict[str, str], float]] = []
            while process.poll() is None:
                rows = list(csv.DictReader(rates.read_text().splitlines())) if rates.exists() else []
                rows = [row for row in rows if float(row["train_steps"]) > 0]
                if len(rows) > len(moments):
                    moments = [*moments, (rows[-1], cpu_seconds(psutil.Process(process.pid)))]
                if moments and float(moments[-1][0]["seconds"]) - float(moments[0][0]["seconds"]) >= seconds:
                    process.send_signal(signal.SIGINT)
                    process.wait()
                time.sleep(0.02)
        if len(moments) < 2:
            raise RuntimeError(f"{env} ended with status {process.returncode} before it had trained {seconds} s")
    first, last = (moments[i][0] for i in (0, -1))
    elapsed = float(last["seconds"]) - float(first["seconds"])
    learned = (float(last["train_steps"]) - float(first["train_steps"])) * batch
    return [float(last["step"]) - float(first["step"]), learned, elapsed, moments[-1][1] - moments[0][1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        system, batch = given.one[0], int(given.one[1])
        env = SYSTEMS[system]
        print(json.dumps(run_ours(env, batch, given.seconds) if env else run_rllib(batch, given.seconds)))
        return
    samples: dict[str, list[list[float]]] = {f"{system}, batches of {batch}": [] for batch in BATCHES
                                             for system in SYSTEMS}
    for _ in range(given.rounds):
        for batch in BATCHES:
            for system in SYSTEMS:
                command = [sys.executable, __file__, "--seconds", str(given.seconds), "--one", system, str(batch)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                samples[f"{system}, batches of {batch}"].append(json.loads(done.stdout.splitlines()[-1]))
    print("| system | received a second | learned a second | CPU seconds for a million received | for a million "
          "learned |\n" + "|---" * 5 + "|")
    for name, found in samples.items():
        cells = [statistics.median(values) for values in zip(*((received / seconds, learned / seconds,
                                                                1e6 * cpu / received, 1e6 * cpu / learned)
                                                               for received, learned, seconds, cpu in found))]
        print(f"| {name} | " + " | ".join(f"{value:,.0f}" for value in cells) + " |")
    if given.json:
        import ray
        result = {"title": "Ape-X beside RLlib", "machine": describe_machine(), "ray": ray.__version__,
                  "when": time.strftime("%FT%TZ", time.gmtime()),
                  "columns": ["transitions received", "transitions learned", "seconds", "CPU seconds"],
                  "samples": samples}
        Path(given.json).write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
