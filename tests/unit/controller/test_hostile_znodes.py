"""Malformed znodes are left out and traced, and the controller lives on."""

from __future__ import annotations

import asyncio
import json
import random
from types import SimpleNamespace

import pytest

from highwater_controller.state_reader import read_leadership
from highwater_core import znodes
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import CreateTopicsRequest, NewTopic, UpdateMetadataRequest

P0 = TopicPartition("t", 0)
STATE = znodes.partition_state_path(P0)


def bad_znodes(cluster):
    return [event.detail["where"] for event in cluster.events(EventKind.BAD_INPUT_MET)]


def create(cluster, name):
    (result,) = cluster.ask(CreateTopicsRequest((NewTopic(name, 1, 1),))).results
    return result.error


# ---------------------------------------------------------------- names and epochs


def test_a_topic_with_an_invalid_name_is_left_out_and_traced_once(running):
    running.write_topic("a b", (0, 1))
    running.write_topic("x" * 250, (0, 1))
    running.write_topic("good", (0, 1))
    running.until(lambda: running.brokers[0].leaderships(), "the good one")
    running.write_topic("more", (0, 1))
    running.settle()
    assert {at.topic for at in running.brokers[0].leaderships()} == {"good", "more"}
    assert bad_znodes(running) == ["/brokers/topics/a b", f"/brokers/topics/{'x' * 250}"]
    assert running.data("/brokers/topics/a b/partitions") is None
    # It is no topic, so no init command is withheld for it, and its deletion is none.
    running.write("/admin/delete_topics/a b", b"")
    running.until(lambda: running.data("/admin/delete_topics/a b") is None, "the request's end")
    running.expire_session()
    running.until_failed_over()
    assert {at.topic for at in running.brokers[0].leaderships()} == {"good", "more"}


def test_a_malformed_controller_epoch_deposes_nobody_by_itself(running):
    """A state of a later controller epoch makes the controller look at /controller_epoch."""
    running.create_topic("t", (0, 1))
    running.brokers[1].die()
    running.until(lambda: running.state("t").isr == (0,), "the smaller ISR")
    running.start_broker(1)
    running.settle()
    running.write(
        STATE, b'{"version":1,"leader":0,"leader_epoch":5,"controller_epoch":9,"isr":[0]}'
    )
    running.write(znodes.CONTROLLER_EPOCH, b"nine")
    running.brokers[1].die()  # it is in no ISR: the state is read, and nothing is to be written
    running.until(lambda: znodes.CONTROLLER_EPOCH in bad_znodes(running), "the report")
    running.settle()
    assert STATE in bad_znodes(running)
    # Repaired, it is looked at with the next write; the state that was held is read again then.
    running.write(znodes.CONTROLLER_EPOCH, b"9")
    running.ask(CreateTopicsRequest((NewTopic("u", 1, 1),)))
    running.until_failed_over()
    assert running.active().snapshot().controller_epoch == 10
    running.settle()
    assert running.brokers[0].leaderships()[P0].leader_epoch == 5


def test_a_leader_epoch_that_cannot_be_raised_holds_its_partition_and_no_other(running):
    running.create_topic("t", (0, 1), (0, 1))
    last = '{{"version":1,"leader":0,"leader_epoch":{},"controller_epoch":1,"isr":[0,1]}}'
    running.write(STATE, last.format(2**31 - 1).encode())
    running.brokers[0].die()
    running.until(lambda: running.state("t", 1).leader == 1, "the other's election")
    running.settle()
    assert STATE in bad_znodes(running)
    assert running.data(STATE) == last.format(2**31 - 1).encode()
    running.write(STATE, last.format(2**31 - 2).encode())
    running.until(lambda: running.data(STATE) != last.format(2**31 - 2).encode(), "the repair")
    running.settle()
    assert json.loads(running.data(STATE))["leader_epoch"] == 2**31 - 1
    assert running.brokers[1].leaderships()[P0].leader_epoch == 2**31 - 1
    assert create(running, "after") is ErrorCode.NONE


def test_a_malformed_state_that_goes_between_two_reads_is_unreadable_no_more():
    """Else init commands would be withheld for a znode that is not there."""
    reads = [(b"garbage", None), None]

    async def get(path, watch=False):
        return reads.pop(0)

    context = SimpleNamespace(unreadable_partitions={P0})
    term = SimpleNamespace(store=SimpleNamespace(get=get), context=context)
    assert asyncio.run(read_leadership(term, P0)) is None
    assert (reads, context.unreadable_partitions) == ([], set())


