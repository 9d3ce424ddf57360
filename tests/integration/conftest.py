"""Clusters for the tests in containers, under each preset, and the watch over their health.

`steady` serves tests that let every node live or stop it cleanly: its sessions outlast a pause.
`brisk` serves those that kill brokers one at a time. Both serve all tests of a worker, so a test
takes topics of its own and leaves every node running. `mortal` is a test's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import pytest

from highwater.cluster import Cluster
from highwater.run_folder import RunFolder, new_run_id
from highwater.topics import create_topic
from highwater.topology import Topology
from highwater.trial import Trial
from highwater_core.config import Preset
from highwater_core.ids import NodeId

TopicMaker = Callable[..., str]
Guard = Callable[[Cluster], AbstractContextManager[None]]

_SHARED = ("steady", "brisk")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a shared cluster on one worker (pytest -n 2 --dist loadgroup)."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        shared = [name for name in _SHARED if name in getattr(item, "fixturenames", ())]
        if callspec is not None and shared:
            item.add_marker(pytest.mark.xdist_group(f"{shared[0]}-{callspec.params['preset']}"))


@pytest.fixture(scope="session", params=list(Preset), ids=str)
def preset(request: pytest.FixtureRequest) -> Preset:
    found: Preset = request.param
    return found


@pytest.fixture(scope="session")
def steady(preset: Preset) -> Iterator[Cluster]:
    topology = Topology(
        preset=preset,
        session_timeout_ms=30_000,
        broker_settings={"replica_lag_time_max_ms": 60_000},
    )
    with Cluster(topology, new_run_id(f"steady-{preset}")) as cluster:
        yield cluster.start()


@pytest.fixture(scope="session")
def brisk(preset: Preset) -> Iterator[Cluster]:
    topology = Topology(
        preset=preset,
        controllers=1,
        session_timeout_ms=4_000,
        broker_settings={
            "replica_lag_time_max_ms": 60_000,
            "high_watermark_checkpoint_interval_ms": 500,
        },
    )
    with Cluster(topology, new_run_id(f"brisk-{preset}")) as cluster:
        yield cluster.start()


@pytest.fixture
def mortal(preset: Preset) -> Iterator[Cluster]:
    topology = Topology(preset=preset, session_timeout_ms=2_000)
    with Cluster(topology, new_run_id(f"mortal-{preset}")) as cluster:
        yield cluster.start()


@pytest.fixture
def trial(mortal: Cluster, tmp_path: Path) -> Trial:
    """A trial on a cluster of its own, with a topic of two partitions on three brokers."""
    folder = RunFolder(tmp_path / "run")
    create_topic(
        mortal,
        "trial",
        replicas=[(0, 1, 2), (1, 2, 0)],
        config={"min.insync.replicas": "2"},
    )
    return Trial(mortal, folder, topic="trial", partition_count=2)


@pytest.fixture(scope="session")
def _topic_numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def new_topic(_topic_numbers: Iterator[int]) -> TopicMaker:
    """Creates a topic with a name of its own: one partition, broker 0 before 1 before 2."""

    def make(cluster: Cluster, **options: object) -> str:
        name = f"topic{next(_topic_numbers)}"
        if not {"replicas", "partition_count"} & set(options):
            options["replicas"] = [(0, 1, 2)]
        create_topic(cluster, name, **options)  # type: ignore[arg-type]
        return name

    return make


@pytest.fixture
def nobody_restarts() -> Guard:
    """A block in which every node must live on: the same processes before and after it."""

    @contextmanager
    def guard(cluster: Cluster) -> Iterator[None]:
        before = _incarnations(cluster)
        yield
        assert _incarnations(cluster) == before, cluster.describe()

    return guard


def _incarnations(cluster: Cluster) -> dict[NodeId, int]:
    return {node: cluster.snapshot(node, timeout_s=10).incarnation for node in cluster.node_ids}
