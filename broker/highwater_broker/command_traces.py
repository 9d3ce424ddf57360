"""Traces the commands that this broker has carried out or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_core.messages import BrokerCommand, LeaderAndIsrRequest
from highwater_core.ports import Trace


def trace_refused(trace: Trace, request: BrokerCommand, error: ErrorCode) -> None:
    """Trace a command that was refused as a whole."""
    _emit(trace, EventKind.REQUEST_REFUSED, request, error=error.name)


def trace_handled(
    trace: Trace, request: BrokerCommand, errors: Mapping[TopicPartition, ErrorCode]
) -> None:
    """Trace a command that was carried out, with the partitions that were refused."""
    _emit(
        trace,
        EventKind.REQUEST_HANDLED,
        request,
        partitions=len(request.partitions),
        is_init=isinstance(request, LeaderAndIsrRequest) and request.is_init,
        refused={str(key): error.name for key, error in errors.items() if error},
    )


def _emit(trace: Trace, kind: EventKind, request: BrokerCommand, **detail: Any) -> None:
    trace.emit(
        kind,
        controller_epoch=request.controller_epoch,
        request=type(request).__name__.removesuffix("Request"),
        controller_id=request.controller_id,
        broker_epoch=request.broker_epoch,
        correlation_id=request.correlation_id,
        **detail,
    )
