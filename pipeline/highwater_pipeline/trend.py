"""Failover times of builds, one after the other; the last build compared with the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from highwater_pipeline.comparing.sides import (
    Comparison,
    NoSuchValue,
    compare_groups,
    measuring,
    read_runs,
    value_of,
)
from highwater_pipeline.comparing.values import LATENCY, TOTAL
from highwater_pipeline.tables import Row, Tables

SHOWN = (TOTAL, LATENCY)
"""The measures of which a trend shows each build's median."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Builds, ordered by the times of their first runs."""

    by: str
    fault: str | None
    builds: tuple[Row, ...]
    """As builds_of returns them."""
    rows: tuple[Row, ...]
    """SHOWN measures by build: fault, measure, build, count, median, low, high, lacking."""
    left_out: int
    """Runs without a known build, or of a build without a known time."""
    comparison: Comparison | None
    """The last build (b) compared with the one before (a); None with one build alone."""


def trend(tables: Tables, by: str, fault: str | None = None) -> Trend:
    """Return medians of failover times and latency by build, and the last build's comparison.

    by: the column of RUNS that names the build.

    Raises:
        NoSuchValue: no run has a known build and a known begin, or no leader changed after such a
            fault.
    """
    runs = read_runs(tables)
    builds = builds_of(runs, by)
    if not builds:
        raise NoSuchValue(f"none of {len(runs)} runs tells both its {by} and when it began")
    names = [build["build"] for build in builds]
    own = [run for run in runs if value_of(run, by) in names]
    with measuring(tables, own, by, fault) as found:
        return Trend(
            by=by,
            fault=fault,
            builds=builds,
            rows=in_order(found.rows, names),
            left_out=len(runs) - len(own),
            comparison=compare_groups(found, *names[-2:]) if len(names) > 1 else None,
        )


def builds_of(runs: Sequence[Row], by: str) -> tuple[Row, ...]:
    """Return build, runs and first_ns (since 1970) of each, by first_ns, then by name.

    A build is left out if no run of it has a known begin: it has no place in the order.
    """
    found: dict[str, Row] = {}
    for run in runs:
        name, began_ns = value_of(run, by), run["start_wall_ns"]
        if not name:
            continue
        build = found.setdefault(name, {"build": name, "runs": 0, "first_ns": began_ns})
        build["runs"] += 1
        known = [each for each in (build["first_ns"], began_ns) if each is not None]
        build["first_ns"] = min(known, default=None)
    placed = [build for build in found.values() if build["first_ns"] is not None]
    return tuple(sorted(placed, key=lambda build: (build["first_ns"], build["build"])))


def in_order(of_groups: Sequence[Row], names: Sequence[str]) -> tuple[Row, ...]:
    """Return the rows of SHOWN measures, by fault, measure and the builds' order."""
    shown = (row for row in of_groups if row["measure"] in SHOWN)
    columns = ("fault", "measure", "build", "count", "median", "low", "high", "lacking")
    return tuple(
        {name: row["group" if name == "build" else name] for name in columns}
        for row in sorted(
            shown, key=lambda each: (each["fault"], each["measure"], names.index(each["group"]))
        )
    )
