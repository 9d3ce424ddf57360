"""A plan's clients in one process, which its owner commands.

Commands: "start" (write and read), "stop" (write no more, wait for every outcome), "read" (read to
the end), "quit". Each is answered with a report of its result; progress is reported all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from highwater_chaos.plan import Group, Topic, member_names
from highwater_checker.history import HistoryEvent, OperationType, process_name
from highwater_client.admin import Admin
from highwater_client.consumer import Consumer
from highwater_client.group_reader import GroupReader
from highwater_client.load_job import LoadJob
from highwater_client.load_settings import consumer_settings, member_settings, producer_settings
from highwater_client.producer import Producer
from highwater_core.errors import ErrorCode
from highwater_core.ports import Rng, Transport
from highwater_core.runtime import Queue, Runtime

CREATE_WITHIN_MS = 30_000
READ_WITHIN_MS = 30_000
CATCH_UP_MS = 2_000
"""Time to wait for one member's reads: its assignment may change meanwhile."""
TELL_EVERY_MS = 200
POLL_MS = 20


@dataclass(frozen=True, slots=True)
class LoadReport:
    """A report of the process.

    done: the command that is over, "" for mere progress.
    error: why the command failed, "" otherwise.
    """

    done: str = ""
    error: str = ""
    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0


class Process(Protocol):
    """The load's interface to its process."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def commands(self) -> Queue[str]: ...

    def transport(self, name: str) -> Transport: ...

    def rng(self, name: str, seed: int) -> Rng: ...

    def line_file(self, path: str) -> Callable[[Any], None]: ...

    def tell(self, value: Any) -> None: ...


class RunningLoad:
    """The clients of one job."""

    def __init__(self, job: LoadJob, process: Process) -> None:
        self._job = job
        self._process = process
        self._runtime = process.runtime
        self._counts: dict[tuple[str, OperationType], int] = {}
        self._writing = process.runtime.scope("producers")
        self._reading = process.runtime.scope("consumers")
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []
        self._members: dict[str, GroupReader] = {}

        def now_ns() -> int:
            return process.runtime.now_ns() - job.start_ns

        for number, producer in enumerate(producer_settings(job.workload)):
            name = process_name(f"p{number}", job.incarnation)
            self._producers.append(
                Producer(
                    process.runtime,
                    process.transport(name),
                    job.bootstrap,
                    producer,
                    process.rng(f"client/{name}", job.seed),
                    process=name,
                    now_ns=now_ns,
                    on_event=self._recorder(name),
                )
            )
        for number, consumer in enumerate(consumer_settings(job.workload)):
            name = process_name(f"c{number}", job.incarnation)
            self._consumers.append(
                Consumer(
                    process.runtime,
                    process.transport(name),
                    job.bootstrap,
                    consumer,
                    process=name,
                    now_ns=now_ns,
                    on_event=self._recorder(name),
                )
            )

        for member, settings in member_settings(job.workload).items():
            name = process_name(member, job.incarnation)
            self._members[member] = GroupReader(
                process.runtime,
                process.transport(name),
                job.bootstrap,
                settings,
                process=name,
                now_ns=now_ns,
                on_event=self._recorder(name),
            )

    async def run(self) -> None:
        """Create the topics, then carry out commands until "quit"."""
        if self._job.incarnation == 1:
            self._tell("create", await self._create_topics())
        while (command := await self._process.commands.get()) != "quit":
            match command:
                case "start":
                    self._start()
                    self._tell(command)
                case "stop":
                    await self._stop_writing()
                    self._tell(command)
                case "read":
                    self._tell(command, await self._read_to_the_end())
                case _:
                    self._tell(command, "there is no such command")
        self._writing.cancel()
        self._reading.cancel()

    # ------------------------------------------------------------ commands

    async def _create_topics(self) -> str:
        for topic in self._job.workload.topics:
            error = await self._create(topic)
            if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return f"topic {topic.name} was not created: {error.name}"
        return ""

    async def _create(self, topic: Topic) -> ErrorCode:
        admin = Admin(self._runtime, self._process.transport("admin"), self._job.bootstrap)
        return await admin.create_topic(
            topic.name, topic.partitions, topic.replication_factor, CREATE_WITHIN_MS, topic.configs
        )

    def _start(self) -> None:
        for producer in self._producers:
            self._writing.spawn("Producer", producer.run())
        for consumer in self._consumers:
            self._reading.spawn("Consumer", consumer.run())
        for member in self._members.values():
            self._reading.spawn("Member", member.run())
        self._reading.spawn("Progress", self._tell_again_and_again())

    async def _stop_writing(self) -> None:
        for producer in self._producers:
            producer.stop()
        for member in self._members.values():
            member.stay()
        while self._writing.tasks():
            await self._runtime.sleep(POLL_MS)

    async def _read_to_the_end(self) -> str:
        for number, consumer in enumerate(self._consumers):
            if not await consumer.caught_up(READ_WITHIN_MS):
                return f"consumer {number} has not read to the end"
        for number, group in enumerate(self._job.workload.groups):
            members = [self._members[name] for name in member_names(self._job.workload, number)]
            if not await self._has_read_to_the_end(group, members):
                return f"group {number} has not read to the end and committed it"
        return ""

    async def _has_read_to_the_end(self, group: Group, members: Sequence[GroupReader]) -> bool:
        """Return whether the members together have read every partition to the end in time."""
        topics = {topic.name: topic.partitions for topic in self._job.workload.topics}
        wanted = set(range(topics[group.topic]))
        end_ms = self._runtime.now_ms() + READ_WITHIN_MS
        while self._runtime.now_ms() < end_ms:
            read = [each for member in members for each in await member.caught_up(CATCH_UP_MS)]
            if wanted <= set(read):
                return True
            await self._runtime.sleep(POLL_MS)
        return False

    # ------------------------------------------------------------ reports

    def _recorder(self, name: str) -> Callable[[HistoryEvent], None]:
        write = self._process.line_file(f"{self._job.history_folder}/{name}.jsonl")

        def record(event: HistoryEvent) -> None:
            write(event)
            key = event.function, event.type
            self._counts[key] = self._counts.get(key, 0) + 1

        return record

    async def _tell_again_and_again(self) -> None:
        while True:
            await self._runtime.sleep(TELL_EVERY_MS)
            self._tell("")

    def _tell(self, done: str, error: str = "") -> None:
        def count(function: str, kind: OperationType) -> int:
            return self._counts.get((function, kind), 0)

        self._process.tell(
            LoadReport(
                done=done,
                error=error,
                sent=count("send", OperationType.INVOKE),
                acknowledged=count("send", OperationType.OK),
                failed=count("send", OperationType.FAIL),
                unknown=count("send", OperationType.INFO),
                read=count("poll", OperationType.OK),
            )
        )
