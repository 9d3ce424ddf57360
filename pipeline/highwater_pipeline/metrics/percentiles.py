"""Percentiles of a column by group: exact in small tables, whichever engine computes them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as fn

PERCENTS = (50, 95, 99)
"""Those of every table of figures."""
_ACCURACY = 10_000
"""Of percentiles in large tables: one part in that many."""


def percentiles(name: str, percents: Sequence[int], *, are_small: bool) -> Column:
    """Return an aggregate: for each percent, the smallest value of the column that is not exceeded
    by that share of the values; null without values.

    are_small: all values of a group fit in one row. Otherwise the share is met to one part in
        10,000, by a sketch; engines differ in their sketches.
    """
    if not are_small:
        return fn.percentile_approx(name, [percent / 100 for percent in percents], _ACCURACY)
    in_order = fn.sort_array(fn.collect_list(name))
    count = fn.count(name)
    # In whole numbers: 0.07 times 100 is more than 7.
    places = (fn.floor((count * percent + 99) / 100).cast("int") - 1 for percent in percents)
    return fn.array(*(fn.get(in_order, place) for place in places))
