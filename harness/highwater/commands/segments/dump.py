"""`highwater segments dump`: the batches and records of logs, with all their fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json, print_whole, printable
from highwater.report.segments_text import table_of_records, tables_of_batches, text_of_bytes
from highwater_checker.run_folder.files import text_of
from highwater_checker.segment_dump import Dumped, DumpedBatch, DumpedRecord, dump, records_of
from highwater_checker.segments import Batch, UnreadableRecords

DAMAGED_EXIT_CODE = 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that choose batches and records.

    first, last: offsets, both included; last is None for the log's last one.
    text: what a record's key or value must contain; "" for any.
    """

    first: int
    last: int | None
    text: str

    def has_offsets(self, base_offset: int, last_offset: int) -> bool:
        """Return whether one of these offsets is among the chosen ones."""
        return last_offset >= self.first and (self.last is None or base_offset <= self.last)

    def has(self, record: DumpedRecord) -> bool:
        texts = (text_of_bytes(record.key) or "", text_of_bytes(record.value) or "")
        is_chosen = self.has_offsets(record.offset, record.offset)
        return is_chosen and any(self.text in text for text in texts)


@dataclass(frozen=True, slots=True)
class Part:
    """The chosen batches and records of one log.

    records: (leader epoch, record); None where the command prints no records.
    damage: what cannot be read, in words.
    """

    log: Path
    batches: list[DumpedBatch]
    records: list[tuple[int, DumpedRecord]] | None
    damage: list[str]


def register(app: typer.Typer) -> None:
    app.command("dump")(dump_logs)


def dump_logs(
    logs: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            help="Segments (.log), or partitions' folders: runs/latest/segments/broker-0/t-0.",
        ),
    ],
    records: Annotated[bool, typer.Option("--records", help="Print records, too.")] = False,
    find: Annotated[
        str, typer.Option(help="Print the records with this text in their key or value.")
    ] = "",
    first: Annotated[int, typer.Option("--from", min=0, help="The first offset.")] = 0,
    last: Annotated[
        int | None, typer.Option("--to", min=0, help="The last offset. [default: the log's]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the batches of logs, or their records: offsets, leader epochs, codecs, producers.

    A log is read up to its first damage, which is told.

    Exit code 0: all logs are sound; 1: one is damaged.
    """
    wanted = Wanted(first, last, find)
    parts = [_part(log, wanted, with_records=records or find != "") for log in logs]
    if as_json:
        print_json([_fields(part) for part in parts])
    else:
        for part in parts:
            _print(part, is_named=len(parts) > 1, with_batches=not find)
    if any(part.damage for part in parts):
        raise typer.Exit(DAMAGED_EXIT_CODE)


def read_log(path: Path) -> Dumped:
    """Return the log's batches.

    Raises:
        HarnessError: it cannot be read, or the folder has no segment.
    """
    try:
        if path.is_dir() and not any(path.glob("*.log")):
            raise HarnessError(
                f"{path} has no segment (*.log): a partition's folder, as "
                "runs/latest/segments/broker-0/t-0, has some"
            )
        return dump(path)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror or error}") from error


def _part(log: Path, wanted: Wanted, *, with_records: bool) -> Part:
    dumped = read_log(log)
    chosen = [
        (facts, batch)
        for facts, batch in dumped.batches
        if wanted.has_offsets(facts.base_offset, facts.last_offset)
    ]
    damage = [dumped.damage] if dumped.damage else []
    records = None
    if with_records:
        decoded = _records((batch for _, batch in chosen), damage)
        records = [(epoch, record) for epoch, record in decoded if wanted.has(record)]
    return Part(log, [facts for facts, _ in chosen], records, damage)


def _records(batches: Iterator[Batch], damage: list[str]) -> Iterator[tuple[int, DumpedRecord]]:
    """Yield (leader epoch, record); a batch that cannot be decoded is added to the damage."""
    for batch in batches:
        try:
            for record in records_of(batch):
                yield batch.leader_epoch, record
        except UnreadableRecords as why:
            damage.append(str(why))


def _print(part: Part, *, is_named: bool, with_batches: bool) -> None:
    if is_named:
        RESULTS.print(Text(printable(str(part.log)), style="bold"), soft_wrap=True)
    if with_batches:
        for table in tables_of_batches(part.batches):
            print_whole(table)
        if not part.batches:
            RESULTS.print("no such batch")
    if part.records:
        print_whole(table_of_records(part.records))
    elif part.records is not None:
        RESULTS.print("no such record")
    for line in part.damage:
        RESULTS.print(Text(printable(line), style="bold red"), soft_wrap=True)


def _fields(part: Part) -> dict[str, object]:
    records = {} if part.records is None else {"records": [_record(*each) for each in part.records]}
    return {"log": text_of(part.log), "batches": part.batches, **records, "damage": part.damage}


def _record(leader_epoch: int, record: DumpedRecord) -> dict[str, object]:
    return {
        "offset": record.offset,
        "leader_epoch": leader_epoch,
        "timestamp_ms": record.timestamp_ms,
        "key": text_of_bytes(record.key),
        "value": text_of_bytes(record.value),
        "headers": [[key, text_of_bytes(value)] for key, value in record.headers],
    }
