"""The contents of a report, as sections of tables and pictures; pages only lay them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from highwater_checker.verdict import WORST_FIRST
from highwater_pipeline.analysis import GROUP, Analysis, Sample
from highwater_pipeline.metrics.failovers import SPLITS
from highwater_pipeline.report import plots
from highwater_pipeline.tables import Row

NOTHING = "–"
NAMES = frozenset({"seed", "first_seed"})
"""Columns of numbers that are typed again and not reckoned with: they have no separators."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a sentence, pictures ("" for none) and a table.

    rows: for programs, all with the same columns.
    shown: rows for people, where they differ; all with the same columns.
    says_none: that there is nothing is an answer too, as of violations: it is shown empty.
    """

    title: str
    rows: Sequence[Row]
    note: str = ""
    svg: str = ""
    shown: Sequence[Row] | None = None
    says_none: bool = False

    @property
    def is_shown(self) -> bool:
        return bool(self.table or self.svg or self.says_none)

    @property
    def table(self) -> Sequence[Row]:
        return self.rows if self.shown is None else self.shown

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.table[0]) if self.table else ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers, which are aligned right."""
        return tuple(
            column for column in self.columns if all(_is_number(row[column]) for row in self.table)
        )

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The rows for people, as texts."""
        return [
            tuple(
                shown_value(_name(row[column]) if column in NAMES else row[column])
                for column in self.columns
            )
            for row in self.table
        ]


def _name(value: object) -> object:
    return None if value is None else str(value)


def sections_of(analysis: Analysis) -> list[Section]:
    """Return the report's sections, in order: findings before measurements."""
    return [
        Section("Verdicts", _with_titles(analysis), note=_of_verdicts(analysis)),
        Section(
            "Violations",
            analysis.findings.rows,
            note=_share(analysis.findings),
            shown=[_in_words(row) for row in analysis.findings.rows],
            says_none=True,
        ),
        Section(
            "Checks",
            _by_check(analysis),
            note="vacuous: runs in which it had nothing to examine, and so proves nothing.",
        ),
        Section(
            "Failovers",
            analysis.medians,
            note=_of_failovers(analysis),
            svg=plots.splits_by_fault(_in_groups(analysis.medians, analysis))
            + plots.failovers_by_fault(
                _in_groups(analysis.failovers.rows, analysis),
                _in_groups(analysis.medians, analysis),
            ),
            shown=_by_group(analysis),
        ),
        Section(
            "Outages",
            [_in_seconds(row) for row in analysis.outages.rows],
            note=_share(analysis.outages),
            svg=plots.outages_by_run(analysis.outages.rows),
        ),
        Section("Alerts", analysis.alerts.rows, note=_of_alerts(analysis)),
        Section("Latency and throughput", analysis.latencies),
        Section("Fetches", analysis.fetches, note="The prober's, one partition and one try each."),
        Section(
            "Replication",
            analysis.replication,
            note="Lags in records, from the looks.",
            svg=plots.lag_over_time(analysis.lag_over_time.rows),
        ),
        Section("Quarantine", analysis.quarantine.rows, note=_share(analysis.quarantine)),
    ]


