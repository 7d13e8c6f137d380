#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train steps of this repository's learner beside those of PyTorch and JAX: same network, rows, batch and optimiser.

    bash bench/peers/setup.sh && build/peers/bin/python bench/peers/steps/steps.py --device cuda:0 --json steps.json

A step draws its rows at random from a replay on the device, gathers them, and trains a dueling DQN on them with the
optimiser of the network's preset, or Adam, and Huber loss; every 16 steps the target is copied. Before a contestant is
timed, its losses on given rows are compared with ours, step by step: who computes others is reported and not timed.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import host  # noqa: E402
import networks  # noqa: E402
import recipes  # noqa: E402
import report  # noqa: E402

ROUNDS, QUICK_ROUNDS = 31, 7
SECONDS, QUICK_SECONDS = 0.1, 0.02  # of one sample, at least
QUICK_LIMIT = 110  # seconds in all
MODULES = {"gpureplay": ("ours", "Ours"), "torch graph": ("torch_steps", "Graph"), "torch": ("torch_steps", "Eager"),
           "jax": ("jax_steps", "Scan"), "gpureplay one kernel": ("ours", "OneKernel"),
           "gpureplay unroll 1": ("ours", "OneStepGraph"), "gpureplay unroll 16": ("ours", "LongGraph"),
           "gpureplay cuDNN": ("ours", "DenseGraphs"), "torch compiled": ("torch_steps", "Compiled")}
LISTS = {"only": MODULES, "networks": networks.WORLDS, "math": networks.MATHS, "optimizers": recipes.OPTIMIZERS,
         "draws": networks.DRAWS}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda:N, for all of them")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads for each, and cores for the process (1)")
    parser.add_argument("--rounds", type=int, help=f"samples of each, in turn; 6 or more ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"fewer sizes, shorter samples, {QUICK_ROUNDS} rounds, "
                        f"and --limit {QUICK_LIMIT}")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="ends then, starting included, with the cases "
                        "until then; who or what would not be done in time, as far as is known, is left out and told "
                        "(none)")
    named = "with commas between, of"
    parser.add_argument("--networks", metavar="NAMES", help=f"{named} {', '.join(networks.WORLDS)}; all, but with "
                        "--quick on the CPU no images")
    parser.add_argument("--math", metavar="NAMES", help=f"arithmetic of products, {named} {', '.join(networks.MATHS)}; "
                        "fp32 on the CPU; on CUDA all, or with --quick fp32, and bf16 for images")
    parser.add_argument("--optimizers", metavar="NAMES", help=f"{named} {', '.join(recipes.OPTIMIZERS)}; both")
    parser.add_argument("--draws", metavar="NAMES", help=f"{named} {', '.join(networks.DRAWS)}; both")
    parser.add_argument("--only", metavar="NAMES", help=f"contestants, {named} {', '.join(MODULES)}; gpureplay is "
                        "always one")
    parser.add_argument("--json", metavar="OUT", help="where to write the report with every sample")
    return parser


def options(arguments: list[str]) -> argparse.Namespace:
    parser = _parser()
    given = parser.parse_args(arguments)
    given.rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    given.limit = given.limit or (QUICK_LIMIT if given.quick else float("inf"))
    for name, there in LISTS.items():
        words = getattr(given, name)
        setattr(given, name, tuple(words.split(",")) if words else () if name in ("math", "networks") else tuple(there))
        unknown = [word for word in getattr(given, name) if word not in there]
        if unknown:
            parser.error(f"--{name} has {', '.join(unknown)}; there are {', '.join(there)}")
    for name, least in (("threads", 1), ("rounds", 6), ("limit", 1)):
        if getattr(given, name) < least:
            parser.error(f"--{name} is {getattr(given, name)}; it must be {least} or more")
    if set(given.math) - {"fp32"} and not given.device.startswith("cuda"):
        parser.error(f"--math is {','.join(given.math)}, and --device {given.device}; it must be cuda:N, where there "
                     "are such units")
    return given


def find(name: str, device: str) -> tuple[Any, str]:
    """The contestant, or why it does not take part: a library that does not load may raise anything."""
    module, kind = MODULES[name]
    try:
        contestant = getattr(importlib.import_module(module), kind)
        return contestant, contestant.refusal(device)
    except Exception as error:  # noqa: BLE001
        return None, host.without_paths(f"it is not here: {type(error).__name__}: {error}")


def head_of(given: argparse.Namespace, cores: int, found: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    seconds = QUICK_SECONDS if given.quick else SECONDS
    about = [{"name": name, "present": not no, "error": no, "version": kind.version() if kind else "",
              "as_used": kind.as_used if kind else "", "bf16": kind.bf16 if kind else ""}
             for name, (kind, no) in found.items()]
    limit = given.limit if given.limit < float("inf") else None
    return {"title": report.STEPS, "machine": host.describe(),
            "settings": {"device": given.device, "threads": given.threads, "cores": cores, "rounds": given.rounds,
                         "quick": given.quick, "limit": limit, "seconds_a_sample": seconds,
                         "steps_a_call": networks.BLOCK},
            "contestants": about, "interrupted": False, "left_out": []}


def _run(given: argparse.Namespace, head: dict[str, Any], found: dict[str, tuple[Any, str]],
         outcomes: list[dict[str, Any]], began: float) -> None:
    """Adds to the outcomes, and to the report, as they come. began: by time.monotonic, from when the limit counts."""
    import contest_steps

    contest = contest_steps.Contest(found, given.device, given.rounds, head["settings"]["seconds_a_sample"],
                                    given.limit, began=began)
    contest_steps.print_head(head)
    wanted = networks.Wanted(given.quick, given.device.startswith("cuda"), given.networks, given.math, given.optimizers,
                             given.draws)
    for case in networks.cases(wanted):
        outcome = contest.run(case)
        if isinstance(outcome, str):
            head["left_out"].append(f"{case.name}: {outcome}")
            print(f"\nleft out: {head['left_out'][-1]}", flush=True)
        else:
            outcomes.append(outcome)
        report.write(given.json, head, outcomes)


def _failed(outcome: dict[str, Any]) -> bool:
    return bool(outcome["apart"]) or "no" in outcome["results"]["gpureplay"]


def main(arguments: list[str]) -> int:
    """Exit status: 1 when ours is not here or fails, losses or priorities are apart from ours, since either may be
    wrong, or no case was timed; what else others do is a finding, and so is a case that there was no time for. 77 when
    the device is not here. 130 after Ctrl-C or SIGTERM, when the report has the cases until then."""
    began = time.monotonic()
    given = options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what `timeout` sends
    cores = host.use_threads(given.threads, given.device.startswith("cuda"))
    found = {name: find(name, given.device) for name in MODULES if name in given.only or name == "gpureplay"}
    if found["gpureplay"][1]:
        print(f"steps.py: gpureplay: {found['gpureplay'][1]}", file=sys.stderr)
        return 1
    no = host.no_device(given.device)
    if no:
        print(f"steps.py: {given.device}: {no}", file=sys.stderr)
        return 77
    head, outcomes = head_of(given, cores, found), []
    try:
        _run(given, head, found, outcomes, began)
    except KeyboardInterrupt:
        head["interrupted"] = True
        print(f"steps.py: interrupted; cases done: {len(outcomes)}", file=sys.stderr)
    report.write(given.json, head, outcomes)
    if head["interrupted"]:
        return 130
    return int(not outcomes or any(_failed(outcome) for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
