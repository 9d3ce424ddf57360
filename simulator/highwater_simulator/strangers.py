"""Clients with requests that no sound client sends: nodes must live on, and serve other clients.

Their requests go through the codecs and the listener for clients outside the network, to a topic of
their own that no other client reads. A step's `count` says how often they send, and which variant.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from crc32c import crc32c

from highwater_chaos.faults import Strange, StrangeRequests
from highwater_core.ids import NO_EPOCH, Endpoint, NodeId, Offset, TopicPartition
from highwater_core.ports import CallFailed, CoordinationError
from highwater_core.topic_configs import TOPIC_CONFIG_KEYS, ConfigType
from highwater_simulator import minima
from highwater_simulator.client import SimulatedClient
from highwater_simulator.operators import SESSION_MS, create_in_zookeeper
from highwater_wire.kafka.config_messages import (
    ConfigResource,
    ConfigResourceType,
    DescribeConfigsRequest,
)
from highwater_wire.kafka.messages import (
    ACKS_ALL,
    CONSUMER,
    CreateTopicsRequest,
    FetchPartition,
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
    TopicToCreate,
)
from highwater_wire.kafka.record_batch import build_batch

if TYPE_CHECKING:
    from highwater_simulator.world import World

WITHIN_MS = 2_000
TOGETHER_MS = 100
"""How long the client that repeats one request leaves its connections open."""
STRING_BYTES = 32_760
"""Nearly the longest string of the protocol."""
END_OF_TIME_MS = 2**63 - 1
MOST_RECORDS = 2**31 - 1
BEYOND_A_ZNODE = 70_000
"""Assignments of more than 1 MiB of JSON."""
SAME_PARTITION_TIMES = 200
VALUE_BYTES = 2_500
"""Two values are more bytes than an index skips."""
UNKNOWN_BROKERS = 9_000
_ZSTD = 4
_CRC_STARTS, _CHECKED_STARTS = 17, 21
_CHECKED = struct.Struct(">hiqqqhii")

_NUMBERS = (ConfigType.INT, ConfigType.LONG)
EXTREMES = tuple(
    (name, str(value))
    for name, key in TOPIC_CONFIG_KEYS.items()
    if key.type in _NUMBERS
    for value in (key.minimum, key.maximum)
    if str(value) != key.default
)
"""Valid configurations at the ends of their ranges, where those are not the defaults."""
NAMES = ("a b", "a\nb", "#crc32c 0", "p" * 249 + "q")


class Strangers:
    """Starts them, one after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._count = 0

    def start(self, fault: StrangeRequests) -> None:
        self._count += 1
        name = f"stranger-{self._count}"
        client = self._world.client(name)
        client.runtime.start("stranger", self._ask(client, name, fault))

    async def _ask(self, client: SimulatedClient, name: str, fault: StrangeRequests) -> None:
        if fault.kind is Strange.NAMES_IN_ZOOKEEPER:
            await self._write(client, NAMES[fault.count % len(NAMES)])
            return
        factor = min(3, len(self._world.brokers))
        configs = {minima.KEY: str(min(2, factor))}  # one lost disk loses none of its records
        if fault.kind is Strange.EXTREME_CONFIGS:
            configs.update((EXTREMES[fault.count % len(EXTREMES)],))
        try:
            await client.create_topic(name, 1, factor, WITHIN_MS, tuple(configs.items()))
        except CallFailed:
            return
        for request in requests_of(fault, name):
            call = self._call(client, name, request)
            if fault.kind is Strange.SAME_PARTITION_AGAIN:
                client.runtime.start("call", call)
            else:
                await call
        if fault.kind is Strange.SAME_PARTITION_AGAIN:
            await client.runtime.sleep(TOGETHER_MS)
            self._world.kernel.call_later(0, functools.partial(self._world.kill_client, client))

    async def _write(self, client: SimulatedClient, topic: str) -> None:
        assignment = {0: tuple(NodeId(broker) for broker in self._world.brokers)}
        try:
            session = await self._world.coordination(client).open(SESSION_MS)
            await create_in_zookeeper(session, topic, assignment, {})
            await session.close()
        except CoordinationError:
            return

    async def _call(self, client: SimulatedClient, topic: str, request: Any) -> None:
        state = self._world.partition_state(TopicPartition(topic, 0))
        leader = 0 if state is None else max(0, int(state.leader))
        at = Endpoint(self._world.brokers[leader].name, self._world.external_port)
        try:
            await client.transport.call(at, "strange", request, WITHIN_MS)
        except CallFailed as failure:
            self._world.trace.note(topic, "no answer", why=str(failure))


def requests_of(fault: StrangeRequests, topic: str) -> Iterator[Any]:
    """Yield the requests in order."""
    for number in range(fault.count):
        yield from _MAKERS[fault.kind](topic, number)


