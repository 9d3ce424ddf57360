"""Pytest's fixtures, markers and options for clusters in containers, and for plans.

    @pytest.mark.highwater(brokers=3, preset="v3")
    def test_something(highwater_cluster): ...

    @pytest.mark.highwater_plan("leader_killed.json")
    def test_of_a_plan(highwater_run): ...

highwater_cluster is a test's own; highwater_class_cluster serves all tests of a class, with the
class's marker, highwater_module_cluster those of a module, with that in `pytestmark`, and
highwater_session_cluster all, with that of highwater_session_marker. highwater_zookeeper is one
bare ZooKeeper server for the session.
At the end of its tests a cluster is judged from its folder below runs/. A verdict that the marker
does not allow is an error of the last test; pytest's summary lists all verdicts. When a test fails,
its clusters' snapshots and stacks are stored before that; with --highwater-keep they stay up, and
are not judged. highwater_run is the result of the marker's plan. Nothing of the harness but small
parts of highwater.testing is imported before a test asks for it.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Generator, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from highwater.testing import asked
from highwater.testing.verdicts import take_told, write_summary

if TYPE_CHECKING:
    from highwater.runs.judged.cluster import JudgedCluster
    from highwater.runs.plans.outcome import PlanResult
    from highwater_core.ids import Endpoint

REQUIRE_VARIABLE = "HIGHWATER_REQUIRE_DOCKER"
"""Set to 1: a test that needs an engine fails without one, where it would be skipped."""
HANG_AFTER = "--highwater-hang-after"
ANSWERS_WITHIN_S = 60
"""An engine on a busy machine is slow; one that is silent for so long hangs."""
_HAS_ENDED = pytest.StashKey[bool]()
"""Whether the session has ended. Clusters that are up then, as after Ctrl-C, belong to a test that
has no report any more."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("highwater", "clusters of Highwater")
    group.addoption(
        asked.KEEP,
        action="store_true",
        help="Leave the clusters of failed tests up; `highwater down RUN` removes them.",
    )
    group.addoption(
        HANG_AFTER,
        type=_seconds,
        metavar="S",
        help="A test with a cluster that takes longer fails, with the stacks of all nodes.",
    )
    asked.add_options(group)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from error
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is no time to wait")
    return seconds


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "highwater(verdict_in=('pass', 'unknown'), sized_disks=False, faulty_disks=False, "
        "movable_clocks=False, **topology): what highwater_cluster brings up: fields of "
        "highwater.Topology, and disks and clocks for faults that need such; and the verdicts "
        "with which its test passes, () for any without judging",
    )
    config.addinivalue_line(
        "markers",
        "highwater_plan(*plans, client='own', world='docker', verdict_in=None): what highwater_run "
        "runs: files below the test's folder, patterns, or Plans, each a test of its own; and the "
        "verdicts with which the test passes, () for any; default: that which the plan expects",
    )
    config.stash[_HAS_ENDED] = False


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note that the session has ended, before pytest ends the fixtures of an interrupted test."""
    session.config.stash[_HAS_ENDED] = True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each plan, where the marker names several."""
    marker = metafunc.definition.get_closest_marker(asked.MARKER)
    if marker is None or asked.RUN not in metafunc.fixturenames:
        return
    wanted, why = None, ""
    try:
        wanted = asked.read_marker(marker)
    except (TypeError, ValueError) as error:
        why = str(error)
    if wanted is None:
        pytest.fail(why, pytrace=False)  # here, so that it is told without the error before it
    plans = asked.plans_of(wanted, metafunc.definition.path.parent)
    if len(plans) > 1 or (plans and "*" in str(marker.args[0])):
        metafunc.parametrize(asked.RUN, plans, ids=asked.names_of(plans), indirect=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a test that its world does not have, before its fixtures run; skip, or fail, one that
    needs an engine where none answers.

    An engine that answered an earlier test and is silent now ends the session: each further test
    would wait for it in vain, for minutes.
    """
    fixtures = getattr(item, "fixturenames", ())
    if asked.RUN not in fixtures and any(each.name == asked.MARKER for each in item.own_markers):
        pytest.fail(f"{asked.MARKER} runs nothing: the test does not take {asked.RUN}", False)
    clusters = [each for each in asked.ON_CONTAINERS if each in fixtures]
    if clusters and item.config.getoption(asked.WORLD) == asked.SIM:
        pytest.fail(f"{clusters[0]} is of containers: not with {asked.WORLD} sim", pytrace=False)
    runs_in_docker = asked.RUN in fixtures and asked.world_of(item) == asked.DOCKER
    if item.get_closest_marker("docker") is None and not clusters and not runs_in_docker:
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
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test by its plan's verdict before it begins, and by its time while it hangs."""
    if asked.RUN in getattr(item, "fixturenames", ()):
        from highwater.testing.plans import WRONG

        if wrong := item.stash.get(WRONG, ""):
            pytest.fail(wrong, pytrace=False)
    after_s, clusters = item.config.getoption(HANG_AFTER), _clusters_of(item)
    if after_s is None or not clusters:
        return (yield)
    from highwater.testing.hangs import ends_when_it_hangs

    with ends_when_it_hangs(item, clusters, after_s):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store the evidence of a failed test's clusters while they are still up."""
    report = yield
    if report.when == "call" and report.failed and call.excinfo is not None:
        for cluster in _clusters_of(item):
            report.sections += _evidence(item, cluster, call.excinfo.value)
    if report.when == "teardown":
        report.user_properties += take_told(item.config)
    return report


def _evidence(
    item: pytest.Item, cluster: JudgedCluster, error: BaseException
) -> Iterator[tuple[str, str]]:
    """Yield the report's sections about a failed test's cluster: stacks only where it hung."""
    from highwater.testing.clusters import store_evidence
    from highwater.testing.hangs import STACKS_TOLD, is_a_waits_end

    cluster.has_failed = True
    told = item.stash.get(STACKS_TOLD, {}).get(cluster.run_id, "")
    where, stacks = store_evidence(cluster, item.nodeid, told)
    if is_a_waits_end(error):
        yield "highwater: stacks", stacks
    yield "highwater", where


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the verdicts of all clusters and plans, also of those that other workers ran."""
    workers = getattr(terminalreporter.config.option, "tx", None) or ()
    is_simulated = terminalreporter.config.getoption(asked.WORLD) == asked.SIM
    write_summary(terminalreporter, 0 if is_simulated else len(workers))


@pytest.fixture
def highwater_cluster(request: pytest.FixtureRequest) -> Iterator[JudgedCluster]:
    """A running cluster of the test's own."""
    yield from _running_cluster(request)


@pytest.fixture(scope="class")
def highwater_class_cluster(request: pytest.FixtureRequest) -> Iterator[JudgedCluster]:
    """A running cluster that the tests of a class share."""
    yield from _running_cluster(request)


@pytest.fixture(scope="module")
def highwater_module_cluster(request: pytest.FixtureRequest) -> Iterator[JudgedCluster]:
    """A running cluster that the tests of a module share."""
    yield from _running_cluster(request)


@pytest.fixture(scope="session")
def highwater_session_cluster(
    request: pytest.FixtureRequest, highwater_session_marker: pytest.MarkDecorator
) -> Iterator[JudgedCluster]:
    """A running cluster that all tests share; the marker is that of highwater_session_marker."""
    yield from _running_cluster(request, highwater_session_marker.mark)


@pytest.fixture(scope="session")
def highwater_session_marker() -> pytest.MarkDecorator:
    """The marker of highwater_session_cluster, for a project to override; no test has it."""
    return pytest.mark.highwater


@pytest.fixture
def highwater_run(request: pytest.FixtureRequest) -> PlanResult:
    """The result of the marker's plan, run in the world that the options say."""
    from highwater.errors import HarnessError
    from highwater.testing.plans import run_plan_of

    try:
        return run_plan_of(request.node, getattr(request, "param", None))
    except HarnessError as error:
        why = str(error)
    return pytest.fail(why, pytrace=False)  # here, so that it is told without the error before it


@pytest.fixture(scope="session")
def highwater_zookeeper() -> Iterator[Endpoint]:
    """The endpoint of one bare ZooKeeper server; each test uses paths of its own."""
    from highwater.cluster.zookeeper_server import zookeeper_server

    with zookeeper_server() as endpoint:
        yield endpoint


def _running_cluster(
    request: pytest.FixtureRequest, marker: pytest.Mark | None = None
) -> Iterator[JudgedCluster]:
    """marker: in place of the tests' own."""
    from highwater.testing.clusters import MARKER, running_cluster

    config = request.config
    yield from running_cluster(
        request,
        marker or request.node.get_closest_marker(MARKER),
        config.getoption(asked.KEEP),
        lambda: config.stash[_HAS_ENDED],
    )


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
