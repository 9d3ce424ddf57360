"""The copied logs of a run's replicas, each with the offsets that its broker reported last."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from highwater_checker.decoding import Decoding
from highwater_checker.finding import Finding
from highwater_checker.looks import Look, leaderships, replicas_of
from highwater_checker.run_folder.documents import Promises
from highwater_checker.run_folder.files import may_be_there
from highwater_checker.run_folder.names import of_broker
from highwater_checker.segments import (
    Batch,
    DamagedLog,
    ReplicaLog,
    UnreadableRecords,
    read_batches,
)
from highwater_checker.wording import Wording
from highwater_core.ids import TopicPartition
from highwater_core.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from highwater_core.messages import ReplicaSnapshot


@dataclass(frozen=True, slots=True)
class ReplicaLogs:
    """by_partition: logs of the partitions with a leader, by broker.
    damage: logs that do not decode, though their brokers had stopped cleanly.
    missing: replicas that must be read and are not in by_partition, as partition@broker.
    lagging: replicas that must be read and were not in the ISR, likewise."""

    by_partition: dict[TopicPartition, tuple[ReplicaLog, ...]]
    damage: tuple[Finding, ...]
    missing: tuple[str, ...]
    lagging: tuple[str, ...] = ()

    def all(self) -> list[ReplicaLog]:
        """Return every log that was read, by partition, then broker."""
        return [log for group in self.by_partition.values() for log in group]

    def of_clients(self) -> list[ReplicaLog]:
        """Return the logs of topics to which clients produce."""
        return [log for log in self.all() if log.topic not in INTERNAL_TOPICS]


@dataclass(frozen=True, slots=True)
class AskedReplicas:
    """Replicas of one partition.

    brokers: those whose logs a verdict needs.
    isr: as the leader told.
    hosted: their snapshots, with others' where these are compared too.
    """

    brokers: tuple[int, ...]
    isr: tuple[int, ...]
    hosted: Mapping[int, ReplicaSnapshot]


def compared_topics(promises: Promises | None) -> frozenset[str] | None:
    """Return the topics whose replicas are compared: the promised ones and the brokers' own.

    None stands for all topics, where nothing was promised.
    """
    if promises is None:
        return None
    return INTERNAL_TOPICS.union(topic.name for topic in promises.topics)


def compacted_topics(promises: Promises | None) -> frozenset[str]:
    """Return the topics whose logs are compacted; brokers compact __consumer_offsets always."""
    promised = () if promises is None else promises.topics
    return frozenset({OFFSETS_TOPIC}).union(each.name for each in promised if each.is_compacted)


def asked_replicas(
    final_look: Look, promises: Promises | None
) -> dict[TopicPartition, AskedReplicas]:
    """Return the required replicas of the compared topics, of partitions with a leader.

    With only_in_sync, replicas out of the ISR are left out. A broker that is neither assigned nor
    in the ISR promises nothing: what it keeps of a partition is left over from a move
    (KAFKA-13972), and is not compared.
    """
    topics = compared_topics(promises)
    found: dict[TopicPartition, AskedReplicas] = {}
    for at, leadership in leaderships(final_look).items():
        if topics is not None and at.topic not in topics:
            continue
        hosted = replicas_of(final_look, at)
        asked = tuple(map(int, hosted[leadership.leader].assigned_replicas))
        isr = tuple(map(int, leadership.isr))
        if promises is not None and promises.only_in_sync:
            asked = isr
        compared = {*asked, *isr}
        hosted = {broker: each for broker, each in hosted.items() if broker in compared}
        found[at] = AskedReplicas(asked, isr, hosted)
    return found


def missing_from(at: TopicPartition, asked: AskedReplicas, brokers: Collection[int]) -> list[str]:
    """Return the required replicas whose broker is not among the given, as partition@broker."""
    return [f"{at}@{broker}" for broker in asked.brokers if broker not in brokers]


def read_replica_logs(
    segments_folder: Path,
    final_look: Look,
    promises: Promises | None,
    unread: list[str],
    changed: Collection[tuple[str, str]] = (),
) -> ReplicaLogs:
    """Return the logs of the compared topics.

    segments_folder has one folder a broker, and in it one a partition. A log with a batch whose
    records cannot be decoded is left out and reported in `unread`.
    changed: logs with segments that are not as they were written, as (broker's folder, log's): they
    are missing. Their files are reported already.
    """
    compacted = compacted_topics(promises)
    found: dict[TopicPartition, tuple[ReplicaLog, ...]] = {}
    reader = _Reader(segments_folder, unread, changed)
    missing: list[str] = []
    lagging: list[str] = []
    for at, asked in asked_replicas(final_look, promises).items():
        logs = []
        is_compacted = at.topic in compacted
        reader.decoding.begin_partition()
        for broker, replica in asked.hosted.items():
            batches = reader.batches_of(at, broker, is_compacted=is_compacted)
            if batches is None:
                continue
            logs.append(
                ReplicaLog(
                    broker_id=broker,
                    topic=at.topic,
                    partition=at.partition,
                    batches=batches,
                    high_watermark=replica.high_watermark,
                    log_start_offset=replica.log_start_offset,
                    is_compacted=is_compacted,
                    is_in_sync=broker in asked.isr,
                )
            )
        found[at] = tuple(logs)
        missing += missing_from(at, asked, {log.broker_id for log in logs})
        lagging += missing_from(at, asked, asked.isr)
    return ReplicaLogs(found, tuple(reader.damage), tuple(missing), tuple(lagging))


class _Reader:
    """Reads logs, and collects those that cannot be read and those that are damaged."""

    def __init__(
        self, segments_folder: Path, unread: list[str], changed: Collection[tuple[str, str]]
    ) -> None:
        self._folder = segments_folder
        self._unread = unread
        self._changed = changed
        self.damage: list[Finding] = []
        self.decoding = Decoding()

    def batches_of(
        self, at: TopicPartition, broker: int, *, is_compacted: bool
    ) -> tuple[Batch, ...] | None:
        """Return the log's batches; None where it is missing, unreadable or not as written."""
        if (of_broker(broker), str(at)) in self._changed:
            return None
        folder = self._folder / of_broker(broker) / str(at)
        if not may_be_there(folder):
            self._unread.append(f"{at} of broker {broker}: it has no folder")
            return None
        try:
            batches = read_batches(folder, is_compacted=is_compacted)
            return self.decoding.decoded(batches, is_compacted=is_compacted)
        except UnreadableRecords as error:
            self._unread.append(f"{at} of broker {broker}: {error}")
        except OSError as error:
            self._unread.append(f"{at} of broker {broker}: {error.strerror or error}")
        except DamagedLog as error:
            what = Wording.DAMAGED.filled(damage=error)
            self.damage.append(Finding("I3", what, at.topic, at.partition, error.offset, broker))
        return None
