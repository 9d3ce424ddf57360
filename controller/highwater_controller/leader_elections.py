"""Requested elections: of preferred leaders, or of any replica where there is no leader.

A partition whose preferred replica leads already keeps its leader epoch.
Source: KIP-460 (ElectLeaders), /admin/preferred_replica_election; Kafka's KafkaController.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from highwater_controller.admin_znodes import (
    forget_preferred_elections,
    read_preferred_elections,
)
from highwater_controller.chunks import next_step, pieces
from highwater_controller.logic.leader_selectors import Selector
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.partition_state_machine import move_partitions
from highwater_controller.refusals import refuse
from highwater_controller.term import Term
from highwater_controller.topic_waits import Done
from highwater_core.admin_messages import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_core.topic_plans import Refused

_SELECTORS = {
    ElectionType.PREFERRED: Selector.PREFERRED,
    ElectionType.UNCLEAN: Selector.UNCLEAN,
}
_NOT_ELECTED = {
    ElectionType.PREFERRED: Refused(
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "the preferred replica is not live and in sync"
    ),
    ElectionType.UNCLEAN: Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is live"),
}


class Electing:
    """An ElectLeaders request, carried out a step at a time."""

    def __init__(self, request: ElectLeadersRequest) -> None:
        self._request = request
        self._left: Sequence[TopicPartition] | None = request.partitions
        self._results: dict[TopicPartition, PartitionResult] = {}

    @property
    def is_over(self) -> bool:
        return self._left is not None and not self._left

    @property
    def answer(self) -> ElectLeadersResponse:
        return ElectLeadersResponse(ErrorCode.NONE, tuple(self._results.values()))

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Hold the next partitions' elections."""
        is_of_all = self._request.partitions is None
        if self._left is None:
            self._left = sorted(term.context.assignments)
        some, self._left = next_step(self._left)
        results = await elect_leaders(term, some, self._request.election_type)
        self._results.update(
            (each.topic_partition, each)
            for each in results
            if not (is_of_all and each.error is ErrorCode.ELECTION_NOT_NEEDED)
        )


async def elect_leaders(
    term: Term, partitions: Sequence[TopicPartition], election_type: ElectionType
) -> list[PartitionResult]:
    """Hold the partitions' elections where one is needed; return each one's result, in order."""
    faults: dict[TopicPartition, Refused] = {}
    for at in partitions:
        fault = _find_fault(term, at, election_type)
        if fault is not None:
            faults[at] = fault
    to_elect = list(dict.fromkeys(at for at in partitions if at not in faults))
    selector = _SELECTORS[election_type]
    elected = set(await move_partitions(term, to_elect, PartitionState.ONLINE, selector))
    faults.update((at, _NOT_ELECTED[election_type]) for at in to_elect if at not in elected)
    return [_to_result(term, at, faults.get(at)) for at in partitions]


def _find_fault(term: Term, at: TopicPartition, election_type: ElectionType) -> Refused | None:
    """Return why no election is held for the partition, None where one is."""
    context = term.context
    if at not in context.assignments:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
    if context.is_to_be_deleted(at.topic):
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is being deleted")
    if at in context.unreadable_partitions:
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the partition's state cannot be read")
    is_led = context.has_live_leader(at)
    if election_type is ElectionType.UNCLEAN:
        if is_led:
            return Refused(ErrorCode.ELECTION_NOT_NEEDED, "the partition has a leader")
        return None
    preferred = context.assignments[at][0]
    if is_led and context.leader_of(at) == preferred:
        return Refused(ErrorCode.ELECTION_NOT_NEEDED, "its preferred replica leads already")
    known = context.leaderships.get(at)
    is_able = preferred in context.electable_for(at)
    if known is None or not is_able or preferred not in known.leadership.isr:
        return _NOT_ELECTED[ElectionType.PREFERRED]
    return None


def _to_result(term: Term, at: TopicPartition, fault: Refused | None) -> PartitionResult:
    if fault is None:
        return PartitionResult(at, ErrorCode.NONE)
    if fault.error is not ErrorCode.ELECTION_NOT_NEEDED:
        refuse(term, "ElectLeadersRequest", fault, at)
    return PartitionResult(at, fault.error, str(fault))


class WrittenElections:
    """The elections of /admin/preferred_replica_election, held a step at a time."""

    answer = None

    def __init__(self) -> None:
        self._left: Sequence[TopicPartition] | None = None
        self._node_version = -1

    @property
    def is_over(self) -> bool:
        return self._left is not None and not self._left

    async def step(self, term: Term, make_done: Callable[[], Done]) -> None:
        """Read the znode, then hold the next partitions' elections; remove it after the last.

        Ordering: the znode read once, and watched -> a step's partitions Online again, led by their
        preferred replicas, if those are live and in sync -> after the last step the znode removed:
        a controller that dies before leaves it to the next one.
        """
        if self._left is None:
            self._left, self._node_version = await read_preferred_elections(term)
        some, self._left = next_step(self._left)
        await elect_leaders(term, some, ElectionType.PREFERRED)
        if some and self.is_over:
            await forget_preferred_elections(term, self._node_version)


async def rebalance_leaders(term: Term) -> None:
    """Elect preferred leaders where a broker leads too few of its partitions.

    A broker lacks the partitions for which it is preferred and that it does not lead; too many is
    more than the percentage of the settings. Partitions whose replicas are being moved are left
    alone.
    Ordering: each live broker's share of its preferred partitions computed -> preferred elections
    for a broker that lacks too many.
    Source: KIP-460; Kafka's KafkaController.checkAndTriggerAutoLeaderRebalance.
    """
    context = term.context
    limit = term.settings.leader_imbalance_per_broker_percentage
    preferred: dict[int, list[TopicPartition]] = {}
    for at in sorted(context.assignments):
        if not context.is_to_be_deleted(at.topic):
            preferred.setdefault(context.assignments[at][0], []).append(at)
    for broker in sorted(preferred):
        if broker not in context.electable():
            continue
        lacking = [at for at in preferred[broker] if context.leader_of(at) != broker]
        if 100 * len(lacking) > limit * len(preferred[broker]):
            able = _able_to_lead(term, lacking, broker)
            for some in pieces(able):
                await elect_leaders(term, some, ElectionType.PREFERRED)


def _able_to_lead(
    term: Term, partitions: Iterable[TopicPartition], broker: int
) -> list[TopicPartition]:
    context = term.context
    return [
        at
        for at in partitions
        if at not in context.reassignments
        and (known := context.leaderships.get(at)) is not None
        and broker in known.leadership.isr
    ]
