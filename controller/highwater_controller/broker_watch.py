"""Learns of a broker's death before its session ends: its connection broke, and it is silent.

A call is held open to each live broker. A process that dies has its connections closed by its
kernel at once, where ZooKeeper waits for the session's timeout. A peer that is frozen or cut off
closes nothing, so that it is not suspected; nor is one that answers again, as after a reset. A
controller that reaches no other broker either suspects nobody: it may be cut off itself.
Source: docs/decisions/0017-a-broken-connection-is-a-hint.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from highwater_core.messages import BrokerEndpoints, HoldRequest
from highwater_core.ports import CallFailed, CallRefused, ControlPlane
from highwater_core.runtime import Runtime

HOLD_MS = 5_000
"""How long a call is held."""
SILENT_MS = 5_000
"""A call whose answer is so late has met a silent peer. It must end before a keepalive gives the
connection up (15 s), which would look like a death."""
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

    async def run(self) -> None:
        """Suspect the broker each time that it has answered and then seems to have died.

        Ends where the broker does not know the request, as one of an earlier version.
        """
        try:
            while True:
                await self._until_it_answers()
                why = await self._until_it_breaks()
                if not why or not await self._held(0, ANSWERS_WITHIN_MS):
                    continue
                if await self._is_another_reached():
                    self._suspect(self._broker, why)
        except CallRefused:
            return

    async def _until_it_answers(self) -> None:
        while await self._held(0, SILENT_MS):
            await self._runtime.sleep(self._retry_ms)

    async def _until_it_breaks(self) -> str:
        """Hold calls until one is not answered; return how it broke, "" after a silence."""
        broke, took_ms, timeout_ms = "", 0, HOLD_MS + SILENT_MS
        while not broke:
            begun_ms = self._runtime.now_ms()
            broke = await self._held(HOLD_MS, timeout_ms)
            took_ms = self._runtime.now_ms() - begun_ms
        return "" if took_ms >= timeout_ms else broke

    async def _is_another_reached(self) -> bool:
        """Return whether another broker answers, or there is none."""
        others = [each for each in self._watched() if each.broker_id != self._broker.broker_id]
        for other in others:
            try:
                await self._control.call(other.control, HoldRequest(0), ANSWERS_WITHIN_MS)
            except CallRefused:
                return True  # it lives, and is of an earlier version
            except CallFailed:
                continue
            return True
        return not others

    async def _held(self, hold_ms: int, timeout_ms: int) -> str:
        """Return "" where the broker answered, else how the call ended.

        Raises:
            CallRefused: the broker does not know the request.
        """
        try:
            await self._control.call(self._broker.control, HoldRequest(hold_ms), timeout_ms)
        except CallRefused:
            raise
        except CallFailed as failed:
            return str(failed)
        return ""
