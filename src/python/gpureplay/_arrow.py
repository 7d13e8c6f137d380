# SPDX-License-Identifier: MIT
"""Columns of Arrow's tables and of Parquet files as arrays, and arrays as such columns."""

from __future__ import annotations

import bisect
import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ._episodes import needed
from ._paths import Replacing

_N_STEP, _GAMMA = b"n_step", b"gamma"  # in the metadata of transitions of several steps
_SHAPE = b"shape"  # in the metadata of a column whose values have several axes
_GROUP_BYTES = 2**26  # of a group of rows of a file


def arrow() -> Any:
    return needed("pyarrow", "Arrow's and Parquet's form")


# To Arrow.


def _schema_of(part: Mapping[str, np.ndarray], steps: tuple[int, float] | None) -> Any:
    pa = arrow()
    fields = []
    for name, array in part.items():
        kind, shape = pa.from_numpy_dtype(array.dtype), array.shape[1:]
        if shape:
            kind = pa.list_(kind, math.prod(shape))
        metadata = {_SHAPE: json.dumps(shape).encode()} if len(shape) > 1 else None
        fields.append(pa.field(name, kind, nullable=False, metadata=metadata))
    return pa.schema(fields, None if steps is None else {_N_STEP: str(steps[0]), _GAMMA: repr(steps[1])})


def _steps_of(schema: Any) -> tuple[int, float] | None:
    """The n_step and gamma that were written, or None."""
    found = schema.metadata or {}
    return (int(found[_N_STEP]), float(found[_GAMMA])) if _N_STEP in found and _GAMMA in found else None


def _column_of(array: np.ndarray) -> Any:
    pa = arrow()
    if array.ndim == 1:
        return pa.array(np.ascontiguousarray(array))
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array).reshape(-1)),
                                             math.prod(array.shape[1:]))


def record_batches(parts: Iterable[Mapping[str, np.ndarray]], steps: tuple[int, float] | None
                   ) -> tuple[Any, Iterator[Any]]:
    """The schema, and a record batch of each part, whose arrays are (count, ...): one list of numbers for each row
    where there are several. steps: n_step and gamma of transitions of several steps, for the metadata."""
    each = iter(parts)
    first = next(each)
    schema = _schema_of(first, steps)

    def batches() -> Iterator[Any]:
        part: Mapping[str, np.ndarray] | None = first
        while part is not None:
            yield arrow().record_batch([_column_of(array) for array in part.values()], schema=schema)
            part = next(each, None)

    return schema, batches()


def write_parquet(file: Replacing, parts: Iterable[Mapping[str, np.ndarray]], steps: tuple[int, float] | None,
                  done: Callable[[int], Any]) -> None:
    """done: is called with the rows that were written."""
    pa, parquet = arrow(), needed("pyarrow.parquet", "Parquet's form")
    schema, batches = record_batches(parts, steps)
    held: list[Any] = []
    with file.written(parquet.ParquetWriter)(file.part, schema) as writer:
        write = file.written(writer.write_table)
        for batch in batches:
            held.append(batch)
            if sum(one.nbytes for one in held) >= _GROUP_BYTES:
                write(pa.Table.from_batches(held))
                held = []
            done(batch.num_rows)
        if held:
            write(pa.Table.from_batches(held))
        file.written(writer.close)()


# From Arrow.


class ArrowTable:
    """The columns of tables that follow each other, which are loaded when they are read; the last two stay."""

    def __init__(self, names: list[str], counts: list[int], load: Callable[[int], Any],
                 steps: tuple[int, float] | None = None):
        self.steps = steps  # n_step and gamma, if rows are of several steps
        self._load, self._counts = load, counts
        self._ends = np.cumsum(counts).tolist()
        self._loaded: dict[int, Any] = {}
        self.count = sum(counts)
        self.columns = {name: _Column(self, name) for name in names}

    def read(self, name: str, first: int, end: int) -> np.ndarray:
        found = [_array_of(piece) for piece in self._tables(name, first, end)]
        return np.concatenate(found) if len(found) != 1 else found[0]

    def pieces(self, name: str, first: int, end: int) -> Iterator[Any]:
        """A column as arrays of Arrow's."""
        for piece in self._tables(name, first, end):
            yield piece.column(0).combine_chunks()

    def _tables(self, name: str, first: int, end: int) -> Iterator[Any]:
        """Tables of the column alone. KeyError: there is none."""
        if name not in self.columns:
            raise KeyError(f"the data set's files have no column {name!r}; they have {', '.join(self.columns)}")
        at = bisect.bisect_right(self._ends, first)
        while first < end and at < len(self._counts):
            begin = self._ends[at] - self._counts[at]
            stop = min(end, self._ends[at])
            yield self._table(at).select([name]).slice(first - begin, stop - first)
            first, at = stop, at + 1

    def _table(self, at: int) -> Any:
        if at not in self._loaded:
            for old in list(self._loaded)[:-1]:
                del self._loaded[old]
            self._loaded[at] = self._load(at)
        return self._loaded[at]


