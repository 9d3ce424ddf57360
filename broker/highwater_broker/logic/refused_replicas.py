"""Remembers which replicas the disk refuses, and by which command. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from highwater_broker.logic.command_fencing import NO_COMMAND, CommandNumber
from highwater_core.ids import TopicPartition


class RefusedReplicas:
    """The replicas that the disk refused to start, and those whose folder failed.

    Such a partition has no replica whose leader epoch would show that an earlier command's copy is
    late: the latest command's number does. What is in a failed folder is refused until the broker
    starts again; anything else may be possible at the next command.
    """

    def __init__(self) -> None:
        self._numbers: dict[TopicPartition, CommandNumber] = {}
        self._failed: dict[TopicPartition, None] = {}
        self._is_news = False

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._numbers or key in self._failed

    @property
    def is_news(self) -> bool:
        """Whether something was refused since `take_news`, and may be possible later."""
        return self._is_news

    def take_news(self) -> None:
        self._is_news = False

    def keep(self, key: TopicPartition, number: CommandNumber) -> None:
        """Take note that the disk refused what the command with this number asks for."""
        self._numbers[key] = number
        self._is_news = True

    def stop(self, key: TopicPartition, number: CommandNumber) -> None:
        """Take note that a refused replica was stopped since: what came before it is late."""
        if key in self._numbers:
            self._numbers[key] = max(number, self._numbers[key])

    def fail(self, keys: Iterable[TopicPartition]) -> None:
        """Take note that the replicas' folder has failed."""
        self._failed.update(dict.fromkeys(keys))

    def has_failed(self, key: TopicPartition) -> bool:
        """Return whether the replica is in a folder that failed."""
        return key in self._failed

    def has_later(self, key: TopicPartition, number: CommandNumber) -> bool:
        """Return whether the partition was commanded after the command with this number."""
        return number < self._numbers.get(key, NO_COMMAND)

    def drop(self, key: TopicPartition, number: CommandNumber) -> None:
        """Forget a refusal unless it came after the command with this number."""
        if not self.has_later(key, number):
            self._numbers.pop(key, None)
