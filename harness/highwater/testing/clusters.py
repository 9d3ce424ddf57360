"""The clusters of tests: brought up from the marker, their evidence kept, judged at the end."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from highwater.cluster.looking import how_to_look
from highwater.cluster.stacks import STACKS, all_stacks
from highwater.cluster.topology import Topology
from highwater.errors import HarnessError
from highwater.project import runs_root
from highwater.report.again import again_of
from highwater.report.page import PAGE
from highwater.run_folder import TEST, new_run_id
from highwater.runs.judged.cluster import JudgedCluster
from highwater.runs.judged.words import say_verdict
from highwater.testing.places import place_for_cluster
from highwater.testing.verdicts import name_here, tell
from highwater_checker.verdict import Outcome
from highwater_core.config import Preset

MARKER = "highwater"
_PREPARED = ("sized_disks", "faulty_disks", "movable_clocks")
_NO_FAILURE = ("pass", "unknown")


@dataclass(frozen=True)
class _Wanted:
    """The marker's arguments.

    verdict_in: the outcomes that are no error; with none the cluster is not judged.
    prepared: what nodes have for some faults, by the names of Cluster's arguments.
    """

    topology: Topology
    verdict_in: frozenset[Outcome]
    prepared: frozenset[str]


def _wanted(marker: pytest.Mark | None) -> _Wanted:
    fields = dict(marker.kwargs) if marker is not None else {}
    verdict_in = fields.pop("verdict_in", _NO_FAILURE)
    if "preset" in fields:
        fields["preset"] = Preset(fields["preset"])
    prepared = frozenset(name for name in _PREPARED if fields.pop(name, False))
    outcomes = frozenset(Outcome(each) for each in verdict_in)
    return _Wanted(Topology(**fields), outcomes, prepared)


def running_cluster(
    request: pytest.FixtureRequest,
    marker: pytest.Mark | None,
    keeps: bool,
    is_interrupted: Callable[[], bool],
) -> Iterator[JudgedCluster]:
    """Yield the marker's cluster, up; then judge it, where the session was not interrupted.

    keeps: whether it stays up, not judged, when a test of it failed.
    """
    wanted = _wanted(marker)
    folder = runs_root() / new_run_id("test")
    with (
        place_for_cluster(is_worker=hasattr(request.config, "workerinput")),
        JudgedCluster(
            wanted.topology,
            folder,
            may_stay=keeps,
            sized_disks="sized_disks" in wanted.prepared,
            faulty_disks="faulty_disks" in wanted.prepared,
            movable_clocks="movable_clocks" in wanted.prepared,
        ) as cluster,
    ):
        cluster.start()
        test = name_here(request.node)
        (cluster.folder / TEST).write_text(test + "\n", encoding="utf-8")
        yield cluster
        if keeps and cluster.has_failed:
            cluster.leave_up()
            head = f"{_who(request)}: not judged, {cluster.run_id} is up:"
            tell(request.config, "\n  ".join((head, *how_to_look(cluster))))
        elif wanted.verdict_in and not is_interrupted():
            _judge(request, cluster, wanted.verdict_in)


def _judge(
    request: pytest.FixtureRequest, cluster: JudgedCluster, verdict_in: frozenset[Outcome]
) -> None:
    """Judge the cluster, report the verdict, and fail where it is none of those.

    Raises:
        pytest.fail.Exception: it is another one.
    """
    try:
        verdict = cluster.judge(verdict_in)
    except HarnessError as error:
        outcome, text = Outcome.UNKNOWN, f"{_who(request)}: unknown: {error}"
    else:
        outcome, text = verdict.outcome, say_verdict(_who(request), cluster.folder, verdict)
    if cluster.has_failed or outcome not in verdict_in:
        text = "\n  ".join((text, *_where_to_look(cluster.folder)))
    tell(request.config, text)
    if outcome not in verdict_in:
        allowed = " or ".join(sorted(each.value for each in verdict_in))
        pytest.fail(f"the verdict is not {allowed}: {text}", pytrace=False)


def _who(request: pytest.FixtureRequest) -> str:
    """Return the name of the test, class or file whose cluster it is."""
    return request.node.nodeid or "all tests"


def _where_to_look(folder: Path) -> Iterator[str]:
    """Yield the page of the run, where it has one, and the command that runs its test again."""
    if (folder / PAGE).is_file():
        yield f"its page: {folder / PAGE}"
    yield f"again: {again_of(folder).command}"


def store_evidence(cluster: JudgedCluster, test: str, stacks: str) -> tuple[str, str]:
    """Store what the cluster of a failed test has now; return where, or why not, and the stacks.

    It must not hide the test's own error.

    stacks: those that were told while the test hung; "": they are asked for now.
    """
    folder = cluster.folder
    try:
        with (folder / "failed.txt").open("a", encoding="utf-8") as failed:
            failed.write(test + "\n")
        stacks = stacks or all_stacks(cluster)
        with (folder / STACKS).open("a", encoding="utf-8") as file:
            file.write(f"=== {test}\n{stacks}")
        cluster.collect_live(folder)
    except Exception:  # noqa: BLE001  (shown in the report, beside the test's own failure)
        return f"evidence in {folder} is incomplete:\n{traceback.format_exc()}", stacks
    return f"logs, traces, snapshots and stacks: {folder}", stacks
