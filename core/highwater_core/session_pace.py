"""Bounds how often a node opens sessions, where each of them ends at once."""

from __future__ import annotations

from highwater_core.runtime import Runtime

SESSION_PACE_MS = 500


class SessionPace:
    """Lets a session begin SESSION_PACE_MS after the previous one began, or later."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._next_ms = runtime.now_ms()

    async def wait(self) -> None:
        """Return when the next session may begin."""
        if (left_ms := self._next_ms - self._runtime.now_ms()) > 0:
            await self._runtime.sleep(left_ms)
        self._next_ms = self._runtime.now_ms() + SESSION_PACE_MS
