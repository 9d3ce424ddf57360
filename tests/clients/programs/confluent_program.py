"""librdkafka, by confluent-kafka."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType
from lines import (
    ACKS,
    CODECS,
    PACE_S,
    PADDING,
    RECORDS,
    At,
    asked_again,
    half,
    is_stopped,
    once_all_know,
    run,
    tell,
)


def produce(at: At) -> None:
    for turn in range(2):
        for acks in ACKS:
            for codec in CODECS:
                producer = Producer(
                    {"bootstrap.servers": at.bootstrap, "acks": acks, "compression.type": codec}
                )
                value = f"{acks} {codec} {turn}{PADDING}"
                failed: list[Any] = []
                producer.produce(
                    at.topic,
                    value,
                    partition=0,
                    on_delivery=lambda e, _, f=failed: e and f.append(e),
                )
                if producer.flush() == 0 and not failed:
                    tell(acks=acks, codec=codec, value=value)
        if turn == 0:
            half()


def idempotent(at: At) -> None:
    producer = Producer({"bootstrap.servers": at.bootstrap, "enable.idempotence": True})
    for number in range(2 * RECORDS):
        producer.produce(
            at.topic,
            f"{number}",
            partition=0,
            on_delivery=lambda e, m: tell(failed=str(e)) if e else tell(sent=m.value().decode()),
        )
        if number == RECORDS - 1:
            producer.flush()
            half()
        elif number >= RECORDS:
            producer.poll(PACE_S)
            time.sleep(PACE_S)
    producer.flush()


def read(consumer: Consumer) -> None:
    holds = 0
    while not is_stopped():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            tell(read=message.value().decode())
        if len(consumer.assignment()) != holds:
            holds = len(consumer.assignment())
            tell(holds=holds)
    consumer.close()


def consumer_of(at: At) -> Consumer:
    return Consumer(
        {"bootstrap.servers": at.bootstrap, "group.id": at.group, "auto.offset.reset": "earliest"}
    )


def assign(at: At) -> None:
    consumer = consumer_of(at)
    consumer.assign([TopicPartition(at.topic, 0, 0)])
    read(consumer)


def group(at: At) -> None:
    consumer = consumer_of(at)
    consumer.subscribe([at.topic])
    read(consumer)


def seek(at: At) -> None:
    consumer = consumer_of(at)
    for second in (10, 15):
        asked = TopicPartition(at.topic, 0, at.since_ms + second * 1_000)
        (found,) = asked_again(partial(consumer.offsets_for_times, [asked]), KafkaException)
        consumer.assign([found])
        message = None
        while message is None or message.error() is not None:
            message = consumer.poll(1)
        tell(asked=second, offset=found.offset, value=message.value().decode())
        if second == 10:
            half()


def admin(at: At) -> None:
    asked = AdminClient({"bootstrap.servers": at.bootstrap})

    def done(futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        return future.result()

    def partitions() -> int:
        return len(asked.list_topics(made).topics[made].partitions)

    made = f"{at.topic}-made"
    done(asked.create_topics([NewTopic(made, 3, 2, config={"retention.ms": "60000"})]))
    tell(partitions=once_all_know(partitions, 3))
    half()
    configs = done(asked.describe_configs([ConfigResource(ResourceType.TOPIC, made)]))
    tell(retention_ms=configs["retention.ms"].value)
    done(asked.create_partitions([NewPartitions(made, 4)]))
    tell(partitions=once_all_know(partitions, 4))
    done(asked.delete_topics([made]))
    tell(is_there=once_all_know(lambda: made in asked.list_topics().topics, wanted=False))


def transactional(at: At) -> None:
    producer = Producer({"bootstrap.servers": at.bootstrap, "transactional.id": at.group})
    try:
        producer.init_transactions()
    except KafkaException as refused:
        tell(refused=str(refused))


if __name__ == "__main__":
    run(
        {
            "produce": produce,
            "idempotent": idempotent,
            "assign": assign,
            "group": group,
            "seek": seek,
            "admin": admin,
            "transactional": transactional,
        }
    )
