# SPDX-License-Identifier: MIT
"""Whether a contestant does what is timed: rows that belong together, out of those that are there, old and new."""

from __future__ import annotations

import numpy as np
import check_priorities
from adapters.base import Adapter, Rows, Settings
from adapters.priorities import Prioritized
from adapters.saving import Saving
from workloads import FRAME_BYTES, Schema, rows_of, tags_of

DRAWS, DRAWN = 8, 64
CHUNK, CAPACITY = 64, 256  # of the small buffer that `prove` fills
BLOCK, FRAME_BLOCK = 80_000, 512  # transitions that are made at once: multiples of every chunk that comes with them


def wrong_rows(rows: Rows, adapter: Adapter, first: int, last: int) -> str:
    """What is wrong with rows that must be transitions `first` to `last` - 1; "" when nothing is."""
    tags = tags_of(adapter.schema, rows)
    if tags.min() < first or tags.max() >= last:
        return f"transitions {tags.min()} to {tags.max()} were drawn, and {first} to {last - 1} are there"
    for name, wanted in adapter.expected(rows_of(adapter.schema, tags)).items():
        given = np.asarray(rows[name]).reshape(wanted.shape)
        differs = np.flatnonzero((given != wanted).reshape(len(tags), -1).any(axis=1))
        if differs.size:
            return (f"{name} of transition {tags[differs[0]]} is that of another one, in {differs.size} rows of "
                    f"{len(tags)}")
    return ""


def verify(adapter: Adapter, last: int) -> str:
    """Of a full buffer to which transitions 0 to `last` - 1 were given in order."""
    adapter.finish()
    first, newer = last - adapter.capacity, 0
    for _ in range(DRAWS):
        rows = adapter.read(adapter.sample(DRAWN))
        wrong = wrong_rows(rows, adapter, first, last)
        if wrong:
            return wrong
        newer += int(np.count_nonzero(tags_of(adapter.schema, rows) >= first + adapter.capacity // 2))
    total = DRAWS * DRAWN  # 512: half of them are newer, give or take 11 (one sigma)
    return "" if abs(newer - total / 2) < 90 else f"{newer} of {total} draws are of the newer half"


def verify_priorities(adapter: Adapter) -> check_priorities.Found:
    """Of a buffer that was verified."""
    return check_priorities.verify(adapter) if isinstance(adapter, Prioritized) else check_priorities.Found("", "")


def fill(adapter: Adapter) -> int:
    """Until it is full and has begun anew. Returns how many were given."""
    block, last = FRAME_BLOCK if adapter.schema.row_bytes > FRAME_BYTES else BLOCK, 0
    while last <= adapter.capacity:
        adapter.fill(rows_of(adapter.schema, np.arange(last, last + block)))
        last += block
    return last


def _given(adapter: Adapter) -> int:
    envs = adapter.schema.envs
    for start in range(0, 2 * CAPACITY, CHUNK):
        rows = rows_of(adapter.schema, np.arange(start, start + CHUNK))
        if adapter.chunk > envs:
            adapter.extend(adapter.many(rows))
        else:
            for row in range(0, CHUNK, envs):
                adapter.add(adapter.one({name: array[row:row + envs] for name, array in rows.items()}))
    return 2 * CAPACITY


def chunks(schema: Schema) -> tuple[int, ...]:
    """The ways in that `prove` is to go: step by step, and many at once where a step stands alone."""
    if schema.envs > 1 or schema.episode:
        return (schema.envs,)
    return (1, CHUNK)


def prove(contestant: type[Adapter], schema: Schema, chunk: int, settings: Settings) -> str:
    """Adds step by step (`chunk` is as many as there are environments) or 64 at once to a small buffer, and draws."""
    adapter = contestant(schema, CAPACITY, chunk, settings)
    try:
        last = _given(adapter)
        wrong = verify(adapter, last) or "".join(verify_priorities(adapter))
        return _reload(adapter, last) if isinstance(adapter, Saving) and not wrong else wrong
    finally:
        adapter.close()


def _reload(adapter: Saving, last: int) -> str:
    """Whether another buffer has the same rows once it has loaded what this one saved."""
    adapter.save()
    other = type(adapter)(adapter.schema, adapter.capacity, adapter.chunk, adapter.settings)
    try:
        other.load(adapter.folder)
        wrong = verify(other, last)
        return f"loaded: {wrong}" if wrong else ""
    finally:
        other.close()
