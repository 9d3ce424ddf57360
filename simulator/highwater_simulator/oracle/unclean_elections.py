"""The partitions for which an operator allows a leader from outside the ISR.

Source: unclean.leader.election.enable, of the topic or of all brokers; KIP-460 (ElectLeaders). A
plan's toggle is no operator's wish: what it costs is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from highwater_core.admin_messages import ElectionType
from highwater_core.ids import TopicPartition
from highwater_simulator.minima import is_unclean_election_allowed
from highwater_wire.kafka.admin_messages import ElectLeadersRequest
from highwater_wire.kafka.messages import KafkaRequest

if TYPE_CHECKING:
    from highwater_simulator.world import World


class UncleanElections:
    """Follows clients' requests for unclean elections, and knows the configurations.

    A partition for which a client has asked may be led by anybody from then on: the request may be
    carried out late, and again.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked_of_all = False
        self._asked: dict[TopicPartition, None] = {}

    def heard_before(
        self, listener: Callable[[KafkaRequest], None]
    ) -> Callable[[KafkaRequest], None]:
        """Return a listener of clients' requests that passes them on."""

        def asked(request: KafkaRequest) -> None:
            if isinstance(request, ElectLeadersRequest):
                self._heard(request)
            listener(request)

        return asked

    def _heard(self, request: ElectLeadersRequest) -> None:
        if request.election_type == ElectionType.UNCLEAN:
            self._asked_of_all |= request.partitions is None
            self._asked.update(dict.fromkeys(request.partitions or ()))

    def are_allowed(self, at: TopicPartition) -> bool:
        """Return whether a replica outside the partition's ISR may be elected now."""
        is_asked = self._asked_of_all or at in self._asked
        return is_asked or is_unclean_election_allowed(self._world, at.topic)
