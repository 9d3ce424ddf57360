"""Which followers are caught up, leave the ISR or may join it: tables against the documents."""

from __future__ import annotations

import pytest

from highwater_broker.logic.isr import (
    NEVER_MS,
    AfterConflict,
    FollowerProgress,
    after_conflict,
    after_fetch,
    is_caught_up,
    is_eligible,
    lagging_members,
    may_join,
    progress_of,
)
from highwater_core.config import IsrJoin
from highwater_core.ids import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
)
from highwater_core.znodes import PartitionLeadership

LEADER, A, B = NodeId(1), NodeId(2), NodeId(3)
LAG_MS = 10_000


def progress(end: int, caught_up_ms: int = NEVER_MS, **fields: int) -> FollowerProgress:
    return FollowerProgress(Offset(end), caught_up_ms, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "fetch_offset", "leader_end", "expected_ms"),
    [
        pytest.param(progress(-1), 10, 10, 500, id="at the leader's end: now"),
        pytest.param(progress(-1), 11, 10, 500, id="beyond it: now"),
        pytest.param(progress(-1), 9, 10, NEVER_MS, id="first fetch behind: never yet"),
        pytest.param(
            progress(5, 100, last_fetch_ms=400, leader_end_at_last_fetch=8), 9, 10, 400,
            id="beyond the end of its previous fetch: then",
        ),
        pytest.param(
            progress(5, 100, last_fetch_ms=400, leader_end_at_last_fetch=8), 8, 10, 400,
            id="at the end of its previous fetch: then",
        ),
        pytest.param(
            progress(5, 100, last_fetch_ms=400, leader_end_at_last_fetch=8), 7, 10, 100,
            id="behind even that: as before",
        ),
    ],
)  # fmt: skip
def test_last_caught_up_follows_the_documented_rule(
    before: FollowerProgress, fetch_offset: int, leader_end: int, expected_ms: int
) -> None:
    after = after_fetch(before, Offset(fetch_offset), Offset(leader_end), BrokerEpoch(4), 500)
    assert after.last_caught_up_ms == expected_ms
    assert (after.log_end_offset, after.last_fetch_ms) == (fetch_offset, 500)
    assert (after.leader_end_at_last_fetch, after.broker_epoch) == (leader_end, 4)


@pytest.mark.parametrize(
    ("followers", "expected"),
    [
        pytest.param({A: progress(9, 1), B: progress(9, 1)}, (A, B), id="behind and late: leaves"),
        pytest.param(
            {A: progress(10, 1), B: progress(10, 1)}, (), id="at the end: stays (KAFKA-7152)"
        ),
        pytest.param(
            {A: progress(9, 15_000), B: progress(9, 1)}, (B,), id="late only when older than lag"
        ),
        pytest.param({A: progress(9, 10_000)}, (B,), id="one that never fetched leaves"),
        pytest.param(
            {A: progress(9, 9_999), B: progress(9, 10_000)}, (A,), id="the lag is a difference"
        ),
        pytest.param({A: progress(11, 1), B: progress(11, 1)}, (A, B), id="beyond and late"),
    ],
)
def test_members_leave_when_both_behind_and_late(
    followers: dict[NodeId, FollowerProgress], expected: tuple[NodeId, ...]
) -> None:
    lagging = lagging_members(LEADER, (A, LEADER, B), followers, Offset(10), LAG_MS, 20_000)
    assert lagging == expected


def test_the_leader_never_leaves_whichever_id_it_has() -> None:
    assert lagging_members(B, (A, B, LEADER), {}, Offset(10), LAG_MS, 20_000) == (A, LEADER)


def test_who_was_never_caught_up_is_not_however_short_the_leadership() -> None:
    assert not is_caught_up(progress(3), LAG_MS, 5)
    assert is_caught_up(progress(3, 0), LAG_MS, 5)


@pytest.mark.parametrize(
    ("end", "high_watermark", "epoch_start", "old_rule", "new_rule"),
    [
        (4, 5, 0, False, False),
        (5, 5, 0, True, True),
        (5, 5, 10, True, False),
        (10, 5, 10, True, True),
    ],
)
def test_joining_needs_the_high_watermark_and_with_the_fix_the_epochs_start(
    end: int, high_watermark: int, epoch_start: int, old_rule: bool, new_rule: bool
) -> None:
    offsets = Offset(end), Offset(high_watermark), Offset(epoch_start)
    assert may_join(*offsets, IsrJoin.HIGH_WATERMARK) is old_rule
    assert may_join(*offsets, IsrJoin.HIGH_WATERMARK_AND_EPOCH_START) is new_rule


@pytest.mark.parametrize(
    ("fetched_with", "registered", "checks", "expected"),
    [
        (BrokerEpoch(4), BrokerEpoch(4), True, True),
        (BrokerEpoch(3), BrokerEpoch(4), True, False),
        (BrokerEpoch(4), None, True, False),
        (NO_BROKER_EPOCH, BrokerEpoch(4), True, False),
        (NO_BROKER_EPOCH, NO_BROKER_EPOCH, True, False),
        (NO_BROKER_EPOCH, BrokerEpoch(4), False, True),
        (BrokerEpoch(3), None, False, True),
    ],
)
def test_only_the_registered_incarnation_is_eligible(
    fetched_with: BrokerEpoch, registered: BrokerEpoch | None, checks: bool, expected: bool
) -> None:
    assert is_eligible(fetched_with, registered, checks_broker_epoch=checks) is expected


def test_only_assigned_followers_count_and_without_the_fix_whoever_fetches() -> None:
    followers = {A: progress(3)}
    assert progress_of(A, followers, refuses_unassigned=True) is followers[A]
    assert progress_of(A, followers, refuses_unassigned=False) is followers[A]
    assert progress_of(B, followers, refuses_unassigned=True) is None
    assert progress_of(B, followers, refuses_unassigned=False) == FollowerProgress()


def leadership(leader: NodeId, epoch: int, *isr: NodeId) -> PartitionLeadership:
    return PartitionLeadership(leader, LeaderEpoch(epoch), ControllerEpoch(1), isr)


@pytest.mark.parametrize(
    ("written", "fixed", "old"),
    [
        (leadership(LEADER, 2, LEADER), AfterConflict.ADOPT, AfterConflict.WITHDRAW),
        (leadership(LEADER, 2, LEADER, A), AfterConflict.WITHDRAW, AfterConflict.WITHDRAW),
        (leadership(LEADER, 1, LEADER), AfterConflict.WITHDRAW, AfterConflict.WITHDRAW),
        (leadership(A, 3, A), AfterConflict.KEEP_OPEN, AfterConflict.WITHDRAW),
    ],
)
def test_a_leaders_own_write_is_adopted_and_without_the_fix_taken_for_anothers(
    written: PartitionLeadership, fixed: AfterConflict, old: AfterConflict
) -> None:
    mine = leadership(LEADER, 2, LEADER)
    assert after_conflict(written, mine, adopts_own=True) is fixed
    assert after_conflict(written, mine, adopts_own=False) is old
