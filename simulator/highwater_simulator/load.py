"""A plan's clients in a world: who writes, who reads, and the one who looks after topics."""

from __future__ import annotations

import functools

from highwater_chaos.plan import Plan, Topic
from highwater_checker.history import HistoryEvent, OperationType
from highwater_client.consumer import Consumer
from highwater_client.planned import consumer_settings, producer_settings
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
        self._tasks: list[SimulatedTask] = []
        self.admin: SimulatedClient = world.client("admin")
        self.producers = [
            self._producer(f"p{number}", settings)
            for number, settings in enumerate(producer_settings(plan.workload))
        ]
        self.consumers = [
            self._consumer(f"c{number}", settings)
            for number, settings in enumerate(consumer_settings(plan.workload))
        ]

    def _producer(self, name: str, settings: ProducerSettings) -> tuple[SimulatedClient, Producer]:
        client = self._world.client(name)
        return client, Producer(
            client.runtime,
            client.transport,
            client.bootstrap,
            settings,
            self._world.rng.stream(f"client/{name}"),
            process=name,
            on_event=functools.partial(self._note, name),
        )

    def _consumer(self, name: str, settings: ConsumerSettings) -> tuple[SimulatedClient, Consumer]:
        client = self._world.client(name)
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
