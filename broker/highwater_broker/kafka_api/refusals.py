"""Refusals in admin requests that need no controller. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

from highwater_broker.kafka_api.listeners import CLIENT_LISTENERS
from highwater_broker.kafka_api.lookup import is_legal_topic_name
from highwater_broker.kafka_api.turns import Turns
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_wire.kafka.text import quoted

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Outcome(NamedTuple):
    """The outcome of an item of a request; message is "" where error is NONE."""

    error: ErrorCode
    message: str


def listener_refusal(listener: str) -> Outcome | None:
    """Return why the listener does not take clients' requests, or None."""
    if listener in CLIENT_LISTENERS:
        return None
    return Outcome(ErrorCode.INVALID_REQUEST, f"not served on listener {listener}")


async def sort_out(
    items: Sequence[Item],
    key_of: Callable[[Item], Key],
    refusal: Callable[[Item], Outcome | None],
    turns: Turns,
) -> tuple[dict[Key, Outcome], list[Item]]:
    """Return the outcomes of refused items, and the other items, in order.

    A repeated key is refused, since it is unknown which entry is meant.
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
    """Return why the topic is invalid, or None."""
    if is_legal_topic_name(name):
        return None
    return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic can be called {quoted(name)}")


def partition_refusal(partition: TopicPartition) -> Outcome | None:
    """Return why the partition is invalid, or None."""
    refused = topic_refusal(partition.topic)
    if refused is not None:
        return refused
    if partition.partition < 0:
        message = f"partition {partition.partition} is negative"
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return None


def replicas_refusal(partition: str, replicas: Sequence[NodeId]) -> Outcome | None:
    """Return why the replicas are invalid, or None. partition: its name in the message."""
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
