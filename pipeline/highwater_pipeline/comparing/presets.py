"""Presets side by side over campaigns of the same schedules: losses, outages, and requests.

The definitions of a loss and a cut are LOSSES and CUTS; everything else is a sum of columns of
SCHEDULES.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.campaign.state import Settings
from highwater_pipeline.campaign.tables import DATA_VERSION
from highwater_pipeline.tables import Row

LOSSES = ("I1", "I2", "I3", "I4", "I9", "I14", "I22")
"""Violations in which committed records, or committed offsets, are lost or differ. A run ends with
its first violation: I4 is a leader that lacks committed records, before anybody misses them."""
CUTS = ("I11",)
"""Violations in which a member of the ISR removes committed records that others still have: they
are lost if it leads next. A run ends before that is seen."""
CERTAIN_Z = 1.96
"""Of an interval that holds the true share with 95 %."""


class CannotCompare(Exception):
    """The campaigns are not of the same schedules; the message says why."""


@dataclass(frozen=True, slots=True)
class PresetCosts:
    """Presets over the same schedules.

    rows: as `costs_of` returns them. bugs: as `bugs_of`. schedules: that all of them have.
    notes: doubts, such as campaigns of other code.
    """

    rows: tuple[Row, ...]
    bugs: tuple[Row, ...]
    schedules: int
    notes: tuple[str, ...] = ()


def compare_presets(schedules: DataFrame, settings: Mapping[str, Settings]) -> PresetCosts:
    """Compare campaigns, one a preset, over the schedules that each of them finished.

    schedules: rows of SCHEDULES of these campaigns.
    settings: by campaign, in the order in which their presets are shown.

    Raises:
        CannotCompare: fewer than two campaigns, two of one preset, one with a planted bug, or no
            schedule that all have.
    """
    _check(settings)
    presets = [each.preset for each in settings.values()]
    common = _common(schedules, len(presets)).cache()
    try:
        summed = {row["preset"]: row.asDict() for row in _sums(common).collect()}
        by_row = [row.asDict() for row in _by_row(common).collect()]
    finally:
        common.unpersist()
    if len(summed) < len(presets):
        raise CannotCompare("no schedule has an outcome in every campaign: take the same seeds")
    rows = tuple(costs_of(summed[preset]) for preset in presets)
    return PresetCosts(
        rows=rows,
        bugs=bugs_of(by_row, presets),
        schedules=rows[0]["schedules"],
        notes=tuple(_notes(settings, rows[0]["schedules"])),
    )


def _check(settings: Mapping[str, Settings]) -> None:
    if len(settings) < 2:
        raise CannotCompare("at least two campaigns are compared: name one of each preset")
    for preset, count in Counter(each.preset for each in settings.values()).items():
        if count > 1:
            raise CannotCompare(f"{count} of the campaigns are of preset {preset}: name one")
    for name, each in settings.items():
        if each.planted:
            raise CannotCompare(f"campaign {name} has the planted bug {each.planted}")
        if each.data_version != DATA_VERSION:
            raise CannotCompare(f"campaign {name} is of another version: run it again")


def _notes(settings: Mapping[str, Settings], common: int) -> list[str]:
    notes = []
    if len({each.code for each in settings.values()}) > 1:
        codes = ", ".join(f"{each.preset} {each.code[:8]}" for each in settings.values())
        notes.append(f"The campaigns ran other code ({codes}): a difference may come from that.")
    if any(each.schedules != common for each in settings.values()):
        counts = ", ".join(f"{each.preset} {each.schedules:,}" for each in settings.values())
        notes.append(f"Only the {common:,} schedules that all finished count; of {counts}.")
    return notes


def _common(schedules: DataFrame, presets: int) -> DataFrame:
    """Return the rows of schedules that every preset finished."""
    finished = schedules.where(fn.col("outcome") != "lost")
    everywhere = (
        finished.groupBy("seed", "family")
        .agg(fn.count_distinct("preset").alias("presets"))
        .where(fn.col("presets") == presets)
        .drop("presets")
    )
    return finished.join(everywhere, ["seed", "family"])


def _sums(common: DataFrame) -> DataFrame:
    totals = ("leader_changes", "control_calls", "zookeeper_requests", "unavailable_ns")
    return common.groupBy("preset").agg(
        fn.count("*").alias("schedules"),
        fn.count_if(fn.col("invariant").isin(*LOSSES)).alias("losing"),
        fn.count_if(fn.col("invariant").isin(*CUTS)).alias("cutting"),
        fn.count_if(fn.col("invariant").isNotNull()).alias("violating"),
        fn.count_if(fn.col("outcome") == "fail").alias("failing"),
        fn.sum(fn.size("fired")).alias("faults"),
        *(fn.sum(name).alias(name) for name in totals),
    )


def _by_row(common: DataFrame) -> DataFrame:
    """Return preset, row, and the number of schedules whose violation the row explains."""
    named = common.select("preset", fn.explode("rows").alias("row"))
    return named.groupBy("preset", "row").agg(fn.count("*").alias("schedules"))


def costs_of(summed: Row) -> Row:
    """Return a preset's figures from the sums over its schedules.

    Columns:
        preset, schedules, faults (that acted), leader_changes.
        losing: schedules that lose something (LOSSES); losing_per_1000, low, high: a thousand
            schedules, with the interval of 95 %. cutting, cutting_per_1000, cutting_low,
            cutting_high: likewise, of those in which a replica cuts committed records off (CUTS).
        violating: schedules with any violation; failing: those that no historical bug explains.
        unavailable_ms_per_fault: without acknowledgements, summed over partitions.
        control_calls_per_leader_change, zookeeper_requests_per_leader_change: while faults act,
            all requests divided by all leader changes; None without any change.
    """
    schedules, losing, cutting = summed["schedules"], summed["losing"], summed["cutting"]
    low, high = share_between(losing, schedules)
    cutting_low, cutting_high = share_between(cutting, schedules)
    names = ("preset", "schedules", "faults", "leader_changes", "losing", "cutting")
    return {
        **{name: summed[name] for name in names},
        "losing_per_1000": 1000 * losing / schedules,
        "low": 1000 * low,
        "high": 1000 * high,
        "cutting_per_1000": 1000 * cutting / schedules,
        "cutting_low": 1000 * cutting_low,
        "cutting_high": 1000 * cutting_high,
        "violating": summed["violating"],
        "failing": summed["failing"],
        "unavailable_ms_per_fault": _per(summed["unavailable_ns"] / 1e6, summed["faults"]),
        **{
            f"{name}_per_leader_change": _per(summed[name], summed["leader_changes"])
            for name in ("control_calls", "zookeeper_requests")
        },
    }


def _per(total: float, count: int) -> float | None:
    return total / count if count else None


def share_between(count: int, of: int) -> tuple[float, float]:
    """Return the interval that holds the true share with 95 % (Wilson's score interval)."""
    share, square = count / of, CERTAIN_Z**2
    middle = share + square / (2 * of)
    half = CERTAIN_Z * sqrt(share * (1 - share) / of + square / (4 * of * of))
    low, high = ((middle + way * half) / (1 + square / of) for way in (-1, 1))
    return max(0.0, low) if count else 0.0, min(1.0, high)


def bugs_of(by_row: Sequence[Row], presets: Sequence[str]) -> tuple[Row, ...]:
    """Return one row a historical bug, with the schedules of each preset that it explains.

    Columns: row (of the catalogue), then a column a preset. Sort key: row. A violation that several
    bugs explain counts for each of them.
    """
    counts = {(each["row"], each["preset"]): each["schedules"] for each in by_row}
    rows = sorted({row for row, _ in counts})
    return tuple(
        {"row": row, **{preset: counts.get((row, preset), 0) for preset in presets}} for row in rows
    )
