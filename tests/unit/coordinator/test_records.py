"""Records of `__consumer_offsets`: Kafka's bytes, read and written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_broker.coordinator.records import (
    MAX_TEXT_BYTES,
    BadGroupRecord,
    decode,
    encode,
    encode_batch,
)
from highwater_broker.coordinator.stored import (
    GroupForgotten,
    GroupRecord,
    GroupStored,
    MemberStored,
    OffsetCommitted,
    OffsetForgotten,
)
from highwater_core.ids import NO_EPOCH, LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import decode_records

OFFSET_KEY = "000100076772c3bc70706500066f726465727300000003"
GROUP_KEY = "000200076772c3bc707065"
MEMBER = MemberStored("m-1", "static-1", "c", "/10.0.0.1", 60_000, 10_000, b"\x00\x01\x02", b"\x03")


def offset(epoch: int = 7, expires: int | None = None) -> OffsetCommitted:
    return OffsetCommitted(
        "grüppe", "orders", 3, Offset(4711), LeaderEpoch(epoch), "só", 1700000000123, expires
    )


def group(member: MemberStored, since_ms: int = 1700000000123) -> GroupStored:
    return GroupStored("grüppe", "consumer", 5, "range", "m-1", (member,), since_ms)


def member(instance: str | None, rebalance_timeout_ms: int) -> MemberStored:
    return MemberStored(
        "m-1", instance, "c", "/10.0.0.1", rebalance_timeout_ms, 10_000, b"\x00\x01\x02", b"\x03"
    )


WRITTEN: list[tuple[GroupRecord, str, str | None]] = [
    (offset(), OFFSET_KEY, "0003000000000000126700000007000373c3b30000018bcfe5687b"),
    (
        offset(NO_EPOCH, 1700000100123),
        OFFSET_KEY,
        "00010000000000001267000373c3b30000018bcfe5687b0000018bcfe6ef1b",
    ),
    (OffsetForgotten("grüppe", "orders", 3), OFFSET_KEY, None),
    (
        group(MEMBER),
        GROUP_KEY,
        "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe5687b0000000100036d2d31"
        "00087374617469632d3100016300092f31302e302e302e310000ea6000002710000000030001020000000103",
    ),
    (
        GroupStored("grüppe", "consumer", 6, None, None, (), 1700000000123),
        GROUP_KEY,
        "00030008636f6e73756d657200000006ffffffff0000018bcfe5687b00000000",
    ),
    (GroupForgotten("grüppe"), GROUP_KEY, None),
]
"""The bytes that Apache Kafka 3.9.1's own classes write for these values."""

READ: list[tuple[GroupRecord, str, str]] = [
    (offset(NO_EPOCH), OFFSET_KEY, "00020000000000001267000373c3b30000018bcfe5687b"),
    # KAFKA-8069: an expiry of -1 asks for the broker's retention.
    (
        offset(NO_EPOCH),
        OFFSET_KEY,
        "00010000000000001267000373c3b30000018bcfe5687bffffffffffffffff",
    ),
    (offset(NO_EPOCH), OFFSET_KEY, "00000000000000001267000373c3b30000018bcfe5687b"),
    (offset(), "0000" + OFFSET_KEY[4:], "0003000000000000126700000007000373c3b30000018bcfe5687b"),
    (
        group(member(None, 10_000), -1),
        GROUP_KEY,
        "00000008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d3100016300092f3130"
        "2e302e302e3100002710000000030001020000000103",
    ),
    (
        group(member(None, 60_000), -1),
        GROUP_KEY,
        "00010008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d3100016300092f3130"
        "2e302e302e310000ea6000002710000000030001020000000103",
    ),
    (
        group(member(None, 60_000)),
        GROUP_KEY,
        "00020008636f6e73756d657200000005000572616e676500036d2d310000018bcfe5687b0000000100036d2d31"
        "00016300092f31302e302e302e310000ea6000002710000000030001020000000103",
    ),
]
"""Records of earlier versions of Kafka, which this one reads."""


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN)
def test_a_record_is_written_as_apache_kafka_writes_it(
    record: GroupRecord, key: str, value: str | None
) -> None:
    expected_value = None if value is None else bytes.fromhex(value)
    assert encode(record) == (bytes.fromhex(key), expected_value)
    assert decode(bytes.fromhex(key), expected_value) == record


