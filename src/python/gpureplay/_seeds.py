# SPDX-License-Identifier: MIT
"""--seeds: runs side by side, each a process of this program with a folder of its own."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ._device import WITHOUT_CUDA
from ._door import program
from ._library import InvalidArgument
from ._options import flag_of
from ._progress import show
from ._run_folder import FILE, read_array
from ._train import Training, train

_MAX_SEEDS = 1024
_FAILED, _INTERRUPTED = 2, 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def _read_seeds(text: str) -> range:
    found = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not 0 <= last - first < _MAX_SEEDS:
        raise InvalidArgument(f"--seeds is \"{text}\"; it must be A-B, whole numbers from A to B, at most {_MAX_SEEDS} "
                              "of them")
    return range(first, last + 1)


def _folder_of(given: dict[str, Any]) -> str:
    """Of a run with these arguments of `train`. Refuses what `train` refuses before anything runs."""
    bound = inspect.signature(train).bind(**given)
    bound.apply_defaults()
    training = Training({**bound.arguments, **bound.arguments["options"]})
    with contextlib.closing(training):
        training.create()
        return given["out"] or str(training._folder)


def _last_evaluation(folder: str) -> str:
    with contextlib.suppress(OSError, ValueError, IndexError):
        last = read_array(folder, "evaluation")[-1]
        return f", mean return {last['mean_return']:.7g} of the evaluation after {last['step']} steps"
    return ""


def _end_of(folder: str, status: int) -> str:
    """A run that was interrupted before its first step has neither a checkpoint nor a learner, and begins again."""
    how = {0: "done", _INTERRUPTED: "interrupted"}.get(status, "failed")
    if status == _INTERRUPTED and not os.path.exists(folder):
        return f"{how} before it began"
    learner, checkpoint, options = (Path(folder, name).exists() for name in ("learner.safetensors", "checkpoint", FILE))
    goes_on = status != 0 and (checkpoint or (status == _INTERRUPTED and options and not learner))
    return f"{how}{_last_evaluation(folder) if status != _FAILED else ''}; {'--resume ' if goes_on else ''}{folder}"


class _Runs:
    """folders: by seed. words: of all runs. Signals go on to all processes, which are in groups of their own and do not
    get those of a terminal."""

    def __init__(self, folders: dict[int, str], words: list[str], quiet: bool):
        self._folders, self._words, self._quiet = folders, words, quiet
        self._running: dict[int, tuple[int, subprocess.Popen[bytes]]] = {}  # by process
        self._stopped = False
        self._prctl = getattr(ctypes.CDLL(None), "prctl", None)  # not on macOS
        for number in _SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(number, self._forward)

    def _forward(self, number: int, _frame: Any) -> None:
        if self._stopped and number == signal.SIGHUP:  # a terminal that is closed often sends it twice
            return
        if not self._stopped and not self._quiet:
            with contextlib.suppress(OSError):
                os.write(2, b"\nstopping the runs; once more ends them at once\n")
        self._stopped = True
        for _, process in self._running.values():
            process.send_signal(signal.SIGTERM)  # which ends one quietly that does not listen yet

    def _start(self, seed: int) -> None:
        before, parent = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS), os.getpid()
        once = [] if seed == next(iter(self._folders)) else ["-W", f"ignore:{WITHOUT_CUDA}"]  # said by the first

        def begin() -> None:
            os.setpgid(0, 0)
            if self._prctl:
                self._prctl(_END_WITH_PARENT, signal.SIGTERM)  # a run whose parent is killed is interrupted, too
            if os.getppid() != parent:
                os._exit(_INTERRUPTED)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

        try:
            process = subprocess.Popen([sys.executable, *once, *program().split()[1:], "--quiet", *self._words,
                                        f"--out={self._folders[seed]}", f"--seed={seed}"], preexec_fn=begin)
            self._running[process.pid] = seed, process
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _wait(self) -> int:
        """For one to end. Returns its exit status."""
        pid, how = os.wait()
        while pid not in self._running:  # of an environment that the parent made
            pid, how = os.wait()
        seed, process = self._running.pop(pid)
        status = process.returncode = os.waitstatus_to_exitcode(how)
        if status != 0:
            status = _INTERRUPTED if status in (_INTERRUPTED, -signal.SIGINT, -signal.SIGTERM) else _FAILED
        if not self._quiet:
            show(f"seed {seed}: {_end_of(self._folders[seed], status)}")
        return status

    def to_the_end(self, at_once: int) -> int:
        """Returns the worst exit status."""
        waiting, statuses = list(self._folders), set()
        while self._running or (waiting and not self._stopped):
            if waiting and not self._stopped and len(self._running) < at_once:
                self._start(waiting.pop(0))
            else:
                statuses.add(self._wait())
        return _FAILED if _FAILED in statuses else _INTERRUPTED if waiting or _INTERRUPTED in statuses else 0


def train_seeds(given: dict[str, Any]) -> int:
    """given: the options by their keywords, as texts. Each run is a new one. Returns the exit status."""
    text = given.pop("seeds")
    for name in ("resume", "engine", "seed"):
        if name in given:
            raise InvalidArgument(f"--seeds is {text}, and {flag_of(name)} is given, too; it must be left out")
    seeds, quiet, out = _read_seeds(text), given.pop("quiet", False), given.pop("out", "")
    if given.get("threads", "0") == "0":
        given["threads"] = "1"  # a run would take all cores
    folders = {seed: _folder_of({**given, "seed": seed, "out": out and f"{out}-{seed}"}) for seed in seeds}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    at_once = max(1, cores // int(float(given["threads"])))
    if not quiet:
        show(f"{len(seeds)} run{'s' * (len(seeds) > 1)}, at most {at_once} at a time, with --threads "
             f"{given['threads']}")
    words = [flag_of(name) if value is True else f"{flag_of(name)}={value}" for name, value in given.items()]
    return _Runs(folders, words, quiet).to_the_end(at_once)
