"""Medians with confidence intervals, and whether one group is slower than another.

Both use ranks alone: failover times are skewed and bounded by timeouts, far from a normal
distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

Z = 1.96
"""Of 95 %, two-sided."""
SLOWER, FASTER = "b is slower", "b is faster"
NOT_SHOWN, TOO_FEW = "no difference is shown", "too few values"
CONFIDENT_FROM = 6
"""With fewer values even the least and the greatest hold the median in less than 95 %."""


def medians(frame: DataFrame, by: Sequence[str], value: str) -> DataFrame:
    """Return one row a group: count, median, and the median's 95 % interval, low to high.

    The interval's ends are order statistics, by the normal approximation of the binomial
    distribution; null with fewer than six values. Rows whose value is null are left out.
    """
    values = frame.where(fn.col(value).isNotNull())
    group = Window.partitionBy(*by)
    ranked = values.withColumns(
        {
            "_rank": fn.row_number().over(group.orderBy(value)),
            "_count": fn.count(fn.lit(1)).over(group),
        }
    )
    half, reach = fn.col("_count") / 2, Z * fn.sqrt(fn.col("_count")) / 2
    low_rank = fn.greatest(fn.floor(half - reach), fn.lit(1))
    high_rank = fn.least(fn.ceil(half + reach) + 1, fn.col("_count"))
    is_confident = fn.col("count") >= CONFIDENT_FROM
    return (
        ranked.groupBy(*by)
        .agg(
            fn.count(fn.lit(1)).alias("count"),
            fn.median(value).alias("median"),
            _at(low_rank, value).alias("_low"),
            _at(high_rank, value).alias("_high"),
        )
        .withColumn("low", fn.when(is_confident, fn.col("_low")))
        .withColumn("high", fn.when(is_confident, fn.col("_high")))
        .drop("_low", "_high")
    )


def _at(rank: Column, value: str) -> Column:
    return fn.max(fn.when(fn.col("_rank") == rank, fn.col(value)))


def comparison(frame: DataFrame, side: str, value: str, by: Sequence[str] = ()) -> DataFrame:
    """Return one row a group: whether the side "b" has greater values than "a".

    By Mann and Whitney's test, without a correction for ties, which makes it more cautious.
    side: a column that is "a" or "b".

    Columns: those of by, and
        count_a, count_b, median_a, median_b.
        b_is_greater: the share of pairs in which b's value is greater; ties count half, so 0.5 is
            no difference.
        z.
        verdict: of this test alone: SLOWER, FASTER, NOT_SHOWN, or TOO_FEW with fewer than eight
            values on a side.
    Without values on one side: TOO_FEW and nulls. Without values on both: no row, but one row where
    by is empty.
    """
    values = frame.where(fn.col(value).isNotNull()).select(*by, side, value)
    by_value = Window.partitionBy(*by).orderBy(value)
    ties = Window.partitionBy(*by, value)
    ranked = values.withColumn("_place", fn.row_number().over(by_value)).withColumn(
        "_rank", fn.avg("_place").over(ties)
    )
    is_a, is_b = fn.col(side) == "a", fn.col(side) == "b"
    sums = ranked.groupBy(*by).agg(
        fn.count(fn.when(is_a, 1)).alias("count_a"),
        fn.count(fn.when(is_b, 1)).alias("count_b"),
        fn.median(fn.when(is_a, fn.col(value))).alias("median_a"),
        fn.median(fn.when(is_b, fn.col(value))).alias("median_b"),
        fn.sum(fn.when(is_b, fn.col("_rank"))).alias("_ranks"),
    )
    a, b = fn.col("count_a"), fn.col("count_b")
    pairs, greater = a * b, fn.col("_ranks") - b * (b + 1) / 2
    spread = fn.sqrt(pairs * (a + b + 1) / 12)
    z = (greater - pairs / 2) / spread
    has_both = (a > 0) & (b > 0)
    return (
        sums.withColumn("b_is_greater", fn.when(has_both, greater / pairs))
        .withColumn("z", fn.when(has_both, z))
        .withColumn("verdict", _verdict(a, b))
        .drop("_ranks")
    )


COMPARABLE_FROM = 8
"""Values on each side from which on the normal law stands in for the test's own."""


def _verdict(count_a: Column, count_b: Column) -> Column:
    return (
        fn.when(fn.least(count_a, count_b) < COMPARABLE_FROM, fn.lit(TOO_FEW))
        .when(fn.col("z") > Z, fn.lit(SLOWER))
        .when(fn.col("z") < -Z, fn.lit(FASTER))
        .otherwise(fn.lit(NOT_SHOWN))
    )
