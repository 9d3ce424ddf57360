"""Pytest's fixtures and markers for clusters in containers.

    @pytest.mark.highwater(brokers=3, preset="v3")
    def test_something(highwater_cluster): ...

highwater_cluster is a test's own; highwater_module_cluster serves all tests of a module, its
topology from `pytestmark`. highwater_zookeeper is one bare ZooKeeper server for the session.
At the end of its tests a cluster is judged from its folder below runs/. A verdict that the marker
does not allow is an error of the last test; pytest's summary lists all verdicts. When a test fails,
its clusters' snapshots are stored before that; with --highwater-keep they stay up, and are not
judged. Nothing of the harness is imported before a test
asks for it.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from highwater.cluster.topology import Topology
    from highwater.runs.judged.cluster import JudgedCluster
    from highwater_core.ids import Endpoint

REQUIRE_VARIABLE = "HIGHWATER_REQUIRE_DOCKER"
"""Set to 1: a test that needs an engine fails without one, where it would be skipped."""
KEEP = "--highwater-keep"
ANSWERS_WITHIN_S = 60
"""An engine on a busy machine is slow; one that is silent for so long hangs."""
VERDICT_PROPERTY = "highwater"
"""The name of a verdict among a report's user properties, and so in junit.xml."""
_NEEDS_ENGINE = frozenset({"highwater_cluster", "highwater_module_cluster", "highwater_zookeeper"})
_NO_FAILURE = ("pass", "unknown")
_NOT_REPORTED = pytest.StashKey[list[str]]()
"""Verdicts that no test's report has yet."""
_HAS_ENDED = pytest.StashKey[bool]()
"""Whether the session has ended. Clusters that are up then, as after Ctrl-C, belong to a test that
has no report any more."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("highwater", "clusters of Highwater")
    group.addoption(
        KEEP,
        action="store_true",
        help="Leave the clusters of failed tests up; `highwater down RUN` removes them.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "highwater(verdict_in=('pass', 'unknown'), **topology): what highwater_cluster brings up: "
        "fields of highwater.Topology; and the verdicts with which its test passes, () for any "
        "without judging",
    )
    config.stash[_NOT_REPORTED] = []
    config.stash[_HAS_ENDED] = False


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note that the session has ended, before pytest ends the fixtures of an interrupted test."""
    session.config.stash[_HAS_ENDED] = True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip (or fail) a test that needs an engine where none answers, before its fixtures run.

    An engine that answered an earlier test and is silent now ends the session: each further test
    would wait for it in vain, for minutes.
    """
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("docker") is None and _NEEDS_ENGINE.isdisjoint(fixtures):
        return
    missing = _engine_is_missing()
    if not missing:
        _end_the_session_without_answer(item)
        return
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{missing} ({REQUIRE_VARIABLE}=1)", pytrace=False)
    pytest.skip(missing)


def _end_the_session_without_answer(item: pytest.Item) -> None:
    from highwater.cluster.engine import why_silent

    silent = why_silent(ANSWERS_WITHIN_S)
    if silent:
        item.session.shouldfail = f"{silent}; the tests end here"
        pytest.fail(silent, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store logs, traces and snapshots of a failed test's clusters while they are still up."""
    report = yield
    if report.when == "call" and report.failed:
        for cluster in _clusters_of(item):
            cluster.has_failed = True
            report.sections.append(("highwater", _store_evidence(cluster, item.nodeid)))
    if report.when == "teardown":
        told = item.config.stash[_NOT_REPORTED]
        report.user_properties += [(VERDICT_PROPERTY, text) for text in told]
        told.clear()
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the verdicts of all clusters, also of those that other workers ran."""
    reports = [each for group in terminalreporter.stats.values() for each in group]
    verdicts = [
        text
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, text in report.user_properties
        if name == VERDICT_PROPERTY
    ]
    if verdicts:
        terminalreporter.section("verdicts of clusters")
        for text in dict.fromkeys(verdicts):
            terminalreporter.write_line(text)


@pytest.fixture
def highwater_cluster(request: pytest.FixtureRequest) -> Iterator[JudgedCluster]:
    """A running cluster of the test's own."""
    yield from _running_cluster(request)


@pytest.fixture(scope="module")
def highwater_module_cluster(request: pytest.FixtureRequest) -> Iterator[JudgedCluster]:
    """A running cluster that the tests of a module share."""
    yield from _running_cluster(request)


