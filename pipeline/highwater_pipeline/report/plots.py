"""The report's pictures as SVG texts for a page; the same rows give the same bytes."""

from __future__ import annotations

import io
import re
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from highwater_pipeline.tables import Row

_SPLIT_COLOURS = {"detect_ms": "#0072b2", "elect_ms": "#e69f00", "first_ack_ms": "#009e73"}
_SPLIT_NAMES = {"detect_ms": "detect", "elect_ms": "elect", "first_ack_ms": "first acknowledgement"}
_OUTAGE = "#d55e00"
_SIDES = {"a": "#0072b2", "b": "#e69f00"}
_RUNS_MAX = 40
_WIDE = 20
"""So often the least median is in the greatest where the axis is logarithmic."""
_LINES_MAX = 8
_NAME_CHARACTERS = 40
"""Of a name beside a row, how many are shown."""
_RASTER_FROM = 2_000
"""Points beyond which a picture's dots become pixels: each dot is 100 bytes of SVG."""


def styled() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "svg.hashsalt": "highwater",
            "svg.fonttype": "none",
        }
    )


def failovers_by_fault(failovers: Sequence[Row], medians: Sequence[Row]) -> str:
    """Draw each failover's total time as a small dot, by group; "" without any.

    The large dot is the median, with the interval that holds it where there is one.
    """
    known = [row for row in failovers if row["fault"] and row["total_ms"] is not None]
    if not known:
        return ""
    totals = {row["group"]: row for row in medians if row["split"] == "total_ms"}
    times: dict[str, list[float]] = {}
    for row in sorted(known, key=lambda row: (row["group"], row["total_ms"])):
        times.setdefault(row["group"], []).append(row["total_ms"] / 1e3)
    with styled():
        figure, axes = _rows_of(times, 0.5)
        for place, (group, times_s) in enumerate(times.items()):
            heights = [place + _spread(number) for number in range(len(times_s))]
            axes.plot(
                times_s, heights, "o", markersize=4, alpha=0.4, color="#0072b2",
                rasterized=len(known) > _RASTER_FROM,
            )  # fmt: skip
            _median(axes, place, totals.get(group), times_s)
        return _from_zero(
            figure,
            axes,
            "from the fault to the new leader's first acknowledgement, seconds; large: the median",
        )


def _median(axes: Axes, place: int, told: Row | None, times_s: Sequence[float]) -> None:
    """Draw the median as a dot, with its interval if it has one."""
    median_s = statistics.median(times_s)
    reach = [[0.0], [0.0]]
    if told is not None and told["median"] is not None:
        median_s = told["median"] / 1e3
        reach = [[reach_s(told, end)] for end in ("low", "high")]
    axes.errorbar(
        [median_s], [place], xerr=reach, fmt="o", markersize=7, capsize=4, linewidth=1.5,
        color="#222222",
    )  # fmt: skip


def reach_s(row: Row, end: str) -> float:
    """Return the distance from the median to the interval's end, 0 without an interval."""
    return 0.0 if row[end] is None else abs(row[end] - row["median"]) / 1e3


