"""Records a group member's assignments, commits and fetches of offsets in a client's history."""

from __future__ import annotations

from collections.abc import Mapping

from highwater_checker.history import ASSIGNED, COMMIT, OperationType
from highwater_client.outcomes import TryResult
from highwater_client.recorder import HistoryRecorder
from highwater_core.ids import Offset, TopicPartition

NOTHING = TopicPartition("", -1)
"""The partition of an empty assignment in the history."""


class OffsetHistory:
    """One client's history in one group; a commit or fetch is one operation a partition."""

    def __init__(self, recorder: HistoryRecorder, group_id: str) -> None:
        self._recorder = recorder
        self._group_id = group_id

    def begin(self, function: str, at: TopicPartition, offset: int = -1) -> int:
        """Record the operation's beginning, and return its id."""
        operation_id = self._recorder.new_operation()
        self._recorder.record(
            OperationType.INVOKE, operation_id, function, *at, self._group_id, offset
        )
        return operation_id

    def end(
        self, operation_id: int, function: str, at: TopicPartition, offset: int, result: TryResult
    ) -> OperationType:
        """Record the outcome, and return it; a failed fetch is FAIL, never unknown."""
        kind = OperationType.OK
        if result.error:
            is_unknown = function == COMMIT and result.may_be_there
            kind = OperationType.INFO if is_unknown else OperationType.FAIL
        self._recorder.record(
            kind, operation_id, function, *at, self._group_id, offset, error=result.error
        )
        return kind

    def assigned(
        self, generation: int, positions: Mapping[TopicPartition, Offset], instance: str | None
    ) -> None:
        """Record an assignment with its start offsets. instance: of a static member, or None."""
        operation_id = self._recorder.new_operation()
        for at, offset in (positions or {NOTHING: Offset(-1)}).items():
            self._recorder.record(
                OperationType.OK,
                operation_id,
                ASSIGNED,
                *at,
                self._group_id,
                offset,
                key=instance or "",
                generation=generation,
            )