@pytest.mark.parametrize(("record", "key", "value"), READ)
def test_a_record_of_an_earlier_version_is_read(record: GroupRecord, key: str, value: str) -> None:
    assert decode(bytes.fromhex(key), bytes.fromhex(value)) == record


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    MemberStored,
    texts,
    st.none() | texts,
    texts,
    texts,
    int32s,
    int32s,
    st.binary(max_size=50),
    st.binary(max_size=50),
)
some_records = st.one_of(
    st.builds(OffsetCommitted, texts, texts, int32s, int64s, int32s, texts, int64s),
    st.builds(
        OffsetCommitted,
        texts,
        texts,
        int32s,
        int64s,
        st.just(NO_EPOCH),
        texts,
        int64s,
        int64s.filter(lambda ms: ms != -1),
    ),
    st.builds(OffsetForgotten, texts, texts, int32s),
    st.builds(
        GroupStored,
        texts,
        texts,
        int32s,
        st.none() | texts,
        st.none() | texts,
        st.lists(members, max_size=3, unique_by=lambda each: each.member_id).map(tuple),
        int64s,
    ),
    st.builds(GroupForgotten, texts),
)


@given(some_records)
def test_a_written_record_is_read_back(record: GroupRecord) -> None:
    assert decode(*encode(record)) == record


@given(some_records, st.data())
def test_a_torn_record_is_refused(record: GroupRecord, data: st.DataObject) -> None:
    key, value = encode(record)
    if value is None:
        torn = key[: data.draw(st.integers(0, len(key) - 1))], None
    else:
        torn = key, value[: data.draw(st.integers(0, len(value) - 1))]
    with pytest.raises(BadGroupRecord):
        decode(*torn)


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_record_or_refused(key: bytes | None, value: bytes | None) -> None:
    try:
        record = decode(key, value)
    except BadGroupRecord:
        return
    encode(record)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00\x03" + bytes.fromhex(GROUP_KEY)[2:], None),  # KIP-848's records
        (bytes.fromhex(GROUP_KEY), b"\x00\x04"),
        (bytes.fromhex(OFFSET_KEY), b"\xff\xff"),
        (bytes.fromhex(OFFSET_KEY) + b"\x00", None),
        # Two thousand million members in 22 bytes.
        (bytes.fromhex(GROUP_KEY), bytes.fromhex("0000000000000005ffffffff7fffffff")),
    ],
)
def test_bytes_that_are_no_record_of_a_group_are_refused(
    key: bytes | None, value: bytes | None
) -> None:
    with pytest.raises(BadGroupRecord):
        decode(key, value)


def test_a_group_with_two_members_of_one_id_is_refused() -> None:
    with pytest.raises(BadGroupRecord):
        decode(*encode(replace(group(MEMBER), members=(MEMBER, MEMBER))))


def test_a_text_that_the_format_has_no_room_for_is_refused() -> None:
    encode(GroupForgotten("g" * MAX_TEXT_BYTES))
    with pytest.raises(BadGroupRecord):
        encode(GroupForgotten("g" * (MAX_TEXT_BYTES + 1)))
    with pytest.raises(BadGroupRecord):
        encode(OffsetCommitted("g", "t", 0, Offset(2**63)))


def test_a_batch_has_the_records_in_their_order_at_one_time() -> None:
    records: list[GroupRecord] = [offset(), GroupForgotten("g"), OffsetForgotten("g", "t", 1)]
    decoded = decode_records(encode_batch(records, 1700000000123))
    assert [decode(each.key, each.value) for each in decoded] == records
    assert {each.timestamp for each in decoded} == {1700000000123}
