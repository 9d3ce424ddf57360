"""Trace events are written to their file in order and in time, and passed to watchers."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from highwater_adapters import trace_sink
from highwater_adapters.trace_sink import TraceSink
from highwater_core.events import EventKind, TraceEvent
from highwater_core.traces import decode_events


def event(seq: int, kind: EventKind = EventKind.BECAME_LEADER) -> TraceEvent:
    detail = {"isr": [1], "high_watermark": 1, "end_offset": 1}
    return TraceEvent(
        1, 3, 2, seq, kind, topic="t", partition=0, leader_epoch=0, offset=0, detail=detail
    )


def run(path: Path, body: Callable[[TraceSink], Awaitable[None]]) -> None:
    async def main() -> None:
        sink = TraceSink(path)
        await body(sink)
        sink.close()

    asyncio.run(main())


def read(path: Path) -> list[TraceEvent]:
    return decode_events(path.read_bytes().splitlines())


def test_an_event_is_in_the_file_when_emit_returns(tmp_path: Path) -> None:
    path = tmp_path / "trace" / "2.jsonl"

    async def body(sink: TraceSink) -> None:
        sink(event(0))
        assert read(path) == [event(0)]

    run(path, body)


def test_appends_wait_for_the_next_other_event_and_keep_their_place(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    async def body(sink: TraceSink) -> None:
        sink(event(0, EventKind.LOG_APPENDED))
        sink(event(1, EventKind.HIGH_WATERMARK_ADVANCED))
        assert read(path) == []
        sink(event(2))
        assert [one.seq for one in read(path)] == [0, 1, 2]

    run(path, body)


def test_appends_do_not_wait_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_sink, "FLUSH_INTERVAL_MS", 1)
    path = tmp_path / "trace.jsonl"

    async def body(sink: TraceSink) -> None:
        sink(event(0, EventKind.LOG_APPENDED))
        async with asyncio.timeout(60):
            while not read(path):  # noqa: ASYNC110 (a poll with a bound)
                await asyncio.sleep(0.001)

    run(path, body)


def test_a_closed_sink_has_written_everything(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    async def body(sink: TraceSink) -> None:
        sink(event(0, EventKind.LOG_APPENDED))

    run(path, body)
    assert read(path) == [event(0, EventKind.LOG_APPENDED)]


def test_a_watcher_gets_held_events_then_new_ones(tmp_path: Path) -> None:
    async def body(sink: TraceSink) -> None:
        for seq in range(4):
            sink(event(seq))
        seen: list[int] = []

        async def watch() -> None:
            async for one in sink.watch(2):
                seen.append(one.seq)

        watcher = asyncio.ensure_future(watch())
        await asyncio.sleep(0)
        assert seen == [2, 3]
        sink(event(4))
        sink(event(5))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert seen == [2, 3, 4, 5]
        watcher.cancel()

    run(tmp_path / "trace.jsonl", body)


def parts_of(path: Path) -> list[Path]:
    return [*sorted(path.parent.glob(f"{path.name}.0*")), path]


def test_a_trace_is_cut_into_parts_that_are_never_written_to_again(tmp_path: Path) -> None:
    path = tmp_path / "2.jsonl"
    closed: dict[Path, bytes] = {}

    async def body() -> None:
        sink = TraceSink(path, part_bytes=500)
        for seq in range(12):
            sink(event(seq))
            *before, _ = parts_of(path)
            for each in before:
                assert closed.setdefault(each, each.read_bytes()) == each.read_bytes()
        sink.close()

    asyncio.run(body())
    told = [one.seq for each in parts_of(path) for one in read(each)]
    assert (told, len(closed) > 2) == (list(range(12)), True)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        each.name for each in parts_of(path)
    )


def test_a_trace_that_cannot_begin_a_part_goes_on_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "2.jsonl"
    (tmp_path / "2.jsonl.new").mkdir()

    async def body() -> None:
        sink = TraceSink(path, part_bytes=1)
        for seq in range(3):
            sink(event(seq))
        sink.close()

    asyncio.run(body())
    assert [one.seq for one in read(path)] == [0, 1, 2]


def test_a_full_disk_without_room_for_the_file_costs_only_the_first_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.jsonl"

    def refuse(where: Path) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    async def body(sink: TraceSink) -> None:
        sink(event(0))
        monkeypatch.undo()
        sink(event(1))

    monkeypatch.setattr(trace_sink, "_open", refuse)
    run(path, body)
    assert read(path) == [event(1)]
