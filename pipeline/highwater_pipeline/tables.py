"""The tables: their columns, the grain of a row, and the order of rows.

Schemas are declared, never inferred. Times are int64 nanoseconds, since Spark's timestamps are
microseconds. A table is a folder of Parquet files, partitioned by run_id; events by kind as well.
A new column comes last and may be null: files that were written before it read as null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

DATA_VERSION = 18
"""Of the tables' meaning; runs that were ingested under another are ingested again."""

OF_THE_END = -1
"""The number of the look in final_look.json: it is none of the looks while the run went on."""

Row = dict[str, Any]
"""A row of a table or of a result as it leaves Spark, by column."""

_STRING, _INT, _LONG, _BOOLEAN = StringType(), IntegerType(), LongType(), BooleanType()
_INTS = ArrayType(_INT, containsNull=False)
_STRINGS = ArrayType(_STRING, containsNull=False)
_Column = StringType | IntegerType | LongType | BooleanType | ArrayType


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A declared table. partitioned_by: the columns of its folders. sort_key: the rows' order."""

    name: str
    columns: Mapping[str, _Column]
    sort_key: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ("run_id",)

    @property
    def schema(self) -> StructType:
        return StructType([StructField(name, kind) for name, kind in self.columns.items()])


RUNS = Table(
    "runs",
    {
        "run_id": _STRING,
        "title": _STRING,
        "preset": _STRING,
        "brokers": _INT,
        "controllers": _INT,
        "seed": _LONG,
        "planted": _STRING,
        "commit": _STRING,  # of build.json: the code that ran; else the plan's, or null
        "outcome": _STRING,  # of verdict.json; "" where there is none
        "world": _STRING,  # "docker" or "sim"
        "data_version": _INT,
        # Of clock.json, or null: an event's ts_ns minus this is a time as in operations.
        "start_wall_ns": _LONG,
        # By highwater_checker.judging, of the run's files as they were ingested: pass, fail,
        # unknown, and why. Null of a run that is too large for one process.
        "judged": _STRING,
        "reasons": _STRINGS,
        # Of promises.json, null of a run without it: of its topics the largest, also null without
        # topics; whether only replicas in the ISR were read; its consumers' clients.
        "replication_factor": _INT,
        "only_in_sync": _BOOLEAN,
        "consumers": _STRINGS,
        # Likewise: the topics whose replicas are compared, its own and the brokers'; whether
        # consumers were let read to the end.
        "topics": _STRINGS,
        "compacted": _STRINGS,  # the compacted topics; never null
        "to_the_end": _BOOLEAN,
        "saw_the_end": _BOOLEAN,  # whether there is a look at the end, when all was healed
        # Of promises.json: with fewer acknowledged records little is proven; null without it.
        "least_acknowledged": _LONG,
        # By the small files, and by which histories and logs there are: why a run without findings
        # is unknown.
        "unproven": _STRINGS,
        # Of watched.json, null without it: how much was checked while the run went on, and the
        # findings in words.
        "watched_examined": _LONG,
        "watched": _STRINGS,
        "format_version": _INT,  # of promises.json, and so of the folder; null without it
        "writers_are_known": _BOOLEAN,  # of promises.json; null without it
        # The clients' processes that were followed by another start of their client.
        "followed": _STRINGS,
        # The processes whose histories may lack lines, by the names and digests of files and by
        # their ends; those with a line in QUARANTINE are not among them.
        "incomplete": _STRINGS,
        # The last process of each promised consumer with a history, and the topics that it reads,
        # in the same order; null without promises.json.
        "last_readers": _STRINGS,
        "last_topics": _STRINGS,
    },
    ("run_id",),
)
"""One row a run."""

OPERATIONS = Table(
    "operations",
    {
        "run_id": _STRING,
        "process": _STRING,
        "line": _LONG,  # of its history file, from 0
        "time_ns": _LONG,  # the recorder's monotonic clock, from the run's start
        "type": _STRING,  # invoke, ok, fail, info
        "operation_id": _LONG,
        "function": _STRING,  # send, poll, latest, reset, commit, fetch_committed, assigned
        "topic": _STRING,
        "partition": _INT,
        "value": _STRING,  # of commits, fetches of committed offsets and assignments: their group
        "offset": _LONG,  # -1 when unknown; of those, the committed one, -1 for none
        "error": _STRING,
        "tries": _INT,
        "high_watermark": _LONG,  # -1 when the client does not report it
        "key": _STRING,  # of the record, or a static member's instance; "" or null without one
        "acks": _INT,  # of the producer that sent it: -1, 0 or 1; null when not known
        "max_in_flight": _INT,  # of the producer; null when not known
        "is_idempotent": _BOOLEAN,  # of the producer; null when not known
        # Null of a topic that was never deleted. Else of an acknowledged or read record the
        # topic's id, or a number where it had none, "?" where that is not known
        # (highwater_checker.lives_of_records); and whether that life had ended by the end of the
        # run, or is not known.
        "life": _STRING,
        "is_over": _BOOLEAN,
        # Of an outcome whose send had not begun by its line, or had its outcome, and of a send with
        # the operation_id of an operation before it; else null. Checks leave it out, as the checker
        # does, and its run is unproven.
        "is_unmatched": _BOOLEAN,
        "generation": _INT,  # of the group in which a partition was assigned; -1 of all else
    },
    ("run_id", "process", "line"),
)
"""One row a line of a client's history (highwater_checker.history)."""

