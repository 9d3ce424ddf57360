"""Commands to brokers: for each one ordered queue, one task, one command in flight.

A command is sent again until it is answered, the broker is gone or the controller resigns; later
ones to that broker wait (V3, discussion: commands must not overtake each other). One that cannot be
sent, or that the broker cannot read, is dropped after a few attempts and counts as refused, so that
later ones do not wait for ever.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from highwater_controller.broker_watch import BrokerWatch, Suspect
from highwater_controller.settings import ControllerSettings
from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint, FailPoints
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import (
    BrokerCommand,
    BrokerEndpoints,
    CommandResponse,
    LeaderAndIsrRequest,
    UnansweredCommand,
)
from highwater_core.ports import CallFailed, CallRefused, ControlPlane, Trace
from highwater_core.runtime import Event, Runtime, Task, TaskScope

MAX_REFUSALS = 3
"""How often a command is sent that the broker cannot read, or whose answer cannot be read."""

AnswerHandler = Callable[[NodeId, BrokerCommand, CommandResponse], None]


class BrokerChannel:
    """The channel to one registration of one broker, in one term of the controller.

    is_init_settled: its first LeaderAndIsr has been queued, as init or not.
    """

    def __init__(self, broker: BrokerEndpoints, queued: Event, numbers: Iterator[int]) -> None:
        self.broker = broker
        self.is_init_settled = False
        self.watch: BrokerWatch | None = None
        """Of the broker's connection; None where nobody watches it."""
        self.sent_at_ms: int | None = None
        """When the command in flight was sent for the first time; None when none is in flight."""
        self._queued = queued
        self._waiting: deque[BrokerCommand] = deque()
        self._numbers = numbers

    @property
    def depth(self) -> int:
        """Number of waiting commands, with the one in flight."""
        return len(self._waiting)

    def enqueue(self, command: BrokerCommand) -> None:
        """Queue a command as this channel's next; its number stays when it is sent again."""
        self._waiting.append(replace(command, correlation_id=next(self._numbers)))
        self._queued.set()

    async def oldest(self) -> BrokerCommand:
        """Return the oldest command, which stays in the queue until it is answered."""
        while not self._waiting:
            self._queued.clear()
            await self._queued.wait()
        return self._waiting[0]

    def answered(self) -> None:
        self._waiting.popleft()
        self.sent_at_ms = None

    def unanswered(self, now_ms: int, timeout_ms: int) -> UnansweredCommand | None:
        """Return the command in flight if it has waited for timeout_ms or longer."""
        if self.sent_at_ms is None or now_ms - self.sent_at_ms < timeout_ms:
            return None
        request = type(self._waiting[0]).__name__
        return UnansweredCommand(self.broker.broker_id, request, now_ms - self.sent_at_ms)


