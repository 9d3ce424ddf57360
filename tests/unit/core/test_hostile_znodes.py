"""Znodes of any author are decoded to values that every protocol can carry, or malformed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_core import znodes
from highwater_core.ids import (
    NO_LEADER,
    BrokerEpoch,
    ControllerEpoch,
    Endpoint,
    LeaderEpoch,
    NodeId,
    StorageId,
    TopicPartition,
)
from highwater_core.messages import (
    BrokerEndpoints,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from highwater_core.ports import SetOp
from highwater_core.request_sizes import MAX_REQUEST_BYTES, size_of_multi
from highwater_core.topic_znode import decode_topic
from highwater_wire.control import decode_control_request, encode_control_request

AT = Endpoint("h", 9092)
BROKER = znodes.encode_broker(
    BrokerEndpoints(NodeId(1), BrokerEpoch(-1), AT, AT, AT, AT), 7, StorageId("a" * 32)
)
TOPIC = b'{"version":3,"partitions":{"0":[0,1],"1":[1,0]},"topic_id":"%s"}' % (b"a" * 32)
STATE = (
    b'{"version":1,"leader":0,"leader_epoch":3,"controller_epoch":1,"isr":[0,1],"elr":[2],'
    b'"leader_broker_epoch":7,"storage_ids":{"0":"a","1":"b"}}'
)
OTHERS: tuple[tuple[type[Any], bytes], ...] = (
    (znodes.ControllerZnode, b'{"version":1,"brokerid":1000,"timestamp":"7"}'),
    (znodes.PartitionsZnode, b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'),
    (znodes.TopicConfigZnode, b'{"version":1,"config":{"retention.ms":"5"}}'),
    (znodes.ControllerEndpointZnode, b'{"version":1,"host":"h","port":9095}'),
)
NUMBERS = st.one_of(
    st.sampled_from((-(2**63), -2, -1, 0, 1, 2**31 - 2, 2**31 - 1, 2**31, 2**63, 10**400, 1e300)),
    st.integers(-3, 3),
)
TEXTS = st.one_of(
    st.sampled_from(("", "0", "-1", "00", "é", "x" * 300, "CLIENT://h:0", "CLIENT://a b:1", "\n")),
    st.text(max_size=4),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


def mutated(good: bytes) -> st.SearchStrategy[bytes]:
    """The good content with one or more of its keys changed, or none of it left."""
    value = json.loads(good)
    keys = st.dictionaries(st.one_of(st.sampled_from(sorted(value)), TEXTS), JSON, max_size=2)
    return st.one_of(
        keys.map(lambda changed: json.dumps({**value, **changed}).encode()),
        JSON.map(lambda any_json: json.dumps(any_json).encode()),
        st.integers(0, len(good)).map(lambda length: good[:length]),
        st.binary(max_size=20),
        st.just(b'{"more":' + b"[" * 100_000),
    )


def tried(decode: Callable[[], Any]) -> Any:
    """Return the decoded value, None when it is malformed."""
    try:
        return decode()
    except znodes.MalformedZnode:
        return None


@given(mutated(STATE))
def test_a_state_that_decodes_can_be_raised_written_and_sent(data: bytes) -> None:
    found = tried(lambda: znodes.decode_partition_state(data, "path"))
    if found is None:
        return
    item = LeaderAndIsrPartition(
        topic_partition=TopicPartition("t", 0),
        leader=found.leader,
        leader_epoch=LeaderEpoch(found.leader_epoch + 1),
        isr=found.isr,
        partition_epoch=0,  # type: ignore[arg-type]
        assigned_replicas=found.isr,
    )
    request = LeaderAndIsrRequest(
        NodeId(1000), ControllerEpoch(1), BrokerEpoch(1), is_init=False, partitions=(item,)
    )
    assert decode_control_request(*encode_control_request(request)) == request
    written = SetOp("/" + "p" * 300, znodes.encode_partition_state(found))
    assert size_of_multi([written]) < MAX_REQUEST_BYTES


def test_the_largest_state_fits_a_request() -> None:
    ids = tuple(NodeId(2**31 - 1 - number) for number in range(znodes.MAX_REPLICAS))
    largest = znodes.PartitionLeadership(
        NO_LEADER,
        LeaderEpoch(2**31 - 2),
        ControllerEpoch(2**31 - 1),
        ids,
        tuple(NodeId(each - znodes.MAX_REPLICAS) for each in ids),
        BrokerEpoch(2**63 - 1),
        tuple((each, StorageId("x" * 64)) for each in ids),
    )
    data = znodes.encode_partition_state(largest)
    assert znodes.decode_partition_state(data, "path").leader == NO_LEADER
    assert size_of_multi([SetOp("/" + "p" * 300, data)]) < MAX_REQUEST_BYTES / 4


@given(mutated(BROKER))
def test_a_registration_that_decodes_can_be_sent_to_every_broker(data: bytes) -> None:
    found = tried(lambda: znodes.decode_broker(data, NodeId(1), BrokerEpoch(7)))
    tried(lambda: znodes.decode_storage_id(data, NodeId(1)))
    if found is not None:
        request = UpdateMetadataRequest(
            NodeId(1000), ControllerEpoch(1), BrokerEpoch(5), (found,), ()
        )
        assert decode_control_request(*encode_control_request(request)) == request


@pytest.mark.parametrize(
    ("address", "is_good"),
    [
        ("h:1", True),
        ("h:65535", True),
        ("broker-0.example.org:9092", True),
        ("a_b:9092", True),
        ("10.0.0.1:9092", True),
        ("[::1]:9092", True),
        ("h:0", False),
        ("h:00", False),
        ("h:65536", False),
        ("h:-1", False),
        ("h:", False),
        ("h", False),
        (":1", False),
        ("::1:9092", False),
        ("unix:/run/x:1", False),
        ("a b:1", False),
        ("h\n:1", False),
        ("x" * 255 + ":1", True),
        ("x" * 256 + ":1", False),
    ],
)
@pytest.mark.parametrize("listener", ["CLIENT", "EXTERNAL", "REPLICATION", "CONTROL"])
def test_where_a_listener_may_be(listener: str, address: str, is_good: bool) -> None:
    value = json.loads(BROKER)
    value["endpoints"] = [
        f"{listener}://{address}" if at.startswith(listener) else at for at in value["endpoints"]
    ]
    data = json.dumps(value).encode()
    found = tried(lambda: znodes.decode_broker(data, NodeId(1), BrokerEpoch(7)))
    assert (found is not None) == is_good


@given(mutated(TOPIC))
def test_a_topic_decodes_or_is_malformed(data: bytes) -> None:
    found = tried(lambda: decode_topic(data, "t"))
    if found is not None:
        assert all(at.partition >= 0 for at in found[0])


@pytest.mark.parametrize(("znode_type", "good"), OTHERS)
def test_the_others_decode_or_are_malformed(znode_type: type[Any], good: bytes) -> None:
    @given(mutated(good))
    def check_one(data: bytes) -> None:
        tried(lambda: znodes.decode(znode_type, data, "path"))

    check_one()


@given(st.one_of(st.binary(max_size=12), st.integers().map(lambda n: str(n).encode())))
def test_a_controller_epoch_decodes_or_is_malformed(data: bytes) -> None:
    found = tried(lambda: znodes.decode_controller_epoch(data))
    assert found is None or 0 <= found < 2**31 - 1


@given(TEXTS)
def test_a_broker_id_decodes_or_is_malformed(name: str) -> None:
    found = tried(lambda: znodes.decode_broker_id(name))
    assert found is None or str(found) == name
