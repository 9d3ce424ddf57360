"""Several queries at once: one is planned while the stages of another run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

AT_ONCE = 2


@contextmanager
def queries_at_once() -> Iterator[ThreadPoolExecutor]:
    """Give a pool of threads. If the block ends with an error, queued queries never begin."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
