# SPDX-License-Identifier: MIT
"""What all experiments share: jobs that can be stopped and go on, one file of their results, its tables, its picture.

`run` does what is not in --out yet, each run in a process with one thread, --jobs at the same time. It can be stopped
and started again, also on another machine with --done, and begins those anew that were not finished. A result holds the
settings. `collect` makes one file of the results, which names commit, time and machine of the collecting: collect where
the runs were made, or name their commit in GPUREPLAY_COMMIT. `table` and `plot` read that file, and need nothing else.

Systems are compared by two metrics: the mean return of the episodes that ended in the last steps of the training, which
the networks of many moments have played, and an evaluation of the last network. By each, the criterion holds for a
difference of two systems if the lower end of its 95% interval is above the lowest allowed: -10% (lanes: -25%) of what
the second one gained over a random player.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
# Student's t at 97.5%, by the degrees of freedom from 1 to 31.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
         2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042, 2.040)
BINS = 60  # of a curve
METRICS = {"last": "the last episodes", "evaluated": "the evaluations"}
RANDOM = "Random"
Run = dict[str, Any]


class Job(NamedTuple):
    """One training."""

    experiment: str
    system: str
    task: str
    seed: int
    settings: dict[str, Any]
    options: list[str]
    folder: Path  # where it may write
    train: str    # the program that trains


class System(NamedTuple):
    """A system of an experiment: it trains by `run`, which gives what it has found, with `options` of its own."""

    run: Callable[[Job], Run]
    options: list[str] = []


class Experiment(NamedTuple):
    """base: the system that the others are compared with; first: the one that is compared with the others; without
    either, each is compared with each. choice: seeds of all systems, of which the best one goes on, and is compared on
    the other seeds. kinds: of the systems whose names begin so the seeds of `choice` choose one each. random: gives the
    returns of a random player of a task. lowest: the lowest difference allowed, as a share of the gain over that
    player. enough: the seeds end once the half of each interval is at most this share of that gain, after FEWEST of
    them; 0: all are run. metrics: how tables name the two."""

    tasks: tuple[str, ...]
    systems: dict[str, System]
    seeds: tuple[int, ...]
    settings: dict[str, Any]
    base: str = ""
    first: str = ""
    choice: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    random: Callable[[str], list[float]] | None = None
    lowest: float = -0.1
    enough: float = 0.0
    metrics: dict[str, str] = METRICS
    jobs: int | None = None  # None: as many as there are cores


FEWEST = 5  # seeds


def t_975(values: int) -> float:
    """Student's t at 97.5% for the mean of so many values."""
    if not 2 <= values <= len(T_975) + 1:
        raise ValueError(f"an interval of {values} values; there must be 2 to {len(T_975) + 1}")
    return T_975[values - 2]


def interval(x: list[float], y: list[float]) -> tuple[float, float]:
    """The difference of the means, and half of its 95% interval [Welch 1947, with the smaller degrees of freedom]."""
    t = t_975(min(len(x), len(y)))
    variance = statistics.variance(x) / len(x) + statistics.variance(y) / len(y)
    return statistics.mean(x) - statistics.mean(y), t * math.sqrt(variance)


# Results.


def values_of(runs: list[Run], key: str) -> list[float]:
    return [one[key] for one in runs if key in one]


def of(runs: list[Run], system: str, task: str, seeds: tuple[int, ...] = ()) -> list[Run]:
    return [one for one in runs if one["system"] == system and one.get("game", task) == task and
            (not seeds or one["seed"] in seeds)]


def chance_of(runs: list[Run], system: str, task: str, seeds: tuple[int, ...] = ()) -> list[float]:
    """Returns of a random player that was run by itself; or else what the runs of a system say of theirs."""
    for one in of(runs, RANDOM, task):
        return list(one["returns"])
    return values_of(of(runs, system, task, seeds), "random")


def pairs_of(experiment: Experiment, systems: list[str]) -> list[tuple[str, str]]:
    """The systems whose differences are asked for: the first minus the second."""
    if experiment.first:
        return [(experiment.first, system) for system in systems if system != experiment.first]
    if experiment.base in systems:
        return [(system, experiment.base) for system in systems if system != experiment.base]
    return list(itertools.combinations(systems, 2))


