"""All evidence for a run's verdict, read from the files of its folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from highwater_checker.finding import CheckResult
from highwater_checker.history import Acknowledged, HistoryEvent, Sends, client_of
from highwater_checker.incomplete import ALL_WHOLE, Incomplete, incomplete_of
from highwater_checker.lives import Life, Lives, deleted_topics
from highwater_checker.lives_of_records import LifeOfRecord, LivesOfRecords
from highwater_checker.looks import Look, decode_looks, replicas_of
from highwater_checker.probes import Probe, decode_probes
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    ACKS_ALL,
    ACKS_NONE,
    CLOCK,
    Excused,
    Promises,
)
from highwater_checker.run_folder.evidence_files import logs_among
from highwater_checker.run_folder.files import may_be_there
from highwater_checker.run_folder.histories import (
    Histories,
    polls_in,
    read_histories,
    readers_of_no_plan,
    sends_in,
)
from highwater_checker.run_folder.intents import IntendedFault, Intent, decode_judged
from highwater_checker.run_folder.lines import read_lines, read_traces
from highwater_checker.run_folder.replica_logs import ReplicaLogs, read_replica_logs
from highwater_checker.run_folder.small_files import read_document, read_small_files
from highwater_checker.slices import WHOLE, Slices
from highwater_checker.verdict import Requirement
from highwater_core.events import BY_RETENTION, EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, TopicPartition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a run.

    final_look: None where the run ended before.
    traces: each node's in its order.
    intents: the phases of faults, and the starts of nodes that the run made.
    looks and probes: in order, if there was an observer and a prober.
    watched: checks during the run, None without any.
    """

    promises: Promises
    requirements: tuple[Requirement, ...]
    final_look: Look | None
    histories: Histories
    sends: Sends
    lives: LivesOfRecords
    traces: tuple[TraceEvent, ...]
    logs: ReplicaLogs
    intents: tuple[Intent[IntendedFault], ...] = ()
    looks: tuple[Look, ...] = ()
    probes: tuple[Probe, ...] = ()
    watched: CheckResult | None = None
    excused: tuple[Excused, ...] = ()
    node_count: int = 0
    """Of the run's brokers and controllers, 0 where it is not known."""
    slices: Slices = WHOLE
    """Where the traces of nodes begin that lived before the run."""
    torn_while_alive: tuple[str, ...] = ()
    """Processes that were not killed, whose histories end in half a line."""
    incomplete: Incomplete = ALL_WHOLE
    """Processes whose histories may lack lines."""
    unread: tuple[str, ...] = ()
    """Unreadable and missing evidence, which makes the verdict unknown."""
    changed: tuple[str, ...] = ()
    """The files, by their paths in the folder, that are missing or are not as they were written."""
    start_wall_ns: int | None = None
    """The run's start by the nodes' clock; None where it is not known."""
    end_wall_ns: float = math.inf
    """By the nodes' clock, when the final look was taken; infinite where that is not known."""

    @property
    def reads(self) -> tuple[HistoryEvent, ...]:
        """Return the consumers' reads, by process."""
        return polls_in(self.histories)

    def life_of_read(self, event: HistoryEvent) -> LifeOfRecord:
        """Return the life of the topic in which the record that was read was written."""
        at = TopicPartition(event.topic, event.partition)
        return self.lives.of_read(at, event.offset, event.time_ns)

    @property
    def all_looks(self) -> tuple[Look, ...]:
        """Return the looks of the run and of its end, in no promised order."""
        return self.looks if self.final_look is None else (self.final_look, *self.looks)

    @property
    def promised(self) -> tuple[Acknowledged, ...]:
        """Return the acknowledgements to producers with acks=all or without promises."""
        weak = {each.client for each in self.promises.producers if each.acks != ACKS_ALL}
        return tuple(ack for ack in self.sends.acknowledged if client_of(ack.process) not in weak)

    @property
    def asked_of_logs(self) -> tuple[Acknowledged, ...]:
        """Return the promised records that the logs must have, without those of deleted topics.

        Of a partition without any log that was read they are asked for only where it is gone:
        every node answered at the end, and none has a replica. Else its logs are evidence that is
        missing.
        With only_in_sync nodes may stay down, so that nobody can tell.
        """
        lasting = self._not_deleted
        shown = self._shown_by_logs({(ack.topic, ack.partition) for ack in lasting})
        return tuple(ack for ack in lasting if (ack.topic, ack.partition) in shown)

    def acknowledged_without_a_log(self) -> set[TopicPartition]:
        """Return the partitions of promised records that are not asked of the logs.

        None with only_in_sync.
        """
        if self.promises.only_in_sync:
            return set()
        written = {(ack.topic, ack.partition) for ack in self._not_deleted}
        return {TopicPartition(*at) for at in written - self._shown_by_logs(written)}

    @property
    def _not_deleted(self) -> tuple[Acknowledged, ...]:
        return tuple(ack for ack in self.promised if not ack.life.is_over)

    def _shown_by_logs(self, written: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
        """Return those of the partitions whose logs were read, or are gone."""
        read = {(at.topic, at.partition) for at, logs in self.logs.by_partition.items() if logs}
        return {at for at in written if at in read or self._is_gone(TopicPartition(*at))}

    def _is_gone(self, at: TopicPartition) -> bool:
        """Return whether no node had a replica of the partition at the end, and all answered."""
        if self.promises.only_in_sync or self.final_look is None:
            return False
        nodes = self.final_look.nodes.values()
        are_all_there = nodes and None not in nodes and len(nodes) >= self.node_count
        return bool(are_all_there) and not replicas_of(self.final_look, at)

    def sends_one_at_a_time(self, process: str) -> bool:
        """Return whether the process's client had one request in flight at most."""
        client = client_of(process)
        return any(
            each.client == client and each.max_in_flight == 1 for each in self.promises.producers
        )

    def is_idempotent(self, process: str) -> bool:
        """Return whether the process's client wrote each record once (KIP-98)."""
        client = client_of(process)
        return any(each.client == client and each.is_idempotent for each in self.promises.producers)


def read_evidence(folder: Path) -> Evidence:
    """Return the evidence of the run's folder; damaged or missing files are in `unread`."""
    unread: list[str] = []
    files = read_small_files(folder)
    unread += files.unread
    looks = _read_lines(folder, names.LOOKS, decode_looks, unread, files.changed)
    final_look = files.look_of_the_end(looks)
    logs = ReplicaLogs({}, (), ())
    if final_look is not None:
        changed = logs_among(files.changed)
        logs = read_replica_logs(
            folder / names.SEGMENTS, final_look, files.promises, unread, changed
        )
    damaged = set(files.incomplete)
    histories = read_histories(folder / names.HISTORY, unread, damaged)
    traces = read_traces(folder / names.TRACE, unread)
    seen = looks if final_look is None else (final_look, *looks)
    unread += _untraced(seen, traces, files.slices)
    unread += files.slices.gaps(traces)
    unread += _unexplained_starts(logs, traces, files.excused)
    lives = _lives_of(traces, folder, unread)
    sends = sends_in(histories, unread, _without_offsets(files.promises))
    unread += _strange_readers(histories, files.promises)
    promises = files.promises or Promises()
    return Evidence(
        promises=promises,
        requirements=files.requirements,
        final_look=final_look,
        histories=histories,
        sends=sends.with_lives(lives),
        lives=lives,
        traces=traces,
        logs=logs,
        intents=tuple(_read_lines(folder, names.INTENTS, decode_judged, unread)),
        looks=tuple(looks),
        probes=tuple(_read_lines(folder, names.PROBES, decode_probes, unread, files.changed)),
        watched=files.watched,
        excused=files.excused,
        node_count=files.node_count,
        slices=files.slices,
        torn_while_alive=files.torn_while_alive,
        incomplete=incomplete_of(damaged, promises, histories),
        unread=tuple(unread),
        changed=files.changed,
        start_wall_ns=start_of_run(folder),
        end_wall_ns=end_of_run(folder, files.final_look),
    )


def end_of_run(folder: Path, final_look: Look | None) -> float:
    """Return when the final look was taken, in ns of the nodes' clock; infinity if not known."""
    start_wall_ns = start_of_run(folder)
    if final_look is None or start_wall_ns is None:
        return math.inf
    return start_wall_ns + final_look.time_ns


def start_of_run(folder: Path) -> int | None:
    """Return the run's start by the nodes' clock, ns since 1970; None where it is not known."""
    clock = read_document(CLOCK, folder, [])
    return None if clock is None else clock.start_wall_ns


def _without_offsets(promises: Promises | None) -> list[str]:
    producers = () if promises is None else promises.producers
    return [each.client for each in producers if each.acks == ACKS_NONE]


def _strange_readers(histories: Histories, promises: Promises | None) -> list[str]:
    """Return the histories of consumers that the run promised nothing of: no check reads them."""
    if promises is None:
        return []
    promised = {each.client for each in promises.consumers}
    promised.update(member for group in promises.groups for member in group.members)
    strange = readers_of_no_plan(histories, promised)
    return [f"{process}.jsonl: a consumer's that was not promised" for process in strange]


def _untraced(looks: Sequence[Look], traces: Sequence[TraceEvent], slices: Slices) -> list[str]:
    """Return the starts of nodes that are in looks and have no trace.

    Of a start before the run a trace was read then; a node that only waits traces nothing more.
    """
    traced = {(event.node, event.incarnation) for event in traces} | set(slices.starts)
    seen = {
        (node, snapshot.incarnation)
        for look in looks
        for node, snapshot in look.nodes.items()
        if snapshot is not None
    }
    return [f"node {node}, incarnation {start}: no trace" for node, start in sorted(seen - traced)]


def _unexplained_starts(
    logs: ReplicaLogs, traces: Sequence[TraceEvent], excused: Sequence[Excused]
) -> list[str]:
    """Return the logs that start above all removals of records by retention that a broker traced.

    A follower that takes its leader's log start over traces that too: it removes nothing of its
    own accord.

    Disks that lost records from an offset on excuse starts above it.

    For a topic that was deleted and created again, only removals in its latest life count: that of
    the last replica that began to lead. Records below a log's start are not checked, so an
    unexplained start could hide a loss.
    """
    moved: dict[Life | None, int] = {}
    latest: dict[TopicPartition, Life | None] = {}
    lives = Lives(traces)
    for event in sorted(traces, key=lambda each: each.ts_ns):
        life, at = lives.of_event(event), event.topic_partition
        if _is_by_retention(event) and life is not None:
            moved[life] = max(moved.get(life, 0), event.offset or 0)
        elif event.kind is EventKind.BECAME_LEADER and at is not None:
            latest[at] = life
    lost_from: dict[TopicPartition, int] = {}
    for each in excused:
        at = TopicPartition(each.topic, each.partition)
        lost_from[at] = min(each.start_offset, lost_from.get(at, each.start_offset))
    return [
        f"{at} of broker {log.broker_id}: it starts at {log.log_start_offset}, and no trace says "
        "that retention let go of as much"
        for at, group in logs.by_partition.items()
        for log in group
        if log.log_start_offset > moved.get(latest.get(at, (at, NO_TOPIC_ID)), 0)
        and log.log_start_offset <= lost_from.get(at, log.log_start_offset)
    ]


def _is_by_retention(event: TraceEvent) -> bool:
    is_moved = event.kind is EventKind.LOG_START_MOVED
    return is_moved and event.detail.get("reason", BY_RETENTION) == BY_RETENTION


def _lives_of(traces: Sequence[TraceEvent], folder: Path, unread: list[str]) -> LivesOfRecords:
    """Return the topics' lives: only for those that were deleted the run's clock is needed."""
    clock = read_document(CLOCK, folder, unread) if deleted_topics(traces) else None
    lives = LivesOfRecords(traces, None if clock is None else clock.start_wall_ns)
    unread += [f"{topic} was deleted, and no clock tells when" for topic in lives.untold]
    return lives


def _read_lines(
    folder: Path,
    name: str,
    read: Callable[[Sequence[bytes]], list[T]],
    unread: list[str],
    changed: Collection[str] = (),
) -> list[T]:
    """Return the contents of the file's valid lines; none where it is not as it was written."""
    found = read_lines(folder / name, read, unread) if may_be_there(folder / name) else []
    return [] if name in changed else found
