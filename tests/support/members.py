"""Members of consumer groups in a simulated cluster, and their assignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from highwater_client.admin import Admin
from highwater_client.group_member import Assigned, GroupMember, GroupSettings
from highwater_client.offset_history import OffsetHistory
from highwater_client.recorder import HistoryRecorder
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC

Cluster = Any

BROKER_SETTINGS = {"group_initial_rebalance_delay_ms": 500, "offsets_topic_partitions": 1}
TOPIC = "shared"
PARTITIONS = 4
SESSION_MS = 6_000


class Watched:
    """A member, its current assignment and all its generations."""

    def __init__(self, cluster: Cluster, name: str, **settings: Any) -> None:
        self.world = cluster.world
        client = cluster.world.client(name)
        self.assigned: Mapping[TopicPartition, Offset] = {}
        self.generations: list[int] = []
        self.recorder = HistoryRecorder(client.stamp_ns, name)
        self.member = GroupMember(
            client.runtime,
            client.transport,
            client.bootstrap,
            GroupSettings("g", (TOPIC,), **{"session_timeout_ms": SESSION_MS, **settings}),
            client_id=name,
            history=OffsetHistory(self.recorder, "g"),
            on_assigned=self._assigned,
            on_revoked=self._revoked,
        )
        self.scope = client.runtime.scope("member")
        self.running = self.scope.spawn("Member", self.member.run())

    def _assigned(self, told: Assigned) -> None:
        self.assigned = told.positions
        self.generations.append(told.generation)

    def _revoked(self, generation: int) -> None:
        assert generation == self.generations[-1]
        self.assigned = {}

    async def holds(self, *partitions: int) -> None:
        wanted = [TopicPartition(TOPIC, each) for each in partitions]
        await self.world.eventually(
            lambda: self.member.generation >= 0 and sorted(self.assigned) == wanted,
            60_000,
            f"partitions {partitions}, after {self.member.last_error}",
        )

    async def commit(self, offset: int, partition: int = 0) -> None:
        """Commit the offset again and again until the commit is acknowledged."""
        key = TopicPartition(TOPIC, partition)
        outcomes: list[ErrorCode | None] = []

        async def try_once() -> bool:
            outcomes.append(await self.member.commit({key: offset}))
            return outcomes[-1] is ErrorCode.NONE

        while not await try_once():
            await self.world.sleep(100)
            assert len(outcomes) < 300, f"not committed: {outcomes[-3:]}"


def coordinator(cluster: Cluster) -> int:
    """Return the broker that coordinates all groups: __consumer_offsets has one partition here."""
    return int(cluster.leader(TopicPartition(OFFSETS_TOPIC, 0)))


async def begin(cluster: Cluster) -> None:
    """Start all nodes and create the topic that members share."""
    cluster.world.start_all()
    await create(cluster)


async def create(cluster: Cluster) -> None:
    """Create the topic that members share."""
    client = cluster.world.client("admin")
    admin = Admin(client.runtime, client.transport, client.bootstrap)
    assert await admin.create_topic(TOPIC, PARTITIONS, 3, 60_000) is ErrorCode.NONE
