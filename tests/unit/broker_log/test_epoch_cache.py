"""The epoch cache and a follower's truncation, as in the KIPs and JIRA issues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_broker.logic.epoch_cache import UNDEFINED_END, EpochCache, EpochEnd, EpochStart
from highwater_broker.logic.log_divergence import (
    AskLeader,
    TruncateAndAskAgain,
    TruncateTo,
    after_answer,
    drops_log,
    first_step,
    must_start_over,
)
from highwater_core.config import Truncation
from highwater_core.ids import LeaderEpoch, Offset


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(tuple(EpochStart(LeaderEpoch(e), Offset(o)) for e, o in entries))


@pytest.mark.parametrize(
    ("before", "assigned", "after"),
    [
        (cache(), (0, 0), cache((0, 0))),
        (cache((0, 0)), (0, 5), cache((0, 0))),
        (cache((0, 0)), (2, 5), cache((0, 0), (2, 5))),
        (cache((0, 0), (2, 5)), (2, 7), cache((0, 0), (2, 5))),
        (cache((0, 0), (2, 5)), (3, 5), cache((0, 0), (3, 5))),
        (cache((0, 0), (2, 5)), (3, 4), cache((0, 0), (3, 4))),
        (cache((0, 0), (2, 5)), (1, 7), cache((0, 0), (1, 7))),
        (cache((0, 0), (2, 5)), (2, 3), cache((0, 0), (2, 3))),
        (cache((3, 8)), (1, 2), cache((1, 2))),
        (cache((0, 0), (2, 5), (4, 7), (6, 9)), (5, 12), cache((0, 0), (2, 5), (4, 7), (5, 12))),
        (cache((0, 0), (2, 5), (4, 7), (6, 9)), (8, 8), cache((0, 0), (2, 5), (4, 7), (8, 8))),
    ],
)
def test_assigning_an_epoch_keeps_the_cache_strictly_increasing(
    before: EpochCache, assigned: tuple[int, int], after: EpochCache
) -> None:
    assert before.assign(LeaderEpoch(assigned[0]), Offset(assigned[1])) == after


def test_a_change_that_changes_nothing_returns_the_same_cache() -> None:
    known = cache((2, 3), (5, 10))
    assert known.assign(LeaderEpoch(5), Offset(10)) is known
    assert known.truncate_from_start(Offset(3)) is known
    assert known.truncate_from_end(Offset(11)) is known


@pytest.mark.parametrize(
    ("asked", "end"),
    [
        (9, (9, 30)),  # the latest epoch ends at the log's end
        (7, (7, 25)),  # a known one where the next begins
        (8, (7, 25)),  # an unknown one: the largest below it (KIP-279)
        (6, (5, 20)),
        (4, (2, 10)),
        (2, (2, 10)),
        (1, (1, 3)),  # below the first entry: its start (KAFKA-7415)
        (0, (0, 3)),
        (10, None),  # above all: undefined
        (-1, None),
    ],
)
def test_end_offset_for_an_epoch(asked: int, end: tuple[int, int] | None) -> None:
    known = cache((2, 3), (5, 10), (7, 20), (9, 25))
    expected = UNDEFINED_END if end is None else EpochEnd(LeaderEpoch(end[0]), Offset(end[1]))
    assert known.end_offset_for(LeaderEpoch(asked), Offset(30)) == expected


def test_an_empty_cache_knows_no_end() -> None:
    assert cache().end_offset_for(LeaderEpoch(0), Offset(5)) == UNDEFINED_END


def test_a_leader_that_enters_its_epoch_at_once_answers_for_the_epoch_before_it() -> None:
    """KAFKA-7415: b1 led e0 to 2, missed e1, leads e2 and wrote nothing; b2 asks for e1."""
    silent = cache((0, 0))
    assert silent.end_offset_for(LeaderEpoch(1), Offset(2)) == UNDEFINED_END
    fixed = silent.assign(LeaderEpoch(2), Offset(2))
    assert fixed.end_offset_for(LeaderEpoch(1), Offset(2)) == (0, 2)


@pytest.mark.parametrize(
    ("end", "after"),
    [
        (21, cache((2, 3), (5, 10), (7, 20))),
        (20, cache((2, 3), (5, 10))),
        (10, cache((2, 3))),
        (3, cache()),
        (0, cache()),
    ],
)
def test_truncating_the_end_drops_epochs_that_begin_there_or_later(
    end: int, after: EpochCache
) -> None:
    assert cache((2, 3), (5, 10), (7, 20)).truncate_from_end(Offset(end)) == after


@pytest.mark.parametrize(
    ("start", "after"),
    [
        (3, cache((2, 3), (5, 10), (7, 20))),
        (4, cache((2, 4), (5, 10), (7, 20))),
        (10, cache((5, 10), (7, 20))),
        (25, cache((7, 25))),
    ],
)
def test_truncating_the_start_keeps_the_epoch_that_holds_it(start: int, after: EpochCache) -> None:
    assert cache((2, 3), (5, 10), (7, 20)).truncate_from_start(Offset(start)) == after


def test_epoch_of_offset() -> None:
    known = cache((2, 3), (5, 10), (7, 20))
    epochs = [known.epoch_of_offset(Offset(offset)) for offset in (2, 3, 9, 10, 19, 20, 99)]
    assert epochs == [-1, 2, 2, 5, 5, 7, 7]


changes = st.one_of(
    st.tuples(st.just("assign"), st.integers(0, 9), st.integers(0, 40)),
    st.tuples(st.just("end"), st.just(0), st.integers(0, 40)),
    st.tuples(st.just("start"), st.just(0), st.integers(0, 40)),
)


@given(st.lists(changes, max_size=20))
def test_the_cache_always_strictly_increases(steps: list[tuple[str, int, int]]) -> None:
    known = cache()
    for what, epoch, offset in steps:
        if what == "assign":
            known = known.assign(LeaderEpoch(epoch), Offset(offset))
            assert known.latest_epoch == epoch
        elif what == "end":
            known = known.truncate_from_end(Offset(offset))
        else:
            known = known.truncate_from_start(Offset(offset))
        pairs = list(zip(known.entries, known.entries[1:], strict=False))
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairs)


# ---------------------------------------------------------------- a follower's decision


@pytest.mark.parametrize(
    ("truncation", "known", "step"),
    [
        (Truncation.HIGH_WATERMARK, cache((3, 0)), TruncateTo(Offset(6))),
        (Truncation.LEADER_EPOCH, cache((1, 0), (3, 4)), AskLeader(LeaderEpoch(3))),
        (Truncation.LEADER_EPOCH_OFFSET_ONLY, cache((3, 0)), AskLeader(LeaderEpoch(3))),
        (Truncation.LEADER_EPOCH, cache(), TruncateTo(Offset(6))),
    ],
)
def test_a_new_follower_asks_unless_it_truncates_to_the_high_watermark(
    truncation: Truncation, known: EpochCache, step: TruncateTo | AskLeader
) -> None:
    assert first_step(truncation, known, Offset(6), Offset(10)) == step
    assert first_step(Truncation.HIGH_WATERMARK, known, Offset(12), Offset(10)) == TruncateTo(
        Offset(10)
    )


FOLLOWER = cache((1, 0), (4, 5))
"""Its log end is 10, its high watermark 3."""


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        ((4, 7), TruncateTo(Offset(7))),  # the leader's epoch ended earlier
        ((4, 15), TruncateTo(Offset(10))),  # ... or later
        ((2, 6), TruncateAndAskAgain(Offset(5), LeaderEpoch(1))),  # not known here (KIP-279)
        ((1, 4), TruncateTo(Offset(4))),  # an older one that both know
        ((1, 8), TruncateTo(Offset(5))),
        ((0, 2), TruncateTo(Offset(0))),  # older than all here
        ((-1, -1), TruncateTo(Offset(3))),  # undefined: the high watermark
        ((-1, 6), TruncateTo(Offset(6))),  # a leader before KIP-279
        ((9, 6), TruncateTo(Offset(6))),  # the cache lost its end meanwhile
    ],
)
def test_a_follower_truncates_as_the_leader_answers(
    answer: tuple[int, int], step: TruncateTo | TruncateAndAskAgain
) -> None:
    end = EpochEnd(LeaderEpoch(answer[0]), Offset(answer[1]))
    assert after_answer(Truncation.LEADER_EPOCH, end, FOLLOWER, Offset(3), Offset(10)) == step


@pytest.mark.parametrize(
    ("own", "leader_start", "expected"),
    [
        ((0, 5), 4, False),
        ((0, 5), 5, True),
        ((3, 5), 5, True),
        ((0, 5), 6, False),  # out of range: that is another error
        ((5, 5), 5, False),  # the log is empty
        ((0, 0), 0, False),
    ],
)
def test_a_log_is_let_go_of_where_its_leaders_begins_at_its_end(
    own: tuple[int, int], leader_start: int, *, expected: bool
) -> None:
    start, end = map(Offset, own)
    assert must_start_over(start, end, Offset(leader_start), agrees=False) is expected
    assert not must_start_over(start, end, Offset(leader_start), agrees=True)


def test_a_follower_whose_truncation_leaves_no_epoch_asks_no_more() -> None:
    end = EpochEnd(LeaderEpoch(2), Offset(6))
    step = after_answer(Truncation.LEADER_EPOCH, end, cache((1, 0)), Offset(0), Offset(0))
    assert step == TruncateTo(Offset(0))


def test_an_epoch_may_end_at_offset_0() -> None:
    end = EpochEnd(LeaderEpoch(2), Offset(0))
    step = after_answer(Truncation.LEADER_EPOCH, end, cache((2, 0)), Offset(3), Offset(10))
    assert step == TruncateTo(Offset(0))


def test_without_the_epoch_in_the_answer_an_unknown_epoch_goes_unnoticed() -> None:
    end = EpochEnd(LeaderEpoch(2), Offset(6))
    step = after_answer(Truncation.LEADER_EPOCH_OFFSET_ONLY, end, FOLLOWER, Offset(3), Offset(10))
    assert step == TruncateTo(Offset(6))


def test_fast_leader_fail_over_ends_without_divergence_only_with_the_epoch_answered() -> None:
    """KAFKA-6361: b1 [e0@0, e2@1, e4@4] LEO 6, b2 [e0@0, e1@1, e3@2] LEO 3; b2 follows b1."""
    leader, leader_end = cache((0, 0), (2, 1), (4, 4)), Offset(6)
    follower, follower_end = cache((0, 0), (1, 1), (3, 2)), Offset(3)

    answer = leader.end_offset_for(LeaderEpoch(3), leader_end)
    assert answer == (2, 4)
    old = after_answer(
        Truncation.LEADER_EPOCH_OFFSET_ONLY, answer, follower, Offset(1), follower_end
    )
    assert old == TruncateTo(Offset(3))  # nothing cut: offsets 1 and 2 differ

    first = after_answer(Truncation.LEADER_EPOCH, answer, follower, Offset(1), follower_end)
    assert first == TruncateAndAskAgain(Offset(2), LeaderEpoch(1))
    follower, follower_end = follower.truncate_from_end(Offset(2)), Offset(2)
    answer = leader.end_offset_for(LeaderEpoch(1), leader_end)
    assert answer == (0, 1)
    second = after_answer(Truncation.LEADER_EPOCH, answer, follower, Offset(1), follower_end)
    assert second == TruncateTo(Offset(1))


@pytest.mark.parametrize("truncation", Truncation)
def test_an_end_that_no_log_has_counts_as_undefined(truncation: Truncation) -> None:
    answer = EpochEnd(LeaderEpoch(2), Offset(-7))
    step = after_answer(truncation, answer, cache((0, 0), (2, 3)), Offset(4), Offset(9))
    assert step == TruncateTo(Offset(4))


Writes = list[tuple[int, int]]


def _log(writes: Writes) -> tuple[list[int], EpochCache]:
    epochs: list[int] = []
    known = cache()
    for epoch, count in writes:
        known = known.assign(LeaderEpoch(epoch), Offset(len(epochs)))
        epochs += [epoch] * count
    return epochs, known


@given(st.data())
def test_asking_again_ends_at_the_longest_common_prefix(data: st.DataObject) -> None:
    """One epoch has one leader, so logs agree where their epochs do; each record names its."""
    ends = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    owners = data.draw(st.lists(st.sampled_from("abc"), min_size=len(ends), max_size=len(ends)))
    common = data.draw(st.integers(0, 1))
    shared = [(0, common)] if common else []
    mine = shared + [
        (e + 1, n) for e, (n, o) in enumerate(zip(ends, owners, strict=True)) if o == "a"
    ]
    theirs = shared + [
        (e + 1, n) for e, (n, o) in enumerate(zip(ends, owners, strict=True)) if o == "b"
    ]
    theirs.append((len(ends) + 1, data.draw(st.integers(0, 2))))  # the leader's, entered at once
    own_epochs, follower = _log(mine)
    leader_epochs, leader = _log(theirs)
    end = Offset(len(own_epochs))
    step: TruncateTo | AskLeader | TruncateAndAskAgain
    step = first_step(Truncation.LEADER_EPOCH, follower, Offset(common), end)
    for _ in range(20):
        if isinstance(step, TruncateTo):
            break
        if isinstance(step, TruncateAndAskAgain):
            end = min(end, step.offset)
            follower = follower.truncate_from_end(end)
        answer = leader.end_offset_for(step.leader_epoch, Offset(len(leader_epochs)))
        step = after_answer(Truncation.LEADER_EPOCH, answer, follower, Offset(common), end)
    assert isinstance(step, TruncateTo)
    end = min(end, step.offset)
    assert own_epochs[:end] == leader_epochs[:end]
    assert end >= common


@pytest.mark.parametrize(
    ("leader_start", "end", "fixed"), [(0, 8, False), (8, 8, False), (9, 8, True)]
)
def test_a_log_is_dropped_below_the_leaders_start_and_without_the_fix_always(
    leader_start: int, end: int, fixed: bool
) -> None:
    offsets = Offset(leader_start), Offset(end)
    assert drops_log(*offsets, only_below_start=True) is fixed, "KAFKA-2143"
    assert drops_log(*offsets, only_below_start=False)
