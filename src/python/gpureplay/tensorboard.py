# SPDX-License-Identifier: MIT
"""Converts the files of runs for TensorBoard: python -m gpureplay.tensorboard RUN [RUN ...]. Needs the package
tensorboard, and neither TensorFlow nor PyTorch. With --follow it goes on with what the runs add, until Ctrl-C.
Trainings in Python need neither: they write the same while they run, but of episodes at most twenty a second.

Each RUN gets a folder "tensorboard", which is made anew: `tensorboard --logdir RUN` shows it. Curves are by environment
step: episode/return, evaluation/mean_return, rates/env_steps_per_second, ... Episodes of the prepopulation, which end
before step 1, and of Ape-X those of all actors but the one with the smallest epsilon, are left out."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ._run_folder import Table, file_of, folders_among, greediest, seconds_by, sorted_episodes

_NOT_CURVES = ("seconds", "step", "lane", "actor", "agent", "episodes")
_PERIOD = 30.0  # seconds between two looks at runs that are followed
_LIVE_SPACING = 0.05  # seconds between episodes of a training that writes its own events
_OWN_SUFFIX = ".gpureplay"  # of the names of its files: what else lies there is kept
_Row = tuple[float, int, dict[str, float]]  # (seconds, step, {tag: value})


class _Curves:
    """The rows of a run's curves, as they come. spacing: the seconds of which one episode is taken; 0: all are."""

    def __init__(self, folder: Path, spacing: float = 0.0):
        self._spacing, self._second = spacing, -1.0
        self._config = file_of(folder, "config.json")  # written when a run begins, and when it is resumed
        self._version = self._config.stat().st_mtime_ns
        self._tables = {kind: Table(folder, kind) for kind in ("episode", "evaluation", "rates")}
        self._rates: list[np.ndarray] = []
        self._greediest = (math.inf, -1)

    def read(self) -> list[_Row] | None:
        """Those since the last call. None: begin anew, as rows were cut off, or another actor is the greediest."""
        new = {kind: table.read() for kind, table in self._tables.items()}
        self._rates = [np.concatenate([*self._rates, new["rates"]])]
        before = self._greediest
        self._greediest = min(before, greediest(new["episode"]))
        if self._greediest != before and before[0] < math.inf:
            return None
        new["episode"] = sorted_episodes(new["episode"], self._greediest[1])
        rows = [row for kind in self._tables for row in self._rows(kind, new[kind])]
        return rows if self._config.stat().st_mtime_ns == self._version else None

    def _rows(self, kind: str, rows: np.ndarray) -> list[_Row]:
        rows = rows[rows["step"] > 0]
        seconds = seconds_by(self._rates[0], rows["step"])
        if kind == "episode" and self._spacing > 0:
            taken = np.diff(seconds // self._spacing, prepend=self._second // self._spacing) != 0
            self._second = seconds[-1] if len(seconds) else self._second
            rows, seconds = rows[taken], seconds[taken]
        columns = {f"{kind}/{name}": rows[name].tolist() for name in rows.dtype.names or () if name not in _NOT_CURVES}
        return [(second, step, {tag: float(values[i]) for tag, values in columns.items() if not math.isnan(values[i])})
                for i, (second, step) in enumerate(zip(seconds.tolist(), rows["step"].tolist()))]


def _began(folder: Path) -> float:
    """When a run without interruptions would have begun: its last row of rates was written at its last second."""
    rates = Table(folder, "rates").read()
    return os.path.getmtime(folder / "rates.csv") - (float(rates["seconds"][-1]) if len(rates) else 0.0)


class _Events:
    """The events of a run in the folder `target`, where those that are there are removed. is_live: the run's own
    training writes them, which leaves files of others in that folder."""

    def __init__(self, folder: Path, out: str | os.PathLike[str] | None = None, is_live: bool = False):
        try:
            self._event: Any = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
            self._summary: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2").Summary
            self._make: Any = importlib.import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("gpureplay.tensorboard writes with the package tensorboard, which is not "
                                      "installed; `pip install tensorboard`", name=error.name) from error
        self._folder, self._is_live, self._is_given = folder, is_live, out is not None
        self.target = Path(out) if out is not None else folder / "tensorboard"
        self._begin()
        self.go_on()

    def _begin(self) -> None:
        self._curves, self._start = _Curves(self._folder, _LIVE_SPACING * self._is_live), _began(self._folder)
        if not self._is_live and not self._is_given and self.target.is_dir():
            shutil.rmtree(self.target)
        for old in self.target.glob(f"events.out.tfevents.*{_OWN_SUFFIX * self._is_live}"):
            old.unlink()
        self._writer = self._make(str(self.target), filename_suffix=_OWN_SUFFIX)
        self._file = max(self.target.glob("events.out.tfevents.*"), key=os.path.getmtime)

    def go_on(self) -> None:
        """Adds what the run has written since."""
        rows = self._curves.read()
        while rows is None or (self._is_live and not self._file.exists()):  # another program has converted the run
            self._writer.close()
            self._begin()
            rows = self._curves.read()
        for seconds, step, values in rows:
            summary = self._summary(value=[self._summary.Value(tag=tag, simple_value=value)
                                           for tag, value in values.items()])
            self._writer.add_event(self._event(wall_time=self._start + seconds, step=step, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class LiveEvents:
    """The events of a training, as it runs. warn: gets why they cannot be written."""

    def __init__(self, folder: Path, warn: Callable[[str], None]):
        self._folder, self._warn = folder, warn
        self._events: _Events | None = None
        self._bytes = self._bytes_of_rates()
        self._has_failed = False

    def _bytes_of_rates(self) -> int:
        return os.path.getsize(self._folder / "rates.csv")

    def look(self) -> None:
        """Adds what there is when there are new rates, every five seconds."""
        if self._has_failed:
            return
        try:
            found = self._bytes_of_rates()
            if found == self._bytes:
                return
            self._bytes = found
            if self._events is None:
                self._events = _Events(self._folder, is_live=True)
            else:
                self._events.go_on()
        except Exception as error:  # also of a package tensorboard that does not work here; the training does
            self._has_failed = True
            self._warn(f"no further events for TensorBoard are written: {type(error).__name__}: {error}")

    def close(self) -> None:
        self.look()
        if self._events is not None and not self._has_failed:
            self._events.close()


def convert(folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Writes the events of a run to `out`, by default its folder "tensorboard", and returns that. Events that are there
    are removed.

        tensorboard.convert("runs/CartPole-1")
    """
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
            runs.append(_Events(Path(run)))
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
