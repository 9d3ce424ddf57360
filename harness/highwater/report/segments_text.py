"""Batches and records of segment files as text and tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from rich.table import Table
from rich.text import Text

from highwater.output import printable
from highwater_checker.segment_diff import DifferingRange, HeldRecord
from highwater_checker.segment_dump import DumpedBatch, DumpedRecord

_MOST_CHARACTERS = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def text_of_bytes(data: bytes | None) -> str | None:
    """Return a key or value as text; bytes that are no UTF-8 are \\xNN."""
    return None if data is None else data.decode("utf-8", "backslashreplace")


def shown(data: bytes | None) -> str:
    """Return a key or value in few characters; "null" without one."""
    text = printable(text_of_bytes(data) or "")
    if data is None:
        return "null"
    is_short = len(text) <= _MOST_CHARACTERS
    return text if is_short else f"{text[:_MOST_CHARACTERS]}... ({len(data)} bytes)"


def moment(timestamp_ms: int) -> str:
    """Return the time in UTC, or the number where no calendar has it."""
    try:
        at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def tables_of_batches(batches: Iterable[DumpedBatch]) -> Iterator[Table]:
    """Yield a table for each segment, with a row for each batch, in the order of the log."""
    for segment, own in groupby(batches, lambda each: each.segment):
        table = Table(box=None, title=Text(printable(segment), style="bold"), title_justify="left")
        for name in ("at byte", "bytes", "offsets", "leader epoch", "records"):
            table.add_column(name, justify="right")
        table.add_column("codec")
        table.add_column("newest record (UTC)", no_wrap=True)
        table.add_column("producer")
        for each in own:
            table.add_row(
                str(each.position_bytes),
                str(each.size_bytes),
                _offsets(each.base_offset, each.last_offset),
                str(each.leader_epoch),
                str(each.records),
                each.codec,
                moment(each.max_timestamp_ms),
                _producer(each),
            )
        yield table


def _offsets(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _producer(batch: DumpedBatch) -> str:
    kinds = ["control"] if batch.is_control else []
    kinds += ["transactional"] if batch.is_transactional else []
    if batch.producer_id >= 0:
        kinds.append(
            f"{batch.producer_id} epoch {batch.producer_epoch}, from {batch.base_sequence}"
        )
    return ", ".join(kinds)


def table_of_records(records: Iterable[tuple[int, DumpedRecord]]) -> Table:
    """Return a table with a row for each record (leader epoch, record), in the log's order."""
    table = Table(box=None)
    for name in ("offset", "leader epoch"):
        table.add_column(name, justify="right")
    table.add_column("timestamp (UTC)", no_wrap=True)
    for name in ("key", "value", "headers"):
        table.add_column(name, overflow="fold")
    for leader_epoch, record in records:
        headers = ", ".join(f"{printable(key)}={shown(value)}" for key, value in record.headers)
        table.add_row(
            str(record.offset),
            str(leader_epoch),
            moment(record.timestamp_ms),
            *(Text(text) for text in (shown(record.key), shown(record.value), headers)),
        )
    return table


def table_of_ranges(names: Sequence[str], ranges: Iterable[DifferingRange]) -> Table:
    """Return a table with a row for each range: what each log has at its first offset."""
    table = Table()
    table.add_column("offsets", justify="right", no_wrap=True)
    for name in names:
        table.add_column(Text(printable(name)), overflow="fold")
    for each in ranges:
        held = (Text(_held(record)) for record in each.held)
        table.add_row(_offsets(each.start_offset, each.end_offset - 1), *held)
    return table


def _held(held: HeldRecord | None) -> str:
    if held is None:
        return "–"
    if held.unreadable:
        return f"epoch {held.leader_epoch}: {printable(held.unreadable)}"
    key = "" if held.record.key is None else f"{shown(held.record.key)}="
    return f"epoch {held.leader_epoch}: {key}{shown(held.record.value)}"
