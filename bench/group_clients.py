"""Clients of one group coordinator, each on a connection of its own, that send bare requests.

They add almost nothing to a coordinator's own time: no pauses, no heartbeats in the background. The
requests of all clients are sent before the first answer is read.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from threading import Barrier
from types import TracebackType
from typing import Any, Self

from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, Offset, TopicPartition
from highwater_wire.kafka.codec import VERSION_PROFILE, api_key_of, decode_response
from highwater_wire.kafka.committed_messages import (
    GroupToFetch,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from highwater_wire.kafka.group_messages import (
    NO_GENERATION,
    NO_MEMBER_ID,
    GroupProtocol,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
)
from highwater_wire.kafka.messages import FindCoordinatorRequest, KafkaRequest

SESSION_TIMEOUT_MS = 30_000
WITHIN_S = 60.0
_PAUSE_S = 0.02
_PROTOCOL_TYPE, _PROTOCOL = "consumer", "range"
_ASSIGNMENT_BYTES = 100
_SUBSCRIPTION = struct.Struct(">hii")
"""The consumer protocol's version 0, number of topics, length of the user data."""


def coordinator_of(brokers: Sequence[Endpoint], group_id: str) -> Endpoint:
    """Return the address of the group's coordinator, once it has loaded the group's partition.

    Raises:
        TimeoutError: it has not done so within WITHIN_S.
    """
    ends_s, last = time.monotonic() + WITHIN_S, ""
    while time.monotonic() < ends_s:
        for broker in brokers:
            try:
                with WireClient(broker) as client:
                    (found,) = client.call(FindCoordinatorRequest((group_id,))).coordinators
                if found.error is ErrorCode.NONE:
                    coordinator = Endpoint(found.host, found.port)
                    with WireClient(coordinator) as client:
                        (found,) = client.call(fetch(group_id, "any", [0])).groups
                    if found.error is ErrorCode.NONE:
                        return coordinator
                last = found.error.name
            except (OSError, ConnectionClosed) as error:
                last = str(error)
        time.sleep(_PAUSE_S)
    raise TimeoutError(f"no coordinator of {group_id!r} within {WITHIN_S:g} s; last: {last}")


class Clients:
    """Connections to one coordinator, used together."""

    def __init__(self, coordinator: Endpoint, number: int) -> None:
        with ExitStack() as opened:
            self.connections = [
                opened.enter_context(WireClient(coordinator, timeout_s=WITHIN_S))
                for _ in range(number)
            ]
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()

    def ask_all(self, requests: Sequence[KafkaRequest]) -> list[Any]:
        """Send each client its request, then return their answers in the same order."""
        for connection, request in zip(self.connections, requests, strict=True):
            connection.ask([request])
        return [
            decode_response(
                connection.receive_frame(), request, VERSION_PROFILE.offered[api_key_of(request)][1]
            )[1]
            for connection, request in zip(self.connections, requests, strict=True)
        ]

    def per_second(
        self, requests: Callable[[int], Sequence[KafkaRequest]], lasts_s: float
    ) -> float:
        """Return requests per second; each round of requests is sent when all answers are there.

        requests: the clients' requests of a round, by its number from 0 on.

        Raises:
            ValueError: an answer has an error.
        """
        began_s = time.monotonic()
        for number in count():
            for answer in self.ask_all(requests(number)):
                require_success(answer)
            took_s = time.monotonic() - began_s
            if took_s >= lasts_s:
                return (number + 1) * len(self.connections) / took_s
        raise AssertionError("count() does not end")


def require_success(answer: Any) -> None:
    """Raise ValueError if the answer, or a part of it, has an error."""
    parts = (answer, *getattr(answer, "partitions", ()), *getattr(answer, "groups", ()))
    for part in parts:
        error = getattr(part, "error", ErrorCode.NONE)
        if error is not ErrorCode.NONE:
            raise ValueError(f"{type(answer).__name__}: {error.name}")


# ---------------------------------------------------------------- offsets


def commit(group_id: str, topic: str, partitions: Sequence[int], offset: int) -> KafkaRequest:
    """Return the commit of one offset in each partition, by a consumer that is no member."""
    parts = tuple(OffsetToCommit(topic, each, Offset(offset)) for each in partitions)
    return OffsetCommitRequest(group_id, parts)


def fetch(group_id: str, topic: str, partitions: Sequence[int]) -> KafkaRequest:
    """Return the request for the group's committed offsets."""
    parts = tuple(TopicPartition(topic, each) for each in partitions)
    return OffsetFetchRequest((GroupToFetch(group_id, parts),))


# ---------------------------------------------------------------- groups of one member each


