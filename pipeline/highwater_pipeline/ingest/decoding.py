"""From lists of files to frames: Python reads in Spark's workers, and yields bounded batches.

Spark spreads the files, one row each; its workers see the run folders by the same paths. A frame
of decoded rows has its table's columns and `wrong`. Lines and files that are not accepted come in
the same pass: their rows have only run_id and wrong. Only this module knows Arrow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkValueError, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from highwater_pipeline.tables import Table

Row = Mapping[str, Any]

UNFIT = (OverflowError, UnicodeError, pa.ArrowException, PySparkValueError, PythonException)
"""The errors of a row with a value that no column holds, here or in a worker of Spark.

The values of each kind of file are checked before: such a row was not foreseen.
"""

ROWS_MAX = 10_000
CHARACTERS_MAX = 4_000_000
"""Of a batch: whichever is reached first ends it."""
TASKS_MAX = 256
TASKS_MIN = 2
BYTES_PER_TASK = 4 * 1024 * 1024

WRONG = StructType(
    [
        StructField("file", StringType()),
        StructField("line", LongType()),
        StructField("reason", StringType()),
        StructField("text", StringType()),
    ]
)
"""QUARANTINE's columns but run_id."""


def with_wrong(table: Table) -> StructType:
    """Return the table's schema with one more column: wrong, null in accepted rows."""
    return StructType([*table.schema.fields, StructField("wrong", WRONG)])


def decoded(
    spark: SparkSession,
    files: Sequence[tuple[Any, ...]],
    files_schema: StructType,
    rows_of: Callable[[Row], Iterable[Row]],
    schema: StructType,
    tasks: int = TASKS_MAX,
    evenly_by: str = "",
) -> DataFrame:
    """Return the rows that rows_of yields for each file, one by one.

    files: rows of files_schema, spread over at most `tasks` tasks.
    evenly_by: a column with another value in each file, by which every task gets as many: files
      that take minutes must not meet in one. "": they are spread by chance, which costs less.
    rows_of: a function of a module, called in the workers.
    """
    given = spark.createDataFrame(list(files), files_schema)
    count = max(1, min(len(files), tasks))
    spread = given.repartitionByRange(count, evenly_by) if evenly_by else given.repartition(count)
    return spread.mapInArrow(functools.partial(_decode, rows_of, schema), schema)


def tasks_for(total_bytes: int) -> int:
    """Return the number of tasks for these files: a task costs more than a small file."""
    return min(TASKS_MIN + total_bytes // BYTES_PER_TASK, TASKS_MAX)


def _decode(
    rows_of: Callable[[Row], Iterable[Row]],
    schema: StructType,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    arrow_schema = to_arrow_schema(schema)
    for batch in batches:
        for file in batch.to_pylist():
            yield from in_batches(rows_of(file), arrow_schema)


def in_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows, in order, as batches of bounded size; a column that a row lacks is null."""
    held: list[Row] = []
    characters = 0
    for row in rows:
        held.append(row)
        characters += sum(len(cell) for cell in row.values() if isinstance(cell, str))
        if len(held) >= ROWS_MAX or characters >= CHARACTERS_MAX:
            yield pa.RecordBatch.from_pylist(held, schema=schema)
            held, characters = [], 0
    if held:
        yield pa.RecordBatch.from_pylist(held, schema=schema)
