"""The folders of runs below one folder: what each was, its stored verdict, and its size."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from highwater.run_folder import is_run, name_of_test, was_on_containers
from highwater.runs.plans.running import WorldName
from highwater_checker.run_folder.documents import (
    BUILD,
    PLAN,
    TOPOLOGY,
    VERDICT,
    BadDocument,
    RunBuild,
)
from highwater_checker.run_folder.files import text_of
from highwater_checker.verdict import Outcome

_MOMENT = re.compile(r"-(\d{8}-\d{6})-[0-9a-f]{4}$")


class _Titled(msgspec.Struct):
    """The fields of a plan, of any format, by which a reader knows it again."""

    seed: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run's folder. Unknown fields are "".

    begun_ms: since 1970: by the run's id, else by its folder's oldest file.
    changed_ms: since 1970: when something in the folder changed last.
    what: the title or seed of its plan, or the name of its test.
    outcome: of its stored verdict; None of a run that was interrupted, or goes on.
    reason: the verdict's first one.
    builds: which nodes ran which builds, a line each; none where all ran the same build.
    """

    path: Path
    begun_ms: int
    changed_ms: int
    world: WorldName
    preset: str
    what: str
    outcome: Outcome | None
    reason: str
    size_bytes: int
    builds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return text_of(self.path.name)


def kept_runs(folder: Path) -> list[KeptRun]:
    """Return the runs right below the folder, the newest first; `latest`, a link, is none.

    Other folders, as of soaks and campaigns, are left out.
    """
    found = [
        _kept(path)
        for path in folder.iterdir()
        if path.is_dir() and not path.is_symlink() and is_run(path)
    ]
    return sorted(found, key=lambda run: (run.begun_ms, run.name), reverse=True)


def _kept(path: Path) -> KeptRun:
    stats = list(_files_below(path))
    changes_ms = [round(each.st_mtime * 1000) for each in stats]
    outcome, reason = _verdict_of(path)
    return KeptRun(
        path=path,
        begun_ms=_begun_ms(path.name) or min(changes_ms, default=0),
        changed_ms=max(changes_ms, default=0),
        world=WorldName.DOCKER if was_on_containers(path) else WorldName.SIM,
        preset=_preset_of(path),
        what=_what_was_run(path),
        outcome=outcome,
        reason=reason,
        size_bytes=sum(each.st_size for each in stats),
        builds=_builds_of(path),
    )


def _files_below(path: Path) -> Iterator[os.stat_result]:
    """Yield the state of each file; one that is gone meanwhile, or is denied, is left out."""
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(OSError):
                yield Path(folder, name).lstat()


def _begun_ms(run_id: str) -> int | None:
    found = _MOMENT.search(run_id)
    if found is None:
        return None
    try:
        at = datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(at.timestamp() * 1000)


def _verdict_of(path: Path) -> tuple[Outcome | None, str]:
    try:
        verdict = VERDICT.read(path)
    except BadDocument as why:
        return None, str(why)
    if verdict is None:
        return None, ""
    return verdict.outcome, next(iter(verdict.reasons), "")


def _preset_of(path: Path) -> str:
    try:
        topology = TOPOLOGY.read(path)
    except BadDocument:
        return ""
    return "" if topology is None or topology.preset is None else topology.preset


def _builds_of(path: Path) -> tuple[str, ...]:
    try:
        return (BUILD.read(path) or RunBuild()).told()
    except BadDocument:
        return ()


def _what_was_run(path: Path) -> str:
    try:
        plan = PLAN.read(path)
        if plan is not None:
            titled = msgspec.json.decode(plan, type=_Titled)
            seed = "" if titled.seed is None else f"seed {titled.seed}"
            return titled.title or seed
    except (BadDocument, msgspec.DecodeError):
        return ""
    return name_of_test(path)


def chosen(
    runs: Iterable[KeptRun],
    *,
    outcomes: Collection[Outcome | None] = (),
    begun_before_ms: int | None = None,
    named: str = "",
) -> list[KeptRun]:
    """Return the runs with one of the outcomes, in their order.

    outcomes: None among them stands for runs without a verdict; none at all: every run.
    begun_before_ms: only those that began before this time since 1970.
    named: part of their name, or of what was run.
    """
    return [
        run
        for run in runs
        if (not outcomes or run.outcome in outcomes)
        and (begun_before_ms is None or run.begun_ms < begun_before_ms)
        and (named in run.name or named in run.what)
    ]


def removable(
    runs: Sequence[KeptRun],
    picked: Sequence[KeptRun],
    *,
    keep: int,
    up: Collection[str],
    quiet_before_ms: int,
    here: Path,
) -> list[KeptRun]:
    """Return those of the picked runs that may go, in their order.

    Never the newest `keep` of all runs, those whose cluster is up, those without a verdict in which
    something changed after quiet_before_ms, since they may be going on, and the run in whose folder
    the caller is.
    """
    newest = {run.name for run in runs[:keep]}
    return [
        run
        for run in picked
        if run.name not in newest
        and run.name not in up
        and (run.outcome is not None or run.changed_ms < quiet_before_ms)
        and not here.is_relative_to(run.path.resolve())
    ]
