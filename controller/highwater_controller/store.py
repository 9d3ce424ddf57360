"""The active controller's access to ZooKeeper: reads that outlast lost connections, and writes
that are conditional and fenced by the controller epoch.

Source: KIP-497 and KAFKA-6082 (each write checks /controller_epoch), KAFKA-1382 (a write whose
reply was lost is recognised as one's own).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from highwater_controller.chunks import multis
from highwater_controller.patience import RACE_ATTEMPTS, PatientReader
from highwater_core import znodes
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import ControllerEpoch, PartitionEpoch, TopicPartition
from highwater_core.ports import (
    BadVersion,
    CheckOp,
    Coordination,
    CoordinationError,
    CreateOp,
    DeleteOp,
    MultiFailed,
    MultiOp,
    NodeExists,
    NoNode,
    NotEmpty,
    SetOp,
    Stat,
    Trace,
)
from highwater_core.runtime import Runtime
from highwater_core.znodes import PartitionLeadership

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 (an item)

PIPELINE_DEPTH = 16
"""Calls of one step that are under way at once; ZooKeeper answers them in order."""


class TermOver(Exception):
    """This controller must resign; the message says why."""


@dataclass(frozen=True, slots=True)
class TermEpoch:
    """A term's controller epoch, and the version of /controller_epoch that its election wrote."""

    controller_epoch: ControllerEpoch
    node_version: int


