"""The report's pictures, as SVG texts to be put into a page; the same rows give the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager

import matplotlib as mpl
from matplotlib.figure import Figure

from highwater_pipeline.tables import Row

_SPLIT_COLOURS = {"detect_ms": "#2f6fab", "elect_ms": "#e08a1e", "first_ack_ms": "#3a9d5d"}
_SPLIT_NAMES = {"detect_ms": "detect", "elect_ms": "elect", "first_ack_ms": "first acknowledgement"}
_OUTAGE = "#d9534f"
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


def failovers_by_fault(failovers: Sequence[Row]) -> str:
    """Draw each failover's whole time as a dot, by the fault before it; "" without any."""
    known = [row for row in failovers if row["fault"] and row["total_ms"] is not None]
    if not known:
        return ""
    faults = sorted({row["fault"] for row in known})
    with styled():
        figure = Figure(figsize=(9, 1.2 + 0.5 * len(faults)), layout="constrained")
        axes = figure.subplots()
        for place, fault in enumerate(faults):
            times_s = sorted(row["total_ms"] / 1e3 for row in known if row["fault"] == fault)
            heights = [place + _spread(number) for number in range(len(times_s))]
            axes.plot(
                times_s, heights, "o", markersize=4, alpha=0.6, color="#2f6fab",
                rasterized=len(known) > _RASTER_FROM,
            )  # fmt: skip
            median_s = times_s[len(times_s) // 2]
            axes.plot([median_s] * 2, [place - 0.35, place + 0.35], color="#222222", linewidth=1.5)
        axes.set_yticks(range(len(faults)), faults)
        axes.set_ylim(-0.6, len(faults) - 0.4)
        axes.set_xlim(left=0)
        axes.set_xlabel("from the fault to the new leader's first acknowledgement, seconds")
        return as_svg(figure)


def _spread(number: int) -> float:
    """Return where a dot lies across its row, so that equal times are told apart."""
    return (number * 0.618 % 1 - 0.5) * 0.5


def splits_by_fault(medians: Sequence[Row]) -> str:
    """Draw the medians of what failovers waited for as stacked bars, by fault and preset."""
    groups = sorted({(row["fault"], row["preset"] or "") for row in medians})
    if not groups:
        return ""
    values = {(row["fault"], row["preset"] or "", row["split"]): row["median"] for row in medians}
    with styled():
        figure = Figure(figsize=(9, 1.4 + 0.4 * len(groups)), layout="constrained")
        axes = figure.subplots()
        for place, group in enumerate(groups):
            left_s = 0.0
            for split, colour in _SPLIT_COLOURS.items():
                length_s = (values.get((*group, split)) or 0.0) / 1e3
                axes.barh(place, length_s, left=left_s, color=colour, height=0.6)
                left_s += length_s
        for split, colour in _SPLIT_COLOURS.items():
            axes.barh(0, 0, color=colour, label=_SPLIT_NAMES[split])
        axes.set_yticks(range(len(groups)), [" / ".join(filter(None, group)) for group in groups])
        axes.set_xlabel("medians, seconds")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=3, frameon=False)
        return as_svg(figure)


def outages_by_run(outages: Sequence[Row], runs: Sequence[Row]) -> str:
    """Draw when each run's partitions acknowledged nothing for long; "" without any such time."""
    if not outages:
        return ""
    names = [row["run_id"] for row in runs if any(o["run_id"] == row["run_id"] for o in outages)]
    with styled():
        figure = Figure(figsize=(9, 1.0 + 0.3 * len(names)), layout="constrained")
        axes = figure.subplots()
        for outage in outages:
            if outage["run_id"] in names:
                begin_s, length_s = outage["from_ns"] / 1e9, outage["outage_ms"] / 1e3
                place = names.index(outage["run_id"])
                axes.broken_barh(
                    [(begin_s, length_s)], (place - 0.3, 0.6), color=_OUTAGE, alpha=0.6
                )
        axes.set_yticks(range(len(names)), names)
        axes.set_xlim(left=0)
        axes.set_xlabel("seconds from the run's start; red: some partition acknowledged nothing")
        return as_svg(figure)


def as_svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r"^.*?(?=<svg)", "", text.getvalue(), count=1, flags=re.DOTALL)
