"""The group coordinator: the groups of the offsets partitions that this broker leads.

It finds a request's group and hands the request on: to rebalancing.py for members, to
committing.py for offsets. Work that waits for the log runs in the coordinator's own tasks, so
that a client that disconnects does not stop it halfway.
Source: Kafka's GroupCoordinator, handleGroupImmigration and handleGroupEmigration.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from highwater_broker.coordinator.committing import (
    Committing,
    commit_refusal,
    fetched,
    offset_delete_error,
    read_by,
)
from highwater_broker.coordinator.group import Group, loaded_group
from highwater_broker.coordinator.groups_and_log import Appends, Owned
from highwater_broker.coordinator.logic.group_states import DELETE_ANSWERS, GroupState
from highwater_broker.coordinator.rebalancing import Rebalancing
from highwater_broker.coordinator.settings import GroupSettings
from highwater_broker.coordinator.stored import (
    GroupForgotten,
    GroupRecord,
    LoadedGroup,
    OffsetForgotten,
)
from highwater_broker.coordinator.timers import Timers
from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_core.ports import Ports
from highwater_core.runtime import Future
from highwater_wire.kafka.committed_messages import (
    CommittedPartition,
    FetchedGroup,
    GroupToFetch,
    OffsetCommitRequest,
    OffsetDeleteResponse,
    OffsetToCommit,
)
from highwater_wire.kafka.group_messages import (
    DescribedGroup,
    DescribedMember,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeftMember,
    ListedGroup,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

Answer = TypeVar("Answer")

GROUP_TYPE = "classic"
"""What ListGroups calls groups of this protocol, since there is another (KIP-848)."""
GROUP_ID_MAX_BYTES = 32_767
"""The longest id that a record of a group can keep; newer versions of requests take longer ones."""


class GroupCoordinator:
    """The groups that are coordinated here.

    Invariant: a group is in the table exactly while it is not dead. No group in the table belongs
    to an offsets partition that was given up.
    """

    def __init__(
        self,
        settings: GroupSettings,
        ports: Ports,
        appends: Appends,
        owned: Owned,
        partition_of: Callable[[str], int],
    ) -> None:
        """partition_of: returns a group's offsets partition; called only while it is known."""
        self._settings = settings
        self._runtime = ports.runtime
        self._owned = owned
        self._partition_of = partition_of
        self._timers = Timers(ports.runtime)
        self._rebalancing = Rebalancing(settings, ports, appends, self._timers)
        self._committing = Committing(settings, ports.runtime, appends)
        self._scope = ports.runtime.scope("group coordinator")
        self._groups: dict[str, Group] = {}
        self._dying: dict[str, Group] = {}
        """Groups whose tombstones are on their way: their ids are not in use until it is known
        whether the log has them."""

    def start(self) -> None:
        """Have timers called from now on."""
        self._timers.start(self._scope)

    def groups(self) -> tuple[Group, ...]:
        """Return all groups, by id."""
        return tuple(self._groups[group_id] for group_id in sorted(self._groups))

    # ------------------------------------------------------------ which groups are here

    def take_over(self, offsets_partition: int, groups: Mapping[str, LoadedGroup]) -> None:
        """Coordinate these groups from now on. groups: all groups in the partition's log.

        Two partitions' logs may have records of one group, where a log was damaged or restored: the
        group is that of the partition to which its id belongs.
        """
        for group_id, loaded in groups.items():
            other = self._groups.get(group_id)
            if other is not None:
                is_new = other.offsets_partition != offsets_partition
                check(is_new, "a group is taken over once")
                if self._partition_of(group_id) != offsets_partition:
                    continue
                self._rebalancing.bury(other, ErrorCode.NOT_COORDINATOR)
            group = loaded_group(group_id, offsets_partition, loaded)
            self._groups[group_id] = group
            self._rebalancing.expect_all(group)

    def resign(self, offsets_partition: int) -> None:
        """Stop coordinating the partition's groups; answer waiting requests NOT_COORDINATOR."""
        for group in tuple(self._dying.values()):
            if group.offsets_partition == offsets_partition:
                del self._dying[group.group_id]
        for group in self.groups():
            if group.offsets_partition == offsets_partition:
                del self._groups[group.group_id]
                self._rebalancing.bury(group, ErrorCode.NOT_COORDINATOR)

    def _made(self, group_id: str) -> Group:
        """Return the group, made if there is none."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = Group(group_id, self._partition_of(group_id))
        return group

    def _drop_if_unused(self, group: Group) -> None:
        """Forget the group if it has no records in the log and no member or pending id."""
        if group.is_unused() and self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]

    def _refusal(self, group_id: str) -> ErrorCode:
        """Return NONE, or the error for requests of members of this group."""
        return self.unowned(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    def unowned(self, group_id: str) -> ErrorCode:
        """Return NONE, or the error for all that would change the group; its id may be empty."""
        if len(group_id.encode()) > GROUP_ID_MAX_BYTES:
            return ErrorCode.INVALID_GROUP_ID
        error = self._owned.refusal(group_id)
        if error is ErrorCode.NONE and group_id in self._dying:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    # ------------------------------------------------------------ members

    async def join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        """Return the member's generation once that has begun, or an error."""
        refused = self._refusal(request.group_id)
        settings = self._settings
        if refused is not ErrorCode.NONE:
            return JoinGroupResponse(refused, request.member_id)
        if not (
            settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= settings.max_session_timeout_ms
        ):
            return JoinGroupResponse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        if request.member_id and request.group_id not in self._groups:
            return JoinGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        group = self._made(request.group_id)
        answer: Future[JoinGroupResponse] = self._runtime.future()
        self._rebalancing.join(group, request, answer)
        self._drop_if_unused(group)
        return await answer.wait()

    async def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """Return the member's assignment, once the leader's is stored.

        While the group is loaded: REBALANCE_IN_PROGRESS, after which all clients join again.
        """
        group, error = self._find(request.group_id)
        if group is None:
            is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)
        answer: Future[SyncGroupResponse] = self._runtime.future()
        self._rebalancing.sync(group, request, answer)
        return await answer.wait()

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Return NONE, or the error that makes the member join again.

        While the group is loaded NONE, whoever asks: sessions begin anew after that, and clients
        expect no COORDINATOR_LOAD_IN_PROGRESS here.
        """
        group, error = self._find(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        return error if group is None else self._rebalancing.heartbeat(group, request)

    def leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Return each member's error: NONE for a member that has left."""
        refused = self._refusal(request.group_id)
        if refused is not ErrorCode.NONE:
            return LeaveGroupResponse(refused)
        group = self._groups.get(request.group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            members = request.members
            return LeaveGroupResponse(
                ErrorCode.NONE,
                tuple(LeftMember(m.member_id, m.group_instance_id, unknown) for m in members),
            )
        return LeaveGroupResponse(ErrorCode.NONE, self._rebalancing.leave(group, request.members))

    def _find(self, group_id: str) -> tuple[Group | None, ErrorCode]:
        """Return the member's group, or the error if it may not be used."""
        refused = self._refusal(group_id)
        if refused is not ErrorCode.NONE:
            return None, refused
        return self._groups.get(group_id), ErrorCode.UNKNOWN_MEMBER_ID

    # ------------------------------------------------------------ offsets

    async def commit(
        self, request: OffsetCommitRequest, items: Sequence[OffsetToCommit]
    ) -> tuple[CommittedPartition, ...]:
        """Return each item's error. items: of partitions that exist."""
        return await self._begin("OffsetCommit", self._commit(request, items)).wait()

    async def _commit(
        self, request: OffsetCommitRequest, items: Sequence[OffsetToCommit]
    ) -> tuple[CommittedPartition, ...]:
        """Ordering: between the checks and the append nothing else runs."""
        error = self.unowned(request.group_id)  # the empty id, too, may have offsets
        if error is ErrorCode.NONE:
            error = commit_refusal(self._groups.get(request.group_id), request)
        if error is not ErrorCode.NONE:
            return tuple(CommittedPartition(each.topic, each.partition, error) for each in items)
        group = self._made(request.group_id)
        if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._rebalancing.seen(group, request.member_id)
        committed = await self._committing.commit(group, request, items)
        self._drop_if_unused(group)
        return committed

    def fetch(self, wanted: GroupToFetch) -> FetchedGroup:
        """Return the group's committed offsets. The empty group id may have some, too."""
        error = self._owned.refusal(wanted.group_id)
        if error is not ErrorCode.NONE:
            return FetchedGroup(wanted.group_id, error)
        group = self._groups.get(wanted.group_id)
        return FetchedGroup(wanted.group_id, ErrorCode.NONE, fetched(group, wanted.partitions))

    async def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> OffsetDeleteResponse:
        """Forget the offsets of partitions that no member of the group reads."""
        return await self._begin("OffsetDelete", self._delete_offsets(group_id, partitions)).wait()

    async def _delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> OffsetDeleteResponse:
        error = self._refusal(group_id)
        group = self._groups.get(group_id)
        if error is ErrorCode.NONE:
            error = offset_delete_error(group)
        if error is not ErrorCode.NONE or group is None:
            return OffsetDeleteResponse(error)
        is_read = read_by(group)
        error = await self._committing.forget(
            group, [each for each in partitions if not is_read(each.topic)]
        )
        subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        return OffsetDeleteResponse(
            error,
            tuple(
                CommittedPartition(*each, subscribed if is_read(each.topic) else ErrorCode.NONE)
                for each in partitions
            ),
        )

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget the offsets of these partitions: a later topic of that name has others.

        Ordering: the first tombstones are appended before this broker may know of such a topic; an
        offset in it that is committed before the last ones stays. Offsets in groups that are being
        loaded stay, and those whose tombstones the log does not take (as in Kafka).
        """
        deleted = frozenset(partitions)
        for group in self.groups():
            known = sorted(deleted & group.partitions_in_log())
            if known:
                self._scope.spawn("OffsetsOfDeleted", self._forget(group, known))

    async def _forget(self, group: Group, partitions: Sequence[TopicPartition]) -> None:
        await self._committing.forget(group, partitions)
        self._drop_if_unused(group)

    # ------------------------------------------------------------ for administrators

    def listed(self, states: Sequence[str], types: Sequence[str]) -> ListGroupsResponse:
        """Return the groups in one of these states and of one of these types; an empty filter: any.

        COORDINATOR_LOAD_IN_PROGRESS: a partition is still loading, so groups may be missing.
        """
        error = ErrorCode.NONE
        if self._owned.is_loading():
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        wanted = frozenset(state.strip().lower() for state in states)
        if types and GROUP_TYPE not in {name.strip().lower() for name in types}:
            return ListGroupsResponse(error)
        found = tuple(
            ListedGroup(each.group_id, each.protocol_type or "", each.state.value, GROUP_TYPE)
            for each in self.groups()
            if not wanted or each.state.value.lower() in wanted
        )
        return ListGroupsResponse(error, found)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return the group with its members. A group that does not exist is in state Dead."""
        error = self._owned.refusal(group_id)
        if error is not ErrorCode.NONE:
            return DescribedGroup(error, group_id)
        group = self._groups.get(group_id)
        if group is None:
            return DescribedGroup(ErrorCode.NONE, group_id, GroupState.DEAD.value)
        is_stable = group.state is GroupState.STABLE
        return DescribedGroup(
            ErrorCode.NONE,
            group_id,
            group.state.value,
            group.protocol_type or "",
            (group.protocol or "") if is_stable else "",
            tuple(
                DescribedMember(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    each.metadata(group.protocol) if is_stable else b"",
                    each.assignment if is_stable else b"",
                )
                for each in group.members.values()
            ),
        )

    async def delete(self, group_id: str) -> ErrorCode:
        """Delete a group without members, with its offsets."""
        (error,) = await self.delete_all((group_id,))
        return error

    async def delete_all(self, group_ids: Sequence[str]) -> list[ErrorCode]:
        """Delete these groups, and return each one's error."""
        deleting = [self._begin("GroupDelete", self._delete(group_id)) for group_id in group_ids]
        return [await each.wait() for each in deleting]

    async def _delete(self, group_id: str) -> ErrorCode:
        """Ordering: the group is dead first, so that nobody joins it while its tombstones are
        written. If they cannot be written the group comes back.
        """
        error = self.unowned(group_id)
        if error is not ErrorCode.NONE:
            return error
        group = self._groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else DELETE_ANSWERS[group.state]
        if error is not ErrorCode.NONE or group is None:
            return error
        del self._groups[group_id]
        state_since_ms = group.state_since_ms
        self._rebalancing.bury(group, ErrorCode.GROUP_ID_NOT_FOUND)
        tombstones: list[GroupRecord] = [
            OffsetForgotten(group_id, *each) for each in sorted(group.partitions_in_log())
        ]
        if group.generation > 0:  # else only its offsets are in the log
            tombstones.append(GroupForgotten(group_id))
        self._dying[group_id] = group
        error = await self._committing.append(group_id, tombstones)
        if self._dying.get(group_id) is group:
            del self._dying[group_id]
            if error is not ErrorCode.NONE:
                group.state, group.state_since_ms = GroupState.EMPTY, state_since_ms
                self._groups[group_id] = group
        return error

    # ------------------------------------------------------------ odd parts

    def _begin(self, name: str, work: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        """Begin work that goes on when its client disconnects; return its future result."""
        answer: Future[Answer] = self._runtime.future()

        async def run() -> None:
            answer.set(await work)

        self._scope.spawn(name, run())
        return answer