DETAILS: Mapping[str, _Column] = {
    "high_watermark": _LONG,
    "isr": _INTS,
    "leader": _INT,
    "end_offset": _LONG,
    "from_offset": _LONG,
    "dirty_end": _LONG,
    "reason": _STRING,
    "deleted": _STRINGS,
    "from_state": _STRING,
    "to_state": _STRING,
    "epoch_start_offset": _LONG,
    "read_up_to": _LONG,
    "group": _STRING,
    "is_open": _BOOLEAN,
}
"""The values of an event's detail that checks read; null where it has none of this type."""

EVENTS = Table(
    "events",
    {
        "run_id": _STRING,
        "kind": _STRING,
        "ts_ns": _LONG,  # the node's wall clock since 1970: no order across nodes
        "node": _INT,
        "incarnation": _INT,
        "seq": _LONG,
        "topic": _STRING,
        "partition": _INT,
        "leader_epoch": _INT,
        "controller_epoch": _INT,
        "offset": _LONG,
        "detail": _STRING,  # a JSON object, by kind (highwater_core.events)
        **DETAILS,
        "topic_id": _STRING,  # "" or null where the node knew none
    },
    ("run_id", "node", "incarnation", "seq"),
    ("run_id", "kind"),
)
"""One row a line of a node's trace (highwater_core.events)."""

LOOKS = Table(
    "looks",
    {
        "run_id": _STRING,
        "look": _INT,  # from 0, in the run's order; or OF_THE_END
        "time_ns": _LONG,  # as in operations; when the look was complete
        "answered": _INTS,  # the nodes that answered, ascending; some may have no replica
        "incarnations": _INTS,  # of those nodes, in their order
        "is_final": _BOOLEAN,  # OF_THE_END, or the last look where that stands for it
        "silent": _INTS,  # the nodes that were asked and did not answer, ascending
    },
    ("run_id", "look"),
)
"""One row a look of the observer at all nodes, whether any answered or none.

Where final_look.json is missing or unread, the last look stands for it, if the run had settled by
then (highwater_checker.run_folder.small_files).
"""

REPLICA_LOOKS = Table(
    "replica_looks",
    {
        "run_id": _STRING,
        "look": _INT,  # from 0, in the run's order; or OF_THE_END
        "time_ns": _LONG,  # as in operations
        "node": _INT,
        "incarnation": _INT,
        "topic": _STRING,
        "partition": _INT,
        "role": _STRING,
        "leader": _INT,
        "leader_epoch": _INT,
        "partition_epoch": _INT,
        "high_watermark": _LONG,
        "log_start_offset": _LONG,
        "log_end_offset": _LONG,
        "isr": _INTS,
        "assigned_replicas": _INTS,
        "is_final": _BOOLEAN,  # OF_THE_END, or the last look where that stands for it
        "topic_id": _STRING,  # null where the broker reported none
    },
    ("run_id", "look", "node", "topic", "partition"),
)
"""One row a replica in one look of the observer at the node that hosts it."""

PROBES = Table(
    "probes",
    {
        "run_id": _STRING,
        "line": _LONG,
        "asked_ns": _LONG,
        "answered_ns": _LONG,
        "broker": _INT,
        "topic": _STRING,
        "partition": _INT,
        "offset": _LONG,
        "error": _STRING,
        "high_watermark": _LONG,
        "first_record": _LONG,
        "last_record": _LONG,
    },
    ("run_id", "line"),
)
"""One row a fetch of the prober (highwater_checker.probes)."""

FAULTS = Table(
    "faults",
    {
        "run_id": _STRING,
        "number": _INT,  # of the fault in its run, from 1; 0 of lines of no single fault
        # intended, acting, reverting, reverted, not_done, not_reverted; starting: a node, again
        "phase": _STRING,
        "at_ns": _LONG,  # as in operations
        "fault": _STRING,  # kind; null but in the phase intended
        "node": _STRING,  # as the plan names it; null where it names none
        "text": _STRING,  # the whole line
        "target": _INT,  # the node on which it acts, or that is started; null without one
        "acted_ns": _LONG,  # of the phase acting: when it began to act; it is proven at at_ns
    },
    ("run_id", "number", "at_ns"),
)
"""One row a line of the log of intents: a phase of a fault."""