class Singles:
    """Groups of one member each, one for each client; all send the same request at once."""

    def __init__(self, clients: Clients, name: str) -> None:
        self._clients = clients
        self._groups = [f"{name}-{number}" for number in range(len(clients.connections))]
        self._members = [NO_MEMBER_ID] * len(self._groups)
        self._generations = [NO_GENERATION] * len(self._groups)

    def form(self) -> None:
        """Join and sync, as new members."""
        self._members = [NO_MEMBER_ID] * len(self._groups)
        for _ in range(2):  # the first answer gives an id (KIP-394)
            answers = self._clients.ask_all(
                [
                    join(group, member)
                    for group, member in zip(self._groups, self._members, strict=True)
                ]
            )
            self._members = [answer.member_id for answer in answers]
        self._generations = [answer.generation for answer in answers]
        for answer in self._clients.ask_all(
            [sync(group, answer) for group, answer in zip(self._groups, answers, strict=True)]
        ):
            require_success(answer)

    def heartbeats(self, number: int) -> Sequence[KafkaRequest]:
        """Return a heartbeat of each member."""
        members = zip(self._groups, self._generations, self._members, strict=True)
        return [HeartbeatRequest(*member) for member in members]

    def leave(self) -> None:
        for answer in self._clients.ask_all(
            [
                LeaveGroupRequest(group, (LeavingMember(member),))
                for group, member in zip(self._groups, self._members, strict=True)
            ]
        ):
            require_success(answer)


def join(group_id: str, member_id: str, user_data: bytes = b"") -> JoinGroupRequest:
    """Return the JoinGroup of a consumer that subscribes to no topic.

    Apache Kafka reads subscriptions when it forms a generation. It never answers the members of a
    group whose metadata are no subscriptions.
    """
    subscription = _SUBSCRIPTION.pack(0, 0, len(user_data)) + user_data
    return JoinGroupRequest(
        group_id,
        SESSION_TIMEOUT_MS,
        SESSION_TIMEOUT_MS,
        member_id,
        _PROTOCOL_TYPE,
        (GroupProtocol(_PROTOCOL, subscription),),
    )


def sync(group_id: str, joined: Any) -> SyncGroupRequest:
    """Return the SyncGroup of a member; the leader's has an assignment for each member.

    joined: the answer to the member's JoinGroup.
    """
    given = len(joined.members).to_bytes(2, "big") + bytes(_ASSIGNMENT_BYTES)
    return SyncGroupRequest(
        group_id,
        joined.generation,
        joined.member_id,
        tuple(MemberAssignment(each.member_id, given) for each in joined.members),
        protocol_type=joined.protocol_type,
        protocol=joined.protocol,
    )


# ---------------------------------------------------------------- a group of many members


def rebalance_times(coordinator: Endpoint, group_id: str, members: int, rounds: int) -> list[float]:
    """Return the seconds of each rebalance of a group with this number of members.

    All members join anew at once, with other user data than before, and each asks for its
    assignment. The time ends when the last has it. The group is formed first and leaves at the end.
    """
    barrier = Barrier(members, timeout=WITHIN_S)
    with Clients(coordinator, members) as clients, ThreadPoolExecutor(members) as pool:
        times = list(
            pool.map(
                lambda connection: _Member(connection, group_id, members).take_part(
                    barrier, rounds
                ),
                clients.connections,
            )
        )
    begins = [min(of_member[number][0] for of_member in times) for number in range(rounds)]
    ends = [max(of_member[number][1] for of_member in times) for number in range(rounds)]
    return [end_s - begin_s for begin_s, end_s in zip(begins, ends, strict=True)]


class _Member:
    """A member of a group with a given number of members."""

    def __init__(self, connection: WireClient, group_id: str, members: int) -> None:
        self._connection = connection
        self._group_id = group_id
        self._members = members
        self._member_id = NO_MEMBER_ID
        self._generation = NO_GENERATION

    def take_part(self, barrier: Barrier, rounds: int) -> list[tuple[float, float]]:
        """Return when each rebalance began and ended for this member."""
        self._until_whole(b"formed")
        times = []
        for number in range(rounds):
            barrier.wait()
            began_s = time.monotonic()
            self._until_whole(b"round %d" % number)
            times.append((began_s, time.monotonic()))
        barrier.wait()
        self._connection.call(LeaveGroupRequest(self._group_id, (LeavingMember(self._member_id),)))
        return times

    def _until_whole(self, user_data: bytes) -> None:
        """Join until this member has an assignment of a generation with all members in it."""
        ends_s = time.monotonic() + WITHIN_S
        while time.monotonic() < ends_s:
            joined = self._connection.call(join(self._group_id, self._member_id, user_data))
            self._member_id = joined.member_id
            if joined.error is not ErrorCode.NONE:
                continue
            self._generation = joined.generation
            synced = self._connection.call(sync(self._group_id, joined))
            if synced.error is not ErrorCode.NONE:
                continue
            if int.from_bytes(synced.assignment[:2], "big") == self._members:
                return
            self._until_rebalance(ends_s)
        raise TimeoutError(f"the group has no {self._members} members within {WITHIN_S:g} s")

    def _until_rebalance(self, ends_s: float) -> None:
        request = HeartbeatRequest(self._group_id, self._generation, self._member_id)
        while time.monotonic() < ends_s:
            if self._connection.call(request).error is not ErrorCode.NONE:
                return
            time.sleep(_PAUSE_S)
