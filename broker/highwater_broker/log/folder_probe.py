"""Tries whether a log folder can still be written and read."""

from __future__ import annotations

import errno

from highwater_broker.log.checkpoints import TEMPORARY_SUFFIX
from highwater_core.ports import FileSystem

PROBE = f"probe{TEMPORARY_SUFFIX}"
"""Removed at the next start, as all temporary files are."""

_CONTENT = b"probe\n"
_NOT_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Lack of space or of descriptors: both pass without another disk."""


async def probe_folder(files: FileSystem) -> OSError | None:
    """Return the error of writing, syncing and reading a small file, None without one.

    Deviation: a full disk counts as working, since retention makes room on it; in Kafka it has
    failed, as after any other error.
    """
    try:
        file = files.open(PROBE)
        try:
            file.truncate(0)
            file.append([_CONTENT])
            await file.sync()
            found = file.pread(0, len(_CONTENT))
        finally:
            file.close()
        files.remove(PROBE)
    except OSError as error:
        return None if error.errno in _NOT_THE_DISK else error
    return None if found == _CONTENT else OSError(errno.EIO, "another content", PROBE)
