"""Problems that make a single fault impossible in any state of the cluster. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from highwater_chaos import faults as f
from highwater_chaos.bounds import Bounds, problems_of_numbers
from highwater_core.fail_points import BROKER_FAIL_POINTS, CONTROLLER_FAIL_POINTS
from highwater_core.topic_configs import BadTopicConfig, parse_topic_config

_HOSTS = (f.ANY, "zookeeper")
"""The ends of a link besides nodes."""
_DURATIONS = ("for_ms", "every_ms", "restart_after_ms", "delay_ms", "latency_ms", "jitter_ms")
_BOUNDS: Mapping[str, Bounds] = {
    "loss_percent": (1, 100),
    "percent": (1, 100),
    "ppm": (-999_999, None),  # at -1,000,000 a clock stands still
    "count": (1, None),
    "partitions": (1, None),
    "replication_factor": (1, None),
    "records": (0, None),
    "partition": (0, None),
    "bytes_per_s": (1, None),
    "min_insync_replicas": (1, None),
}
"""The bounds of a fault's numbers, by field."""
_OF_DISKS = (f.PowerLoss, f.DiskFull, f.DiskErrors, f.FailFolder, f.SlowDisk, f.FlipBit)
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def problems_of_fault(fault: f.Fault, nodes: Collection[str]) -> Iterator[str]:
    """Yield the fault's problems in a cluster of these nodes."""
    yield from _problems_of_lengths(fault)
    yield from problems_of_numbers(fault, _BOUNDS)
    yield from _problems_of_places(fault, nodes)
    node = getattr(fault, "node", "")
    point = getattr(fault, "point", None)
    if point is not None and point not in points_of(node):
        yield f"{node} has no fail-point {point!r}"
    if is_of_a_disk(fault) and is_controller(node):
        yield f"{node} keeps nothing on a disk: only brokers do"
    topic = getattr(fault, "topic", None)
    if topic is not None and not is_topic_name(topic):
        yield f"{topic!r} is no topic's name"
    if isinstance(fault, f.Upgrade) and not fault.image:
        yield "it names no image"
    if isinstance(fault, f.ChangeConfig):
        try:
            parse_topic_config({fault.key: fault.value})
        except BadTopicConfig as error:
            yield str(error)
    if isinstance(fault, f.MoveReplicas):
        away = [broker for broker in fault.replicas if f"broker-{broker}" not in nodes]
        if not fault.replicas or len(set(fault.replicas)) != len(fault.replicas) or away:
            yield f"{list(fault.replicas)} are no replicas: brokers of the cluster, each once"


def _problems_of_lengths(fault: f.Fault) -> Iterator[str]:
    for field in _DURATIONS:
        if (getattr(fault, field, None) or 0) < 0:
            yield f"{field} is negative"
    if getattr(fault, "kbit_per_s", 1) < 1:
        yield "a bandwidth of less than 1 kbit/s is a cut"
    if getattr(fault, "times", 1) < 1:
        yield "it is to be done less than once"


def _problems_of_places(fault: f.Fault, nodes: Collection[str]) -> Iterator[str]:
    node = getattr(fault, "node", None)
    if node is not None and not is_node(node, nodes):
        yield f"there is no node {node!r}"
    for field in ("source", "target"):
        host = getattr(fault, field, None)
        if host not in (None, *_HOSTS) and not is_node(host, nodes):
            yield f"there is no node {host!r}"
    plane = getattr(fault, "plane", None)
    if plane not in (None, *f.PLANES):
        yield f"there is no plane {plane!r}"


# ---------------------------------------------------------------- words


def is_node(words: str, nodes: Collection[str]) -> bool:
    """Return whether the words are a node's name, or a role."""
    if words in nodes or words == "active controller":
        return True
    role, of, partition = words.partition(" of ")
    return role in ("leader", "follower", "last follower") and bool(of) and is_partition(partition)


def is_controller(words: str) -> bool:
    """Return whether the words can name a controller; otherwise they name a broker."""
    return words == "active controller" or words.startswith("controller-")


def is_described(words: str) -> bool:
    """Return whether the words are a role at that moment, not a node's name."""
    return words == "active controller" or " of " in words


def is_partition(words: str) -> bool:
    topic, _, number = words.rpartition("-")
    return bool(topic) and number.isascii() and number.isdigit()


def is_topic_name(words: str) -> bool:
    """Return whether nodes allow a topic of that name."""
    return _TOPIC_NAME.fullmatch(words) is not None and words not in (".", "..")


def points_of(words: str) -> Collection[str]:
    """Return the fail-points of the named kind of node."""
    return CONTROLLER_FAIL_POINTS if is_controller(words) else BROKER_FAIL_POINTS


def is_of_a_disk(fault: f.Fault) -> bool:
    """Return whether the fault acts on a disk."""
    is_emptying = isinstance(fault, f.Kill) and fault.disk is f.DiskAtStart.EMPTY
    return is_emptying or isinstance(fault, _OF_DISKS)
