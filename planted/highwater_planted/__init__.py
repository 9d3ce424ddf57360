"""Planted bugs: known mistakes in the protocol, for measuring whether the search finds them.

with planted("truncate_nothing"):
    ...  # every node made here has the bug
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from highwater_planted import (
    commands,
    commitment,
    compaction,
    configs,
    controllers,
    fetchers,
    folders,
    groups,
    isr,
    jobs,
    late,
    later_rows,
    offsets,
    sequences,
    starts,
    storage,
    transitions,
    truncation,
)
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

PLANTED: dict[str, PlantedBug] = {
    bug.name: bug
    for bug in (
        *truncation.BUGS,
        *commitment.BUGS,
        *isr.BUGS,
        *controllers.BUGS,
        *commands.BUGS,
        *storage.BUGS,
        *starts.BUGS,
        *late.BUGS,
        *jobs.BUGS,
        *configs.BUGS,
        *transitions.BUGS,
        *folders.BUGS,
        *compaction.BUGS,
        *sequences.BUGS,
        *offsets.BUGS,
        *groups.BUGS,
        *fetchers.BUGS,
        *later_rows.BUGS,
    )
}


def planted(name: str) -> AbstractContextManager[None]:
    """Put the bug of that name into this process's node code for the length of a with block."""
    return PLANTED[name].apply()


__all__ = ["PLANTED", "FaultFamily", "PlantedBug", "Replacement", "planted"]
