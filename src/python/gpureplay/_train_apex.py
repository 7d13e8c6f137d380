# SPDX-License-Identifier: MIT
"""A training of Ape-X: what it has of its own beside the other trainings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from . import _c_api
from ._apex import Apex, actor_command, processes_of, refuse_other_envs
from ._config import RunPreset, Settings, apex_configs, apex_preset, shortest
from ._ddpg import DDPG
from ._device import Device
from ._inputs import flag
from ._library import Advice, Interrupted, InvalidArgument, Unavailable, lib
from ._options import Value, read_options, refuse_others, use_math
from ._progress import Progress, Sample, learning, ratio, short
from ._run_folder import APEX_COLUMNS, Checkpoint, Number, Position
from ._train import Training, use_batch, use_checkpoint, use_frame_stack
from ._tuples import RunEvent

# Of the paper [Horgan et al. 2018, sections 4.1 and 4.2], and of RLlib's Ape-X with 32 workers of 8 environments.
_OTHERS = {"transitions received": ("12,500", "5,134"), "transitions learned": ("9,700", "4,081")}
_OTHERS_DPG = {"transitions received": ("14,000", ""), "transitions learned": ("22,000", "")}


# What is not known of actors elsewhere.
_OF_OWN_ACTORS = ("weights taken by actors", "an actor steps", "an actor infers", "an actor waits", "transitions lost")

# The end of the text with which an evaluation is given up.
_MISSING = "the evaluation is missing"


class ApexProgress(Progress):
    """Of an `Apex` whose agent is a `DQN`."""

    _others = _OTHERS
    _tells_age = True  # of old weights, once

    def _step_of(self, stats: Any) -> int:
        return int(stats.env_steps)

    def _rates_between(self, before: Sample, now: Sample) -> list[Number]:
        seconds, old, new = now.seconds - before.seconds, before.run, now.run

        def more(name: str) -> Number:
            return cast("Number", getattr(new, name) - getattr(old, name))

        rates = [ratio(more(name), seconds) for name in ("env_steps", "rows", "bytes", "train_steps", "learned")]
        shares = [ratio(more(f"{part}_seconds"), seconds) for part in ("train", "broadcast", "receive", "learner_wait")]
        shares += [ratio(more(f"{part}_seconds"), more("actor_seconds"))
                   for part in ("env", "actor_infer", "actor_wait")]
        return [now.seconds, now.step, new.train_steps, new.episodes, *rates[:2], rates[2] / 1e6, *rates[3:],
                ratio(more("learned"), more("inserted")), new.weights_age, new.actors, more("deaths"),
                more("lost_rows"), more("refused_blocks"), more("limiter_timeouts"), *shares, new.recent_return,
                new.evaluated_return, *learning(before, now)]

    def _shown(self, stats: Any, step: int) -> dict[str, float]:
        return {"steps/s": self._rates["env_steps_per_second"], "in/s": self._rates["transitions_per_second"],
                "learned/s": self._rates["learned_per_second"], "return": stats.recent_return,
                "evaluated": stats.evaluated_return, "loss": self._rates["loss"], "age": self._rates["weights_age"],
                "actors": stats.actors}

    def _add_row(self) -> None:
        super()._add_row()
        age, period = self._rates["weights_age"], self._agent.config["target_period"]
        if self._tells_age and age > period:
            self._tells_age = False
            smaller = "a smaller" if self._run.config["samples_per_insert"] else "a"
            self.say(f"the weights that act are {age:.0f} train steps old, more than a target period, {period}: fewer "
                     f"actors or {smaller} samples_per_insert keep them newer")

    def _beginning(self, stats: Any, step: int) -> str:
        if stats.train_steps > 0:
            return ""
        return f"transitions before training: {stats.rows} of {self._agent._buffer.config['min_size']}"

    def _table(self) -> str:
        rates, seconds = self._rates, self._last.seconds - self._first.seconds
        old, new = self._first.run, self._last.run
        rows = [("environment steps", rates["env_steps_per_second"], "/s"),
                ("transitions received", rates["transitions_per_second"], "/s"),
                ("data received", rates["megabytes_per_second"], "MB/s"),
                ("train steps", rates["train_steps_per_second"], "/s"),
                ("transitions learned", rates["learned_per_second"], "/s"),
                ("learned for each received", rates["samples_per_insert"], ""),
                ("weights broadcast", ratio(new.broadcasts - old.broadcasts, seconds), "/s"),
                ("weights taken by actors", ratio(new.pulled - old.pulled, seconds), "/s"),
                ("age of weights that acted", rates["weights_age"], "train steps"),
                ("learner trains", 100 * rates["train_share"], "% of the time"),
                ("learner broadcasts weights", 100 * rates["broadcast_share"], "% of the time"),
                ("learner waits", 100 * rates["learner_wait_share"], "% of the time"),
                ("blocks are received", 100 * rates["receive_share"], "% of the time"),
                ("an actor steps", 100 * rates["actor_env_share"], "% of its time"),
                ("an actor infers", 100 * rates["actor_infer_share"], "% of its time"),
                ("an actor waits", 100 * rates["actor_wait_share"], "% of its time"),
                ("actors that died", rates["deaths"], ""), ("transitions lost", rates["lost_transitions"], ""),
                ("blocks refused", rates["refused_blocks"], "")]
        if self._run.config["remote_actors"]:
            rows = [row for row in rows if row[0] not in _OF_OWN_ACTORS]
        table = [("", "this run", "", "the paper", "RLlib" if self._others is _OTHERS else ""),
                 *((name, short(value), unit, *self._others.get(name, ("", ""))) for name, value, unit in rows)]
        return "".join(f"{name:28}{value:>12}  {unit:14}{paper:>10}{rllib:>10}".rstrip() + "\n"
                       for name, value, unit, paper, rllib in table)


class ApexDPGProgress(ApexProgress):
    """Of an `Apex` whose agent is a `DDPG`: of its two networks the critic's numbers are shown."""

    _others = _OTHERS_DPG

    def _learned(self) -> Any:
        stats = self._agent.stats
        return SimpleNamespace(steps=stats.steps, learning_rate=stats.critic_learning_rate, mean_q=stats.mean_q,
                               mean_loss=stats.mean_critic_loss, gradient_norm=stats.critic_gradient_norm)


