"""What is refused of an admin request without asking the controller. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

from highwater_broker.kafka_api.lookup import is_legal_topic_name
from highwater_broker.kafka_api.seams import CLIENT_LISTENERS
from highwater_broker.kafka_api.turns import Turns
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_wire.kafka.text import quoted

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Outcome(NamedTuple):
    """What became of something that a request names; message is "" where error is NONE."""

    error: ErrorCode
    message: str


def listener_refusal(listener: str) -> Outcome | None:
    """Return why clients' requests are not taken there, or None."""
    if listener in CLIENT_LISTENERS:
        return None
    return Outcome(ErrorCode.INVALID_REQUEST, f"not served on listener {listener}")


async def sort_out(
    items: Sequence[Item],
    key_of: Callable[[Item], Key],
    refusal: Callable[[Item], Outcome | None],
    turns: Turns,
) -> tuple[dict[Key, Outcome], list[Item]]:
    """Return the outcomes of the items that are refused, and the items that are not, in order.

    A key that occurs twice is refused: nobody could say which of the two is wanted.
    """
    named = Counter(map(key_of, items))
    refused: dict[Key, Outcome] = {}
    wanted: list[Item] = []

    def judge(item: Item) -> None:
        key = key_of(item)
        outcome = refusal(item)
        if named[key] > 1:
            message = f"the request names {quoted(str(key))} twice"
            outcome = Outcome(ErrorCode.INVALID_REQUEST, message)
        if outcome is None:
            wanted.append(item)
        else:
            refused[key] = outcome

    await turns.each(judge, items)
    return refused, wanted


def topic_refusal(name: str) -> Outcome | None:
    """Return why there can be no such topic, or None."""
    if is_legal_topic_name(name):
        return None
    return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic can be called {quoted(name)}")


def partition_refusal(partition: TopicPartition) -> Outcome | None:
    """Return why there can be no such partition, or None."""
    refused = topic_refusal(partition.topic)
    if refused is not None:
        return refused
    if partition.partition < 0:
        message = f"partition {partition.partition} is negative"
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return None


def replicas_refusal(partition: str, replicas: Sequence[NodeId]) -> Outcome | None:
    """Return why no partition can have such replicas, or None; partition is its name in a text."""
    if not replicas:
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{partition} has no replica")
    if len(set(replicas)) != len(replicas):
        twice = next(each for each, count in Counter(replicas).items() if count > 1)
        message = f"{partition} names broker {twice} twice"
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if min(replicas) < 0:
        message = f"{partition} names broker {min(replicas)}"
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return None
