"""What a plan may do to a cluster: one value per fault, told apart by "fault" in JSON.

A node is named ("broker-1", "controller-1000") or described by what it is at that moment:
"leader of t-0", "follower of t-0" and "last follower of t-0" (the ISR member of the lowest and of
the highest id that does not lead), "active controller". A fault with for_ms is taken back after
that time; for_ms None lasts until the faults end. Links are directed: source -> target on one
plane; "any" stands for every peer.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

ANY = "any"
PLANES = ("client", "replication", "control", "zookeeper")


class DiskAtStart(StrEnum):
    """What a killed node's next incarnation finds."""

    KEPT = "kept"
    EMPTY = "empty"


class DiskOperation(StrEnum):
    """The file operations that a failing disk may refuse."""

    APPEND = "append"
    READ = "read"
    TRUNCATE = "truncate"
    SYNC = "sync"
    RENAME = "rename"


class FileKind(StrEnum):
    """Where on a broker's disk a bit is flipped."""

    LOG = "log"
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    EPOCHS = "epochs"


class _Fault(msgspec.Struct, frozen=True, tag_field="fault", forbid_unknown_fields=True):
    """Common to all: how JSON tells faults apart."""


# ---------------------------------------------------------------- processes


class Kill(_Fault, frozen=True, tag="kill"):
    """SIGKILL; started again after for_ms."""

    node: str
    for_ms: int | None = None
    disk: DiskAtStart = DiskAtStart.KEPT


class Terminate(_Fault, frozen=True, tag="terminate"):
    """SIGTERM; started again for_ms after it has stopped."""

    node: str
    for_ms: int | None = None


class Pause(_Fault, frozen=True, tag="pause"):
    node: str
    for_ms: int | None = None


class PowerLoss(_Fault, frozen=True, tag="power_loss"):
    """A kill that also loses what was not synced to the disk; started again after for_ms."""

    node: str
    for_ms: int | None = None


class CrashAt(_Fault, frozen=True, tag="crash_at"):
    """SIGKILL when the node reaches a fail-point; started again after restart_after_ms."""

    node: str
    point: str
    restart_after_ms: int | None = None
    for_ms: int | None = None
    """How long it stays armed."""


class DelayAt(_Fault, frozen=True, tag="delay_at"):
    """The task that reaches the fail-point waits there for delay_ms, `count` times."""

    node: str
    point: str
    delay_ms: int
    count: int = 1
    for_ms: int | None = None


# ---------------------------------------------------------------- network


class Cut(_Fault, frozen=True, tag="cut"):
    """Nothing passes from source to target; with both_ways nor back."""

    source: str
    target: str
    plane: str
    both_ways: bool = False
    for_ms: int | None = None


class Isolate(_Fault, frozen=True, tag="isolate"):
    """The node is cut off from everyone on every plane, both ways."""

    node: str
    for_ms: int | None = None


class SlowLink(_Fault, frozen=True, tag="slow_link"):
    source: str
    target: str
    plane: str
    latency_ms: int
    jitter_ms: int = 0
    for_ms: int | None = None


class LossyLink(_Fault, frozen=True, tag="lossy_link"):
    source: str
    target: str
    plane: str
    loss_percent: int
    for_ms: int | None = None


class ResetConnections(_Fault, frozen=True, tag="reset_connections"):
    """Every connection between the two breaks; both sides are told."""

    source: str
    target: str
    plane: str


class HalfOpen(_Fault, frozen=True, tag="half_open"):
    """Every connection between the two is forgotten by the target; the source is not told."""

    source: str
    target: str
    plane: str


# ---------------------------------------------------------------- ZooKeeper


class ExpireSession(_Fault, frozen=True, tag="expire_session"):
    node: str


class LoseZooKeeperConnection(_Fault, frozen=True, tag="lose_zookeeper_connection"):
    node: str


class LoseZooKeeperReply(_Fault, frozen=True, tag="lose_zookeeper_reply"):
    """The node's next operations are carried out; their replies are lost with the connection."""

    node: str
    count: int = 1


class SlowZooKeeper(_Fault, frozen=True, tag="slow_zookeeper"):
    delay_ms: int
    for_ms: int | None = None


class RestartZooKeeper(_Fault, frozen=True, tag="restart_zookeeper"):
    """It is gone for for_ms; sessions and znodes survive."""

    for_ms: int | None = None


# ---------------------------------------------------------------- disks and clocks


class DiskFull(_Fault, frozen=True, tag="disk_full"):
    node: str
    for_ms: int | None = None


class DiskErrors(_Fault, frozen=True, tag="disk_errors"):
    """EIO from one kind of operation, with a probability."""

    node: str
    operation: DiskOperation
    percent: int = 100
    for_ms: int | None = None


class SlowDisk(_Fault, frozen=True, tag="slow_disk"):
    """Every sync takes longer."""

    node: str
    delay_ms: int
    for_ms: int | None = None


class FlipBit(_Fault, frozen=True, tag="flip_bit"):
    """The node is killed, one bit of one file at rest flips; started again after for_ms."""

    node: str
    file: FileKind
    for_ms: int | None = None


class ClockJump(_Fault, frozen=True, tag="clock_jump"):
    """The wall clock jumps and stays."""

    node: str
    by_ms: int


class ClockRate(_Fault, frozen=True, tag="clock_rate"):
    """The node's timers run faster (above 0) or slower, in parts per million."""

    node: str
    ppm: int
    for_ms: int | None = None


# ---------------------------------------------------------------- clients' admin work


class CreateTopic(_Fault, frozen=True, tag="create_topic"):
    """No fault of the cluster's, but what an operator does in the middle of it all."""

    topic: str
    partitions: int = 1
    replication_factor: int = 3
    records: int = 0
    """So many are then written to its first partition."""


class DeleteTopic(_Fault, frozen=True, tag="delete_topic"):
    topic: str


Fault = (
    Kill
    | Terminate
    | Pause
    | PowerLoss
    | CrashAt
    | DelayAt
    | Cut
    | Isolate
    | SlowLink
    | LossyLink
    | ResetConnections
    | HalfOpen
    | ExpireSession
    | LoseZooKeeperConnection
    | LoseZooKeeperReply
    | SlowZooKeeper
    | RestartZooKeeper
    | DiskFull
    | DiskErrors
    | SlowDisk
    | FlipBit
    | ClockJump
    | ClockRate
    | CreateTopic
    | DeleteTopic
)

FAULTS: tuple[type[Fault], ...] = Fault.__args__


def fault_name(fault: Fault | type[Fault]) -> str:
    """Return the name that JSON gives this kind of fault."""
    kind = fault if isinstance(fault, type) else type(fault)
    return str(kind.__struct_config__.tag)


def describe_fault(fault: Fault) -> str:
    """Return the fault in words: its name, then its fields that differ from their defaults."""
    words = [fault_name(fault).replace("_", " ")]
    for field in msgspec.structs.fields(fault):
        value = getattr(fault, field.name)
        if value != field.default:
            words.append(f"{field.name}={value}")
    return " ".join(words)
