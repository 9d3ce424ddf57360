"""Makes the logs of the replicas that a command names, many of them at a time.

A command may name hundreds. Their folders are made a few in a pass of the event loop, and their
topic ids are written side by side, since each is a wait for the disk: so neither others' requests
nor the disk's patience make a command last longer than it must.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from highwater_broker.log.record_batch import LogRefused
from highwater_broker.replica_logs import HostedLog, ReplicaLogs
from highwater_broker.topic_settings import TopicSettings
from highwater_broker.turns import take_turn
from highwater_core.ids import NO_TOPIC_ID, TopicId, TopicPartition
from highwater_core.runtime import Runtime

WRITES_AT_ONCE = 64
"""A file system commits what waits for it together."""


class ReplicaStarts:
    """Creates logs and writes topic ids; what the disk refuses is traced and left out."""

    def __init__(self, runtime: Runtime, logs: ReplicaLogs, topics: TopicSettings) -> None:
        self._runtime = runtime
        self._logs = logs
        self._topics = topics
        self._scope = runtime.scope("replica-starts")

    def stop(self) -> None:
        self._scope.cancel()

    async def create(
        self, wanted: Mapping[TopicPartition, TopicId]
    ) -> dict[TopicPartition, HostedLog]:
        """Return the logs that there are now, each with its topic id on the disk."""
        created: dict[TopicPartition, HostedLog] = {}
        with suppress(LogRefused):  # each asks for itself again
            await self._logs.forget_absent(wanted)
        for number, (key, topic_id) in enumerate(wanted.items()):
            await take_turn(self._runtime, number)
            try:
                config = self._topics.log_config(key.topic)
                created[key] = await self._logs.create(key, topic_id, config)
            except (OSError, LogRefused) as error:
                self._logs.bad_input(str(key), str(error))
        refused = await self.write_topic_ids({key: created[key].topic_id for key in created})
        for key in refused:
            self._let_go(key, created.pop(key))
        return created

    async def write_topic_ids(
        self, topic_ids: Mapping[TopicPartition, TopicId]
    ) -> list[TopicPartition]:
        """Write the ids of replicas whose folders exist; return whose the disk refused."""
        waiting = [item for item in topic_ids.items() if item[1] != NO_TOPIC_ID][::-1]
        refused: list[TopicPartition] = []
        if len(waiting) == 1:
            await self._write_topic_ids(waiting, refused)
            return refused
        workers = [min(len(waiting), WRITES_AT_ONCE)]
        ended = self._runtime.event()

        async def work() -> None:
            await self._write_topic_ids(waiting, refused)
            workers[0] -= 1
            if not workers[0]:
                ended.set()

        for number in range(workers[0]):
            self._scope.spawn(f"topic-ids-{number}", work())
        if workers[0]:
            await ended.wait()
        return sorted(refused)

    async def _write_topic_ids(
        self, waiting: list[tuple[TopicPartition, TopicId]], refused: list[TopicPartition]
    ) -> None:
        while waiting:
            key, topic_id = waiting.pop()
            try:
                await self._logs.write_topic_id(key, topic_id)
            except OSError as error:
                self._logs.bad_input(str(key), str(error))
                refused.append(key)

    def _let_go(self, key: TopicPartition, hosted: HostedLog) -> None:
        try:
            hosted.log.close()
        except LogRefused as error:
            self._logs.bad_input(str(key), str(error))
