"""A plan's clients by a stock library: threads in one process, which its owner commands.

Commands and reports are those of highwater_client.running_load.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater.runs.stock.clients import Library
from highwater.runs.stock.reading import ReadingThread
from highwater.runs.stock.recording import ClientHistory
from highwater.runs.stock.writing import WritingThread
from highwater_chaos.plan import Topic
from highwater_checker.history import POLL, SEND, OperationType, process_name
from highwater_client.load_job import LoadJob
from highwater_client.running_load import (
    CREATE_WITHIN_MS,
    READ_WITHIN_MS,
    TELL_EVERY_MS,
    LoadReport,
)
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_wire.kafka.messages import CreateTopicsRequest, TopicToCreate

_RETRY_S = 0.2
_CALL_MS = 5_000


class StockLoad:
    """The clients of one job."""

    def __init__(self, job: LoadJob, library: Library) -> None:
        self._job = job
        self._library = library
        self._bootstrap = ",".join(str(endpoint) for endpoint in job.bootstrap)
        self._histories: list[ClientHistory] = []
        self._writing: list[WritingThread] = []
        self._reading: list[ReadingThread] = []
        self._telling = threading.Lock()
        self._ended = threading.Event()

    def run(self, commands: Iterable[str]) -> None:
        """Create the topics, then carry out commands until "quit" or their end."""
        if self._job.incarnation == 1:
            self._tell("create", self._create_topics())
        for command in commands:
            match command.strip():
                case "start":
                    self._start()
                    self._tell("start")
                case "stop":
                    self._tell("stop", self._stop_writing())
                case "read":
                    self._tell("read", self._read_to_the_end())
                case "quit":
                    break
                case other:
                    self._tell(other, "there is no such command")
        self._ended.set()
        for reading in self._reading:
            reading.stop()
        for history in self._histories:
            history.close()

    # ------------------------------------------------------------ commands

    def _create_topics(self) -> str:
        for topic in self._job.workload.topics:
            error = self._create(topic)
            if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return f"topic {topic.name} was not created: {error.name}"
        return ""

    def _create(self, topic: Topic) -> ErrorCode:
        """Ask one broker after another until one gives a final answer."""
        new = TopicToCreate(
            topic.name, topic.partitions, topic.replication_factor, configs=topic.configs
        )
        deadline = time.monotonic() + CREATE_WITHIN_MS / 1000
        error = ErrorCode.REQUEST_TIMED_OUT
        while time.monotonic() < deadline:
            for endpoint in self._job.bootstrap:
                try:
                    with WireClient(endpoint, timeout_s=2 * _CALL_MS / 1000) as client:
                        answer = client.call(CreateTopicsRequest((new,), _CALL_MS))
                except (ConnectionClosed, OSError):
                    continue
                error = ErrorCode(answer.topics[0].error)
                if error is ErrorCode.NONE or not MEANINGS[error].retriable:
                    return error
            time.sleep(_RETRY_S)
        return error

    def _start(self) -> None:
        partitions = {topic.name: topic.partitions for topic in self._job.workload.topics}
        for number, settings in enumerate(self._job.workload.producers):
            name, count = self._name(f"p{number}"), partitions[settings.topic]
            producer = self._library.producer(self._bootstrap, settings)
            writing = WritingThread(name, producer, settings, count, self._history(name))
            self._writing.append(writing)
        for number, wanted in enumerate(self._job.workload.consumers):
            name, count = self._name(f"c{number}"), partitions[wanted.topic]
            consumer = self._library.consumer(self._bootstrap, wanted.topic, count)
            reading = ReadingThread(name, consumer, wanted.topic, count, self._history(name))
            self._reading.append(reading)
        for each in self._writing:
            each.start()
        for reader in self._reading:
            reader.start()
        threading.Thread(target=self._tell_again_and_again, name="progress", daemon=True).start()

    def _name(self, client: str) -> str:
        return process_name(client, self._job.incarnation)

    def _history(self, name: str) -> ClientHistory:
        history = ClientHistory(Path(self._job.history_folder), name, self._job.start_ns)
        self._histories.append(history)
        return history

    def _stop_writing(self) -> str:
        for writing in self._writing:
            writing.stop()
        return "; ".join(why for writing in self._writing if (why := writing.ended()))

    def _read_to_the_end(self) -> str:
        deadline = time.monotonic() + READ_WITHIN_MS / 1000
        return "; ".join(
            f"consumer {number} has not read to the end: {why}"
            for number, reading in enumerate(self._reading)
            if (why := reading.caught_up(max(0.0, deadline - time.monotonic())))
        )

    # ------------------------------------------------------------ reports

    def _tell_again_and_again(self) -> None:
        while not self._ended.wait(TELL_EVERY_MS / 1000):
            self._tell("")

    def _tell(self, done: str, error: str = "") -> None:
        def count(function: str, kind: OperationType) -> int:
            return sum(history.counts[function, kind] for history in tuple(self._histories))

        report = LoadReport(
            done=done,
            error=error,
            sent=count(SEND, OperationType.INVOKE),
            acknowledged=count(SEND, OperationType.OK),
            failed=count(SEND, OperationType.FAIL),
            unknown=count(SEND, OperationType.INFO),
            read=count(POLL, OperationType.OK),
        )
        with self._telling:
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()
