"""The checker's own codec of record batches: kafka-python's, the only module that imports it."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # It reads its schemas by an old call of the standard library, 200 times.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import CorruptRecordError
    from kafka.record import MemoryRecords, MemoryRecordsBuilder
    from kafka.record.default_records import DefaultRecordBatch

__all__ = [
    "CorruptRecordError",
    "DefaultRecordBatch",
    "MemoryRecords",
    "MemoryRecordsBuilder",
]
