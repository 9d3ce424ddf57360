"""A group's member that reads its partitions, commits its positions, and leaves and joins again.

One membership follows another. After `stays_ms` the member leaves the group; every second time it
ends without a LeaveGroup, as after a crash. A new member joins at once and reads on from the
committed offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from highwater_checker.history import HistoryEvent
from highwater_client.consumer import Consumer
from highwater_client.group_member import Assigned, GroupMember, GroupSettings
from highwater_client.offset_history import OffsetHistory
from highwater_client.recorder import HistoryRecorder
from highwater_client.settings import ConsumerSettings
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, TopicPartition
from highwater_core.ports import Transport
from highwater_core.runtime import Runtime


@dataclass(frozen=True, slots=True)
class GroupReaderSettings:
    """Settings of a member of a plan's group, which reads one topic.

    commit_every_ms: the interval of its commits.
    stays_ms: how long one membership lasts; 0: to the end.
    """

    group_id: str
    topic: str
    commit_every_ms: int = 200
    stays_ms: int = 0
    session_timeout_ms: int = 6_000
    request_timeout_ms: int = 2_000

    @property
    def of_member(self) -> GroupSettings:
        """The settings of each of its memberships."""
        return GroupSettings(
            self.group_id,
            (self.topic,),
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.session_timeout_ms,
            heartbeat_ms=max(1, self.session_timeout_ms // 5),
            request_timeout_ms=self.request_timeout_ms,
        )


class GroupReader:
    """One client; `process` names it in the history. now_ns: as a producer's."""

    def __init__(
        self,
        runtime: Runtime,
        transport: Transport,
        bootstrap: Sequence[Endpoint],
        settings: GroupReaderSettings,
        *,
        process: str = "g0m0",
        now_ns: Callable[[], int] | None = None,
        on_event: Callable[[HistoryEvent], None] | None = None,
    ) -> None:
        self._runtime = runtime
        self._transport = transport
        self._bootstrap = tuple(bootstrap)
        self._settings = settings
        self._process = process
        self._recorder = HistoryRecorder(now_ns or runtime.now_ns, process, on_event=on_event)
        self._membership = runtime.scope("Membership")
        self._reading = runtime.scope("Reading")
        self._stopping = runtime.event()
        self._goes = settings.stays_ms > 0
        self._member: GroupMember | None = None
        self._consumer: Consumer | None = None
        self._committed: dict[int, int] = {}
        """Committed offsets by assigned partition, -1 where there is none."""

    @property
    def history(self) -> list[HistoryEvent]:
        return self._recorder.events

    def committed(self, partition: int) -> int:
        """Return the committed offset of a partition in its assignment, -1 for any other."""
        return self._committed.get(partition, -1)

    # ------------------------------------------------------------ for the owner

    async def run(self) -> None:
        """Be one member after another until stop()."""
        memberships = 0
        while not self._stopping.is_set():
            memberships += 1
            await self._be_a_member(leaves=memberships % 2 == 1)

    def stay(self) -> None:
        """Keep the current membership from now on."""
        self._goes = False

    def stop(self) -> None:
        """Leave the group for good."""
        self._stopping.set()

    async def caught_up(self, within_ms: int) -> tuple[int, ...]:
        """Return the partitions that it has read to the end and whose end it has committed.

        Only answers to requests from now on count, as in Consumer.caught_up.
        """
        consumer = self._consumer
        if consumer is None or not await consumer.caught_up(within_ms):
            return ()
        await self._commit()
        return tuple(
            partition
            for partition, offset in self._committed.items()
            if offset == consumer.position(partition)
        )

    # ------------------------------------------------------------ one membership

    async def _be_a_member(self, *, leaves: bool) -> None:
        settings = self._settings
        member = GroupMember(
            self._runtime,
            self._transport,
            self._bootstrap,
            settings.of_member,
            client_id=self._process,
            history=OffsetHistory(self._recorder, settings.group_id),
            on_assigned=self._read,
            on_revoked=self._stop_reading,
        )
        self._member = member
        self._membership.spawn("Commit", self._commit_again_and_again())
        self._membership.spawn("Go", self._go_later(member, leaves=leaves))
        await member.run()
        self._membership.cancel()

    async def _go_later(self, member: GroupMember, *, leaves: bool) -> None:
        if self._goes:
            await self._stopping.wait(self._settings.stays_ms)
        if not self._goes:
            await self._stopping.wait()
        if leaves:
            await self._commit()
        member.stop(leaves=leaves or self._stopping.is_set())

    def _read(self, assigned: Assigned) -> None:
        """Read from the committed offsets, or from the start where there are none."""
        offsets = {at.partition: int(offset) for at, offset in assigned.positions.items()}
        self._committed = offsets
        if not offsets:
            return
        self._consumer = Consumer(
            self._runtime,
            self._transport,
            self._bootstrap,
            ConsumerSettings(self._settings.topic, tuple(offsets)),
            recorder=self._recorder,
            positions={each: offset for each, offset in offsets.items() if offset >= 0},
        )
        self._reading.spawn("Consumer", self._consumer.run())

    def _stop_reading(self, _: int) -> None:
        consumer, self._consumer = self._consumer, None
        self._committed = {}
        if consumer is not None:
            consumer.stop()

    # ------------------------------------------------------------ commits

    async def _commit_again_and_again(self) -> None:
        while True:
            await self._runtime.sleep(self._settings.commit_every_ms)
            await self._commit()

    async def _commit(self) -> None:
        """Commit the positions that have changed since."""
        member, consumer, committed = self._member, self._consumer, self._committed
        if member is None or consumer is None:
            return
        positions = {each: consumer.position(each) for each in committed}
        new = {
            each: offset
            for each, offset in positions.items()
            if offset is not None and offset != committed[each]
        }
        topic = self._settings.topic
        asked = {TopicPartition(topic, each): offset for each, offset in new.items()}
        if asked and await member.commit(asked) is ErrorCode.NONE:
            committed.update(new)
