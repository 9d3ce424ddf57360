"""Cuts long lists into pieces that neither block ZooKeeper nor a node's event loop. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from highwater_core.ports import MultiOp
from highwater_core.request_sizes import size_in_multi

I = TypeVar("I")  # noqa: E741 (an item)

MAX_OPERATIONS = 1_000
"""Of one multi: other requests wait behind it in ZooKeeper."""
MAX_BYTES = 250_000
"""Of one multi, far below ZooKeeper's bound."""
TOPICS_PER_STEP = 100
"""Of one request: topics that are created, or marked for deletion, at a time."""
PARTITIONS_PER_STEP = 250
"""Partitions that are brought up, or taken down, with their commands, at a time."""


def next_step(items: Sequence[I]) -> tuple[Sequence[I], Sequence[I]]:
    """Return the first PARTITIONS_PER_STEP of the items, and those that are left."""
    return items[:PARTITIONS_PER_STEP], items[PARTITIONS_PER_STEP:]


def pieces(items: Sequence[I]) -> Iterator[Sequence[I]]:
    """Yield the items in their order, PARTITIONS_PER_STEP at a time."""
    while items:
        some, items = next_step(items)
        yield some


def multis(groups: Iterable[Sequence[MultiOp]]) -> Iterator[list[MultiOp]]:
    """Yield the groups' operations in their order, as multis that are not too large.

    A group stays together; one that is too large by itself makes a multi of its own.
    """
    gathered: list[MultiOp] = []
    size_bytes = 0
    for group in groups:
        added_bytes = sum(map(size_in_multi, group))
        is_full = len(gathered) + len(group) > MAX_OPERATIONS
        if gathered and (is_full or size_bytes + added_bytes > MAX_BYTES):
            yield gathered
            gathered, size_bytes = [], 0
        gathered.extend(group)
        size_bytes += added_bytes
    if gathered:
        yield gathered
