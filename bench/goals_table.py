# SPDX-License-Identifier: MIT
"""What replay on a GPU is to take. Floors and expectations are of an NVIDIA H200 and older than any run: bytes at
4.3 TB/s, 1.2 µs for a node of a graph, 67 TFLOP/s in float32, 790 in bfloat16. An H100 has the same multiprocessors and
70% of that bandwidth (3.35 TB/s nominal, an H200 4.8): the floor that is bound by bytes is told for both."""

from __future__ import annotations

from goals_judge import Goal
from goals_read import Case

US, NS = 1e-6, 1e-9


def device(*names: str) -> tuple[Case, ...]:
    return tuple(Case("bench_device", name) for name in names)


def steps(preset: str, batch: int, math: str, ways: tuple[str, ...]) -> tuple[tuple[str, tuple[Case, ...]], ...]:
    return tuple((way, device(f"{preset} step, batch {batch}, {math}, {way}")) for way in ways)


SMALL_WAYS = ("unroll 1", "unroll 8", "unroll 32", "one kernel")  # what a learner's config can ask for
STEPS_EQUAL = ": steps, skipped, loss"


def small_step(batch: int, first: float, then: float, floor: str, expected: str) -> Goal:
    return Goal(f"`melee-gpu` train step, batch {batch:,}, float32", first, then, floor, expected,
                steps("melee-gpu", batch, "fp32", SMALL_WAYS), each_equal=STEPS_EQUAL)


def nature_step(batch: int, first: float, then: float, floor: str, expected: str) -> Goal:
    return Goal(f"`nature-dueling` train step, batch {batch}, bfloat16", first, then, floor, expected,
                steps("nature-dueling", batch, "bf16", ("unroll 8",)), each_equal=STEPS_EQUAL)


GOALS = (
    Goal("append of 228 bytes, host side, blocks of 2,000", 40 * NS, 20 * NS, "11 ns, a copy of them by one core",
         "14 to 25 ns", (("copy feed", (Case("bench_append", "append 2000 x 228 B"),)),)),
    Goal("uniform sample + gather, batch 32 and 1,024, 57 floats", 4 * US, 2.5 * US, "2 µs", "2 to 2.5 µs",
         (("one kernel", device("draw + gather 32 rows of 1,000,000, recorded",
                                "draw + gather 1024 rows of 1,000,000, recorded")),)),
    Goal("prioritized sample + gather, 1 M entries, batch 32 and 1,024", 6 * US, 4 * US, "3 µs",
         "2.5 to 3 µs the draw, and a gather",
         (("draw, then gather", device("draw + gather 32 rows of 1,000,000 by priority, recorded",
                                       "draw + gather 1024 rows of 1,000,000 by priority, recorded")),),
         device("draws of 1 M, here and on the CPU")),
    Goal("priority update, 1 M entries, batch 32 and 4,096", 4 * US, 2.5 * US, "2 µs", "2 to 2.5 µs",
         (("one kernel", device("update 32 of 1 M by priority, recorded",
                                "update 4096 of 1 M by priority, recorded")),),
         device("leaves of 1 M, here and on the CPU", "sums above them of 1 M, here and on the CPU")),
    small_step(32, 35 * US, 8 * US, "3 to 4 µs", "25 to 35 µs by libraries, 12 to 20 as one kernel"),
    small_step(256, 40 * US, 14 * US, "9 µs", "30 to 40 µs by libraries, 25 to 30 as one kernel"),
    small_step(1024, 80 * US, 30 * US, "24 µs, or 8 in TF32",
               "60 to 80 µs by libraries, 60 as one kernel"),
    Goal("pixels gather, batch 512, stacks of 4 x 84 x 84, to bfloat16", 25 * US, 20 * US, "18 µs, on an H100 26",
         "18 to 25 µs in one kernel, 15 more in two; on an H100 26 to 36",
         (("one kernel", device("pixels, 512 transitions: frames to bfloat16 in one kernel")),
          ("two kernels", device("pixels, 512 transitions: frames to bytes to bfloat16"))),
         device("pixels, numbers of two kernels and of one")),
    nature_step(32, 200 * US, 90 * US, "20 µs", "130 to 200 µs"),
    nature_step(512, 450 * US, 250 * US, "90 µs", "250 to 400 µs"),
)
