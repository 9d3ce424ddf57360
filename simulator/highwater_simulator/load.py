"""A plan's clients in a world: who writes, who reads, and the one who looks after topics."""

from __future__ import annotations

import functools

from highwater_chaos.plan import Plan, Topic
from highwater_checker.history import HistoryEvent, OperationType
from highwater_client.consumer import Consumer
from highwater_client.producer import Producer
from highwater_client.settings import ConsumerSettings, ProducerSettings
from highwater_core.ids import TopicPartition
from highwater_simulator.client import SimulatedClient
from highwater_simulator.final_checks import ReadBy, SentBy
from highwater_simulator.tasks import SimulatedTask
from highwater_simulator.world import World

CREATE_WITHIN_MS = 10_000


class Load:
    """The clients of one run; each has a random stream and a history of its own."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._plan = plan
        self._topics = {topic.name: topic for topic in plan.workload.topics}
        self._tasks: list[SimulatedTask] = []
        self.admin: SimulatedClient = world.client("admin")
        self.producers = [
            self._producer(f"p{number}", number) for number in range(len(plan.workload.producers))
        ]
        self.consumers = [
            self._consumer(f"c{number}", number) for number in range(len(plan.workload.consumers))
        ]

    def _producer(self, name: str, number: int) -> tuple[SimulatedClient, Producer]:
        planned = self._plan.workload.producers[number]
        client = self._world.client(name)
        settings = ProducerSettings(
            planned.topic,
            partition_count=self._topics[planned.topic].partitions,
            rate_per_s=planned.rate_per_s,
            acks=planned.acks,
            linger_ms=planned.linger_ms,
            batch_max_records=planned.batch_max_records,
            max_in_flight=planned.max_in_flight,
            retries=planned.retries,
            request_timeout_ms=planned.request_timeout_ms,
            delivery_timeout_ms=planned.delivery_timeout_ms,
        )
        return client, Producer(
            client.runtime,
            client.transport,
            client.bootstrap,
            settings,
            self._world.rng.stream(f"client/{name}"),
            process=name,
            on_event=functools.partial(self._note, name),
        )

    def _consumer(self, name: str, number: int) -> tuple[SimulatedClient, Consumer]:
        topic = self._topics[self._plan.workload.consumers[number].topic]
        client = self._world.client(name)
        settings = ConsumerSettings(topic.name, tuple(range(topic.partitions)))
        return client, Consumer(
            client.runtime, client.transport, client.bootstrap, settings, process=name
        )

    def _note(self, name: str, event: HistoryEvent) -> None:
        if event.type is not OperationType.INVOKE:
            error = {"error": event.error} if event.error else {}
            self._world.trace.note(
                name,
                f"{event.function} {event.type}",
                value=event.value,
                offset=event.offset,
                **error,
            )

    # ------------------------------------------------------------ the run

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(
            TopicPartition(topic.name, number)
            for topic in self._plan.workload.topics
            for number in range(topic.partitions)
        )

    def create_topics(self) -> None:
        """Have the plan's topics created; they exist when their partitions are replicated."""
        for topic in self._plan.workload.topics:
            self.admin.runtime.start("create topic", self._create(topic))

    async def _create(self, topic: Topic) -> None:
        configs = (("min.insync.replicas", str(topic.min_insync_replicas)),)
        await self.admin.create_topic(
            topic.name, topic.partitions, topic.replication_factor, CREATE_WITHIN_MS, configs
        )

    def begin(self) -> None:
        for client, producer in self.producers:
            self._tasks.append(client.runtime.start("Producer", producer.run()))
        for client, consumer in self.consumers:
            client.runtime.start("Consumer", consumer.run())

    def stop_writing(self) -> None:
        for _, producer in self.producers:
            producer.stop()

    def has_stopped_writing(self) -> bool:
        """Return whether every record that was to be written has its outcome."""
        return all(task.is_done() for task in self._tasks)

    def have_read_up_to(self, high_watermarks: dict[TopicPartition, int]) -> bool:
        """Return whether every consumer has read its partitions so far."""
        return all(
            (consumer.position(at.partition) or 0) >= offset
            for number, (_, consumer) in enumerate(self.consumers)
            for at, offset in high_watermarks.items()
            if at.topic == self._plan.workload.consumers[number].topic
        )

    def sent(self) -> list[SentBy]:
        """Return what was written, with what each producer's settings promise."""
        found = [
            SentBy(
                producer.history,
                planned.acks,
                repeats=planned.retries,
            )
            for (_, producer), planned in zip(
                self.producers, self._plan.workload.producers, strict=True
            )
        ]
        return [*found, SentBy(self.admin.history, -1)]

    def read(self) -> list[ReadBy]:
        """Return what was read."""
        return [
            ReadBy(consumer.history, planned.topic)
            for (_, consumer), planned in zip(
                self.consumers, self._plan.workload.consumers, strict=True
            )
        ]

    def histories(self) -> list[HistoryEvent]:
        """Return every client's history, one after the other."""
        found = [event for _, producer in self.producers for event in producer.history]
        found += [event for _, consumer in self.consumers for event in consumer.history]
        return [*found, *self.admin.history]

    def acknowledged(self) -> int:
        return sum(
            event.function == "send" and event.type is OperationType.OK
            for _, producer in self.producers
            for event in producer.history
        )
