"""A broker with two log folders on containers: one fails, and only its replicas go offline."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from highwater.cluster.cluster import Cluster
from highwater.cluster.disks import DISK_FOLDER
from highwater.cluster.log_folders import described_log_folders, folder_of
from highwater.cluster.topics import create_topic
from highwater.cluster.topology import Topology
from highwater.commands.status import look_at
from highwater.run_folder import new_run_id
from highwater.waiting import eventually
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from tests.support.metadata import await_known

pytestmark = pytest.mark.docker

FIRST, SECOND = TopicPartition("first", 0), TopicPartition("second", 0)
SETTINGS = {
    "log_folders": "d0,d1",
    "high_watermark_checkpoint_interval_ms": 300,
}
WITHIN_S = 60.0


def leaders(cluster: Cluster) -> dict[TopicPartition, tuple[int, tuple[int, ...]]]:
    """Return each partition's leader and ISR, as the leaders report them."""
    seen = [cluster.try_snapshot(node, timeout_s=10) for node in cluster.topology.broker_ids]
    return {
        replica.topic_partition: (node.node_id, tuple(sorted(replica.isr)))
        for node in seen
        if node is not None
        for replica in node.replicas
        if replica.role == "leader"
    }


def in_broker(cluster: Cluster, broker: int, *command: str) -> str:
    container = cluster.engine.containers.get(cluster.container_name(broker))
    code, said = container.exec_run(list(command))
    assert code == 0, said
    return str(said.decode())


def described(cluster: Cluster, broker: int) -> dict[str, tuple[int, list[str]]]:
    """Return each log folder's error and its partitions' folders, by kafka-python."""
    servers = cluster.bootstrap.split(",")
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        (told,) = admin.describe_log_dirs(brokers=[broker])
    folders: list[dict[str, Any]] = told["log_dirs"]
    for each in folders:
        if not each["error_code"]:
            assert 0 < each["usable_bytes"] <= each["total_bytes"]
    return {
        each["log_dir"].rpartition("/")[2]: (
            each["error_code"],
            sorted(
                f"{topic['name']}-{partition['partition_index']}"
                for topic in each["topics"]
                for partition in topic["partitions"]
            ),
        )
        for each in folders
    }


def test_one_of_two_folders_fails_and_the_other_goes_on() -> None:
    topology = Topology(
        brokers=2, controllers=1, session_timeout_ms=2_000, broker_settings=SETTINGS
    )
    with Cluster(topology, new_run_id("test")) as cluster:
        cluster.start()
        for topic in ("first", "second"):
            create_topic(cluster, topic, replicas=((0, 1),))
            await_known(cluster, topic)  # by the follower, too, which has its folder then
        folders = in_broker(
            cluster, 0, "sh", "-c", f"cd {DISK_FOLDER}; ls -d d?/first-0 d?/second-0"
        )
        assert folders.split() == ["d0/first-0", "d1/second-0"]
        assert described(cluster, 0) == {"d0": (0, ["first-0"]), "d1": (0, ["second-0"])}
        told = described_log_folders(cluster)
        assert [folder_of(told, each, FIRST) for each in (0, 1)] == ["d0", "d0"]
        assert [folder_of(told, each, SECOND) for each in (0, 1)] == ["d1", "d1"]
        in_broker(cluster, 0, "chmod", "000", f"{DISK_FOLDER}/d0")
        # The next new replica goes to the folder with the fewest replicas, and meets its fault.
        create_topic(cluster, "third", replicas=((1, 0),), broker=1)
        eventually(
            lambda: leaders(cluster).get(FIRST) == (1, (1,)),
            within=WITHIN_S,
            what="broker 1 leads the first topic alone",
            state=lambda: leaders(cluster),
        )
        assert leaders(cluster)[SECOND] == (0, (0, 1))
        assert described(cluster, 0)["d0"] == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        told = described_log_folders(cluster)
        assert [folder_of(told, each, FIRST) for each in (0, 1)] == ["failed", "d0"]
        shown = look_at(cluster).nodes
        assert [shown[each].failed_log_folders for each in (0, 1)] == [("d0",), ()]
        in_broker(cluster, 0, "chmod", "755", f"{DISK_FOLDER}/d0")
        cluster.kill(0)
        cluster.start_node(0)
        eventually(
            lambda: leaders(cluster).get(FIRST) == (1, (0, 1)),
            within=WITHIN_S,
            what="the replica is in sync again",
            state=lambda: leaders(cluster),
        )
