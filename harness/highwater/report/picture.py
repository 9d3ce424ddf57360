"""Draws a run: acknowledgements a second, leaders, nodes that were down, a partition's lags."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import ceil, isnan, log1p, nan
from textwrap import shorten
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from highwater.report.failover import Gap
from highwater.report.observation import active_controller
from highwater_checker.history import Acknowledged
from highwater_checker.looks import Look, leaderships, replicas_of
from highwater_core.ids import TopicPartition, node_name

_LONGEST_TEXT = 90
_MOST_INLINE = 4
"""Marks whose texts fit beside their lines; with more marks each gets a number, listed below."""
_MOST_LISTED = 80
"""Marks listed below the picture; the plan and the intents have all."""
_LIST_COLUMNS, _LISTED_ROW_IN = 2, 0.16
_BIN_S = 0.1
_MOST_BINS = 36_000
_DOWN, _UP, _LEADS = "#d9534f", "#dfe6ee", "#2f6fab"
_LEO_LAG, _HW_LAG = "#b35900", "#f2c48d"
_LANE_HEIGHT = 0.8
_LABELS_APART = 0.05
"""Of the run's length: nearer peaks have one label."""
_ON_WHITE: Any = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, as a mark in the picture."""

    time_s: float
    text: str


@dataclass(frozen=True, slots=True)
class RunPicture:
    """The contents of a picture. Units: seconds from the run's start."""

    title: str
    topic_partition: TopicPartition
    looks: Sequence[Look]
    acknowledged: Sequence[Acknowledged]
    faults: Sequence[Fault]
    gaps: Sequence[Gap]


def draw(run: RunPicture) -> bytes:
    """Return the picture as PNG."""
    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    style |= {"text.parse_math": False}  # a run's texts may have any "$"
    with mpl.rc_context(style):
        figure = Figure(figsize=(12, 8.5 + _list_height_in(run.faults)), layout="constrained")
        rate, lanes, lags = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2.4, 2.4))
        figure.suptitle(run.title, fontsize=12, x=0.01, ha="left")
        _draw_rate(rate, run)
        _draw_lanes(lanes, run)
        _draw_lags(lags, run)
        for axes in (rate, lanes, lags):
            for fault in run.faults:
                axes.axvline(fault.time_s, color="#444444", linewidth=0.8, linestyle=":")
        lags.set_xlabel("seconds from the run's start")
        if len(run.faults) > _MOST_INLINE:
            _list_faults(figure, run.faults)
        png = io.BytesIO()
        figure.savefig(png, dpi=110)
    return png.getvalue()


def _draw_rate(axes: Axes, run: RunPicture) -> None:
    end_s = max(0.0, max((look.time_ns for look in run.looks), default=0) / 1e9)
    width_s = max(_BIN_S, end_s / _MOST_BINS)
    bins = [0] * (int(end_s / width_s) + 2)
    for ack in run.acknowledged:
        index = int(ack.acknowledged_ns / 1e9 / width_s)
        if 0 <= index < len(bins):
            bins[index] += 1
    times = [index * width_s for index in range(len(bins))]
    per_second = [count / width_s for count in bins]
    axes.fill_between(times, per_second, step="post", color=_LEADS, alpha=0.75, linewidth=0)
    top = _rate_top(per_second)
    axes.set_ylim(0, top * 1.3)
    peaks = _peaks(times, per_second, top * 1.3)
    for time_s, rate in _apart(list(peaks), times[-1] * _LABELS_APART):
        text = f"to {rate:,.0f}"
        axes.annotate(text, (time_s + _BIN_S, top * 0.98), fontsize=7, color="#666666")
    axes.set_ylabel("acknowledged\nrecords/s (all partitions)")
    for gap in run.gaps:
        axes.axvspan(gap.from_s, gap.to_s, color=_DOWN, alpha=0.18, linewidth=0)
        axes.annotate(
            f"{gap.topic}-{gap.partition}: {gap.length_s:.2f} s without an acknowledgement",
            (gap.to_s, top * 0.55),
            xytext=(6, 0),
            textcoords="offset points",
            color="#8c2f2c",
            bbox=_ON_WHITE,
        )
    for index, fault in enumerate(run.faults):
        said = axes.annotate(
            _label(index, fault, len(run.faults)),
            (fault.time_s, top * (1.24 - 0.1 * (index % 3))),
            xytext=(4, 0),
            textcoords="offset points",
            va="top",
            bbox=_ON_WHITE,
        )
        said.set_in_layout(False)  # a text near the end must not shrink the axes


def _peaks(
    times: Sequence[float], rates: Sequence[float], above: float
) -> Iterator[tuple[float, float]]:
    """Yield the end and the highest rate of each stretch whose bars are cut at the top."""
    for is_cut, stretch in groupby(zip(times, rates, strict=True), lambda each: each[1] > above):
        if is_cut:
            bars = list(stretch)
            yield bars[-1][0], max(rate for _, rate in bars)


def _apart(peaks: Sequence[tuple[float, float]], least_s: float) -> list[tuple[float, float]]:
    """Return the peaks, and of those that are nearer to each other the highest."""
    kept: list[tuple[float, float]] = []
    for time_s, rate in peaks:
        if kept and time_s - kept[-1][0] < least_s:
            kept[-1] = (kept[-1][0], max(kept[-1][1], rate))
        else:
            kept.append((time_s, rate))
    return kept


def _label(index: int, fault: Fault, count: int) -> str:
    return str(index + 1) if count > _MOST_INLINE else _short(fault.text)


def _short(text: str) -> str:
    return shorten(text, _LONGEST_TEXT, placeholder=" ...")