def shown_value(value: object) -> str:
    """Return a cell's text: three significant digits for a fraction, – for null."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)


def shown_interval(median: float | None, low: float | None, high: float | None) -> str:
    """Return a median with its confidence interval, if it has one."""
    if low is None or high is None:
        return shown_value(median)
    return f"{shown_value(median)} ({shown_value(low)}–{shown_value(high)})"


_COMMIT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")


def with_short_commits(text: str) -> str:
    """Return the text with each whole commit id cut to twelve digits."""
    return _COMMIT.sub(r"\1", text)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _share(sample: Sample) -> str:
    shown = len(sample.rows)
    return "" if shown == sample.total else f"The first {shown} of {sample.total:,}."


def _of_verdicts(analysis: Analysis) -> str:
    rows = analysis.verdicts
    recorded = sum(bool(row["recorded"]) and row["recorded"] != row["outcome"] for row in rows)
    by_tables = sum(row["by_tables"] != row["outcome"] for row in rows)
    notes = []
    if recorded:
        notes.append(f"{recorded} of {len(rows)} differ from the verdict that was recorded.")
    if by_tables:
        notes.append(
            f"{by_tables} of {len(rows)} differ by the tables alone, which do not hold what the "
            "judge rests on besides: whether every step of a plan was done, what a simulator saw."
        )
    return " ".join(notes)


def _of_alerts(analysis: Analysis) -> str:
    """Return the sentence that explains alerts."""
    about = "Commands that a broker did not answer for the controller's command_timeout_ms."
    return f"{about} {_share(analysis.alerts)}".rstrip()


def _with_titles(analysis: Analysis) -> list[Row]:
    runs: Mapping[str, Row] = {row["run_id"]: row for row in analysis.runs.rows}
    told = ("preset", "title")
    rows = [
        row | {name: runs.get(row["run_id"], {}).get(name) or "" for name in told}
        for row in analysis.verdicts
    ]
    return sorted(rows, key=lambda row: WORST_FIRST.index(row["outcome"]))


def _in_words(finding: Row) -> Row:
    """Return a violation for people: its kind, place and message, in few columns."""
    place = f"{finding['topic']}-{finding['partition']}" if finding["topic"] else ""
    rest = [f"{name} {finding[name]}" for name in ("offset", "broker") if finding[name] >= 0]
    return {
        "run_id": finding["run_id"],
        "invariant": finding["invariant"],
        "message": finding["message"],
        "place": ", ".join(filter(None, (place, *rest))),
        "operation": finding["operation"],
    }


def _by_check(analysis: Analysis) -> list[Row]:
    """Return one row a check: numbers of runs and things examined; checks with findings first."""
    found: dict[str, Row] = {}
    for row in analysis.examined:
        name = row["check"]
        check = found.setdefault(
            name,
            {"check": name, "runs": 0, "vacuous": 0, "examined": 0, "violations": 0},
        )
        check["runs"] += 1
        check["vacuous"] += row["examined"] == 0
        check["examined"] += row["examined"]
        check["violations"] += row["found"]
    return sorted(found.values(), key=lambda row: -row["violations"])


def _of_failovers(analysis: Analysis) -> str:
    """Return the sentence that explains the medians, with the number of failovers without one."""
    how = (
        "Medians in milliseconds, with the interval that holds each with 95 % (from six failovers "
        "on). The fault is the last that acted before the new leader began."
    )
    changes = analysis.failovers
    without = sum(row["fault"] is None for row in changes.rows)
    if not without:
        return how
    whole = "all" if without == changes.total else f"{without:,} of {changes.total:,}"
    return f"{how} Before {whole} leader changes no fault was proven: they are not among these."


_PARTS = ("total_ms", *(split for split in SPLITS if split != "total_ms"))


def _by_group(analysis: Analysis) -> list[Row]:
    """Return one row a group: the number of failovers, and the median of each phase.

    A failover may lack phases, as when its leader was replaced before its first acknowledgement. It
    counts for the phases that it has.
    failovers: the count of the phase that most of them have.
    """
    names = _group_names(analysis)
    found: dict[tuple[str, ...], Row] = {}
    for row in sorted(analysis.medians, key=_key):
        group = found.setdefault(
            _key(row),
            {name: _shown_name(row[name]) for name in names}
            | {"failovers": 0}
            | dict.fromkeys(_PARTS, ""),
        )
        group["failovers"] = max(group["failovers"], row["count"])
        group[row["split"]] = shown_interval(row["median"], row["low"], row["high"])
    return list(found.values())


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] or "" for name in GROUP)


def _group_names(analysis: Analysis) -> list[str]:
    """Return names of the groups: the fault, the preset, and other columns that differ."""
    return [
        name
        for name in GROUP
        if name in ("fault", "preset") or len({row[name] for row in analysis.medians}) > 1
    ]


def _in_groups(rows: Sequence[Row], analysis: Analysis) -> list[Row]:
    """Return the rows with their group's name in place of the columns of GROUP."""
    names = _group_names(analysis)
    return [
        {**row, "group": " / ".join(_shown_name(row[name]) for name in names if row[name])}
        for row in rows
    ]


def _shown_name(name: str | None) -> str:
    return with_short_commits(name or "")


def _in_seconds(row: Row) -> Row:
    """Return the row with its times in seconds, and without columns that only serve joins."""
    times = {f"{name}_s": row[f"{name}_ns"] / 1e9 for name in ("from", "to")}
    kept = ("outage_ms", "fault")
    place = {name: row[name] for name in ("run_id", "topic", "partition")}
    return place | times | {name: row[name] for name in kept}
