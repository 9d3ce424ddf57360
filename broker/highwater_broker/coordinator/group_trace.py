"""A coordinator's trace events. Clients choose the names in them, so their length is bounded."""

from __future__ import annotations

from typing import Any

from highwater_broker.coordinator.group import Group
from highwater_broker.coordinator.logic.group_states import GroupState
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ports import Trace
from highwater_wire.kafka.text import shortened

MAX_NAME_BYTES = 200


class GroupTrace:
    """Traces changes of groups."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def state_changed(self, group: Group, from_state: GroupState, reason: str) -> None:
        self._emit(
            EventKind.GROUP_STATE_CHANGED,
            group,
            from_state=from_state.value,
            to_state=group.state.value,
            reason=shortened(reason, MAX_NAME_BYTES),
        )

    def generation_begun(self, group: Group) -> None:
        self._emit(
            EventKind.GROUP_GENERATION_BEGUN,
            group,
            protocol=shortened(group.protocol or "", MAX_NAME_BYTES),
            members=[shortened(member_id, MAX_NAME_BYTES) for member_id in group.members],
        )

    def member_expired(self, group: Group, member_id: str) -> None:
        member = shortened(member_id, MAX_NAME_BYTES)
        self._emit(EventKind.GROUP_MEMBER_EXPIRED, group, member=member)

    def stored(self, group: Group, error: ErrorCode) -> None:
        """Trace the group's append if it failed."""
        if error is not ErrorCode.NONE:
            self._emit(EventKind.GROUP_NOT_STORED, group, error=error.name)

    def _emit(self, kind: EventKind, group: Group, **detail: Any) -> None:
        name = shortened(group.group_id, MAX_NAME_BYTES)
        self._trace.emit(kind, group=name, generation=group.generation, **detail)
