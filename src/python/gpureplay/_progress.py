# SPDX-License-Identifier: MIT
"""What a run shows while it goes on: the progress line, and the rows of rates.csv."""

from __future__ import annotations

import math
import shutil
import sys
import time
import warnings
from typing import Any, NamedTuple

from ._device import caller_depth
from ._learner import DQN
from ._run import LibraryRun, Run, cut_text
from ._run_folder import Number, Record

_ROW_SECONDS = 5.0  # between rows of rates; the first one comes at the first look
_LOOK_SECONDS = 1.0  # between two looks at the statistics
_PRINT_SECONDS = 30.0  # between lines where there is no terminal


class Sample(NamedTuple):
    """The statistics at a moment."""

    seconds: float  # that the run has taken
    step: int
    run: Any  # of Run, Apex or GA3C
    learner: Any  # LearnerStats; of GA3C None


def ratio(one: float, other: float) -> float:
    return one / other if other > 0 else math.nan


def short(value: float) -> str:
    """For a table."""
    return "-" if not math.isfinite(value) else f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def time_text(seconds: float) -> str:
    """A duration: "1:02:03"."""
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Progress:
    """Call `look` now and then, and `finish` at the end. Its subclasses know the statistics of their kind of run.

    first_step, first_seconds: where the run was when it was resumed, or 0. prints: whether the line is shown.
    """

    def __init__(self, run: LibraryRun, agent: Any, record: Record, steps: int, first_step: int, first_seconds: float,
                 prints: bool):
        self._run: Any = run
        self._agent, self._record, self._prints = agent, record, prints
        self._steps, self._first_step, self._first_seconds = steps, first_step, first_seconds
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._began = time.monotonic()
        self._rates: dict[str, Number] = dict.fromkeys(record.columns["rates"], math.nan)
        self._first = self._last = self._sample()
        self._looked = self._printed = first_seconds
        self._has_row = self._has_warned = self._has_said_cut = False
        self._warnings: list[str] = []  # to be given

    # Of the kind of run.

    def _step_of(self, stats: Any) -> int:
        raise NotImplementedError

    def _rates_between(self, before: Sample, now: Sample) -> list[Number]:
        """The rates between two samples, and what is known at the second, in the order of the columns."""
        raise NotImplementedError

    def _shown(self, stats: Any, step: int) -> dict[str, float]:
        """What the line has after the position, by name."""
        raise NotImplementedError

    def _beginning(self, stats: Any, step: int) -> str:
        """The position while nothing trains yet; then nothing."""
        raise NotImplementedError

    def _learned(self) -> Any:
        """The learner's statistics."""
        return self._agent.stats

    def _evaluating(self, stats: Any) -> tuple[int, int]:
        """The episode of an evaluation that is played, from 1 on, or 0; and how many there are."""
        return stats.eval_episode, self._run.config["eval_episodes"]

    @property
    def seconds(self) -> float:
        """That the run has taken, also before it was resumed."""
        return self._first_seconds + time.monotonic() - self._began

    def _sample(self) -> Sample:
        stats = self._run.stats
        return Sample(self.seconds, self._step_of(stats), stats, self._learned())

    def look(self, is_last: bool = False) -> None:
        """Adds a row and shows the line, if it is time. Only in the thread that called `train`."""
        self._give_warnings()
        seconds = self.seconds
        if not is_last and seconds - self._looked < _LOOK_SECONDS:
            return
        self._looked = seconds
        if is_last or not self._has_row or seconds - self._last.seconds >= _ROW_SECONDS:
            self._add_row()
        if is_last:  # the last line has the rates of the whole time
            self._rates = self._rates_since(self._first)
        if self._prints and (self._is_terminal or is_last or seconds - self._printed >= _PRINT_SECONDS):
            self._printed = seconds
            self._print(is_last)

    def finish(self) -> None:
        self.look(is_last=True)
        self._give_warnings()
        if self._prints:
            print(self._table(), end="", flush=True)

    def _table(self) -> str:
        """Lines with the rates of the whole time, for the end."""
        return ""

    def say(self, line: str) -> None:
        """Prints a line of its own."""
        if self._prints:
            print(f"\r\033[K{line}" if self._is_terminal else line, flush=True)

    def warn(self, line: str, always: bool = False) -> None:
        """Prints a line of its own; where nothing is printed, the first one is a warning of Python's, and so is each
        with `always`. Any thread may call it: `look` gives the warning, so that it names the line that called
        `train`."""
        self.say(line)
        if not self._prints and (always or not self._has_warned):
            self._has_warned = True
            self._warnings.append(f"{line} (progress=True shows each such line)")

    def _give_warnings(self) -> None:
        while self._warnings:
            warnings.warn(self._warnings.pop(0), RuntimeWarning, stacklevel=caller_depth())

    def _add_row(self) -> None:
        """The learner's mean loss is over the time since the last sample, so samples are taken for rows only."""
        before, self._last, self._has_row = self._last, self._sample(), True
        self._rates = self._rates_since(before)
        self._record.add("rates", list(self._rates.values()))
        cut = getattr(self._last.run, "eval_cut", 0)  # Ape-X has a setting of its own, max_episode_steps
        if cut and not self._has_said_cut:
            self._has_said_cut = True
            self.warn(cut_text(cut))

    def _rates_since(self, sample: Sample) -> dict[str, Number]:
        """Until the last sample."""
        return dict(zip(self._record.columns["rates"], self._rates_between(sample, self._last)))

    def _print(self, is_last: bool) -> None:
        stats = self._run.stats
        step = self._step_of(stats)
        line = self._position(stats, step) + "".join(f"  {name} {value:.4g}" for name, value in
                                                     self._shown(stats, step).items() if math.isfinite(value))
        if self._is_terminal:  # a line that is too long could not be drawn over
            width = shutil.get_terminal_size().columns
            print(f"\r\033[K{line[:width - 1]}", end="\n" if is_last else "", flush=True)
        else:
            print(line, flush=True)

    def _position(self, stats: Any, step: int) -> str:
        beginning = self._beginning(stats, step)
        if beginning:
            return beginning
        speed = ratio(step - self._first_step, self.seconds - self._first_seconds)
        left = f", {time_text((self._steps - step) / speed)} left" if speed > 0 and step < self._steps else ""
        episode, episodes = self._evaluating(stats)
        evaluating = f", evaluating: episode {episode} of {episodes}" if episode > 0 else ""
        return f"{step} of {self._steps} steps, {100 * step / self._steps:.1f}%{left}{evaluating}"


