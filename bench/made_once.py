"""Folders that are made once for a working tree, whichever process asks first."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from pathlib import Path

from highwater.project import project_root


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of the name in the tree's cache, made when it is not there yet.

    One folder is made at a time: two runs of Maven share a repository, and other processes that ask
    for the same folder wait until it is made. If make fails, nothing stays and the next one tries.

    make: makes and fills the folder, within a bound of its own; its parent exists.
    """
    cache = project_root() / ".cache"
    cache.mkdir(exist_ok=True)
    folder = cache / name
    with (cache / "made-once.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache) as work:
                made = Path(work) / name
                make(made)
                made.rename(folder)
    return folder
