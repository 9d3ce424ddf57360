"""The client history: what clients asked for and what they were told.

One operation is an `invoke` and at most one completion of the same `operation_id`: `ok` happened,
`fail` certainly did not, `info` may have. An invoke without a completion counts as `info`.
On disk: one JSON object a line, in the order in which the one recorder wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec


class OperationType(StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One line of a history.

    Units: time_ns is the recorder's monotonic clock, from the run's start. offset is where the
    record was acknowledged or read, -1 when unknown.
    """

    time_ns: int
    type: OperationType
    operation_id: int
    process: str
    function: str
    """"send" or "poll"."""
    topic: str
    partition: int
    value: str
    offset: int = -1
    error: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A send that its client was told had succeeded."""

    topic: str
    partition: int
    offset: int
    value: str
    invoked_ns: int
    acknowledged_ns: int


@dataclass(frozen=True, slots=True)
class Sends:
    """The sends of a history, by how they ended; acknowledged in order of acknowledgement."""

    acknowledged: tuple[Acknowledged, ...]
    failed: tuple[HistoryEvent, ...]
    unknown: tuple[HistoryEvent, ...]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(HistoryEvent)


def encode(event: HistoryEvent) -> bytes:
    return _ENCODER.encode(event)


def decode(lines: Iterable[bytes]) -> list[HistoryEvent]:
    """Return the events of complete lines; a torn last line of a killed recorder is left out.

    Raises:
        msgspec.DecodeError: a line before the last is malformed.
    """
    pending = [line for line in lines if line.strip()]
    events: list[HistoryEvent] = []
    for index, line in enumerate(pending):
        try:
            events.append(_DECODER.decode(line))
        except msgspec.DecodeError:
            if index + 1 < len(pending):
                raise
    return events


def sends_of(events: Iterable[HistoryEvent]) -> Sends:
    """Return every send with its outcome; one that never completed is unknown."""
    open_sends: dict[int, HistoryEvent] = {}
    acknowledged: list[Acknowledged] = []
    failed: list[HistoryEvent] = []
    unknown: list[HistoryEvent] = []
    for event in events:
        if event.function != "send":
            continue
        if event.type is OperationType.INVOKE:
            open_sends[event.operation_id] = event
            continue
        invoked = open_sends.pop(event.operation_id)
        if event.type is OperationType.OK:
            acknowledged.append(
                Acknowledged(
                    topic=event.topic,
                    partition=event.partition,
                    offset=event.offset,
                    value=event.value,
                    invoked_ns=invoked.time_ns,
                    acknowledged_ns=event.time_ns,
                )
            )
        elif event.type is OperationType.FAIL:
            failed.append(event)
        else:
            unknown.append(event)
    unknown.extend(open_sends.values())
    return Sends(tuple(acknowledged), tuple(failed), tuple(unknown))
