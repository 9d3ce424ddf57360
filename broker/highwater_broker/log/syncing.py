"""Tells a sync that failed from every other refusal of the disk."""

from __future__ import annotations

import errno
from collections.abc import Awaitable

_NOTHING_WAS_SYNCED = (errno.EMFILE, errno.ENFILE)
"""What opening a folder meets where no descriptor is left, before anything is asked of the disk."""


class SyncFailed(OSError):
    """From now on nobody knows what the disk has: a later sync may succeed without it.

    Source: the kernel takes pages for clean whose writing failed (fsyncgate).
    """


async def synced(sync: Awaitable[None]) -> None:
    """Return once the sync of a file or folder is done.

    Raises:
        SyncFailed: it failed.
        OSError: it was not tried, for want of a descriptor.
    """
    try:
        await sync
    except OSError as error:
        if error.errno in _NOTHING_WAS_SYNCED:
            raise
        raise SyncFailed(error.errno, f"sync: {error}") from error
