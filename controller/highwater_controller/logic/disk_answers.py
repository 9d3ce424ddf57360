"""Reads the state of a broker's disks from its LeaderAndIsr answer. Pure.

Source: KIP-112; Kafka's KafkaController.processLeaderAndIsrResponseReceived.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class DiskAnswer:
    """refused: replicas that the disk refuses.
    accepted: replicas that it refused before."""

    refused: tuple[TopicPartition, ...]
    accepted: tuple[TopicPartition, ...]

    def __bool__(self) -> bool:
        return bool(self.refused or self.accepted)


def read_answer(
    errors: Iterable[tuple[TopicPartition, ErrorCode]], refused_before: Set[TopicPartition]
) -> DiskAnswer:
    """Return the changes in the answer; other errors than the disk's do not count.

    A replica that is refused once more is listed again: the command was sent on the assumption that
    it may be there.
    """
    answers = list(errors)
    return DiskAnswer(
        refused=tuple(at for at, error in answers if error is ErrorCode.KAFKA_STORAGE_ERROR),
        accepted=tuple(
            at for at, error in answers if error is ErrorCode.NONE and at in refused_before
        ),
    )
