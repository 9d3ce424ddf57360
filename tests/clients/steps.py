"""What each client is to do, and how its deeds are judged: by the log, and by another client.

A step is a generator. It is taken on four times: programs start; they are half done; something
may have been done to the cluster, and they go on; they end and are judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from highwater.cluster.cluster import Cluster
from highwater.waiting import eventually
from tests.clients.programs.lines import ACKS, RECORDS
from tests.clients.running import Running

WITHIN_S = 60.0
ASKS_FOR_S = 10.0
PARTITIONS = 4
CALM_STDERR_LINES = 10
"""What a client may complain about while nothing is wrong: it does not go on and on."""


@dataclass
class Scene:
    """A client at a cluster, with the topics that its steps use."""

    cluster: Cluster
    command: Sequence[str]
    codecs: Sequence[str]
    new_topic: Callable[[int], str]
    group: str
    is_calm: bool
    since_ms: int = field(default_factory=lambda: int(time.time() * 1_000) - 100_000)
    running: list[Running] = field(default_factory=list)

    def start(self, step: str, topic: str) -> Running:
        bootstrap = self.cluster.bootstrap
        group = self.group if step == "group" else f"{self.group}-{step}"
        program = Running(self.command, step, bootstrap, topic, group, str(self.since_ms))
        self.running.append(program)
        return program

    def end(self, program: Running) -> None:
        program.end()
        if self.is_calm:
            assert len(program.errors) <= CALM_STDERR_LINES, str(program)

    def put(self, topic: str, first: int, *, partitions: int = 1) -> Producer:
        """Send RECORDS records, a second apart by their timestamps; flush waits for them.

        Each is in the log once, though a leader may die: so a reader gets each once.
        """
        settings = {"bootstrap.servers": self.cluster.bootstrap, "enable.idempotence": True}
        producer = Producer(settings)
        for number in range(first, first + RECORDS):
            producer.produce(
                topic,
                f"{number}",
                partition=number % partitions,
                timestamp=self.since_ms + number * 1_000,
            )
        return producer

    def consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": self.group})

    def log(self, topic: str) -> list[str]:
        """Return the values in partition 0, as librdkafka reads them."""
        consumer = self.consumer()
        try:
            end = self._end_of_log(consumer, topic)
            consumer.assign([TopicPartition(topic, 0, 0)])
            return [each.value().decode() for each in consumer.consume(end, WITHIN_S)]
        finally:
            consumer.close()

    def _end_of_log(self, consumer: Consumer, topic: str) -> int:
        """Return the end of partition 0; asked again, for librdkafka waits for a dead leader.

        It asks the leader that it knew when the call began, until the call's time is over.
        """
        _, end = eventually(
            lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), ASKS_FOR_S),
            within=WITHIN_S,
            what=f"the end of {topic}-0 is known",
            retry_on=KafkaException,
        )
        return int(end)

    def await_committed(self, topic: str, offsets: list[int]) -> None:
        """Wait until the partitions have these committed offsets; clients commit every 5 s."""
        seen: list[int] = []

        def are_committed() -> bool:
            seen[:] = self.committed(topic)
            return seen == offsets

        eventually(
            are_committed,
            within=WITHIN_S,
            what=f"{offsets} are committed",
            state=lambda: seen,
            retry_on=KafkaException,  # another coordinator may be about to lead, or loading
        )

    def committed(self, topic: str) -> list[int]:
        consumer = self.consumer()
        try:
            wanted = [TopicPartition(topic, number) for number in range(PARTITIONS)]
            return [each.offset for each in consumer.committed(wanted, timeout=WITHIN_S)]
        finally:
            consumer.close()


def in_halves(scene: Scene, program: Running) -> Iterator[None]:
    """Take the program to its half, on from there, and to its end."""
    yield
    program.await_half()
    yield
    program.say()
    yield
    scene.end(program)


def produce(scene: Scene) -> Iterator[None]:
    topic = scene.new_topic(1)
    program = scene.start("produce", topic)
    yield from in_halves(scene, program)
    told = {(fact["acks"], fact["codec"]) for fact in program.facts if "acks" in fact}
    promised = ACKS if scene.is_calm else ACKS[1:]
    assert told >= set(product(promised, scene.codecs))
    kept = ACKS if scene.is_calm else ("all",)
    values = [fact["value"] for fact in program.facts if fact.get("acks") in kept]
    assert len(values) == 2 * len(kept) * len(scene.codecs)
    assert set(scene.log(topic)) >= set(values)


def idempotent(scene: Scene) -> Iterator[None]:
    topic = scene.new_topic(1)
    program = scene.start("idempotent", topic)
    yield from in_halves(scene, program)
    all_of_them = list(map(str, range(2 * RECORDS)))
    assert program.told("failed") == []
    assert program.told("sent") == all_of_them
    assert scene.log(topic) == all_of_them


def assign(scene: Scene) -> Iterator[None]:
    topic = scene.new_topic(1)
    scene.put(topic, 0).flush(WITHIN_S)
    program = scene.start("assign", topic)
    yield
    program.await_read([], RECORDS)
    yield
    producer = scene.put(topic, RECORDS)
    yield
    producer.flush(WITHIN_S)
    program.await_read([], 2 * RECORDS)
    program.say()
    scene.end(program)
    read = program.told("read")
    assert read == list(map(str, range(2 * RECORDS))), f"{read} are read"


def seek(scene: Scene) -> Iterator[None]:
    topic = scene.new_topic(1)
    scene.put(topic, 0).flush(WITHIN_S)
    program = scene.start("seek", topic)
    yield from in_halves(scene, program)
    found = [(fact["asked"], fact["offset"], fact["value"]) for fact in program.facts[-3:]
             if "asked" in fact]  # fmt: skip
    assert found == [(10, 10, "10"), (15, 15, "15")]


def group(scene: Scene) -> Iterator[None]:
    """Two members share the partitions; one leaves, and the other has all of them.

    A record may be delivered again to the other while its first reader leaves: so the last member
    stays until all is committed.
    """
    topic = scene.new_topic(PARTITIONS)
    scene.put(topic, 0, partitions=PARTITIONS).flush(WITHIN_S)
    stays, leaves = scene.start("group", topic), scene.start("group", topic)
    yield
    for each in (stays, leaves):
        each.await_share(PARTITIONS // 2)
    stays.await_read([leaves], RECORDS)
    yield
    producer = scene.put(topic, RECORDS, partitions=PARTITIONS)
    yield
    producer.flush(WITHIN_S)
    stays.await_read([leaves], 2 * RECORDS)
    for each in (stays, leaves):
        each.await_share(PARTITIONS // 2)
    leaves.say()
    scene.end(leaves)
    stays.await_share(PARTITIONS)
    whole = [2 * RECORDS // PARTITIONS] * PARTITIONS
    scene.await_committed(topic, whole)
    stays.say()
    scene.end(stays)
    assert scene.committed(topic) == whole


def admin(scene: Scene) -> Iterator[None]:
    program = scene.start("admin", scene.new_topic(1))
    yield
    program.await_half()
    yield
    yield
    program.say()  # after a kill: what dies with its broker is the application's to repeat
    scene.end(program)
    assert program.told("partitions") == [3, 4]
    assert program.told("retention_ms") == ["60000"]
    assert program.told("is_there") == [False]


def refused(scene: Scene, step: str) -> Iterator[None]:
    """It is not supported: the first request says so, and the client tells its user."""
    program = scene.start(step, scene.new_topic(1))
    for _ in range(3):
        yield
    program.end()
    (refusal,) = program.told("refused")
    assert refusal


def transactional(scene: Scene) -> Iterator[None]:
    yield from refused(scene, "transactional")


def newer_group(scene: Scene) -> Iterator[None]:
    """A group of the newer protocol (KIP-848)."""
    yield from refused(scene, "newer_group")


STEPS = {
    step.__name__: step
    for step in (produce, idempotent, assign, seek, group, admin, transactional, newer_group)
}


def take_on(stories: dict[str, Iterator[None]], failures: dict[str, str]) -> None:
    """Take each step on to its next stand; one that fails is told of and taken on no more."""
    for name, story in tuple(stories.items()):
        try:
            next(story, None)
        except Exception as failure:  # noqa: BLE001  whatever a client provokes is its row's outcome
            failures[name] = f"{type(failure).__name__}: {failure}"
            del stories[name]
