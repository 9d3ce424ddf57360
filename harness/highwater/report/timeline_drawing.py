"""Draws a run's timeline for its page: figures over one axis of time, to zoom, pan and point at.

Bokeh's scripts are within the page, so that it works without a network.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from highwater.report.faults_in_run import FaultSpan
from highwater.report.figures import (
    GREY,
    Figure,
    add_hover,
    add_legend,
    count_from_zero,
    new_figure,
)
from highwater.report.operations import NONE, Operations
from highwater.report.operations_drawing import draw_operations
from highwater.report.timeline import Bin, Lag, Span, Timeline
from highwater_chaos import faults as f
from highwater_core.ids import NodeId, node_name

if TYPE_CHECKING:
    from bokeh.models import Range1d

TIME_RANGE, NODES, LEADERS, LAGS = "time", "nodes", "leaders", "lags of "
LABELS = "labels of "
"""Names for the page's own script: of the axis that all figures share, of the figures, and of the
labels on their bars; those of lags end with their partition, those of labels with their figure."""
OTHER_FAULTS = "several nodes"
"""The lane of faults that act on no single node."""
_STATES = {
    "down": "#d55e00",
    "frozen": "#f0e442",
    "cut off": GREY,
    "up": "#a9c4dc",
    "leads": "#0072b2",
    "active": "#0072b2",
}
_SILENT_BY: Mapping[type[f.Fault], str] = {f.Pause: "frozen", f.Isolate: "cut off"}
_FAULT = "#ffffff"
_VIOLATION = "#c00040"
_KEY = (
    (_STATES["leads"], "leads, or is the active controller"),
    (_STATES["up"], "follows, or stands by"),
    (_STATES["down"], "does not answer"),
    (_STATES["frozen"], "is frozen"),
    (_STATES["cut off"], "is cut off"),
    (_FAULT, "a fault that acted"),
)
_BROKERS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f98")
"""Of Okabe and Ito: colour-blind people tell them apart."""
_LIGHT = ("#e69f00", "#56b4e9", "#f0e442")
"""Text on these is dark."""
_HATCHED = (
    "repeating-linear-gradient(45deg, #8a8f98 0 2px, transparent 2px 5px)",
    "the ISR lacks a replica",
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Pieces of HTML: the library's and the figures' scripts, and where the figures stand.

    key: what each colour says.
    nodes, partitions: the lanes that a reader may leave out.
    """

    library: str
    script: str
    place: str
    key: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]
    partitions: tuple[str, ...]


def draw_timeline(
    timeline: Timeline,
    faults: Sequence[FaultSpan],
    violation_s: float | None,
    operations: Operations = NONE,
) -> Drawn:
    """Return the drawing; violation_s: when the first finding shows, None without one."""
    from bokeh.embed import components
    from bokeh.layouts import column
    from bokeh.models import Range1d
    from bokeh.models import Span as Line
    from bokeh.resources import Resources
    from bokeh.util.warnings import BokehUserWarning

    end_s = max(timeline.end_s, 0.1, 1.01 * (violation_s or 0.0))  # it may be after the last look
    time = Range1d(0.0, end_s, name=TIME_RANGE, bounds="auto")
    figures = [_nodes(timeline, faults, time)]
    if timeline.leaders:
        figures.append(_leaders(timeline, time))
    if timeline.bins:
        figures += [_rates(timeline.bins, time), _latencies(timeline.bins, time)]
    if operations.shown:
        figures.append(draw_operations(operations, time))
    figures += [_lags(name, lags, time) for name, lags in timeline.lags.items()]
    for figure in figures if violation_s is not None else ():
        line = Line(location=violation_s, dimension="height", line_color=_VIOLATION, line_width=2)
        figure.add_layout(line)
    figures[-1].xaxis.axis_label = "seconds from the run's start"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BokehUserWarning)  # of numbers that no axis can show
        script, place = components(column(*figures, sizing_mode="stretch_width"))
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    brokers = dict.fromkeys(int(span.kind) for span in timeline.leaders)
    of_brokers = ((_colour(broker), f"broker {broker} leads") for broker in sorted(brokers))
    return Drawn(
        library,
        script,
        place,
        key=(*_KEY, *of_brokers, *([_HATCHED] if _lacks_one(timeline.leaders) else [])),
        nodes=tuple(dict.fromkeys(span.lane for span in timeline.nodes)),
        partitions=tuple(dict.fromkeys(span.lane for span in timeline.leaders)),
    )


