"""The replicas that the disk refuses, each with its command's number. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from highwater_broker.logic.command_fencing import NO_COMMAND, CommandNumber
from highwater_core.ids import TopicPartition


class RefusedReplicas:
    """The replicas that the disk refused to start, and those whose folder failed.

    Such a partition has no replica whose leader epoch would show that an earlier command's copy is
    late: the latest command's number does. Replicas in a failed folder are refused until the broker
    starts again; others may be possible at the next command.
    """

    def __init__(self) -> None:
        self._numbers: dict[TopicPartition, CommandNumber] = {}
        self._failed: dict[TopicPartition, None] = {}
        self._is_news = False

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._numbers or key in self._failed

    @property
    def is_news(self) -> bool:
        """Whether a replica was refused since `take_news` that may be possible later."""
        return self._is_news

    def take_news(self) -> None:
        self._is_news = False

    def keep(self, key: TopicPartition, number: CommandNumber) -> None:
        """Note that the disk refused the replica of the command with this number."""
        self._numbers[key] = number
        self._is_news = True

    def stop(self, key: TopicPartition, number: CommandNumber) -> None:
        """Note that a refused replica was stopped since: earlier commands are late."""
        if key in self._numbers:
            self._numbers[key] = max(number, self._numbers[key])

    def fail(self, keys: Iterable[TopicPartition]) -> None:
        """Note that the replicas' folder has failed."""
        self._failed.update(dict.fromkeys(keys))

    def has_failed(self, key: TopicPartition) -> bool:
        """Return whether the replica is in a folder that failed."""
        return key in self._failed

    def has_later(self, key: TopicPartition, number: CommandNumber) -> bool:
        """Return whether the partition had a command after the one with this number."""
        return number < self._numbers.get(key, NO_COMMAND)

    def drop(self, key: TopicPartition, number: CommandNumber) -> None:
        """Forget a refusal unless it came after the command with this number."""
        if not self.has_later(key, number):
            self._numbers.pop(key, None)
