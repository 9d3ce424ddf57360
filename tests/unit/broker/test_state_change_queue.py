"""A queue of state changes: when it is full, what a shrunk one keeps, its znodes."""

from __future__ import annotations

import pytest

from highwater_broker.logic.state_change_queue import is_full, superfluous
from highwater_core.first_design_znodes import (
    LeaderPath,
    StateChange,
    StateChangeRequest,
    decode_leader,
    decode_reassigned,
    decode_request,
    encode_leader,
    encode_request,
    is_request_name,
)
from highwater_core.ids import TopicPartition
from highwater_core.znodes import MalformedZnode

START, CLOSE = StateChange.START_REPLICA, StateChange.CLOSE_REPLICA


def queue(*requests: tuple[StateChange, str, int]) -> dict[str, StateChangeRequest]:
    return {
        str(number): StateChangeRequest(change, TopicPartition.named(at), epoch)
        for number, (change, at, epoch) in enumerate(requests)
    }


@pytest.mark.parametrize(("length", "full"), [(0, False), (9, False), (10, True), (11, True)])
def test_a_queue_is_full_at_its_most(length, full):
    assert is_full(length, 10) is full


@pytest.mark.parametrize(
    ("requests", "dropped"),
    [
        ((), ()),
        (((START, "t-0", 0), (START, "t-1", 0)), ("0", "1")),
        (((CLOSE, "t-0", 3), (START, "t-0", 4), (CLOSE, "t-0", 5)), ("0", "1")),
        (((CLOSE, "t-0", 5), (CLOSE, "t-0", 3)), ("1",)),
        (((CLOSE, "t-0", 5), (CLOSE, "t-0", 5)), ("0",)),
        (((CLOSE, "t-0", 1), (CLOSE, "t-1", 1), (CLOSE, "u-0", 1)), ()),
    ],
)
def test_a_shrunk_queue_keeps_one_close_replica_of_the_latest_epoch_per_partition(
    requests, dropped
):
    assert superfluous(queue(*requests)) == dropped


def test_a_request_is_the_same_after_its_znode():
    request = StateChangeRequest(CLOSE, TopicPartition("t", 3), 7)
    assert encode_request(request) == (
        b'{"version":1,"change":"close-replica","topic":"t","partition":3,"leader_epoch":7}'
    )
    assert decode_request(encode_request(request), "/q") == request


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"version":1,"change":"open-replica","topic":"t","partition":3,"leader_epoch":7}',
        b'{"version":1,"change":"close-replica","topic":"../t","partition":3,"leader_epoch":7}',
        b'{"version":1,"change":"close-replica","topic":"t","partition":-3,"leader_epoch":7}',
        b'{"version":1,"change":"close-replica","topic":"t","partition":3,"leader_epoch":9e99}',
        b"[" * 100_000,
    ],
)
def test_garbage_in_a_queue_is_malformed(data):
    with pytest.raises(MalformedZnode, match="/q"):
        decode_request(data, "/q")


def test_a_leader_path_has_the_leader_its_epoch_and_later_cur_and_rar():
    leader = LeaderPath(2, 5)
    assert encode_leader(leader) == b'{"version":1,"broker":2,"leader_epoch":5}'
    whole = encode_leader(leader, catching_up=(1,), reassigned=(3, 4))
    assert whole == (
        b'{"version":1,"broker":2,"leader_epoch":5,"catching_up":[1],"reassigned":[3,4]}'
    )
    assert decode_leader(whole, "/l") == leader


def test_a_malformed_leader_path_is_told_by_its_path():
    with pytest.raises(MalformedZnode, match="/l"):
        decode_leader(b'{"broker":-4,"leader_epoch":1}', "/l")
    with pytest.raises(MalformedZnode, match="/r"):
        decode_reassigned(b"7", "/r")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("request-0000000000", True),
        ("request-0000012345", True),
        ("request-1", False),
        ("0000000001", False),
        ("request-00000000x1", False),
    ],
)
def test_a_request_has_a_number_of_ten_digits(name, is_one):
    assert is_request_name(name) is is_one
