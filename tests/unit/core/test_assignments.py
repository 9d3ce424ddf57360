"""Where a new topic's replicas go: Kafka's rack-unaware rule."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_core.assignments import assign_replicas, find_assignment_fault
from highwater_core.check import BugFound


def test_assignment_equals_kafkas_documented_example():
    # AdminUtils' own example: 5 brokers, 10 partitions, 3 replicas, both starts at 0.
    assert assign_replicas(range(5), 10, 3, 0, 0) == (
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    )  # fmt: skip


def test_brokers_are_taken_in_ascending_order():
    assert assign_replicas([7, 3, 5], 3, 1, 0, 0) == ((3,), (5,), (7,))


def test_the_shift_grows_by_one_each_time_the_first_replicas_went_round():
    # AdminUtils' rule from start index 2 and shift 1: three rounds of four brokers.
    assert assign_replicas(range(4), 12, 2, 2, 1) == (
        (2, 0), (3, 1), (0, 2), (1, 3),
        (2, 1), (3, 2), (0, 3), (1, 0),
        (2, 3), (3, 0), (0, 1), (1, 2),
    )  # fmt: skip


def test_a_topic_has_a_replica_and_not_more_than_there_are_brokers():
    for factor in (-1, 0, 4):
        with pytest.raises(BugFound, match="more replicas than brokers"):
            assign_replicas(range(3), 1, factor, 0, 0)


def test_a_fault_names_at_most_ten_brokers():
    found = find_assignment_fault((tuple(range(20, 32)),), set())
    assert found.endswith("12 brokers that are not live: 20, 21, 22, 23, 24, 25, 26, 27, 28, 29")


@given(data=st.data(), count=st.integers(1, 7), partitions=st.integers(1, 40))
def test_replicas_are_distinct_and_first_replicas_spread_evenly(data, count, partitions):
    factor = data.draw(st.integers(1, count))
    start = data.draw(st.integers(0, count - 1))
    shift = data.draw(st.integers(0, count - 1))
    assignment = assign_replicas(range(count), partitions, factor, start, shift)
    assert all(len(set(replicas)) == factor for replicas in assignment)
    firsts = Counter(replicas[0] for replicas in assignment)
    assert max(firsts.values()) - min(firsts[broker] for broker in range(count)) <= 1
    assert find_assignment_fault(assignment, set(range(count))) == ""


@pytest.mark.parametrize(
    ("assignment", "fault"),
    [
        (((0, 1), (1, 2)), ""),
        ((), ""),
        (((0, 1), ()), "no replica"),
        (((0, 1), (2,)), "different numbers"),
        (((0, 0),), "twice"),
        (((0, 9),), "not live"),
    ],
)
def test_faults_of_an_assignment_that_a_client_asks_for(assignment, fault):
    found = find_assignment_fault(assignment, {0, 1, 2})
    assert fault in found
    assert bool(fault) == bool(found)
