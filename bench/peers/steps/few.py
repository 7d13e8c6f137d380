#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A few train steps of this repository's learner and nothing else, for a profiler to list their kernels.

    ncu --metrics gpu__time_duration.sum \\
        python3 bench/peers/steps/few.py --preset nature-dueling --batch 512 --math bf16

It fills a small replay, makes the learner, whose warm-up is a step without a graph, and trains --steps more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gpureplay  # noqa: E402
import networks  # noqa: E402
import ours  # noqa: E402

ROWS = 2000


def main() -> int:
    """Exit status: 77 when the device is not here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--preset", choices=sorted(networks.NETWORKS), default="melee-gpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--math", choices=networks.MATHS, default="fp32")
    parser.add_argument("--step-kernel", choices=("libraries", "fused"), default="libraries")
    parser.add_argument("--steps", type=int, default=2)
    given = parser.parse_args()

    class Steps(ours.Ours):
        settings = {"step_kernel": given.step_kernel}

    case = networks.Case(networks.NETWORKS[given.preset], given.batch, ROWS, given.math)
    try:
        learner = Steps(case, given.device)
    except gpureplay.Unavailable as error:
        print(f"few.py: {given.device}: {error}", file=sys.stderr)
        return 77
    learner.train_few(given.steps)
    learner.close()
    print(f"{case.name}, {given.step_kernel}: {given.steps} steps")
    return 0


sys.exit(main())
