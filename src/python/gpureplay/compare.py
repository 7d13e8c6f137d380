# SPDX-License-Identifier: MIT
"""Compares runs: python -m gpureplay.compare RUN [RUN ...] [--out FILE].

Runs of one environment, one preset and the same settings, which differ in their seeds, are a row of the table: the mean
over the runs of the last evaluation until a step that all runs in the environment have reached, with the 95% interval
of that mean by Student's t. Atari games have the mean in percent, too, where 0 is the score of random play and 100 that
of a human. With matplotlib the evaluations are also drawn, by environment steps."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ._door import end_without_reader, program
from ._run_folder import folders_among, grouped
from ._scores import human_normalized
from .plot import Curve, average_episodes, evaluations_of, interval, settings_of

_OWN = ("preset", "device", "threads", "seed", "steps", "checkpoint")  # no names of settings


class Row(NamedTuple):
    """Runs of an environment with the same settings. half: of the interval, NaN for one run. percent: NaN for other
    environments than Atari's."""

    env: str
    label: str
    runs: int
    step: int
    mean: float
    half: float
    percent: float


class Group(NamedTuple):
    env: str
    label: str
    evaluations: list[Curve]
    folders: list[Path]


def _options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config["options"].items() if name not in _OWN}


def _labels(configs: Sequence[Mapping[str, Any]], folders: Sequence[Path]) -> list[str]:
    """The preset of each, with the options in which those of one environment and preset differ, or else with a name of
    a folder."""
    labels = []
    for config, folder in zip(configs, folders):
        kin = [_options_of(other) for other in configs if _kind_of(other) == _kind_of(config)]
        own, preset = _options_of(config), config["options"]["preset"]
        words = [f"{name}={value}" for name, value in own.items() if any(other.get(name) != value for other in kin)]
        labels.append(" ".join([preset, *(words or ([folder.name] if len(kin) > 1 else []))]))
    return labels


def _kind_of(config: Mapping[str, Any]) -> tuple[str, str]:
    return config["environment"]["name"], config["options"]["preset"]


def read_groups(folders: Sequence[str | os.PathLike[str]]) -> list[Group]:
    """The runs that have an evaluation, by environment, preset and settings.
    ValueError: there are none.

        groups = compare.read_groups(folders)
        for line in compare.left_out(groups, folders) + compare.repeated_seeds(folders):
            print(line)
        print(compare.table_of(compare.rows_of(groups)))
    """
    groups = grouped(folders, lambda config: (*_kind_of(config), settings_of(config)))
    found = []
    for key in sorted(groups):
        config, runs = groups[key]
        curves = {folder: curve for folder in runs if len((curve := evaluations_of(folder)).steps)}
        if curves:
            found.append((config, curves))
    if not found:
        raise ValueError(f"{', '.join(map(str, folders))}: no evaluation yet; a run that is compared must have one")
    configs = [config for config, _ in found]
    labels = _labels(configs, [next(iter(curves)) for _, curves in found])
    return [Group(_kind_of(config)[0], label, list(curves.values()), list(curves))
            for (config, curves), label in zip(found, labels)]


def left_out(groups: Sequence[Group], folders: Sequence[str | os.PathLike[str]]) -> list[str]:
    """A sentence for the runs that are in no group."""
    compared = {folder for group in groups for folder in group.folders}
    missing = [str(folder) for folder in folders if Path(folder) not in compared]
    return [f"{', '.join(missing)}: no evaluation yet, and not compared"] if missing else []


def repeated_seeds(folders: Sequence[str | os.PathLike[str]]) -> list[str]:
    """A sentence for runs that differ in nothing, which are no sample of what seeds do."""
    runs = grouped(folders, lambda config: (*_kind_of(config), settings_of(config), config["options"].get("seed")))
    return [f"{', '.join(map(str, equal))}: these runs have the same seed and settings, and count as {len(equal)} "
            "runs; leave all but one out" for _, equal in runs.values() if len(equal) > 1]