# ---------------------------------------------------------------- registrations


@pytest.mark.parametrize(
    "endpoint",
    ["EXTERNAL://h:0", "EXTERNAL://:9092", f"EXTERNAL://{'h' * 256}:1", "EXTERNAL://h h:1"],
)
def test_a_broker_that_nobody_can_reach_is_not_live_and_blocks_no_other(running, endpoint):
    data = json.loads(znodes.encode_broker(running.brokers[0].endpoints, 0))
    data["endpoints"] = [at for at in data["endpoints"] if "EXTERNAL" not in at] + [endpoint]
    path = znodes.broker_path(NodeId(9))
    running.write(path, json.dumps(data).encode())
    running.until(lambda: path in bad_znodes(running), "the report")
    assert create(running, "t") is ErrorCode.NONE
    assert running.active().snapshot().live_brokers == (0, 1, 2)
    for broker in running.brokers.values():
        for request in broker.heard(UpdateMetadataRequest):
            assert [each.broker_id for each in request.live_brokers] == [0, 1, 2]


# ---------------------------------------------------------------- anything at all

NUMBERS = (-(2**63), -2, -1, 0, 1, 2, 2**31 - 2, 2**31 - 1, 2**31, 2**63, 10**400, 0.5, 1e300)
NAMES = ("0", "-1", "00", "a b", "x" * 300, "é", "9" * 30)
TEXTS = (*NAMES, "", "..", "a/b", "\x00")


def mutated(rng, value):
    """Return the value with one part replaced by an odd value."""
    odd = rng.choice(
        (None, True, [], {}, [[]], rng.choice(NUMBERS), rng.choice(TEXTS), [0, 0], [9, 8], {"": 1})
    )
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(sorted(value))
        return rng.choice(
            (
                {**value, key: mutated(rng, value[key])},
                {name: each for name, each in value.items() if name != key},
                {**value, rng.choice(TEXTS): odd},
            )
        )
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return rng.choice(
            (
                [*value[:at], mutated(rng, value[at]), *value[at + 1 :]],
                [*value, value[at]],
                [*value[:at], *value[at + 1 :]],
            )
        )
    return odd


def hostile(rng, data):
    """Return malformed or odd content for a znode."""
    try:
        value = json.loads(data)
    except ValueError:
        value = {}
    text = json.dumps(mutated(rng, value)).encode()
    return rng.choice(
        (
            text,
            text,
            text,
            text[: rng.randrange(len(text) + 1)],
            b"",
            b"\xff\x00",
            b"[" * 5_000,
            b'{"version":1,"more":' + b"[" * 5_000,
            b"9" * 5_000,
        )
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_controller_outlives_any_content_of_znodes(cluster, seed):
    """Every kind of znode, changed while the controller works; then all is well again."""
    rng = random.Random(seed)  # noqa: S311
    for broker_id in range(3):
        cluster.start_broker(broker_id, f"s{broker_id}")
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1, 2), (1, 2, 0), config={"min.insync.replicas": "2"})
    cluster.write(f"{znodes.CONTROLLER_ENDPOINTS}/1001", b"{}")
    good = {path: data for path, (data, _) in cluster.zookeeper.dump().items() if data}
    names = (znodes.TOPICS, znodes.BROKER_IDS, znodes.DELETE_TOPICS, znodes.TOPIC_CONFIGS)
    for _ in range(12):
        path = rng.choice(sorted(good))
        if rng.random() < 0.2:
            path = f"{rng.choice(names)}/{rng.choice(NAMES)}"
        cluster.write(path, hostile(rng, good.get(path, good[STATE])))
        cluster.kernel.run_for(rng.choice((0, 5, 200)))
        act = rng.randrange(8)
        if act == 0:
            cluster.expire_session()
        elif act == 1:
            cluster.brokers[rng.randrange(3)].die()
        elif act == 2:
            cluster.ask_later(CreateTopicsRequest((NewTopic("u", 2, 1),), timeout_ms=500), [])
    cluster.settle(2_000)
    for path, data in good.items():
        if path not in (znodes.CONTROLLER, znodes.CONTROLLER_EPOCH):
            cluster.write(path, data)
    cluster.write(znodes.CONTROLLER_EPOCH, b"1000")
    if cluster.data(znodes.CONTROLLER) is not None:
        cluster.delete(znodes.CONTROLLER)
    cluster.until(lambda: cluster.active(), "a controller that lives", 60_000)
    cluster.settle(2_000)
    assert cluster.active() is not None
