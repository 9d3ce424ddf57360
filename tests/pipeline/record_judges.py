"""Three judges of operations and records: the checker's Python, Spark, and SQL in DuckDB.

The Python judge gets its input as highwater_checker.judging gives it. Messages of findings are
compared between Python and Spark alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import (
    OperationType,
    Sends,
    client_of,
    sends_of,
)
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.invariants.duplicates import check_duplicates
from highwater_checker.invariants.inconsistent_offsets import check_inconsistent_offsets
from highwater_checker.invariants.order import check_order
from highwater_checker.invariants.reads import check_reads
from highwater_checker.invariants.replica_equality import (
    check_high_watermarks_are_held,
    check_replica_equality,
)
from highwater_checker.segments import ReplicaLog
from highwater_pipeline.checks.findings import Check
from highwater_pipeline.checks.registry import CHECKS
from tests.pipeline.frames import Run

# ---------------------------------------------------------------- the checker, fed


def _sends(run: Run) -> Sends:
    parts = [sends_of(events) for events in run.histories().values()]
    return Sends(
        tuple(each for part in parts for each in part.acknowledged),
        tuple(each for part in parts for each in part.failed),
        tuple(each for part in parts for each in part.unknown),
    )


def _groups(run: Run) -> list[list[ReplicaLog]]:
    """Return the replicas of each partition in the final look, by broker."""
    found: dict[tuple[str, int], list[ReplicaLog]] = {}
    told = [each for each in run.replicas if each.high_watermark >= 0]
    for log in sorted(told, key=lambda each: each.broker_id):
        found.setdefault((log.topic, log.partition), []).append(log)
    return list(found.values())


def _replicas(run: Run) -> list[ReplicaLog]:
    return [log for group in _groups(run) for log in group]


def _acknowledged_records(run: Run) -> CheckResult:
    """Where only replicas in sync are asked, a partition may be left without any."""
    replicas = _replicas(run)
    read = {(each.topic, each.partition) for each in replicas}
    asks_of_all = run.saw_the_end and not run.only_in_sync
    asked = [
        ack
        for ack in run.promised()
        if not ack.life.is_over and (asks_of_all or (ack.topic, ack.partition) in read)
    ]
    return check_acknowledged_records(asked, replicas)


def _order(run: Run) -> CheckResult:
    return check_order(
        run.promised(),
        lambda process: run.max_in_flight.get(client_of(process)) == 1,
        run.is_idempotent,
    )


def _replica_equality(run: Run) -> CheckResult:
    return _merged([check_replica_equality(group) for group in _groups(run)])


def _segments_decode(run: Run) -> CheckResult:
    found = tuple(
        Finding("I3", each.damage, each.topic, each.partition, broker=each.broker)
        for each in run.damaged
    )
    return CheckResult("segments decode", len(_replicas(run)) + len(found), found)


def _reads(run: Run) -> CheckResult:
    """Judge each consumer's process alone; a client's last one must come to the end.

    With a consumer that read nothing, nothing counts as examined.
    """
    promised = run.readers(members=False)
    consumers: dict[str, set[str]] = {}
    for event in run.history:
        if event.function != "send":
            consumers.setdefault(client_of(event.process), set()).add(event.topic)
    results = []
    life_of = run.life_of_reads()
    for process, events in run.histories().items():
        client = client_of(process)
        if client in consumers:
            incarnations = [each for each in run.histories() if client_of(each) == client]
            own = [log for log in _replicas(run) if log.topic in consumers[client]]
            is_last = process == max(incarnations, key=_incarnation_of)
            is_whole = process not in run.incomplete
            reads_all = is_last and is_whole and run.to_the_end and client in promised
            results.append(check_reads(events, own, life_of, to_the_end=reads_all))
    reading = {client_of(each.process) for each in run.reads() if each.type is OperationType.OK}
    is_silent = not reading.issuperset(promised)
    return replace(_merged(results), examined=0) if is_silent else _merged(results)


def _incarnation_of(process: str) -> int:
    return int(process.partition(".")[2] or 1)


def _merged(results: Iterable[CheckResult]) -> CheckResult:
    found = list(results)
    return CheckResult(
        "merged",
        sum(each.examined for each in found),
        tuple(finding for each in found for finding in each.findings),
    )


PYTHON: Mapping[str, Callable[[Run], CheckResult]] = {
    "acknowledged_records": _acknowledged_records,
    "duplicates": lambda run: check_duplicates(_sends(run), _replicas(run), run.is_idempotent),
    "order": _order,
    "inconsistent_offsets": lambda run: check_inconsistent_offsets(
        run.promised(), run.reads(), run.life_of_reads()
    ),
    "reads": _reads,
    "replica_equality": _replica_equality,
    "high_watermarks_are_held": lambda run: check_high_watermarks_are_held(_replicas(run)),
    "segments_decode": _segments_decode,
}

SPARK: Mapping[str, Check] = {name: CHECKS[name] for name in PYTHON}
