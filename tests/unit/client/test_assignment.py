"""How a group's leader assigns partitions, and the messages of members to each other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater_client.assignment import (
    BadAssignment,
    assign_ranges,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from highwater_core.ids import TopicPartition

FEW = settings(max_examples=50, deadline=None, derandomize=True, database=None)
topics = st.lists(st.sampled_from(["a", "b", "ü"]), unique=True).map(tuple)
partitions = st.lists(
    st.builds(TopicPartition, st.sampled_from(["a", "ü"]), st.integers(0, 9)), unique=True
).map(lambda rows: tuple(sorted(rows)))


@FEW
@given(topics, partitions)
def test_a_written_assignment_is_read_back(
    named: tuple[str, ...], held: tuple[TopicPartition, ...]
) -> None:
    assert decode_subscription(encode_subscription(named)) == named
    assert decode_assignment(encode_assignment(held)) == held


def test_an_empty_assignment_assigns_nothing() -> None:
    assert decode_assignment(b"") == ()


@pytest.mark.parametrize(
    "data",
    [b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\xff\xff\xff\xff",
     b"\x00\x00\x00\x00\x00\x01\x00\x05a", b"\x00\x00\x00\x00\x00\x01\x00\x01\xff"],
)  # fmt: skip
def test_a_torn_subscription_of_another_member_is_malformed(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(BadAssignment):
            decode(data)


@pytest.mark.parametrize(
    ("subscriptions", "counts", "shares"),
    [
        ({"m": ("a",)}, {"a": 2}, {"m": "a0 a1"}),
        ({"n": ("a",), "m": ("a",)}, {"a": 3}, {"m": "a0 a1", "n": "a2"}),
        ({"m": ("a",), "n": ("a",), "o": ("a",)}, {"a": 2}, {"m": "a0", "n": "a1", "o": ""}),
        ({"m": ("a", "b"), "n": ("b",)}, {"a": 1, "b": 2}, {"m": "a0 b0", "n": "b1"}),
        ({"m": ("gone",), "n": ()}, {}, {"m": "", "n": ""}),
    ],
)
def test_each_topic_is_shared_out_in_ranges(
    subscriptions: dict[str, tuple[str, ...]], counts: dict[str, int], shares: dict[str, str]
) -> None:
    found = assign_ranges(subscriptions, counts)
    assert {
        member: " ".join(f"{each.topic}{each.partition}" for each in held)
        for member, held in found.items()
    } == shares
