#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train steps of this repository's learner beside those of PyTorch and JAX: same network, rows, batch and optimizer.

    build/peers/bin/python bench/peers/steps/steps.py --device cuda:0 --json steps.json

A step samples its rows at random from a replay on the device, gathers them, and trains a dueling double DQN on them
with Adam and Huber loss; every 16 steps the target is copied. Before an implementation is timed, its losses on given
rows are compared with ours, step by step: one that computes others is reported and not timed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import networks  # noqa: E402
import numpy as np  # noqa: E402
import timing  # noqa: E402
from common import OURS  # noqa: E402
from networks import BLOCK  # noqa: E402

ROUNDS, QUICK_ROUNDS = 31, 7
SECONDS, QUICK_SECONDS = 0.1, 0.02  # of one sample, at least
MODULES = ("ours", "torch_steps", "jax_steps")
CHECKED_BLOCKS = 2  # after more steps float32's own rounding exceeds the tolerances
TOLERANCES = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 3e-2}  # of a loss, relative


def _implementations(given: argparse.Namespace) -> tuple[list[Any], dict[str, str]]:
    """Those that take part, and why others do not. A library that does not load may raise anything."""
    found, absent = [], {}
    wanted = {OURS, *given.only.split(",")} if given.only else None
    for module in MODULES:
        try:
            kinds = importlib.import_module(module).IMPLEMENTATIONS
        except Exception as error:  # noqa: BLE001
            absent[module] = common.error_text(error)
            continue
        for kind in kinds:
            if wanted is not None and kind.name not in wanted:
                continue
            refusal = kind.refusal(given.device)
            if refusal:
                absent[kind.name] = refusal
            else:
                found.append(kind)
    return found, absent


def _losses(steps: Any) -> np.ndarray:
    """On the same random rows for all, past a copy to the target."""
    ids = np.random.default_rng(4).integers(0, steps.case.rows, (CHECKED_BLOCKS, BLOCK, steps.case.batch))
    return np.concatenate([steps.train_on(block) for block in ids])


def _fault(losses: np.ndarray, wanted: np.ndarray, math: str) -> str:
    """"" when they agree and vary: losses that do not change would agree for anybody."""
    if len(set(wanted.tolist())) < len(wanted) // 2:
        return "the losses of ours hardly differ from each other"
    wrong = np.flatnonzero(~(np.abs(losses - wanted) <= TOLERANCES[math] * np.abs(wanted)))  # NaN is wrong
    if not wrong.size:
        return ""
    at = wrong[0]
    return f"its loss of step {at + 1} is {losses[at]:.7g}; that of ours is {wanted[at]:.7g}"


def _run_of(steps: Any) -> timing.Run:
    def run(repeats: int) -> None:
        steps.train(repeats)
        steps.finish()

    return run


def _measure(case: networks.Case, kinds: list[Any], given: argparse.Namespace) -> dict[str, Any]:
    """Seconds of one step, and ours / theirs."""
    opened: dict[str, Any] = {}
    absent: dict[str, str] = {}
    wanted = None
    for kind in kinds:
        common.show(f"{case.name}: checking {kind.name}")
        steps = None
        try:
            steps = kind(case, given.device)
            losses = _losses(steps)
            wanted = losses if wanted is None else wanted
            fault = _fault(losses, wanted, case.math)
        except Exception as error:  # noqa: BLE001  another library may raise anything, and the rest must go on
            fault = f"it raised {common.error_text(error)}"
        if not fault:
            opened[kind.name] = steps
            continue
        absent[kind.name] = fault
        if steps is not None:
            steps.close()
        if kind.name == OURS:
            break
    common.show(f"{case.name}: timing {', '.join(opened)}")
    samples = timing.interleave({name: _run_of(steps) for name, steps in opened.items()}, given.rounds,
                                QUICK_SECONDS if given.quick else SECONDS, 1)
    found = common.variants({name: [s / BLOCK for s in seconds] for name, seconds in samples.items()}, absent)
    for one in found:
        if one["name"] in opened and opened[one["name"]].remark():
            one["but"] = opened[one["name"]].remark()
    for steps in opened.values():
        steps.close()
    opened.clear()
    gc.collect()
    return {"name": case.name, "network": case.network.name, "batch": case.batch, "rows": case.rows, "math": case.math,
            "tolerance": TOLERANCES[case.math], "variants": found}


def main(arguments: list[str]) -> int:
    """Exit status: 1 when ours is not here or was not timed, or the losses of another differ; 77 when the device is not
    here; 130 after Ctrl-C or SIGTERM, when the report has the cases until then."""
    quick = f"fewer sizes, shorter samples, {QUICK_ROUNDS} rounds"
    parser = common.parser_of(__doc__, ROUNDS, quick, "implementations")
    common.add_device(parser)
    given = common.parse(parser, arguments, ROUNDS, QUICK_ROUNDS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what `timeout` sends
    cores = common.use_threads(given.threads, given.device.startswith("cuda"))
    kinds, absent = _implementations(given)
    if not kinds or kinds[0].name != OURS:
        print(f"steps.py: gpureplay is not here: {absent}", file=sys.stderr)
        return 1
    error = common.device_error(given.device)
    if error:
        print(f"steps.py: {given.device}: {error}", file=sys.stderr)
        return 77
    head = {"title": "train steps of several libraries", "machine": common.describe_machine(),
            "settings": {"device": given.device, "threads": given.threads, "cores": cores, "rounds": given.rounds,
                         "quick": given.quick, "steps_a_call": BLOCK},
            "libraries": [{"name": kind.name, "version": kind.version(), "as_used": kind.as_used} for kind in kinds],
            "absent": absent, "interrupted": False}
    print(f"{head['machine']}\n{head['settings']}\nTimes of one step; ours / theirs, below 1: ours is faster.")
    for name, reason in absent.items():
        print(f"  {name}: {reason}")
    sizes = networks.cases(given.quick, given.device.startswith("cuda"))
    cases = common.collect(head, (_measure(case, kinds, given) for case in sizes), given.json)
    if head["interrupted"]:
        return 130
    failed = [one for case in cases for one in case["variants"] if "its loss" in one.get("absent", "")]
    timed = all("seconds" in case["variants"][0] for case in cases)
    return int(bool(failed) or not timed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
