"""A test with a cluster that hangs: how it is known, ended and explained by stacks."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.stacks import all_stacks
from highwater.waiting import NeverHappened

STACKS_TOLD = pytest.StashKey[dict[str, str]]()
"""Of an item that hung: stacks by run id, from the moment at which its time was over."""
_OF_PYTEST_TIMEOUT = "Timeout "
_SIGNAL = signal.SIGUSR2
"""Not SIGINT, which workers of pytest-xdist ignore, and which Ctrl-C sends too."""


class _TimeIsOver(BaseException):
    """No test catches it, as none catches KeyboardInterrupt."""


def _end(number: int, frame: object) -> None:
    raise _TimeIsOver


def is_a_waits_end(error: BaseException) -> bool:
    """Return whether the error, or one that it came from, says that a wait was too long.

    pytest-timeout's has no type of its own.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, NeverHappened | TimeoutError | subprocess.TimeoutExpired):
            return True
        if isinstance(seen, pytest.fail.Exception) and str(seen).startswith(_OF_PYTEST_TIMEOUT):
            return True
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return False


@contextmanager
def ends_when_it_hangs(
    item: pytest.Item, clusters: Sequence[Cluster], after_s: float
) -> Iterator[None]:
    """Fail the block, in the main thread, when it takes longer, and stash the stacks before.

    A call of C code that waits is not interrupted; the block fails when it returns.

    Raises:
        pytest.fail.Exception: it took longer.
    """
    is_over, gate = threading.Event(), threading.Lock()

    def interrupt() -> None:
        if is_over.wait(after_s):
            return
        own = say_own_stacks()
        item.stash[STACKS_TOLD] = {each.run_id: own + all_stacks(each) for each in clusters}
        with gate:  # not once the block has ended: it would be the next test's interrupt
            if not is_over.is_set():
                signal.pthread_kill(main, _SIGNAL)

    main = threading.get_ident()
    before = signal.signal(_SIGNAL, _end)
    watch = threading.Thread(target=interrupt, name="hang", daemon=True)
    try:
        try:
            watch.start()
            yield
        finally:
            try:
                with gate:
                    is_over.set()
            finally:  # the time may be over in this moment, too
                is_over.set()
                watch.join()
                signal.signal(_SIGNAL, before)
    except _TimeIsOver:
        pytest.fail(f"{_OF_PYTEST_TIMEOUT}(>{after_s:g}s): the test hangs")


def say_own_stacks() -> str:
    """Return the stacks of this process's threads, the main one's first; last calls last."""
    main = threading.main_thread().ident
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    said = [
        f"Thread {names.get(ident, ident)} (most recent call last):\n"
        + "".join(traceback.format_stack(frame))
        for ident, frame in sorted(
            sys._current_frames().items(), key=lambda each: (each[0] != main, each[0])
        )
        if ident != threading.get_ident()
    ]
    return "--- the test\n" + "".join(said)
