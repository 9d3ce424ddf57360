"""Trace events to and from JSON lines, and the recorder that fills in node, time and number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, TopicId
from highwater_core.json_lines import decode_lines
from highwater_core.numbers import Int32, Int64
from highwater_core.runtime import Runtime

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(TraceEvent)


_BROKERS = list[Int32]
_STATES = {"from_state": str, "to_state": str}
READ_DETAILS: Mapping[EventKind, Mapping[str, Any]] = {
    EventKind.BROKERS_CHANGED: {"new": _BROKERS, "dead": _BROKERS, "bounced": _BROKERS},
    EventKind.BROKER_SUSPECTED: {"broker": Int32, "broker_epoch": Int64, "why": str},
    EventKind.SHUTDOWN_BEGUN: {"broker": Int32, "broker_epoch": Int64},
    EventKind.FAILOVER_COMPLETED: {"brokers": _BROKERS},
    EventKind.PARTITION_STATE_CHANGED: _STATES,
    EventKind.REPLICA_STATE_CHANGED: _STATES,
    EventKind.TRANSITION_REFUSED: _STATES,
    EventKind.STATE_CHANGE_FAILED: _STATES,
    EventKind.LEADER_ELECTED: {"leader": Int32, "isr": _BROKERS},
    EventKind.COMMAND_SENT: {"broker": Int32, "request": str},
    EventKind.COMMAND_TIMED_OUT: {"broker": Int32, "request": str},
    EventKind.BROKER_REGISTERED: {"broker_epoch": Int64},
    EventKind.REQUEST_HANDLED: {"request": str},
    EventKind.BECAME_LEADER: {"isr": _BROKERS, "high_watermark": Int64},
    EventKind.BECAME_FOLLOWER: {"leader": Int32, "high_watermark": Int64},
    EventKind.REPLICA_STARTED: {"high_watermark": Int64},
    EventKind.LOG_APPENDED: {"end_offset": Int64},
    EventKind.LOG_TRUNCATED: {"from_offset": Int64, "high_watermark": Int64, "reason": str},
    EventKind.HIGH_WATERMARK_ADVANCED: {"isr": _BROKERS},
    EventKind.ISR_CHANGED: {"isr": _BROKERS},
    EventKind.ISR_WRITTEN: {"leader": Int32, "isr": _BROKERS},
    EventKind.FETCHER_STARTED: {"leader": Int32},
    EventKind.LOG_COMPACTED: {"dirty_end": Int64},
    EventKind.GROUP_LOAD_BEGUN: {"epoch_start_offset": Int64},
    EventKind.GROUP_LOAD_ENDED: {"read_up_to": Int64},
    EventKind.GROUP_STATE_CHANGED: {"group": str, "reason": str},
    EventKind.TOPICS_CHANGED: {"deleted": list[str]},
}
"""The details of events that judges of a trace read; every node writes them."""

_EPOCH = ("topic", "partition", "leader_epoch")
_OFFSET = (*_EPOCH, "offset")
READ_FIELDS: Mapping[EventKind, tuple[str, ...]] = {
    EventKind.BECAME_FOLLOWER: _EPOCH,
    EventKind.BECAME_LEADER: _OFFSET,
    EventKind.HIGH_WATERMARK_ADVANCED: _OFFSET,
    EventKind.ISR_CHANGED: _EPOCH,
    EventKind.ISR_WRITTEN: _EPOCH,
    EventKind.LEADER_ELECTED: _EPOCH,
    EventKind.LOG_APPENDED: _OFFSET,
    EventKind.LOG_COMPACTED: _OFFSET,
    EventKind.LOG_START_MOVED: _OFFSET,
    EventKind.LOG_TRUNCATED: _OFFSET,
}
"""Likewise the fields that may be null in other kinds of events."""


def encode_event(event: TraceEvent) -> bytes:
    """Return one line of JSON, without its newline; equal events give equal bytes."""
    return _ENCODER.encode(event)


def decode_events(lines: Iterable[bytes]) -> list[TraceEvent]:
    """Return the events of complete lines; a torn last line (a killed node's) is left out.

    Raises:
        DamagedLines: a line before the last is malformed, or lacks a detail that judges read.
    """
    return decode_lines(decode_event, lines)


def decode_event(line: bytes) -> TraceEvent:
    """Return the event of one line.

    Raises:
        msgspec.DecodeError: the line is malformed, or lacks a detail that judges read.
        UnicodeDecodeError, RecursionError: likewise.
    """
    event = _DECODER.decode(line)
    for name in READ_FIELDS.get(event.kind, ()):
        if getattr(event, name) is None:
            raise msgspec.ValidationError(f"{event.kind} without its {name}")
    for name, kind in READ_DETAILS.get(event.kind, {}).items():
        if name not in event.detail:
            raise msgspec.ValidationError(f"{event.kind} without its {name}")
        msgspec.convert(event.detail[name], kind)
    return event


class TraceRecorder:
    """The Trace port over any sink; seq counts from 0 without gaps."""

    def __init__(
        self, runtime: Runtime, node: int, incarnation: int, sink: Callable[[TraceEvent], None]
    ) -> None:
        self._runtime = runtime
        self._node = node
        self._incarnation = incarnation
        self._sink = sink
        self._next_seq = 0

    def emit(
        self,
        kind: EventKind,
        *,
        topic: str | None = None,
        topic_id: TopicId = NO_TOPIC_ID,
        partition: int | None = None,
        leader_epoch: int | None = None,
        controller_epoch: int | None = None,
        offset: int | None = None,
        **detail: Any,
    ) -> None:
        event = TraceEvent(
            ts_ns=self._runtime.true_time_ms() * 1_000_000,
            node=self._node,
            incarnation=self._incarnation,
            seq=self._next_seq,
            kind=kind,
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            leader_epoch=leader_epoch,
            controller_epoch=controller_epoch,
            offset=offset,
            detail=detail,
        )
        self._next_seq += 1
        self._sink(event)
