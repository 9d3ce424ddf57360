"""Which tests run, and how they are spread: those that share a cluster stay on one worker."""

from __future__ import annotations

import gc
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from highwater.checkout import commit_here
from tests.going_on import OtherCommit, PassedTests
from tests.in_turn import left_to_the_next

pytest.register_assert_rewrite("tests.clients", "tests.plans", "tests.support")

settings.register_profile("same every time", derandomize=True, database=None, deadline=None)
settings.register_profile("explores", print_blob=True, deadline=None)

MESSAGE_CHARACTERS = 1_000

_SHARED_CLUSTER = re.compile(r"\[((?:steady|brisk|sturdy)-[a-z0-9]+)")
"""The ids that tests/integration/conftest.py gives its shared clusters."""

_BURNING_WORKER = "gw0"

_SPARKS_TESTS = "tests/pipeline/"
_BUGS_TESTS = "tests/integration/test_bugs_in_containers.py"

_IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
_PASSED = pytest.StashKey[PassedTests]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests marked full")
    parser.addoption("--go-on", type=Path, metavar="FILE", help="leave out what FILE says passed")
    parser.addoption("--rewrite", action="store_true", help="write the stories of bugs anew")


def pytest_configure(config: pytest.Config) -> None:
    """A commit passes today and tomorrow alike; the full matrix looks for new examples."""
    settings.load_profile("explores" if config.getoption("--full") else "same every time")
    if path := config.getoption("--go-on"):
        try:
            passed = config.stash[_PASSED] = PassedTests(path, commit_here())
        except OtherCommit as error:
            raise pytest.UsageError(str(error)) from None
        if not _IS_WORKER:
            config.pluginmanager.register(passed)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _PASSED in config.stash:
        passed = config.stash[_PASSED].nodeids
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
        items[:] = [item for item in items if item.nodeid not in passed]
    if config.getoption("--full"):
        return
    left_out = {item.nodeid for item in items if item.get_closest_marker("full")}
    seed = os.environ.get("HIGHWATER_FRESH_SEED")
    if seed is not None:
        commits = [item.nodeid for item in items if item.nodeid not in left_out]
        left_out |= left_to_the_next(commits, int(seed))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


def pytest_collection_finish() -> None:
    """Let no garbage collection look at thousands of tests: it takes two seconds each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say at once why a test is red: a long run's tracebacks come at its end, if it gets there."""
    if report.failed and not _IS_WORKER:
        print(f"\n{_red(report)}", file=sys.__stdout__, flush=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Say last what was red: of a long CI log often only the end is kept."""
    gc.unfreeze()
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    for report in (*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())):
        print(_red(report))
    skipped = {str(report.longrepr[-1]) for report in reporter.stats.get("skipped", ())}
    for why in sorted(why for why in skipped if "stock client missing" in why):
        print(why)


def _red(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    why = " | ".join(crash.message.splitlines()) if crash else ""
    return f"red: {report.nodeid}: {why[:MESSAGE_CHARACTERS]}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give as one unit: a shared cluster's tests, the plans of historical bugs, another test in
    containers, a chunk of schedules, Spark's tests, which share a session, any other file.

    The first worker takes what keeps a core busy as long as there is any, the others what waits.
    Tests in containers wait most of their time: so both cores are used from the first minute to
    the last. xdist's own loadgroup does this by marks, but groups nothing under pytest 9.2.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByCluster(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            takes_waiting = node.gateway.id != _BURNING_WORKER
            preferred = (unit for unit in self.workqueue if waits(unit) == takes_waiting)
            unit = next(preferred, None)
            if unit is not None:
                self.workqueue.move_to_end(unit, last=False)
            super()._assign_work_unit(node)

    return ByCluster(config, log)


def waits(unit: str) -> bool:
    """Return whether the unit's tests are in containers."""
    return "/" not in unit or "/integration/" in unit


def unit_of(nodeid: str) -> str:
    """Return the name of the unit of work that the test belongs to."""
    shared = _SHARED_CLUSTER.search(nodeid)
    if shared:
        return shared[1]
    if nodeid.startswith(_SPARKS_TESTS):
        return _SPARKS_TESTS
    if nodeid.startswith(_BUGS_TESTS):  # each needs its moment, and three at a time miss it
        return _BUGS_TESTS
    is_alone = "/integration/" in nodeid or "/test_schedules.py" in nodeid
    return nodeid if is_alone else nodeid.partition("::")[0]