class BrokerChannels:
    """All channels of one term; closing one drops its commands, sent or not."""

    def __init__(
        self,
        settings: ControllerSettings,
        runtime: Runtime,
        control: ControlPlane,
        trace: Trace,
        on_answer: AnswerHandler,
        fail_points: FailPoints,
        suspect: Suspect | None = None,
    ) -> None:
        """suspect: is told which brokers seem to have died; None: nobody watches them."""
        self._suspect = suspect
        self._settings = settings
        self._runtime = runtime
        self._control = control
        self._trace = trace
        self._on_answer = on_answer
        self._fail_points = fail_points
        self._scope: TaskScope = runtime.scope("broker-channels")
        self._channels: dict[NodeId, tuple[BrokerChannel, list[Task]]] = {}
        """Each with its tasks."""
        self._numbers = itertools.count(1)
        """One sequence for all channels of the term, also for a broker that registers again."""

    def open(self, broker: BrokerEndpoints) -> None:
        """Begin a broker's channel; the one to its earlier registration must be closed."""
        check(broker.broker_id not in self._channels, "one channel per broker")
        channel = BrokerChannel(broker, self._runtime.event(), self._numbers)
        name = f"Controller-{self._settings.node_id}-to-broker-{broker.broker_id}"
        tasks = [self._scope.spawn(f"{name}-send-thread", self._send_all(channel))]
        if self._suspect is not None:
            channel.watch = BrokerWatch(
                self._runtime,
                self._control,
                broker,
                lambda: [channel.broker for channel, _ in self._channels.values()],
                self._settings.command_retry_ms,
                self._suspect,
            )
            tasks.append(self._scope.spawn(f"{name}-watch", channel.watch.run()))
        self._channels[broker.broker_id] = (channel, tasks)

    def close(self, broker_id: NodeId) -> None:
        """Drop a broker's channel; nothing happens when there is none."""
        found = self._channels.pop(broker_id, None)
        for task in () if found is None else found[1]:
            task.cancel()

    def close_all(self) -> None:
        self._channels.clear()
        self._scope.cancel()

    def find(self, broker_id: NodeId) -> BrokerChannel | None:
        found = self._channels.get(broker_id)
        return None if found is None else found[0]

    def depth(self) -> int:
        """Number of waiting commands of all brokers."""
        return sum(channel.depth for channel, _ in self._channels.values())

    def unanswered(self) -> tuple[UnansweredCommand, ...]:
        """Return, by broker, the commands that have waited for command_timeout_ms or longer."""
        now_ms, timeout_ms = self._runtime.now_ms(), self._settings.command_timeout_ms
        found = (
            self._channels[broker][0].unanswered(now_ms, timeout_ms)
            for broker in sorted(self._channels)
        )
        return tuple(each for each in found if each is not None)

    def task_names(self) -> list[str]:
        return [task.name for task in self._scope.tasks()]

    async def _send_all(self, channel: BrokerChannel) -> None:
        while True:
            command = await channel.oldest()
            await self._fail_points.reach(FailPoint.BEFORE_COMMAND_SENT)
            response = await self._send(channel, command)
            channel.answered()
            self._on_answer(channel.broker.broker_id, command, response)

    async def _send(self, channel: BrokerChannel, command: BrokerCommand) -> CommandResponse:
        """Send a command until it is answered; alert whenever a whole timeout has passed.

        A dropped one counts as answered with INVALID_REQUEST.
        """
        timeout_ms = self._settings.command_timeout_ms
        channel.sent_at_ms = waiting_since_ms = self._runtime.now_ms()
        self._emit(EventKind.COMMAND_SENT, channel, command, **_describe(command))
        refusals = 0
        while True:
            try:
                response = await self._control.call(channel.broker.control, command, timeout_ms)
                if isinstance(response, CommandResponse):
                    self._trace_answer(channel, command, response)
                    return response
                reason = f"answered with {type(response).__name__}"
                refusals += 1
            except CallRefused as refused:
                reason = str(refused)
                refusals += 1
            except CallFailed:
                if self._runtime.now_ms() - waiting_since_ms >= timeout_ms:
                    self._emit(EventKind.COMMAND_TIMED_OUT, channel, command)
                    waiting_since_ms = self._runtime.now_ms()
            if refusals >= MAX_REFUSALS:
                self._emit(EventKind.COMMAND_DROPPED, channel, command, reason=reason[:300])
                return CommandResponse(ErrorCode.INVALID_REQUEST)
            await self._runtime.sleep(self._settings.command_retry_ms)

    def _trace_answer(
        self, channel: BrokerChannel, command: BrokerCommand, response: CommandResponse
    ) -> None:
        failed = [(str(at), code.name) for at, code in response.partition_errors if code]
        self._emit(
            EventKind.COMMAND_ANSWERED, channel, command, error=response.error.name, failed=failed
        )

    def _emit(
        self, kind: EventKind, channel: BrokerChannel, command: BrokerCommand, **detail: Any
    ) -> None:
        self._trace.emit(
            kind,
            controller_epoch=command.controller_epoch,
            broker=channel.broker.broker_id,
            request=type(command).__name__,
            **detail,
        )


def _describe(command: BrokerCommand) -> dict[str, Any]:
    named: list[TopicPartition] = [item.topic_partition for item in command.partitions]
    return {
        "is_init": isinstance(command, LeaderAndIsrRequest) and command.is_init,
        "broker_epoch": command.broker_epoch,
        "correlation_id": command.correlation_id,
        "partitions": [str(partition) for partition in named],
    }
