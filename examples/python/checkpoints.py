# SPDX-License-Identifier: MIT
"""Checkpoints of a run: the replay, the learner and the run's own counters of one moment, in a folder that is there as
a whole or not at all, wherever the program or the machine stops."""

import json
import os
import shutil
import sys
from pathlib import Path

import gpureplay


def save(folder, step, buffer, agent, run):
    """run: whatever JSON takes. The checkpoints before go when this one is there: it wants the room of two."""
    whole = Path(folder) / f"checkpoint-{step:012}"
    if whole.exists():
        return
    part = whole.with_suffix(".part")
    try:
        _write(part, buffer, agent, run)
        part.rename(whole)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    _sync(whole.parent)
    for old in set(whole.parent.glob("checkpoint-*")) - {whole}:
        shutil.rmtree(old, ignore_errors=True)


def try_out(folder, buffer, agent):
    """Writes what `save` would write now, and takes it away again: so that a folder which takes no checkpoints ends the
    program before there is something to lose. That the library saves none is said."""
    part = Path(folder) / "checkpoint-try.part"
    try:
        _write(part, buffer, agent, {})
    except gpureplay.Unavailable as error:
        print(f"there will be no checkpoints: {error}")
    except (gpureplay.FileError, OSError) as error:
        sys.exit(f"checkpoints cannot be written to {folder}: {error}")
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(part, buffer, agent, run):
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    buffer.save(part / "replay.safetensors")
    agent.save(part / "learner.safetensors")
    with open(part / "run.json", "w") as file:
        json.dump(run, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    _sync(part)


def newest(folder):
    """The last whole one, or None."""
    return max((path for path in Path(folder).glob("checkpoint-*") if not path.suffix), default=None)


def load(path, buffer, agent):
    """What `save` was given as `run`, with buffer and agent as they were."""
    buffer.load(path / "replay.safetensors")
    agent.load(path / "learner.safetensors")
    return settings(path)


def settings(path):
    """`run` alone."""
    return json.loads((path / "run.json").read_text())


def _sync(folder):
    """Its names are on the disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
