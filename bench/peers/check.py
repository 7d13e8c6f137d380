# SPDX-License-Identifier: MIT
"""Whether a library does what is timed: rows that belong together, out of those that are there; samples that follow
priorities, weights that make up for it, indices that name their rows."""

from __future__ import annotations

import numpy as np
from adapters.base import ALPHA, BETA, INDEX, WEIGHT, Adapter, Prioritized, Rows, Saving, Settings
from workloads import FRAME_BYTES, Schema, rows_of, tags_of

DRAWS, DRAWN = 8, 64
CHUNK, CAPACITY = 64, 256  # of the small buffer that `check_small` fills
BLOCK, FRAME_BLOCK = 80_000, 512  # transitions that are made at once: multiples of every chunk that comes with them
PRIORITY_DRAWS, AT_ONCE = 65_536, 128
BINS, MAX_CHI_SQUARE = 16, 60.0  # of 15 degrees of freedom: above 60 with a probability of 2e-7
MAX_WEIGHT_RATIO = 1.01  # of weights to the formula's: some libraries add a little to each priority


def wrong_rows(rows: Rows, adapter: Adapter, first: int, last: int) -> str:
    """What is wrong with rows that must be transitions `first` to `last` - 1; "" when nothing is."""
    tags = tags_of(adapter.schema, rows)
    if tags.min() < first or tags.max() >= last:
        return f"transitions {tags.min()} to {tags.max()} were sampled, and {first} to {last - 1} are there"
    for name, wanted in adapter.expected(rows_of(adapter.schema, tags)).items():
        given = np.asarray(rows[name]).reshape(wanted.shape)
        differs = np.flatnonzero((given != wanted).reshape(len(tags), -1).any(axis=1))
        if differs.size:
            return (f"{name} of transition {tags[differs[0]]} is that of another one, in {differs.size} rows of "
                    f"{len(tags)}")
    return ""


def check_rows(adapter: Adapter, last: int) -> str:
    """What is wrong with a full buffer to which transitions 0 to `last` - 1 were given in order."""
    adapter.finish()
    first, newer = last - adapter.capacity, 0
    for _ in range(DRAWS):
        rows = adapter.read(adapter.sample(DRAWN))
        wrong = wrong_rows(rows, adapter, first, last)
        if wrong:
            return wrong
        newer += int(np.count_nonzero(tags_of(adapter.schema, rows) >= first + adapter.capacity // 2))
    total = DRAWS * DRAWN  # 512: half of them are newer, give or take 11 (one sigma)
    return "" if abs(newer - total / 2) < 90 else f"{newer} of {total} samples are of the newer half"


def _set_priorities(adapter: Prioritized) -> np.ndarray:
    """Gives every row a random priority; (capacity,) float32, by slot."""
    priorities = np.random.default_rng(3).random(adapter.capacity, np.float32) + np.float32(0.05)
    for first in range(0, adapter.capacity, adapter.max_rows):
        slots = np.arange(first, min(first + adapter.max_rows, adapter.capacity))
        adapter.update(adapter.indices_as(adapter.indices_of_slots(slots)), adapter.priorities_as(priorities[slots]))
    adapter.finish()
    return priorities


def _wrong_batch(adapter: Prioritized, priorities: np.ndarray, slots: np.ndarray, read: Rows) -> str:
    indices = adapter.indices_of_slots(slots)
    if not np.array_equal(indices, np.asarray(read[INDEX]).reshape(-1)):
        return f"index {np.asarray(read[INDEX]).reshape(-1)[:4]} came with the rows of {indices[:4]}"
    scaled = np.asarray(read[WEIGHT], np.float64).reshape(-1) * priorities[slots].astype(np.float64)**(ALPHA * BETA)
    if not (scaled.min() > 0 and scaled.max() / scaled.min() < MAX_WEIGHT_RATIO):
        return f"weights differ from (N P)^-{BETA} by a factor from {scaled.min():.4g} to {scaled.max():.4g}"
    return ""


def _chi_square(priorities: np.ndarray, sampled: np.ndarray) -> float:
    """Of BINS bins of rows, by their priorities; sampled: (capacity,) counts."""
    mass = priorities.astype(np.float64)**ALPHA
    order = np.argsort(priorities, kind="stable")
    wanted = np.array([part.sum() for part in np.array_split(mass[order], BINS)]) / mass.sum() * sampled.sum()
    found = np.array([part.sum() for part in np.array_split(sampled[order], BINS)])
    return float(((found - wanted)**2 / wanted).sum())


def check_priorities(adapter: Adapter) -> tuple[str, str]:
    """What is wrong with rows, weights or indices, and how samples deviate from priorities, which stay random."""
    if not isinstance(adapter, Prioritized):
        return "", ""
    priorities = _set_priorities(adapter)
    sampled = np.zeros(adapter.capacity, np.int64)
    for _ in range(PRIORITY_DRAWS // AT_ONCE):
        read = adapter.read(adapter.sample(AT_ONCE))
        slots = tags_of(adapter.schema, read) % adapter.capacity
        wrong = _wrong_batch(adapter, priorities, slots, read)
        if wrong:
            return wrong, ""
        np.add.at(sampled, slots, 1)
    chi_square = _chi_square(priorities, sampled)
    if chi_square <= MAX_CHI_SQUARE:
        return "", ""
    return "", f"samples do not follow priorities: chi-square {chi_square:.0f} with {BINS - 1} degrees of freedom"


def fill(adapter: Adapter) -> int:
    """Until it is full and has begun anew. Returns how many were given."""
    block, last = FRAME_BLOCK if adapter.schema.row_bytes > FRAME_BYTES else BLOCK, 0
    while last <= adapter.capacity:
        adapter.fill(rows_of(adapter.schema, np.arange(last, last + block)))
        last += block
    return last


def _fill_small(adapter: Adapter) -> int:
    envs = adapter.schema.envs
    for start in range(0, 2 * CAPACITY, CHUNK):
        rows = rows_of(adapter.schema, np.arange(start, start + CHUNK))
        if adapter.chunk > envs:
            adapter.extend(adapter.many(rows))
        else:
            for row in range(0, CHUNK, envs):
                adapter.add(adapter.one({name: array[row:row + envs] for name, array in rows.items()}))
    return 2 * CAPACITY


def _check_reload(adapter: Saving, last: int) -> str:
    """Whether another buffer has the same rows once it has loaded what this one saved."""
    adapter.save()
    other = type(adapter)(adapter.schema, adapter.capacity, adapter.chunk, adapter.settings)
    try:
        other.load(adapter.folder)
        wrong = check_rows(other, last)
        return f"loaded: {wrong}" if wrong else ""
    finally:
        other.close()


def check_small(kind: type[Adapter], schema: Schema, settings: Settings) -> str:
    """What is wrong with a small buffer of it, filled step by step, and many at once where a step stands alone."""
    for chunk in (schema.envs,) if schema.envs > 1 or schema.episode else (1, CHUNK):
        adapter = kind(schema, CAPACITY, chunk, settings)
        try:
            last = _fill_small(adapter)
            wrong = check_rows(adapter, last) or "".join(check_priorities(adapter))
            if isinstance(adapter, Saving) and not wrong:
                wrong = _check_reload(adapter, last)
        finally:
            adapter.close()
        if wrong:
            return wrong
    return ""
