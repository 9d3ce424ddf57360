"""The selectors as tables: (assignment, ISR, live brokers, ...) -> the decision."""

from __future__ import annotations

import pytest

from highwater_controller.logic.leader_selectors import (
    Elected,
    NoLeader,
    elect_initial,
    elect_offline,
    elect_preferred,
    elect_reassign,
    elect_without,
)


def outcome(election):
    if isinstance(election, NoLeader):
        return None
    return election.leader, election.isr, election.unclean


@pytest.mark.parametrize(
    ("assigned", "live", "expected"),
    [
        ((1, 2, 3), {1, 2, 3}, (1, (1, 2, 3), False)),
        ((1, 2, 3), {3, 2}, (2, (2, 3), False)),
        ((3, 1), {1, 3}, (3, (3, 1), False)),
        ((1, 2), {9}, None),
        ((1, 2), set(), None),
    ],
)
def test_initial_election_takes_the_first_live_replica_and_all_live_as_isr(
    assigned, live, expected
):
    assert outcome(elect_initial(assigned, frozenset(live))) == expected


@pytest.mark.parametrize(
    ("assigned", "isr", "live", "unclean", "expected"),
    [
        # a live ISR member leads, in the order of the assignment; the ISR becomes its live members
        ((1, 2, 3), (1, 2, 3), {2, 3}, False, (2, (2, 3), False)),
        ((1, 2, 3), (3, 2, 1), {2, 3}, False, (2, (3, 2), False)),
        ((3, 2, 1), (1, 2), {1, 2, 3}, False, (2, (1, 2), False)),
        # an ISR member is preferred to a live replica that stands earlier
        ((1, 2, 3), (3,), {1, 2, 3}, True, (3, (3,), False)),
        # none of the ISR is live: nobody, or any live replica alone
        ((1, 2, 3), (1,), {2, 3}, False, None),
        ((1, 2, 3), (1,), {2, 3}, True, (2, (2,), True)),
        ((1, 2, 3), (1,), {3}, True, (3, (3,), True)),
        ((1, 2, 3), (1,), set(), True, None),
        # an ISR emptied by versions before 1.1
        ((1, 2), (), {1, 2}, False, None),
        ((1, 2), (), {1, 2}, True, (1, (1,), True)),
        # a live broker that holds no replica counts for nothing
        ((1, 2), (1,), {9}, True, None),
    ],
)
def test_offline_election(assigned, isr, live, unclean, expected):
    assert outcome(elect_offline(assigned, isr, frozenset(live), unclean)) == expected


@pytest.mark.parametrize(
    ("target", "isr", "live", "expected"),
    [
        ((4, 5), (1, 4, 5), {1, 4, 5}, (4, (1, 4, 5), False)),
        ((4, 5), (1, 5), {1, 4, 5}, (5, (1, 5), False)),
        ((4, 5), (4, 1), {1, 5}, None),
    ],
)
def test_reassign_election_takes_the_first_of_the_target_and_keeps_the_isr(
    target, isr, live, expected
):
    assert outcome(elect_reassign(target, isr, frozenset(live))) == expected


@pytest.mark.parametrize(
    ("assigned", "isr", "live", "expected"),
    [
        ((1, 2), (2, 1), {1, 2}, (1, (2, 1), False)),
        ((1, 2), (2,), {1, 2}, None),
        ((1, 2), (1, 2), {2}, None),
        ((), (), set(), None),
    ],
)
def test_preferred_election_takes_the_head_or_nobody(assigned, isr, live, expected):
    assert outcome(elect_preferred(assigned, isr, frozenset(live))) == expected


@pytest.mark.parametrize(
    ("assigned", "isr", "live", "stopping", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), {2, 3}, {1}, (2, (2, 3), False)),
        ((1, 2, 3), (3, 1), {2, 3}, {1}, (3, (3,), False)),
        ((1, 2), (1,), {2}, {1}, None),
        ((1, 2), (1, 2), set(), {1, 2}, None),
        # a dead ISR member stays: removing it is not this election's business
        ((1, 2, 3), (1, 2, 3), {3}, {1}, (3, (2, 3), False)),
    ],
)
def test_controlled_shutdown_election_leaves_out_who_stops(assigned, isr, live, stopping, expected):
    decision = elect_without(assigned, isr, frozenset(live), frozenset(stopping))
    assert outcome(decision) == expected


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        ({2, 3, 4}, (2, (2,), True)),
        ({3, 4}, (4, (4,), True)),
        ({1, 2}, (1, (1,), False)),
    ],
    ids=["another replica lives", "added ones alone", "a member of the ISR lives"],
)
def test_an_unclean_election_takes_added_replicas_last(live, expected):
    """Found: the empty target of a move was elected, and the live replica cut all that it had."""
    decision = elect_offline((4, 3, 1, 2), (1,), frozenset(live), unclean=True, adding=(4, 3))
    assert outcome(decision) == expected


def test_an_elected_leader_is_always_in_its_isr():
    brokers = (1, 2, 3)
    subsets = [tuple(b for b in brokers if mask >> (b - 1) & 1) for mask in range(8)]
    for isr in subsets:
        for live in subsets:
            for unclean in (False, True):
                decision = elect_offline(brokers, isr, frozenset(live), unclean)
                if isinstance(decision, Elected):
                    assert decision.leader in decision.isr
                    assert set(decision.isr) <= set(live)
                    assert decision.unclean == (decision.leader not in isr)
