"""The partitions of `__consumer_offsets` that this broker leads, and which of them are loaded.

A term lasts from the moment at which this broker takes a partition's lead until it loses it, over
any number of leader epochs. It begins and ends at the same instant as the role. A load counts only
in the term in which it began, so a late load cannot overwrite the groups of a later term.
Source: Kafka's GroupCoordinator, handleGroupImmigration and handleGroupEmigration; KAFKA-2841,
KAFKA-10614.
"""

from __future__ import annotations

from highwater_broker.coordinator.groups_and_log import GroupCache
from highwater_broker.coordinator.load import Load, LoadFailed, LoadUnwanted, PartitionLoad
from highwater_broker.coordinator.logic.placement import offsets_partition
from highwater_broker.kafka_api.rest_of_broker import Partitions, TopicSize
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.partition import Partition
from highwater_broker.purgatory import Purgatory
from highwater_broker.roles import Leading
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import LeaderEpoch, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.runtime import Runtime

RETRY_MS = 500
"""How long after a failed load the next one begins."""


class Term:
    """One leadership of an offsets partition. leader_epoch: the epoch in which it began."""

    __slots__ = ("is_loaded", "leader_epoch", "partition")

    def __init__(self, partition: Partition, leader_epoch: LeaderEpoch) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.is_loaded = False

    def is_of(self, partition: Partition, role: Leading) -> bool:
        """Return whether the role continues this term: same partition, same first epoch."""
        return self.partition is partition and self.leader_epoch == role.first_epoch


class Ownership:
    """The terms of this broker, by number of the offsets partition.

    Invariant: a partition has a term exactly while this broker leads it. The cache has a
    partition's groups exactly while its term is loaded.
    """

    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        purgatory: Purgatory,
        topic_size: TopicSize,
        fail_points: FailPoints,
    ) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._purgatory = purgatory
        self._topic_size = topic_size
        self._fail_points = fail_points
        self._turns = Turns(runtime)
        self._scope = runtime.scope("group loads")
        self._terms: dict[int, Term] = {}
        self._cache: GroupCache | None = None

    def serve(self, cache: GroupCache) -> None:
        """Tell this cache of every term that is loaded or over. Called before the first role."""
        self._cache = cache

    # ------------------------------------------------------------ queries

    def refusal(self, group_id: str) -> ErrorCode:
        """Return NONE, or the error for requests about the group."""
        term = self.term_of(group_id)
        if term is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if term.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def is_loading(self) -> bool:
        """Return whether this broker leads a partition whose groups are not loaded yet."""
        return not all(term.is_loaded for term in self._terms.values())

    def term_of(self, group_id: str) -> Term | None:
        """Return the term in which this broker coordinates the group, loaded or not."""
        if not self._topic_size.count:
            return None
        return self._terms.get(self.partition_of(group_id))

    def partition_of(self, group_id: str) -> int:
        """Return the group's offsets partition; asked only while their number is known."""
        return offsets_partition(group_id, self._topic_size.count)

    def epoch_of(self, number: int) -> LeaderEpoch | None:
        """Return the epoch in which this broker's term of the partition began; None: no term."""
        term = self._terms.get(number)
        return None if term is None else term.leader_epoch

    def loaded(self) -> tuple[tuple[TopicPartition, LeaderEpoch], ...]:
        """Return the loaded partitions, each with the epoch in which its term began."""
        return tuple(
            (term.partition.topic_partition, term.leader_epoch)
            for _, term in sorted(self._terms.items())
            if term.is_loaded
        )

    # ------------------------------------------------------------ roles

    def role_changed(self, topic_partition: TopicPartition) -> None:
        """Begin or end a term, according to the partition's role.

        Ordering: called at the instant of the role's change, before any other task runs.
        """
        if topic_partition.topic != OFFSETS_TOPIC:
            return
        number = topic_partition.partition
        partition = self._partitions.get(topic_partition)
        term = self._terms.get(number)
        role = partition.role if partition is not None else None
        if isinstance(role, Leading) and not role.is_open:
            role = None  # it serves no client until it has taken over
        if term is not None:
            if partition is not None and isinstance(role, Leading) and term.is_of(partition, role):
                return  # the leadership goes on: the log and the loaded groups stay valid
            self._emigrate(number, term)
        if partition is not None and isinstance(role, Leading):
            self._immigrate(number, partition, role)

    def _immigrate(self, number: int, partition: Partition, role: Leading) -> None:
        """Begin a term, and load its groups in the background."""
        term = self._terms[number] = Term(partition, role.first_epoch)
        partition.trace(EventKind.GROUP_LOAD_BEGUN, epoch_start_offset=role.epoch_start_offset)
        load = PartitionLoad(
            partition,
            role.epoch_start_offset,
            lambda: self._is_current(number, term),
            lambda group_id: self._is_of(number, group_id),
            self._purgatory,
            self._turns,
        )
        self._scope.spawn("GroupLoad", self._load(number, term, load))

    def _is_of(self, number: int, group_id: str) -> bool:
        """Return whether the group belongs to the partition that is being loaded.

        Raises:
            LoadFailed: the number of partitions is not known, since the topic is being deleted.
        """
        if not self._topic_size.count:
            why = "the number of partitions is not known any more"
            raise LoadFailed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        return self.partition_of(group_id) == number

    def _emigrate(self, number: int, term: Term) -> None:
        """End the term: its groups are dead, and waiting requests are answered."""
        del self._terms[number]
        term.partition.trace(
            EventKind.GROUP_UNLOADED, since_epoch=term.leader_epoch, was_loaded=term.is_loaded
        )
        if term.is_loaded and self._cache is not None:
            self._cache.resign(number)

    # ------------------------------------------------------------ loading

    def _is_current(self, number: int, term: Term) -> bool:
        return self._terms.get(number) is term

    async def _load(self, number: int, term: Term, load: PartitionLoad) -> None:
        """Load until the load is complete or the term is over; a failed load begins anew."""
        while self._is_current(number, term):
            if not await self._topic_size.learn():
                await self._runtime.sleep(RETRY_MS)
                continue
            await self._fail_points.reach(FailPoint.BEFORE_GROUP_LOAD)
            try:
                loaded = await load.run()
            except LoadFailed as failed:
                term.partition.trace(
                    EventKind.GROUP_LOAD_FAILED, error=failed.error.name, what=str(failed)[:300]
                )
                await self._runtime.sleep(RETRY_MS)
            except LoadUnwanted:
                return
            else:
                self._end_load(number, term, loaded)
                return

    def _end_load(self, number: int, term: Term, loaded: Load) -> None:
        """Serve the loaded groups from now on, unless the term is over."""
        if not self._is_current(number, term):
            return
        term.is_loaded = True
        if loaded.strays:
            first = loaded.strays[0][:100]
            what = f"{len(loaded.strays)} groups of other partitions, the first {first!r}"
            term.partition.trace(EventKind.BAD_INPUT_MET, where="groups' records", what=what)
        if self._cache is not None:
            self._cache.take_over(number, loaded.groups)
        term.partition.trace(
            EventKind.GROUP_LOAD_ENDED,
            since_epoch=term.leader_epoch,
            read_up_to=loaded.end_offset,
            groups=len(loaded.groups),
            offsets=sum(len(group.offsets) for group in loaded.groups.values()),
            skipped=loaded.skipped,
        )
