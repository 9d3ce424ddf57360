"""What a plan may do to a cluster: one value per fault, told apart by "fault" in JSON.

A node is named ("broker-1", "controller-1000") or described by what it is at that moment:
"leader of t-0", "follower of t-0" and "last follower of t-0" (the ISR member of the lowest and of
the highest id that does not lead), "active controller". A fault with for_ms is undone after that
time, or with None as faults end. Links are directed: source -> target; "any" is every peer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

import msgspec

from highwater_core.config_layers import (
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    UNLIMITED_RATE,
)
from highwater_core.topic_configs import (
    EVERY_REPLICA,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_REPLICAS,
)

ANY = "any"
PLANES = ("client", "replication", "control", "zookeeper")


class DiskAtStart(StrEnum):
    """What a killed node's next incarnation finds."""

    KEPT = "kept"
    EMPTY = "empty"


class PauseBy(StrEnum):
    """What makes a paused node's processes stand still; the simulator has one way for both."""

    FREEZER = "freezer"
    SIGSTOP = "sigstop"


class DiskOperation(StrEnum):
    """The file operations that a failing disk may refuse."""

    APPEND = "append"
    READ = "read"
    TRUNCATE = "truncate"
    SYNC = "sync"
    RENAME = "rename"
    REMOVE = "remove"


class FileKind(StrEnum):
    """Where on a broker's disk a bit is flipped."""

    LOG = "log"
    LOG_TAIL = "log_tail"
    """A log from its checkpointed recovery point on: what the next start reads again."""
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    EPOCHS = "epochs"
    METADATA = "metadata"
    """Which topic a log is of."""
    IDENTITY = "identity"
    """Which broker's disk it is, and which contents it has."""


FILE_SUFFIXES: Mapping[FileKind, tuple[str, ...]] = {
    FileKind.LOG: (".log",),
    FileKind.LOG_TAIL: (".log",),
    FileKind.INDEX: (".index", ".timeindex"),
    FileKind.CHECKPOINT: ("-offset-checkpoint",),
    FileKind.EPOCHS: ("/leader-epoch-checkpoint",),
    FileKind.METADATA: ("/partition.metadata",),
    FileKind.IDENTITY: ("meta.properties", "storage.properties"),
}
"""How the paths of each kind's files end."""


_STARTED_AGAIN = ", started again after {for_ms} ms"
_ARMED = ", armed for {for_ms} ms"


class _Fault(msgspec.Struct, frozen=True, tag_field="fault", forbid_unknown_fields=True):
    """Common to all: how JSON tells faults apart.

    phrase: what the fault does, in words with its fields in braces.
    lasting: how the words go on where for_ms is set.
    """

    phrase: ClassVar[str]
    lasting: ClassVar[str] = " for {for_ms} ms"


# ---------------------------------------------------------------- processes


class Kill(_Fault, frozen=True, tag="kill"):
    """SIGKILL; started again after for_ms."""

    phrase = "kill {node}"
    lasting = _STARTED_AGAIN
    node: str
    for_ms: int | None = None
    disk: DiskAtStart = DiskAtStart.KEPT


class Terminate(_Fault, frozen=True, tag="terminate"):
    """SIGTERM; started again for_ms after it has stopped."""

    phrase = "ask {node} to stop"
    lasting = _STARTED_AGAIN
    node: str
    for_ms: int | None = None


class Pause(_Fault, frozen=True, tag="pause"):
    """Its processes stand still; its connections stay open."""

    phrase = "pause {node}"
    node: str
    for_ms: int | None = None
    by: PauseBy = PauseBy.FREEZER


class CrashLoop(_Fault, frozen=True, tag="crash_loop"):
    """SIGKILL, a start at once, and SIGKILL again every_ms after each start, `times` in all."""

    phrase = "kill {node} {times} times, {every_ms} ms after each start"
    node: str
    times: int
    every_ms: int = 0
    for_ms: int | None = None
    """It is killed no more after that time, however often it was."""


