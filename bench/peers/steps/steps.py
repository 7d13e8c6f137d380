#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train steps of this repository's learner beside those of PyTorch and JAX: same network, rows, batch and optimiser.

    bash bench/peers/setup.sh && build/peers/bin/python bench/peers/steps/steps.py --device cuda:0 --json steps.json

A step draws its rows at random from a replay on the device, gathers them, and trains a dueling double DQN on them with
Adam and Huber loss; every 16 steps the target is copied. Before a contestant is timed, its losses on given rows are
compared with ours, step by step: who computes others is reported and not timed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import host  # noqa: E402
import networks  # noqa: E402

ROUNDS, QUICK_ROUNDS = 31, 7
SECONDS, QUICK_SECONDS = 0.1, 0.02  # of one sample, at least
MODULES = {"gpureplay": ("ours", "Ours"), "torch": ("torch_steps", "Eager"),
           "torch compiled": ("torch_steps", "Compiled"), "torch graph": ("torch_steps", "Graph"),
           "jax": ("jax_steps", "Scan")}


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:N, for all of them")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads for each, and cores for the process (1)")
    parser.add_argument("--math", choices=("fp32", "tf32"), default="fp32", help="arithmetic of products (fp32)")
    parser.add_argument("--rounds", type=int, help=f"samples of each, in turn; 6 or more ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"fewer sizes, shorter samples, {QUICK_ROUNDS} rounds")
    parser.add_argument("--networks", metavar="NAMES", default=",".join(networks.WORLDS),
                        help="with commas between; all")
    parser.add_argument("--only", metavar="NAMES", default=",".join(MODULES),
                        help=f"contestants, with commas between, of {', '.join(MODULES)}; gpureplay is always one")
    parser.add_argument("--json", metavar="OUT", help="where to write the report with every sample")
    given = parser.parse_args(arguments)
    given.rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    given.only, given.networks = given.only.split(","), given.networks.split(",")
    for option, names, there in (("--only", given.only, MODULES), ("--networks", given.networks, networks.WORLDS)):
        unknown = [name for name in names if name not in there]
        if unknown:
            parser.error(f"{option} has {', '.join(unknown)}; there are {', '.join(there)}")
    if given.threads < 1:
        parser.error(f"--threads is {given.threads}; it must be 1 or more")
    if given.rounds < 6:
        parser.error(f"--rounds is {given.rounds}; it must be 6 or more")
    if given.math == "tf32" and not given.device.startswith("cuda"):
        parser.error(f"--math is tf32, and --device {given.device}; it must be cuda:N, where there are such units")
    return given


def find(name: str, settings: Any) -> tuple[Any, str]:
    """The contestant, or why it does not take part: a library that does not load may raise anything."""
    module, kind = MODULES[name]
    try:
        contestant = getattr(importlib.import_module(module), kind)
        return contestant, contestant.refusal(settings)
    except Exception as error:  # noqa: BLE001
        return None, host.without_paths(f"it is not here: {type(error).__name__}: {error}")


def head_of(given: argparse.Namespace, cores: int, found: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    seconds = QUICK_SECONDS if given.quick else SECONDS
    about = [{"name": name, "present": not no, "error": no, "version": kind.version() if kind else "",
              "as_used": kind.as_used if kind else ""} for name, (kind, no) in found.items()]
    return {"title": "train steps beside each other", "machine": host.describe(),
            "settings": {"device": given.device, "threads": given.threads, "cores": cores, "math": given.math,
                         "rounds": given.rounds, "quick": given.quick, "seconds_a_sample": seconds,
                         "steps_a_call": networks.BLOCK},
            "contestants": about, "interrupted": False}


def main(arguments: list[str]) -> int:
    """Exit status: 1 when ours is not here or fails; what others do is a finding. 130 after Ctrl-C or SIGTERM, when the
    report has the cases until then."""
    given = options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what `timeout` sends
    cores = host.use_threads(given.threads, given.device.startswith("cuda"))
    import contest_steps
    from base import Settings

    settings = Settings(given.device, given.math)
    found = {name: find(name, settings) for name in MODULES if name in given.only or name == "gpureplay"}
    if found["gpureplay"][1]:
        print(f"steps.py: gpureplay: {found['gpureplay'][1]}", file=sys.stderr)
        return 1
    head, outcomes = head_of(given, cores, found), []
    contest = contest_steps.Contest(found, settings, given.rounds, head["settings"]["seconds_a_sample"])
    contest_steps.print_head(head)
    try:
        for case in networks.cases(given.quick, settings.on_cuda, tuple(given.networks)):
            outcomes.append(contest.run(case))
    except KeyboardInterrupt:
        head["interrupted"] = True
        print(f"steps.py: interrupted; cases done: {len(outcomes)}", file=sys.stderr)
    if given.json:
        text = json.dumps({**head, "cases": outcomes}, indent=1, ensure_ascii=False)
        Path(given.json).write_text(text + "\n", encoding="utf-8")
    if head["interrupted"]:
        return 130
    return int(any("no" in outcome["results"]["gpureplay"] for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
