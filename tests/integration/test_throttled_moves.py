"""Replicas move throttled, by `highwater reassign` and by Apache Kafka's own tool (KIP-73)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli import make_app
from highwater.cluster.cluster import Cluster
from highwater.cluster.configs import describe_configs
from highwater.cluster.partitions import list_reassignments, reassign
from highwater.cluster.settling import await_replicated
from highwater.cluster.throttles import is_throttled, throttle_move
from highwater.cluster.wire_client import WireClient, record_batch
from highwater.waiting import eventually
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import ConfigOwner
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from tests.support.kafka_commands import REASSIGN_PARTITIONS, KafkaCommands
from tests.support.metadata import await_assigned

pytestmark = pytest.mark.docker

WITHIN_S = 60.0
BATCHES, BATCH_BYTES = 6, 900_000
LITTLE, ENOUGH = 1_000, 1_000_000_000
RATES = ["follower.replication.throttled.rate", "leader.replication.throttled.rate"]
REPLICAS = ["follower.replication.throttled.replicas", "leader.replication.throttled.replicas"]


def produce(cluster: Cluster, at: TopicPartition, size_bytes: int) -> None:
    with WireClient(cluster.external_endpoint(0), timeout_s=WITHIN_S) as client:
        batch = record_batch([bytes(size_bytes)])
        assert client.produce(at.topic, at.partition, batch).error is ErrorCode.NONE


@pytest.fixture
def moved(steady: Cluster, new_topic: Callable[..., str]) -> TopicPartition:
    """A partition on brokers 0 and 1 with more bytes than one fetch takes."""
    at = TopicPartition(new_topic(steady, replicas=[(0, 1)]), 0)
    for _ in range(BATCHES):
        produce(steady, at, BATCH_BYTES)
    return at


def values(cluster: Cluster, entity: ConfigEntity, name: str, keys: list[str]) -> list[str]:
    told = {
        each.name: each.value or "" for each in describe_configs(cluster, ConfigOwner(entity, name))
    }
    return [told[key] for key in keys]


def rates(cluster: Cluster) -> list[list[str]]:
    return [values(cluster, ConfigEntity.BROKER, str(broker), RATES) for broker in (0, 1, 2)]


def await_throttle(cluster: Cluster, at: TopicPartition, rate: int, replicas: list[str]) -> None:
    """Wait until all brokers report their rate, and some broker the topic's throttled replicas."""
    eventually(lambda: rates(cluster) == [[str(rate)] * 2] * 3, within=WITHIN_S)
    eventually(
        lambda: values(cluster, ConfigEntity.TOPIC, at.topic, REPLICAS) == replicas, within=WITHIN_S
    )


def await_no_throttle(cluster: Cluster, at: TopicPartition) -> None:
    await_throttle(cluster, at, 2**63 - 1, ["", ""])


def end_at(cluster: Cluster, broker: int, at: TopicPartition) -> int:
    replicas = {each.topic_partition: each for each in cluster.snapshot(broker).replicas}
    return int(replicas[at].log_end_offset) if at in replicas else 0


def test_a_move_waits_for_its_throttle_and_clients_do_not(
    steady: Cluster, moved: TopicPartition
) -> None:
    throttle_move(steady, moved, [0, 2], LITTLE)
    eventually(
        lambda: [rates(steady)[broker] for broker in (0, 2)] == [[str(LITTLE)] * 2] * 2,
        within=WITHIN_S,
    )
    reassign(steady, moved, [0, 2])
    eventually(lambda: end_at(steady, 2, moved) > 0, within=WITHIN_S, what="a first fetch")
    for _ in range(5):
        produce(steady, moved, 10)  # replicas in sync get them at once
    assert list_reassignments(steady, [moved])
    assert end_at(steady, 2, moved) < BATCHES

    command = ["reassign", str(moved), "--to", "0,2", "--throttle", str(ENOUGH)]
    result = CliRunner().invoke(make_app("reassign"), [*command, "--run", steady.run_id])
    assert result.exit_code == 0, result.output
    await_no_throttle(steady, moved)
    assert not is_throttled(steady, moved)
    await_replicated(steady, moved.topic)
    assert end_at(steady, 2, moved) == BATCHES + 5


def test_kafkas_own_tool_throttles_a_move_and_lifts_the_throttle_once_it_is_verified(
    steady: Cluster, moved: TopicPartition, kafka_commands: KafkaCommands, tmp_path: Path
) -> None:
    moves = tmp_path / "moves.json"
    job = {"topic": moved.topic, "partition": moved.partition, "replicas": [2, 0]}
    moves.write_text(json.dumps({"version": 1, "partitions": [job]}))

    def tool(*arguments: str) -> str:
        of_job = ("--reassignment-json-file", str(moves))
        return kafka_commands.run(REASSIGN_PARTITIONS, steady.bootstrap, *of_job, *arguments)

    said = tool("--execute", "--throttle", str(LITTLE))
    assert f"The inter-broker throttle limit was set to {LITTLE} B/s" in said
    assert f"Successfully started partition reassignment for {moved}" in said
    await_throttle(steady, moved, LITTLE, ["0:2", "0:0,0:1"])
    said = tool("--execute", "--additional", "--throttle", str(ENOUGH))
    assert f"The inter-broker throttle limit was set to {ENOUGH} B/s" in said
    eventually(lambda: not list_reassignments(steady, [moved]), within=WITHIN_S)
    await_assigned(steady, moved, (2, 0))
    said = tool("--verify")
    assert f"Reassignment of partition {moved} is completed." in said
    assert "Clearing topic-level throttles" in said
    await_no_throttle(steady, moved)
    assert end_at(steady, 2, moved) == BATCHES
