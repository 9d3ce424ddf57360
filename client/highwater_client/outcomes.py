"""Decides after one try of a record: retry, or an outcome. Pure.

A record that an earlier try may have appended never ends as `fail`, whatever the last try's error.
Source: KAFKA-13574; docs/explanation/replication.md, "Histories".
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_checker.history import OperationType
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.ports import CallFailed

UNACKNOWLEDGED = "unacknowledged"
"""The error of a record sent with acks=0: sending it proves nothing."""
NEVER_TRIED = "no leader was found"


@dataclass(frozen=True, slots=True)
class TryResult:
    """How one try ended; error is empty when the broker acknowledged it."""

    error: str
    may_be_there: bool
    may_retry: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a send ended; offset is -1 unless it was acknowledged."""

    type: OperationType
    offset: int = -1
    error: str = ""
    tries: int = 1


def judge_answer(error: ErrorCode) -> TryResult:
    """Return the result of a try with a Produce answer."""
    if error is ErrorCode.NONE:
        return TryResult("", may_be_there=True, may_retry=False)
    meaning = MEANINGS[error]
    return TryResult(error.name, may_be_there=not meaning.definite, may_retry=meaning.retriable)


def judge_failure(failure: CallFailed) -> TryResult:
    """Return the result of a try without an answer: unknown, if the request was sent."""
    return TryResult(str(failure), may_be_there=failure.sent, may_retry=True)


def outcome_of_failure(error: str, tries: int, *, may_be_there: bool) -> Outcome:
    """Return the outcome of a record without an acknowledgement."""
    kind = OperationType.INFO if may_be_there else OperationType.FAIL
    return Outcome(kind, error=error or NEVER_TRIED, tries=tries)