def _bars(figure: Figure, spans: Sequence[Span], colours: Sequence[str], height: float) -> Any:
    from bokeh.models import ColumnDataSource

    source = ColumnDataSource(
        {
            "lane": [span.lane for span in spans],
            "begin": [span.begin_s for span in spans],
            "end": [span.end_s for span in spans],
            "text": [span.text for span in spans],
            "colour": list(colours),
        }
    )
    return figure.hbar(
        y="lane",
        left="begin",
        right="end",
        height=height,
        fill_color="colour",
        line_color=None,
        source=source,
    )


_OF_SPANS = [("", "@text"), ("from", "@begin{0.000} s"), ("to", "@end{0.000} s")]


def _nodes(timeline: Timeline, faults: Sequence[FaultSpan], time: Range1d) -> Figure:
    acting = [_of_fault(fault, timeline.end_s) for fault in faults]
    lanes = list(dict.fromkeys(span.lane for span in (*timeline.nodes, *acting)))
    made = new_figure(
        "Nodes, and the faults that acted",
        70 + 26 * max(1, len(lanes)),
        time,
        name=NODES,
        y_range=lanes[::-1] or ["none"],
    )
    made.ygrid.visible = False
    spans = [_silenced(span, faults) for span in timeline.nodes]
    states = _bars(made, spans, [_STATES[span.kind] for span in spans], 0.8)
    bands = _bars(made, acting, [_FAULT] * len(acting), 0.5)
    bands.glyph.line_color = "#000000"
    bands.glyph.line_width = 0.5
    _labels(made, acting, NODES, ["#000000"] * len(acting))
    add_hover(made, [bands], _OF_SPANS)
    add_hover(made, [states], _OF_SPANS)
    return made


def _of_fault(fault: FaultSpan, run_end_s: float) -> Span:
    """Return the fault's band; one without an end is as wide as a mark, or acts to the run's."""
    begin_s = fault.begin_ns / 1e9
    end_s = run_end_s if fault.end_ns is None else fault.end_ns / 1e9
    lane = OTHER_FAULTS if fault.node is None else node_name(NodeId(fault.node))
    text = f"{fault.text}: {fault.proof}" if fault.proof else fault.text
    return Span(lane, begin_s, max(end_s, begin_s + 0.02), "fault", text[:400], fault.label)


def _silenced(span: Span, faults: Iterable[FaultSpan]) -> Span:
    """Return the span of a node that does not answer with the fault that silences it, if one does.

    The last one that began counts: a frozen node that was killed then does not answer.
    """
    if span.kind != "down":
        return span
    middle_ns = (span.begin_s + span.end_s) / 2 * 1e9
    acting = [
        each
        for each in faults
        if each.node is not None
        and node_name(NodeId(each.node)) == span.lane
        and each.begin_ns <= middle_ns <= (inf if each.end_ns is None else each.end_ns)
    ]
    last = max(acting, key=lambda each: each.begin_ns, default=None)
    kind = None if last is None or last.fault is None else _SILENT_BY.get(type(last.fault))
    return span if kind is None else replace(span, kind=kind, text=f"{span.lane} is {kind}")


def _lacks_one(spans: Iterable[Span]) -> bool:
    return not all(span.is_whole for span in spans)


def _leaders(timeline: Timeline, time: Range1d) -> Figure:
    lanes = list(dict.fromkeys(span.lane for span in timeline.leaders))
    more = f"; {timeline.left_out} partitions are left out" if timeline.left_out else ""
    made = new_figure(
        f"Leaders and ISRs by partition (a colour a broker{more})",
        70 + 24 * len(lanes),
        time,
        name=LEADERS,
        y_range=lanes[::-1],
    )
    made.ygrid.visible = False
    colours = [_colour(span.kind) for span in timeline.leaders]
    bars = _bars(made, timeline.leaders, colours, 0.7)
    bars.glyph.line_color = "#ffffff"
    bars.data_source.data["hatch"] = ["" if span.is_whole else "/" for span in timeline.leaders]
    bars.glyph.hatch_pattern, bars.glyph.hatch_color = "hatch", "#ffffff"
    bars.glyph.hatch_alpha, bars.glyph.hatch_scale = 0.35, 16.0
    _labels(made, timeline.leaders, LEADERS, [_on(colour) for colour in colours])
    add_hover(made, [bars], _OF_SPANS)
    return made


