"""The target of hostile clients: a cluster's addresses, and their topic."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from highwater.cluster.cluster import Cluster
from highwater.cluster.wire_client import WireClient
from highwater_core.ids import Endpoint
from highwater_wire.kafka.messages import MetadataRequest

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """brokers: external endpoints by broker id. topic: its records are not audited."""

    bootstrap: str
    brokers: Mapping[int, Endpoint]
    topic: str
    partition_count: int

    def any_broker(self, rng: random.Random) -> WireClient:
        """Return a connection to some broker.

        Raises:
            OSError: it does not listen at present.
        """
        return WireClient(self.brokers[rng.choice(sorted(self.brokers))], timeout_s=TIMEOUT_S)

    def leader_of(self, partition: int, rng: random.Random) -> WireClient:
        """Return a connection to the partition's leader, by some broker's word.

        Raises:
            OSError, LookupError: nobody leads, or nobody answers, at present.
        """
        with self.any_broker(rng) as client:
            (topic,) = client.call(MetadataRequest((self.topic,))).topics
        leaders = {each.partition: int(each.leader) for each in topic.partitions}
        return WireClient(self.brokers[leaders[partition]], timeout_s=TIMEOUT_S)


def target_of(cluster: Cluster, topic: str, partition_count: int) -> Target:
    brokers = {int(node): cluster.external_endpoint(node) for node in cluster.topology.broker_ids}
    return Target(cluster.bootstrap, brokers, topic, partition_count)
