"""The outcome of each run folder's ingestion, for people and for the caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from highwater_pipeline.tables import TABLES


class Taken(StrEnum):
    """The outcome of one folder's ingestion."""

    INGESTED = "ingested"
    UNCHANGED = "unchanged"
    """The run is stored already, with the same files."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RunIngest:
    """One folder's ingestion.

    why: the reason if the folder was refused, else "".
    rows: the number of stored rows by table, without tables that have none.
    quarantined: the number of lines and files in quarantine, by the first words of their reason
    (torn, not JSON, wrong, ...).
    """

    run_id: str
    taken: Taken
    why: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Every given folder, in the given order."""

    runs: tuple[RunIngest, ...]

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Return the given runs that are in the tables now."""
        return tuple(run.run_id for run in self.runs if run.taken is not Taken.REFUSED)

    @property
    def rows(self) -> Counter[str]:
        """Return these runs' number of rows, by table."""
        return sum((Counter(run.rows) for run in self.runs), Counter())

    @property
    def quarantined(self) -> Counter[str]:
        """Return these runs' number of lines and files in quarantine, by kind of reason."""
        return sum((Counter(run.quarantined) for run in self.runs), Counter())

    def __str__(self) -> str:
        """Return totals, and a line for each folder that was refused."""
        taken = Counter(run.taken.value for run in self.runs)
        rows, quarantined = self.rows, self.quarantined
        counted = {table.name: rows[table.name] for table in TABLES if rows[table.name]}
        lines = [f"{_counts(taken) or 'no runs'}; rows: {_counts(counted) or 'none'}"]
        if quarantined:
            lines.append(f"quarantined: {_counts(dict(sorted(quarantined.items())))}")
        refused = (run for run in self.runs if run.taken is Taken.REFUSED)
        return "\n".join([*lines, *(f"refused {run.run_id}: {run.why}" for run in refused)])


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())
