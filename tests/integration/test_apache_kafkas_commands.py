"""Apache Kafka's own commands administer a cluster: topics, moves, elections, folders, values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.configs import describe_configs
from highwater.cluster.partitions import list_reassignments
from highwater.cluster.settling import await_leader, await_replicated
from highwater.cluster.throttles import throttle_move
from highwater.cluster.wire_client import WireClient, record_batch
from highwater.waiting import eventually
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import (
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    ConfigOwner,
)
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from tests.support.clusters import await_led_by
from tests.support.kafka_commands import (
    CONFIGS,
    LEADER_ELECTION,
    LOG_DIRS,
    REASSIGN_PARTITIONS,
    TOPICS,
    KafkaCommands,
)
from tests.support.metadata import await_assigned, await_known

pytestmark = [pytest.mark.docker, pytest.mark.full]

WITHIN_S = 60.0
THROTTLE = 1_000
Command = Callable[..., str]


@pytest.fixture
def command(steady: Cluster, kafka_commands: KafkaCommands) -> Command:
    def run(main: str, *arguments: str) -> str:
        return kafka_commands.run(main, steady.bootstrap, *arguments)

    return run


def rates(cluster: Cluster, broker: int) -> list[str | None]:
    """Return the broker's throttles in force, in bytes per second."""
    told = describe_configs(cluster, ConfigOwner(ConfigEntity.BROKER, str(broker)))
    names = (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE)
    return [each.value for each in told if each.name in names]


def test_partitions_are_moved_given_up_and_led_by_whom_they_prefer(
    steady: Cluster, new_topic: Callable[..., str], command: Command, tmp_path: Path
) -> None:
    at = TopicPartition(new_topic(steady, replicas=[(0, 1)]), 0)
    with WireClient(steady.external_endpoint(0), timeout_s=WITHIN_S) as client:
        for _ in range(6):  # more than one fetch takes, so that a throttle holds the move up
            large = record_batch([bytes(900_000)])
            assert client.produce(at.topic, 0, large).error is ErrorCode.NONE
    jobs = tmp_path / "jobs.json"

    def reassign(*arguments: str, to: tuple[int, ...] = ()) -> str:
        job = {"topic": at.topic, "partition": 0, "replicas": list(to)}
        jobs.write_text(json.dumps({"version": 1, "partitions": [job]}))
        return command(
            REASSIGN_PARTITIONS,
            *(("--reassignment-json-file", str(jobs)) if to else ()),
            *arguments,
        )

    # Brokers read a throttle a moment later: set only by the command, it may come after the move.
    throttle_move(steady, at, (1, 2), THROTTLE)
    eventually(lambda: rates(steady, 0) == rates(steady, 2) == [str(THROTTLE)] * 2, within=WITHIN_S)
    said = reassign("--execute", "--throttle", str(THROTTLE), to=(1, 2))
    assert f"Successfully started partition reassignment for {at}" in said
    assert f"{at}: replicas: 1,2,0. adding: 2. removing: 0." in reassign("--list")
    assert "still in progress" in reassign("--verify", to=(1, 2))
    assert "Successfully cancelled" in reassign("--cancel", to=(1, 2))
    assert not list_reassignments(steady, [at])

    reassign("--execute", to=(2, 0))
    eventually(lambda: not list_reassignments(steady, [at]), within=WITHIN_S)
    await_assigned(steady, at, (2, 0))
    assert f"Reassignment of partition {at} is completed." in reassign("--verify", to=(2, 0))
    before = await_leader(steady, at)
    one = ("--topic", at.topic, "--partition", "0")
    said = command(LEADER_ELECTION, "--election-type", "preferred", *one)
    if before.leader != 2:
        assert f"Successfully completed leader election (PREFERRED) for partitions {at}" in said
    after = await_led_by(steady, at, 2)
    said = command(LEADER_ELECTION, "--election-type", "preferred", *one)
    assert f"Valid replica already elected for partitions {at}" in said
    assert await_leader(steady, at) == after


def test_topics_are_made_described_expanded_configured_and_deleted(
    steady: Cluster, command: Command
) -> None:
    named = ("--topic", "by-command")
    made = command(
        TOPICS, "--create", *named, "--partitions", "2", "--replication-factor", "3",
        "--config", "min.insync.replicas=2",
    )  # fmt: skip
    assert "Created topic by-command." in made
    await_replicated(steady, "by-command", 2)
    await_known(steady, "by-command", 2)
    command(TOPICS, "--alter", *named, "--partitions", "3")
    await_replicated(steady, "by-command", 3)
    await_known(steady, "by-command", 3)
    described = command(TOPICS, "--describe", *named)
    assert "PartitionCount: 3" in described
    assert "ReplicationFactor: 3" in described
    assert "min.insync.replicas=2" in described
    assert described.count("Isr: ") == 3

    entity = ("--entity-type", "topics", "--entity-name", "by-command")
    command(CONFIGS, *entity, "--alter", "--add-config", "retention.ms=60000")
    eventually(
        lambda: "retention.ms=60000" in command(CONFIGS, *entity, "--describe"), within=WITHIN_S
    )
    command(CONFIGS, *entity, "--alter", "--delete-config", "retention.ms,min.insync.replicas")
    eventually(
        lambda: "retention.ms=60000" not in command(CONFIGS, *entity, "--describe"),
        within=WITHIN_S,
    )

    folders = command(LOG_DIRS, "--describe", "--topic-list", "by-command")
    (told,) = (json.loads(line) for line in folders.splitlines() if line.startswith("{"))
    assert [each["broker"] for each in told["brokers"]] == [0, 1, 2]
    replicas = [
        (part["partition"], part["size"], part["offsetLag"], part["isFuture"])
        for broker in told["brokers"]
        for folder in broker["logDirs"]
        for part in folder["partitions"]
    ]
    assert sorted(replicas) == sorted(
        [(f"by-command-{number}", 0, 0, False) for number in range(3)] * 3
    )
    command(TOPICS, "--delete", *named)
    eventually(lambda: "by-command" not in command(TOPICS, "--list").split(), within=WITHIN_S)
