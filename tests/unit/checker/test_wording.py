"""Findings' sentences: how facts other than plain words are written."""

from __future__ import annotations

import pytest

from highwater_checker.segments import Batch
from highwater_checker.wording import Wording

BATCH = Batch(7, 9, 2, b"")


@pytest.mark.parametrize(
    ("value", "words"),
    [("v", "'v'"), ('"', "'\"'"), ("v" * 41, f"'{'v' * 37}...'"), (None, "nothing")],
)
def test_a_records_value_is_quoted_and_cut(value: str | None, words: str) -> None:
    assert Wording.LOST.filled(value="w", held=value) == f"'w' was acknowledged; there is {words}"


def test_long_values_that_differ_late_are_shown_where_they_differ() -> None:
    said = Wording.LOST.filled(value="x" * 90 + "1" + "y" * 9, held="x" * 90 + "2" + "y" * 9)
    assert said == "'...xxxxxxxx1yyyyyyyyy' was acknowledged; there is '...xxxxxxxx2yyyyyyyyy'"


@pytest.mark.parametrize("isr", [(1,), [1]], ids=["the checker's", "a table's"])
def test_brokers_are_written_alike_from_any_collection(isr: object) -> None:
    said = Wording.EMPTY_ISR.filled(leader=1, leader_epoch=3, isr=isr, assigned_replicas=[1, 2])
    assert said.endswith("leader 1 of leader_epoch 3, ISR [1], assigned [1, 2]")


def test_a_batch_is_its_offsets_and_epoch_and_may_be_missing() -> None:
    said = Wording.UNLIKE.filled(reference=0, expected=BATCH, node=1, found=None)
    assert said == "broker 0 holds [7, 9) of epoch 2, broker 1 holds no batch"


@pytest.mark.parametrize(
    ("appends", "words"),
    [
        ([(1, 2), (3, 4)], "broker 1 in leader_epoch 2, broker 3 in leader_epoch 4"),
        ([], "nobody traced it"),
        (None, "nobody traced it"),
    ],
)
def test_appends_tell_of_each_leader(appends: object, words: str) -> None:
    facts = {"value": "v", "epoch": 1, "broker": 5, "began": 6, "end_offset": 7}
    said = Wording.SUCCESSOR_LACKS.filled(appends=appends, **facts)
    assert f"appended there: {words}; broker 5 began leader_epoch 6" in said


def test_facts_that_a_sentence_does_not_name_are_left_out() -> None:
    said = Wording.WRITTEN_TWICE.filled(leader_epoch=3, node=1)
    assert said == "leader_epoch 3 was written more than once"