def _labels(figure: Figure, spans: Sequence[Span], of: str, colours: Sequence[str]) -> None:
    """Write each span's label on its bar; the page's script leaves out those without room."""
    from bokeh.models import ColumnDataSource

    labelled = [(span, colour) for span, colour in zip(spans, colours, strict=True) if span.label]
    source = ColumnDataSource(
        {
            "lane": [span.lane for span, _ in labelled],
            "begin": [span.begin_s for span, _ in labelled],
            "end": ends_of_labels(spans),
            "label": [span.label for span, _ in labelled],
            "at": [span.begin_s for span, _ in labelled],
            "shown": [span.label for span, _ in labelled],
            "colour": [colour for _, colour in labelled],
        },
        name=f"{LABELS}{of}",
    )
    figure.text(
        "at",
        "lane",
        "shown",
        source=source,
        text_baseline="middle",
        text_font_size="11px",
        text_color="colour",
        x_offset=4,
    )


def _on(colour: str) -> str:
    """Return the colour of text on a bar of that colour."""
    return "#000000" if colour in _LIGHT else "#ffffff"


def ends_of_labels(spans: Sequence[Span]) -> list[float]:
    """Return, for each label, where the bars end that it stands for: its own, and others after it.

    A bar without a label continues the one before it.
    """
    ends: list[float] = []
    for span in spans:
        if span.label:
            ends.append(span.end_s)
        elif ends:
            ends[-1] = span.end_s
    return ends


def _colour(broker: str | int) -> str:
    return _BROKERS[int(broker) % len(_BROKERS)]


def _rates(bins: Sequence[Bin], time: Range1d) -> Figure:
    from bokeh.models import ColumnDataSource

    made = new_figure("Records that clients sent", 190, time)
    source = ColumnDataSource(
        {
            "begin": [each.begin_s for each in bins],
            "end": [each.end_s for each in bins],
            "acknowledged": [each.acknowledged_per_s for each in bins],
            "failed": [each.failed_per_s for each in bins],
            "unknown": [each.unknown_per_s for each in bins],
            "errors": [each.errors for each in bins],
        }
    )
    drawn = [
        made.quad(
            left="begin",
            right="end",
            bottom=0,
            top=name,
            source=source,
            fill_color=colour,
            fill_alpha=0.75,
            line_color=None,
            legend_label=name,
        )
        for name, colour in (
            ("acknowledged", "#0072b2"),
            ("unknown", "#e69f00"),
            ("failed", "#d55e00"),
        )
    ]
    told = [("from", "@begin{0.00} s"), ("acknowledged", "@acknowledged{0,0}/s")]
    told += [("failed", "@failed{0,0}/s"), ("unknown", "@unknown{0,0}/s"), ("errors", "@errors")]
    add_hover(made, drawn, told)
    count_from_zero(made, "records/s")
    add_legend(made)
    return made


def _latencies(bins: Sequence[Bin], time: Range1d) -> Figure:
    from bokeh.models import ColumnDataSource

    made = new_figure("Time to the acknowledgement", 180, time, y_axis_type="log")
    known = [each for each in bins if each.median_ms is not None]
    source = ColumnDataSource(
        {
            "at": [each.begin_s for each in known],
            "median": [max(each.median_ms or 0.0, 0.01) for each in known],
            "longest": [max(each.longest_ms or 0.0, 0.01) for each in known],
        }
    )
    for name, colour in (("longest", "#cc79a7"), ("median", "#0072b2")):
        points = made.scatter("at", name, source=source, size=4, color=colour, legend_label=name)
        add_hover(made, [points], [("at", "@at{0.00} s"), (name, f"@{name}{{0,0.00}} ms")])
    made.yaxis.axis_label = "ms"
    add_legend(made)
    return made


def _lags(name: str, lags: Sequence[Lag], time: Range1d) -> Figure:
    from bokeh.models import ColumnDataSource

    title = f"{name}: records behind the leader's log end"
    made = new_figure(title, 190, time, name=f"{LAGS}{name}")
    for lag in lags:
        source = ColumnDataSource(
            {"at": lag.times_s, "log_end": lag.log_end, "high_watermark": lag.high_watermark}
        )
        label = f"broker {lag.broker}"
        lines = [
            made.step(
                "at",
                field,
                source=source,
                mode="after",
                line_color=_colour(lag.broker),
                line_dash=dash,
                line_width=1.6,
                legend_label=f"{label} {words}",
                name=node_name(NodeId(lag.broker)),
            )
            for field, dash, words in (
                ("log_end", "solid", "log end"),
                ("high_watermark", "dashed", "high watermark"),
            )
        ]
        add_hover(
            made,
            lines[1:],
            [
                (label, "@at{0.00} s"),
                ("log end behind", "@log_end{0,0}"),
                ("high watermark behind", "@high_watermark{0,0}"),
            ],
        )
    count_from_zero(made, "records")
    if lags:
        add_legend(made)
    return made
