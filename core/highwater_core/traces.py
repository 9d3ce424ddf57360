"""Trace events to and from JSON lines, and the recorder that fills in who, when and which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from highwater_core.events import EventKind, TraceEvent
from highwater_core.json_lines import decode_lines
from highwater_core.runtime import Runtime

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(TraceEvent)


def encode_event(event: TraceEvent) -> bytes:
    """Return one line of JSON, without its newline; equal events give equal bytes."""
    return _ENCODER.encode(event)


def decode_events(lines: Iterable[bytes]) -> list[TraceEvent]:
    """Return the events of complete lines; a torn last line (a killed node's) is left out.

    Raises:
        DamagedLines: a line before the last is malformed.
    """
    return decode_lines(_DECODER, lines)


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
        partition: int | None = None,
        leader_epoch: int | None = None,
        controller_epoch: int | None = None,
        offset: int | None = None,
        **detail: Any,
    ) -> None:
        event = TraceEvent(
            ts_ns=self._runtime.wall_clock_ms() * 1_000_000,
            node=self._node,
            incarnation=self._incarnation,
            seq=self._next_seq,
            kind=kind,
            topic=topic,
            partition=partition,
            leader_epoch=leader_epoch,
            controller_epoch=controller_epoch,
            offset=offset,
            detail=detail,
        )
        self._next_seq += 1
        self._sink(event)
