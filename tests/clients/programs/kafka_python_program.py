"""kafka-python."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
)
from kafka.errors import KafkaConnectionError, KafkaError, UnknownBrokerIdError
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
                producer = KafkaProducer(
                    bootstrap_servers=at.bootstrap,
                    acks=acks if acks == "all" else int(acks),
                    compression_type=None if codec == "none" else codec,
                    enable_idempotence=False,
                )
                value = f"{acks} {codec} {turn}{PADDING}"
                producer.send(at.topic, value.encode(), partition=0).get()
                tell(acks=acks, codec=codec, value=value)
                producer.close()
        if turn == 0:
            half()


def idempotent(at: At) -> None:
    producer = KafkaProducer(bootstrap_servers=at.bootstrap, enable_idempotence=True)
    sent = []
    for number in range(2 * RECORDS):
        sent.append(producer.send(at.topic, f"{number}".encode(), partition=0))
        if number == RECORDS - 1:
            producer.flush()
            half()
        elif number >= RECORDS:
            time.sleep(PACE_S)
    for number, future in enumerate(sent):
        try:
            future.get()
            tell(sent=str(number))
        except KafkaError as failed:
            tell(failed=str(failed))
    producer.close()


def read(consumer: KafkaConsumer) -> None:
    holds = 0
    while not is_stopped():
        for records in consumer.poll(100).values():
            for record in records:
                tell(read=record.value.decode())
        if len(consumer.assignment()) != holds:
            holds = len(consumer.assignment())
            tell(holds=holds)
    consumer.close()


def consumer_of(at: At) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=at.bootstrap, group_id=at.group, auto_offset_reset="earliest"
    )


def assign(at: At) -> None:
    consumer = consumer_of(at)
    consumer.assign([TopicPartition(at.topic, 0)])
    consumer.seek(TopicPartition(at.topic, 0), 0)
    read(consumer)


def group(at: At) -> None:
    consumer = consumer_of(at)
    consumer.subscribe([at.topic])
    read(consumer)


def seek(at: At) -> None:
    consumer = consumer_of(at)
    partition = TopicPartition(at.topic, 0)
    consumer.assign([partition])
    for second in (10, 15):
        found = consumer.offsets_for_times({partition: at.since_ms + second * 1_000})[partition]
        consumer.seek(partition, found.offset)
        polled: dict[TopicPartition, list[object]] = {}
        while not polled:
            polled = consumer.poll(1_000)
        tell(asked=second, offset=found.offset, value=polled[partition][0].value.decode())
        if second == 10:
            half()
    consumer.close()


def admin(at: At) -> None:
    def new_client() -> Any:
        return KafkaAdminClient(bootstrap_servers=at.bootstrap)

    clients = [new_client()]
    made = f"{at.topic}-made"

    def told(ask: Callable[[Any], Any]) -> Any:
        """Ask again. A client whose controller has died never looks for another: a new one does."""

        def once() -> Any:
            try:
                return ask(clients[-1])
            except UnknownBrokerIdError:
                tell(note="an admin client went on to ask a dead broker; a new client was made")
                clients.append(new_client())
                raise

        return asked_again(once, (KafkaConnectionError, UnknownBrokerIdError))

    def partitions() -> int:
        (topic,) = told(lambda asked: asked.describe_topics([made]))
        return len(topic["partitions"])

    new_topic = NewTopic(made, 3, 2, topic_configs={"retention.ms": "60000"})
    clients[-1].create_topics([new_topic])
    tell(partitions=once_all_know(partitions, 3))
    half()
    resources = [ConfigResource(ConfigResourceType.TOPIC, made)]
    configs = told(lambda asked: asked.describe_configs(resources))
    tell(retention_ms=configs["topic"][made]["retention.ms"]["value"])
    told(lambda asked: asked.create_partitions({made: NewPartitions(4)}))
    tell(partitions=once_all_know(partitions, 4))
    told(lambda asked: asked.delete_topics([made]))
    is_there = once_all_know(lambda: made in told(lambda asked: asked.list_topics()), wanted=False)
    tell(is_there=is_there)
    for client in clients:
        client.close()


def transactional(at: At) -> None:
    producer = KafkaProducer(bootstrap_servers=at.bootstrap, transactional_id=at.group)
    try:
        producer.init_transactions()
    except KafkaError as refused:
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