class RunProgress(Progress):
    """Of a `Run`."""

    def __init__(self, run: Run, agent: DQN, record: Record, steps: int, first_step: int, first_seconds: float,
                 prints: bool):
        self._prepopulation: int = run.config["prepopulation"]
        # The entries of the cache of returns that a train step draws; 0: there is no cache.
        self._drawn: int = agent.config["batch_size"] if "cache_size" in agent.config else 0
        self._counted = run.stats.env_steps  # when it was resumed
        super().__init__(run, agent, record, steps, first_step, first_seconds, prints)

    def _step_of(self, stats: Any) -> int:
        return int(self._first_step + stats.env_steps - self._counted)

    def _rates_between(self, before: Sample, now: Sample) -> list[Number]:
        seconds, inferences = now.seconds - before.seconds, now.run.inferences - before.run.inferences
        parts = {name: getattr(now.run, f"{name}_seconds") - getattr(before.run, f"{name}_seconds")
                 for name in ("env", "infer", "train", "flush", "copy", "eval")}
        missing = ratio(now.learner.missing_rows - before.learner.missing_rows,
                        (now.learner.steps - before.learner.steps) * self._drawn)
        return [now.seconds, now.step, now.learner.steps, now.run.episodes, ratio(now.step - before.step, seconds),
                ratio(inferences, seconds), ratio(now.run.inferred - before.run.inferred, inferences),
                ratio(now.run.train_steps - before.run.train_steps, seconds),
                *(ratio(part, seconds) for part in parts.values()), parts["flush"], parts["copy"],
                now.run.recent_return, self._agent.epsilon(now.step), *learning(before, now), missing]

    def _shown(self, stats: Any, step: int) -> dict[str, float]:
        return {"steps/s": self._rates["env_steps_per_second"], "train/s": self._rates["train_steps_per_second"],
                "return": stats.recent_return, "evaluated": stats.evaluated_return,
                "epsilon": self._agent.epsilon(step), "loss": self._rates["loss"],
                "missing": self._rates["missing_share"]}

    def _beginning(self, stats: Any, step: int) -> str:
        if stats.prepopulated < self._prepopulation and step == 0:
            return f"random steps before training: {stats.prepopulated} of {self._prepopulation}"
        return ""


def learning(before: Sample, now: Sample) -> list[float]:
    """Learning rate, loss, mean Q value and the gradient's norm; NaN if nothing was trained."""
    stats = now.learner
    known = [stats.learning_rate, stats.mean_loss, stats.mean_q, stats.gradient_norm]
    return known if stats.steps > before.learner.steps else [math.nan] * len(known)