class PowerLoss(_Fault, frozen=True, tag="power_loss"):
    """A kill that also loses what was not synced to the disk; started again after for_ms."""

    phrase = "cut the power of {node}"
    lasting = _STARTED_AGAIN
    node: str
    for_ms: int | None = None


class CrashAt(_Fault, frozen=True, tag="crash_at"):
    """SIGKILL when the node reaches a fail-point; started again after restart_after_ms."""

    phrase = "have {node} die at {point}"
    lasting = _ARMED
    node: str
    point: str
    restart_after_ms: int | None = None
    for_ms: int | None = None
    """How long it stays armed."""


class DelayAt(_Fault, frozen=True, tag="delay_at"):
    """The task that reaches the fail-point waits there for delay_ms, `count` times."""

    phrase = "have {node} wait {delay_ms} ms at {point}"
    lasting = _ARMED
    node: str
    point: str
    delay_ms: int
    count: int = 1
    for_ms: int | None = None


# ---------------------------------------------------------------- network


class Cut(_Fault, frozen=True, tag="cut"):
    """Nothing passes from source to target; with both_ways nor back."""

    phrase = "cut {source} -> {target} on {plane}"
    source: str
    target: str
    plane: str
    both_ways: bool = False
    for_ms: int | None = None


class Isolate(_Fault, frozen=True, tag="isolate"):
    """The node is cut off from everyone on every plane, both ways."""

    phrase = "cut {node} off from everyone"
    node: str
    for_ms: int | None = None


class SlowLink(_Fault, frozen=True, tag="slow_link"):
    """What goes from source to target arrives later, by latency_ms and up to jitter_ms more."""

    phrase = "slow {source} -> {target} on {plane} down by {latency_ms} ms"
    source: str
    target: str
    plane: str
    latency_ms: int
    jitter_ms: int = 0
    for_ms: int | None = None


class LimitBandwidth(_Fault, frozen=True, tag="limit_bandwidth"):
    """What goes from source to target shares so many kbit/s; what would wait too long is lost."""

    phrase = "limit {source} -> {target} on {plane} to {kbit_per_s} kbit/s"
    source: str
    target: str
    plane: str
    kbit_per_s: int
    for_ms: int | None = None


class LossyLink(_Fault, frozen=True, tag="lossy_link"):
    """A share of what goes from source to target is lost."""

    phrase = "lose {loss_percent} % of {source} -> {target} on {plane}"
    source: str
    target: str
    plane: str
    loss_percent: int
    for_ms: int | None = None


class ResetConnections(_Fault, frozen=True, tag="reset_connections"):
    """Every connection between the two breaks; both sides are told."""

    phrase = "reset the connections {source} - {target} on {plane}"
    source: str
    target: str
    plane: str


class HalfOpen(_Fault, frozen=True, tag="half_open"):
    """Every connection between the two is forgotten by the target; the source is not told."""

    phrase = "have {target} forget its connections with {source} on {plane}"
    source: str
    target: str
    plane: str


# ---------------------------------------------------------------- ZooKeeper


class ExpireSession(_Fault, frozen=True, tag="expire_session"):
    """ZooKeeper ends the node's session."""

    phrase = "expire the session of {node}"
    node: str


class LoseZooKeeperConnection(_Fault, frozen=True, tag="lose_zookeeper_connection"):
    """The node's connection to ZooKeeper breaks; the session lives on."""

    phrase = "break the ZooKeeper connection of {node}"
    node: str


class LoseZooKeeperReply(_Fault, frozen=True, tag="lose_zookeeper_reply"):
    """The node's next operations are carried out; their replies are lost with the connection."""

    phrase = "lose ZooKeeper's next replies to {node}"
    node: str
    count: int = 1


class SlowZooKeeper(_Fault, frozen=True, tag="slow_zookeeper"):
    """Its replies take longer, to everyone."""

    phrase = "slow ZooKeeper down by {delay_ms} ms"
    delay_ms: int
    for_ms: int | None = None


