# SPDX-License-Identifier: MIT
"""What is done in one of two ways until somebody has measured both on a GPU: the pairs, by the names of their cases."""

from __future__ import annotations

import re

from goals_judge import Choice
from goals_read import Case, Results

SMALL, PIXELS, BLOCKS = (32, 256, 1024), (32, 512), (16, 66, 132)


def step(words: str, way: str) -> Case:
    return Case("bench_device", f"{words}, {way}")


def small(batch: int, way: str, math: str = "fp32") -> Case:
    return step(f"melee-gpu step, batch {batch}, {math}", way)


def nature(batch: int, way: str) -> Case:
    return step(f"nature-dueling step, batch {batch}, bf16", way)


def nodes(name: str) -> Case:
    return Case("bench_nodes", name)


def chain(length: int) -> str:
    return f"recorded chain of {length}, 32 repetitions, unroll 8"


def pixels(batch: int, way: str) -> Case:
    return Case("bench_device", f"pixels, {batch} transitions: frames to {way}")


def gather(batch: int, pitch: int) -> Case:
    return Case("bench_device", f"gather: {batch} rows {pitch} B apart")


def two(what: str, one: str, first: Case, other: str, second: Case) -> Choice:
    return Choice(what, (one, first), (other, second))


WAITING, PLAIN = "dependent launches", "plain ones"
LAUNCHES = (
    *(two(f"kernels that wait for the one before by themselves, a chain of {length}", WAITING,
          nodes(f"{chain(length)}, dependent launches"), PLAIN, nodes(chain(length))) for length in (64, 512)),
    *(two(f"the same in a step of `melee-gpu`, batch {batch:,}", WAITING, small(batch, "unroll 32, dependent launches"),
          PLAIN, small(batch, "unroll 32")) for batch in SMALL),
    *(two(f"the same in a step of `nature-dueling`, batch {batch}", WAITING,
          nature(batch, "unroll 8, dependent launches"), PLAIN, nature(batch, "unroll 8")) for batch in PIXELS),
)
UNROLLING = (
    *(two(f"steps in one graph, `melee-gpu`, batch {batch:,}", one, small(batch, one), other, small(batch, other))
      for batch in SMALL for one, other in (("unroll 8", "unroll 1"), ("unroll 32", "unroll 8"))),
    *(two(f"32 rounds of {words}", "WHILE, and a node more",
          nodes(f"32 rounds of {length} nodes, WHILE and one node more"), "unrolled",
          nodes(f"32 rounds of {length} nodes, unrolled"))
      for length, words in ((1, "one node"), (14, "14 nodes"))),
)
ARITHMETIC = tuple(two(f"arithmetic of `melee-gpu`'s products, batch {batch:,}", "TF32",
                       small(batch, "unroll 8", "tf32"), "FP32", small(batch, "unroll 8")) for batch in SMALL)
KERNELS = (
    *(two(f"a step of `melee-gpu`, batch {batch:,}", "one kernel", small(batch, "one kernel"), "by libraries",
          small(batch, "unroll 32")) for batch in SMALL),
    *(two(f"the blocks of the one kernel, batch {batch:,}", "a cluster of 16",
          small(batch, "one kernel, cluster of 16"), f"a grid of {blocks}",
          small(batch, f"one kernel, grid of {blocks}")) for batch in SMALL for blocks in BLOCKS),
)
BARRIERS = (
    two("16 blocks that wait for each other", "one cluster", nodes("meet: cluster of 16 blocks"), "a cooperative grid",
        nodes("meet: grid of 16 blocks")),
    *(two(f"a barrier over a grid of {blocks}", "an atomic counter", nodes(f"grid barrier by hand, {blocks} blocks"),
          "cooperative groups", nodes(f"grid barrier of cooperative groups, {blocks} blocks")) for blocks in BLOCKS),
)
GATHERS = (
    *(two(f"frames to what a first convolution reads, batch {batch}", "one kernel",
          pixels(batch, "bfloat16 in one kernel"), "two", pixels(batch, "bytes to bfloat16")) for batch in PIXELS),
    *(two("rows of 57 floats, batch 4,096", f"{pitch} bytes apart", gather(4096, pitch), "228 bytes apart",
          gather(4096, 228)) for pitch in (240, 256)),
)
CACHE = tuple(two(f"a part of L2 set aside: {words}", "set aside", step(case, "L2 window"), "as it is",
                  step(case, "L2 as it is"))
              for words, case in (
                  ("a learner's memory, `melee-gpu`, batch 256", "melee-gpu step, batch 256, fp32"),
                  ("the upper sums of 16 M priorities, draws of 4,096", "draw 4096 of 16 M by priority")))
CHOICES = (*LAUNCHES, *UNROLLING, *KERNELS, *BARRIERS, *ARITHMETIC, *GATHERS, *CACHE)


class Family:
    """Pairs that differ in their sizes or shapes: `one` and `other` name a case each, with {} for what both share."""

    def __init__(self, what: str, file: str, one: tuple[str, str], other: tuple[str, str]):
        self.what, self.file, self.one, self.other = what, file, one, other

    def choices(self, results: Results) -> list[Choice]:
        """Those of which both are in the file; where there are none, one that says so."""
        before, after = self.one[1].split("{}")
        pattern = re.compile(re.escape(before) + "(.+)" + re.escape(after))
        shared = [found[1] for found in map(pattern.fullmatch, results.names(self.file)) if found]
        pairs = [(Case(self.file, self.one[1].format(one)), Case(self.file, self.other[1].format(one)), one)
                 for one in shared]
        found = [Choice(f"{self.what}, {one}", (self.one[0], first), (self.other[0], second), self.what)
                 for first, second, one in pairs if results.has(second)]
        if found:
            return found
        one, other = ((words, Case(self.file, name.format("..."))) for words, name in (self.one, self.other))
        return [Choice(self.what, one, other, self.what)]


FAMILIES = (
    Family("a matrix product", "bench_device", ("a graph of cuDNN's", "{}, by a graph"),
           ("cuBLASLt", "{}, by cuBLASLt")),
    Family("the host's numbers to a kernel", "bench_nodes", ("read by the kernel", "pinned host, read by a kernel, {}"),
           ("copied before", "pinned host to device, {}")),
    Family("rows of 228 bytes to 256 apart", "bench_nodes",
           ("spread by the copy", "{} rows of 228 B to the device, spread to 256 B each by the copy"),
           ("padded by the host", "{} rows of 228 B to the device, padded to 256 B each by the host")),
    Family("many copies", "bench_nodes", ("one call", "{} to the device, one call"),
           ("a call each", "{} to the device, a call each")),
)


def choices(results: Results) -> list[Choice]:
    return [*CHOICES, *(one for family in FAMILIES for one in family.choices(results))]
