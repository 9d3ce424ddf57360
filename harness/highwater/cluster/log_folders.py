"""Finds the log folder of each replica, by the DescribeLogDirs answers of a cluster's brokers."""

from __future__ import annotations

from collections.abc import Mapping

from highwater.cluster.asking import ask_any
from highwater.cluster.cluster import Cluster
from highwater.errors import HarnessError
from highwater_core.errors import ErrorCode
from highwater_core.ids import NodeId, TopicPartition
from highwater_wire.kafka.log_dir_messages import DescribedLogDir, DescribeLogDirsRequest

TIMEOUT_S = 5.0

Described = Mapping[int, tuple[DescribedLogDir, ...]]
"""The log folders that each broker described; a broker that did not answer is missing."""


def described_log_folders(cluster: Cluster) -> Described:
    """Ask every broker for its log folders."""
    found: dict[int, tuple[DescribedLogDir, ...]] = {}
    for broker in cluster.topology.broker_ids:
        folders = _ask(cluster, broker, None)
        if folders is not None:
            found[broker] = folders
    return found


def failed_log_folders(cluster: Cluster, broker: NodeId) -> tuple[str, ...]:
    """Return the names of the broker's log folders that have failed; none if it does not answer."""
    folders = _ask(cluster, broker, ()) or ()  # without replicas: `status --watch` asks often
    return tuple(_name(folder) for folder in folders if folder.error is not ErrorCode.NONE)


def _name(folder: DescribedLogDir) -> str:
    return folder.path.rpartition("/")[2]


def _ask(
    cluster: Cluster, broker: NodeId, partitions: tuple[TopicPartition, ...] | None
) -> tuple[DescribedLogDir, ...] | None:
    request = DescribeLogDirsRequest(partitions)
    try:
        response = ask_any(cluster, request, TIMEOUT_S, (broker,))
    except HarnessError:
        return None
    folders: tuple[DescribedLogDir, ...] = response.folders
    return folders if response.error is ErrorCode.NONE else None


def folder_of(described: Described, broker: int, at: TopicPartition) -> str:
    """Return the name of the replica's log folder.

    "failed": in none that serves, and one has failed. "unknown": the broker did not answer, or has
    no such replica.
    """
    folders = described.get(broker, ())
    for folder in folders:
        if any(replica.topic_partition == at for replica in folder.replicas):
            return _name(folder)
    return "failed" if any(folder.error is not ErrorCode.NONE for folder in folders) else "unknown"