class PauseZooKeeper(_Fault, frozen=True, tag="pause_zookeeper"):
    """It freezes for for_ms; when it wakes, it ends the sessions whose time is over by then."""

    phrase = "freeze ZooKeeper"
    for_ms: int | None = None


class RestartZooKeeper(_Fault, frozen=True, tag="restart_zookeeper"):
    """It is gone for for_ms; sessions and znodes survive."""

    phrase = "stop ZooKeeper"
    for_ms: int | None = None


# ---------------------------------------------------------------- disks and clocks


class DiskFull(_Fault, frozen=True, tag="disk_full"):
    """ENOSPC for whatever the node would add to its disk."""

    phrase = "fill the disk of {node}"
    node: str
    for_ms: int | None = None


class DiskErrors(_Fault, frozen=True, tag="disk_errors"):
    """EIO from one kind of operation, with a probability."""

    phrase = "fail {percent} % of {operation} on the disk of {node}"
    node: str
    operation: DiskOperation
    percent: int = 100
    for_ms: int | None = None


class SlowDisk(_Fault, frozen=True, tag="slow_disk"):
    """Every sync takes longer."""

    phrase = "slow every sync of {node} down by {delay_ms} ms"
    node: str
    delay_ms: int
    for_ms: int | None = None


class FlipBit(_Fault, frozen=True, tag="flip_bit"):
    """The node is killed, one bit of one file at rest flips; started again after for_ms."""

    phrase = "kill {node} and flip a bit of one {file} file"
    lasting = _STARTED_AGAIN
    node: str
    file: FileKind
    for_ms: int | None = None


class ClockJump(_Fault, frozen=True, tag="clock_jump"):
    """The wall clock jumps, and stays so until the faults end."""

    phrase = "move the clock of {node} by {by_ms} ms"
    node: str
    by_ms: int


class ClockRate(_Fault, frozen=True, tag="clock_rate"):
    """The node's timers run faster (above 0) or slower, in parts per million."""

    phrase = "let the timers of {node} run {ppm} ppm faster"
    node: str
    ppm: int
    for_ms: int | None = None


# ---------------------------------------------------------------- clients


class KillClient(_Fault, frozen=True, tag="kill_client"):
    """SIGKILL of a producer ("p0"), a consumer ("c0") or any; started again after for_ms.

    What it had asked for and was not told of is unknown. Its next incarnation writes other values
    and reads from the start.
    """

    phrase = "kill client {client}"
    lasting = _STARTED_AGAIN
    client: str = ANY
    for_ms: int | None = None


# ---------------------------------------------------------------- clients' admin work


class CreateTopic(_Fault, frozen=True, tag="create_topic"):
    """No fault of the cluster's, but what an operator does in the middle of it all."""

    phrase = "create topic {topic}"
    topic: str
    partitions: int = 1
    replication_factor: int = 3
    records: int = 0
    """So many are then written to its first partition."""
    min_insync_replicas: int = 1

    @property
    def configs(self) -> tuple[tuple[str, str | None], ...]:
        """What the topic's configuration sets: nothing that is the default."""
        minimum = str(self.min_insync_replicas)
        return (("min.insync.replicas", minimum),) if minimum != "1" else ()


class DeleteTopic(_Fault, frozen=True, tag="delete_topic"):
    """As create_topic: an operator's work."""

    phrase = "delete topic {topic}"
    topic: str


class ChangeConfig(_Fault, frozen=True, tag="change_config"):
    """As create_topic: a topic is configured; the simulator writes the znodes."""

    phrase = "set {key} of topic {topic} to {value}"
    topic: str
    key: str
    value: str


class MoveReplicas(_Fault, frozen=True, tag="move_replicas"):
    """As create_topic: to brokers, preferred first; the simulator writes the admin znode."""

    phrase = "move {topic}-{partition} to brokers {replicas}"
    topic: str
    replicas: tuple[int, ...]
    partition: int = 0


