# SPDX-License-Identifier: MIT
"""A training of GA3C, A3C or A2C: what it has of its own beside the other trainings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import _c_api
from ._actor_critic import ActorCritic
from ._config import GA3CPreset, ga3c_configs, ga3c_preset
from ._device import Device
from ._ga3c import GA3C, refuse_other_envs
from ._library import Advice, InvalidArgument, lib
from ._options import System, Value, flag_of, refuse_others, system_of, use_math
from ._progress import Progress, Sample, ratio, short
from ._run_config import ga3c_document, plain
from ._run_folder import A3C_COLUMNS, GA3C_COLUMNS, Checkpoint, Number
from ._train import Training, use_checkpoint
from ._tuples import RunEvent
from ._words import WORDS

# Steps a second on System I, "PPS" [Babaeizadeh et al. 2017, table 2].
_PAPER = {"ga3c": "1,361", "ga3c-large-4": "1,271", "ga3c-large-3": "1,206", "ga3c-large-2": "874",
          "ga3c-large-1": "490", "a3c-cpu": "352"}
_WORDS = {"when_full": tuple(WORDS["gpur_ga3c_config.when_full"].values()), "tuner": tuple(WORDS["tuner"].values())}


class GA3CProgress(Progress):
    """Of a `GA3C`."""

    preset = ""

    def _step_of(self, stats: Any) -> int:
        return int(stats.env_steps)

    def _learned(self) -> Any:
        return None

    def _rates_between(self, before: Sample, now: Sample) -> list[Number]:
        seconds, old, new = now.seconds - before.seconds, before.run, now.run

        def more(name: str) -> Number:
            return cast("Number", getattr(new, name) - getattr(old, name))

        lags = new.mean_lag * new.trained_rows - old.mean_lag * old.trained_rows
        lived = more("env_seconds") + more("wait_seconds") + more("queue_seconds")
        learning = [new.entropy, new.value_loss, new.learning_rate, new.gradient_norm]
        return [now.seconds, now.step, new.train_steps, new.episodes, ratio(more("env_steps"), seconds),
                ratio(more("predictions"), seconds), ratio(more("training_batches"), seconds),
                ratio(more("predictions"), more("training_batches")), ratio(more("train_steps"), seconds),
                ratio(more("predictions"), more("prediction_batches")), new.prediction_queue, new.training_queue,
                ratio(lags, more("trained_rows")), new.largest_lag, new.queue_lag, new.queue_lag_bound, new.agents,
                new.predictors, new.trainers, ratio(more("env_seconds"), lived),
                ratio(more("wait_seconds"), lived), ratio(more("predict_seconds"), seconds),
                ratio(more("train_seconds"), seconds), new.recent_return,
                *(learning if more("train_steps") > 0 else [math.nan] * len(learning))]

    def _shown(self, stats: Any, step: int) -> dict[str, float]:
        return {"steps/s": self._rates["env_steps_per_second"], "rollouts/s": self._rates["rollouts_per_second"],
                "return": stats.recent_return, "entropy": self._rates["entropy"], "lag": self._rates["mean_lag"],
                "agents": stats.agents}

    def _beginning(self, stats: Any, step: int) -> str:
        return ""

    def _table(self) -> str:
        rates, old, new = self._rates, self._first.run, self._last.run
        lost = new.refused_rollouts - old.refused_rollouts + new.overwritten_rollouts - old.overwritten_rollouts
        agents, time = "% of agents' time", "% of the time"
        rows = [("environment steps (PPS)", rates["env_steps_per_second"], "/s", _PAPER.get(self.preset, "")),
                ("predictions", rates["predictions_per_second"], "/s", ""),
                ("rollouts trained on (TPS)", rates["rollouts_per_second"], "/s", ""),
                ("predictions for each rollout", rates["predictions_per_rollout"], "", ""),
                ("train steps", rates["train_steps_per_second"], "/s", ""),
                ("requests of a forward pass", rates["prediction_batch"], "", ""),
                ("rollouts in training queue", rates["training_queue"], "", ""),
                ("agents step", 100 * rates["env_share"], agents, ""),
                ("agents wait, or act alone", 100 * rates["wait_share"], agents, ""),
                ("predictors predict", 100 * rates["predict_share"], time, ""),
                ("trainers train", 100 * rates["train_share"], time, ""),
                ("rollouts refused, replaced", lost, "", ""), ("mean policy lag", rates["mean_lag"], "updates", "")]
        table = [("", "this run", "", "the paper"), *((name, short(value), *rest) for name, value, *rest in rows)]
        return "".join(f"{name:28}{value:>12}  {unit:20}{paper:>10}".rstrip() + "\n"
                       for name, value, unit, paper in table) + self._lags(old, new)

    def _lags(self, old: Any, new: Any) -> str:
        """The share of trained steps in a few bins."""
        rows, counts = new.trained_rows - old.trained_rows, np.subtract(new.lags, old.lags)
        if rows == 0:
            return ""
        ends = [0, 1, 2, 4, 8, 16, 32, len(counts) - 1, len(counts)]
        bins = [f"{first}{' or more' if end == len(counts) else f'-{end - 1}' if end - first > 1 else ''} "
                f"{100 * counts[first:end].sum() / rows:.3g}%" for first, end in zip(ends, ends[1:])]
        bound = (f"longest in the training queue: {new.queue_lag} updates, of at most {new.queue_lag_bound} if agents "
                 "wait\n" if new.queue_lag_bound else "")
        return f"policy lag, of trained steps: {', '.join(bins)}\n{bound}"


class GA3CTraining(Training):
    """As its base."""

    _make_progress = GA3CProgress
    _buffer: Any = None
    _advice = Advice(clip_norm='agent={"clip_norm": ...}', reward_clip=None)
    _twice = {"agent": {name: name for name in ("learning_rate", "entropy", "math")}, "buffer": {}}

    def __init__(self, given: Any, folder: Path | None, is_resumed: bool):
        if given["env"] is not None:
            refuse_other_envs(given["env"])
        if given["buffer"]:
            raise InvalidArgument(f"buffer is {given['buffer']}; GA3C, A3C and A2C have none, so leave it out")
        super().__init__(given, folder, is_resumed)
        self._system = system_of(self._options["preset"])
        self.columns = GA3C_COLUMNS if self._system == System.GA3C else A3C_COLUMNS

    def _complete(self) -> GA3CPreset:
        options, envs = self._options, self._envs
        name = cast(str, options["preset"])
        refuse_others(options, name)
        if envs.type is None:
            raise InvalidArgument(f"{envs.name} steps all environments at once, and --preset is {name}, whose agents "
                                  "step one each; it must be a type that steps one at a time")

        def use(option: str, otherwise: Value) -> Any:
            if options[option] is None:
                options[option] = otherwise
            return options[option]

        found, is_small = ga3c_preset(name, envs.type, envs.options), "-small" in name
        learner, run = found
        use("env", envs.name), use("env_options", ""), use("device", "auto"), use("threads", 0)
        use("steps", 10**6 if is_small else 5 * 10**7)
        run["eval_episodes"] = use("eval_episodes", run["eval_episodes"])
        learner["seed"] = run["seed"] = use("seed", 1)
        few = run["system"] == "a3c" or (run["system"] == "ga3c" and is_small)
        run["agents"], run["t_max"] = use("agents", 16 if few else 32), use("t_max", run["t_max"])
        if self._system == System.GA3C:
            for member in ("predictors", "trainers", "min_train_batch", "queue_room", "tuner_period"):
                run[member] = use(member, run[member])
            for member, words in _WORDS.items():
                if use(member, run[member]) not in words:
                    raise InvalidArgument(f"{flag_of(member)} is \"{options[member]}\"; it must be {words[0]}, "
                                          f"{words[1]} or {words[2]}")
                run[member] = str(options[member]).replace("-", "_")
        learner["max_batch"] = _largest_batch(run)
        use_math(options, learner)
        for member in ("learning_rate", "entropy"):
            learner[member] = use(member, learner[member])
        use("deterministic", False)
        use_checkpoint(options, 50_000 if is_small else 1_000_000)
        return found

    def _say_what(self, device: Device) -> None:
        self._print(f"{self._envs.name}, {self._options['agents']} agents, by {self._options['preset']} on "
                    f"{device.name}: {device.info.description}")

    def _make_learner(self, device: Device, preset: GA3CPreset) -> None:
        self._agent = ActorCritic(device=device, check_nan=self._check_nan,
                                  **{**preset.learner, **self._overrides["agent"]})

    def _close_unfinished(self) -> None:
        if not self._is_done:
            self._agent.close()

    def _config_of(self, preset: GA3CPreset) -> dict[str, Any]:
        return ga3c_document(self._options, plain(self._overrides), self._agent.device, self._envs,
                             self._agent._config, ga3c_configs(preset.run))

    def _make_run(self, settings: Any) -> GA3C:
        return GA3C._of(self._agent, self._envs, self._note_event, ga3c_configs(settings))

    # Training.

    def _note_event(self, event: RunEvent) -> Any:
        if event.kind == "episode":
            self._record.add("episode", (event.env_steps, event.env_index, event.length, event.mean_return))
        elif event.kind == "evaluation":
            self._record.add("evaluation", (event.env_steps, event.episodes, event.mean_return, event.return_deviation))
        else:
            self._record.add("tuner", (event.env_steps, event.agents, event.predictors, event.trainers, event.accepted,
                                       event.rate))
        return None if self._on_event is None else self._on_event(event)

    def _train(self) -> None:
        progress = cast(GA3CProgress, self._progress)
        progress.preset = cast(str, self._options["preset"])
        steps, every = self._number("steps"), 0 if self._folder is None else self._number("checkpoint")
        while self._step < steps:
            end = min(steps, (self._step // every + 1) * every) if every else steps
            self._run._call_watched(lib.gpur_run_advance, end - self._step, 0, tick=progress.look)
            self._step = end
            if every:
                self._save_checkpoint(Checkpoint(cast(Path, self._folder)))
        self._evaluate()  # after the checkpoint: a run of more steps makes this evaluation, too


def _largest_batch(run: dict[str, Any]) -> int:
    """The rows of the largest train step."""
    agents, t_max = run["agents"], run["t_max"]
    rows = {"a2c": agents * t_max, "a3c": t_max}.get(run["system"], run["min_train_batch"] + t_max)
    if rows > _c_api.MAX_ACTOR_CRITIC_BATCH:
        raise InvalidArgument(f"--agents is {agents} and --t-max is {t_max}; their product must be at most "
                              f"{_c_api.MAX_ACTOR_CRITIC_BATCH}")
    return max(8, int(rows))