def sides_beside(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Draw both sides' medians as dots with their intervals, a row a measure; "" without any.

    rows: with fault, measure, and of each side median_a, low_a and high_a (ms; null where there is
    none). names: the sides', in their order.
    """
    known = [row for row in rows if row["median_a"] is not None or row["median_b"] is not None]
    if not known:
        return ""
    labels = [f"{row['fault'] or 'whole run'}: {row['measure']}" for row in known]
    with styled():
        figure, axes = _rows_of(labels, 0.42, above=0.5)
        for number, (side, colour) in enumerate(_SIDES.items()):
            own = [
                (place, {name: row[f"{name}_{side}"] for name in ("median", "low", "high")})
                for place, row in enumerate(known)
                if row[f"median_{side}"] is not None
            ]
            axes.errorbar(
                [told["median"] / 1e3 for _, told in own],
                [place + (number - 0.5) * 0.3 for place, _ in own],
                xerr=[[reach_s(told, end) for _, told in own] for end in ("low", "high")],
                fmt="o", markersize=5, capsize=3, linewidth=1.3, color=colour,
            )  # fmt: skip
        legend = axes.legend(
            axes.containers,
            [f"{side}: {_cut(name)}" for side, name in zip(_SIDES, names, strict=True)],
            loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_parse_math(False)
        says = "medians with the intervals that hold them, seconds"
        medians = [row[f"median_{side}"] for row in known for side in _SIDES]
        told = [median for median in medians if median is not None]
        if min(told) <= 0 or max(told) < _WIDE * min(told):
            return _from_zero(figure, axes, says)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(says)
        return as_svg(figure)


def _spread(number: int) -> float:
    """Return a dot's position across its row, so that dots of equal times are seen apart."""
    return (number * 0.618 % 1 - 0.5) * 0.5


def splits_by_fault(medians: Sequence[Row]) -> str:
    """Draw the medians of failovers' phases as stacked bars, by group."""
    groups = sorted({row["group"] for row in medians})
    if not groups:
        return ""
    values = {(row["group"], row["split"]): row["median"] for row in medians}
    with styled():
        figure, axes = _rows_of(groups, 0.4, above=0.4)
        for place, group in enumerate(groups):
            left_s = 0.0
            for split, colour in _SPLIT_COLOURS.items():
                length_s = (values.get((group, split)) or 0.0) / 1e3
                axes.barh(place, length_s, left=left_s, color=colour, height=0.6)
                left_s += length_s
            axes.annotate(
                f"{left_s:.3g} s", (left_s, place), (4, 0), textcoords="offset points", va="center"
            )
        for split, colour in _SPLIT_COLOURS.items():
            axes.barh(0, 0, color=colour, label=_SPLIT_NAMES[split])
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
        return _from_zero(figure, axes, "median of each part, seconds")


def outages_by_run(outages: Sequence[Row]) -> str:
    """Draw the outages of each run's partitions; "" without any.

    Of many runs, those with the longest outages are drawn.
    """
    if not outages:
        return ""
    out_ms: Counter[str] = Counter()
    for outage in outages:
        out_ms[outage["run_id"]] += outage["outage_ms"]
    longest = {run_id for run_id, _ in out_ms.most_common(_RUNS_MAX)}
    runs = sorted(longest)
    with styled():
        figure, axes = _rows_of(runs, 0.3)
        for outage in outages:
            if outage["run_id"] in longest:
                begin_s, length_s = outage["from_ns"] / 1e9, outage["outage_ms"] / 1e3
                place = runs.index(outage["run_id"])
                axes.broken_barh(
                    [(begin_s, length_s)], (place - 0.3, 0.6), color=_OUTAGE, alpha=0.4, linewidth=0
                )
        which = "" if len(out_ms) <= _RUNS_MAX else f"; the {_RUNS_MAX} runs with most of it"
        says = f"seconds from the run's start; red: a partition acknowledged nothing{which}"
        return _from_zero(figure, axes, says)


def lag_over_time(stretches: Sequence[Row]) -> str:
    """Draw the largest lag of any follower over each run's time; "" without any lag.

    Of many runs, those with the largest lags are drawn.
    """
    most: Counter[str] = Counter()
    for row in stretches:
        most[row["run_id"]] = max(most[row["run_id"]], row["log_lag"], row["high_watermark_lag"])
    runs = sorted(run_id for run_id, lag in most.most_common(_LINES_MAX) if lag)
    if not runs:
        return ""
    with styled():
        figure = Figure(figsize=(9, 4.4), layout="constrained")
        of_logs, of_high_watermarks = figure.subplots(2, sharex=True)
        for run_id in runs:
            rows = [row for row in stretches if row["run_id"] == run_id]
            times_s = [row["from_ns"] / 1e9 for row in rows]
            for axes, name in ((of_logs, "log_lag"), (of_high_watermarks, "high_watermark_lag")):
                axes.plot(times_s, [row[name] for row in rows], linewidth=1, label=_cut(run_id))
        of_logs.set_ylabel("records not there yet")
        of_high_watermarks.set_ylabel("not known committed")
        for axes in (of_logs, of_high_watermarks):
            axes.set_ylim(bottom=0)
        if len(runs) > 1:
            of_logs.legend(loc="upper left", fontsize=7, frameon=False, ncols=2)
        which = "" if len(most) <= _LINES_MAX else f"; the {_LINES_MAX} runs that lagged most"
        says = f"seconds from the run's start; of the follower that lagged most{which}"
        return _from_zero(figure, of_high_watermarks, says)


def _rows_of(names: Collection[str], height: float, above: float = 0.0) -> tuple[Figure, Axes]:
    """Return a picture with one row a name, from the top, of the given height each.

    above: the height of the other parts.
    """
    figure = Figure(figsize=(9, 0.9 + above + height * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), [_cut(name) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    return figure, axes


def _from_zero(figure: Figure, axes: Axes, says: str) -> str:
    """Set the axis to begin at 0, and return the picture; later shapes do not move the bounds."""
    axes.set_xlim(left=0)
    axes.set_xlabel(says)
    return as_svg(figure)


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"


def as_svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), count=1, flags=re.DOTALL)
