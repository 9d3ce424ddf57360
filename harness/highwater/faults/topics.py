"""An operator's work on topics in a plan, through any broker that answers; the answer proves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle
from typing import Any, TypeVar

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import look_at
from highwater.cluster.wire_client import ConnectionClosed, WireClient, record_batch
from highwater.faults.done import Done, NotDone, prove
from highwater_chaos import faults as f
from highwater_checker.looks import leaderships
from highwater_core import znodes
from highwater_core.admin_messages import ElectionType, ReassignmentItem
from highwater_core.errors import MEANINGS, ErrorCode
from highwater_core.ids import Endpoint, NodeId, TopicPartition
from highwater_wire.kafka.admin_messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionsToCreate,
)
from highwater_wire.kafka.config_messages import (
    AlteredResource,
    ConfigAlteration,
    ConfigOperationType,
    ConfigResourceType,
    IncrementalAlterConfigsRequest,
)
from highwater_wire.kafka.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    KafkaRequest,
    TopicToCreate,
)

ADMIN_WITHIN_S = 10.0
"""How long requests are tried: long enough for a controller's death on a busy machine. The
simulator's operator tries half as long, in virtual time."""
_CALL_S = 2.5
_RETRY_S = 0.1
_PASSING = (ErrorCode.INVALID_REPLICATION_FACTOR,)
"""Answers that may change: too few brokers live now, and more may start."""

T = TypeVar("T")


def _of_topic(
    response: CreateTopicsResponse | CreatePartitionsResponse | DeleteTopicsResponse,
) -> ErrorCode:
    (result,) = response.topics
    return result.error


def _of_partition(
    response: ElectLeadersResponse | AlterPartitionReassignmentsResponse,
) -> ErrorCode:
    """Return the error about the request as a whole, else that about its one partition."""
    return response.error or response.partitions[0].error


def _stays(proof: str) -> Done:
    """Return the result of an operator's work, which is never undone."""
    return Done(None, proof, lambda: "what an operator did stays")


