"""The outcome of a record after each end of a try, as tables."""

from __future__ import annotations

import pytest

from highwater_checker.history import OperationType
from highwater_client.outcomes import judge_answer, judge_failure, outcome_of_failure
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.ports import CallFailed

E = ErrorCode


def test_acknowledged_record_is_there_and_not_tried_again() -> None:
    result = judge_answer(E.NONE)
    assert (result.error, result.may_be_there, result.may_retry) == ("", True, False)


@pytest.mark.parametrize("error", [error for error in E if error is not E.NONE])
def test_every_error_is_judged_by_the_one_registry(error: ErrorCode) -> None:
    result = judge_answer(error)
    meaning = MEANINGS[error]
    assert result.error == error.name
    assert result.may_be_there is not meaning.definite
    assert result.may_retry is meaning.retriable


@pytest.mark.parametrize(
    ("error", "may_be_there", "may_retry"),
    [
        (E.NOT_LEADER_OR_FOLLOWER, True, True),  # KAFKA-13574
        (E.NOT_ENOUGH_REPLICAS, False, True),
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, True, True),
        (E.REQUEST_TIMED_OUT, True, True),
        (E.UNKNOWN_TOPIC_OR_PARTITION, False, True),
        (E.MESSAGE_TOO_LARGE, False, False),
        (E.UNKNOWN_SERVER_ERROR, True, False),
    ],
)
def test_the_outcome_of_each_error_of_a_produce(
    error: ErrorCode, may_be_there: bool, may_retry: bool
) -> None:
    result = judge_answer(error)
    assert (result.may_be_there, result.may_retry) == (may_be_there, may_retry)


@pytest.mark.parametrize("sent", [True, False])
def test_lost_answer_leaves_open_whether_the_record_is_there_if_it_was_sent(sent: bool) -> None:
    result = judge_failure(CallFailed("reset", sent=sent))
    assert (result.error, result.may_be_there, result.may_retry) == ("reset", sent, True)


@pytest.mark.parametrize(
    ("may_be_there", "kind"), [(True, OperationType.INFO), (False, OperationType.FAIL)]
)
def test_record_that_may_be_there_never_ends_as_failed(
    may_be_there: bool, kind: OperationType
) -> None:
    outcome = outcome_of_failure("MESSAGE_TOO_LARGE", 2, may_be_there=may_be_there)
    assert (outcome.type, outcome.offset, outcome.tries) == (kind, -1, 2)
    assert outcome.error == "MESSAGE_TOO_LARGE"
