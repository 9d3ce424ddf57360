"""Calls to ZooKeeper that outlast lost connections and other writers, but not for ever.

A call whose connection is lost has an unknown outcome and is repeated. One that loses its
connection each time would block the controller's one event task, while the session lives and no
other controller can take over. So after a bound the session is given up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from highwater_core.ports import ConnectionLost, Coordination, CoordinationError, NoNode, Stat
from highwater_core.runtime import Runtime

T = TypeVar("T")

GIVE_UP_ATTEMPTS = 10
"""Least tries of one operation before it is given up."""


RACE_ATTEMPTS = 100
"""Most conflicts in a row with other writers between read and write."""


class GaveUp(CoordinationError):
    """One operation failed again and again; the message names it and the last state seen."""


class Patience:
    """Counts one operation's failures; it is given up after enough attempts and enough time.

    Time without any connection costs no attempt: calls wait for the connection.
    """

    def __init__(self, runtime: Runtime, retry_ms: int, give_up_ms: int) -> None:
        self._runtime = runtime
        self._retry_ms = retry_ms
        self._give_up_ms = give_up_ms
        self._attempts = 0
        self._since_ms = runtime.now_ms()

    async def lost(self, operation: str) -> None:
        """Count a lost connection; return when it is time for the next attempt.

        Raises:
            GaveUp: there were too many.
        """
        self._attempts += 1
        lasted_ms = self._runtime.now_ms() - self._since_ms
        if self._attempts >= GIVE_UP_ATTEMPTS and lasted_ms >= self._give_up_ms:
            raise GaveUp(
                f"{operation[:300]}: lost its connection {self._attempts} times in {lasted_ms} ms"
            )
        await self._runtime.sleep(self._retry_ms)


class PatientReader:
    """Reads of one session: waits after a lost connection, and raises the session's end.

    Each may also raise GaveUp.
    """

    def __init__(
        self, session: Coordination, runtime: Runtime, retry_ms: int, give_up_ms: int
    ) -> None:
        self._session = session
        self._runtime = runtime
        self._retry_ms = retry_ms
        self._give_up_ms = give_up_ms

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat] | None:
        """Return data and metadata, or None when there is no such znode (no watch then)."""
        try:
            return await self.patiently(lambda: self._session.get(path, watch=watch), f"get {path}")
        except NoNode:
            return None

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return await self.patiently(
            lambda: self._session.exists(path, watch=watch), f"exists {path}"
        )

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Return the children's names, sorted; none when there is no such znode."""
        try:
            return await self.patiently(
                lambda: self._session.children(path, watch=watch), f"children {path}"
            )
        except NoNode:
            return []

    def patience(self) -> Patience:
        """Return a new count for one operation."""
        return Patience(self._runtime, self._retry_ms, self._give_up_ms)

    async def patiently(self, call: Callable[[], Awaitable[T]], operation: str) -> T:
        """Repeat a call, which must be idempotent, until it is answered or given up."""
        patience: Patience | None = None
        while True:
            try:
                return await call()
            except ConnectionLost:
                patience = patience or self.patience()
                await patience.lost(operation)
