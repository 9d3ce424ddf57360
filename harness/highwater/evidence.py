"""Reads a finished run's folder back and judges it; needs no cluster and can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from highwater.observation import Look, leaderships, replicas_of
from highwater.probing import PROBES
from highwater_checker.contents import with_neighbours
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Acknowledged, HistoryEvent, Sends, decode, sends_of
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.invariants.duplicates import check_duplicates
from highwater_checker.invariants.empty_fetches import check_empty_fetches
from highwater_checker.invariants.high_watermark_in_run import check_high_watermark_in_run
from highwater_checker.invariants.inconsistent_offsets import check_inconsistent_offsets
from highwater_checker.invariants.isr import PartitionRecord, check_isr
from highwater_checker.invariants.leader_uniqueness import check_leader_uniqueness
from highwater_checker.invariants.order import check_order
from highwater_checker.invariants.replica_equality import CHECK as REPLICA_EQUALITY
from highwater_checker.invariants.replica_equality import (
    check_high_watermarks_are_held,
    check_replica_equality,
)
from highwater_checker.invariants.successors import check_successors
from highwater_checker.invariants.truncations import check_truncations
from highwater_checker.probes import Probe, decode_probes
from highwater_checker.segments import (
    Batch,
    DamagedLog,
    ReplicaLog,
    UnreadableRecords,
    read_batches,
)
from highwater_client.planned import client_of
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.json_lines import DamagedLines
from highwater_core.traces import decode_events

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a run left behind for its verdict.

    final_look was taken with the cluster healed and idle, just before its nodes were stopped and
    their segments copied; replicas are by partition, then broker. looks and probes are those of
    the run, in order, if somebody looked and probed.
    """

    sends: Sends
    traces: tuple[TraceEvent, ...]
    final_look: Look
    replicas: dict[TopicPartition, tuple[ReplicaLog, ...]]
    damage: tuple[Finding, ...] = ()
    """Segments that did not decode, though their brokers had stopped cleanly."""
    reads: tuple[HistoryEvent, ...] = ()
    """All that consumers read."""
    looks: tuple[Look, ...] = ()
    probes: tuple[Probe, ...] = ()
    promised: tuple[Acknowledged, ...] | None = None
    """What was acknowledged to producers with acks=all; None: that is every producer."""
    one_in_flight: frozenset[str] = frozenset()
    """The clients that have one request in flight at most; their incarnations do too."""
    unread: tuple[str, ...] = ()
    """Lines and batches that cannot be read, though nothing says that they are wrong."""

    def unread_replicas(self) -> list[str]:
        """Return the assigned replicas whose logs were not read, as partition@broker."""
        return [
            f"{topic_partition}@{broker}"
            for topic_partition, group in self.replicas.items()
            for broker in _assigned(self.final_look, topic_partition)
            if broker not in {replica.broker_id for replica in group}
        ]


def read_evidence(folder: Path, final_look: Look, topics: Sequence[str]) -> Evidence:
    """Return what a run's folder holds, of the topics' partitions that have a leader."""
    unread: list[str] = []
    replicas, damage = _read_replicas(folder / "segments", final_look, topics, unread)
    return Evidence(
        sends=read_sends(folder / "history", unread=unread),
        traces=read_traces(folder / "trace", unread),
        final_look=final_look,
        replicas=replicas,
        damage=damage,
        reads=_read_polls(folder / "history"),
        probes=_read_probes(folder / PROBES, unread),
        unread=tuple(unread),
    )


def _read_lines(
    path: Path, read: Callable[[Sequence[bytes]], list[T]], unread: list[str] | None
) -> list[T]:
    """Return what the file's sound lines hold, and say in `unread` which are not."""
    try:
        return read(path.read_bytes().splitlines())
    except DamagedLines as damaged:
        if unread is not None:
            unread.append(f"{path.name}: {damaged}")
        return damaged.found


def read_history(path: Path, unread: list[str] | None = None) -> list[HistoryEvent]:
    """Return what one client wrote down, as far as it can be read; `unread` takes what cannot."""
    return _read_lines(path, decode, unread)


def read_sends(
    history_folder: Path,
    wanted: Callable[[str], bool] = lambda name: True,
    unread: list[str] | None = None,
) -> Sends:
    """Return the sends of every history file in the folder, or of those of the wanted names.

    `unread` takes what cannot be read, and outcomes without their sends.
    """
    parts: list[Sends] = []
    for path in sorted(history_folder.glob("*.jsonl")):
        if not wanted(path.stem):
            continue
        parts.append(sends_of(read_history(path, unread)))
        unmatched = len(parts[-1].unmatched)
        if unmatched and unread is not None:
            unread.append(f"{path.name}: {unmatched} outcomes without a send of their own")
    return Sends(
        acknowledged=tuple(ack for part in parts for ack in part.acknowledged),
        failed=tuple(event for part in parts for event in part.failed),
        unknown=tuple(event for part in parts for event in part.unknown),
    )


