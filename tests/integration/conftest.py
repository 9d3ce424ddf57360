"""Clusters for the tests in containers, under each preset, and the watch over their health.

`steady` serves tests that let every node live or stop it cleanly: its sessions outlast a pause.
`brisk` serves those that kill brokers one at a time, `sturdy` those that hold two still meanwhile.
These serve all tests of a worker, so a test takes topics of its own and leaves every node running.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.topics import create_topic
from highwater.cluster.topology import Topology
from highwater.run_folder import new_run_id
from highwater_core.config import Preset
from highwater_core.ids import NodeId
from tests.support.kafka_commands import KafkaCommands, kafka_commands_or_skip
from tests.support.metadata import await_known
from tests.support.presets import EACH_TIME

TopicMaker = Callable[..., str]
Guard = Callable[[Cluster], AbstractContextManager[None]]


def running(topology: Topology) -> Iterator[Cluster]:
    with Cluster(topology, new_run_id("test")) as cluster:
        yield cluster.start()


def under_presets(kind: str, *, nightly: Collection[Preset] = ()) -> Any:
    """Return a fixture's parameters: one cluster of the kind under each preset.

    nightly: these presets only with --full, for tests whose results a preset hardly changes.
    tests/conftest.py keeps the tests of a shared cluster on one worker by these ids.
    """
    return [
        pytest.param(
            preset,
            id=f"{kind}-{preset.value}",
            marks=pytest.mark.full if preset in nightly else (),
        )
        for preset in EACH_TIME
    ]


@pytest.fixture(scope="session", params=under_presets("steady", nightly=(Preset.V3,)))
def steady(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    topology = Topology(
        preset=request.param,
        session_timeout_ms=30_000,
        broker_settings={"replica_lag_time_max_ms": 60_000},
    )
    yield from running(topology)


def often_checkpointed(preset: Preset, session_timeout_ms: int) -> Topology:
    """Brokers that checkpoint high watermarks often; no replica leaves an ISR for lagging."""
    return Topology(
        preset=preset,
        controllers=1,
        session_timeout_ms=session_timeout_ms,
        broker_settings={
            "replica_lag_time_max_ms": 60_000,
            "high_watermark_checkpoint_interval_ms": 500,
        },
    )


@pytest.fixture(scope="session", params=under_presets("brisk"))
def brisk(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from running(often_checkpointed(request.param, session_timeout_ms=4_000))


@pytest.fixture(scope="session", params=under_presets("sturdy", nightly=(Preset.V3,)))
def sturdy(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from running(often_checkpointed(request.param, session_timeout_ms=12_000))


@pytest.fixture(autouse=True)
def _healed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bring nodes of a shared cluster back that a failed test left behind, and wait for them all.

    A test that failed may have started its node a moment ago: the next would find it not live.
    """
    yield
    for kind in ("steady", "brisk", "sturdy"):
        cluster = request.node.funcargs.get(kind)
        if cluster is None:
            continue
        status = {node: cluster.status(node) for node in cluster.node_ids}
        for node, word in status.items():
            if word == "paused":
                cluster.unpause(node)
            elif word != "running":
                cluster.start_node(node)
        cluster.wait_until_ready()


@pytest.fixture(scope="session")
def _topic_numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def new_topic(_topic_numbers: Iterator[int]) -> TopicMaker:
    """Creates a topic with a name of its own, and returns when all brokers know it.

    Without options: one partition, replicas 0, 1, 2.
    """

    def make(cluster: Cluster, **options: Any) -> str:
        name = f"topic{next(_topic_numbers)}"
        if not {"replicas", "partition_count"} & set(options):
            options["replicas"] = [(0, 1, 2)]
        create_topic(cluster, name, **options)
        await_known(cluster, name, len(options.get("replicas", ())) or options["partition_count"])
        return name

    return make


@pytest.fixture
def nobody_restarts() -> Guard:
    """A block in which no node may restart: the same processes run before and after it."""

    @contextmanager
    def guard(cluster: Cluster) -> Iterator[None]:
        before = _incarnations(cluster)
        yield
        assert _incarnations(cluster) == before, cluster.describe()

    return guard


def _incarnations(cluster: Cluster) -> dict[NodeId, int]:
    return {node: cluster.snapshot(node, timeout_s=10).incarnation for node in cluster.node_ids}


@pytest.fixture(scope="session")
def kafka_commands() -> KafkaCommands:
    """Apache Kafka's own commands."""
    return kafka_commands_or_skip()
