"""The znodes and folders that bring-up, creation and deletion of topics leave.

Source of the znodes: Kafka's paths and JSON, the table in highwater_core.znodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_look
from highwater.cluster.topics import create_topic, delete_topic
from highwater.cluster.wire_client import WireClient, record_batch
from highwater.report.observation import active_controller
from highwater.waiting import eventually
from highwater_checker.looks import Look, leaderships
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from tests.support.broker_files import BrokerFiles
from tests.support.clusters import whole_look
from tests.support.metadata import await_known

pytestmark = pytest.mark.docker

WITHIN_S = 60.0


def znodes(cluster: Cluster) -> dict[str, object]:
    return {path: znode.data for path, znode in cluster.zookeeper_dump().items()}


def folders_of(cluster: Cluster, broker: int, topic: str) -> list[str]:
    """Return the broker's folders of the topic, also folders being deleted or set aside."""
    return [name for name in BrokerFiles(cluster, broker).names() if name.startswith(f"{topic}-")]


def test_bring_up_registers_every_node(steady: Cluster) -> None:
    found = steady.zookeeper_dump()
    look = whole_look(steady)
    active = [node for node, snapshot in look.nodes.items() if snapshot.active_controller]

    controller = found["/controller"]
    assert set(controller.data) == {"version", "brokerid", "timestamp"}
    assert (controller.data["version"], [controller.data["brokerid"]]) == (1, active)
    assert controller.ephemeral_owner != 0
    assert found["/controller_epoch"].data == look.nodes[active[0]].controller_epoch
    for broker in steady.topology.broker_ids:
        znode = found[f"/brokers/ids/{broker}"]
        address, external = steady.address(broker), steady.external_endpoint(broker)
        storage_id = znode.data.pop("storage_id", "")
        assert bool(storage_id) == (steady.topology.preset is Preset.FENCED)
        assert znode.data == {
            "version": 4,
            "host": address,
            "port": 9092,
            "jmx_port": -1,
            "timestamp": znode.data["timestamp"],
            "endpoints": [
                f"CLIENT://{address}:9092",
                f"EXTERNAL://{external}",
                f"REPLICATION://{address}:9093",
                f"CONTROL://{address}:9095",
            ],
            "listener_security_protocol_map": dict.fromkeys(
                ("CLIENT", "EXTERNAL", "REPLICATION", "CONTROL"), "PLAINTEXT"
            ),
            "rack": None,
        }
        assert re.fullmatch(r"\d{13}", znode.data["timestamp"])
        assert znode.ephemeral_owner != 0
        snapshot = look.nodes[broker]
        assert snapshot is not None
        if steady.topology.preset is Preset.FENCED:
            assert snapshot.broker_epoch == znode.czxid


def test_a_created_topic_is_in_zookeeper_and_on_disk_and_a_deleted_one_nowhere(
    steady: Cluster,
) -> None:
    name = "comes-and-goes"
    create_topic(
        steady, name, replicas=[(0, 1), (1, 2)], config={"min.insync.replicas": "2"}, broker=1
    )
    await_known(steady, name, 2)  # and so it has made its replicas' folders

    found = znodes(steady)
    topic = dict(found[f"/brokers/topics/{name}"])
    topic_id = topic.pop("topic_id", None)
    if steady.topology.preset is Preset.FENCED:
        assert re.fullmatch(r"[0-9a-f]{32}", topic_id)
        assert topic == {
            "version": 3,
            "partitions": {"0": [0, 1], "1": [1, 2]},
            "adding_replicas": {},
            "removing_replicas": {},
        }
    else:
        assert topic_id is None
        assert topic == {"version": 1, "partitions": {"0": [0, 1], "1": [1, 2]}}
    assert found[f"/config/topics/{name}"] == {
        "version": 1,
        "config": {"min.insync.replicas": "2"},
    }
    for partition, replicas in enumerate(([0, 1], [1, 2])):
        state = dict(found[f"/brokers/topics/{name}/partitions/{partition}/state"])
        if steady.topology.preset is Preset.FENCED:
            assert sorted(state.pop("storage_ids")) == [str(broker) for broker in replicas]
            assert state.pop("leader_broker_epoch") > 0
        assert state == {
            "version": 1,
            "leader": replicas[0],
            "leader_epoch": 0,
            "controller_epoch": found["/controller_epoch"],
            "isr": replicas,
        }
    hosted = {broker: folders_of(steady, broker, name) for broker in (0, 1, 2)}
    assert hosted == {0: [f"{name}-0"], 1: [f"{name}-0", f"{name}-1"], 2: [f"{name}-1"]}

    assert delete_topic(steady, name, broker=2) is ErrorCode.NONE
    eventually(
        lambda: not [path for path in znodes(steady) if name in path],
        within=WITHIN_S,
        what="no znode of the topic",
        state=lambda: [path for path in znodes(steady) if name in path],
    )
    eventually(
        lambda: not [folders for b in (0, 1, 2) for folders in folders_of(steady, b, name)],
        within=WITHIN_S,
        what="no folder of the topic",
    )
    assert not [key for key in leaderships(whole_look(steady)) if key.topic == name]


def test_a_topic_that_is_created_again_starts_empty(
    steady: Cluster, new_topic: Callable[..., str]
) -> None:
    name = new_topic(steady)
    with WireClient(steady.external_endpoint(0)) as client:
        assert client.produce(name, 0, record_batch([b"of the first"])).error is ErrorCode.NONE
    assert delete_topic(steady, name) is ErrorCode.NONE
    create_topic(steady, name, replicas=[(0, 1, 2)])

    with WireClient(steady.external_endpoint(0)) as client:
        found = client.fetch(name, 0, 0, max_wait_ms=0)
        assert (found.error, found.high_watermark, bytes(found.records)) == (ErrorCode.NONE, 0, b"")
        result = client.produce(name, 0, record_batch([b"of the second"]))
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)


def _knows_but_two(look: Look) -> bool:
    controller = active_controller(look)
    return controller is not None and set(controller.live_brokers) == {0, 1}


def test_deletion_waits_for_a_dead_replica_and_completes_when_its_broker_is_back(
    steady: Cluster, new_topic: Callable[..., str]
) -> None:
    name = new_topic(steady)
    assert steady.terminate(2) == 0
    # Not judged by the ISR: under v3 a fetch that the leader reads late brings the broker back
    # until it lags out (mended by KIP-841).
    await_look(steady, "the controller knows that the broker has stopped", _knows_but_two)

    delete_topic(steady, name, timeout_ms=1_000)
    eventually(
        lambda: not folders_of(steady, 0, name) + folders_of(steady, 1, name),
        within=WITHIN_S,
        what="the live replicas are deleted",
    )
    found = znodes(steady)
    assert f"/admin/delete_topics/{name}" in found
    assert f"/brokers/topics/{name}" in found
    assert folders_of(steady, 2, name) == [f"{name}-0"]

    steady.start_node(2)
    eventually(
        lambda: not [path for path in znodes(steady) if name in path],
        within=WITHIN_S,
        what="the deletion has completed",
        state=steady.describe,
    )
    assert folders_of(steady, 2, name) == []
    steady.wait_until_ready()
