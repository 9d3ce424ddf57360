"""What a report says, as sections of tables and pictures; pages and texts only lay them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from highwater_pipeline.analysis import Analysis, Sample
from highwater_pipeline.report import plots
from highwater_pipeline.tables import Row

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a sentence, pictures ("" for none) and a table; its rows have equal columns."""

    title: str
    rows: Sequence[Row]
    note: str = ""
    svg: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.rows[0]) if self.rows else ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that are set flush right."""
        return tuple(
            column for column in self.columns if all(_is_number(row[column]) for row in self.rows)
        )

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The rows as people read them."""
        return [tuple(shown_value(row[column]) for column in self.columns) for row in self.rows]


def sections_of(analysis: Analysis) -> list[Section]:
    """Return the report's sections, in order."""
    return [
        Section("Verdicts", _with_titles(analysis), note=_of_verdicts(analysis)),
        Section("Checks", _by_check(analysis)),
        Section("Violations", analysis.findings.rows, note=_share(analysis.findings)),
        Section(
            "Failovers",
            analysis.medians,
            note="Median, and the interval that holds it with 95 % (from six failovers on), in "
            "milliseconds. The fault is the last that was proven before the new leader began.",
            svg=plots.splits_by_fault(analysis.medians)
            + plots.failovers_by_fault(analysis.failovers.rows),
        ),
        Section(
            "Outages",
            [_in_seconds(row) for row in analysis.outages.rows],
            note=_share(analysis.outages),
            svg=plots.outages_by_run(analysis.outages.rows, analysis.runs.rows),
        ),
        Section("Latency and throughput", analysis.latencies),
        Section("Replication", analysis.replication, note="Lags in records, from the looks."),
        Section("Quarantine", analysis.quarantine.rows, note=_share(analysis.quarantine)),
    ]


def shown_value(value: object) -> str:
    """Return a cell's text: three significant digits of a fraction, – for nothing."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def _share(sample: Sample) -> str:
    shown = len(sample.rows)
    return "" if shown == sample.total else f"The first {shown} of {sample.total:,}."


def _of_verdicts(analysis: Analysis) -> str:
    differ = sum(_differs(row) for row in analysis.verdicts)
    if not differ:
        return ""
    return (
        f"{differ} of {len(analysis.verdicts)} differ from the run's own verdict, which also rests "
        "on what is not in these tables (whether every step of its plan was done)."
    )


def _differs(row: Row) -> bool:
    return bool(row["recorded"]) and row["recorded"] != row["outcome"]


def _with_titles(analysis: Analysis) -> list[Row]:
    titles: Mapping[str, str] = {row["run_id"]: row["title"] or "" for row in analysis.runs.rows}
    return [{**row, "title": titles.get(row["run_id"], "")} for row in analysis.verdicts]


def _in_seconds(row: Row) -> Row:
    """Return the row with its times in seconds, and without what only joins it to others."""
    times = {f"{name}_s": row[f"{name}_ns"] / 1e9 for name in ("from", "to")}
    kept = ("outage_ms", "fault")
    place = {name: row[name] for name in ("run_id", "topic", "partition")}
    return place | times | {name: row[name] for name in kept}


def _by_check(analysis: Analysis) -> list[Row]:
    """Return one row a check: over how many runs it looked at how much, and what it found."""
    found: dict[str, Row] = {}
    for row in analysis.examined:
        check = found.setdefault(
            row["check"], {"check": row["check"], "runs": 0, "vacuous": 0, "examined": 0}
        )
        check["runs"] += 1
        check["vacuous"] += row["examined"] == 0
        check["examined"] += row["examined"]
    return list(found.values())
