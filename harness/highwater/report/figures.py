"""The figures of a run's page, alike in their width, margins and colours, over one axis of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bokeh.models import Range1d

Figure = Any
"""Bokeh's."""
GREY = "#8a8f98"
_WIDTH = 1_150
_LEFT, _RIGHT = 110, 20


def new_figure(title: str, height: int, time: Range1d, **more: Any) -> Figure:
    from bokeh.plotting import figure

    made: Figure = figure(
        title=title,
        height=height,
        width=_WIDTH,
        sizing_mode="stretch_width",
        x_range=time,
        tools="xpan,xwheel_zoom,xbox_zoom,reset",
        active_drag="xbox_zoom",
        min_border_left=_LEFT,
        min_border_right=_RIGHT,
        **more,
    )
    # Legible on a light page and on a dark one.
    made.background_fill_alpha = made.border_fill_alpha = 0.0
    made.outline_line_color = None
    made.title.text_color = GREY
    made.axis.axis_label_text_color = made.axis.major_label_text_color = GREY
    made.axis.axis_line_color = made.axis.major_tick_line_color = GREY
    made.axis.minor_tick_line_color = None
    made.grid.grid_line_alpha = 0.25
    made.toolbar.logo = None
    made.toolbar.autohide = True
    return made


def add_hover(figure: Figure, renderers: Iterable[Any], tooltips: Any, **more: Any) -> None:
    from bokeh.models import HoverTool

    figure.add_tools(HoverTool(renderers=[*renderers], tooltips=tooltips, **more))


def add_legend(figure: Figure) -> None:
    """Put the legend above the figure; a click on a name hides its lines."""
    legend = figure.legend[0]
    legend.click_policy = "hide"
    legend.orientation = "horizontal"
    legend.background_fill_alpha = legend.border_line_alpha = 0.0
    legend.label_text_color = GREY
    legend.inactive_fill_color, legend.inactive_fill_alpha = GREY, 0.35
    legend.padding = legend.margin = 0
    figure.add_layout(legend, "above")


def count_from_zero(made: Figure, what: str) -> None:
    """Make the vertical axis one of numbers from 0 on, as 20,000."""
    from bokeh.models import NumeralTickFormatter

    made.yaxis.axis_label = what
    made.yaxis.formatter = NumeralTickFormatter(format="0,0[.]0")
    made.y_range.start = 0
