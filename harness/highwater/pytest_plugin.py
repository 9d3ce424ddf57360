"""Pytest's fixtures and markers for clusters in containers.

    @pytest.mark.highwater(brokers=3, preset="v3")
    def test_something(highwater_cluster): ...

highwater_cluster is a test's own; highwater_module_cluster serves all tests of a module, its
topology from `pytestmark`. highwater_zookeeper is one bare ZooKeeper server for the session.
When a test fails, the logs, traces and snapshots of its clusters go to a folder below runs/, and
the report names it. Nothing of the harness is imported before a test asks for it.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from highwater.cluster.cluster import Cluster
    from highwater_core.ids import Endpoint

REQUIRE_VARIABLE = "HIGHWATER_REQUIRE_DOCKER"
"""Set to 1: a test that needs an engine fails without one, where it would be skipped."""
_NEEDS_ENGINE = frozenset({"highwater_cluster", "highwater_module_cluster", "highwater_zookeeper"})


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "highwater(**topology): what highwater_cluster brings up: fields of highwater.Topology",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip (or fail) a test that needs an engine where none answers, before its fixtures run."""
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("docker") is None and _NEEDS_ENGINE.isdisjoint(fixtures):
        return
    missing = _engine_is_missing()
    if not missing:
        return
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{missing} ({REQUIRE_VARIABLE}=1)", pytrace=False)
    pytest.skip(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Store logs, traces and snapshots of a failed test's clusters while they are still up."""
    report = yield
    if report.when == "call" and report.failed:
        for cluster in _clusters_of(item):
            report.sections.append(("highwater", _store_evidence(cluster, item.nodeid)))
    return report


@pytest.fixture
def highwater_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster of the test's own."""
    yield from _running_cluster(request)


@pytest.fixture(scope="module")
def highwater_module_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster that the tests of a module share."""
    yield from _running_cluster(request)


@pytest.fixture(scope="session")
def highwater_zookeeper() -> Iterator[Endpoint]:
    """The endpoint of one bare ZooKeeper server; each test uses paths of its own."""
    from highwater.cluster.zookeeper_server import zookeeper_server

    with zookeeper_server() as endpoint:
        yield endpoint


def _running_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    from highwater.cluster.cluster import Cluster
    from highwater.cluster.topology import Topology
    from highwater.run_folder import new_run_id

    marker = request.node.get_closest_marker("highwater")
    fields = dict(marker.kwargs) if marker is not None else {}
    if "preset" in fields:
        from highwater_core.config import Preset

        fields["preset"] = Preset(fields["preset"])
    with Cluster(Topology(**fields), new_run_id("test")) as cluster:
        cluster.start()
        yield cluster


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


def _clusters_of(item: pytest.Item) -> list[Cluster]:
    """Return the clusters among the test's fixtures; none when no test made one so far."""
    values: dict[str, Any] = getattr(item, "funcargs", {})
    found = [value for value in values.values() if type(value).__name__ == "Cluster"]
    if not found:
        return []
    from highwater.cluster.cluster import Cluster

    return [value for value in found if isinstance(value, Cluster)]


def _store_evidence(cluster: Cluster, test: str) -> str:
    """Return the evidence's folder, or why there is none; it must not hide the test's own error."""
    from highwater.project import runs_root

    folder = runs_root() / cluster.run_id
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test.txt").write_text(test + "\n", encoding="utf-8")
        cluster.collect_live(folder)
    except Exception:  # noqa: BLE001  (shown in the report, beside the test's own failure)
        return f"evidence in {folder} is incomplete:\n{traceback.format_exc()}"
    return f"logs, traces and snapshots: {folder}"
