"""Clients' requests that wait until a topic has its leaders, or is gone."""

from __future__ import annotations

from collections.abc import Container, Iterable

from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import CommandResponse, LeaderAndIsrRequest
from highwater_core.runtime import Future

Done = Future[ErrorCode]
"""Set to NONE once the topic has its leaders or is gone, to REQUEST_TIMED_OUT when the controller
resigns first, to UNKNOWN_TOPIC_OR_PARTITION when it is deleted before it has its leaders, to
UNKNOWN_SERVER_ERROR when its deletion failed."""


class TopicWaits:
    """The waits of one term's requests.

    Creation: the leader of each partition has carried out its LeaderAndIsr, or the topic is gone.
    Deletion: the topic is removed, its deletion halts until a dead replica's broker returns, or it
    failed.
    """

    def __init__(self) -> None:
        self._creations: list[tuple[set[TopicPartition], Done]] = []
        self._deletions: dict[str, list[Done]] = {}
        """By topic."""

    def until_led(self, partitions: Iterable[TopicPartition], done: Done) -> None:
        """Set `done` once the leaders of all partitions have taken over."""
        self._creations.append((set(partitions), done))

    def until_deleted(self, topic: str, done: Done) -> None:
        """Set `done` once the topic's deletion has ended or halts."""
        self._deletions.setdefault(topic, []).append(done)

    def leader_answered(
        self, broker_id: NodeId, command: LeaderAndIsrRequest, response: CommandResponse
    ) -> None:
        """Handle a broker's answer: the partitions that it leads now."""
        if response.error is not ErrorCode.NONE or not self._creations:
            return
        leads = {item.topic_partition for item in command.partitions if item.leader == broker_id}
        led = {at for at, error in response.partition_errors if error is ErrorCode.NONE} & leads
        for unled, done in self._creations:
            unled -= led
            if not unled:
                done.set(ErrorCode.NONE)
        self._creations = [entry for entry in self._creations if entry[0]]

    def topics_listed(self, topics: Container[str]) -> None:
        """Answer the creations of topics that are not among these: they are deleted meanwhile."""
        gone = [done for unled, done in self._creations if not _are_of(topics, unled)]
        self._creations = [each for each in self._creations if _are_of(topics, each[0])]
        for done in gone:
            done.set(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def deletion_ended(self, topic: str, error: ErrorCode = ErrorCode.NONE) -> None:
        for done in self._deletions.pop(topic, ()):
            done.set(error)

    def abandon(self) -> None:
        """Answer every wait with an unknown outcome."""
        waiting = [done for _, done in self._creations]
        waiting += [done for of_topic in self._deletions.values() for done in of_topic]
        self._creations, self._deletions = [], {}
        for done in waiting:
            done.set(ErrorCode.REQUEST_TIMED_OUT)


def _are_of(topics: Container[str], partitions: Iterable[TopicPartition]) -> bool:
    return all(at.topic in topics for at in partitions)
