"""Places for clusters: workers of pytest-xdist have no more at once than the cores can run.

A cluster without processor time loses its ZooKeeper sessions, and its test fails by the machine.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from highwater.errors import HarnessError
from highwater.testing.verdicts import AT_ONCE, CORES_PER_WORKER, cores_of_engine

_RUN, _WORKERS = "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER_COUNT"
WITHIN_S = 3_600.0
"""How long a test waits for its place: as long as others' tests may take."""
_POLL_S = 0.1

_had_one = False
"""Whether this process had a place before: then others, who look now and then, come first."""
_held: list[socket.socket] = []
"""This process's place. All of its clusters share it, so that none waits for another of them."""
_clusters = 0


def places(environment: dict[str, str], cores: int) -> int:
    """Return how many clusters may be up at once, 0 for any number.

    cores: of the engine's machine, 0 if they are not known.

    Raises:
        HarnessError: the variable is no number of clusters.
    """
    told = environment.get(AT_ONCE, "")
    if told and not (told.isascii() and told.isdecimal() and int(told)):
        raise HarnessError(f"{AT_ONCE}={told}: a number of clusters is meant, from 1 on")
    most = int(told) if told else max(1, cores // CORES_PER_WORKER) if cores else 0
    workers = int(environment.get(_WORKERS, "1"))
    return most if most < workers else 0


@contextmanager
def place_for_cluster(
    within_s: float = WITHIN_S,
    sleep: Callable[[float], None] = time.sleep,
    *,
    is_worker: bool = True,
) -> Iterator[None]:
    """Wait for a place, and hold it for the block; a process that has one waits for no other.

    It is free again when its process ends, however it ends.

    is_worker: of pytest-xdist; a pytest that one of its tests starts waits for no place.

    Raises:
        HarnessError: there was no place in time.
    """
    global _clusters, _had_one
    most = places({**os.environ}, cores_of_engine()) if is_worker else 0
    if most and not _held:
        if _had_one:
            sleep(2 * _POLL_S)
        _held.append(_await_place(most, within_s, sleep))
        _had_one = True
    _clusters += 1
    try:
        yield
    finally:
        _clusters -= 1
        if _held and not _clusters:
            _held.pop().close()


def _await_place(most: int, within_s: float, sleep: Callable[[float], None]) -> socket.socket:
    waited_s = 0.0
    while True:
        for number in range(most):
            if taken := _take(number):
                return taken
        if waited_s >= within_s:
            raise HarnessError(
                f"no place for a cluster within {within_s:g} s: {most} may be up at once: {AT_ONCE}"
            )
        sleep(_POLL_S)
        waited_s += _POLL_S


def _take(number: int) -> socket.socket | None:
    """Return the place of that number, None if another process has it.

    It is an address of Linux's abstract names, which one process has at a time and loses when it
    ends; it leaves no file.
    """
    taken = socket.socket(socket.AF_UNIX)
    try:
        taken.bind(f"\0highwater-place-{os.environ.get(_RUN, '')}-{number}")
    except OSError as error:
        taken.close()
        if error.errno != errno.EADDRINUSE:
            raise HarnessError(f"no place for a cluster: {error}") from error
        return None
    return taken
