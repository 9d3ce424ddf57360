"""What a broker's answer to LeaderAndIsr says of its disks. Pure.

Source: KIP-112; Kafka's KafkaController.processLeaderAndIsrResponseReceived.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class DiskAnswer:
    """refused: replicas that the disk refuses; accepted: those that it refused before."""

    refused: tuple[TopicPartition, ...]
    accepted: tuple[TopicPartition, ...]

    def __bool__(self) -> bool:
        return bool(self.refused or self.accepted)


def read_answer(
    errors: Iterable[tuple[TopicPartition, ErrorCode]], refused_before: Set[TopicPartition]
) -> DiskAnswer:
    """Return what is new by the answer; errors that are not the disk's say nothing of it.

    A replica that is refused once more is listed again: whoever sent the command took it for one
    that may be there.
    """
    answers = list(errors)
    return DiskAnswer(
        refused=tuple(at for at, error in answers if error is ErrorCode.KAFKA_STORAGE_ERROR),
        accepted=tuple(
            at for at, error in answers if error is ErrorCode.NONE and at in refused_before
        ),
    )