def _read_polls(history_folder: Path) -> tuple[HistoryEvent, ...]:
    return tuple(
        event
        for path in sorted(history_folder.glob("*.jsonl"))
        for event in read_history(path)
        if event.function == "poll"
    )


def _read_probes(path: Path, unread: list[str]) -> tuple[Probe, ...]:
    return tuple(_read_lines(path, decode_probes, unread)) if path.exists() else ()


def read_traces(trace_folder: Path, unread: list[str] | None = None) -> tuple[TraceEvent, ...]:
    """Return every node's events, each node's in its own order; `unread` takes the malformed."""
    return tuple(
        event
        for path in sorted(trace_folder.glob("*.jsonl"))
        for event in _read_lines(path, decode_events, unread)
    )


def _read_replicas(
    segments_folder: Path, final_look: Look, topics: Sequence[str], unread: list[str]
) -> tuple[dict[TopicPartition, tuple[ReplicaLog, ...]], tuple[Finding, ...]]:
    """Return the copied logs with the offsets that their brokers last told, and what is damaged.

    segments_folder holds one folder a broker, broker-<id>, and in it one a partition. A log with
    a batch whose records cannot be decoded is left out, and `unread` says so.
    """
    found: dict[TopicPartition, tuple[ReplicaLog, ...]] = {}
    damage: list[Finding] = []
    for key in leaderships(final_look):
        if key.topic not in topics:
            continue
        logs: list[ReplicaLog] = []
        for broker_id, replica in replicas_of(final_look, key).items():
            try:
                batches = _decodable(segments_folder / f"broker-{broker_id}" / str(key))
            except UnreadableRecords as error:
                unread.append(f"{key} of broker {broker_id}: {error}")
                continue
            except DamagedLog as error:
                what = f"broker {broker_id}: {error}"
                damage.append(Finding("I3", what, key.topic, key.partition))
                continue
            logs.append(
                ReplicaLog(
                    broker_id=broker_id,
                    topic=key.topic,
                    partition=key.partition,
                    batches=batches,
                    high_watermark=replica.high_watermark,
                    log_start_offset=replica.log_start_offset,
                )
            )
        found[key] = tuple(logs)
    return found, tuple(damage)


def _decodable(folder: Path) -> tuple[Batch, ...]:
    batches = read_batches(folder)
    for batch in batches:
        for _ in batch.records():
            pass
    return batches


def _assigned(look: Look, topic_partition: TopicPartition) -> tuple[int, ...]:
    """Return the assignment as the partition's leader knows it."""
    leader = leaderships(look)[topic_partition].leader
    return replicas_of(look, topic_partition)[leader].assigned_replicas


def check_everything(evidence: Evidence) -> list[CheckResult]:
    """Return every check's result; the per-partition ones are merged into one each.

    What needs looks or probes is checked where there are some. Findings at an offset tell what
    every replica holds around it.
    """
    replicas = [replica for group in evidence.replicas.values() for replica in group]
    promised, traces = evidence.promised, evidence.traces
    if promised is None:
        promised = evidence.sends.acknowledged
    checks = [
        CheckResult(
            "segments decode",
            len(replicas) + len(evidence.damage),
            evidence.damage,
            unread=evidence.unread,
        ),
        check_acknowledged_records(promised, replicas),
        check_successors(promised, replicas, traces),
        check_duplicates(evidence.sends, replicas),
        check_order(promised, lambda process: client_of(process) in evidence.one_in_flight),
        check_inconsistent_offsets(promised, evidence.reads),
        _merged([check_replica_equality(group) for group in evidence.replicas.values()]),
        check_high_watermarks_are_held(replicas),
        check_leader_uniqueness(traces),
        check_truncations(traces),
        check_isr(_leader_records(evidence)),
    ]
    if evidence.looks:
        checks.append(check_high_watermark_in_run(evidence.looks, traces))
    if evidence.probes:
        checks.append(check_empty_fetches(evidence.probes, evidence.looks, traces))
    return with_neighbours(checks, replicas)


def _merged(results: Sequence[CheckResult]) -> CheckResult:
    return CheckResult(
        check=REPLICA_EQUALITY,
        examined=sum(result.examined for result in results),
        findings=tuple(finding for result in results for finding in result.findings),
    )


def _leader_records(evidence: Evidence) -> list[PartitionRecord]:
    """Return every state of a partition that a leader told of in a look, each once."""
    found = {
        PartitionRecord(
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            assigned_replicas=_assigned(look, topic_partition),
        ): None
        for look in (*evidence.looks, evidence.final_look)
        for topic_partition, leadership in leaderships(look).items()
    }
    return list(found)
