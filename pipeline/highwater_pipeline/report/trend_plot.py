"""The trend's pictures: medians with their intervals, build after build."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from highwater_pipeline.report.plots import as_svg, reach_s, styled
from highwater_pipeline.report.sections import with_short_commits
from highwater_pipeline.tables import Row

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#777777", "#000000")
_SHOWN_CHARACTERS = 20
"""Of a build's name, how many stand below the axis."""


def medians_by_build(rows: Sequence[Row], builds: Sequence[str], says: str) -> str:
    """Draw the medians and intervals of one measure, a line a fault; "" without any median.

    rows: with build, fault, median, low and high (ms; low and high may be null).
    says: the label of the vertical axis.
    Names are drawn literally, never read as formulas.
    """
    known = [row for row in rows if row["median"] is not None]
    if not known:
        return ""
    faults = sorted({row["fault"] for row in known})
    with styled():
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        axes = figure.subplots()
        for number, fault in enumerate(faults):
            own = [row for row in known if row["fault"] == fault]
            aside = 0.05 * (number - (len(faults) - 1) / 2)
            axes.errorbar(
                [builds.index(row["build"]) + aside for row in own],
                [row["median"] / 1e3 for row in own],
                yerr=[[reach_s(row, end) for row in own] for end in ("low", "high")],
                fmt="o-", markersize=4, capsize=3, linewidth=1.2,
                color=_COLOURS[number % len(_COLOURS)],
            )  # fmt: skip
        names = [with_short_commits(build)[:_SHOWN_CHARACTERS] for build in builds]
        axes.set_xticks(range(len(builds)), names, rotation=30, ha="right", parse_math=False)
        axes.set_xlim(-0.5, len(builds) - 0.5)
        axes.set_ylim(bottom=0)
        axes.set_ylabel(says)
        if any(faults):
            legend = axes.legend(
                axes.containers, faults, loc="upper left", bbox_to_anchor=(1, 1), frameon=False
            )
            for text in legend.get_texts():
                text.set_parse_math(False)
        return as_svg(figure)
