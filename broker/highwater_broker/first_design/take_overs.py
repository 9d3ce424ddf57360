"""Leaders that take over: they wait for the other replicas, write the ISR, then open.

Source: the first design (V2), becomeLeader: "wait until every live replica in AR catches up or a
KeepInSyncTime has passed".
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from highwater_broker.logic.first_design import in_sync, is_taken_over
from highwater_broker.partition import Partition
from highwater_broker.roles import Leading
from highwater_core.ids import NodeId, Offset
from highwater_core.runtime import Runtime, TaskScope

CHECK_MS = 20
"""How often a leader looks whether the others have caught up, and its ISR is written."""


class TakeOvers:
    """One task for each take-over; it ends with the role."""

    def __init__(
        self,
        runtime: Runtime,
        scope: TaskScope,
        keep_in_sync_time_ms: int,
        live: Callable[[], Collection[NodeId]],
        has_ended: Callable[[Partition], None],
    ) -> None:
        self._runtime = runtime
        self._scope = scope
        self._keep_in_sync_time_ms = keep_in_sync_time_ms
        self._live = live
        self._has_ended = has_ended

    def begin(self, partition: Partition) -> None:
        """Begin a take-over if the partition's leader is closed."""
        role = partition.role
        if isinstance(role, Leading) and not role.is_open:
            partition.begin_take_over()
            self._scope.spawn("TakeOver", self._take_over(partition, role))

    async def _take_over(self, partition: Partition, role: Leading) -> None:
        began_ms = self._runtime.now_ms()
        while partition.role is role and not self._is_over(partition, role, began_ms):
            await self._runtime.sleep(CHECK_MS)
        while partition.role is role and not role.is_open:
            high_watermark = partition.high_watermark
            isr = in_sync(partition.broker_id, high_watermark, _ends_of(role))
            partition.end_take_over(role, isr)
            await self._runtime.sleep(CHECK_MS)
        if partition.role is role:
            self._has_ended(partition)

    def _is_over(self, partition: Partition, role: Leading, began_ms: int) -> bool:
        return is_taken_over(
            partition.high_watermark,
            _ends_of(role),
            self._live(),
            self._runtime.now_ms() - began_ms,
            self._keep_in_sync_time_ms,
        )


def _ends_of(role: Leading) -> dict[NodeId, Offset]:
    return {broker: progress.log_end_offset for broker, progress in role.followers.items()}
