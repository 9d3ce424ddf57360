"""What became of each run folder, for people and for the caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from highwater_pipeline.tables import TABLES


class Taken(StrEnum):
    """What became of a folder."""

    INGESTED = "ingested"
    UNCHANGED = "unchanged"
    """Its files are those that are in the tables."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class RunIngest:
    """One folder. why: it was refused, else "".

    rows: in the store, by table, those with none left out. quarantined: lines and files in
    quarantine, by the first words of their reason (torn, not JSON, wrong, ...).
    """

    run_id: str
    taken: Taken
    why: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Every folder that was given, in that order."""

    runs: tuple[RunIngest, ...]

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Return the runs that are in the tables now, of those that were given."""
        return tuple(run.run_id for run in self.runs if run.taken is not Taken.REFUSED)

    @property
    def rows(self) -> Counter[str]:
        """Return how many rows these runs have, by table."""
        return sum((Counter(run.rows) for run in self.runs), Counter())

    @property
    def quarantined(self) -> Counter[str]:
        """Return how many lines and files of these runs are in quarantine, by kind of reason."""
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
