# SPDX-License-Identifier: MIT
"""R2D2 [Kapturowski et al. 2019] in the T-maze of examples/python/r2d2.py, with the stored recurrent state at the
beginning of sequences, with zeros there, and without memory."""

from __future__ import annotations

import sys
import time
from argparse import Namespace

from harness import HERE, Job, Run

sys.path.append(str(HERE.parents[1] / "examples/python"))


def run(job: Job) -> Run:
    import r2d2

    curve: list[tuple[int, float]] = []
    start = time.process_time()
    r2d2.train(Namespace(steps=job.settings["steps"], seed=job.seed, state=job.options[0]), curve)
    return {"evaluated": curve[-1][1], "seconds": round(time.process_time() - start, 1), "curve": curve}
