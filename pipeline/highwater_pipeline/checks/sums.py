"""Sums by which many rows are compared at once: equal rows have equal sums, in any order."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as fn

_HALF_BITS = 32


def sums_of(*columns: str) -> Column:
    """Return an aggregate of (rows, low, high): the number of rows, and sums of their hashes.

    low and high are the sums of the halves of the rows' 64-bit hashes of the columns. Two groups of
    different rows have equal sums by a chance of 2**-64.
    """
    hashed = fn.xxhash64(*columns)
    return fn.struct(
        fn.count(fn.lit(1)).alias("rows"),
        fn.sum(hashed.bitwiseAND(2**_HALF_BITS - 1)).alias("low"),
        fn.sum(fn.shiftright(hashed, _HALF_BITS)).alias("high"),
    )
