"""Takes groups from generation to generation: members join, sync, leave and expire.

Each step runs without waiting. Only an append to the log waits, in a task of its own, so that it
goes on when the client's connection ends.
Source: Kafka's GroupCoordinator; KIP-134 (first rebalance put off), KIP-345, KIP-389, KIP-394,
KIP-814 (a leader that was restarted does not assign).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from highwater_broker.coordinator.answers import (
    assignment_answer,
    generation_answer,
    store_error,
    sync_error,
)
from highwater_broker.coordinator.group import Group, Member
from highwater_broker.coordinator.group_trace import GroupTrace
from highwater_broker.coordinator.groups_and_log import Appends
from highwater_broker.coordinator.logic.group_states import (
    HEARTBEAT_ANSWERS,
    REBALANCES_FROM,
    GroupState,
    next_generation,
)
from highwater_broker.coordinator.logic.joining import JoinStep, decide_join
from highwater_broker.coordinator.settings import GroupSettings
from highwater_broker.coordinator.timers import Timers
from highwater_core.errors import ErrorCode
from highwater_core.ports import Ports
from highwater_core.runtime import Future
from highwater_wire.kafka.group_messages import (
    NO_MEMBER_ID,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
    SyncGroupResponse,
)

FIRST_JOIN_VERSION_THAT_SKIPS_ASSIGNMENT = 9
LEAST_RETRY_MS = 1_000
"""A rebalance that finds no leader is tried again after the members' timeout, or this."""
NAME_MAX_BYTES = 32_000
"""Of a client's or instance's name in a member id, which has 32,767 bytes at most."""


