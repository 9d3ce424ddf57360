"""Writes proposed ISRs: through the controller, or by the leader's own conditional write.

One writer per broker, one request in flight; a partition waits here at most once, since it makes
no second proposal while one is open. Until an outcome is known the partition computes its high
watermark over the maximal ISR (KIP-497), in both ways.
Source: docs/explanation/replication.md, "ISR"; KAFKA-1382; docs/explanation/presets.md.
"""

from __future__ import annotations

from typing import Protocol

from highwater_broker.controller_client import ControllerClient
from highwater_broker.current_session import CurrentSession
from highwater_broker.isr_change_notifier import IsrChangeNotifier
from highwater_broker.logic.isr import AfterConflict, after_conflict
from highwater_broker.partition_context import ProposingPartition
from highwater_broker.roles import IsrProposal
from highwater_broker.settings import BrokerSettings
from highwater_core.check import check
from highwater_core.config import IsrWrite, Toggles
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import BrokerEpoch, NodeId, PartitionEpoch, TopicPartition
from highwater_core.messages import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
)
from highwater_core.ports import (
    BadVersion,
    CallFailed,
    Coordination,
    CoordinationError,
    NoNode,
)
from highwater_core.runtime import Queue, Runtime, TimedOut
from highwater_core.znodes import (
    MalformedZnode,
    PartitionLeadership,
    decode_partition_state,
    encode_partition_state,
    partition_state_path,
)

RETRY_MS = 100
REFUSED_RETRY_MS = 1_000
"""How long after a refusal that a command should follow the controller is asked again."""
MAX_PARTITIONS_PER_REQUEST = 1_000

Pending = tuple[ProposingPartition, IsrProposal]


class IsrWriter(Protocol):
    """Takes a partition that has just made a proposal; run() is its task."""

    def submit(self, partition: ProposingPartition) -> None: ...

    async def run(self) -> None: ...


