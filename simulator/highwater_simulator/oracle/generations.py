"""I21: one owner of a partition in a generation; nobody of an older one is taken for a member.

What a coordinator answers counts while it leads in ZooKeeper, too: one that does not know that it
was deposed may go by what it knew, and acknowledges nothing (I14). Assignments are read as Kafka's
consumers write them; of other protocols nothing is known.
Source: docs/explanation/replication.md, "Invariants", I21; KIP-345.
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
"""What only a member of the current generation is answered without an error."""


@dataclass(slots=True)
class _Told:
    """What members of a group were told."""

    generation: int = -1
    """The latest that anybody was assigned something in."""
    owners: dict[TopicPartition, SyncGroupRequest] = field(default_factory=dict)
    """Of that generation."""
    instances: dict[str, str] = field(default_factory=dict)
    """Member ids by instance id, as they were assigned something last."""


class GenerationChecks:
    """Judges what members of groups are told."""

    def __init__(self, places: GroupPlaces, report: Report) -> None:
        self._places = places
        self._report = report
        self._told: dict[str, _Told] = {}
        self._doubts: dict[int, str] = {}
        """By id of a request that is not answered yet, why it must be refused."""

    def asked(self, request: object) -> None:
        """Take note of a member's request: by what was told until now it is judged."""
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
        """Yield what is to be judged once the event of this answer is over."""
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
    """Return whether both are of one member; a static one is by its instance."""
    if first.group_instance_id is not None:
        return first.group_instance_id == second.group_instance_id
    return first.member_id == second.member_id


def _is_accepted(response: object) -> bool:
    if isinstance(response, HeartbeatResponse):
        return response.error is ErrorCode.NONE
    return isinstance(response, OffsetCommitResponse) and any(
        each.error is ErrorCode.NONE for each in response.partitions
    )
