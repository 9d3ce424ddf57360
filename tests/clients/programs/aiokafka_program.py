"""aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, NodeNotReadyError
from lines import (
    ACKS,
    ATTEMPTS,
    ATTEMPTS_PAUSE_S,
    CODECS,
    PACE_S,
    PADDING,
    RECORDS,
    At,
    half,
    is_stopped,
    run,
    tell,
)

STOP_WITHIN_S = 30.0


async def at_half() -> None:
    await asyncio.get_running_loop().run_in_executor(None, half)


async def produce(at: At) -> None:
    for turn in range(2):
        for acks in ACKS:
            for codec in CODECS:
                value = f"{acks} {codec} {turn}{PADDING}"
                async with AIOKafkaProducer(
                    bootstrap_servers=at.bootstrap,
                    acks=acks if acks == "all" else int(acks),
                    compression_type=None if codec == "none" else codec,
                ) as producer:
                    await producer.send_and_wait(at.topic, value.encode(), partition=0)
                tell(acks=acks, codec=codec, value=value)
        if turn == 0:
            await at_half()


async def idempotent(at: At) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=at.bootstrap, enable_idempotence=True
    ) as producer:
        sent = []
        for number in range(2 * RECORDS):
            sent.append(await producer.send(at.topic, f"{number}".encode(), partition=0))
            if number == RECORDS - 1:
                await producer.flush()
                await at_half()
            elif number >= RECORDS:
                await asyncio.sleep(PACE_S)
        for number, outcome in enumerate(await asyncio.gather(*sent, return_exceptions=True)):
            if isinstance(outcome, BaseException):
                tell(failed=repr(outcome))
            else:
                tell(sent=str(number))


async def read(consumer: AIOKafkaConsumer) -> None:
    holds = 0
    while not is_stopped():
        for records in (await consumer.getmany(timeout_ms=100)).values():
            for record in records:
                tell(read=record.value.decode())
        if len(consumer.assignment()) != holds:
            holds = len(consumer.assignment())
            tell(holds=holds)


def consumer_of(at: At, group_id: str | None = None) -> AIOKafkaConsumer:
    """Return a consumer of no group, unless one is named.

    One that is assigned partitions by hand, and stopped while its group's coordinator is not known,
    never stops (aiokafka 0.14): it waits in its coordination routine and asks no broker anything.
    """
    return AIOKafkaConsumer(
        bootstrap_servers=at.bootstrap, group_id=group_id, auto_offset_reset="earliest"
    )


@asynccontextmanager
async def member_of(at: At) -> AsyncIterator[AIOKafkaConsumer]:
    """Give a member of the group, and stop it.

    Its stop (aiokafka 0.14) now and then never returns after its coordinator has died: it is given
    up then, and the program says so.
    """
    consumer = consumer_of(at, at.group)
    await consumer.start()
    try:
        yield consumer
    finally:
        try:
            await asyncio.wait_for(consumer.stop(), STOP_WITHIN_S)
        except TimeoutError:
            tell(note=f"a member's stop() was given up after {STOP_WITHIN_S:g} s")


async def assign(at: At) -> None:
    async with consumer_of(at) as consumer:
        consumer.assign([TopicPartition(at.topic, 0)])
        consumer.seek(TopicPartition(at.topic, 0), 0)
        await read(consumer)


async def group(at: At) -> None:
    async with member_of(at) as consumer:
        consumer.subscribe([at.topic])
        await read(consumer)


async def seek(at: At) -> None:
    partition = TopicPartition(at.topic, 0)
    async with consumer_of(at) as consumer:
        consumer.assign([partition])
        for second in (10, 15):
            asked = {partition: at.since_ms + second * 1_000}
            found = (await consumer.offsets_for_times(asked))[partition]
            consumer.seek(partition, found.offset)
            record = await consumer.getone()
            tell(asked=second, offset=found.offset, value=record.value.decode())
            if second == 10:
                await at_half()


async def admin(at: At) -> None:
    asked = AIOKafkaAdminClient(bootstrap_servers=at.bootstrap)
    await asked.start()
    made = f"{at.topic}-made"

    async def told(ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask again while a broker that has died is asked: this client leaves that to its user."""
        for _ in range(ATTEMPTS):
            try:
                return await ask()
            except NodeNotReadyError:
                await asyncio.sleep(ATTEMPTS_PAUSE_S)
        return await ask()

    async def once_all_know(ask: Callable[[], Awaitable[Any]], wanted: object) -> Any:
        """Return the answer, once it is the wanted one: see lines.once_all_know."""
        for _ in range(ATTEMPTS):
            answer = await ask()
            if answer == wanted:
                break
            await asyncio.sleep(ATTEMPTS_PAUSE_S)
        return answer

    async def is_there() -> bool:
        return made in await told(asked.list_topics)

    async def partitions() -> int:
        (topic,) = await told(lambda: asked.describe_topics([made]))
        return len(topic["partitions"])

    await asked.create_topics([NewTopic(made, 3, 2, topic_configs={"retention.ms": "60000"})])
    tell(partitions=await once_all_know(partitions, 3))
    await at_half()
    resources = [ConfigResource(ConfigResourceType.TOPIC, made)]
    (answer,) = await told(lambda: asked.describe_configs(resources))
    (resource,) = answer.resources
    tell(retention_ms=next(entry[1] for entry in resource[4] if entry[0] == "retention.ms"))
    await told(lambda: asked.create_partitions({made: NewPartitions(4)}))
    tell(partitions=await once_all_know(partitions, 4))
    await told(lambda: asked.delete_topics([made]))
    tell(is_there=await once_all_know(is_there, wanted=False))
    await asked.close()


async def transactional(at: At) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=at.bootstrap, transactional_id=at.group)
    try:
        await producer.start()
    except KafkaError as refused:
        tell(refused=str(refused))
    await producer.stop()


def in_loop(step: Callable[[At], Coroutine[None, None, None]]) -> Callable[[At], None]:
    return lambda at: asyncio.run(step(at))


if __name__ == "__main__":
    run(
        {
            "produce": in_loop(produce),
            "idempotent": in_loop(idempotent),
            "assign": in_loop(assign),
            "group": in_loop(group),
            "seek": in_loop(seek),
            "admin": in_loop(admin),
            "transactional": in_loop(transactional),
        }
    )
