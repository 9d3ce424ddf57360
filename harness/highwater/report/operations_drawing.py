"""Draws single operations of clients: a bar each, in the lane of its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.report.figures import GREY, Figure, add_hover, new_figure
from highwater.report.operations import Operation, Operations

if TYPE_CHECKING:
    from bokeh.models import Range1d

OPERATIONS, EACH = "operations", "each operation"
"""Names for the page's own script: of the figure, and of its bars."""
_COLOURS = {"acknowledged": "#0072b2", "failed": "#d55e00"}
_UNKNOWN = "#e69f00"
_ROW_PX = 7


def draw_operations(operations: Operations, time: Range1d) -> Figure:
    """Return the figure; the page's script shows the bars of a stretch that has few enough."""
    from bokeh.models import ColumnDataSource

    rows = operations.rows_by_process
    shown, total = len(operations.shown), operations.total
    of = f"; {shown:,} of {total:,} are kept" if shown < total else ""
    made = new_figure(
        f"Single operations (zoom in to see them{of})",
        80 + sum(max(18, _ROW_PX * each) for each in rows.values()),
        time,
        name=OPERATIONS,
        y_range=sorted(rows, reverse=True),
    )
    made.ygrid.visible = False
    source = ColumnDataSource(
        {
            "place": [_place(each, rows[each.process]) for each in operations.shown],
            "height": [0.7 / rows[each.process] for each in operations.shown],
            "begin": [each.begin_s for each in operations.shown],
            "end": [each.end_s for each in operations.shown],
            "took": [(each.end_s - each.begin_s) * 1e3 for each in operations.shown],
            "text": [each.text for each in operations.shown],
            "colour": [_COLOURS.get(each.outcome, _UNKNOWN) for each in operations.shown],
        }
    )
    bars = made.hbar(
        y="place",
        left="begin",
        right="end",
        height="height",
        fill_color="colour",
        line_color="colour",  # a bar of less than a pixel is seen by its line
        fill_alpha=0.7,
        source=source,
        name=EACH,
        visible=False,
    )
    told = [("", "@text"), ("from", "@begin{0.0000} s"), ("took", "@took{0,0.00} ms")]
    add_hover(made, [bars], told)
    made.yaxis.major_label_text_color = GREY
    return made


def _place(operation: Operation, rows: int) -> tuple[str, float]:
    """Return the bar's place in the lane: the first row is on top."""
    return operation.process, 0.35 - 0.7 * (operation.row + 0.5) / rows
