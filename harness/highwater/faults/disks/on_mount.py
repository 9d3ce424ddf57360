"""Runs in a broker's container, on its mounted disk: does operations until one is refused.

A program of its own, as on_volume.py: python3 -c TEXT FOLDER OPERATION TRIES. It writes its report,
JSON, to standard output.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROBE, RENAMED = ".disk-probe", ".disk-probe-renamed"
"""Names that are no partition's, so that no broker takes them for one."""


def main(folder: str, operation: str, tries: str) -> dict[str, Any]:
    """Return the error's name ("" for none), how many operations were tried, the slowest's ms."""
    slowest_ns, refused, tried = 0, "", 0
    while not refused and tried < int(tries):
        tried += 1
        begun_ns = time.monotonic_ns()
        try:
            _PROBES[operation](Path(folder))
        except OSError as error:
            refused = errno.errorcode.get(error.errno or 0, str(error))
        slowest_ns = max(slowest_ns, time.monotonic_ns() - begun_ns)
    for name in (PROBE, RENAMED):
        with contextlib.suppress(OSError):  # removals may be refused; a later probe removes it
            (Path(folder) / name).unlink(missing_ok=True)
    return {"refused": refused, "tried": tried, "slowest_ms": slowest_ns // 1_000_000}


def _append(folder: Path) -> None:
    with (folder / PROBE).open("ab", buffering=0) as file:
        file.write(b"probe")


def _read(folder: Path) -> None:
    _append(folder)
    # Opened anew, the kernel has no bytes of it to answer with.
    with (folder / PROBE).open("rb", buffering=0) as file:
        file.read(1)


def _truncate(folder: Path) -> None:
    _append(folder)
    os.truncate(folder / PROBE, 0)


def _sync(folder: Path) -> None:
    with (folder / PROBE).open("ab", buffering=0) as file:
        file.write(b"probe")
        os.fsync(file.fileno())


def _rename(folder: Path) -> None:
    _append(folder)
    (folder / PROBE).rename(folder / RENAMED)


def _remove(folder: Path) -> None:
    _append(folder)
    (folder / PROBE).unlink()


_PROBES: dict[str, Callable[[Path], None]] = {
    "append": _append,
    "read": _read,
    "truncate": _truncate,
    "sync": _sync,
    "rename": _rename,
    "remove": _remove,
}

if __name__ == "__main__":
    json.dump(main(*sys.argv[1:]), sys.stdout)
