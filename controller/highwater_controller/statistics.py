"""Counts of topics and partitions, and of partitions with problems, for snapshots. Pure."""

from __future__ import annotations

from highwater_controller.context import ControllerContext


def count_partitions(context: ControllerContext) -> tuple[tuple[str, int], ...]:
    """Return counts of topics and partitions, by name; topics being deleted count in the first two.

    offline_partitions have no live leader. Source: Kafka's KafkaController, updateMetrics.
    """
    offline_count = imbalanced_count = 0
    for partition, assigned in context.assignments.items():
        if not context.is_to_be_deleted(partition.topic):
            offline_count += not context.has_live_leader(partition)
            imbalanced_count += context.leader_of(partition) != assigned[0]
    return (
        ("topics", len(context.topic_ids)),
        ("partitions", len(context.assignments)),
        ("offline_partitions", offline_count),
        ("preferred_replica_imbalance", imbalanced_count),
        ("topics_to_delete", len(context.topics_to_delete)),
        ("reassigning_partitions", len(context.reassignments)),
    )
