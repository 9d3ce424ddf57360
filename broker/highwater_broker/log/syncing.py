"""Tells a sync that failed from every other refusal of the disk."""

from __future__ import annotations

from collections.abc import Awaitable


class SyncFailed(OSError):
    """From now on nobody knows what the disk has: a later sync may succeed without it.

    Source: the kernel takes pages for clean whose writing failed (fsyncgate).
    """


async def synced(sync: Awaitable[None]) -> None:
    """Return once the sync of a file or folder is done.

    Raises:
        SyncFailed: it failed.
    """
    try:
        await sync
    except OSError as error:
        raise SyncFailed(error.errno, f"sync: {error}") from error
