"""One group: its members, its generation, its unanswered requests, and its committed offsets.

It decides nothing: logic/ decides, and rebalancing.py carries the decisions out on it.
Source: Kafka's GroupMetadata and MemberMetadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from highwater_broker.coordinator.logic.group_states import MOVES, GroupState
from highwater_broker.coordinator.logic.identity import identity_error
from highwater_broker.coordinator.logic.joining import JoinFacts, is_full
from highwater_broker.coordinator.logic.protocols import (
    CONSUMER_PROTOCOL_TYPE,
    select_protocol,
    subscribed_topics,
)
from highwater_broker.coordinator.stored import (
    GroupStored,
    LoadedGroup,
    MemberStored,
    OffsetCommitted,
)
from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_core.runtime import Future
from highwater_wire.kafka.group_messages import (
    GroupProtocol,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupResponse,
)

FIRST_JOIN_VERSION_WITH_KNOWN_IDS = 4
MAX_PENDING_IDS = 10_000
"""Ids that are given out at most and have not come back: who asks again and again without ever
joining costs no more. Not in Kafka."""


@dataclass(slots=True, eq=False)
class Member:
    """One member. Each of its waiting answers is None while no such request is unanswered."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """It has been in no generation yet, so it knows no id and can send no heartbeat."""
    joining: Future[JoinGroupResponse] | None = None
    syncing: Future[SyncGroupResponse] | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """Return its metadata for the protocol; empty if it does not know the protocol."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def answer_join(self, answer: JoinGroupResponse) -> None:
        """Answer its JoinGroup, if one waits."""
        waiting, self.joining = self.joining, None
        if waiting is not None:
            waiting.set(answer)

    def answer_sync(self, answer: SyncGroupResponse) -> bool:
        """Answer its SyncGroup, and return whether one waited."""
        waiting, self.syncing = self.syncing, None
        if waiting is not None:
            waiting.set(answer)
        return waiting is not None

    def is_alive_for_sure(self) -> bool:
        """Return whether it has an unanswered request: then it needs no heartbeat."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


@dataclass(slots=True, eq=False)
class Group:
    """One group.

    Invariant: states CompletingRebalance and Stable have members and a protocol;
    PreparingRebalance may have members and has no protocol; Empty and Dead have neither.
    """

    group_id: str
    offsets_partition: int
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_since_ms: int = -1
    """Wall clock time; -1 where it is not known."""
    generation: int = 0
    protocol_type: str | None = None
    """None until a member joins; until then only consumers without a group commit offsets here."""
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Member ids by instance id."""
    pending_ids: dict[str, None] = field(default_factory=dict)
    """Member ids that were given out and have not joined yet; an ordered set."""
    pending_syncs: dict[str, None] = field(default_factory=dict)
    """Members that have not sent a SyncGroup in this generation."""
    is_assigned: bool = False
    """The generation's assignment is in the log, or on its way. There is one: members of a
    generation that ask two coordinators are told the same."""
    has_new_member: bool = False
    """A member has joined since the first rebalance was last put off."""
    offsets: dict[TopicPartition, OffsetCommitted] = field(default_factory=dict)
    committing: Counter[TopicPartition] = field(default_factory=Counter)
    """How many unanswered commits each partition has: they may be in the log already."""
    forgetting: list[set[TopicPartition]] = field(default_factory=list)
    """For each deletion of offsets that goes on, the partitions without a commit since it began."""

    # ------------------------------------------------------------ queries

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def is_unused(self) -> bool:
        """Return whether it may be dropped: it has no generation, no offset and no pending id."""
        has_begun = self.generation > 0 or self.state is not GroupState.EMPTY
        return not (has_begun or self.offsets or self.committing or self.pending_ids)

    def partitions_in_log(self) -> frozenset[TopicPartition]:
        """Return the partitions whose offsets the log has, or may have already."""
        return frozenset(self.offsets.keys() | self.committing.keys())

    def joining_count(self) -> int:
        return sum(each.joining is not None for each in self.members.values())

    def have_all_joined(self) -> bool:
        """Return whether each member has sent its JoinGroup, and no id is pending."""
        return not self.pending_ids and all(each.joining for each in self.members.values())

    def identity_error(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        return identity_error(self.members, self.static_members, member_id, group_instance_id)

    def fits(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these protocols can be in the group."""
        if not self.members:
            return bool(protocol_type) and any(True for _ in names)
        known_to_all = frozenset.intersection(
            *(frozenset(each.name for each in member.protocols) for member in self.members.values())
        )
        return protocol_type == self.protocol_type and any(name in known_to_all for name in names)

    def selected_protocol(self) -> str | None:
        return select_protocol(
            [[each.name for each in member.protocols] for member in self.members.values()]
        )

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to, None where they cannot be known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: frozenset[str] = frozenset()
        for member in self.members.values():
            named = subscribed_topics(member.metadata(self.protocol))
            if named is None:
                return None
            topics |= named
        return topics

    def join_facts(self, request: JoinGroupRequest, max_size: int) -> JoinFacts:
        """Return the facts about the request that joining.decide_join needs."""
        member = self.members.get(request.member_id)
        instance = request.group_instance_id
        has_no_place = is_full(
            self.state,
            max_size,
            len(self.members),
            self.joining_count(),
            is_member=member is not None,
            is_joining=member is not None and member.joining is not None,
        )
        has_no_id_left = not request.member_id and len(self.pending_ids) >= MAX_PENDING_IDS
        return JoinFacts(
            state=self.state,
            fits=self.fits(request.protocol_type, [each.name for each in request.protocols]),
            is_full=has_no_place or has_no_id_left,
            has_id=bool(request.member_id),
            is_static=instance is not None,
            is_instance_known=instance in self.static_members,
            must_know_id=request.request_version >= FIRST_JOIN_VERSION_WITH_KNOWN_IDS,
            is_pending=request.member_id in self.pending_ids,
            identity_error=self.identity_error(request.member_id, instance),
            is_leader=request.member_id == self.leader,
            has_same_protocols=member is not None and member.protocols == request.protocols,
        )

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return all members with their metadata, for the leader's answer."""
        return tuple(
            JoinedMember(each.member_id, each.group_instance_id, each.metadata(self.protocol))
            for each in self.members.values()
        )

    # ------------------------------------------------------------ changes

    def move(self, state: GroupState, now_ms: int) -> None:
        """Enter the state. now_ms: wall clock time."""
        check((self.state, state) in MOVES, f"group from {self.state} to {state}")
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member. The first one leads, and its protocol type is the group's."""
        check(member.member_id not in self.members, f"{member.member_id} is a member already")
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.pending_ids.pop(member.member_id, None)
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Forget the member or pending id. If it led, the member that joined first leads now."""
        self.pending_ids.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member another id, at its place among the members."""
        check(member.group_instance_id is not None, f"{member.member_id} is not static")
        old = member.member_id
        member.member_id = member_id
        self.members = {each.member_id: each for each in self.members.values()}
        self.static_members[str(member.group_instance_id)] = member_id
        self.pending_syncs.pop(old, None)
        if self.leader == old:
            self.leader = member_id

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; return False if none has joined."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.joining is None:
            joined = (key for key, each in self.members.items() if each.joining is not None)
            found = next(joined, None)
            if found is None:
                return False
            self.leader = found
        return True

    # ------------------------------------------------------------ as it is stored

    def stored(self, assignments: Mapping[str, bytes]) -> GroupStored:
        """Return the group's record, with these assignments by member id."""
        return GroupStored(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            members=tuple(
                MemberStored(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout_ms=each.rebalance_timeout_ms,
                    session_timeout_ms=each.session_timeout_ms,
                    subscription=each.metadata(self.protocol),
                    assignment=assignments.get(each.member_id, b""),
                )
                for each in self.members.values()
            ),
            current_state_timestamp_ms=self.state_since_ms,
        )


def loaded_group(group_id: str, offsets_partition: int, loaded: LoadedGroup) -> Group:
    """Return the group as its log has it: Stable if it has members, else Empty."""
    group = Group(group_id, offsets_partition, offsets=dict(loaded.offsets))
    stored = loaded.stored
    if stored is None:
        return group
    group.state = GroupState.STABLE if stored.members else GroupState.EMPTY
    group.state_since_ms = stored.current_state_timestamp_ms
    group.generation = stored.generation
    group.protocol_type = stored.protocol_type or None
    group.protocol = stored.protocol
    for each in stored.members:
        member = Member(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            session_timeout_ms=each.session_timeout_ms,
            rebalance_timeout_ms=each.rebalance_timeout_ms,
            protocols=(GroupProtocol(stored.protocol or "", each.subscription),),
            assignment=each.assignment,
        )
        group.add(member, stored.protocol_type)
    if stored.leader in group.members:
        group.leader = stored.leader
    return group