class TopicWork:
    """Topics of one cluster; calls may come from different threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = count(1)
        self._lock = threading.Lock()

    def create(self, fault: f.CreateTopic) -> Done:
        """Create the topic, and write its records.

        Raises:
            NotDone: no broker answered that the topic was created, and ZooKeeper does not have it.
        """
        new = TopicToCreate(
            fault.topic, fault.partitions, fault.replication_factor, configs=fault.configs
        )
        error = self._ask(
            lambda timeout_ms: CreateTopicsRequest((new,), timeout_ms),
            _of_topic,
            ErrorCode.NONE,
        )
        path = znodes.topic_path(fault.topic)
        if error is not ErrorCode.NONE:
            # A creation goes on after the request has timed out.
            prove(self._exists(path), f"{fault.topic} is not created: {error.name}")
        proof = f"{error.name}{'' if error is ErrorCode.NONE else f', and {path} is there'}"
        if fault.records:
            self._write(fault.topic, fault.records)
            proof += f", {fault.records} records acknowledged"
        return _stays(proof)

    def expand(self, fault: f.ExpandTopic) -> Done:
        """Give the topic so many partitions in all.

        Raises:
            NotDone: no broker answered that they were added, and ZooKeeper lists fewer.
        """
        wanted = PartitionsToCreate(fault.topic, fault.partitions)
        error = self._ask(
            lambda timeout_ms: CreatePartitionsRequest((wanted,), timeout_ms),
            _of_topic,
            ErrorCode.NONE,
        )
        proof = error.name
        if error is not ErrorCode.NONE:
            # An answer may be lost: then a second request finds the partitions there.
            count = self._partition_count(fault.topic)
            prove(count >= fault.partitions, f"{fault.topic} is not expanded: {error.name}")
            proof += f", and its znode lists {count} partitions"
        return _stays(proof)

    def delete(self, fault: f.DeleteTopic) -> Done:
        """Delete the topic.

        Raises:
            NotDone: no broker answered that the topic was deleted, and ZooKeeper still has it.
        """
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        error = self._ask(
            lambda timeout_ms: DeleteTopicsRequest((fault.topic,), timeout_ms),
            _of_topic,
            ErrorCode.NONE,
            gone,
        )
        proof = error.name
        if error not in (ErrorCode.NONE, gone):
            path = znodes.delete_topic_path(fault.topic)
            is_gone = not self._exists(znodes.topic_path(fault.topic))
            prove(is_gone or self._exists(path), f"{fault.topic} is not deleted: {error.name}")
            proof += ", and it is gone" if is_gone else f", and {path} is there"
        return _stays(proof)

    def move(self, fault: f.MoveReplicas) -> Done:
        """Have the partition's replicas moved; the move goes on after the return.

        Raises:
            NotDone: no broker answered that the move has begun.
        """
        replicas = tuple(NodeId(broker) for broker in fault.replicas)
        return self._reassign(TopicPartition(fault.topic, fault.partition), replicas)

    def give_up_moving(self, fault: f.GiveUpMoving) -> Done:
        """Have the partition's reassignment given up.

        Raises:
            NotDone: no broker answered that it is given up.
        """
        nothing = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        return self._reassign(TopicPartition(fault.topic, fault.partition), None, nothing)

    def elect_preferred(self, fault: f.ElectPreferred) -> Done:
        """Have the partition's preferred replica elected.

        Raises:
            NotDone: no broker answered that the preferred replica leads.
        """
        at = TopicPartition(fault.topic, fault.partition)
        preferred = int(ElectionType.PREFERRED)
        wanted = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
        error = self._ask(
            lambda timeout_ms: ElectLeadersRequest(preferred, (at,), timeout_ms),
            _of_partition,
            *wanted,
        )
        prove(error in wanted, f"the preferred replica of {at} is not elected: {error.name}")
        return _stays(error.name)

    def change_config(self, fault: f.ChangeConfig) -> Done:
        """Set one of the topic's configurations.

        Raises:
            NotDone: no broker answered that it is set.
        """
        return self._set(ConfigResourceType.TOPIC, fault.topic, {fault.key: fault.value})

    def throttle(self, fault: f.ThrottleReplication) -> Done:
        """Throttle the topic's replicas on every broker, or lift that.

        Raises:
            NotDone: no broker answered that it is so.
        """
        self._set(ConfigResourceType.BROKER, "", fault.broker_configs)
        return self._set(ConfigResourceType.TOPIC, fault.topic, fault.topic_configs)

    def change_fetchers(self, fault: f.ChangeFetchers) -> Done:
        """Set the number of fetchers of every broker.

        Raises:
            NotDone: no broker answered that it is set.
        """
        return self._set(ConfigResourceType.BROKER, "", fault.broker_configs)

    # ------------------------------------------------------------ inside

    def _set(self, kind: ConfigResourceType, name: str, values: dict[str, str]) -> Done:
        changes = (
            ConfigAlteration(key, ConfigOperationType.SET, text) for key, text in values.items()
        )
        resource = AlteredResource(kind, name, tuple(changes))
        error = self._ask(
            lambda timeout_ms: IncrementalAlterConfigsRequest((resource,)),
            lambda response: response.resources[0].error,
            ErrorCode.NONE,
        )
        owner = name or "every broker"
        prove(error is ErrorCode.NONE, f"{values} of {owner} is not set: {error.name}")
        return _stays(error.name)

    def _reassign(
        self, at: TopicPartition, replicas: tuple[NodeId, ...] | None, *also_wanted: ErrorCode
    ) -> Done:
        item = ReassignmentItem(at, replicas)
        wanted = (ErrorCode.NONE, *also_wanted)
        error = self._ask(
            lambda timeout_ms: AlterPartitionReassignmentsRequest((item,), timeout_ms),
            _of_partition,
            *wanted,
        )
        prove(error in wanted, f"{at} is not reassigned: {error.name}")
        return _stays(error.name)

    def _ask(
        self,
        request_of: Callable[[int], KafkaRequest],
        error_of: Callable[[Any], ErrorCode],
        *wanted: ErrorCode,
    ) -> ErrorCode:
        """Send the request to brokers in turn, and return the error code of an answer.

        It is the first code that is in wanted or not retriable, or the last one when the time is
        over.
        """
        deadline, error = time.monotonic() + ADMIN_WITHIN_S, ErrorCode.REQUEST_TIMED_OUT
        for endpoint in self._endpoints(deadline):
            left_s = max(0.1, min(_CALL_S, deadline - time.monotonic()))
            try:
                with WireClient(endpoint, timeout_s=left_s + 0.5) as client:
                    error = error_of(client.call(request_of(round(left_s * 1000))))
            except (OSError, ConnectionClosed):
                continue
            if error in wanted or not (MEANINGS[error].retriable or error in _PASSING):
                break
        return error

    def _endpoints(self, deadline: float) -> Iterator[Endpoint]:
        """Yield the brokers, again and again, until the time is over."""
        for broker in cycle(self._cluster.topology.broker_ids):
            yield self._cluster.external_endpoint(broker)
            if time.monotonic() > deadline:
                return
            time.sleep(_RETRY_S)

    def _exists(self, path: str) -> bool:
        return path in self._cluster.zookeeper_dump()

    def _partition_count(self, topic: str) -> int:
        znode = self._cluster.zookeeper_dump().get(znodes.topic_path(topic))
        return 0 if znode is None else len(znode.data["partitions"])

    def _write(self, topic: str, records: int) -> None:
        """Write records of unique values to the first partition.

        Raises:
            NotDone: one of them was not acknowledged in time.
        """
        with self._lock:
            operator = next(self._numbers)
        values = [f"operator-{operator}-{number}".encode() for number in range(records)]
        deadline = time.monotonic() + ADMIN_WITHIN_S
        while values:
            why = self._write_some(topic, values)
            if values and time.monotonic() > deadline:
                acknowledged = f"{records - len(values)} of {records} records"
                raise NotDone(f"{acknowledged} of {topic} were acknowledged: {why}")
            time.sleep(_RETRY_S if values else 0)

    def _write_some(self, topic: str, values: list[bytes]) -> str:
        """Write the values to the present leader, and remove each that it acknowledged.

        Returns why some values are left, "" when none is.
        """
        leadership = leaderships(look_at(self._cluster)).get(TopicPartition(topic, 0))
        if leadership is None:
            return "it has no leader"
        endpoint = self._cluster.external_endpoint(leadership.leader)
        try:
            with WireClient(endpoint, timeout_s=_CALL_S) as client:
                while values:
                    answer = client.produce(topic, 0, record_batch([values[0]]))
                    if answer.error is not ErrorCode.NONE:
                        return answer.error.name
                    del values[0]
        except (OSError, ConnectionClosed) as error:
            return str(error)
        return ""
