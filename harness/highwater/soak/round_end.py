"""Takes a round's topics and groups away, and proves that the cluster is at rest as before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from docker.errors import APIError

from highwater.cluster.asking import NoBrokerAnswers, ask_any
from highwater.cluster.cluster import UP, Cluster
from highwater.cluster.disks import DISK_FOLDER
from highwater.cluster.in_node import ProgramFailed, run_in_node
from highwater.cluster.settling import await_active_controller, await_full_isr, look_at
from highwater.cluster.topics import delete_topic
from highwater.errors import HarnessError, NodeUnreachable
from highwater.waiting import eventually
from highwater_chaos.plan import Plan, group_id_of
from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import Znode
from highwater_core.errors import ErrorCode
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_wire.kafka.group_messages import DeleteGroupsRequest

WITHIN_S = 60.0
_ASK_WITHIN_S = 10.0
_IS_GONE = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)


def clean_up(cluster: Cluster, plan: Plan) -> None:
    """Delete the plan's groups and topics; return when nothing is left of them.

    Every node runs then, a controller is active, and all ISRs are whole.

    Raises:
        NeverHappened: not in time; the message says what is left.
        HarnessError: no broker answers.
    """
    topics = [topic.name for topic in plan.workload.topics]
    groups = [group_id_of(plan.workload, number) for number in range(len(plan.workload.groups))]
    await_active_controller(cluster, within=WITHIN_S)
    for group in groups:
        _await_nothing(partial(_why_group_is_there, cluster, group), f"no group {group}")
    for topic in topics:
        delete_topic(cluster, topic)  # its outcome shows below
    _await_nothing(lambda: "; ".join(left_over(cluster, topics)), "nothing is left of the topics")
    await_full_isr(cluster, OFFSETS_TOPIC, 0, within=WITHIN_S)
    down = [node for node in cluster.node_ids if cluster.status(node) not in UP]
    if down:
        raise HarnessError(f"nodes {[int(node) for node in down]} do not run")


def _await_nothing(what_is_there: Callable[[], str], what: str) -> None:
    last = ""

    def is_gone() -> bool:
        nonlocal last
        last = what_is_there()
        return not last

    eventually(is_gone, within=WITHIN_S, what=what, state=lambda: last)


def _why_group_is_there(cluster: Cluster, group: str) -> str:
    """Ask each broker to delete the group; return "" once its coordinator has none."""
    told: dict[int, str] = {}
    for broker in cluster.topology.broker_ids:
        try:
            response = ask_any(cluster, DeleteGroupsRequest((group,)), _ASK_WITHIN_S, (broker,))
        except NoBrokerAnswers as error:
            told[int(broker)] = str(error)
            continue
        (deleted,) = response.groups
        if deleted.error in _IS_GONE:
            return ""
        told[int(broker)] = deleted.error.name
    return str(told)


def left_over(cluster: Cluster, topics: Sequence[str]) -> Iterator[str]:
    """Yield what the cluster still has of the topics, in words; nothing once they are gone."""
    yield from in_memory(look_at(cluster), topics)
    try:
        yield from in_zookeeper(cluster.zookeeper_dump(), topics)
    except NodeUnreachable as error:
        yield str(error)
    for broker in cluster.topology.broker_ids:
        try:
            listed = run_in_node(cluster, broker, ["find", DISK_FOLDER, "-type", "d"])
        except (ProgramFailed, APIError) as error:
            yield str(error)
        else:
            yield from on_disk(int(broker), listed.splitlines(), topics)


def in_memory(look: Look, topics: Sequence[str]) -> Iterator[str]:
    """Yield the nodes that do not answer, and the replicas that brokers have of the topics."""
    for node, snapshot in sorted(look.nodes.items()):
        if snapshot is None:
            yield f"node {node} does not answer"
            continue
        for replica in snapshot.replicas:
            if replica.topic_partition.topic in topics:
                yield f"broker {node} has {replica.topic_partition}"


def in_zookeeper(znodes: Mapping[str, Znode], topics: Sequence[str]) -> Iterator[str]:
    """Yield the znodes that have a topic's name in their path."""
    for path in sorted(znodes):
        if any(name in topics for name in path.split("/")):
            yield path


def on_disk(broker: int, folders: Sequence[str], topics: Sequence[str]) -> Iterator[str]:
    """Yield the folders of the topics' partitions, also those that are being removed."""
    for folder in sorted(folders):
        name = folder.rpartition("/")[2]
        if any(name.startswith((f"{topic}-", f"{topic}.")) for topic in topics):
            yield f"broker {broker} has {folder}"
