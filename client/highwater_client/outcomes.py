"""Decides what the end of one try means for a record: again, or an outcome. Pure.

A record that an earlier try may have appended never ends as `fail`, whatever the last try says.
Source: KAFKA-13574; docs/explanation/replication.md, "Histories".
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_checker.history import OperationType
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.ports import CallFailed

UNACKNOWLEDGED = "unacknowledged"
"""The error of a record sent with acks=0: that it left proves nothing."""
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
    """Return what a broker's answer to a Produce says."""
    if error is ErrorCode.NONE:
        return TryResult("", may_be_there=True, may_retry=False)
    meaning = MEANINGS[error]
    return TryResult(error.name, may_be_there=not meaning.definite, may_retry=meaning.retriable)


def judge_failure(failure: CallFailed) -> TryResult:
    """Return what the lack of an answer says: nothing, if the request had left."""
    return TryResult(str(failure), may_be_there=failure.sent, may_retry=True)


def outcome_of_failure(error: str, tries: int, *, may_be_there: bool) -> Outcome:
    """Return the outcome of a record that nobody acknowledged."""
    kind = OperationType.INFO if may_be_there else OperationType.FAIL
    return Outcome(kind, error=error or NEVER_TRIED, tries=tries)
