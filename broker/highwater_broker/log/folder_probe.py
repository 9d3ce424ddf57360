"""Tries whether a log folder still takes and gives back what is written."""

from __future__ import annotations

import errno

from highwater_broker.log.checkpoints import TEMPORARY_SUFFIX
from highwater_core.ports import FileSystem

PROBE = f"probe{TEMPORARY_SUFFIX}"
"""Removed at the next start, as all temporary files are."""

_CONTENT = b"probe\n"
_NOT_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
"""Want of room or of descriptors: both come back without another disk."""


async def probe_folder(files: FileSystem) -> OSError | None:
    """Return why the disk does not serve: it refuses to write, sync or read a small file.

    Deviation: a full disk counts as one that serves, since retention makes room on it; in Kafka it
    has failed, as after any other error.
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
