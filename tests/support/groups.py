"""A group coordinator in virtual time over a log in memory, and clients of it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from types import SimpleNamespace
from typing import Any, cast

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.coordinator.group import Group
from highwater_broker.coordinator.settings import GroupSettings
from highwater_broker.coordinator.stored import (
    GroupForgotten,
    GroupRecord,
    GroupStored,
    LoadedGroup,
    OffsetCommitted,
    OffsetForgotten,
)
from highwater_core.errors import ErrorCode
from highwater_core.ports import Ports
from highwater_core.runtime import Runtime
from highwater_simulator.kernel import Kernel
from highwater_simulator.rng import SeededRng
from highwater_wire.kafka.group_messages import (
    GroupProtocol,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)


class LogInMemory:
    """Stands in place of `__consumer_offsets`: appends are committed after commit_ms."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.records: list[GroupRecord] = []
        self.refusals: dict[str, ErrorCode] = {}
        self.loading = False
        self.append_error = ErrorCode.NONE
        """The result of appends; with an error their records are not in the log."""
        self.commit_ms = 5

    def refusal(self, group_id: str) -> ErrorCode:
        return self.refusals.get(group_id, ErrorCode.NONE)

    def is_loading(self) -> bool:
        return self.loading

    async def append(self, group_id: str, records: Sequence[GroupRecord]) -> ErrorCode:
        error = self.append_error
        if error is ErrorCode.NONE:
            self.records.extend(records)
        await self._runtime.sleep(self.commit_ms)
        return error

    def stored(self, group_id: str) -> GroupStored | None:
        """Return the group by its newest record in the log; None once it is deleted."""
        found: GroupStored | None = None
        for record in self.records:
            if isinstance(record, GroupStored) and record.group_id == group_id:
                found = record
            if isinstance(record, GroupForgotten) and record.group_id == group_id:
                found = None
        return found

    def loaded(self) -> dict[str, LoadedGroup]:
        """Return all groups as a load of the log gives them."""
        stored: dict[str, GroupStored] = {}
        offsets: dict[str, dict[Any, OffsetCommitted]] = {}
        for record in self.records:
            of_group = offsets.setdefault(record.group_id, {})
            match record:
                case GroupStored():
                    stored[record.group_id] = record
                case GroupForgotten():
                    stored.pop(record.group_id, None)
                case OffsetCommitted():
                    of_group[record.topic_partition] = record
                case OffsetForgotten():
                    of_group.pop(record.topic_partition, None)
        return {
            group_id: LoadedGroup(stored.get(group_id), of_group)
            for group_id, of_group in offsets.items()
            if group_id in stored or of_group
        }


class RecordedTrace:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def emit(self, kind: Any, **fields: Any) -> None:
        self.events.append((str(kind), fields))


class Asked:
    """A request. answer: None until it is answered."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.took_ms = -1


PARTITION = 7
"""The offsets partition of every group here."""


class GroupWorld:
    """One coordinator and its clients."""

    def __init__(self, **settings: Any) -> None:
        self.kernel = Kernel()
        self.runtime = self.kernel.runtime("broker-0")
        self.scope = self.runtime.scope("requests")
        self.trace = RecordedTrace()
        self.log = LogInMemory(self.runtime)
        self.settings = GroupSettings(**settings)
        self.coordinator = self.make_coordinator()

    def make_coordinator(self) -> GroupCoordinator:
        """Return a coordinator without groups, as on another broker."""
        ports = SimpleNamespace(runtime=self.runtime, trace=self.trace, rng=SeededRng(1))
        coordinator = GroupCoordinator(
            self.settings, cast(Ports, ports), self.log, self.log, lambda _: PARTITION
        )
        coordinator.start()
        return coordinator

    # ------------------------------------------------------------ asking

    def start(self, work: Coroutine[Any, Any, Any]) -> Asked:
        asked = Asked()
        began_ms = self.runtime.now_ms()

        async def run() -> None:
            asked.answer = await work
            asked.took_ms = self.runtime.now_ms() - began_ms

        self.scope.spawn("request", run())
        self.kernel.run_for(0)
        return asked

    def wait(self, *asked: Asked, within_ms: int = 600_000) -> list[Any]:
        self.kernel.run_until(lambda: all(one.answer is not None for one in asked), within_ms)
        return [one.answer for one in asked]

    def ask(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.wait(self.start(work))[0]

    def pass_ms(self, duration_ms: int) -> None:
        self.kernel.run_for(duration_ms)

    def group(self, group_id: str = "g") -> Group | None:
        return next((one for one in self.coordinator.groups() if one.group_id == group_id), None)

    # ------------------------------------------------------------ members

    def join(self, member_id: str = "", **fields: Any) -> Asked:
        return self.start(self.coordinator.join(join_request(member_id, **fields)))

    def joined(self, **fields: Any) -> JoinGroupResponse:
        """Have a member join, first for an id, then for a generation; return the answer."""
        sent_back = self.wait(self.join(**fields))[0]
        assert sent_back.error is ErrorCode.MEMBER_ID_REQUIRED
        answer: JoinGroupResponse = self.wait(self.join(sent_back.member_id, **fields))[0]
        return answer

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None,
        **fields: Any,
    ) -> Asked:  # fmt: skip
        told = tuple(MemberAssignment(*each) for each in (assignments or {}).items())
        request = SyncGroupRequest("g", generation, member_id, told, **fields)
        return self.start(self.coordinator.sync(request))

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return self.coordinator.heartbeat(HeartbeatRequest("g", generation, member_id, instance))

    def leave(self, *members: LeavingMember) -> list[ErrorCode]:
        answer = self.coordinator.leave(LeaveGroupRequest("g", members))
        assert answer.error is ErrorCode.NONE
        return [each.error for each in answer.members]

    def stable(self, count: int = 1, **fields: Any) -> list[str]:
        """Have count members join and sync; return their ids, the leader's first."""
        ids = [self.wait(self.join(**fields))[0].member_id for _ in range(count)]
        answers = self.wait(*[self.join(member_id, **fields) for member_id in ids])
        generation = answers[0].generation
        leader = answers[0].leader
        ids.sort(key=lambda member_id: member_id != leader)
        assigned = {member_id: member_id.encode() for member_id in ids}
        syncs = [self.sync(each, generation, assigned if each == leader else None) for each in ids]
        told: list[SyncGroupResponse] = self.wait(*syncs)
        assert [each.assignment for each in told] == [each.encode() for each in ids]
        return ids


def join_request(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    values: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": (GroupProtocol("range", b"r"),),
        "client_id": "c",
        "client_host": "/h",
    }
    return JoinGroupRequest(**{**values, **fields})
