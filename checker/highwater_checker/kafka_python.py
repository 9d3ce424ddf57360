"""The checker's own codec of record batches: kafka-python's, the only module that imports it."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # It reads its 200 schemas by a deprecated call of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import CorruptRecordError
    from kafka.record import MemoryRecords, MemoryRecordsBuilder
    from kafka.record.default_records import DefaultRecord, DefaultRecordBatch

__all__ = [
    "CorruptRecordError",
    "DefaultRecord",
    "DefaultRecordBatch",
    "MemoryRecords",
    "MemoryRecordsBuilder",
]