def rows_of(groups: Sequence[Group]) -> list[Row]:
    """At equal steps in each environment, the best first. ValueError: a run has no evaluation until then."""
    rows = []
    for group in groups:
        step, shortest = min((int(curve.steps[-1]), folder) for other in groups if other.env == group.env
                             for curve, folder in zip(other.evaluations, other.folders))
        for curve, folder in zip(group.evaluations, group.folders):
            if curve.steps[0] > step:
                raise ValueError(f"{folder} has its first evaluation after {curve.steps[0]} steps, and {shortest} its "
                                 f"last one after {step}; leave one of the two out")
        values = np.array([curve.returns[int((curve.steps <= step).sum()) - 1] for curve in group.evaluations])
        mean, half = interval(values) if len(values) > 1 else (values[0], math.nan)
        rows.append(Row(group.env, group.label, len(values), step, float(mean), float(half),
                        human_normalized(group.env, float(mean))))
    return sorted(rows, key=lambda row: (row.env, -row.mean))


def table_of(rows: Sequence[Row]) -> str:
    """With a row for each preset's median over its games, where there are several of Atari."""
    def number(value: float, digits: int = 4) -> str:
        return "-" if math.isnan(value) else f"{value:.{digits}g}"

    cells = [["environment", "preset", "runs", "steps", "mean return", "95% interval", "% of human"]]
    cells += [[row.env, row.label, str(row.runs), str(row.step), number(row.mean, 6),
               "-" if math.isnan(row.half) else f"+- {number(row.half)}", number(row.percent)] for row in rows]
    for label in dict.fromkeys(row.label for row in rows):
        percents = [row.percent for row in rows if row.label == label and not math.isnan(row.percent)]
        if len(percents) > 1:
            median = number(float(np.median(percents)))
            cells.append([f"median of {len(percents)} games", label, "", "", "", "", median])
    if all(math.isnan(row.percent) for row in rows):
        cells = [line[:-1] for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join("  ".join(cell.ljust(width) if column < 2 else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in cells)


def draw(groups: Sequence[Group], out: str | os.PathLike[str]) -> None:
    """A picture for each environment, with the mean of the evaluations of each group and its interval."""
    from matplotlib.figure import Figure

    envs = list(dict.fromkeys(group.env for group in groups))
    figure = Figure(figsize=(6 * min(3, len(envs)), 4.5 * math.ceil(len(envs) / 3)), layout="constrained")
    pictures = figure.subplots(math.ceil(len(envs) / 3), min(3, len(envs)), squeeze=False).flat
    for axes, env in zip(pictures, envs):
        for group in (group for group in groups if group.env == env):
            first = group.evaluations[0]
            several = len(group.evaluations) > 1
            x, mean, half = average_episodes(group.evaluations, "steps") if several else (first.steps, first.returns, 0)
            (line,) = axes.plot(x, mean, linewidth=1.5, label=group.label.replace("$", r"\$"))
            axes.fill_between(x, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.set_title(env.replace("$", r"\$"))
        axes.set_xlabel("environment steps")
        axes.set_ylabel("mean return of an evaluation")
        axes.grid(alpha=0.3)
        axes.legend(loc="best", fontsize="small")
    for axes in pictures:
        axes.set_visible(False)
    figure.savefig(out, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(prog=program("compare"), description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="the folder of a run")
    parser.add_argument("--out", metavar="FILE", help="the picture (compare.png in the folder that all are in)")
    given = parser.parse_args()
    runs = folders_among(given.runs)
    try:
        groups = read_groups(runs)
        print(table_of(rows_of(groups)), flush=True)
        for sentence in left_out(groups, runs) + repeated_seeds(runs):
            print(sentence, file=sys.stderr)
        folders = {os.path.dirname(os.path.abspath(run)) for run in runs}
        out = given.out or os.path.join(os.path.commonpath(sorted(folders)), "compare.png")
        draw(groups, out)
        print(out, flush=True)
    except BrokenPipeError:
        return end_without_reader()
    except ModuleNotFoundError:
        print("no picture, which matplotlib draws: pip install matplotlib", file=sys.stderr)
    except (OSError, ValueError, KeyError) as error:
        print(f"{program('compare')}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