class _Column:
    def __init__(self, table: ArrowTable, name: str):
        self._table, self._name = table, name

    def __len__(self) -> int:
        return self._table.count

    def __getitem__(self, part: slice) -> np.ndarray:
        first, end, _ = part.indices(self._table.count)
        return self._table.read(self._name, first, end)


def of_table(table: Any) -> ArrowTable:
    """Of pyarrow's Table, RecordBatch or RecordBatchReader. TypeError: it is none of them."""
    pa = arrow()
    if isinstance(table, pa.RecordBatchReader):
        table = table.read_all()
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise TypeError(f"table is a {type(table).__name__}; it must be a Table, RecordBatch or RecordBatchReader of "
                        "pyarrow")
    return ArrowTable(table.column_names, [table.num_rows], lambda _: table, _steps_of(table.schema))


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """OSError: the file there is none of Parquet's, or damaged."""
    try:
        yield
    except FileNotFoundError:  # it says the path
        raise
    except (arrow().ArrowException, OSError) as error:
        raise OSError(f"{path!r} cannot be read; it must be a Parquet file: {error}") from error


def of_files(paths: list[str]) -> ArrowTable:
    """Of Parquet files one after another, which have the same columns."""
    parquet = needed("pyarrow.parquet", "Parquet's form")
    groups: list[tuple[str, int]] = []
    counts: list[int] = []
    names: list[str] = []
    steps = None
    for path in paths:
        with reading(path), parquet.ParquetFile(path) as file:
            names, steps = names or file.schema_arrow.names, _steps_of(file.schema_arrow)
            if file.schema_arrow.names != names:
                raise ValueError(f"{path} has the columns {', '.join(file.schema_arrow.names)}, and {paths[0]} has "
                                 f"{', '.join(names)}; they must be the same")
            for at in range(file.num_row_groups):
                groups.append((path, at))
                counts.append(file.metadata.row_group(at).num_rows)

    def load(at: int) -> Any:
        path, group = groups[at]
        with reading(path), parquet.ParquetFile(path) as file:
            return file.read_row_group(group)

    return ArrowTable(names, counts, load, steps)


def _array_of(table: Any) -> np.ndarray:
    """(count, ...) of the column of a table: a number in each row, or as many of them, in lists or in lists of
    lists."""
    field = table.schema.field(0)
    column, name, shape = table.column(0).combine_chunks(), field.name, [table.num_rows]
    if hasattr(column, "storage"):  # a tensor of a fixed shape
        shape.extend(column.type.shape)
        column = column.storage
    is_known = len(shape) > 1 or (field.metadata or {}).get(_SHAPE) is not None
    if len(shape) == 1 and is_known:
        shape.extend(json.loads(field.metadata[_SHAPE]))
    while hasattr(column.type, "value_type"):
        if column.null_count:
            raise ValueError(f"column {name!r} has rows without a value; each must have one")
        rows, column = len(column), _flat(name, column)
        if not is_known:
            shape.append(len(column) // max(1, rows))
    if column.null_count:
        raise ValueError(f"column {name!r} has rows without a value; each must have one")
    array: np.ndarray = column.to_numpy(zero_copy_only=False)
    return array.reshape(shape)


def _flat(name: str, column: Any) -> Any:
    """The values of all lists. ValueError: their lengths differ."""
    flat = column.flatten()
    lengths = column.value_lengths() if hasattr(column, "value_lengths") else None
    if lengths is not None and len(lengths) and len(lengths.unique()) > 1:
        raise ValueError(f"column {name!r} has lists of {lengths.unique().to_pylist()[:3]} numbers; all must have as "
                         "many")
    return flat