REPLICAS = Table(
    "replicas",
    {
        "run_id": _STRING,
        "topic": _STRING,
        "partition": _INT,
        "broker": _INT,
        "high_watermark": _LONG,  # in the final look; -1 of a replica that checks leave out
        "log_start_offset": _LONG,
        "log_end_offset": _LONG,  # of the log that was read
        "in_sync": _BOOLEAN,  # in the final look's ISR; null of a replica that checks leave out
        "batches": _LONG,
        "damage": _STRING,  # why the log did not decode; null when it did
        "damage_offset": _LONG,  # where the log ends before the damage; null where not known
    },
    ("run_id", "topic", "partition", "broker"),
)
"""One row a replica whose log was copied after the run."""

RECORDS = Table(
    "records",
    {
        "run_id": _STRING,
        "topic": _STRING,
        "partition": _INT,
        "broker": _INT,
        "offset": _LONG,
        "leader_epoch": _INT,
        "base_offset": _LONG,  # of its batch
        "batch_crc": _LONG,  # CRC-32 of its whole batch, leader epoch and base offset included
        "key": _STRING,  # null for a record without one
        "value": _STRING,  # likewise
    },
    ("run_id", "topic", "partition", "broker", "offset"),
)
"""One row a record in one replica's log after the run."""

EXCUSED = Table(
    "excused",
    {
        "run_id": _STRING,
        "topic": _STRING,
        "partition": _INT,
        "start_offset": _LONG,
    },
    ("run_id", "topic", "partition", "start_offset"),
)
"""One row a partition that lost committed records by its disks alone, from that offset on."""

GROUP_MEMBERS = Table(
    "group_members",
    {
        "run_id": _STRING,
        "group_id": _STRING,
        "topic": _STRING,  # which the members read together
        "client": _STRING,  # the member's, which its incarnations share
        "to_the_end": _BOOLEAN,  # whether the group could go on until all was read
    },
    ("run_id", "group_id", "client"),
)
"""One row a member of a group of promises.json."""

TRACE_BEGINS = Table(
    "trace_begins",
    {
        "run_id": _STRING,
        "node": _INT,
        "incarnation": _INT,
        "from_seq": _LONG,  # of its next event when the run began
        "earlier": _INT,  # how many events with lower numbers were kept for the run's checks
    },
    ("run_id", "node", "incarnation"),
)
"""One row a start of a node that lived before the run (highwater_checker.slices)."""

QUARANTINE = Table(
    "quarantine",
    {
        "run_id": _STRING,
        "file": _STRING,  # its path in the run's folder
        "line": _LONG,  # from 0; -1 for the whole file
        "reason": _STRING,
        "text": _STRING,  # its first 200 characters; null for a whole file
    },
    ("run_id", "file", "line"),
)
"""One row a line or a file that could not be taken in: nothing is left out silently."""

TABLES = (
    RUNS,
    OPERATIONS,
    EVENTS,
    LOOKS,
    REPLICA_LOOKS,
    PROBES,
    FAULTS,
    REPLICAS,
    RECORDS,
    EXCUSED,
    GROUP_MEMBERS,
    TRACE_BEGINS,
    QUARANTINE,
)

FINDINGS = Table(
    "findings",
    {
        "run_id": _STRING,
        "invariant": _STRING,
        "topic": _STRING,  # "" and -1 where none is meant, as in highwater_checker.finding
        "partition": _INT,
        "offset": _LONG,
        "broker": _INT,
        "operation": _STRING,
        "wording": _STRING,  # the name of one of highwater_checker.wording
    },
    ("run_id", "invariant", "topic", "partition", "offset", "broker", "operation", "wording"),
)
"""One row a violation. Every check returns them, each with the facts of its wording besides."""


def runs_of_other_versions(tables: Tables) -> list[str]:
    """Return, in order, the runs whose rows were written with another DATA_VERSION.

    New columns are null in these rows, so checks would give wrong results without an error.
    """
    others = tables[RUNS].where(f"data_version IS DISTINCT FROM {DATA_VERSION}")
    return sorted(row["run_id"] for row in others.select("run_id").collect())


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables for checks and metrics, by name, each with its declared columns.

    by_ranges: records are compared by sums of ranges before any is looked at (checks/ranges.py).
    are_small: all values of a column fit in one row, so that figures need no approximation.
    """

    frames: Mapping[str, DataFrame]
    by_ranges: bool = True
    are_small: bool = False

    def __getitem__(self, table: Table) -> DataFrame:
        return self.frames[table.name]

    def of_runs(self, run_ids: Iterable[str]) -> Tables:
        """Return the tables with the rows of these runs only."""
        wanted = sorted(run_ids)
        return Tables(
            {
                name: frame.where(frame["run_id"].isin(wanted))
                for name, frame in self.frames.items()
            },
            self.by_ranges,
            self.are_small,
        )