def is_enough(experiment: Experiment, runs: list[Run]) -> bool:
    """All systems have FEWEST seeds or more, and no interval is too wide."""
    for task, pair in itertools.product(experiment.tasks, pairs_of(experiment, list(experiment.systems))):
        mine, theirs = (values_of(of(runs, name, task), "evaluated") for name in pair)
        if min(len(mine), len(theirs)) < FEWEST:
            return False
        gain = statistics.mean(theirs) - statistics.mean(chance_of(runs, pair[1], task))
        if interval(mine, theirs)[1] > experiment.enough * gain:
            return False
    return True


def chosen_of(experiment: Experiment, runs: list[Run]) -> list[str]:
    """The systems that are compared. Where seeds choose: of each kind the one with the largest mean of its returns,
    each divided by the largest in its task; or the one with the largest return of the last episodes, and the base."""
    if not experiment.choice:
        return list(experiment.systems)

    def mean(system: str, task: str) -> float:
        metrics = METRICS if experiment.kinds else ("last",)
        mine = of(runs, system, task, experiment.choice)
        return statistics.mean(statistics.mean(values_of(mine, metric)) for metric in metrics)

    largest = {task: max(mean(system, task) for system in experiment.systems) for task in experiment.tasks}

    def score(system: str) -> float:
        return statistics.mean(mean(system, task) / largest[task] for task in experiment.tasks)

    others = [system for system in experiment.systems if system != experiment.base]
    if not experiment.kinds:
        return [max(others, key=score), experiment.base]
    return [max((name for name in others if name.startswith(kind)), key=score) for kind in experiment.kinds]


def collected(one: Run) -> Run:
    """A run with its curve, and the mean returns of the random steps and of the last steps, with the number of the
    latter, in place of episodes."""
    if "episodes" in one:
        settings, episodes = one.pop("settings"), one.pop("episodes")
        steps = settings["steps"]
        one["curve"] = [round(value, 3) for value in curve_of(episodes, steps, settings.get("bins", BINS))]
        first = [gain for step, gain in episodes if step <= 0]
        if first:
            one["random"] = statistics.mean(first)
        last = [gain for step, gain in episodes if steps - settings["last_steps"] < step <= steps]
        one["last"], one["last_episodes"] = statistics.mean(last), len(last)
    return one


def curve_of(episodes: list[tuple[int, float]], steps: int, parts: int = BINS) -> list[float]:
    """Mean return of the episodes that ended in each of so many parts of the steps; where none did, that before."""
    bins: list[list[float]] = [[] for _ in range(parts)]
    for step, gain in episodes:
        if 0 < step <= steps:
            bins[min(int((step - 1) / (steps / parts)), parts - 1)].append(gain)
    curve: list[float] = []
    for part in bins:
        curve.append(statistics.mean(part) if part else curve[-1] if curve else 0.0)
    return curve


# Commands.


def file_of(out: str, system: str, task: str, seed: int) -> Path:
    name = "".join(x if x.isalnum() else "-" for x in f"{system} {task} {seed}")
    return Path(out) / f"{name}.json"


def found_in(out: str) -> list[Run]:
    return [collected(json.loads(path.read_text())) for path in sorted(Path(out).glob("*.json"))]


def write(path: Path, result: Any) -> None:
    path.with_suffix(".part").write_text(json.dumps(result).replace('{"system"', '\n{"system"') + "\n")
    path.with_suffix(".part").rename(path)


def one(experiment: Experiment, given: argparse.Namespace) -> None:
    path, system = file_of(given.out, given.system, given.task, given.seed), experiment.systems[given.system]
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path.with_suffix(""), ignore_errors=True)  # of a run that was stopped
    job = Job(given.experiment, given.system, given.task, given.seed, experiment.settings, system.options,
              path.with_suffix(""), given.train)
    write(path, {"system": given.system, "game": given.task, "seed": given.seed, "settings": experiment.settings,
                 "options": system.options, **system.run(job)})


