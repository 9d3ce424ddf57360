"""OffsetFetch: the offsets that groups have committed, of all or of some partitions.

There are no transactions, so that no offset is ever unstable (KIP-447).
Source: KIP-709 (several groups at once).
"""

from __future__ import annotations

from highwater_broker.coordinator.coordinator import GroupCoordinator
from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.kafka_api.turns import CHUNK, Turns
from highwater_core.errors import ErrorCode
from highwater_wire.kafka.committed_messages import (
    FetchedGroup,
    FetchedOffset,
    GroupToFetch,
    OffsetFetchRequest,
    OffsetFetchResponse,
)


class OffsetFetchHandler:
    """Answers OffsetFetch."""

    def __init__(self, groups: GroupCoordinator, turns: Turns) -> None:
        self._groups = groups
        self._turns = turns

    async def handle(self, request: OffsetFetchRequest, listener: str) -> OffsetFetchResponse:
        """Return each group's offsets; an error of a group stands at each of its partitions too.

        Versions below 2 have no other place for it.
        """
        groups: list[FetchedGroup] = []
        for number, wanted in enumerate(request.groups):
            size = len(wanted.partitions or ())
            if size > CHUNK or number % CHUNK == CHUNK - 1:
                await self._turns.next(size)
            if listener in CLIENT_LISTENERS:
                found = self._groups.fetch(wanted)
            else:
                found = FetchedGroup(wanted.group_id, ErrorCode.INVALID_REQUEST)
            groups.append(found if found.error is ErrorCode.NONE else _refused(wanted, found.error))
        return OffsetFetchResponse(tuple(groups))


def _refused(wanted: GroupToFetch, error: ErrorCode) -> FetchedGroup:
    partitions = wanted.partitions or ()
    return FetchedGroup(
        wanted.group_id, error, tuple(FetchedOffset(*each, error=error) for each in partitions)
    )
