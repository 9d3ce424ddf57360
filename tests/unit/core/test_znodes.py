"""Znodes of other authors: values outside the protocol's types make the whole znode malformed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_core import znodes
from highwater_core.ids import (
    NO_STORAGE_ID,
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    StorageId,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import BrokerEndpoints
from highwater_core.topic_znode import decode_topic, encode_topic

STATE = '{{"version":1,"leader":{},"leader_epoch":{},"controller_epoch":{},"isr":{}}}'
TOO_LARGE = 2**31


@pytest.mark.parametrize(
    "state",
    [
        STATE.format(0, TOO_LARGE, 1, [0]),
        STATE.format(0, -1, 1, [0]),
        STATE.format(0, 0, TOO_LARGE, [0]),
        STATE.format(0, 0, -1, [0]),
        STATE.format(TOO_LARGE, 0, 1, [TOO_LARGE]),
        STATE.format(-2, 0, 1, [0]),
        STATE.format(0, 0, 1, [0, -1]),
        STATE.format(0, 0, 1, [0, 0]),
        STATE.format(1, 0, 1, [0]),
        STATE.format(0, 0, 1, []),
    ],
)
def test_a_partition_state_that_no_controller_writes_is_malformed(state: str) -> None:
    with pytest.raises(znodes.MalformedZnode, match="somewhere"):
        znodes.decode_partition_state(state.encode(), "somewhere")


@pytest.mark.parametrize(
    "more",
    [
        '"elr":[0]',
        '"elr":[1,1]',
        '"elr":[-1]',
        '"elr":"none"',
        '"storage_ids":{"x":"a"}',
        '"storage_ids":{"0":1}',
        '"leader_broker_epoch":"7"',
    ],
)
def test_a_partition_state_with_odd_keys_of_our_own_is_malformed(more: str) -> None:
    state = STATE.format(0, 3, 1, [0])[:-1] + f",{more}}}"
    with pytest.raises(znodes.MalformedZnode, match="somewhere"):
        znodes.decode_partition_state(state.encode(), "somewhere")


def test_a_partition_state_has_keys_of_our_own_only_where_there_is_something_to_say() -> None:
    plain = znodes.PartitionLeadership(
        NodeId(0), LeaderEpoch(3), ControllerEpoch(1), (NodeId(0), NodeId(2))
    )
    assert znodes.encode_partition_state(plain) == STATE.format(0, 3, 1, "[0,2]").encode()
    whole = replace(
        plain,
        elr=(NodeId(1),),
        leader_broker_epoch=BrokerEpoch(7),
        storage_ids=((NodeId(0), StorageId("a")), (NodeId(1), StorageId("b"))),
    )
    data = znodes.encode_partition_state(whole)
    assert data.endswith(b',"elr":[1],"leader_broker_epoch":7,"storage_ids":{"0":"a","1":"b"}}')
    for leadership in (plain, whole):
        data = znodes.encode_partition_state(leadership)
        assert znodes.decode_partition_state(data, "somewhere") == leadership


def test_a_broker_names_its_contents_or_does_not() -> None:
    at = Endpoint("broker-1", 9092)
    broker = BrokerEndpoints(NodeId(1), BrokerEpoch(7), at, at, at, at)
    plain = znodes.encode_broker(broker, 5)
    assert b"storage" not in plain
    assert znodes.decode_storage_id(plain, NodeId(1)) == NO_STORAGE_ID
    named = znodes.encode_broker(broker, 5, StorageId("a"))
    assert znodes.decode_storage_id(named, NodeId(1)) == "a"
    assert znodes.decode_broker(named, NodeId(1), BrokerEpoch(7)) == broker
    with pytest.raises(znodes.MalformedZnode):
        znodes.decode_storage_id(named.replace(b'"a"', b"1"), NodeId(1))


@pytest.mark.parametrize("isr", ["[1]", "[]"])
def test_a_partition_without_a_leader_is_sound(isr: str) -> None:
    found = znodes.decode_partition_state(STATE.format(-1, 3, 1, isr).encode(), "somewhere")
    assert (found.leader, found.leader_epoch) == (-1, 3)


@pytest.mark.parametrize(
    "topic",
    [
        '{"version":1,"partitions":{"0":[2147483648]}}',
        '{"version":1,"partitions":{"0":[-1]}}',
        '{"version":1,"partitions":{"2147483648":[0]}}',
        '{"version":1,"partitions":{"00":[0]}}',
        '{"version":1,"partitions":{"٣":[0]}}',
        '{"version":1,"partitions":{"-1":[0]}}',
        '{"version":3,"partitions":{"0":[0]},"topic_id":"no id"}',
    ],
)
def test_a_topic_that_no_controller_writes_is_malformed(topic: str) -> None:
    with pytest.raises(znodes.MalformedZnode):
        decode_topic(topic.encode(), "orders")


@given(
    st.dictionaries(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 999), min_size=1)),
    st.sampled_from(["", "0123456789abcdef" * 2]),
)
def test_a_topic_comes_back_as_it_was_written(
    assignment: dict[int, list[int]], topic_id: str
) -> None:
    written = {number: tuple(map(NodeId, replicas)) for number, replicas in assignment.items()}
    data = encode_topic(written, TopicId(topic_id))
    found, found_id, _ = decode_topic(data, "orders")
    assert found == {TopicPartition("orders", n): replicas for n, replicas in written.items()}
    assert list(found) == sorted(found)
    assert found_id == topic_id


def test_a_broker_whose_port_is_none_is_malformed() -> None:
    at = Endpoint("host", 9092)
    sound = znodes.encode_broker(BrokerEndpoints(NodeId(1), BrokerEpoch(7), at, at, at, at), 5)
    assert znodes.decode_broker(sound, NodeId(1), BrokerEpoch(7)).client == at
    for port in (b"65536", b"99999999999", "٣".encode(), b"-1", b""):
        with pytest.raises(znodes.MalformedZnode):
            znodes.decode_broker(sound.replace(b":9092", b":" + port), NodeId(1))


@pytest.mark.parametrize("data", [b'{"brokerid":-1,"timestamp":"0"}', b'{"brokerid":4294967296}'])
def test_a_controller_that_is_no_node_is_malformed(data: bytes) -> None:
    with pytest.raises(znodes.MalformedZnode):
        znodes.decode(znodes.ControllerZnode, data, znodes.CONTROLLER)


@pytest.mark.parametrize("data", [b"", b"-1", b"x", b" 1", b"2147483647", b"9" * 5000])
def test_a_controller_epoch_that_cannot_be_raised_is_malformed(data: bytes) -> None:
    with pytest.raises(znodes.MalformedZnode):
        znodes.decode_controller_epoch(data)
    assert znodes.decode_controller_epoch(b"41") == 41


@given(st.binary(max_size=60))
def test_any_bytes_are_a_znode_or_malformed(data: bytes) -> None:
    for decode in (
        lambda: znodes.decode_partition_state(data, "p"),
        lambda: decode_topic(data, "t"),
        lambda: znodes.decode_broker(data, NodeId(1)),
        lambda: znodes.decode(znodes.TopicConfigZnode, data, "c"),
        lambda: znodes.decode(znodes.PartitionsZnode, data, "n"),
    ):
        try:
            decode()
        except znodes.MalformedZnode:
            continue
