# SPDX-License-Identifier: MIT
"""Draws the learning curves of runs: python -m gpureplay.plot RUN [RUN ...] [--out FILE]. Needs matplotlib.

One run is drawn as the mean return of its last 100 episodes, of Ape-X those of the actor with the smallest epsilon, and
its evaluations with the standard deviation over their episodes. Runs whose settings differ only in their seeds and
devices are drawn as one curve: the mean over the runs, with the 95% interval of that mean. There is one picture by
environment steps and one by seconds."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._run_folder import folders_among, greediest, grouped, read_array, seconds_by, sorted_episodes

_EPISODES = 100  # of a mean
_POINTS = 200  # of a mean over runs
# Student's t at 97.5%, by the degrees of freedom from 1.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
      2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


class Curve(NamedTuple):
    """Returns by environment step and by second. spread: (count,) beside each, or None."""

    steps: np.ndarray
    seconds: np.ndarray
    returns: np.ndarray
    spread: np.ndarray | None


class Runs(NamedTuple):
    """Runs with the same settings."""

    label: str
    episodes: list[Curve]
    evaluations: list[Curve]


def seconds_at(folder: Path, steps: np.ndarray) -> np.ndarray:
    """The seconds that a run had taken at these steps, from its rates: between two rows in proportion."""
    return seconds_by(read_array(folder, "rates"), steps)


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Of the last _EPISODES values, or of as many as there are."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(0, ends - _EPISODES)
    means: np.ndarray = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def episode_rows(folder: Path) -> np.ndarray:
    """The rows of a run's episodes, in the order in which the episodes ended; the run itself reports them lane by lane.
    Of Ape-X those of the actor with the smallest epsilon, or of the first such actor.

        rows = plot.episode_rows(folder)
        seconds = plot.seconds_at(folder, rows["step"])
    """
    rows = read_array(folder, "episode")
    return sorted_episodes(rows, greediest(rows)[1])


def _episodes_of(folder: Path) -> Curve:
    rows = episode_rows(folder)
    steps = np.maximum(0, rows["step"])
    return Curve(steps, seconds_at(folder, steps), _running_mean(rows["return"]), None)


def evaluations_of(folder: Path) -> Curve:
    """The mean returns of a run's evaluations,
    with the standard deviation of each.

        curve = plot.evaluations_of(folder)
        print(curve.steps[-1], curve.returns[-1])
    """
    rows = read_array(folder, "evaluation")
    return Curve(rows["step"], seconds_at(folder, rows["step"]), rows["mean_return"], rows["return_deviation"])


def settings_of(config: dict[str, Any]) -> str:
    """What runs of one curve have in common."""
    names = ("environment", "run", "apex", "ga3c", "offline", "replay", "learner", "dpg", "actor_critic")
    parts = {name: dict(config[name]) for name in names if name in config}
    for part in parts.values():
        part.pop("seed", None)
    return json.dumps(parts, sort_keys=True)


def _label_of(config: dict[str, Any]) -> str:
    if "apex" in config:
        return f"{config['environment']['name']}, Ape-X, {config['apex']['actors']} actors"
    if "ga3c" in config:
        return f"{config['environment']['name']}, {config['ga3c']['system']}, {config['ga3c']['agents']} agents"
    if "offline" in config:
        return f"{config['environment']['name']}, {config['options']['preset']}"
    run = config["run"]
    words = {(0, 0): "standard", (1, 0): "concurrent", (0, 1): "synchronized", (1, 1): "concurrent, synchronized"}
    mode = words[bool(run["concurrent"]), bool(run["synchronized"])]
    return f"{config['environment']['name']}, W = {run['num_envs']}, {mode}"


def read_runs(folders: Sequence[str | os.PathLike[str]]) -> list[Runs]:
    """The runs by their settings, in the order given.
    Labels that would be equal get the names of the folders.

        for runs in plot.read_runs(folders):
            print(runs.label)
            x, mean, half = plot.average_evaluations(runs.evaluations, "steps")
            x, mean, half = plot.average_episodes(runs.episodes, "seconds")
    """
    groups = [(_label_of(config), members) for config, members in grouped(folders, settings_of).values()]
    labels, found = [label for label, _ in groups], []
    for label, members in groups:
        if labels.count(label) > 1:
            label = f"{label} ({members[0].name})"
        label = label.replace("$", r"\$")  # between which matplotlib reads formulas
        if len(members) > 1:
            label += f", mean of {len(members)} runs"
        found.append(Runs(label, [_episodes_of(folder) for folder in members],
                          [evaluations_of(folder) for folder in members]))
    return found


def interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """values: (runs, points).
    The mean over the runs and half the width of its 95% interval.

        mean, half = plot.interval(np.array([[1.0, 2.0], [3.0, 4.0]]))
    """
    count = len(values)
    return values.mean(axis=0), _t(count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count)


def _t(degrees: int) -> float:
    """Student's t at 97.5%. Beyond the table by its expansion [Fisher 1925], whose error is below 0.001 there."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


