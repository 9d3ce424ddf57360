"""Announces ISRs that leaders wrote themselves: /isr_change_notification/isr_change_N.

Source: docs/explanation/replication.md, "ISR": checked every 2.5 s;
sent after 5 s of quiet, or 60 s after the last one.
"""

from __future__ import annotations

from highwater_broker.current_session import CurrentSession
from highwater_broker.settings import BrokerSettings
from highwater_core.ids import TopicPartition
from highwater_core.ports import CoordinationError
from highwater_core.runtime import Runtime
from highwater_core.znodes import (
    ISR_CHANGE_NOTIFICATION,
    ISR_CHANGE_PREFIX,
    PartitionName,
    PartitionsZnode,
    encode,
)

MAX_ANNOUNCED = 2_000
"""In one announcement: with the longest names they still fit one request to ZooKeeper."""


class IsrChangeNotifier:
    """Collects changed partitions and announces them together."""

    def __init__(self, settings: BrokerSettings, runtime: Runtime, session: CurrentSession) -> None:
        self._settings = settings
        self._runtime = runtime
        self._session = session
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_ms = 0
        self._last_sent_ms = 0

    def changed(self, topic_partition: TopicPartition) -> None:
        self._changed[topic_partition] = None
        self._last_change_ms = self._runtime.now_ms()

    def is_due(self) -> bool:
        """Return whether there are changes and the burst is over, or lasts too long."""
        if not self._changed:
            return False
        now_ms = self._runtime.now_ms()
        return (
            now_ms - self._last_change_ms >= self._settings.isr_change_quiet_ms
            or now_ms - self._last_sent_ms >= self._settings.isr_change_propagation_max_ms
        )

    async def run(self) -> None:
        self._last_sent_ms = self._runtime.now_ms()
        while True:
            await self._runtime.sleep(self._settings.isr_change_check_interval_ms)
            if self.is_due():
                await self._send()

    async def _send(self) -> None:
        announced = sorted(self._changed)[:MAX_ANNOUNCED]
        names = [PartitionName(each.topic, each.partition) for each in announced]
        for each in announced:
            del self._changed[each]
        try:
            await self._session.get().create(
                f"{ISR_CHANGE_NOTIFICATION}/{ISR_CHANGE_PREFIX}",
                encode(PartitionsZnode(names)),
                sequential=True,
            )
        except CoordinationError:
            # Perhaps it was created: a second announcement does no harm, a missing one would.
            self._changed.update(dict.fromkeys(announced))
            return
        if self._changed:
            return  # more than fit one announcement: the rest follows at the next check
        self._last_sent_ms = self._runtime.now_ms()
