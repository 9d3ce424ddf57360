"""A cluster with records to catch up on, and one topic for each purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Producer

from bench.hostile.target import Target, target_of
from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_full_isr, leaders_of, look_at
from highwater.cluster.topics import create_topic
from highwater.cluster.topology import Topology
from highwater.run_folder import new_run_id
from highwater_core.ids import Endpoint

TOPIC = "catch-up"
PARTITIONS = 12
"""Partitions of the topic that readers leave, of 10 MB each: a consumer needs some time."""
_PARTITION_BYTES = 10_000_000
_RECORD_BYTES = 20_000


@dataclass(frozen=True, slots=True)
class Scene:
    """A running cluster, and the target of hostile clients in it."""

    cluster: Cluster
    target: Target

    def led_partitions(self) -> dict[int, Endpoint]:
        """Return one partition of the topic for each leading broker, with that broker's address."""
        first: dict[int, int] = {}
        for key, leadership in leaders_of(look_at(self.cluster), TOPIC).items():
            first.setdefault(int(leadership.leader), int(key.partition))
        return {partition: self.target.brokers[broker] for broker, partition in first.items()}

    def resident_mib(self) -> list[float | None]:
        """Return the brokers' private memory, None for one that does not answer."""
        return [self._resident_mib(node) for node in self.cluster.topology.broker_ids]

    def _resident_mib(self, node: int) -> float | None:
        snapshot = self.cluster.try_snapshot(node, timeout_s=10)
        return None if snapshot is None else round(snapshot.resident_bytes / 2**20, 1)

    def mend(self) -> list[str]:
        """Restart the brokers that ended or do not answer; return their problems."""
        found: list[str] = []
        for node in self.cluster.topology.broker_ids:
            if self.cluster.status(node) == "running":
                if self._resident_mib(node) is not None:
                    continue
                found.append(f"broker {node} hangs")
                self.cluster.kill(node)
            else:
                found.append(f"broker {node} ended with {self.cluster.exit_code(node)}")
            self.cluster.start_node(node)
        if found:
            self.cluster.wait_until_ready()
            await_full_isr(self.cluster, TOPIC, self.target.partition_count, within=120)
        return found


@contextmanager
def brought_up(say: Callable[[str], None], partitions: int = PARTITIONS) -> Iterator[Scene]:
    """Bring a cluster up with a topic full of records; it is removed at the end."""
    topology = Topology(
        session_timeout_ms=6_000,
        broker_settings={"log_retention_check_interval_ms": 5_000},
    )
    with Cluster(topology, new_run_id("hostile"), say=say) as cluster:
        cluster.start()
        create_topic(cluster, TOPIC, partition_count=partitions)
        fill(cluster.bootstrap, TOPIC, partitions)
        say(f"{TOPIC}: {partitions} partitions of {_PARTITION_BYTES / 1e6:.0f} MB")
        yield Scene(cluster, target_of(cluster, TOPIC, partitions))


def fill(bootstrap: str, topic: str, partitions: int) -> None:
    """Produce the records that readers catch up on.

    Raises:
        TimeoutError: they are not acknowledged within minutes.
    """
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0}
    )
    for number in range(partitions * _PARTITION_BYTES // _RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, b"c" * _RECORD_BYTES, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(180):
        raise TimeoutError(f"{topic} cannot be filled")
