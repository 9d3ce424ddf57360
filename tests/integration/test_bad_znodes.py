"""Malformed JSON in a znode is traced and left alone; once repaired, it is taken up again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from kazoo.client import KazooClient

from highwater.cluster.cluster import Cluster
from highwater.cluster.configs import describe_configs
from highwater.cluster.settling import await_full_isr, await_leader, await_look, await_replicated
from highwater.cluster.topics import create_topic, delete_topic
from highwater.cluster.wire_client import WireClient, record_batch
from highwater.report.observation import active_controller
from highwater.waiting import eventually
from highwater_checker.looks import leaderships
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import MIN_INSYNC_REPLICAS, ConfigOwner
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from tests.support.clusters import await_led_by, await_trace, live_traces, whole_look

pytestmark = pytest.mark.docker

Guard = Callable[[Cluster], AbstractContextManager[None]]

WITHIN_S = 60.0
MALFORMED = (b"{", b"", b"null", b"[1, 2]", b'{"version": "one"}', b"\xff\xfe\x00", b"{}")
MALFORMED_TOPICS = (
    *MALFORMED,
    b'{"version":1,"partitions":{"0":[]}}',
    b'{"version":1,"partitions":{"0":[1,1]}}',
    b'{"version":1,"partitions":{"zero":[1]}}',
)
MALFORMED_STATES = (
    *MALFORMED,
    b'{"version":1,"leader":0,"leader_epoch":0,"controller_epoch":1,"isr":[]}',
    b'{"version":1,"leader":9,"leader_epoch":0,"controller_epoch":1,"isr":[9]}',
    b'{"version":1,"leader":0,"leader_epoch":-5,"controller_epoch":1,"isr":[0]}',
    b'{"version":1,"leader":0,"leader_epoch":99999999999,"controller_epoch":1,"isr":[0]}',
)
MALFORMED_JOBS = (
    *MALFORMED,
    b'{"version":1,"partitions":{}}',
    b'{"version":1,"partitions":[1,null,"x"]}',
    b'{"version":1,"partitions":[{"topic":{"a":1},"partition":0,"replicas":[0]}]}',
    b'{"version":1,"partitions":[{"topic":"t","partition":1e400,"replicas":[0]}]}',
    b"[" * 5_000,
)
JOBS = ("/admin/reassign_partitions", "/admin/preferred_replica_election")
ODD_BROKER_IDS = ("not-a-number", "-1", "99999999999", "01")


@contextmanager
def zookeeper(cluster: Cluster) -> Iterator[KazooClient]:
    client = KazooClient(hosts=str(cluster.zookeeper_endpoint), timeout=10)
    client.start(10)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def jobs(*partitions: dict[str, object]) -> bytes:
    return json.dumps({"version": 1, "partitions": partitions}).encode()


def active(cluster: Cluster) -> int:
    look = await_look(
        cluster, "a controller is active", lambda look: active_controller(look) is not None
    )
    snapshot = active_controller(look)
    assert snapshot is not None
    return int(snapshot.node_id)


def bad_input_count(cluster: Cluster, node: int, path: str) -> int:
    return sum(
        event.kind is EventKind.BAD_INPUT_MET and event.detail["where"] == path
        for event in live_traces(cluster, node)
    )


def move_controller(cluster: Cluster) -> int:
    """Have another controller take over and read all znodes anew; return its id."""
    old = active(cluster)
    assert cluster.terminate(old) == 0
    cluster.start_node(old)
    cluster.wait_until_ready()
    new = active(cluster)
    assert new != old
    return new


def test_a_malformed_topic_is_left_out_and_taken_up_when_it_is_repaired(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    path = "/brokers/topics/by-hand"
    with nobody_restarts(steady), zookeeper(steady) as client:
        client.create(path, MALFORMED_TOPICS[0])
        for number, malformed in enumerate(MALFORMED_TOPICS):
            if number:
                client.set(path, malformed)
            eventually(
                lambda count=number + 1: bad_input_count(steady, active(steady), path) >= count,
                within=WITHIN_S,
                what=f"{malformed!r} is traced",
            )
        other = new_topic(steady)
        with WireClient(steady.external_endpoint(0)) as wire:
            assert wire.produce(other, 0, record_batch([b"x"])).error is ErrorCode.NONE

        client.set(path, b'{"version":1,"partitions":{"0":[2,0]}}')
        assert await_leader(steady, TopicPartition("by-hand", 0)).leader == 2
        await_full_isr(steady, "by-hand")
        with WireClient(steady.external_endpoint(2)) as wire:
            assert wire.produce("by-hand", 0, record_batch([b"x"])).error is ErrorCode.NONE
        assert delete_topic(steady, "by-hand") is ErrorCode.NONE


def test_a_known_topic_whose_znode_is_damaged_goes_on_being_served(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    name = new_topic(steady)
    path = f"/brokers/topics/{name}"
    with nobody_restarts(steady), zookeeper(steady) as client:
        sound, _ = client.get(path)
        client.set(path, b"garbage")
        await_trace(steady, active(steady), EventKind.BAD_INPUT_MET, where=path)
        with WireClient(steady.external_endpoint(0)) as wire:
            assert wire.produce(name, 0, record_batch([b"x"])).error is ErrorCode.NONE
        await_replicated(steady, name)
        client.set(path, sound)


def test_malformed_partition_states_survive_a_new_controller_and_their_repair_is_taken_up(
    steady: Cluster, new_topic: Callable[..., str]
) -> None:
    damages = {new_topic(steady): malformed for malformed in MALFORMED_STATES}
    paths = {name: f"/brokers/topics/{name}/partitions/0/state" for name in damages}
    with WireClient(steady.external_endpoint(0)) as wire, zookeeper(steady) as client:
        for name in damages:
            assert wire.produce(name, 0, record_batch([b"before"])).error is ErrorCode.NONE
        sound = {name: client.get(path)[0] for name, path in paths.items()}
        for name, malformed in damages.items():
            client.set(paths[name], malformed)
        new = move_controller(steady)
        for path in paths.values():
            await_trace(steady, new, EventKind.BAD_INPUT_MET, where=path)

        look = whole_look(steady)
        for name in damages:
            assert wire.produce(name, 0, record_batch([b"during"])).error is ErrorCode.NONE
            assert leaderships(look)[TopicPartition(name, 0)].leader == 0
        for name, path in paths.items():
            client.set(path, sound[name])
        # With the state znodes repaired, leaderships are handed over again when their leader stops.
        assert steady.terminate(0) == 0
        for name in damages:
            assert await_leader(steady, TopicPartition(name, 0), above_epoch=0).leader in (1, 2)
    steady.start_node(0)
    for name in damages:
        look = await_full_isr(steady, name)
        leader = leaderships(look)[TopicPartition(name, 0)].leader
        with WireClient(steady.external_endpoint(leader)) as wire:
            found = bytes(wire.fetch(name, 0, 0).records)
        assert b"before" in found
        assert b"during" in found
    steady.wait_until_ready()


def test_malformed_broker_registrations_are_traced_and_known_brokers_stay(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    name = new_topic(steady)
    with nobody_restarts(steady), zookeeper(steady) as client:
        sound, _ = client.get("/brokers/ids/1")
        client.set("/brokers/ids/1", b"garbage")
        client.create("/brokers/ids/77", b"garbage", ephemeral=True)
        for odd in ODD_BROKER_IDS:
            client.create(f"/brokers/ids/{odd}", sound, ephemeral=True)
        for name_in_ids in ("1", "77", *ODD_BROKER_IDS):
            path = f"/brokers/ids/{name_in_ids}"
            await_trace(steady, active(steady), EventKind.BAD_INPUT_MET, where=path)
        with WireClient(steady.external_endpoint(0)) as wire:
            assert wire.produce(name, 0, record_batch([b"x"])).error is ErrorCode.NONE
        look = await_replicated(steady, name)
        assert set(leaderships(look)[TopicPartition(name, 0)].isr) == {0, 1, 2}
        client.set("/brokers/ids/1", sound)
        client.delete("/brokers/ids/77")
        for odd in ODD_BROKER_IDS:
            client.delete(f"/brokers/ids/{odd}")
    steady.wait_until_ready()


def test_a_malformed_topic_configuration_leaves_what_was_known(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    name = new_topic(steady, config={"min.insync.replicas": "2"})
    path = f"/config/topics/{name}"
    with nobody_restarts(steady), zookeeper(steady) as client:
        for malformed in (b"garbage", b'{"version":1,"config":{"retention.ms":"soon"}}'):
            client.set(path, malformed)
            client.create(
                "/config/changes/config_change_",
                f'{{"version":2,"entity_path":"topics/{name}"}}'.encode(),
                sequence=True,
            )
        client.create("/config/changes/config_change_", b"garbage", sequence=True)
        for broker in (0, 1, 2):
            await_trace(steady, broker, EventKind.BAD_INPUT_MET, where=path, what="retention.ms")
            await_trace(steady, broker, EventKind.BAD_INPUT_MET, where="/config/changes/")
        with WireClient(steady.external_endpoint(0)) as wire:
            assert wire.produce(name, 0, record_batch([b"x"])).error is ErrorCode.NONE
        await_replicated(steady, name)


def test_a_topic_whose_configuration_is_malformed_from_the_start_has_the_defaults(
    steady: Cluster, nobody_restarts: Guard
) -> None:
    name = "odd-config"
    path = f"/config/topics/{name}"
    with nobody_restarts(steady), zookeeper(steady) as client:
        client.create(path, b"garbage")
        client.create(f"/brokers/topics/{name}", b'{"version":1,"partitions":{"0":[0,1,2]}}')
        await_full_isr(steady, name)
        for broker in (0, 1, 2):
            await_trace(steady, broker, EventKind.BAD_INPUT_MET, where=path)
        with WireClient(steady.external_endpoint(0)) as wire:
            assert wire.produce(name, 0, record_batch([b"x"])).error is ErrorCode.NONE
        assert delete_topic(steady, name) is ErrorCode.NONE


def announce(client: KazooClient, entity_path: str) -> None:
    change = json.dumps({"version": 2, "entity_path": entity_path}).encode()
    client.create("/config/changes/config_change_", change, sequence=True)


def config(**values: str) -> bytes:
    dotted = {name.replace("_", "."): value for name, value in values.items()}
    return json.dumps({"version": 1, "config": dotted}).encode()


@pytest.mark.parametrize("owner", ["<default>", "0"])
def test_malformed_broker_configurations_leave_the_known_values_and_stop_no_node(
    steady: Cluster, owner: str
) -> None:
    path = f"/config/brokers/{owner}"
    sound = config(min_insync_replicas="3")
    malformed_ones = (*MALFORMED, config(min_insync_replicas="many"), config(no_such_key="1"))

    def minimum_of_broker_0() -> str | None:
        described = describe_configs(steady, ConfigOwner(ConfigEntity.BROKER, "0"))
        return {entry.name: entry.value for entry in described}[MIN_INSYNC_REPLICAS]

    def await_minimum(told: str | None) -> None:
        eventually(lambda: minimum_of_broker_0() == told, within=WITHIN_S)

    default = minimum_of_broker_0()
    with zookeeper(steady) as client:
        client.ensure_path(path)  # an earlier test of this cluster may have configured the broker
        client.set(path, sound)
        announce(client, f"brokers/{owner}")
        await_minimum("3")
        for number, malformed in enumerate(malformed_ones, start=1):
            client.set(path, malformed)
            announce(client, f"brokers/{owner}")
            eventually(
                lambda count=number: bad_input_count(steady, 0, path) >= count,
                within=WITHIN_S,
                what=f"{malformed!r} is traced",
            )
        assert minimum_of_broker_0() == "3"
        await_trace(steady, move_controller(steady), EventKind.BAD_INPUT_MET, where=path)
        # A restarted broker knows no configurations but its start settings.
        assert steady.terminate(0) == 0
        steady.start_node(0)
        steady.wait_until_ready()
        await_minimum(default)
        for written, told in ((sound, "3"), (config(), default)):
            client.set(path, written)
            announce(client, f"brokers/{owner}")
            await_minimum(told)
        client.delete(path)


def test_a_configuration_of_no_broker_is_traced_and_left_alone(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    name, path = new_topic(steady), "/config/brokers/nobody"
    with nobody_restarts(steady), zookeeper(steady) as client:
        client.ensure_path("/config/brokers")
        client.create(path, config(min_insync_replicas="4"))
        announce(client, "brokers/nobody")
        for node in (0, active(steady)):
            await_trace(
                steady, node, EventKind.BAD_INPUT_MET, where="/config/changes/", what="nobody"
            )
        with WireClient(steady.external_endpoint(0)) as wire:
            assert wire.produce(name, 0, record_batch([b"x"])).error is ErrorCode.NONE
        client.delete(path)


def test_odd_requests_under_admin_and_notifications_are_dropped(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    name = new_topic(steady)
    with nobody_restarts(steady), zookeeper(steady) as client:
        client.create("/admin/delete_topics/no-such-topic", b"\xff garbage")
        client.create("/isr_change_notification/isr_change_", b"garbage", sequence=True)
        eventually(
            lambda: (
                not client.get_children("/admin/delete_topics")
                and not client.get_children("/isr_change_notification")
            ),
            within=WITHIN_S,
            what="both are gone",
        )
        await_trace(
            steady, active(steady), EventKind.BAD_INPUT_MET, where="/isr_change_notification/"
        )
        client.create(f"/admin/delete_topics/{name}", b"garbage, though its name is what counts")
        eventually(
            lambda: client.exists(f"/brokers/topics/{name}") is None,
            within=WITHIN_S,
            what="the topic is deleted",
        )
        create_topic(steady, name)


def test_garbage_in_the_znodes_of_jobs_is_traced_and_removed_and_sound_jobs_are_done(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard
) -> None:
    name = new_topic(steady)
    with nobody_restarts(steady), zookeeper(steady) as client:
        for path in JOBS:
            for malformed in MALFORMED_JOBS:
                client.create(path, malformed)
                eventually(
                    lambda path=path: client.exists(path) is None,
                    within=WITHIN_S,
                    what=f"{malformed!r} is removed",
                )
            await_trace(steady, active(steady), EventKind.BAD_INPUT_MET, where=path)
        client.create("/log_dir_event_notification/log_dir_event_", b"garbage", sequence=True)
        at = {"topic": name, "partition": 0}
        unknown = {"topic": "no-such-topic", "partition": 0}
        client.create(JOBS[0], jobs({**at, "replicas": [2, 1, 0]}, {**unknown, "replicas": [1]}))
        eventually(
            lambda: client.exists(JOBS[0]) is None, within=WITHIN_S, what="the order is changed"
        )
        client.create(JOBS[1], jobs(unknown, at, at))
        eventually(
            lambda: client.exists(JOBS[1]) is None, within=WITHIN_S, what="the election is held"
        )
        eventually(
            lambda: not client.get_children("/log_dir_event_notification"),
            within=WITHIN_S,
            what="the notification is removed",
        )
        # The changed order has an epoch of its own, in which broker 0 still leads.
        await_led_by(steady, TopicPartition(name, 0), 2)


@pytest.mark.parametrize("malformed", [b"garbage", b""], ids=repr)
def test_a_damaged_controller_znode_is_repaired_by_the_next_election(
    steady: Cluster, new_topic: Callable[..., str], nobody_restarts: Guard, malformed: bytes
) -> None:
    name = new_topic(steady)
    with nobody_restarts(steady), zookeeper(steady) as client:
        client.set("/controller", malformed)
        steady.wait_until_ready()
        with WireClient(steady.external_endpoint(0)) as wire:
            assert wire.produce(name, 0, record_batch([b"x"])).error is ErrorCode.NONE
        client.delete("/controller")
        steady.wait_until_ready()
        create_topic(steady, f"{name}-after")


def test_a_damaged_controller_epoch_stops_elections_until_it_is_repaired(
    steady: Cluster, new_topic: Callable[..., str]
) -> None:
    path = "/controller_epoch"
    old = active(steady)
    other = next(node for node in steady.topology.controller_ids if node != old)
    with zookeeper(steady) as client:
        sound, _ = client.get(path)
        for malformed in (b"garbage", b"9" * 5000):
            client.set(path, malformed)
        assert steady.terminate(old) == 0
        await_trace(steady, other, EventKind.BAD_INPUT_MET, where=path)
        assert steady.snapshot(other).active_controller is False
        client.set(path, sound)
    eventually(
        lambda: steady.snapshot(other).active_controller, within=WITHIN_S, what="it is elected"
    )
    steady.start_node(old)
    steady.wait_until_ready()
    assert steady.snapshot(other).controller_epoch == int(sound) + 1
    new_topic(steady)
