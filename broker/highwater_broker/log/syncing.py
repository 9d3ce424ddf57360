"""Distinguishes a failed sync from other errors of the disk."""

from __future__ import annotations

import errno
from collections.abc import Awaitable

_NOTHING_WAS_SYNCED = (errno.EMFILE, errno.ENFILE)
"""Errors of opening a folder without a free descriptor, before any access to the disk."""


class SyncFailed(OSError):
    """A sync failed: from now on the disk's contents are unknown, even if a later sync succeeds.

    Source: the kernel considers pages clean whose write failed (fsyncgate).
    """


async def synced(sync: Awaitable[None]) -> None:
    """Return once the sync of a file or folder is done.

    Raises:
        SyncFailed: it failed.
        OSError: it was not tried, for lack of a descriptor.
    """
    try:
        await sync
    except OSError as error:
        if error.errno in _NOTHING_WAS_SYNCED:
            raise
        raise SyncFailed(error.errno, f"sync: {error}") from error
