"""Several queries at once: one is planned while another one's stages run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

AT_ONCE = 2


@contextmanager
def queries_at_once() -> Iterator[ThreadPoolExecutor]:
    """Give a pool; what is still queued when the block ends with an error is never begun."""
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
