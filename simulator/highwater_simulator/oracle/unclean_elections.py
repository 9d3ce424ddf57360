"""The partitions for which an operator allows a leader from outside the ISR, and who may be it.

Source: unclean.leader.election.enable, of the topic or of all brokers; KIP-460 (ElectLeaders). A
plan's toggle is no operator's wish: what it costs is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from highwater_core.admin_messages import ElectionType
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.topic_znode import decode_topic
from highwater_core.znodes import PartitionLeadership, broker_path, topic_path
from highwater_simulator.minima import is_unclean_election_allowed
from highwater_wire.kafka.admin_messages import ElectLeadersRequest
from highwater_wire.kafka.messages import KafkaRequest

if TYPE_CHECKING:
    from highwater_simulator.world import World

Report = Callable[[TopicPartition | None, str, str], None]
KnowsRegistration = Callable[[str, int, int], bool]
"""Whether a controller (by its name) knows a broker's registration (by its broker epoch)."""


class UncleanElections:
    """Follows clients' requests for unclean elections, and knows the configurations.

    A partition for which a client has asked may be led by anybody from then on: the request may be
    carried out late, and again.
    """

    def __init__(self, world: World, knows: KnowsRegistration, report: Report) -> None:
        self._world = world
        self._knows = knows
        self._report = report
        self._shutting_down: dict[tuple[int, int], None] = {}
        """Brokers with the registrations that controlled shutdowns end."""
        self._failed: dict[int, None] = {}
        """The brokers of which a log folder ever failed, or refused a replica."""
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

    def event_traced(self, event: TraceEvent) -> None:
        if event.kind is EventKind.SHUTDOWN_BEGUN:
            self._shutting_down[event.detail["broker"], event.detail["broker_epoch"]] = None
        elif event.kind is EventKind.REPLICAS_FAILED:
            self._failed[event.detail["broker"]] = None
        elif event.kind is EventKind.LOG_FOLDER_FAILED:
            self._failed[event.node] = None

    def leadership_written(
        self,
        at: TopicPartition,
        author: str,
        before: PartitionLeadership | None,
        after: PartitionLeadership,
    ) -> None:
        """I12: a replica that a move adds is elected from outside the ISR only where its controller
        knows of no live one that was there before.

        An added replica may be empty: all records would be cut, though others have them.
        """
        if before is None or after.leader in (-1, before.leader, *before.isr, *before.elr):
            return
        path = topic_path(at.topic)
        found = self._world.zookeeper.data(path)
        content = None if found is None else decode_topic(found[0], at.topic)
        if content is None or at not in content.reassignments:
            return
        adding = content.reassignments[at].adding
        others = [broker for broker in content.assignment[at] if broker not in adding]
        passed_over = [broker for broker in others if self._could_lead(author, broker)]
        if after.leader in adding and passed_over:
            self._report(
                at,
                "I12",
                f"{after.leader}, which a move adds, was elected from outside {list(before.isr)}; "
                f"{passed_over} were there before it, and live",
            )

    def _could_lead(self, author: str, broker: NodeId) -> bool:
        """Return whether the controller surely knows that the broker is live and has its disk."""
        found = self._world.zookeeper.data(broker_path(broker))
        if found is None or broker in self._failed:
            return False
        broker_epoch = found[1].czxid
        is_leaving = (broker, broker_epoch) in self._shutting_down
        return not is_leaving and self._knows(author, broker, broker_epoch)
