"""ElectLeaders: forwards to the controller, and waits until this broker's metadata has the leaders.

Source: KIP-460.
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_broker.kafka_api.forwarding import SILENT, ControllerForwarding, outcomes_of
from highwater_broker.kafka_api.refusals import (
    Outcome,
    listener_refusal,
    partition_refusal,
    sort_out,
)
from highwater_broker.kafka_api.topic_waits import Deadline, Deadlines, TopicWaits
from highwater_broker.kafka_api.turns import Turns
from highwater_core import admin_messages as control
from highwater_core.admin_messages import ElectionType, PartitionResult
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_wire.kafka.admin_messages import ElectLeadersRequest, ElectLeadersResponse

_ELECTION_TYPES = {int(each): each for each in ElectionType}


class ElectLeadersHandler:
    """Answers ElectLeaders; a repeated partition counts once."""

    def __init__(
        self,
        forwarding: ControllerForwarding,
        waits: TopicWaits,
        deadlines: Deadlines,
        turns: Turns,
    ) -> None:
        self._forwarding = forwarding
        self._waits = waits
        self._deadlines = deadlines
        self._turns = turns

    async def handle(self, request: ElectLeadersRequest, listener: str) -> ElectLeadersResponse:
        """Return each partition's outcome once this broker's metadata has the elected leaders.

        After REQUEST_TIMED_OUT it is unknown whether a leader was or will be elected.
        """
        deadline = self._deadlines(request.timeout_ms)
        named = None if request.partitions is None else tuple(dict.fromkeys(request.partitions))
        refused = listener_refusal(listener)
        election_type = _ELECTION_TYPES.get(request.election_type)
        if refused is not None:
            return _refused(refused, named)
        if election_type is None:
            message = f"election type {request.election_type}: there are 0 and 1"
            return _refused(Outcome(ErrorCode.INVALID_REQUEST, message), named)
        outcomes, wanted = await sort_out(
            named or (), lambda partition: partition, partition_refusal, self._turns
        )
        if named is None or wanted:
            forwarded = control.ElectLeadersRequest(
                election_type, None if named is None else tuple(wanted), deadline.remaining_ms()
            )
            answer = await self._forwarding.ask(forwarded, control.ElectLeadersResponse, deadline)
            if isinstance(answer, Outcome):
                return _refused(answer, named)
            told = outcomes_of(answer.results)
            await self._wait_until_shown(told, election_type, deadline)
            outcomes |= told
        partitions = outcomes if named is None else named
        return ElectLeadersResponse(
            ErrorCode.NONE,
            tuple(PartitionResult(each, *outcomes.get(each, SILENT)) for each in partitions),
        )

    async def _wait_until_shown(
        self,
        outcomes: dict[TopicPartition, Outcome],
        election_type: ElectionType,
        deadline: Deadline,
    ) -> None:
        """Answer REQUEST_TIMED_OUT for elected leaders that the metadata does not have in time."""
        elected: dict[str, list[TopicPartition]] = {}
        for partition, outcome in outcomes.items():
            if outcome.error is ErrorCode.NONE:
                elected.setdefault(partition.topic, []).append(partition)

        def is_shown(partition: TopicPartition) -> bool:
            if election_type is ElectionType.PREFERRED:
                return self._waits.is_led_by_preferred(partition)
            return self._waits.are_led(partition.topic, (partition.partition,))

        if elected:
            await self._waits.wait(
                tuple(elected),
                lambda topic: all(map(is_shown, elected[topic])),
                deadline.remaining_ms(),
            )
        late = Outcome(ErrorCode.REQUEST_TIMED_OUT, "elected, but not yet seen by this broker")
        for partitions in elected.values():
            outcomes |= {each: late for each in partitions if not is_shown(each)}


def _refused(outcome: Outcome, named: Iterable[TopicPartition] | None) -> ElectLeadersResponse:
    """Return the answer to a request that was refused as a whole."""
    return ElectLeadersResponse(
        outcome.error, tuple(PartitionResult(partition, *outcome) for partition in named or ())
    )
