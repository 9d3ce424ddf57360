"""Removes a deleted topic's znodes, a bounded number at a time.

Ordering: the znodes below are removed first, a piece at a time; the topic's own znode, its
configuration and the request in /admin/delete_topics last, together. So a controller that reads in
between finds a topic with its whole assignment and a request to delete it, and begins again:
removing a missing znode is no error.
"""

from __future__ import annotations

from highwater_controller.chunks import multis
from highwater_controller.store import ControllerStore
from highwater_core import znodes
from highwater_core.ports import DeleteOp, NotEmpty

MAX_ROUNDS = 10
"""Most rounds, since others may create znodes below meanwhile."""


async def remove_topic(store: ControllerStore, topic: str) -> None:
    """Remove all znodes of the topic, and the request to delete it.

    Raises:
        NotEmpty: others go on creating znodes below them.
        CoordinationError: the rest is left, and may be removed later.
    """
    await _remove_partitions(store, topic)
    roots = [
        znodes.topic_path(topic),
        znodes.topic_config_path(topic),
        znodes.delete_topic_path(topic),
    ]
    for _ in range(MAX_ROUNDS):
        present = [path for path in roots if await store.exists(path) is not None]
        for path in present:
            await _remove_below(store, path)
        if not present or await store.delete_together(present):
            return
    raise NotEmpty(f"{roots[0]}: something is written below it again and again")


async def _remove_partitions(store: ControllerStore, topic: str) -> None:
    """Remove a topic's usual znodes: a state below each partition, and no others.

    Partitions with missing or further znodes are left to _remove_below.
    """
    parent = znodes.partitions_path(topic)
    names = await store.children(parent)
    groups = ((DeleteOp(f"{parent}/{name}/state"), DeleteOp(f"{parent}/{name}")) for name in names)
    for operations in multis(groups):
        await store.delete_together([operation.path for operation in operations])


async def _remove_below(store: ControllerStore, path: str) -> None:
    """Remove all below the path, the deepest first."""
    doomed = await _below(store, path)
    for operations in multis((DeleteOp(each),) for each in doomed):
        paths = [operation.path for operation in operations]
        if not await store.delete_together(paths):
            for each in paths:
                await _delete_if_empty(store, each)


async def _below(store: ControllerStore, path: str) -> list[str]:
    """Return all paths below this one, children before their parents."""
    found: list[str] = []
    level = [path]
    while level:
        names = await store.each(level, store.children)
        level = [
            f"{parent}/{name}"
            for parent, children in zip(level, names, strict=True)
            for name in children
        ]
        found.extend(level)
    return found[::-1]


async def _delete_if_empty(store: ControllerStore, path: str) -> None:
    try:
        await store.delete(path)
    except NotEmpty:
        return  # the next round finds the znodes below it