class Rebalancing:
    """Changes the members and generations of groups, and answers their requests."""

    def __init__(
        self, settings: GroupSettings, ports: Ports, appends: Appends, timers: Timers
    ) -> None:
        self._settings = settings
        self._runtime = ports.runtime
        self._trace = GroupTrace(ports.trace)
        self._rng = ports.rng.stream("member ids")
        self._appends = appends
        self._timers = timers
        self._scope = ports.runtime.scope("groups")

    # ------------------------------------------------------------ JoinGroup

    def join(
        self, group: Group, request: JoinGroupRequest, answer: Future[JoinGroupResponse]
    ) -> None:
        """Carry out a JoinGroup; it is answered now, or when the next generation begins."""
        step, error = decide_join(group.join_facts(request, self._settings.max_size))
        match step:
            case JoinStep.REFUSE:
                self._refuse(group, request, error, answer)
            case JoinStep.SEND_BACK:
                self._send_back(group, request, answer)
            case JoinStep.ADD:
                self._add(group, request, answer)
            case JoinStep.REPLACE:
                self._replace(group, request, answer)
            case JoinStep.UPDATE:
                member = group.members[request.member_id]
                _update(member, request, answer)
                self._rebalance(group, f"member {member.member_id} joins again")
            case JoinStep.REPEAT:
                answer.set(generation_answer(group, group.members[request.member_id]))

    def _refuse(
        self,
        group: Group,
        request: JoinGroupRequest,
        error: ErrorCode,
        answer: Future[JoinGroupResponse],
    ) -> None:
        told = request.member_id
        if error is ErrorCode.GROUP_MAX_SIZE_REACHED:
            self._forget(group, request.member_id)
            told = NO_MEMBER_ID
            self._complete_if_all_joined(group)
        answer.set(JoinGroupResponse(error, told))

    def _send_back(
        self, group: Group, request: JoinGroupRequest, answer: Future[JoinGroupResponse]
    ) -> None:
        member_id = self._new_member_id(request)
        group.pending_ids[member_id] = None
        self._expect(group, member_id, request.session_timeout_ms)
        answer.set(JoinGroupResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id))

    def _add(
        self, group: Group, request: JoinGroupRequest, answer: Future[JoinGroupResponse]
    ) -> None:
        member = Member(
            member_id=request.member_id or self._new_member_id(request),
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            joining=answer,
        )
        if _is_first_rebalance(group):
            group.has_new_member = True
        group.add(member, request.protocol_type)
        self._expect(group, member.member_id, self._settings.new_member_join_timeout_ms)
        self._rebalance(group, f"member {member.member_id} joins")

    def _replace(
        self, group: Group, request: JoinGroupRequest, answer: Future[JoinGroupResponse]
    ) -> None:
        """Let a restarted static member take its former place, and fence the former process."""
        old_id = group.static_members[str(request.group_instance_id)]
        member, old_leader = group.members[old_id], group.leader
        fenced = ErrorCode.FENCED_INSTANCE_ID
        member.answer_join(JoinGroupResponse(fenced, old_id))
        member.answer_sync(SyncGroupResponse(fenced))
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._timers.cancel(_member_key(group, old_id))
        group.rename(member, self._new_member_id(request))
        member.is_new = False
        _update(member, request, answer)
        self._expect(group, member.member_id, member.session_timeout_ms)
        if group.state is GroupState.STABLE and group.selected_protocol() == group.protocol:
            self._scope.spawn(
                "GroupStore",
                self._store_replaced(group, member, request, answer, old_id, old_leader, before),
            )
        else:
            self._rebalance(group, f"static member {member.member_id} joins again")

    async def _store_replaced(
        self,
        group: Group,
        member: Member,
        request: JoinGroupRequest,
        answer: Future[JoinGroupResponse],
        old_id: str,
        old_leader: str | None,
        before: tuple[tuple[object, ...], int, int],
    ) -> None:
        """Store a static member's new id, without a rebalance."""
        if member.joining is not answer or group.state is not GroupState.STABLE:
            return
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        error = await self._appends.append(group.group_id, (group.stored(assignments),))
        if member.joining is not answer or group.state is not GroupState.STABLE:
            return  # a rebalance began meanwhile, and will answer the member
        if error is not ErrorCode.NONE:
            self._timers.cancel(_member_key(group, member.member_id))
            group.rename(member, old_id)
            member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before  # type: ignore[assignment]
            self._expect(group, old_id, member.session_timeout_ms)
            member.answer_join(JoinGroupResponse(store_error(error), NO_MEMBER_ID))
            return
        told = generation_answer(group, member)
        if request.request_version >= FIRST_JOIN_VERSION_THAT_SKIPS_ASSIGNMENT:
            is_leader = group.leader == member.member_id
            told = replace(told, skip_assignment=is_leader)
        else:
            # A restarted leader must not assign anew, so its answer names the former id as leader.
            told = replace(told, leader=old_leader or "", members=())
        member.answer_join(told)
        self._expect(group, member.member_id, member.session_timeout_ms)

    # ------------------------------------------------------------ a rebalance

    def _rebalance(self, group: Group, reason: str) -> None:
        """Begin a rebalance, or complete the current one if all members have joined."""
        if group.state in REBALANCES_FROM:
            self._prepare(group, reason)
        else:
            self._complete_if_all_joined(group)

    def _prepare(self, group: Group, reason: str) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._end_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._timers.cancel(_sync_key(group))
        is_first = group.state is GroupState.EMPTY
        self._move(group, GroupState.PREPARING_REBALANCE, reason)
        if is_first:
            # More members are likely to join soon after the first: wait for them.
            delay_ms = self._settings.initial_rebalance_delay_ms
            left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._put_off(group, delay_ms, left_ms)
        elif group.have_all_joined():
            self._complete(group)
        else:
            self._complete_after(group, group.rebalance_timeout_ms)

    def _put_off(self, group: Group, delay_ms: int, left_ms: int) -> None:
        """Complete the first rebalance after the delay; a member that joins puts it off again."""
        group.has_new_member = False

        def decide() -> None:
            if group.has_new_member and left_ms:
                next_ms = min(self._settings.initial_rebalance_delay_ms, left_ms)
                self._put_off(group, next_ms, max(left_ms - delay_ms, 0))
            else:
                self._complete(group)

        self._timers.set(_join_key(group), delay_ms, decide)

    def _complete_after(self, group: Group, delay_ms: int) -> None:
        self._timers.set(_join_key(group), delay_ms, lambda: self._complete(group))

    def _complete_if_all_joined(self, group: Group) -> None:
        """Complete the rebalance if all have joined, unless it is the first, which is put off."""
        if group.state is not GroupState.PREPARING_REBALANCE or _is_first_rebalance(group):
            return
        if group.have_all_joined():
            self._complete(group)

    def _complete(self, group: Group) -> None:
        """Begin the next generation: with all that have joined, and with every static member."""
        self._timers.cancel(_join_key(group))
        late = [
            each.member_id
            for each in group.members.values()
            if each.joining is None and each.group_instance_id is None
        ]
        for member_id in late:
            self._forget(group, member_id)
        if group.members and not group.elect_joined_leader():
            self._complete_after(group, max(group.rebalance_timeout_ms, LEAST_RETRY_MS))
            return
        group.generation = next_generation(group.generation)
        if not group.members:
            group.protocol = None
            self._move(group, GroupState.EMPTY, "no member is left")
            self._scope.spawn("GroupStore", self._store_empty(group))
            return
        group.protocol = group.selected_protocol()
        group.is_assigned = False
        self._move(group, GroupState.COMPLETING_REBALANCE, "members have joined")
        self._trace.generation_begun(group)
        for member in group.members.values():
            group.pending_syncs[member.member_id] = None
            self._expect(group, member.member_id, member.session_timeout_ms)
            if member.joining is not None:
                member.is_new = False
                member.answer_join(generation_answer(group, member))
        generation = group.generation
        self._timers.set(
            _sync_key(group),
            group.rebalance_timeout_ms,
            lambda: self._expire_syncs(group, generation),
        )

    async def _store_empty(self, group: Group) -> None:
        """Store the group without members. If that fails, stored members expire after a load."""
        if group.state is GroupState.EMPTY:
            error = await self._appends.append(group.group_id, (group.stored({}),))
            self._trace.stored(group, error)

    def _expire_syncs(self, group: Group, generation: int) -> None:
        """Remove the members that have not sent their SyncGroup, and rebalance without them."""
        if group.generation != generation or group.state not in (
            GroupState.COMPLETING_REBALANCE,
            GroupState.STABLE,
        ):
            return
        late = tuple(group.pending_syncs)
        for member_id in late:
            self._forget(group, member_id)
        if late:
            self._prepare(group, f"{len(late)} members did not sync in time")

    # ------------------------------------------------------------ SyncGroup

    def sync(
        self, group: Group, request: SyncGroupRequest, answer: Future[SyncGroupResponse]
    ) -> None:
        """Answer with the member's assignment: now, or once the leader's is stored."""
        error = sync_error(group, request)
        if error is not ErrorCode.NONE:
            answer.set(SyncGroupResponse(error))
            return
        member = group.members[request.member_id]
        group.pending_syncs.pop(member.member_id, None)
        if not group.pending_syncs:
            self._timers.cancel(_sync_key(group))
        if group.state is GroupState.STABLE:
            self.seen(group, member.member_id)
            answer.set(assignment_answer(group, member))
            return
        # A second SyncGroup of one member: it has lost its connection, or has not waited.
        member.answer_sync(SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS))
        member.syncing = answer
        if group.leader == member.member_id and not group.is_assigned:
            group.is_assigned = True
            assignments = {each.member_id: each.assignment for each in request.assignments}
            self._scope.spawn(
                "GroupStore", self._store_assignment(group, group.generation, assignments)
            )

    async def _store_assignment(
        self, group: Group, generation: int, assignments: Mapping[str, bytes]
    ) -> None:
        """Store the generation with its assignments, and answer the members after that.

        If a rebalance begins meanwhile, the members are answered by it instead.
        """

        def is_over() -> bool:
            is_completing = group.state is GroupState.COMPLETING_REBALANCE
            return not is_completing or group.generation != generation

        if is_over():
            return
        error = await self._appends.append(group.group_id, (group.stored(assignments),))
        if is_over():
            return
        if error is not ErrorCode.NONE:
            self._trace.stored(group, error)
            self._end_syncs(group, store_error(error))
            self._prepare(group, f"{error.name} as the assignment was stored")
            return
        self._move(group, GroupState.STABLE, "the assignment is stored")
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.answer_sync(assignment_answer(group, member)):
                self._expect(group, member.member_id, member.session_timeout_ms)

    def _end_syncs(self, group: Group, error: ErrorCode) -> None:
        """Answer every waiting SyncGroup with the error, and forget all assignments."""
        for member in group.members.values():
            member.assignment = b""
            if member.answer_sync(SyncGroupResponse(error)):
                self._expect(group, member.member_id, member.session_timeout_ms)

    # ------------------------------------------------------------ Heartbeat, LeaveGroup

    def heartbeat(self, group: Group, request: HeartbeatRequest) -> ErrorCode:
        """Return the heartbeat's error; a known member's session begins anew."""
        error = group.identity_error(request.member_id, request.group_instance_id)
        if group.state is GroupState.DEAD:
            return HEARTBEAT_ANSWERS[group.state]
        if error is not ErrorCode.NONE:
            return error
        if request.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.seen(group, request.member_id)
        return HEARTBEAT_ANSWERS[group.state]

    def seen(self, group: Group, member_id: str) -> None:
        """Begin the member's session timeout anew."""
        member = group.members.get(member_id)
        if member is not None:
            self._expect(group, member_id, member.session_timeout_ms)

    def leave(self, group: Group, leaving: tuple[LeavingMember, ...]) -> tuple[LeftMember, ...]:
        """Remove the members, return each one's error, and rebalance if the group had any."""
        size = len(group.members)
        left = tuple(
            LeftMember(each.member_id, each.group_instance_id, self._leave(group, each))
            for each in leaving
        )
        if group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(group)
        elif len(group.members) < size:
            self._prepare(group, "members left")
        return left

    def _leave(self, group: Group, leaving: LeavingMember) -> ErrorCode:
        member_id = leaving.member_id
        if member_id in group.pending_ids:
            self._forget(group, member_id)
            return ErrorCode.NONE
        if member_id == NO_MEMBER_ID and leaving.group_instance_id is not None:
            # An administrator who removes a static member does not know its current member id.
            member_id = group.static_members.get(leaving.group_instance_id, NO_MEMBER_ID)
        error = group.identity_error(member_id, leaving.group_instance_id)
        if error is ErrorCode.NONE:
            self._forget(group, member_id)
        return error

    # ------------------------------------------------------------ sessions

    def expect_all(self, group: Group) -> None:
        """Begin a session timeout for each member of a group that was taken over."""
        for member in group.members.values():
            self._expect(group, member.member_id, member.session_timeout_ms)
        if len(group.members) > self._settings.max_size:
            self._prepare(group, "it has more members than it may have")

    def _expect(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """Remove the member after the time-out, unless it is heard from before."""
        self._timers.set(
            _member_key(group, member_id), timeout_ms, lambda: self._expire(group, member_id)
        )

    def _expire(self, group: Group, member_id: str) -> None:
        if member_id in group.pending_ids:
            self._forget(group, member_id)
            self._complete_if_all_joined(group)
            return
        member = group.members.get(member_id)
        if member is None or member.is_alive_for_sure():
            return
        self._forget(group, member_id)
        self._trace.member_expired(group, member_id)
        self._rebalance(group, f"member {member_id} was not heard of in time")

    def _forget(self, group: Group, member_id: str) -> None:
        """Remove a member or pending id; its waiting requests are answered UNKNOWN_MEMBER_ID."""
        self._timers.cancel(_member_key(group, member_id))
        member = group.remove(member_id)
        if member is not None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            member.answer_join(JoinGroupResponse(unknown, NO_MEMBER_ID))
            member.answer_sync(SyncGroupResponse(unknown))

    def bury(self, group: Group, error: ErrorCode) -> None:
        """End the group here: cancel its timers, and answer waiting requests with the error."""
        for member in group.members.values():
            self._timers.cancel(_member_key(group, member.member_id))
            member.answer_join(JoinGroupResponse(error, member.member_id))
            member.answer_sync(SyncGroupResponse(error))
        for member_id in group.pending_ids:
            self._timers.cancel(_member_key(group, member_id))
        group.pending_ids.clear()
        self._timers.cancel(_join_key(group))
        self._timers.cancel(_sync_key(group))
        self._move(group, GroupState.DEAD, error.name)

    # ------------------------------------------------------------ helpers

    def _move(self, group: Group, state: GroupState, reason: str) -> None:
        before = group.state
        group.move(state, self._runtime.wall_clock_ms())
        self._trace.state_changed(group, before, reason)

    def _new_member_id(self, request: JoinGroupRequest) -> str:
        """Return a new member id: the instance id or client id, and a random part.

        A long name is cut: an id that fits no answer would be cut there, and be unknown after it.
        """
        name = request.client_id if request.group_instance_id is None else request.group_instance_id
        kept = name.encode()[:NAME_MAX_BYTES].decode(errors="ignore")
        return f"{kept}-{self._rng.hex_id()}"


def _join_key(group: Group) -> tuple[str, ...]:
    return ("join", group.group_id)


def _sync_key(group: Group) -> tuple[str, ...]:
    return ("sync", group.group_id)


def _member_key(group: Group, member_id: str) -> tuple[str, ...]:
    return ("member", group.group_id, member_id)


def _is_first_rebalance(group: Group) -> bool:
    return (
        group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY
    )


def _update(member: Member, request: JoinGroupRequest, answer: Future[JoinGroupResponse]) -> None:
    """Take the request's settings, and keep its answer; an older JoinGroup is to be sent again."""
    member.answer_join(JoinGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    member.joining = answer
    member.protocols = request.protocols
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
