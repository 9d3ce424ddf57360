"""Fail-points: named places in node code where a test may make a node wait or die.

They stand in the middle of steps: after a conditional write whose reply is not yet used, or before
the first fetch from a new leader. A fail-point awaits, so the code behind it must check again for
changes, as after any await.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.messages import FailPointAction, SetFailPointRequest, SetFailPointResponse
from highwater_core.ports import Trace
from highwater_core.runtime import Runtime


class FailPoint(StrEnum):
    """Every fail-point; each belongs to brokers or to controllers."""

    # Broker
    BEFORE_HIGH_WATERMARK_CHECKPOINT = "before_high_watermark_checkpoint"
    """The high watermarks are about to be taken and written."""
    AFTER_HIGH_WATERMARK_CHECKPOINT = "after_high_watermark_checkpoint"
    """The high watermarks are on the disk."""
    BEFORE_LOG_FLUSH = "before_log_flush"
    """The logs are about to be synced, at the interval or at a clean stop."""
    BEFORE_RECOVERY_POINT_WRITE = "before_recovery_point_write"
    """Logs are synced, or were truncated, and the file does not yet say so."""
    BEFORE_ISR_WRITE = "before_isr_write"
    """A leader has proposed an ISR and is about to have it written."""
    AFTER_ISR_WRITE = "after_isr_write"
    """An ISR is written, and its leader has not yet taken it over (KAFKA-1382)."""
    BEFORE_FIRST_FETCH = "before_first_fetch"
    """A LeaderAndIsr named a new leader or epoch, and no request was sent to that leader yet."""
    BEFORE_TRUNCATION = "before_truncation"
    """The leader has answered where epochs end; the log is not yet truncated (KAFKA-6361, 7415)."""
    BEFORE_COMMAND = "before_command"
    """The controller's next command is about to be checked and carried out (KAFKA-9539)."""
    DURING_LOG_RECOVERY = "during_log_recovery"
    """A start has recovered a log, perhaps not the last: a crash during recovery."""
    BEFORE_BROKER_REGISTRATION = "before_broker_registration"
    """A session is open, and the broker is not registered in it (KAFKA-7235, KIP-380)."""
    BEFORE_GROUP_LOAD = "before_group_load"
    """An offsets partition has a new leader, which has read none of its groups (KAFKA-2841)."""

    # Controller
    BEFORE_STATE_WRITE = "before_state_write"
    """A partition's next state is decided, and not yet written (KAFKA-3083)."""
    AFTER_STATE_WRITE = "after_state_write"
    """A partition's state is written, and no command was sent."""
    BEFORE_TOPIC_WRITE = "before_topic_write"
    """The replicas of a topic's partitions are decided, and not yet written (KIP-455)."""
    AFTER_TOPIC_WRITE = "after_topic_write"
    """A topic's replicas are written, and no command was sent."""
    BEFORE_CONFIG_WRITE = "before_config_write"
    """A configuration is checked, and neither written nor announced."""
    AFTER_CONFIG_WRITE = "after_config_write"
    """A configuration is written and announced, and its client has no answer."""
    DURING_FAILOVER = "during_failover"
    """Elected, the cluster loaded; no command was sent."""
    BEFORE_COMMAND_SENT = "before_command_sent"
    """A broker's oldest command is about to be sent; later ones wait behind it."""
    BEFORE_CONTROLLED_SHUTDOWN_REPLY = "before_controlled_shutdown_reply"
    """Leadership was moved off a broker, and the broker has no answer."""


BROKER_FAIL_POINTS = (
    FailPoint.BEFORE_HIGH_WATERMARK_CHECKPOINT,
    FailPoint.AFTER_HIGH_WATERMARK_CHECKPOINT,
    FailPoint.BEFORE_LOG_FLUSH,
    FailPoint.BEFORE_RECOVERY_POINT_WRITE,
    FailPoint.BEFORE_ISR_WRITE,
    FailPoint.AFTER_ISR_WRITE,
    FailPoint.BEFORE_FIRST_FETCH,
    FailPoint.BEFORE_TRUNCATION,
    FailPoint.BEFORE_COMMAND,
    FailPoint.DURING_LOG_RECOVERY,
    FailPoint.BEFORE_BROKER_REGISTRATION,
    FailPoint.BEFORE_GROUP_LOAD,
)
CONTROLLER_FAIL_POINTS = (
    FailPoint.BEFORE_STATE_WRITE,
    FailPoint.AFTER_STATE_WRITE,
    FailPoint.BEFORE_TOPIC_WRITE,
    FailPoint.AFTER_TOPIC_WRITE,
    FailPoint.BEFORE_CONFIG_WRITE,
    FailPoint.AFTER_CONFIG_WRITE,
    FailPoint.DURING_FAILOVER,
    FailPoint.BEFORE_COMMAND_SENT,
    FailPoint.BEFORE_CONTROLLED_SHUTDOWN_REPLY,
)


@dataclass(slots=True)
class _Armed:
    action: FailPointAction
    delay_ms: int
    hits_left: int
    """0 is without end."""


class FailPoints:
    """One incarnation's fail-points; all are disarmed when it starts."""

    def __init__(
        self,
        runtime: Runtime,
        trace: Trace,
        exit_now: Callable[[], None],
        own: Collection[FailPoint],
    ) -> None:
        self._runtime = runtime
        self._trace = trace
        self._exit_now = exit_now
        self._own = own
        self._armed: dict[FailPoint, _Armed] = {}

    def answer(self, request: SetFailPointRequest) -> SetFailPointResponse:
        """Arm or disarm a fail-point by a request of the control plane."""
        return SetFailPointResponse(
            self.arm(request.name, request.action, request.count, request.delay_ms)
        )

    def arm(
        self, name: str, action: FailPointAction, count: int = 0, delay_ms: int = 0
    ) -> ErrorCode:
        """Set the fail-point's action from now on; after `count` hits it disarms itself.

        Return INVALID_REQUEST when this node has no fail-point of that name, or a number is
        negative.
        """
        if name not in self._own or count < 0 or delay_ms < 0:
            return ErrorCode.INVALID_REQUEST
        point = FailPoint(name)
        if action == FailPointAction.OFF:
            self._armed.pop(point, None)
        else:
            self._armed[point] = _Armed(action, delay_ms, count)
        return ErrorCode.NONE

    def disarm_all(self) -> None:
        self._armed.clear()

    async def reach(self, point: FailPoint) -> None:
        """Carry out the fail-point's action; return at once, without a wait, when it is not armed.

        Ordering: once the process must end this never returns, so that no code behind the
        fail-point runs.
        """
        if self._armed:
            armed = self._armed.get(point)
            if armed is not None:
                await self._hit(point, armed)

    async def _hit(self, point: FailPoint, armed: _Armed) -> None:
        if armed.hits_left == 1:
            del self._armed[point]
        armed.hits_left -= 1 if armed.hits_left else 0
        self._trace.emit(
            EventKind.FAIL_POINT_HIT, name=point.value, action=FailPointAction(armed.action).value
        )
        if armed.action == FailPointAction.EXIT:
            self._exit_now()
            await self._runtime.event().wait()
        await self._runtime.sleep(armed.delay_ms)