def run_some(experiment: Experiment, given: argparse.Namespace, systems: list[str], seeds: tuple[int, ...]) -> None:
    """Each in a process of its own, so that one thread is all that a run has."""
    def start(system: str, task: str, seed: int) -> None:
        command = [sys.executable, sys.argv[0], "one", given.experiment, "--train", given.train, "--out", given.out,
                   "--system", system, "--task", task, "--seed", str(seed)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
        found = collected(json.loads(file_of(given.out, system, task, seed).read_text()))
        print(f"{system}, {task}, seed {seed}: {found.get('last', found.get('evaluated')):.2f}", flush=True)

    with ThreadPoolExecutor(given.jobs or experiment.jobs or os.cpu_count() or 1) as pool:
        wanted = [(system, task, seed) for seed in seeds for task in experiment.tasks for system in systems
                  if not file_of(given.out, system, task, seed).exists()]
        for future in [pool.submit(start, *what) for what in wanted]:
            future.result()


def run(experiment: Experiment, given: argparse.Namespace) -> None:
    Path(given.out).mkdir(parents=True, exist_ok=True)
    for done in json.loads(given.done.read_text())["runs"] if given.done and given.done.exists() else ():
        path = file_of(given.out, done["system"], done["game"], done.get("seed", 0))
        if not path.exists():
            write(path, done)
    seeds = given.seeds or experiment.seeds
    for task in experiment.tasks if experiment.random else ():
        path = file_of(given.out, RANDOM, task, 0)
        if not path.exists():
            write(path, {"system": RANDOM, "game": task, "returns": experiment.random(task)})
    if experiment.choice and not given.seeds:
        run_some(experiment, given, list(experiment.systems), experiment.choice)
    if given.systems:
        run_some(experiment, given, given.systems, given.seeds or experiment.seeds[:FEWEST])
        return
    systems = list(experiment.systems) if given.seeds else chosen_of(experiment, found_in(given.out))
    if not experiment.enough or given.seeds:
        run_some(experiment, given, systems, seeds)
        return
    for seed in seeds:
        if is_enough(experiment, [one for one in found_in(given.out) if one.get("seed", 0) < seed]):
            break
        run_some(experiment, given, systems, (seed,))


def collect(experiment: Experiment, given: argparse.Namespace) -> None:
    """One file of all runs, with those that it has already and --out has not."""
    sys.path.append(str(HERE.parent / "peers"))
    from common import describe_machine

    def name_of(one: Run) -> tuple[str, str, int]:
        return one["system"], one["game"], one.get("seed", 0)

    runs = found_in(given.out)
    names = [name_of(one) for one in runs]
    if given.file.exists():
        runs = [one for one in json.loads(given.file.read_text())["runs"] if name_of(one) not in names] + runs
    machine = describe_machine()
    write(given.file, {"title": "learning", "experiment": given.experiment, "commit": machine.pop("commit"),
                       "when": time.strftime("%FT%TZ", time.gmtime()), "machine": machine,
                       "settings": experiment.settings, "runs": runs})


# Tables.


def spread(values: list[float]) -> str:
    if len(values) < 2:
        return "".join(f"{value:.2f}" for value in values)
    return f"{statistics.mean(values):.2f}, {statistics.stdev(values):.2f}"


def middle(values: list[float], digits: int = 0) -> str:
    return f"{statistics.median(values):,.{digits}f}" if values else ""


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Without the columns in which there is nothing."""
    kept = [i for i, _ in enumerate(head) if any(row[i] for row in rows)]
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row[i] for i in kept)} |")
    print()


def row_of(runs: list[Run], task: str, system: str, seeds: tuple[int, ...], steps: int) -> list[str]:
    mine, above = of(runs, system, task, seeds), ""
    last, evaluated, seconds = (values_of(mine, key) for key in ("last", "evaluated", "seconds"))
    for chance in (one["returns"] for one in of(runs, RANDOM, task) if last):
        error = statistics.stdev(chance) / math.sqrt(len(chance))
        above = str(sum(value > statistics.mean(chance) + 10 * error for value in last))
    ran = sorted({one["seed"] for one in mine})
    middling = f"{statistics.median(evaluated):.2f}; {min(evaluated):.2f}, {max(evaluated):.2f}" if evaluated else ""
    return [task, system, f"{ran[0]} to {ran[-1]}, {len(mine)}", spread(last), above, spread(evaluated), middling,
            middle(values_of(mine, "age")), middle(seconds, 1), middle(values_of(mine, "wall_seconds"), 1),
            f"{statistics.median(seconds) / steps * 1e6:,.0f}" if seconds and steps else ""]


def table(experiment: Experiment, given: argparse.Namespace) -> None:
    """First the seeds that choose, if any do; then the systems that are compared, and their differences."""
    runs, rows, differences = json.loads(given.file.read_text())["runs"], [], []
    chosen, seeds = chosen_of(experiment, runs), experiment.seeds if experiment.choice else ()
    wanted = [(system, experiment.choice) for system in experiment.systems if experiment.choice]
    for task in experiment.tasks:
        rows += [row_of(runs, task, system, those, experiment.settings.get("steps", 0))
                 for system, those in [*wanted, *((system, seeds) for system in chosen)]
                 if of(runs, system, task, those)]
        chance = chance_of(runs, chosen[-1], task, seeds)
        rows += [[task, "random player", f"{len(chance)} values", spread(chance), *[""] * 7]] if chance else []
        for pair, metric in itertools.product(pairs_of(experiment, chosen), experiment.metrics):
            differences += difference_of(experiment, runs, task, pair, metric, seeds)
    print_table(["task", "system", "seeds", f"return of {experiment.metrics['last']}, and deviation",
                 "above random by 10 errors",
                 "evaluated at the end, and deviation", "median; lowest, highest", "age of the acting weights, "
                 "train steps", "seconds a run, median", "by the clock", "seconds a million steps"], rows)
    if differences:
        print_table(["task", "difference", "by", "its 95% interval", "half of it, as a share of the gain",
                     "lowest allowed", "criterion"], differences)


def difference_of(experiment: Experiment, runs: list[Run], task: str, pair: tuple[str, str], metric: str,
                  seeds: tuple[int, ...]) -> list[list[str]]:
    """One row, or none where there are too few runs."""
    mine, theirs = (values_of(of(runs, name, task, seeds), metric) for name in pair)
    if min(len(mine), len(theirs)) < 2:
        return []
    found, half = interval(mine, theirs)
    row = [task, " minus ".join(pair), experiment.metrics[metric],
           f"{found:+.2f} ({found - half:+.2f} to {found + half:+.2f})"]
    chance = chance_of(runs, pair[1], task, seeds)
    if not chance:
        return [[*row, "", "", ""]]
    gain = statistics.mean(theirs) - statistics.mean(chance)
    holds = found - half > experiment.lowest * gain
    return [[*row, f"{half / gain:.0%}", f"{experiment.lowest * gain:+.2f}", "holds" if holds else "fails"]]


def plot(experiment: Experiment, given: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs, tasks = json.loads(given.file.read_text())["runs"], experiment.tasks
    seeds = experiment.seeds if experiment.kinds else ()
    figure, axes = plt.subplots(1, len(tasks), figsize=(5 * len(tasks), 3.6), squeeze=False)
    for axis, task in zip(axes[0], tasks):
        for number, system in enumerate(chosen_of(experiment, runs) if experiment.kinds else experiment.systems):
            curves = [one["curve"] for one in of(runs, system, task, seeds)]
            if not curves:
                continue
            bins = len(curves[0])
            steps = [(i + 1) * experiment.settings["steps"] / bins for i in range(bins)]
            mean = [statistics.mean(values) for values in zip(*curves)]
            half = [t_975(len(values)) * statistics.stdev(values) / math.sqrt(len(values))
                    if len(values) > 1 else 0.0 for values in zip(*curves)]
            line, = axis.plot(steps, mean, "-" if number < 10 else "--", label=f"{system} ({len(curves)} seeds)")
            axis.fill_between(steps, [m - h for m, h in zip(mean, half)], [m + h for m, h in zip(mean, half)],
                              color=line.get_color(), alpha=0.2)
        axis.set(title=task, xlabel="environment steps", ylabel="return of the episodes while training")
        axis.locator_params(axis="x", nbins=5)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(given.file.with_suffix(".png"), dpi=80)


def main(experiments: dict[str, Experiment], text: str) -> None:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function in (run, one, collect, table, plot):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        command.add_argument("experiment", choices=sorted(experiments))
        if function in (run, one):
            command.add_argument("--train", default="build/bench/examples/gpureplay-train")
        if function in (run, one, collect):
            command.add_argument("--out", help="folder of the results (build/experiments/EXPERIMENT)")
        if function in (collect, table, plot):
            command.add_argument("file", type=Path)
        if function is run:
            command.add_argument("--jobs", type=int)
            command.add_argument("--seeds", type=lambda text: tuple(int(seed) for seed in text.split(",")),
                                 help="these of all systems, separated by commas")
            command.add_argument("--systems", type=lambda text: text.split(","),
                                 help=f"these alone, separated by commas, by the first {FEWEST} seeds or --seeds")
            command.add_argument("--done", type=Path, help="a file of `collect`, whose runs are not done again")
        if function is one:
            command.add_argument("--system", required=True)
            command.add_argument("--task", required=True)
            command.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    if getattr(given, "out", "") is None:
        given.out = f"build/experiments/{given.experiment}"
    given.function(experiments[given.experiment], given)
