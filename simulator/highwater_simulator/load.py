"""A plan's clients in a world: producers, consumers, groups, and one client for topics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from highwater_chaos.faults import ANY
from highwater_chaos.plan import Plan, Topic, group_id_of, member_names
from highwater_checker.history import HistoryEvent, OperationType, process_name
from highwater_client.consumer import Consumer
from highwater_client.group_reader import GroupReader, GroupReaderSettings
from highwater_client.load_settings import consumer_settings, member_settings, producer_settings
from highwater_client.producer import Producer
from highwater_client.settings import ConsumerSettings, ProducerSettings
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.ports import ConnectionLost
from highwater_simulator.client import SimulatedClient
from highwater_simulator.end_of_schedule import ReadBy, SentBy
from highwater_simulator.operators import create_in_zookeeper
from highwater_simulator.tasks import SimulatedTask
from highwater_simulator.world import World

CREATE_WITHIN_MS = 10_000

C = TypeVar("C", bound=Producer | Consumer | GroupReader)


class LoadClient(Generic[C]):
    """One of a plan's clients through all its incarnations, each with a history of its own.

    The first one has the client's name, p0; the second is p0.2, and so on. A producer's values
    begin with this name.
    """

    def __init__(self, world: World, name: str, make: Callable[[SimulatedClient, str], C]) -> None:
        self.name = name
        self.past: list[C] = []
        self._world = world
        self._make: Callable[[SimulatedClient, str], C] = make
        self.host = world.client(name)
        self.now: C = make(self.host, name)
        self.task: SimulatedTask | None = None

    @property
    def incarnations(self) -> list[C]:
        return [*self.past, self.now]

    @property
    def is_alive(self) -> bool:
        return self.host.runtime.is_alive

    def begin(self) -> None:
        self.task = self.host.runtime.start(type(self.now).__name__, self.now.run())

    def kill(self) -> None:
        self._world.kill_client(self.host)

    def start_again(self) -> None:
        self.past.append(self.now)
        self.host = self._world.client(self.name)
        self.now = self._make(self.host, process_name(self.name, len(self.past) + 1))
        self.begin()


class Load:
    """The clients of one run; each has a random stream and a history of its own."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._plan = plan
        self.admin: SimulatedClient = world.client("admin")
        self.producers = [
            LoadClient(world, f"p{number}", functools.partial(self._producer, settings))
            for number, settings in enumerate(producer_settings(plan.workload))
        ]
        self.consumers = [
            LoadClient(world, f"c{number}", functools.partial(self._consumer, settings))
            for number, settings in enumerate(consumer_settings(plan.workload))
        ]
        self.members = {
            name: LoadClient(world, name, functools.partial(self._member, settings))
            for name, settings in member_settings(plan.workload).items()
        }

    def _producer(self, settings: ProducerSettings, host: SimulatedClient, name: str) -> Producer:
        return Producer(
            host.runtime,
            host.transport,
            host.bootstrap,
            settings,
            self._world.rng.stream(f"client/{name}"),
            process=name,
            now_ns=host.stamp_ns,
            on_event=functools.partial(self._note, name),
        )

    def _consumer(self, settings: ConsumerSettings, host: SimulatedClient, name: str) -> Consumer:
        return Consumer(
            host.runtime,
            host.transport,
            host.bootstrap,
            settings,
            process=name,
            now_ns=host.stamp_ns,
        )

    def _member(
        self, settings: GroupReaderSettings, host: SimulatedClient, name: str
    ) -> GroupReader:
        return GroupReader(
            host.runtime,
            host.transport,
            host.bootstrap,
            settings,
            process=name,
            now_ns=host.stamp_ns,
        )

    # ------------------------------------------------------------ clients that die

    def kill(self, name: str) -> tuple[str, ...]:
        """Kill the running client of that name, or all; return the names of the killed clients."""
        killed = [each for each in self._clients if name in (ANY, each.name) and each.is_alive]
        for each in killed:
            each.kill()
        return tuple(each.name for each in killed)

    def start_again(self, names: Sequence[str] | None = None) -> None:
        """Start the next incarnation of stopped clients: of these names, or all."""
        for each in self._clients:
            if not each.is_alive and (names is None or each.name in names):
                each.start_again()

    @property
    def _clients(
        self,
    ) -> tuple[LoadClient[Producer] | LoadClient[Consumer] | LoadClient[GroupReader], ...]:
        return (*self.producers, *self.consumers, *self.members.values())

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
        """Create the plan's topics, and return once their partitions are replicated."""
        for topic in self._plan.workload.topics:
            self.admin.runtime.start("create topic", self._create(topic))

    async def _create(self, topic: Topic) -> None:
        if not topic.has_id:
            session = await self._world.coordination(self.admin).open(CREATE_WITHIN_MS)
            brokers = list(self._world.brokers)
            assignment = {
                number: tuple(
                    NodeId(brokers[(number + place) % len(brokers)])
                    for place in range(topic.replication_factor)
                )
                for number in range(topic.partitions)
            }
            while True:
                with suppress(ConnectionLost):
                    await create_in_zookeeper(session, topic.name, assignment, dict(topic.configs))
                    break
            await session.close()
            return
        await self.admin.create_topic(
            topic.name, topic.partitions, topic.replication_factor, CREATE_WITHIN_MS, topic.configs
        )

    def begin(self) -> None:
        for client in self._clients:
            client.begin()

    def stop_writing(self) -> None:
        """Stop the producers, and let groups keep their members."""
        for producer in self.producers:
            producer.now.stop()
        for member in self.members.values():
            member.now.stay()

    def has_stopped_writing(self) -> bool:
        """Return whether every producer has stopped, with an outcome of each record."""
        return all(each.task is None or each.task.is_done() for each in self.producers)

    def have_read_up_to(self, high_watermarks: dict[TopicPartition, int]) -> bool:
        """Return whether every consumer has read its partitions up to these offsets."""
        return all(
            (consumer.now.position(at.partition) or 0) >= offset
            for number, consumer in enumerate(self.consumers)
            for at, offset in high_watermarks.items()
            if at.topic == self._plan.workload.consumers[number].topic
        )

    def group_that_lags(self, high_watermarks: dict[TopicPartition, int]) -> str:
        """Return a group that has not committed these offsets of its topic; "" if all have."""
        workload = self._plan.workload
        for number, group in enumerate(workload.groups):
            members = [self.members[name].now for name in member_names(workload, number)]
            for at, offset in high_watermarks.items():
                if at.topic == group.topic and not any(
                    member.committed(at.partition) >= offset for member in members
                ):
                    return group_id_of(workload, number)
        return ""

    def sent(self) -> list[SentBy]:
        """Return the producers' histories, with acks and idempotence."""
        found = [
            SentBy(incarnation.history, planned.acks, planned.idempotent)
            for producer, planned in zip(self.producers, self._plan.workload.producers, strict=True)
            for incarnation in producer.incarnations
        ]
        return [*found, SentBy(self.admin.history, -1)]

    def read(self, *, groups_to_the_end: bool) -> list[ReadBy]:
        """Return the consumers' histories, and one history for each group: of all its members."""
        workload = self._plan.workload
        consumers = [
            ReadBy(incarnation.history, planned.topic, to_the_end=incarnation is consumer.now)
            for consumer, planned in zip(self.consumers, workload.consumers, strict=True)
            for incarnation in consumer.incarnations
        ]
        groups = [
            ReadBy(
                self._history_of(member_names(workload, number)),
                group.topic,
                to_the_end=groups_to_the_end,
            )
            for number, group in enumerate(workload.groups)
        ]
        return [*consumers, *groups]

    def _history_of(self, members: Sequence[str]) -> list[HistoryEvent]:
        """Return the events of these members, by time."""
        found = [
            event
            for name in members
            for incarnation in self.members[name].incarnations
            for event in incarnation.history
        ]
        return sorted(found, key=lambda event: event.time_ns)

    def histories(self) -> list[HistoryEvent]:
        """Return every client's history, one after the other."""
        found = [
            event
            for client in self._clients
            for incarnation in client.incarnations
            for event in incarnation.history
        ]
        return [*found, *self.admin.history]

    def processes(self) -> tuple[str, ...]:
        """Return the names of all incarnations of the plan's clients."""
        return tuple(
            process_name(client.name, number)
            for client in self._clients
            for number in range(1, len(client.incarnations) + 1)
        )

    def acknowledged(self) -> int:
        return sum(
            event.function == "send" and event.type is OperationType.OK
            for producer in self.producers
            for incarnation in producer.incarnations
            for event in incarnation.history
        )