@pytest.fixture(scope="session")
def highwater_zookeeper() -> Iterator[Endpoint]:
    """The endpoint of one bare ZooKeeper server; each test uses paths of its own."""
    from highwater.cluster.zookeeper_server import zookeeper_server

    with zookeeper_server() as endpoint:
        yield endpoint


@dataclass(frozen=True)
class _Wanted:
    """The marker's arguments. verdict_in: the outcomes that are no error."""

    topology: Topology
    verdict_in: frozenset[str]


def _wanted(request: pytest.FixtureRequest) -> _Wanted:
    from highwater.cluster.topology import Topology
    from highwater_checker.verdict import Outcome
    from highwater_core.config import Preset

    marker = request.node.get_closest_marker("highwater")
    fields = dict(marker.kwargs) if marker is not None else {}
    verdict_in = fields.pop("verdict_in", _NO_FAILURE)
    if "preset" in fields:
        fields["preset"] = Preset(fields["preset"])
    return _Wanted(Topology(**fields), frozenset(Outcome(each).value for each in verdict_in))


def _running_cluster(request: pytest.FixtureRequest) -> Iterator[JudgedCluster]:
    from highwater.project import runs_root
    from highwater.run_folder import TEST, new_run_id
    from highwater.runs.judged.cluster import JudgedCluster

    wanted, keeps = _wanted(request), request.config.getoption(KEEP)
    folder = runs_root() / new_run_id("test")
    with JudgedCluster(wanted.topology, folder, may_stay=keeps) as cluster:
        cluster.start()
        (cluster.folder / TEST).write_text(request.node.nodeid + "\n", encoding="utf-8")
        yield cluster
        if keeps and cluster.has_failed:
            cluster.leave_up()
            request.config.stash[_NOT_REPORTED].append(_how_to_look(request, cluster))
        elif wanted.verdict_in and not request.config.stash[_HAS_ENDED]:
            _judge(request, cluster, wanted.verdict_in)


def _how_to_look(request: pytest.FixtureRequest, cluster: JudgedCluster) -> str:
    run = cluster.run_id
    lines = (
        f"{request.node.nodeid}: not judged, {run} is up:",
        f"  clients on this machine: {cluster.bootstrap}",
        f"  see it:    highwater status {run}",
        f"  logs:      highwater logs --run {run} broker-0",
        f"  remove it: highwater down {run}",
    )
    return "\n".join(lines)


def _judge(
    request: pytest.FixtureRequest, cluster: JudgedCluster, verdict_in: frozenset[str]
) -> None:
    """Judge the cluster, report the verdict, and fail where it is none of those.

    Raises:
        pytest.fail.Exception: it is another one.
    """
    from highwater.errors import HarnessError
    from highwater.runs.judged.words import say_verdict
    from highwater_checker.verdict import Outcome

    try:
        verdict = cluster.judge()
    except HarnessError as error:
        outcome, text = Outcome.UNKNOWN, f"{request.node.nodeid}: unknown: {error}"
    else:
        outcome, text = verdict.outcome, say_verdict(request.node.nodeid, cluster.folder, verdict)
    request.config.stash[_NOT_REPORTED].append(text)
    if outcome.value not in verdict_in:
        allowed = " or ".join(sorted(verdict_in))
        pytest.fail(f"the verdict is not {allowed}: {text}", pytrace=False)


@cache
def _engine_is_missing() -> str:
    """Return the message for a missing engine; "" when one answers."""
    from highwater.cluster.engine import connect_engine
    from highwater.errors import EngineMissing

    try:
        connect_engine().close()
    except EngineMissing as error:
        return str(error)
    return ""


def _clusters_of(item: pytest.Item) -> list[JudgedCluster]:
    """Return the clusters among the test's fixtures; none when no test made one so far."""
    values: dict[str, Any] = getattr(item, "funcargs", {})
    found = [value for value in values.values() if type(value).__name__ == "JudgedCluster"]
    if not found:
        return []
    from highwater.runs.judged.cluster import JudgedCluster

    return [value for value in found if isinstance(value, JudgedCluster)]


def _store_evidence(cluster: JudgedCluster, test: str) -> str:
    """Return the evidence's folder, or why there is none; it must not hide the test's own error."""
    folder = cluster.folder
    try:
        with (folder / "failed.txt").open("a", encoding="utf-8") as failed:
            failed.write(test + "\n")
        cluster.collect_live(folder)
    except Exception:  # noqa: BLE001  (shown in the report, beside the test's own failure)
        return f"evidence in {folder} is incomplete:\n{traceback.format_exc()}"
    return f"logs, traces and snapshots: {folder}"