class ControllerStore(PatientReader):
    """One term's reads and fenced writes; close() ends running ones.

    With `term` every write is a multi that checks /controller_epoch first, and raises TermOver
    when another controller has been elected.
    """

    def __init__(
        self,
        session: Coordination,
        runtime: Runtime,
        trace: Trace,
        retry_ms: int,
        give_up_ms: int,
        term: TermEpoch | None,
        fail_points: FailPoints,
    ) -> None:
        super().__init__(session, runtime, retry_ms, give_up_ms)
        self._fail_points = fail_points
        self._trace = trace
        self._scope = runtime.scope("controller-store")
        self._checks: tuple[MultiOp, ...] = (
            (CheckOp(znodes.CONTROLLER_EPOCH, term.node_version),) if term is not None else ()
        )

    def close(self) -> None:
        self._scope.cancel()

    async def each(self, items: Iterable[I], work: Callable[[I], Awaitable[T]]) -> list[T]:
        """Call `work` for all items, pipelined; return the results in the items' order.

        Work on different items must not depend on each other. All of it has ended on return.

        Raises:
            TermOver, CoordinationError: the first failed item's.
        """
        waiting = list(items)[::-1]
        total = len(waiting)
        results: dict[int, T] = {}
        faults: dict[int, TermOver | CoordinationError] = {}
        ended = self._runtime.event()

        async def worker() -> None:
            while waiting and not faults:
                index = total - len(waiting)
                item = waiting.pop()
                try:
                    results[index] = await work(item)
                except (TermOver, CoordinationError) as fault:
                    faults[index] = fault
            workers[0] -= 1
            if not workers[0]:
                ended.set()

        workers = [min(total, PIPELINE_DEPTH)]
        if not total:
            return []
        for number in range(workers[0]):
            self._scope.spawn(f"zookeeper-pipeline-{number}", worker())
        await ended.wait()
        if faults:
            raise faults[min(faults)]
        return [results[index] for index in range(total)]

    async def write(self, operations: Sequence[MultiOp]) -> list[Stat | None]:
        """Carry out all operations, or none.

        Raises:
            NoNode, NodeExists, BadVersion, NotEmpty: the first failed operation's. ConnectionLost:
            the outcome is unknown.
            TermOver: another controller has been elected.
        """
        try:
            results = await self._session.multi((*self._checks, *operations))
        except MultiFailed as failure:
            if failure.index < len(self._checks):
                raise TermOver("another controller has raised /controller_epoch") from failure
            raise failure.error from failure
        return results[len(self._checks) :]

    async def _write_patiently(self, operations: Sequence[MultiOp]) -> list[Stat | None]:
        what = f"{type(operations[0]).__name__} {operations[0].path}"
        if len(operations) > 1:
            what += f" and {len(operations) - 1} more"
        return await self.patiently(lambda: self.write(operations), what)

    async def create(self, path: str, data: bytes) -> bool:
        """Create a persistent znode; return False when there is one already.

        Raises:
            NoNode: its parent is gone.
        """
        try:
            await self._write_patiently([CreateOp(path, data)])
        except NodeExists:
            return False
        return True

    async def put(self, path: str, data: bytes) -> None:
        """Create or overwrite a persistent znode.

        Raises:
            TermOver: others created and deleted it again and again.
        """
        for _ in range(RACE_ATTEMPTS):
            if await self.create(path, data):
                return
            with suppress(NoNode):
                await self._write_patiently([SetOp(path, data)])
                return
        raise TermOver(f"{path}: {RACE_ATTEMPTS} times it was there to create, and gone to write")

    async def delete(self, path: str) -> None:
        """Delete a znode, if there is one; one with children stays, which is traced."""
        try:
            await self._write_patiently([DeleteOp(path)])
        except NoNode:
            return
        except NotEmpty:
            self._tell_children(path)

    async def delete_together(self, paths: Sequence[str]) -> bool:
        """Delete znodes without children, all or none; return whether all are gone.

        False: one of them was missing, or has children.
        """
        try:
            await self._write_patiently([DeleteOp(path) for path in paths])
        except (NoNode, NotEmpty):
            return False
        return True

    async def set_topic(self, path: str, data: bytes, expected: int) -> bool:
        """Write a topic's znode on the version that was read; False when it met another one.

        Raises:
            TooLarge: the content is too large for ZooKeeper.
        """
        await self._fail_points.reach(FailPoint.BEFORE_TOPIC_WRITE)
        is_written = await self.replace(path, data, expected)
        if is_written:
            await self._fail_points.reach(FailPoint.AFTER_TOPIC_WRITE)
        return is_written

    async def set_config(
        self, path: str, data: bytes, expected: int | None, announcement: CreateOp
    ) -> bool:
        """Write a configuration on the version that was read, and announce it; False on a conflict.

        expected: None to create it.

        Raises:
            NoNode: the configuration is gone, or a parent is.
            TooLarge: the content is too large for ZooKeeper.
        """
        change: MultiOp
        if expected is None:
            change, own_version = CreateOp(path, data), 0
        else:
            change, own_version = SetOp(path, data, expected), expected + 1
        await self._fail_points.reach(FailPoint.BEFORE_CONFIG_WRITE)
        try:
            await self._write_patiently([change, announcement])
        except (NodeExists, BadVersion):
            if await self._own_write(path, data, own_version) is None:
                return False
        await self._fail_points.reach(FailPoint.AFTER_CONFIG_WRITE)
        return True

    async def replace(self, path: str, data: bytes | None, expected: int) -> bool:
        """Write a znode, or delete it (None), on the version that was read; False on a conflict.

        A write of our own whose reply was lost is a conflict, too: the next read shows it.
        """
        change: MultiOp = DeleteOp(path, expected) if data is None else SetOp(path, data, expected)
        try:
            await self._write_patiently([change])
        except (NoNode, BadVersion):
            return False
        except NotEmpty:
            self._tell_children(path)
        return True

    def _tell_children(self, path: str) -> None:
        """Trace a znode that cannot be deleted, since others created children below it."""
        what = "it should go, and has children"
        self._trace.emit(EventKind.BAD_INPUT_MET, where=path, what=what)

    # ------------------------------------------------------------ partition states

    async def set_leadership(
        self,
        partition: TopicPartition,
        leadership: PartitionLeadership,
        expected: PartitionEpoch,
    ) -> PartitionEpoch | None:
        """Write the state znode on the version that was read; None when it met another one."""
        change = _setting(partition, leadership, expected)
        await self._fail_points.reach(FailPoint.BEFORE_STATE_WRITE)
        try:
            (stat,) = await self._write_patiently([change])
        except NoNode:
            stat = None
        except BadVersion:
            stat = await self._own_write(change.path, change.data, expected + 1)
        if stat is None:
            self._conflicted(partition, change.path)
            return None
        await self._fail_points.reach(FailPoint.AFTER_STATE_WRITE)
        return PartitionEpoch(stat.node_version)

    async def set_leaderships(
        self, changes: Sequence[tuple[TopicPartition, PartitionLeadership, PartitionEpoch]]
    ) -> list[PartitionEpoch | None]:
        """Write many state znodes with few writes; return for each the same as set_leadership."""
        by_path = {znodes.partition_state_path(change[0]): change for change in changes}
        written: dict[TopicPartition, PartitionEpoch | None] = {}
        for operations in multis([_setting(*change)] for change in changes):
            named = [by_path[operation.path] for operation in operations]
            await self._fail_points.reach(FailPoint.BEFORE_STATE_WRITE)
            try:
                stats = await self._write_patiently(operations)
            except (NoNode, BadVersion):
                # One met another version, perhaps of our own write whose reply was lost.
                alone = await self.each(named, lambda change: self.set_leadership(*change))
                written.update(zip((change[0] for change in named), alone, strict=True))
                continue
            await self._fail_points.reach(FailPoint.AFTER_STATE_WRITE)
            for (partition, _, _), stat in zip(named, stats, strict=True):
                written[partition] = None if stat is None else PartitionEpoch(stat.node_version)
        return [written[partition] for partition, _, _ in changes]

    async def create_leadership(
        self, partition: TopicPartition, leadership: PartitionLeadership
    ) -> PartitionEpoch | None:
        """Create the state znode and its parents; None when it exists or its topic is gone."""
        path = znodes.partition_state_path(partition)
        data = znodes.encode_partition_state(leadership)
        await self._fail_points.reach(FailPoint.BEFORE_STATE_WRITE)
        try:
            await self.create(znodes.partitions_path(partition.topic), b"")
            await self.create(znodes.partition_path(partition), b"")
            is_created = await self.create(path, data)
        except NoNode:
            is_created = False
        if is_created or await self._own_write(path, data, 0) is not None:
            await self._fail_points.reach(FailPoint.AFTER_STATE_WRITE)
            return PartitionEpoch(0)
        self._conflicted(partition, path)
        return None

    async def create_leaderships(
        self, first: Sequence[tuple[TopicPartition, PartitionLeadership]]
    ) -> list[PartitionEpoch | None]:
        """Create many state znodes with few writes; return for each as create_leadership does."""

        async def create_parent(topic: str) -> None:
            with suppress(NoNode):  # the topic is gone: its states cannot be created either
                await self.create(znodes.partitions_path(topic), b"")

        await self.each(dict.fromkeys(partition.topic for partition, _ in first), create_parent)
        written: dict[TopicPartition, PartitionEpoch | None] = {}
        by_path = {znodes.partition_path(partition): partition for partition, _ in first}
        leaderships = dict(first)
        for operations in multis(_creations(partition, at) for partition, at in first):
            named = [by_path[op.path] for op in operations if op.path in by_path]
            await self._fail_points.reach(FailPoint.BEFORE_STATE_WRITE)
            try:
                await self._write_patiently(operations)
            except (NodeExists, NoNode):
                # Some exist, perhaps our own whose reply was lost, or their topic is gone.
                alone = await self.each(
                    named, lambda each: self.create_leadership(each, leaderships[each])
                )
                written.update(zip(named, alone, strict=True))
                continue
            await self._fail_points.reach(FailPoint.AFTER_STATE_WRITE)
            written.update(dict.fromkeys(named, PartitionEpoch(0)))
        return [written[partition] for partition, _ in first]

    async def _own_write(self, path: str, data: bytes, node_version: int) -> Stat | None:
        """Return the znode's metadata if it has the content of our write whose reply was lost."""
        found = await self.get(path)
        if found is None or found[0] != data or found[1].node_version != node_version:
            return None
        return found[1]

    def _conflicted(self, partition: TopicPartition, path: str) -> None:
        self._trace.emit(
            EventKind.WRITE_CONFLICTED,
            topic=partition.topic,
            partition=partition.partition,
            path=path,
        )


def _setting(
    partition: TopicPartition, leadership: PartitionLeadership, expected: PartitionEpoch
) -> SetOp:
    path = znodes.partition_state_path(partition)
    return SetOp(path, znodes.encode_partition_state(leadership), expected)


def _creations(partition: TopicPartition, leadership: PartitionLeadership) -> list[MultiOp]:
    return [
        CreateOp(znodes.partition_path(partition), b""),
        CreateOp(znodes.partition_state_path(partition), znodes.encode_partition_state(leadership)),
    ]
