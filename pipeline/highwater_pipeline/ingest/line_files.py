"""Histories, traces, looks, probes and intents: from a decoded line to rows of its table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from highwater_checker.history import HistoryEvent, OpenOperations
from highwater_checker.looks import Look
from highwater_checker.probes import Probe
from highwater_checker.run_folder.intents import IntendedFault, Intent
from highwater_core.events import TraceEvent
from highwater_core.traces import decode_event
from highwater_pipeline.ingest.decoding import Row, decoded, with_wrong
from highwater_pipeline.ingest.details import BOUNDS, typed_details
from highwater_pipeline.ingest.inventory import UNREAD
from highwater_pipeline.ingest.lines import Decoded, Wrong, decode_lines, read_lines
from highwater_pipeline.tables import (
    EVENTS,
    FAULTS,
    LOOKS,
    OF_THE_END,
    OPERATIONS,
    PROBES,
    REPLICA_LOOKS,
    Table,
)

_FILES = StructType(
    [
        StructField("run_id", StringType()),
        StructField("folder", StringType()),
        StructField("file", StringType()),
        StructField("acks", IntegerType()),
        StructField("max_in_flight", IntegerType()),
        StructField("is_idempotent", BooleanType()),
        StructField("ends_the_run", BooleanType()),
        StructField("begins", ArrayType(ArrayType(LongType()))),
    ]
)


@dataclass(frozen=True, slots=True)
class LineFile:
    """A file of lines. file: its path in the run's folder.

    acks, max_in_flight, is_idempotent: of its client. ends_the_run: whether its last look stands
    for the one at the end. begins: of a trace, where the starts of nodes begin in this run: node,
    incarnation and seq.
    """

    run_id: str
    folder: str
    file: str
    acks: int | None = None
    max_in_flight: int | None = None
    is_idempotent: bool | None = None
    ends_the_run: bool = True
    begins: Sequence[Sequence[int]] = ()


OUT_OF_ORDER = "out of order"
"""The first words of the reason for a trace's line that does not follow the line before it."""


class WrongLine(Exception):
    """A line that decodes and still is none of its file; the message says why."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: the decoder of its lines, and the reader that makes a table's rows of them.

    decode: of one line's bytes, as highwater_checker reads it; raises msgspec's errors.
    reader: called for each file; it returns a function that is called for the file's lines, in
    their order, and may raise WrongLine.
    """

    table: Table
    decode: Callable[[bytes], Any]
    reader: Callable[[LineFile], Callable[[Decoded], Sequence[Row]]]


SEEN = Table(REPLICA_LOOKS.name, {**REPLICA_LOOKS.columns, **LOOKS.columns}, REPLICA_LOOKS.sort_key)
"""The rows of both tables, as one pass over a file of looks gives them: looks_in, replicas_in."""


def looks_in(seen: DataFrame) -> DataFrame:
    return seen.where("topic IS NULL")


def replicas_in(seen: DataFrame) -> DataFrame:
    return seen.where("topic IS NOT NULL")


def decoded_files(
    spark: SparkSession, table: Table, files: Sequence[LineFile], tasks: int
) -> DataFrame:
    """Return the rows of the table's files, and in `wrong` the lines that were refused.

    table: of a Format. tasks: over how many they are spread at most. Row grain and sort key: the
    table's. `wrong`: as in decoding.py.
    """
    rows = [tuple(getattr(file, name) for name in _FILES.names) for file in files]
    read = functools.partial(_rows_of_cells, table.name)
    return decoded(spark, rows, _FILES, read, with_wrong(table), tasks)


def rows_of_file(file: LineFile, table: Table) -> Iterator[Row]:
    """Yield a file's rows, wrong lines among them; reads it as they are asked for.

    A file that cannot be read is wrong as a whole.
    """
    try:
        yield from _rows_of_lines(file, FORMATS[table.name])
    except OSError as error:
        why = f"{UNREAD}: {error.strerror or error}"
        yield wrong_row(file.run_id, file.file, Wrong(-1, why, None))


def _rows_of_lines(file: LineFile, of_kind: Format) -> Iterator[Row]:
    rows_of = of_kind.reader(file)
    for found in decode_lines(read_lines(Path(file.folder, file.file)), of_kind.decode):
        if isinstance(found, Wrong):
            yield wrong_row(file.run_id, file.file, found)
            continue
        try:
            rows = rows_of(found)
            _check_ranges(rows, of_kind.table)
        except (WrongLine, RecursionError) as error:  # a detail may be too deep to write again
            yield wrong_row(file.run_id, file.file, found.line.wrong(f"wrong: {error}"))
        else:
            yield from rows


def wrong_row(run_id: str, file: str, wrong: Wrong) -> Row:
    """Return the row of a decoded frame for a line that was refused."""
    cells = {"file": file, "line": wrong.line, "reason": wrong.reason, "text": wrong.text}
    return {"run_id": run_id, "wrong": cells}


def _rows_of_cells(table_name: str, cells: Row) -> Iterator[Row]:
    return rows_of_file(LineFile(**cells), FORMATS[table_name].table)


def _check_ranges(rows: Sequence[Row], table: Table) -> None:
    """Raise WrongLine for a number that its column cannot hold: JSON's have no bounds."""
    for row in rows:
        for name, bound in _bounds(table):
            cell = row.get(name)
            for number in cell if isinstance(cell, tuple | list) else (cell,):
                if number is not None and not -bound <= number < bound:
                    raise WrongLine(f"{number} does not fit {name}")


