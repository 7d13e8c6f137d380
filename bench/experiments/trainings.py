# SPDX-License-Identifier: MIT
"""Trainings by gpureplay-train, or by `python -m gpureplay.train`: both write the same files, which are read here."""

from __future__ import annotations

import contextlib
import csv
import functools
import os
import shlex
import signal
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from harness import Job, Run, System

KILLS = 100


def rows_of(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with open(file, newline="") as lines:
        return list(csv.DictReader(lines))


def words_of(job: Job) -> list[str]:
    s = job.settings
    words = ["--env", job.task, *job.options, "--steps", str(s["steps"]), "--seed", str(job.seed), "--out",
             str(job.folder), "--device", "cpu", "--threads", "1", "--eval-episodes",
             str(s["eval_episodes"].get(job.task, 0)), "--checkpoint", "0"]
    is_ga3c = any(preset in job.options for preset in ("ga3c-small", "a3c-small", "a2c-small"))
    return words if is_ga3c else [*words, "--eval-period", "0"]


def train_by_package(job: Job) -> None:
    """With the loss of squares: the programs have no option for the learner's loss."""
    import gpureplay

    def value(text: str) -> Any:
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(text)
        return text

    words = words_of(job)
    settings = {name[2:].replace("-", "_"): value(text) for name, text in zip(words[::2], words[1::2])}
    gpureplay.train(agent={"loss": "squared"}, progress=False, **settings)


def train_by_program(job: Job, kills: int = 0) -> None:
    command = [*shlex.split(job.train), *words_of(job), "--quiet"]
    with subprocess.Popen(command) as process:
        kill_actors(process, job, kills)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def kill_actors(process: subprocess.Popen[bytes], job: Job, kills: int) -> None:
    """Kills a random one of its actors at each of so many random steps, soon after the run has reported it. None is in
    the last tenth, so that the run reports all of them."""
    draw = Random(job.seed)
    moments = sorted(draw.uniform(0, 0.9 * job.settings["steps"]) for _ in range(kills))
    while moments and process.poll() is None:
        rows = rows_of(job.folder / "rates.csv")
        if rows and int(rows[-1]["step"]) >= moments[0]:
            threads = Path(f"/proc/{process.pid}/task").glob("*/children")  # of the thread that started them
            actors = [child for thread in threads for child in thread.read_text().split()]
            if actors:
                os.kill(int(draw.choice(actors)), signal.SIGKILL)
                moments.pop(0)
        time.sleep(draw.uniform(0.0, 1.0))


def run(job: Job, train: Callable[[Job], None] = train_by_program) -> Run:
    train(job)
    episodes, evaluations = rows_of(job.folder / "episodes.csv"), rows_of(job.folder / "evaluations.csv")
    found = {"episodes": [(int(row["step"]), float(row["return"])) for row in episodes],
             "seconds": float(rows_of(job.folder / "rates.csv")[-1]["seconds"])}
    return found | ({"evaluated": float(evaluations[-1]["mean_return"])} if evaluations else {})


def run_actors(job: Job, train: Callable[[Job], None] = train_by_program) -> Run:
    """Of Ape-X: the episodes of the actor with the smallest epsilon, the age of the weights that acted, as the median
    since training began, and what the run says of its actors' ends."""
    found, last = run(job, train), int(job.options[job.options.index("--actors") + 1]) - 1
    found["episodes"] = [(int(row["step"]), float(row["return"])) for row in rows_of(job.folder / "episodes.csv")
                         if int(row["actor"]) == last]
    ends = [row for row in rows_of(job.folder / "actors.csv") if row["event"] == "ended" and row["asked"] == "0"]
    ages = [float(row["weights_age"]) for row in rows_of(job.folder / "rates.csv")
            if int(row["train_steps"]) > 0 and row["weights_age"]]
    lost = {name: sum(int(row[name]) for row in ends) for name in ("lost_blocks", "lost_rows")}
    return found | lost | {"deaths": len(ends), "age": statistics.median(ages)}


def by(options: str) -> System:
    """A system that trains with these options."""
    return System(run, options.split())


def by_package(options: str) -> System:
    return System(functools.partial(run, train=train_by_package), options.split())


def by_actors(options: str, kills: int = 0) -> System:
    return System(functools.partial(run_actors, train=functools.partial(train_by_program, kills=kills)),
                  options.split())
