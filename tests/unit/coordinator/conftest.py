"""Offsets partitions that broker 0 hosts, in virtual time, and a cache that records its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from highwater_broker.coordinator.logic.placement import offsets_partition
from highwater_broker.coordinator.offsets_log import OffsetsLog
from highwater_broker.coordinator.ownership import Ownership
from highwater_broker.coordinator.records import encode_batch
from highwater_broker.coordinator.stored import (
    GroupRecord,
    LoadedGroup,
    OffsetCommitted,
)
from highwater_broker.purgatory import Purgatory
from highwater_core.errors import ErrorCode
from highwater_core.fail_points import BROKER_FAIL_POINTS, FailPoints
from highwater_core.ids import Offset, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_simulator.kernel import Kernel
from tests.support.hosted import Hosted, HostedPartition, Surroundings

PARTITION_COUNT = 3
COMMIT_TIMEOUT_MS = 5_000


class RecordedTrace:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def emit(self, kind: Any, **fields: Any) -> None:
        self.events.append((str(kind), fields))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [fields for each, fields in self.events if each == kind]


class NotedCache:
    """Stands in for a group coordinator: its groups, and its calls in order."""

    def __init__(self) -> None:
        self.groups: dict[int, Mapping[str, LoadedGroup]] = {}
        self.told: list[tuple[str, int]] = []

    def take_over(self, offsets_partition: int, groups: Mapping[str, LoadedGroup]) -> None:
        assert offsets_partition not in self.groups, "taken over twice"
        self.groups[offsets_partition] = groups
        self.told.append(("take_over", offsets_partition))

    def resign(self, offsets_partition: int) -> None:
        del self.groups[offsets_partition]
        self.told.append(("resign", offsets_partition))

    def offset(self, group_id: str, topic: str = "t", partition: int = 0) -> int | None:
        number = offsets_partition(group_id, PARTITION_COUNT)
        group = self.groups[number].get(group_id)
        found = None if group is None else group.offsets.get(TopicPartition(topic, partition))
        return None if found is None else found.offset


class FixedSize:
    """The count of offsets partitions; learned: the count that the next read finds."""

    def __init__(self) -> None:
        self.count = self.learned = PARTITION_COUNT

    async def learn(self) -> int:
        self.count = self.learned
        return self.count


class CoordinatorWorld:
    """Broker 0's offsets partitions: real ones, over a simulated disk."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker-0")
        self.scope = self.runtime.scope("tests")
        self.trace = RecordedTrace()
        self.purgatory = Purgatory(self.runtime)
        self.hosted = Hosted()
        self.cache = NotedCache()
        self.size = FixedSize()
        self.fail_points = FailPoints(
            self.runtime, self.trace, self.runtime.kill, BROKER_FAIL_POINTS
        )
        self.ownership = Ownership(
            self.runtime,
            self.hosted,
            self.purgatory,
            self.size,
            self.fail_points,
        )
        self.ownership.serve(self.cache)
        self.log = OffsetsLog(self.ownership, self.purgatory, self.runtime, COMMIT_TIMEOUT_MS)
        self._surroundings = Surroundings(self.runtime, self.trace, self.purgatory.check)
        self._surroundings.context = replace(
            self._surroundings.context, role_changed=self.ownership.role_changed
        )

    def host(self, number: int, *batches: Sequence[GroupRecord]) -> HostedPartition:
        """Add a replica that follows, with records of an earlier leader in its log."""
        key = TopicPartition(OFFSETS_TOPIC, number)
        partition = HostedPartition(key, self._surroundings)
        for records in batches:
            put(partition, records)
        partition.lose_leadership()
        self.hosted[key] = partition
        return partition

    def host_for(self, group_id: str, *batches: Sequence[GroupRecord]) -> HostedPartition:
        return self.host(offsets_partition(group_id, PARTITION_COUNT), *batches)

    def lead(self, partition: HostedPartition) -> None:
        partition.lead_in(partition.leader_epoch + 1)

    def lead_loaded(self, partition: HostedPartition) -> None:
        """Lead it, with all committed, and wait until it is loaded."""
        self.lead(partition)
        partition.commit(partition.log_end_offset)
        self.kernel.run_for(1_000)
        assert partition.topic_partition in dict(self.ownership.loaded())

    def start_append(self, group_id: str, *records: GroupRecord) -> list[ErrorCode]:
        """Begin an append; its answer is in the list once it is there."""
        answers: list[ErrorCode] = []

        async def work() -> None:
            answers.append(await self.log.append(group_id, records))

        self.scope.spawn("append", work())
        self.kernel.run_for(0)
        return answers


def put(partition: HostedPartition, records: Sequence[GroupRecord]) -> None:
    outcome = partition.append(encode_batch(records, 1_000), 1, 1_000)
    assert outcome.error is ErrorCode.NONE


def committed(group_id: str, offset: int, topic: str = "t", partition: int = 0) -> OffsetCommitted:
    return OffsetCommitted(group_id, topic, partition, Offset(offset))


@pytest.fixture
def world() -> Iterator[CoordinatorWorld]:
    made = CoordinatorWorld()
    yield made
    made.kernel.close()