@functools.cache
def _bounds(table: Table) -> tuple[tuple[str, int], ...]:
    """Return each column of whole numbers with its bound."""
    elements = {
        name: kind.elementType if isinstance(kind, ArrayType) else kind
        for name, kind in table.columns.items()
    }
    return tuple((name, BOUNDS[kind]) for name, kind in elements.items() if kind in BOUNDS)


def _fields(value: Any) -> Row:
    """Return a dataclass's fields by name; the schema leaves out fields that are no column."""
    return {each.name: getattr(value, each.name) for each in fields(value)}


class _Operations:
    """Reads a history: which sends have begun and have no outcome yet, it remembers."""

    def __init__(self, file: LineFile) -> None:
        self._file = file
        self._process = PurePosixPath(file.file).stem
        self._open = OpenOperations(gets_offsets=file.acks != 0)

    def __call__(self, at: Decoded) -> Sequence[Row]:
        event: HistoryEvent = at.value
        if event.process != self._process:
            raise WrongLine(f"process {event.process!r} in the history of {self._process!r}")
        row = {
            "run_id": self._file.run_id,
            "line": at.line.number,
            **_fields(event),
            "acks": self._file.acks,
            "max_in_flight": self._file.max_in_flight,
            "is_idempotent": self._file.is_idempotent,
            "is_unmatched": True if self._open.is_unmatched(event) else None,
        }
        return [row]


class _Events:
    """Reads a trace, and remembers which event of each start is due next in this file.

    Of the time before the run any event may come next.

    Lost and repeated events are found in the rows of all files (checks/sql/completeness.sql). Rows
    have no order, so a file with a start's events in another order, or without its first ones,
    shows here alone. An event out of order has a row, and its line is in quarantine as well.
    """

    def __init__(self, file: LineFile) -> None:
        self._file = file
        self._begins = {(node, start): seq for node, start, seq in file.begins}
        self._due: dict[tuple[int, int], int] = {}

    def __call__(self, at: Decoded) -> Sequence[Row]:
        event: TraceEvent = at.value
        row = {
            "run_id": self._file.run_id,
            **_fields(event),
            "detail": msgspec.json.encode(event.detail).decode(),
            **typed_details(event.detail),
        }
        start = event.node, event.incarnation
        begin, after = self._begins.get(start, 0), self._due.get(start, 0)
        self._due[start] = event.seq + 1
        is_earlier, goes_on = event.seq < begin, after > begin
        due = after if is_earlier else max(after, begin)
        if event.seq == due or (event.seq > due and (is_earlier or goes_on)):
            return [row]
        wrong = at.line.wrong(f"{OUT_OF_ORDER}: seq {event.seq} where {due} is due")
        return [row, wrong_row(self._file.run_id, self._file.file, wrong)]


def rows_of_final_look(run_id: str, final_look: Look) -> Sequence[Row]:
    """Return the rows in SEEN of the look in final_look.json.

    Raises:
        WrongLine: it has a number that its column cannot hold.
    """
    rows = _rows_of_look(run_id, OF_THE_END, final_look, is_final=True)
    _check_ranges(rows, SEEN)
    return rows


def _seen(file: LineFile, at: Decoded) -> Sequence[Row]:
    is_final = at.is_last and file.ends_the_run
    return _rows_of_look(file.run_id, at.line.number, at.value, is_final=is_final)


def _rows_of_look(run_id: str, number: int, seen: Look, *, is_final: bool) -> Sequence[Row]:
    """Return the look's own row, and one of each replica."""
    look = {"run_id": run_id, "look": number, "time_ns": seen.time_ns, "is_final": is_final}
    told = {node: each for node, each in sorted(seen.nodes.items()) if each is not None}
    incarnations = tuple(snapshot.incarnation for snapshot in told.values())
    replicas = [
        {
            **look,
            "node": node,
            "incarnation": snapshot.incarnation,
            **_fields(replica),
            "topic": replica.topic_partition.topic,
            "partition": replica.topic_partition.partition,
            "topic_id": replica.topic_id or None,
        }
        for node, snapshot in told.items()
        for replica in snapshot.replicas
    ]
    silent = tuple(sorted(seen.nodes.keys() - told.keys()))
    nodes = {"answered": tuple(told), "incarnations": incarnations, "silent": silent}
    return [{**look, **nodes}, *replicas]


def _probes(file: LineFile, at: Decoded) -> Sequence[Row]:
    return [{"run_id": file.run_id, "line": at.line.number, **_fields(at.value)}]


def _faults(file: LineFile, at: Decoded) -> Sequence[Row]:
    intent: Intent[IntendedFault] = at.value
    return [
        {
            "run_id": file.run_id,
            "number": intent.number,
            "phase": intent.phase.value,
            "at_ns": intent.at_ns,
            "fault": None if intent.fault is None else intent.fault.fault,
            "node": None if intent.fault is None else intent.fault.node,
            "text": at.line.data.decode("utf-8", "replace"),
            "target": intent.node,
            "acted_ns": intent.acted_ns,
        }
    ]


def _each(
    rows_of: Callable[[LineFile, Decoded], Sequence[Row]],
) -> Callable[[LineFile], Callable[[Decoded], Sequence[Row]]]:
    """Return the reader of files whose lines are read each by itself."""
    return lambda file: functools.partial(rows_of, file)


FORMATS = {
    each.table.name: each
    for each in (
        Format(OPERATIONS, msgspec.json.Decoder(HistoryEvent).decode, _Operations),
        Format(EVENTS, decode_event, _Events),
        Format(SEEN, msgspec.json.Decoder(Look).decode, _each(_seen)),
        Format(PROBES, msgspec.json.Decoder(Probe).decode, _each(_probes)),
        Format(FAULTS, msgspec.json.Decoder(Intent[IntendedFault]).decode, _each(_faults)),
    )
}
"""By the table's name."""
