"""The runs that a folder holds: a run's own folder, runs/ itself, or a soak's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from highwater.run_folder import is_run
from highwater_checker.verdict import Outcome

SOAKS = "soaks"
"""Of runs/: the folder of soaks."""
SOAK_FILE = "soak.json"
"""Of a soak: what its plans are drawn from."""


def runs_in(folder: Path) -> list[Path]:
    """Return the folders of runs in the folder; the folder itself where none is in it.

    Of runs/: its runs by name, without `latest`, which is a link, then those of its soaks. Of a
    soak: the runs that did not pass, by plan, where they are whole.
    """
    if is_run(folder):
        return [folder]
    return [*_runs_below(folder)] or [folder]


def _runs_below(folder: Path) -> Iterator[Path]:
    if (folder / SOAK_FILE).is_file():
        yield from _of_soak(folder)
        return
    for path in _folders_in(folder):
        if is_run(path):
            yield path
    for soak in _folders_in(folder / SOAKS):
        if (soak / SOAK_FILE).is_file():
            yield from _of_soak(soak)


def _of_soak(folder: Path) -> Iterator[Path]:
    from highwater.soak.folder import SoakFolder  # the nodes' code, which draws plans, loads slowly
    from highwater.soak.ledger import read_entries
    from highwater.soak.pruning import is_whole

    soak = SoakFolder(folder)
    entries, _ = read_entries(soak.ledger)
    for entry in entries:
        if entry.outcome is not Outcome.PASS and entry.run and is_whole(soak.runs / entry.run):
            yield soak.runs / entry.run


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders right below that are no links, by name; none where it is no folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
