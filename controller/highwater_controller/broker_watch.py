"""Learns of a broker's death before its session ends: its connection broke, and it is silent.

A call is held open to each live broker. A process that dies has its connections closed by its
kernel at once, where ZooKeeper waits for the session's timeout. A peer that is frozen or cut off
closes nothing: its call ends in silence, and tells nothing. Nor is a broker suspected that answers
again, as after a reset. A controller that reaches no other broker either suspects nobody: it may be
cut off itself.
Source: docs/decisions/0017-a-broken-connection-is-a-hint.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from highwater_core.errors import ErrorCode
from highwater_core.messages import BrokerEndpoints, CommandResponse, HoldRequest
from highwater_core.ports import CallEnd, CallFailed, CallRefused, ControlPlane
from highwater_core.runtime import Runtime

HOLD_MS = 2_000
"""How long a call is held."""
SILENT_MS = 2_000
"""A call whose answer is so late has met a silent peer. It ends before the kernel gives up a
connection to a peer that was cut off (5 s: gRPC sets TCP_USER_TIMEOUT)."""
ANSWERS_WITHIN_MS = 200
"""How long a broker has to answer once its connection broke."""

Suspect = Callable[[BrokerEndpoints, str], None]
"""Gets the broker's registration, and why it seems to have died."""
Brokers = Callable[[], Iterable[BrokerEndpoints]]
"""Returns the brokers that are watched now."""


class BrokerWatch:
    """Watches one registration of one broker."""

    def __init__(
        self,
        runtime: Runtime,
        control: ControlPlane,
        broker: BrokerEndpoints,
        watched: Brokers,
        retry_ms: int,
        suspect: Suspect,
    ) -> None:
        self._runtime = runtime
        self._control = control
        self._broker = broker
        self._watched = watched
        self._retry_ms = retry_ms
        self._suspect = suspect
        self.is_suspected = False
        """Whether the broker seems to have died, and has not answered since."""

    async def run(self) -> None:
        """Suspect the broker each time that it has answered and then seems to have died.

        Ends where the broker does not know the request, as one of an earlier version.
        """
        try:
            while True:
                while not await self._lives(self._broker, SILENT_MS):
                    await self._runtime.sleep(self._retry_ms)
                self.is_suspected = False
                why = await self._until_it_breaks()
                if why and await self._seems_dead():
                    self.is_suspected = True
                    self._suspect(self._broker, why)
        except CallRefused:
            self.is_suspected = False

    async def _until_it_breaks(self) -> str:
        """Hold calls until one is not answered; return how it broke, "" after a silence."""
        while True:
            failed = await self._failure_of(self._broker, HOLD_MS, HOLD_MS + SILENT_MS)
            if failed is None:
                continue
            if failed.end is not CallEnd.ANSWERED:
                return str(failed) if failed.end is CallEnd.BROKEN else ""
            await self._runtime.sleep(self._retry_ms)

    async def _seems_dead(self) -> bool:
        """Return whether the broker does not answer now, and another does, or there is none."""
        if await self._lives(self._broker, ANSWERS_WITHIN_MS):
            return False
        others = [each for each in self._watched() if each.broker_id != self._broker.broker_id]
        for other in others:
            try:
                if await self._lives(other, ANSWERS_WITHIN_MS):
                    return True
            except CallRefused:
                return True  # it lives, and is of an earlier version
        return not others

    async def _lives(self, broker: BrokerEndpoints, within_ms: int) -> bool:
        """Return whether the broker answers at once, if only that it is too busy.

        Raises:
            CallRefused: it does not know the request.
        """
        failed = await self._failure_of(broker, 0, within_ms)
        return failed is None or failed.end is CallEnd.ANSWERED

    async def _failure_of(
        self, broker: BrokerEndpoints, hold_ms: int, timeout_ms: int
    ) -> CallFailed | None:
        """Hold a call; return how it failed, None where it was answered.

        Raises:
            CallRefused: the broker does not know the request.
        """
        try:
            answer = await self._control.call(broker.control, HoldRequest(hold_ms), timeout_ms)
        except CallRefused:
            raise
        except CallFailed as failed:
            return failed
        if not isinstance(answer, CommandResponse) or answer.error is not ErrorCode.NONE:
            raise CallRefused(f"broker {broker.broker_id} holds no call")
        return None