class ApexTraining(Training):
    """As its base."""

    columns = APEX_COLUMNS
    _twice = {"agent": {"batch_size": "batch", **{name: name for name in ("learning_rate", "math", "prioritized",
                                                                         "target_period")}},
              "buffer": {"min_size": "prepopulation", "frame_stack": "frame_stack", "eviction": "eviction"}}
    _make_config = staticmethod(apex_configs)
    _make_progress = ApexProgress

    def __init__(self, given: Any, folder: Path | None, is_resumed: bool):
        self._refills = flag("refill", given["refill"])
        if self._refills and not is_resumed:
            raise InvalidArgument("refill is True and resume is None; only a run that goes on can be refilled")
        if given["env"] is not None:
            refuse_other_envs(given["env"])
        super().__init__(given, folder, is_resumed)
        self._command_parts = (self._options["env"], given["env_options"])

    def _complete(self) -> RunPreset:
        options, envs = self._options, self._envs
        name = cast(str, options["preset"])
        refuse_others(options, name)
        found = apex_preset(name, envs.type, envs.options)
        is_small = "-small" in name
        buffer, agent, apex = found

        def use(option: str, otherwise: Value) -> Any:
            if options[option] is None:
                options[option] = otherwise
            return options[option]

        use("env_options", ""), use("device", "auto"), use("threads", 0), use("steps", 10**6 if is_small else 5 * 10**7)
        buffer["seed"] = agent["seed"] = apex["seed"] = use("seed", 1)
        for member in ("actors", "samples_per_insert", "initial_priorities", "replicate", "compression", "pull_period"):
            apex[member] = use(member, apex[member])
        apex["processes"] = options["processes"] = processes_of(envs, cast("bool | None", options["processes"]))
        if options["folder"] is not None:
            options["folder"] = os.path.abspath(cast(str, options["folder"]))
        apex["folder"] = options["folder"]
        apex["eval_episodes"] = use("eval_episodes", apex["eval_episodes"])
        self._use_exploration(apex)
        apex["eval_period"] = use("eval_period", apex["eval_period"] if apex["eval_episodes"] else 0)
        agent["prioritized"] = use("prioritized", True)
        self._use_eviction(buffer)
        agent["target_period"] = use("target_period", agent["target_period"])
        agent["batch_size"] = use("batch", agent["batch_size"])
        use_math(options, agent)
        self._use_learner(agent)
        before = buffer.get("frame_stack", 1)
        use_frame_stack(options, buffer, envs.name)
        if "extra_frames" in buffer:  # blocks repeat so many more frames as stacks are longer
            buffer["extra_frames"] += buffer["capacity"] * (buffer["frame_stack"] - before) // apex["block_rows"]
        _use_capacity(buffer, apex, use("capacity", apex["soft_capacity"]), agent["batch_size"])
        room = self._overrides["buffer"].get("capacity")
        if isinstance(room, (int, float)) and room < apex["soft_capacity"]:
            raise InvalidArgument(f"--capacity is {apex['soft_capacity']} beside buffer={{\"capacity\": {room!r}}}, "
                                  "which has to have room for as many transitions; leave the second out")
        buffer["min_size"] = use("prepopulation", min(buffer["min_size"], apex["soft_capacity"]))
        if buffer["min_size"] > apex["soft_capacity"]:
            raise InvalidArgument(f"--prepopulation is {buffer['min_size']} and --capacity is {apex['soft_capacity']}; "
                                  "the first must be at most the second")
        use_checkpoint(options, 50_000 if is_small else 1_000_000)
        return found

    def _open(self, device: Any, preset: Any) -> None:
        super()._open(device, preset)
        config = self._agent.config  # also of the settings that override the options
        preset.run["rows_under_way"] = lib.gpur_apex_rows_under_way(preset.run["samples_per_insert"],
                                                                    config["batch_size"], config["target_period"])

    def _config_of(self, preset: Any) -> dict[str, Any]:
        config = super()._config_of(preset)
        config["apex"]["processes"] = int(bool(self._options["processes"]))
        return config

    def _use_exploration(self, apex: Settings) -> None:
        apex["epsilons"] = _epsilons_of(self._options["epsilons"])

    def _use_eviction(self, buffer: Settings) -> None:
        """A choice of Ape-X DPG."""

    def _use_learner(self, agent: Settings) -> None:
        if self._options["learning_rate"] is None:
            self._options["learning_rate"] = agent["learning_rate"]
        agent["learning_rate"] = self._options["learning_rate"]

    def _say_what(self, device: Device) -> None:
        kind = "processes" if self._options["processes"] else "threads"
        self._print(f"{self._envs.name}, {self._options['actors']} actors in {kind}, by {self._options['preset']} on "
                    f"{device.name}: {device.info.description}")

    def _make_run(self, settings: Settings) -> Apex:
        env, env_options = self._command_parts
        if env_options is None:
            env_options = self._options["env_options"] or None
        return Apex._of(self._agent, self._envs, actor_command(self._agent, cast(str, env), env_options),
                        self._note_event, settings)

    def _taken(self, position: Position | None) -> int:
        """What a run received beyond its last step is no reason to refuse as many steps as it had."""
        stored = cast(int, read_options(cast(Path, self._folder))[0]["steps"])
        return min(super()._taken(position), stored)

    def _load_run(self, path: Path) -> None:
        self._run.load(path, self._refills)

    # Training.

    def _note_event(self, event: RunEvent) -> Any:
        if event.kind == "episode":
            self._record.add("episode", (event.env_steps, event.env_index, event.length, event.mean_return,
                                         shortest(event.epsilon)))
        elif event.kind == "evaluation":
            self._record.add("evaluation", (event.env_steps, event.episodes, event.length, event.mean_return,
                                            event.return_deviation))
        else:
            self._record.add("actor", (event.env_steps, event.env_index, event.incarnation, event.kind, event.asked,
                                       event.lost_blocks, event.lost_rows))
        if event.kind == "ended" and not event.asked:
            who = "the actor that evaluates" if event.env_index == _c_api.APEX_EVALUATOR else f"actor {event.env_index}"
            self._progress.warn(f"{who} ended: {event.error}", always=event.error.endswith(_MISSING))
        return None if self._on_event is None else self._on_event(event)

    def _train(self) -> None:
        steps, every = self._number("steps"), 0 if self._folder is None else self._number("checkpoint")
        while self._step < steps:
            end = min(steps, (self._step // every + 1) * every) if every else steps
            self._run._call_watched(lib.gpur_run_advance, end - self._step, 0, tick=self._progress.look)
            if self._run.stats.env_steps >= steps:  # so that files have what actors still send
                self._end_actors()
            self._step = self._run.stats.env_steps
            if every:
                self._save_checkpoint(Checkpoint(cast(Path, self._folder)))
        # The checkpoint comes before: a run of more steps makes this evaluation, too.
        with contextlib.suppress(Unavailable):  # the evaluator died, of which was warned
            self._evaluate()

    def _end_actors(self) -> None:
        """A run whose actors were asked to end already may still wait for them."""
        self._run.set_actors(0)
        with contextlib.suppress(Interrupted):
            self._run.advance(0)
            return
        self._run.advance(0)

    def _end_early(self) -> None:
        """Actors that end have a row, too. What on_event has raised is raised by the caller."""
        with contextlib.suppress(BaseException):
            self._end_actors()


class ApexDPGTraining(ApexTraining):
    """As its base, with a `DDPG`, whose networks learn at the same rate."""

    _make_agent = DDPG
    _advice = Advice(clip_norm='agent={"{network}": {"clip_norm": ...}}', reward_clip='buffer={"reward_clip": ...}')
    _reads_images = False
    _make_progress = ApexDPGProgress

    def _use_exploration(self, apex: Settings) -> None:
        if self._options["sigma"] is None:
            self._options["sigma"] = apex["sigma"]
        apex["sigma"] = self._options["sigma"]

    def _use_eviction(self, buffer: Settings) -> None:
        """Without priorities the oldest leave."""
        options = self._options
        if options["eviction"] is None:
            options["eviction"] = buffer.get("eviction", "oldest") if options["prioritized"] else "oldest"
        if options["eviction"] not in ("oldest", "priority"):
            raise InvalidArgument(f"--eviction is \"{options['eviction']}\"; it must be oldest or priority")
        if options["eviction"] == "priority" and not options["prioritized"]:
            raise InvalidArgument("--eviction is priority and --prioritized is 0; it must be 1, or --eviction oldest")
        buffer["eviction"] = options["eviction"]
        if options["eviction"] == "oldest":
            buffer["evict_alpha"] = None  # it has none

    def _use_learner(self, agent: Settings) -> None:
        options, words = self._options, {"none": "linear", "tanh": "tanh", "relu": "relu"}
        second = agent["actor"]["trunk"][1]
        if options["learning_rate"] is None:
            options["learning_rate"] = agent["actor"]["learning_rate"]
        if options["second_activation"] is None:
            options["second_activation"] = next(word for word, name in words.items() if name == second[1])
        if options["second_activation"] not in words:
            raise InvalidArgument(f"--second-activation is \"{options['second_activation']}\"; it must be none, tanh "
                                  "or relu")
        for network in ("actor", "critic"):
            agent[network]["learning_rate"] = options["learning_rate"]
            first, (units, _) = agent[network]["trunk"]
            agent[network]["trunk"] = [first, (units, words[options["second_activation"]])]

    def _refuse_twice(self, given: Mapping[str, Any]) -> None:
        super()._refuse_twice(given)
        for network, settings in self._networks(self._overrides["agent"]).items():
            if "learning_rate" in settings and given["learning_rate"] is not None:
                raise self._twice_error(given, "learning_rate",
                                        f'agent={{"{network}": {{"learning_rate": {settings["learning_rate"]!r}}}}}')

    @staticmethod
    def _networks(agent: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """The settings of each network that the caller gives."""
        return {name: agent[name] for name in ("actor", "critic") if isinstance(agent.get(name), Mapping)}

    def _own_rates(self, agent: Mapping[str, Any]) -> dict[str, str]:
        return {name: f'agent={{"{name}": {{"learning_rate": ...}}}}'
                for name, settings in self._networks(agent).items() if "learning_rate" in settings}

    def _overridden(self, agent: Settings) -> Settings:
        """A network keeps what the caller does not name."""
        given = super()._overridden(agent)
        for network in ("actor", "critic"):
            if isinstance(given[network], Mapping):
                given[network] = {**agent[network], **given[network]}
        return given


def _epsilons_of(text: Value) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in str(text).split(",")]
    except ValueError:
        raise InvalidArgument(f"--epsilons is \"{text}\"; it must be numbers of 0 to 1, with commas between "
                              "them") from None


def _use_capacity(buffer: Settings, apex: Settings, soft: int, batch: int) -> None:
    """The ring is 1/16 above the soft capacity, and has room for as large a part of frames that blocks repeat."""
    old, new = buffer["capacity"], soft + soft // 16
    buffer["capacity"] = apex["soft_capacity"] = soft
    use_batch(buffer, batch)
    buffer["capacity"] = new
    if "extra_frames" in buffer:
        buffer["extra_frames"] = -(-buffer["extra_frames"] * new // old)