_Averages = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, mean, half the interval
_NOTHING: _Averages = (np.empty(0), np.empty(0), np.empty(0))


def average_episodes(curves: Sequence[Curve], by: str) -> _Averages:
    """Of several curves, where all of them have values. by: "steps" or "seconds"."""
    xs = [getattr(curve, by) for curve in curves]
    if not all(len(x) for x in xs) or max(x[0] for x in xs) > min(x[-1] for x in xs):
        return _NOTHING
    grid = np.linspace(max(x[0] for x in xs), min(x[-1] for x in xs), _POINTS)
    return grid, *interval(np.array([np.interp(grid, x, curve.returns) for x, curve in zip(xs, curves)]))


def average_evaluations(curves: Sequence[Curve], by: str) -> _Averages:
    """At the steps at which all runs were evaluated; seconds are the mean of theirs."""
    steps = functools.reduce(np.intersect1d, [curve.steps for curve in curves])
    places = [np.searchsorted(curve.steps, steps) for curve in curves]
    if not len(steps):
        return _NOTHING
    x = np.mean([getattr(curve, by)[at] for curve, at in zip(curves, places)], axis=0)
    return x, *interval(np.array([curve.returns[at] for curve, at in zip(curves, places)]))


def _draw_one(axes: Any, runs: Runs, by: str, color: str) -> None:
    (episodes,), (evaluations,) = runs.episodes, runs.evaluations
    axes.plot(getattr(episodes, by), episodes.returns, color=color, linewidth=1, label=runs.label)
    axes.errorbar(getattr(evaluations, by), evaluations.returns, evaluations.spread, color=color, fmt="o", markersize=4,
                  capsize=3, alpha=0.7)


def _draw_mean(axes: Any, runs: Runs, by: str, color: str) -> None:
    x, mean, half = average_episodes(runs.episodes, by)
    axes.plot(x, mean, color=color, linewidth=1.5, label=runs.label)
    axes.fill_between(x, mean - half, mean + half, color=color, alpha=0.2, linewidth=0)
    x, mean, half = average_evaluations(runs.evaluations, by)
    if len(x):
        axes.errorbar(x, mean, half, color=color, fmt="o", markersize=4, capsize=3, alpha=0.7)


def draw(folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Draws the runs in these folders to the picture `out`."""
    groups = read_runs(folders)
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("gpureplay.plot draws with matplotlib, which is not installed; `pip install "
                                  "matplotlib`", name=error.name) from error
    figure = Figure(figsize=(12, 5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, by, label in ((left, "steps", "environment steps"), (right, "seconds", "seconds")):
        for number, runs in enumerate(groups):
            (_draw_one if len(runs.episodes) == 1 else _draw_mean)(axes, runs, by, f"C{number % 10}")
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    left.set_ylabel(f"return: mean of {_EPISODES} episodes; dots: evaluations")
    left.legend(loc="best", fontsize="small")
    figure.savefig(out, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gpureplay.plot", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="the folder of a run")
    parser.add_argument("--out", metavar="FILE", help="the picture (curve.png in RUN, or in the folder "
                        "that all are in)")
    given = parser.parse_args()
    runs = folders_among(given.runs)
    try:
        out = given.out or os.path.join(os.path.commonpath([os.path.abspath(run) for run in runs]), "curve.png")
        draw(runs, out)
    except (OSError, ValueError, KeyError, ImportError) as error:
        print(f"python -m gpureplay.plot: {error}", file=sys.stderr)
        return 2
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
