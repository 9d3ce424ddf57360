"""Keeps the commands that the disk refused, to carry them out again. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from highwater_broker.logic.command_fencing import CommandNumber, number_of
from highwater_core.ids import TopicPartition
from highwater_core.messages import LeaderAndIsrPartition, LeaderAndIsrRequest


class RefusedCommands:
    """The latest command to each partition that the disk refused to start.

    Such a partition has no replica whose leader epoch would show that an earlier command's copy
    is late. The copy must not replace the later command, which the controller does not repeat.
    """

    def __init__(self) -> None:
        self._kept: dict[TopicPartition, LeaderAndIsrRequest] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._kept

    def keep(self, request: LeaderAndIsrRequest, command: LeaderAndIsrPartition) -> None:
        """Keep what the request tells one partition."""
        kept = replace(request, is_init=False, partitions=(command,))
        self._kept[command.topic_partition] = kept

    def has_later(self, key: TopicPartition, number: CommandNumber) -> bool:
        """Return whether the partition's command was sent after the one with this number."""
        kept = self._kept.get(key)
        return kept is not None and number < number_of(kept)

    def drop(self, key: TopicPartition, number: CommandNumber) -> None:
        """Forget the partition's command unless it was sent after the one with this number."""
        if not self.has_later(key, number):
            self._kept.pop(key, None)

    def all(self) -> dict[TopicPartition, LeaderAndIsrRequest]:
        """Return a copy: what is kept now, by partition."""
        return dict(self._kept)

    def drop_same(self, commands: dict[TopicPartition, LeaderAndIsrRequest]) -> None:
        """Forget these very commands; one that was kept since for the same partition stays."""
        for key, request in commands.items():
            if self._kept.get(key) is request:
                del self._kept[key]


def together(requests: Iterable[LeaderAndIsrRequest]) -> list[LeaderAndIsrRequest]:
    """Return one command for all that differ by their partitions only, in order of the first."""
    found: dict[LeaderAndIsrRequest, list[LeaderAndIsrPartition]] = {}
    for request in requests:
        found.setdefault(replace(request, partitions=()), []).extend(request.partitions)
    return [replace(request, partitions=tuple(some)) for request, some in found.items()]
