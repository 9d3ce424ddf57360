"""Refusals of clients' requests, with their trace events."""

from __future__ import annotations

from highwater_controller.term import Term
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_core.topic_plans import Refused


def refuse(
    term: Term, request: str, refused: Refused, partition: TopicPartition | None = None
) -> None:
    """Trace a refusal."""
    named = None if partition is None else partition._replace(topic=partition.topic[:300])
    term.emit(
        EventKind.REQUEST_REFUSED,
        named,
        request=request,
        error=refused.error.name,
        message=str(refused)[:300],
    )