def _list_height_in(faults: Sequence[Fault]) -> float:
    """Return the height that the list adds, in inches: the axes keep theirs."""
    if len(faults) <= _MOST_INLINE:
        return 0.0
    return ceil(min(len(faults), _MOST_LISTED + 1) / _LIST_COLUMNS) * _LISTED_ROW_IN


def _list_faults(figure: Figure, faults: Sequence[Fault]) -> None:
    """Write the first marks' texts, by number, below the picture."""
    listed = [
        f"{index}  {fault.time_s:.1f} s  {_short(fault.text)}"
        for index, fault in enumerate(faults[:_MOST_LISTED], 1)
    ]
    if len(faults) > _MOST_LISTED:
        listed.append(f"... and {len(faults) - _MOST_LISTED} more")
    nothing = [Line2D([], [], linestyle="none") for _ in listed]
    style = {"frameon": False, "handlelength": 0, "fontsize": 7}
    figure.legend(nothing, listed, loc="outside lower left", ncols=_LIST_COLUMNS, **style)


def _rate_top(per_second: Sequence[float]) -> float:
    """Return the axis's upper end: above the usual rate; a burst after a gap is cut."""
    busy = sorted(rate for rate in per_second if rate > 0)
    if not busy:
        return 1.0
    return min(busy[-1], 4 * busy[len(busy) // 2])


def _draw_lanes(axes: Axes, run: RunPicture) -> None:
    node_ids = sorted(run.looks[0].nodes) if run.looks else []
    for lane, node_id in enumerate(reversed(node_ids)):
        spans: dict[str, list[tuple[float, float]]] = {}
        for look, following in pairwise(run.looks):
            start_s, end_s = look.time_ns / 1e9, following.time_ns / 1e9
            colour = _lane_colour(look, node_id, run.topic_partition)
            spans.setdefault(colour, []).append((start_s, end_s - start_s))
        for colour, parts in spans.items():
            axes.broken_barh(parts, (lane - 0.38, 0.76), color=colour)
    axes.set_yticks(range(len(node_ids)), [_lane_name(node) for node in reversed(node_ids)])
    legend = ((_UP, "up"), (_LEADS, f"leads {run.topic_partition} / is active"), (_DOWN, "down"))
    for colour, text in legend:
        axes.plot([], [], color=colour, linewidth=6, label=text)
    axes.legend(loc="upper center", ncols=3, frameon=False, bbox_to_anchor=(0.5, 1.18))


def _lane_name(node_id: int) -> str:
    return node_name(node_id).replace("-", " ")


def _lane_colour(look: Look, node_id: int, topic_partition: TopicPartition) -> str:
    if look.nodes[node_id] is None:
        return _DOWN
    active = active_controller(look)
    leadership = leaderships(look).get(topic_partition)
    leads = leadership is not None and leadership.leader == node_id
    return _LEADS if leads or (active is not None and active.node_id == node_id) else _UP


def _draw_lags(axes: Axes, run: RunPicture) -> None:
    """Draw a lane for each replica: how far its log end, and high watermark, are behind.

    Offsets themselves grow for the whole run, and lines of them lie upon each other.
    """
    series = _lags(run)
    behind = [lag for lags in series.values() for _, _, lag in lags if not isnan(lag)]
    scale = log1p(max(1.0, max(behind, default=0.0)))
    for lane, broker_id in enumerate(sorted(series, reverse=True)):
        times, log_ends, high_watermarks = zip(*series[broker_id], strict=True)
        for lags, colour in ((high_watermarks, _HW_LAG), (log_ends, _LEO_LAG)):
            tops = [lane + _LANE_HEIGHT * log1p(lag) / scale for lag in lags]
            axes.fill_between(times, lane, tops, step="post", color=colour, linewidth=0)
        time_s, most = max(
            zip(times, high_watermarks, strict=True),
            key=lambda each: -1.0 if isnan(each[1]) else each[1],
        )
        if most > 0:
            at = (time_s, lane + _LANE_HEIGHT * log1p(most) / scale)
            style: Any = {"fontsize": 7, "color": "#444444", "textcoords": "offset points"}
            axes.annotate(f"{most:,.0f}", at, xytext=(9, -1), va="top", **style)
    axes.set_yticks(range(len(series)), [f"broker {each}" for each in sorted(series, reverse=True)])
    axes.set_ylim(-0.1, max(1, len(series)))
    for colour, text in ((_LEO_LAG, "log end"), (_HW_LAG, "high watermark")):
        axes.plot([], [], color=colour, linewidth=6, label=text)
    axes.set_ylabel(f"records behind the furthest\nlog end of {run.topic_partition} (log scale)")
    axes.legend(loc="upper center", ncols=2, frameon=False, bbox_to_anchor=(0.5, 1.16))


def _lags(run: RunPicture) -> dict[int, list[tuple[float, float, float]]]:
    """Return for each broker (time, lag of its log end, lag of its high watermark), in records.

    A broker that does not answer has no lag then: nan.
    """
    series: dict[int, list[tuple[float, float, float]]] = {}
    for look in run.looks:
        replicas = replicas_of(look, run.topic_partition)
        furthest = max((each.log_end_offset for each in replicas.values()), default=0)
        for broker_id in sorted(series.keys() | replicas.keys()):
            replica = replicas.get(broker_id)
            ends = (replica.log_end_offset, replica.high_watermark) if replica else (nan, nan)
            lags = furthest - ends[0], furthest - ends[1]
            series.setdefault(broker_id, []).append((look.time_ns / 1e9, *lags))
    return series
