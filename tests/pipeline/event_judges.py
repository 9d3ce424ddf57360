"""Three judges of events, looks and probes: the checker's Python, Spark, and SQL in DuckDB.

The Python judge gets its input as highwater_checker.judging gives it. Messages of findings are
compared between Python and Spark alone. SQL has no checks of empty fetches, high watermarks and
successors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.invariants.committed_before import check_committed_before
from highwater_checker.invariants.empty_fetches import check_empty_fetches
from highwater_checker.invariants.high_watermark_in_run import check_high_watermark_in_run
from highwater_checker.invariants.isr import PartitionRecord, check_isr
from highwater_checker.invariants.leader_uniqueness import check_leader_uniqueness
from highwater_checker.invariants.successors import check_successors
from highwater_checker.invariants.truncations import check_truncations
from highwater_checker.looks import leaderships, replicas_of
from highwater_checker.segments import ReplicaLog
from highwater_checker.wording import Wording
from highwater_core.events import TraceEvent
from highwater_core.traces import READ_FIELDS
from highwater_pipeline.checks.findings import Check
from highwater_pipeline.checks.registry import CHECKS
from tests.pipeline.event_runs import file_of
from tests.pipeline.frames import Run

# ---------------------------------------------------------------- the checker, fed


def _events(run: Run) -> list[TraceEvent]:
    return sorted(run.events, key=lambda each: (file_of(each), each.seq))


def _completeness(run: Run) -> CheckResult:
    """Count along each start's events: the checker has no check of this."""
    starts: dict[tuple[int, int], list[int]] = {}
    for each in run.events:
        starts.setdefault((each.node, each.incarnation), []).append(each.seq)
    findings = []
    for (node, incarnation), seqs in starts.items():
        previous = -1
        for seq in sorted(seqs):
            what = "is told twice" if seq == previous else f"follows {previous}"
            if seq != previous + 1:
                what = f"begins with seq {seq}" if previous == -1 else f"seq {seq} {what}"
                who = f"node {node}, incarnation {incarnation}"
                findings.append(Finding("C00", f"{who}: {what}"))
            previous = seq
    findings += _without_fields(run)
    return CheckResult("traces are whole (C00)", len(run.events), tuple(findings))


def _without_fields(run: Run) -> Iterator[Finding]:
    """Yield the events that a folder's reader would refuse for a field."""
    for each in run.events:
        missing = {name for name in READ_FIELDS.get(each.kind, ()) if getattr(each, name) is None}
        words = ["partition and leader epoch"] if missing - {"offset"} else []
        words += ["offset"] if "offset" in missing else []
        if words:
            what = Wording.LACKS_DETAILS.filled(
                node=each.node,
                incarnation=each.incarnation,
                kind=each.kind.value,
                seq=each.seq,
                lacking=", ".join(words),
            )
            partition = -1 if each.partition is None else each.partition
            yield Finding("C00", what, each.topic or "", partition)


def _isr(run: Run) -> CheckResult:
    records = {
        PartitionRecord(
            at.topic, at.partition, led.leader, led.leader_epoch, led.isr,
            replicas_of(look, at)[led.leader].assigned_replicas,
        ): None
        for look in run.looks
        for at, led in leaderships(look).items()
    }  # fmt: skip
    return check_isr(records)


def _high_watermarks(run: Run) -> CheckResult | None:
    return check_high_watermark_in_run(run.looks, _events(run)) if run.looks else None


def _empty_fetches(run: Run) -> CheckResult | None:
    return check_empty_fetches(run.probes, run.looks, _events(run)) if run.probes else None


def _replicas(run: Run) -> list[ReplicaLog]:
    return sorted(run.replicas, key=lambda each: (each.topic, each.partition, each.broker_id))


def _successors(run: Run) -> CheckResult:
    return check_successors(run.promised(), _replicas(run), _events(run))


PYTHON: Mapping[str, Callable[[Run], CheckResult | None]] = {
    "completeness": _completeness,
    "leader_uniqueness": lambda run: check_leader_uniqueness(_events(run), run.looks),
    "truncations": lambda run: check_truncations(_events(run)),
    "isr": _isr,
    "empty_fetches": _empty_fetches,
    "high_watermarks": _high_watermarks,
    "successors": _successors,
    "committed_before": lambda run: check_committed_before(_events(run)),
}

SPARK: Mapping[str, Check] = {name: CHECKS[name] for name in PYTHON}
IN_SQL = ("completeness", "leader_uniqueness", "truncations", "isr", "committed_before")
