"""I21: a partition has one owner in a generation; no member of an older generation is accepted.

Only answers of the leader in ZooKeeper are judged: a coordinator that does not know that it was
deposed may answer from old groups, and acknowledges no commit (I14). Only assignments in the format
of Kafka's consumers are judged.
Source: docs/reference/invariants.md, I21; KIP-345.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from highwater_checker.invariants.generations import is_group_deleted
from highwater_client.assignment import CONSUMER, BadAssignment, decode_assignment
from highwater_core.errors import ErrorCode
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition
from highwater_simulator.oracle.group_places import GroupPlaces
from highwater_wire.kafka.committed_messages import OffsetCommitRequest, OffsetCommitResponse
from highwater_wire.kafka.group_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

Report = Callable[[TopicPartition | None, str, str, int], None]
OfMember = HeartbeatRequest | OffsetCommitRequest
"""Requests that only a member of the current generation may have answered without an error."""


@dataclass(slots=True)
class _Told:
    """The assignments that members of one group got."""

    generation: int = -1
    """The latest generation in which any member got an assignment."""
    owners: dict[TopicPartition, SyncGroupRequest] = field(default_factory=dict)
    """The owners of partitions in that generation."""
    instances: dict[str, str] = field(default_factory=dict)
    """Member ids by instance id, by their latest assignments."""


class GenerationChecks:
    """Judges the answers to members of groups."""

    def __init__(self, places: GroupPlaces, report: Report) -> None:
        self._places = places
        self._report = report
        self._told: dict[str, _Told] = {}
        self._doubts: dict[int, str] = {}
        """Why requests without an answer yet must be refused, by the id of the request object."""

    def asked(self, request: object) -> None:
        """Note whether the request must be refused, by the assignments up to now."""
        if not isinstance(request, OfMember) or request.generation < 0:
            return
        self._doubts.pop(id(request), None)
        told = self._told.get(request.group_id)
        if told is None:
            return
        instance = request.group_instance_id
        present = None if instance is None else told.instances.get(instance)
        if request.generation < told.generation:
            self._doubts[id(request)] = f"generation {told.generation} was assigned before"
        elif present is not None and present != request.member_id:
            self._doubts[id(request)] = f"{present} had taken the place of its instance before"

    def event_traced(self, event: TraceEvent) -> None:
        """Forget a group that its coordinator deletes: its generations begin anew."""
        if is_group_deleted(event):
            self._told.pop(event.detail["group"], None)

    def judgements(
        self, broker: int, request: object, response: object
    ) -> Iterator[Callable[[], None]]:
        """Yield the checks of this answer, to be called once its event is over."""
        if isinstance(request, SyncGroupRequest) and isinstance(response, SyncGroupResponse):
            is_told = response.error is ErrorCode.NONE and response.protocol_type == CONSUMER
            if is_told and self._places.is_led_by(broker, request.group_id):
                yield lambda: self._assigned(broker, request, response)
        elif isinstance(request, OfMember):
            doubt = self._doubts.pop(id(request), None)
            is_accepted = _is_accepted(response) and self._places.is_led_by(
                broker, request.group_id
            )
            if doubt is not None and is_accepted:
                yield lambda: self._accepted(broker, request, doubt)

    def _assigned(
        self, broker: int, request: SyncGroupRequest, response: SyncGroupResponse
    ) -> None:
        told = self._told.setdefault(request.group_id, _Told())
        if request.generation > told.generation:
            told.generation, told.owners = request.generation, {}
        elif request.generation < told.generation:
            self._accepted(broker, request, f"generation {told.generation} was assigned before")
        if request.group_instance_id is not None:
            told.instances[request.group_instance_id] = request.member_id
        try:
            partitions = decode_assignment(response.assignment)
        except BadAssignment:
            return
        for at in partitions:
            before = told.owners.get(at)
            if before is not None and not _is_same(before, request):
                self._report(
                    at,
                    "I21",
                    f"broker {broker} assigned it to {request.member_id} in generation "
                    f"{request.generation} of group {request.group_id!r}; {before.member_id} has "
                    "it there",
                    -1,
                )
            told.owners[at] = request

    def _accepted(self, broker: int, request: OfMember | SyncGroupRequest, doubt: str) -> None:
        self._report(
            None,
            "I21",
            f"broker {broker} accepted {type(request).__name__} of {request.member_id}, "
            f"generation {request.generation} of group {request.group_id!r}: {doubt}",
            -1,
        )


def _is_same(first: SyncGroupRequest, second: SyncGroupRequest) -> bool:
    """Return whether both requests are of one member: by its instance id if it is static."""
    if first.group_instance_id is not None:
        return first.group_instance_id == second.group_instance_id
    return first.member_id == second.member_id


def _is_accepted(response: object) -> bool:
    if isinstance(response, HeartbeatResponse):
        return response.error is ErrorCode.NONE
    return isinstance(response, OffsetCommitResponse) and any(
        each.error is ErrorCode.NONE for each in response.partitions
    )