def forged_batch(
    *,
    record_count: int = 2,
    base_timestamp: int = 1_000,
    max_timestamp: int = 1_000,
    timestamp_delta: int = 0,
) -> bytes:
    """Return two records in a batch with a right CRC and false header fields. Units: times in ms.

    timestamp_delta: of the second record to base_timestamp. With another count the batch is marked
    as compressed, so that its records are not counted.
    """
    value = b"strange".ljust(VALUE_BYTES)
    batch = bytearray(build_batch([(None, value, 0), (None, value, timestamp_delta)]))
    attributes = 0 if record_count == 2 else _ZSTD
    _CHECKED.pack_into(
        batch, _CHECKED_STARTS, attributes, record_count - 1, base_timestamp, max_timestamp,
        -1, -1, -1, record_count,
    )  # fmt: skip
    struct.pack_into(">I", batch, _CRC_STARTS, crc32c(bytes(batch[_CHECKED_STARTS:])))
    return bytes(batch)


def _produce(topic: str, records: bytes, transactional_id: str | None = None) -> ProduceRequest:
    return ProduceRequest(
        ACKS_ALL, WITHIN_MS, (ProducePartition(topic, 0, records),), transactional_id
    )


def _same_partition(topic: str, number: int) -> Iterator[Any]:
    asked = FetchPartition(topic, 0, Offset(0), 1_000, NO_EPOCH)
    parts = (asked,) * SAME_PARTITION_TIMES
    yield FetchRequest(CONSUMER, 10 * WITHIN_MS, 2**31 - 1, 2**31 - 1, parts)


def _forged_counts(topic: str, number: int, *, at_once: int) -> Iterator[Any]:
    batch = forged_batch(record_count=MOST_RECORDS)
    yield _produce(topic, batch * at_once)
    yield _produce(topic, build_batch([(None, b"after", 1_000)]))


def _forged_timestamps(topic: str, number: int) -> Iterator[Any]:
    batch = forged_batch(
        base_timestamp=END_OF_TIME_MS - 1, max_timestamp=END_OF_TIME_MS, timestamp_delta=2
    )
    yield _produce(topic, batch)
    asked = ListOffsetsPartition(topic, 0, END_OF_TIME_MS)
    yield ListOffsetsRequest(CONSUMER, (asked,))


def _long_names(topic: str, number: int) -> Iterator[Any]:
    for kind, name in (
        (ConfigResourceType.TOPIC, "t" * STRING_BYTES),
        (ConfigResourceType.TOPIC, "\x01" * (STRING_BYTES // 4)),
        (ConfigResourceType.BROKER, "b" * STRING_BYTES),
    ):
        yield DescribeConfigsRequest((ConfigResource(kind, name, None),))


def _long_values(topic: str, number: int) -> Iterator[Any]:
    value = (("segment.ms", "x" * STRING_BYTES),)
    brokers = tuple(NodeId(1_000 + broker) for broker in range(UNKNOWN_BROKERS))
    for wanted in (
        TopicToCreate(f"{topic}-v", 1, 1, configs=value),
        TopicToCreate(f"{topic}-b", -1, -1, assignments=((0, brokers),)),
    ):
        yield CreateTopicsRequest((wanted,), WITHIN_MS)


def _a_record(topic: str, number: int) -> Iterator[Any]:
    if not number:
        yield _produce(topic, build_batch([(None, b"strange", 1_000)]))


def _transactions_and_groups(topic: str, number: int) -> Iterator[Any]:
    yield _produce(topic, build_batch([(None, b"strange", 1_000)]), "a transaction")
    yield FindCoordinatorRequest(("a group",), 0)
    yield FindCoordinatorRequest(("a transaction",), 1)


def _many_assignments(topic: str, number: int) -> Iterator[Any]:
    everywhere = tuple((partition, (NodeId(0),)) for partition in range(BEYOND_A_ZNODE))
    wanted = TopicToCreate(f"{topic}-many", -1, -1, assignments=everywhere)
    yield CreateTopicsRequest((wanted,), WITHIN_MS)


_MAKERS: Mapping[Strange, Callable[[str, int], Iterator[Any]]] = {
    Strange.SAME_PARTITION_AGAIN: _same_partition,
    Strange.SEVERAL_BATCHES: functools.partial(_forged_counts, at_once=4),
    Strange.FORGED_COUNT: functools.partial(_forged_counts, at_once=1),
    Strange.FORGED_TIMESTAMPS: _forged_timestamps,
    Strange.LONG_NAMES: _long_names,
    Strange.LONG_VALUES: _long_values,
    Strange.EXTREME_CONFIGS: _a_record,
    Strange.TRANSACTIONS_AND_GROUPS: _transactions_and_groups,
    Strange.MANY_ASSIGNMENTS: _many_assignments,
}
