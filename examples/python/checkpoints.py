# SPDX-License-Identifier: MIT
"""Checkpoints of a run: the replay, the learner and the run's own counters of one moment, in a folder that is there as
a whole or not at all, wherever the program or the machine stops."""

import json
import os
import shutil
from pathlib import Path


def save(folder, step, buffer, agent, run):
    """run: whatever JSON takes. The checkpoints before go when this one is there: it wants the room of two."""
    whole = Path(folder) / f"checkpoint-{step:012}"
    if whole.exists():
        return
    part = whole.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        _write(part, buffer, agent, run)
        part.rename(whole)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    _sync(whole.parent)
    for old in set(whole.parent.glob("checkpoint-*")) - {whole}:
        shutil.rmtree(old, ignore_errors=True)


def _write(part, buffer, agent, run):
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
