"""A topic is deleted and created again in a run: its second life owes no records of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater_checker.judging import judge_run
from highwater_checker.verdict import Outcome, Verdict
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, TopicId
from tests.support.made_again import (
    BOTH,
    FIRST,
    LED,
    NEW,
    OLD,
    SECOND,
    polled,
    traced,
    two_lives,
    write_made_again,
)
from tests.support.run_on_disk import write


def findings_in(verdict: Verdict) -> list[tuple[str, str, int]]:
    """Return of each finding its rule, its operation and its offset."""
    found = (finding for check in verdict.checks for finding in check.findings)
    return sorted((each.invariant, each.operation, each.offset) for each in found)


def test_records_acknowledged_in_a_deleted_life_are_not_lost(tmp_path: Path) -> None:
    """Found: I1 looked for it in the second life's logs; order and offsets were compared too."""
    verdict = judge_run(write_made_again(tmp_path / "run"))
    assert verdict.outcome is Outcome.PASS, verdict.reasons


def test_deletions_tell_lives_of_topics_without_ids_apart(tmp_path: Path) -> None:
    events = two_lives(NO_TOPIC_ID, NO_TOPIC_ID)
    assert findings_in(judge_run(write_made_again(tmp_path / "run", events=events))) == []


def test_two_ids_tell_lives_apart_though_nobody_traced_the_deletion(tmp_path: Path) -> None:
    events = [event for event in two_lives() if event.kind is not EventKind.TOPIC_DELETED]
    verdict = judge_run(write_made_again(tmp_path / "run", events=events))
    assert verdict.outcome is Outcome.PASS, verdict.reasons


@pytest.mark.parametrize("ids", [(FIRST, SECOND), (NO_TOPIC_ID, NO_TOPIC_ID)], ids=["ids", "none"])
def test_a_loss_in_the_second_life_is_found(tmp_path: Path, ids: tuple[TopicId, TopicId]) -> None:
    events = [*two_lives(*ids), traced(800, EventKind.LOG_APPENDED, ids[1], 1, end_offset=2)]
    new = (*NEW, ("v1", 1, 795, 805))
    verdict = judge_run(write_made_again(tmp_path / "run", events=events, new=new))
    assert findings_in(verdict) == [("I1", "p0's send 1", 1)] * 2, "on either broker"


@pytest.mark.parametrize("gone", [False, True], ids=["there", "deleted and not made again"])
def test_records_that_a_successor_lacked_in_the_first_life_are_found(
    tmp_path: Path, gone: bool
) -> None:
    lost = traced(400, LED, FIRST, 1, node=1, leader_epoch=1, **BOTH)
    events = two_lives()
    events.insert(3, lost)
    verdict = judge_run(write_made_again(tmp_path / "run", events=events[:5] if gone else events))
    assert ("I1", "p1's send 1", 1) in findings_in(verdict)


def test_a_leader_that_has_not_heard_of_the_deletion_is_known_by_its_appends(
    tmp_path: Path,
) -> None:
    late = traced(900, EventKind.LOG_APPENDED, FIRST, 2, node=2, end_offset=3)
    old = (*OLD, ("old-2", 2, 895, 905))
    verdict = judge_run(write_made_again(tmp_path / "run", events=[*two_lives(), late], old=old))
    assert verdict.outcome is Outcome.PASS, verdict.reasons


def test_a_send_across_the_deletion_is_of_the_life_that_appended_it(tmp_path: Path) -> None:
    verdict = judge_run(write_made_again(tmp_path / "run", new=(("lost", 0, 305, 705),)))
    assert findings_in(verdict) == [("I1", "p0's send 0", 0)] * 2


def test_a_send_across_the_deletion_that_nobody_appended_is_asked_of_no_life(
    tmp_path: Path,
) -> None:
    old = (*OLD, ("either", 5, 305, 705))
    verdict = judge_run(write_made_again(tmp_path / "run", old=old))
    assert verdict.outcome is Outcome.PASS, verdict.reasons


def test_order_and_offsets_are_compared_within_a_life(tmp_path: Path) -> None:
    new = (*NEW, ("v9", 0, 800, 801))
    verdict = judge_run(write_made_again(tmp_path / "run", new=new))
    assert {("realtime-send", "p0's send 1", 0), ("inconsistent-offsets", "p0's send 1", 0)} <= {
        *findings_in(verdict)
    }


def test_without_the_run_s_clock_no_life_is_known_and_the_verdict_says_so(tmp_path: Path) -> None:
    verdict = judge_run(write_made_again(tmp_path / "run", with_clock=False))
    assert verdict.outcome is Outcome.UNKNOWN
    assert any("t was deleted, and no clock tells when" in each for each in verdict.reasons)


def test_a_run_without_deletions_needs_no_clock(tmp_path: Path) -> None:
    events = two_lives(SECOND)[4:]
    run = write_made_again(tmp_path / "run", events=events, old=(), with_clock=False)
    assert judge_run(run).outcome is Outcome.PASS


READ_OLD = ((210, 0, "old-0"), (310, 1, "old-1"))


@pytest.mark.parametrize("ids", [(FIRST, SECOND), (NO_TOPIC_ID, NO_TOPIC_ID)], ids=["ids", "none"])
def test_records_read_in_a_deleted_life_need_not_stay(
    tmp_path: Path, ids: tuple[TopicId, TopicId]
) -> None:
    """Found: I9 asked the second life's logs for it, and compared it with reads of that life."""
    run = write_made_again(tmp_path / "run", events=two_lives(*ids))
    write(run / "history" / "c0.jsonl", polled(*READ_OLD, (710, 0, "v0")))
    assert findings_in(judge_run(run)) == []


def test_a_read_of_the_first_life_may_end_in_the_second(tmp_path: Path) -> None:
    """A consumer may have fetched records long before it returns them."""
    run = write_made_again(tmp_path / "run")
    late = [(at_ns + 500, offset, value) for at_ns, offset, value in READ_OLD]
    write(run / "history" / "c0.jsonl", polled(*late, (820, 0, "v0")))
    verdict = judge_run(run)
    assert verdict.outcome is Outcome.PASS, verdict.reasons


def test_records_read_in_the_second_life_must_stay(tmp_path: Path) -> None:
    events = [*two_lives(), traced(800, EventKind.LOG_APPENDED, SECOND, 2, end_offset=3)]
    run = write_made_again(tmp_path / "run", events=events)
    write(run / "history" / "c0.jsonl", polled(*READ_OLD, (710, 0, "v0"), (810, 2, "gone")))
    assert findings_in(judge_run(run)) == [("I9", "c0's poll 3", 2)] * 2, "on either"


def test_two_values_at_one_offset_of_the_first_life_are_found(tmp_path: Path) -> None:
    run = write_made_again(tmp_path / "run")
    write(run / "history" / "c0.jsonl", polled(*READ_OLD, (320, 0, "x"), (710, 0, "v0")))
    found = {("I9", "c0's poll 2", 0), ("inconsistent-offsets", "c0's poll 2", 0)}
    assert set(findings_in(judge_run(run))) == found


def test_a_record_of_the_second_life_that_was_never_read_is_found(tmp_path: Path) -> None:
    run = write_made_again(tmp_path / "run")
    write(run / "history" / "c0.jsonl", polled(READ_OLD[1]))
    assert findings_in(judge_run(run)) == [("unseen", "", 0)] * 2
