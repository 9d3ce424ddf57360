"""Creates the logs of a command's replicas, many of them at a time.

A command may name hundreds. Their folders are created, and their topic ids written, a few in each
pass of the event loop, so that other requests are not delayed. The disk's sync is awaited once for
all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from highwater_broker.log.record_batch import LogRefused
from highwater_broker.log_folders import LogFolders
from highwater_broker.replica_logs import HostedLog
from highwater_broker.topic_settings import TopicSettings
from highwater_broker.turns import take_turn
from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from highwater_core.runtime import Runtime


class ReplicaStarts:
    """Creates logs and writes topic ids; replicas that the disk refuses are traced and left out."""

    def __init__(self, runtime: Runtime, logs: LogFolders, topics: TopicSettings) -> None:
        self._runtime = runtime
        self._logs = logs
        self._topics = topics

    async def create(
        self, wanted: Mapping[TopicPartition, TopicId]
    ) -> dict[TopicPartition, HostedLog]:
        """Return the logs that exist now, each with its topic id on the disk."""
        created: dict[TopicPartition, HostedLog] = {}
        with suppress(LogRefused):  # each one is tried by itself again
            await self._logs.forget_absent(wanted)
        for number, (key, topic_id) in enumerate(wanted.items()):
            await take_turn(self._runtime, number)
            try:
                config = self._topics.log_config(key.topic)
                created[key] = await self._logs.create(key, topic_id, config)
            except (OSError, LogRefused) as error:
                self._logs.refused(key, error)
        refused = await self.write_topic_ids({key: created[key].topic_id for key in created})
        for key in refused:
            self._let_go(key, created.pop(key))
        return created

    async def write_topic_ids(
        self, topic_ids: Mapping[TopicPartition, TopicId]
    ) -> list[TopicPartition]:
        """Write the ids of replicas whose folders exist; return the ones that the disk refused."""
        named = [key for key, topic_id in topic_ids.items() if topic_id != NO_TOPIC_ID]
        written: list[TopicPartition] = []
        for number, key in enumerate(named):
            await take_turn(self._runtime, number)
            try:
                self._logs.write_topic_id(key, topic_ids[key])
            except OSError as error:
                self._logs.refused(key, error)
            else:
                written.append(key)
        written = await self._logs.sync_topic_ids(written)
        return sorted(set(named) - set(written))

    def _let_go(self, key: TopicPartition, hosted: HostedLog) -> None:
        try:
            hosted.log.close()
        except LogRefused as error:
            self._logs.refused(key, error)