class _ProposalQueue:
    """Proposals in the order in which they were made; refused ones come again after a while."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._queue: Queue[Pending] = runtime.queue()
        self._refused: list[tuple[int, Pending]] = []
        """Each with the time at which it is due, in this order."""

    def put(self, partition: ProposingPartition) -> None:
        proposal = partition.proposal()
        check(proposal is not None, f"{partition.topic_partition} was submitted without proposal")
        if proposal is not None:
            self._queue.put((partition, proposal))

    def put_back(self, batch: list[Pending]) -> None:
        for pending in batch:
            self._queue.put(pending)

    def put_refused(self, pending: Pending) -> None:
        """Put it back after REFUSED_RETRY_MS, if it is still pending then."""
        self._refused.append((self._runtime.now_ms() + REFUSED_RETRY_MS, pending))

    async def get_batch(self, limit: int) -> list[Pending]:
        """Return at least one proposal that is still pending, with the other waiting ones."""
        batch: list[Pending] = []
        while not batch:
            try:
                batch = _wanted([await self._queue.get(self._until_due_ms())])
            except TimedOut:
                continue
        while len(self._queue) > 0 and len(batch) < limit:
            batch.extend(_wanted([await self._queue.get()]))
        return batch

    def _until_due_ms(self) -> int | None:
        """Put back what is due; return how long until the next is due, None where none waits."""
        now_ms = self._runtime.now_ms()
        self._refused = [each for each in self._refused if _wanted([each[1]])]
        self.put_back([pending for due_ms, pending in self._refused if due_ms <= now_ms])
        self._refused = [each for each in self._refused if each[0] > now_ms]
        return self._refused[0][0] - now_ms if self._refused else None


def _wanted(batch: list[Pending]) -> list[Pending]:
    """Return the proposals that their partitions still have pending."""
    return [(partition, each) for partition, each in batch if partition.proposal() is each]


async def read_leadership(
    session: Coordination, topic_partition: TopicPartition
) -> tuple[PartitionLeadership, PartitionEpoch]:
    """Return the partition's leadership from its state znode.

    Raises:
        CoordinationError, MalformedZnode: it cannot be read.
    """
    path = partition_state_path(topic_partition)
    data, stat = await session.get(path)
    return decode_partition_state(data, path), PartitionEpoch(stat.node_version)


# ---------------------------------------------------------------- through the controller


class AlterPartitionWriter:
    """Asks the controller (KIP-497), many partitions in one request."""

    def __init__(
        self,
        settings: BrokerSettings,
        runtime: Runtime,
        controller: ControllerClient,
        session: CurrentSession,
        registration: RegistrationView,
        fail_points: FailPoints,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._controller = controller
        self._session = session
        self._registration = registration
        self._fail_points = fail_points
        self._queue = _ProposalQueue(runtime)

    def submit(self, partition: ProposingPartition) -> None:
        self._queue.put(partition)

    async def run(self) -> None:
        while True:
            batch = await self._queue.get_batch(MAX_PARTITIONS_PER_REQUEST)
            unresolved = await self._write(batch)
            if unresolved:
                self._queue.put_back(unresolved)
                await self._runtime.sleep(RETRY_MS)

    async def _write(self, batch: list[Pending]) -> list[Pending]:
        """Send one request; return the proposals whose outcome is still unknown.

        Those that were refused come again after a while, unless a command replaces the role.
        """
        await self._fail_points.reach(FailPoint.BEFORE_ISR_WRITE)
        batch = _wanted(batch)
        if not batch:
            return []
        request = AlterPartitionRequest(
            broker_id=self._settings.broker_id,
            broker_epoch=self._registration.broker_epoch,
            partitions=tuple(self._item(partition, proposal) for partition, proposal in batch),
        )
        try:
            response = await self._controller.call(
                request, AlterPartitionResponse, self._settings.alter_partition_timeout_ms
            )
        except CallFailed:
            return batch
        if response.error is not ErrorCode.NONE:
            # Stale broker epoch: a new registration is on its way; else a controller in trouble.
            return batch
        await self._fail_points.reach(FailPoint.AFTER_ISR_WRITE)
        results = {result.topic_partition: result for result in response.results}
        unresolved: list[Pending] = []
        for partition, proposal in _wanted(batch):
            result = results.get(partition.topic_partition)
            if result is None or not await self._settle(partition, proposal, result):
                unresolved.append((partition, proposal))
        return unresolved

    def _item(self, partition: ProposingPartition, proposal: IsrProposal) -> AlterPartitionItem:
        own_id, own_epoch = self._settings.broker_id, self._registration.broker_epoch
        return AlterPartitionItem(
            topic_partition=partition.topic_partition,
            leader_epoch=proposal.leader_epoch,
            new_isr=tuple(
                type(member)(own_id, own_epoch) if member.broker_id == own_id else member
                for member in proposal.members
            ),
            partition_epoch=proposal.partition_epoch,
            topic_id=partition.topic_id,
        )

    async def _settle(
        self, partition: ProposingPartition, proposal: IsrProposal, result: AlterPartitionResult
    ) -> bool:
        """Apply the controller's answer; return whether the proposal is known to be written or not.

        A refusal says that the controller has a newer state: its next command replaces the role.
        Until then the proposal stays open, and the high watermark waits for the maximal ISR. The
        controller is asked again after a while: one that was deposed may have said so from memory.
        """
        match result.error:
            case ErrorCode.NONE:
                if result.leader_epoch == proposal.leader_epoch:
                    partition.adopt_isr(proposal, result.isr, result.partition_epoch, result.elr)
                else:
                    self._queue.put_refused((partition, proposal))
                return True
            case ErrorCode.INELIGIBLE_REPLICA:
                partition.withdraw_proposal(proposal, ineligible=True)
                return True
            case ErrorCode.INVALID_UPDATE_VERSION:
                return await self._reread(partition, proposal)
            case (
                ErrorCode.FENCED_LEADER_EPOCH
                | ErrorCode.NEW_LEADER_ELECTED
                | ErrorCode.UNKNOWN_TOPIC_ID
                | ErrorCode.INCONSISTENT_TOPIC_ID
                | ErrorCode.NOT_LEADER_OR_FOLLOWER
                | ErrorCode.INVALID_REQUEST
            ):
                partition.trace(
                    EventKind.REQUEST_REFUSED, request="AlterPartition", error=result.error.name
                )
                self._queue.put_refused((partition, proposal))
                return True
            case _:
                # Also a partition whose state znode the controller could not read: once it is
                # repaired, no new epoch comes.
                return False

    async def _reread(self, partition: ProposingPartition, proposal: IsrProposal) -> bool:
        """Adopt the written ISR if it is of this leadership (an answer was lost: KAFKA-1382)."""
        try:
            written, version = await read_leadership(self._session.get(), partition.topic_partition)
        except (CoordinationError, MalformedZnode):
            return False
        if (written.leader, written.leader_epoch) == (
            self._settings.broker_id,
            proposal.leader_epoch,
        ):
            partition.adopt_isr(proposal, written.isr, version, written.elr)
        else:
            self._queue.put_refused((partition, proposal))
        return True


class RegistrationView(Protocol):
    """The ISR writer's interface to the broker's registration."""

    @property
    def broker_epoch(self) -> BrokerEpoch: ...


# ---------------------------------------------------------------- by the leader itself


class IsrListener(Protocol):
    """Gets a call for each ISR that this broker itself has written into ZooKeeper."""

    def changed(self, topic_partition: TopicPartition) -> None: ...


class ConditionalWriter:
    """Writes the state znode itself, on the version that the leader knows (V3)."""

    def __init__(
        self,
        broker_id: NodeId,
        runtime: Runtime,
        session: CurrentSession,
        notifier: IsrListener,
        fail_points: FailPoints,
        *,
        adopts_own: bool = True,
    ) -> None:
        self._adopts_own = adopts_own
        self._broker_id = broker_id
        self._runtime = runtime
        self._session = session
        self._notifier = notifier
        self._fail_points = fail_points
        self._queue = _ProposalQueue(runtime)
        self._reported: dict[TopicPartition, IsrProposal] = {}
        """By partition: the last proposal for which a damaged state znode was traced."""

    def submit(self, partition: ProposingPartition) -> None:
        self._queue.put(partition)

    async def run(self) -> None:
        while True:
            batch = await self._queue.get_batch(1)
            if not await self._write(*batch[0]):
                self._queue.put_back(batch)  # behind the others, whose znodes may be readable
                await self._runtime.sleep(RETRY_MS)

    async def _write(self, partition: ProposingPartition, proposal: IsrProposal) -> bool:
        """Return False when the outcome is unknown: the same write is then tried again."""
        await self._fail_points.reach(FailPoint.BEFORE_ISR_WRITE)
        if partition.proposal() is not proposal:
            return True
        leadership = PartitionLeadership(
            leader=self._broker_id,
            leader_epoch=proposal.leader_epoch,
            controller_epoch=partition.controller_epoch,
            isr=proposal.isr,
        )
        try:
            stat = await self._session.get().set(
                partition_state_path(partition.topic_partition),
                encode_partition_state(leadership),
                proposal.partition_epoch,
            )
        except BadVersion:
            return await self._reread(partition, proposal, leadership)
        except NoNode:
            partition.withdraw_proposal(proposal)
            return True
        except CoordinationError:
            return False
        await self._fail_points.reach(FailPoint.AFTER_ISR_WRITE)
        self._adopt(partition, proposal, PartitionEpoch(stat.node_version))
        return True

    async def _reread(
        self, partition: ProposingPartition, proposal: IsrProposal, mine: PartitionLeadership
    ) -> bool:
        """Read what is written, and settle the proposal by it; False where it cannot be read.

        One that stays open is replaced by the command after the election.
        """
        try:
            written, version = await read_leadership(self._session.get(), partition.topic_partition)
        except NoNode:
            partition.withdraw_proposal(proposal)
            return True
        except MalformedZnode as fault:  # it may have been written before the znode was damaged
            self._report_damage(partition, proposal, fault)
            return False
        except CoordinationError:
            return False
        partition.trace(
            EventKind.WRITE_CONFLICTED, path=partition_state_path(partition.topic_partition)
        )
        match after_conflict(written, mine, adopts_own=self._adopts_own):
            case AfterConflict.ADOPT:
                self._adopt(partition, proposal, version)
            case AfterConflict.WITHDRAW:
                partition.withdraw_proposal(proposal)
            case AfterConflict.KEEP_OPEN:
                pass  # the high watermark waits for the maximal ISR
        return True

    def _report_damage(
        self, partition: ProposingPartition, proposal: IsrProposal, fault: MalformedZnode
    ) -> None:
        """Trace the damaged znode once for each proposal."""
        if self._reported.get(partition.topic_partition) is not proposal:
            self._reported[partition.topic_partition] = proposal
            path = partition_state_path(partition.topic_partition)
            partition.trace(EventKind.BAD_INPUT_MET, where=path, what=str(fault))

    def _adopt(
        self, partition: ProposingPartition, proposal: IsrProposal, partition_epoch: PartitionEpoch
    ) -> None:
        if partition.adopt_isr(proposal, proposal.isr, partition_epoch, elr=()):
            self._notifier.changed(partition.topic_partition)


def make_isr_writer(
    settings: BrokerSettings,
    toggles: Toggles,
    runtime: Runtime,
    controller: ControllerClient,
    session: CurrentSession,
    registration: RegistrationView,
    notifier: IsrChangeNotifier,
    fail_points: FailPoints,
) -> IsrWriter:
    """Return the writer for the toggles."""
    match toggles.isr_write:
        case IsrWrite.ALTER_PARTITION:
            return AlterPartitionWriter(
                settings, runtime, controller, session, registration, fail_points
            )
        case IsrWrite.LEADER_CONDITIONAL_WRITE:
            return ConditionalWriter(
                settings.broker_id,
                runtime,
                session,
                notifier,
                fail_points,
                adopts_own=toggles.adopt_own_isr_write,
            )
