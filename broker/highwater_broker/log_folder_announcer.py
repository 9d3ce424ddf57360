"""Announces changes of this broker's log folders: /log_dir_event_notification.

The controller then sends this broker commands for all replicas again, and learns from the answer
which of them the disk refuses. Announced are a failed folder, and refused replicas that may be
possible by now.
Source: KIP-112; Kafka's KafkaZkClient.propagateLogDirEvent.
"""

from __future__ import annotations

from highwater_broker.current_session import CurrentSession
from highwater_core.ids import NodeId
from highwater_core.ports import CoordinationError
from highwater_core.runtime import Runtime
from highwater_core.znodes import (
    LOG_DIR_EVENT_NOTIFICATION,
    LOG_DIR_EVENT_PREFIX,
    LogDirEventZnode,
    encode,
)

RETRY_MS = 500


class LogFolderAnnouncer:
    """Writes one announcement for all changes so far, again until ZooKeeper has it."""

    def __init__(self, broker_id: NodeId, runtime: Runtime, session: CurrentSession) -> None:
        self._content = encode(LogDirEventZnode(broker_id))
        self._runtime = runtime
        self._session = session
        self._is_due = runtime.event()

    def changed(self) -> None:
        """Announce a change to the controller."""
        self._is_due.set()

    async def run(self) -> None:
        path = f"{LOG_DIR_EVENT_NOTIFICATION}/{LOG_DIR_EVENT_PREFIX}"
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await self._session.get().create(path, self._content, sequential=True)
            except CoordinationError:
                # Perhaps it was created: a second announcement does no harm, a missing one would.
                self._is_due.set()
                await self._runtime.sleep(RETRY_MS)
