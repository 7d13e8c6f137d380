# SPDX-License-Identifier: MIT
"""Converts the files of runs for TensorBoard: python -m gpureplay.tensorboard RUN [RUN ...]. Needs the package
tensorboard, and neither TensorFlow nor PyTorch. With --follow it goes on with what the runs add, until Ctrl-C.

Each RUN gets a folder "tensorboard", which is made anew: `tensorboard --logdir RUN` shows it. Curves are by environment
step: episode/return, evaluation/mean_return, rates/env_steps_per_second, ... Episodes of the prepopulation, which end
before step 1, and of Ape-X those of all actors but the one with the smallest epsilon, are left out."""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._run_folder import folders_among, read_array
from .plot import episode_rows, seconds_at

_NOT_CURVES = ("seconds", "step", "lane", "actor", "agent", "episodes")
_PERIOD = 30.0  # seconds between two looks at runs that are followed
_Row = tuple[float, int, dict[str, float]]  # (seconds, step, {tag: value})


def _curves(folder: Path) -> Iterator[_Row]:
    for kind in ("episode", "evaluation", "rates"):
        rows = episode_rows(folder) if kind == "episode" else read_array(folder, kind)
        rows = rows[rows["step"] > 0]
        tags = [name for name in rows.dtype.names or () if name not in _NOT_CURVES]
        for seconds, row in zip(seconds_at(folder, rows["step"]), rows):
            values = {f"{kind}/{name}": float(row[name]) for name in tags}
            yield float(seconds), int(row["step"]), {tag: value for tag, value in values.items()
                                                     if not math.isnan(value)}


def _began(folder: Path) -> float:
    """When a run without interruptions would have begun: its last row of rates was written at its last second."""
    rates = read_array(folder, "rates")
    return os.path.getmtime(folder / "rates.csv") - (float(rates["seconds"][-1]) if len(rates) else 0.0)


class _Events:
    """The events of a run in the folder `target`, where those that are there are removed."""

    def __init__(self, folder: Path, out: str | os.PathLike[str] | None):
        try:
            self._event: Any = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
            self._summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
            writer: Any = importlib.import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("gpureplay.tensorboard writes with the package tensorboard, which is not "
                                      "installed; `pip install tensorboard`", name=error.name) from error
        self._folder, self.target = folder, Path(out) if out is not None else folder / "tensorboard"
        self._began, self._written = _began(folder), collections.Counter[Any]()
        rows = list(_curves(folder))
        if out is None and self.target.is_dir():
            shutil.rmtree(self.target)
        for old in self.target.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = writer(str(self.target))
        self._add(rows)

    def _add(self, rows: list[_Row]) -> None:
        """Those that were not there before."""
        found = collections.Counter[Any]()
        for seconds, step, values in rows:
            key = (step, *values.items())
            found[key] += 1
            if found[key] <= self._written[key]:
                continue
            self._written[key] += 1
            summary = self._summary(value=[self._summary.Value(tag=tag, simple_value=value)
                                           for tag, value in values.items()])
            self._writer.add_event(self._event(wall_time=self._began + seconds, step=step, summary=summary))
        self._writer.flush()

    def go_on(self) -> None:
        """Adds what the run has written since."""
        self._add(list(_curves(self._folder)))

    def close(self) -> None:
        self._writer.close()


def convert(folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Writes the events of a run to `out`, by default its folder "tensorboard", and returns that. Events that are there
    are removed."""
    events = _Events(Path(folder), out)
    events.close()
    return events.target


def _follow(runs: list[_Events]) -> None:
    """Until Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(_PERIOD)
            for run in runs:
                run.go_on()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gpureplay.tensorboard", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="the folder of a run")
    parser.add_argument("--follow", action="store_true", help="go on with what the runs add, until Ctrl-C")
    given = parser.parse_args()
    try:
        runs = []
        for run in folders_among(given.runs):
            runs.append(_Events(Path(run), None))
            print(runs[-1].target, flush=True)
        if given.follow:
            _follow(runs)
        for events in runs:
            events.close()
    except (OSError, ValueError, ImportError) as error:
        print(f"python -m gpureplay.tensorboard: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