class GiveUpMoving(_Fault, frozen=True, tag="give_up_moving"):
    """As create_topic: a partition's reassignment is given up (KIP-455)."""

    phrase = "give up moving {topic}-{partition}"
    topic: str
    partition: int = 0


class ElectPreferred(_Fault, frozen=True, tag="elect_preferred"):
    """As create_topic; the simulator writes the admin znode."""

    phrase = "have the preferred replica of {topic}-{partition} lead"
    topic: str
    partition: int = 0


class ThrottleReplication(_Fault, frozen=True, tag="throttle_replication"):
    """As create_topic: a topic's replicas are throttled on every broker, or for None no longer."""

    phrase = "throttle topic {topic}'s replication to {bytes_per_s} bytes/s"
    topic: str
    bytes_per_s: int | None = None

    @property
    def topic_configs(self) -> dict[str, str]:
        replicas = "" if self.bytes_per_s is None else EVERY_REPLICA
        return {LEADER_THROTTLED_REPLICAS: replicas, FOLLOWER_THROTTLED_REPLICAS: replicas}

    @property
    def broker_configs(self) -> dict[str, str]:
        rate = str(UNLIMITED_RATE if self.bytes_per_s is None else self.bytes_per_s)
        return {LEADER_THROTTLED_RATE: rate, FOLLOWER_THROTTLED_RATE: rate}


# ---------------------------------------------------------------- strangers
class Strange(StrEnum):
    """What a client may ask that no sound client asks; nobody else may suffer from it."""

    SAME_PARTITION_AGAIN = "same_partition_again"
    """A fetch that names one partition many times and waits; then its connection ends."""
    SEVERAL_BATCHES = "several_batches"
    """One produce of several batches for one partition, which claim 2^31 - 1 records each."""
    FORGED_COUNT = "forged_count"
    """Such batches, one a request."""
    FORGED_TIMESTAMPS = "forged_timestamps"
    """A record at the end of time, which is then looked up."""
    LONG_NAMES = "long_names"
    """DescribeConfigs of resources with names that fill a string."""
    LONG_VALUES = "long_values"
    """CreateTopics with a value that fills a string, and with brokers that there are not."""
    EXTREME_CONFIGS = "extreme_configs"
    """A topic with a configuration at its least or largest valid value, then a record."""
    NAMES_IN_ZOOKEEPER = "names_in_zookeeper"
    """A topic of a name that no broker would take, written into ZooKeeper."""
    TRANSACTIONS_AND_GROUPS = "transactions_and_groups"
    """A transactional produce, and questions for coordinators that there are not."""
    MANY_ASSIGNMENTS = "many_assignments"
    """CreateTopics with more assignments than a znode holds."""


class StrangeRequests(_Fault, frozen=True, tag="strange_requests"):
    """A client of its own asks such things `count` times, about a topic of its own.

    count also tells variants apart, where there are several.
    """

    phrase = "ask {count} times what no sound client asks: {kind}"
    kind: Strange
    count: int = 1


Fault = (
    Kill
    | Terminate
    | Pause
    | CrashLoop
    | PowerLoss
    | CrashAt
    | DelayAt
    | Cut
    | Isolate
    | SlowLink
    | LimitBandwidth
    | LossyLink
    | ResetConnections
    | HalfOpen
    | ExpireSession
    | LoseZooKeeperConnection
    | LoseZooKeeperReply
    | SlowZooKeeper
    | PauseZooKeeper
    | RestartZooKeeper
    | DiskFull
    | DiskErrors
    | SlowDisk
    | FlipBit
    | ClockJump
    | ClockRate
    | KillClient
    | CreateTopic
    | DeleteTopic
    | ChangeConfig
    | MoveReplicas
    | GiveUpMoving
    | ElectPreferred
    | ThrottleReplication
    | StrangeRequests
)

FAULTS: tuple[type[Fault], ...] = Fault.__args__


def fault_name(fault: Fault | type[Fault]) -> str:
    """Return the name that JSON gives this kind of fault."""
    kind = fault if isinstance(fault, type) else type(fault)
    return str(kind.__struct_config__.tag)
