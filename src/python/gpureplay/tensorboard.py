# SPDX-License-Identifier: MIT
"""Converts the files of runs for TensorBoard: python -m gpureplay.tensorboard RUN [RUN ...]. Needs the package
tensorboard, and neither TensorFlow nor PyTorch.

Each RUN gets a folder "tensorboard", which is made anew: `tensorboard --logdir RUN` shows it. Curves are by environment
step: episode/return, evaluation/mean_return, rates/env_steps_per_second, ... Episodes of the prepopulation, which end
before step 1, and of Ape-X those of all actors but the one with the smallest epsilon, are left out."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._run_folder import COLUMNS, read_array
from .plot import episode_rows, seconds_at

_NOT_CURVES = ("seconds", "step", "lane", "actor", "agent", "episodes")


def _curves(folder: Path) -> Iterator[tuple[float, int, dict[str, float]]]:
    """(seconds, step, {tag: value}) of each row."""
    for kind in COLUMNS:
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


def convert(folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Writes the events of a run to `out`, by default its folder "tensorboard", and returns that. Events that are there
    are removed."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("gpureplay.tensorboard writes with the package tensorboard, which is not installed; "
                                  "`pip install tensorboard`", name=error.name) from error
    folder = Path(folder)
    target, began = Path(out) if out is not None else folder / "tensorboard", _began(folder)
    curves = list(_curves(folder))
    if out is None and target.is_dir():
        shutil.rmtree(target)
    for old in target.glob("events.out.tfevents.*"):
        old.unlink()
    writer: Any = EventFileWriter(str(target))
    for seconds, step, values in curves:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        writer.add_event(Event(wall_time=began + seconds, step=step, summary=summary))
    writer.close()
    return target


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gpureplay.tensorboard", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="the folder of a run")
    try:
        for run in parser.parse_args().runs:
            print(convert(run))
    except (OSError, ValueError, ImportError) as error:
        print(f"python -m gpureplay.tensorboard: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
