"""The client libraries, and their differences from Highwater's own client."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec.structs import replace

from highwater.runs.stock.clients import Library
from highwater_chaos.plan import Plan


class ClientKind(StrEnum):
    """The client library of a run."""

    OWN = "own"
    CONFLUENT = "confluent"
    KAFKA_PYTHON = "kafka-python"


def differences_of(kind: ClientKind, plan: Plan) -> Iterator[str]:
    """Yield the differences between the plan and its run by these clients."""
    if kind is ClientKind.OWN:
        return
    yield f"the clients are {library_of(kind).version}; they do not tell how often they sent"
    if plan.workload.groups:
        yield "groups of the plan are left out"
    if kind is ClientKind.KAFKA_PYTHON:
        yield "their batches are bounded in bytes, not in records, unless each has one"


def played_by(kind: ClientKind, plan: Plan) -> Plan:
    """Return the plan as these clients play it: only Highwater's own have groups."""
    if kind is ClientKind.OWN:
        return plan
    return replace(plan, workload=replace(plan.workload, groups=()))


def library_of(kind: ClientKind) -> Library:
    """Return the library; its package is imported here."""
    if kind is ClientKind.CONFLUENT:
        from highwater.runs.stock.confluent import Confluent

        return Confluent()
    from highwater.runs.stock.kafka_python import KafkaPython

    return KafkaPython()
