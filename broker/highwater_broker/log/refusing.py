"""Turns a disk's OSError into a LogRefused of the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from highwater_broker.log.record_batch import LogRefused
from highwater_core.errors import ErrorCode


@contextmanager
def refusing(folder: str) -> Iterator[None]:
    """Run the block; raise LogRefused, KAFKA_STORAGE_ERROR, where it raises OSError."""
    try:
        yield
    except OSError as error:
        raise refused_by_disk(folder, error) from error


def refused_by_disk(folder: str, error: Exception) -> LogRefused:
    return LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"{folder}: {error!r}")
