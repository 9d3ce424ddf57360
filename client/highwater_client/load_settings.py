"""From a plan's workload to the settings of its clients."""

from __future__ import annotations

from highwater_chaos.plan import Workload, group_id_of, member_names
from highwater_client.group_reader import GroupReaderSettings
from highwater_client.settings import ConsumerSettings, ProducerSettings

LATEST_EVERY_MS = 250
"""How often a consumer of a plan requests each partition's latest offset (I9)."""


def producer_settings(workload: Workload) -> list[ProducerSettings]:
    """Return the settings of each producer."""
    partitions = {topic.name: topic.partitions for topic in workload.topics}
    return [
        ProducerSettings(
            producer.topic,
            partition_count=partitions[producer.topic],
            rate_per_s=producer.rate_per_s,
            acks=producer.acks,
            linger_ms=producer.linger_ms,
            batch_max_records=producer.batch_max_records,
            max_in_flight=producer.max_in_flight,
            retries=producer.retries,
            request_timeout_ms=producer.request_timeout_ms,
            delivery_timeout_ms=producer.delivery_timeout_ms,
            value_bytes=producer.value_bytes,
            key_count=producer.keys,
            is_idempotent=producer.idempotent,
        )
        for producer in workload.producers
    ]


def consumer_settings(workload: Workload) -> list[ConsumerSettings]:
    """Return the settings of each consumer: all partitions of its topic."""
    partitions = {topic.name: topic.partitions for topic in workload.topics}
    return [
        ConsumerSettings(
            consumer.topic,
            tuple(range(partitions[consumer.topic])),
            latest_every_ms=LATEST_EVERY_MS,
        )
        for consumer in workload.consumers
    ]


def member_settings(workload: Workload) -> dict[str, GroupReaderSettings]:
    """Return the settings of each member of each group, by its name as a client.

    The members of a group leave at different times: each stays longer than the one before it.
    """
    return {
        name: GroupReaderSettings(
            group_id_of(workload, number),
            group.topic,
            commit_every_ms=group.commit_every_ms,
            stays_ms=group.stays_ms * (2 + member) // 2,
            session_timeout_ms=group.session_timeout_ms,
            request_timeout_ms=group.request_timeout_ms,
        )
        for number, group in enumerate(workload.groups)
        for member, name in enumerate(member_names(workload, number))
    }
