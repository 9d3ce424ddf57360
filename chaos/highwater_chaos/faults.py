"""The faults of plans: one class a kind, whose name is "fault" in JSON.

A node is given by its name ("broker-1", "controller-1000") or by its role at that moment: "leader
of t-0", "follower of t-0" and "last follower of t-0" (the ISR member with the lowest and with the
highest id that does not lead), "active controller". A fault with for_ms is undone after that time;
with None at the end of all faults. Links are directed: source -> target; "any" is every peer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from highwater_chaos.builds import THIS
from highwater_chaos.fault_base import FaultBase
from highwater_chaos.operator_work import ChangeConfig as ChangeConfig
from highwater_chaos.operator_work import ChangeFetchers as ChangeFetchers
from highwater_chaos.operator_work import CreateTopic as CreateTopic
from highwater_chaos.operator_work import DeleteTopic as DeleteTopic
from highwater_chaos.operator_work import ElectPreferred as ElectPreferred
from highwater_chaos.operator_work import ExpandTopic as ExpandTopic
from highwater_chaos.operator_work import GiveUpMoving as GiveUpMoving
from highwater_chaos.operator_work import MoveReplicas as MoveReplicas
from highwater_chaos.operator_work import ThrottleReplication as ThrottleReplication
from highwater_chaos.strange import Strange as Strange
from highwater_core.config import Preset

ANY = "any"
PLANES = ("client", "replication", "control", "zookeeper")


class DiskAtStart(StrEnum):
    """The state of the disk at a killed node's next start."""

    KEPT = "kept"
    EMPTY = "empty"


class PauseBy(StrEnum):
    """The means of pausing a node's processes; the simulator has one way for both."""

    FREEZER = "freezer"
    SIGSTOP = "sigstop"


class DiskOperation(StrEnum):
    """The operations that a failing disk may refuse."""

    APPEND = "append"
    READ = "read"
    TRUNCATE = "truncate"
    SYNC = "sync"
    RENAME = "rename"
    REMOVE = "remove"


class FileKind(StrEnum):
    """The kind of file in which a bit is flipped."""

    LOG = "log"
    LOG_TAIL = "log_tail"
    """A log from its checkpointed recovery point on: what the next start reads again."""
    INDEX = "index"
    CHECKPOINT = "checkpoint"
    EPOCHS = "epochs"
    METADATA = "metadata"
    """The file with a log's topic id."""
    IDENTITY = "identity"
    """The files with the broker's id and the storage id."""


FILE_SUFFIXES: Mapping[FileKind, tuple[str, ...]] = {
    FileKind.LOG: (".log",),
    FileKind.LOG_TAIL: (".log",),
    FileKind.INDEX: (".index", ".timeindex"),
    FileKind.CHECKPOINT: ("-offset-checkpoint",),
    FileKind.EPOCHS: ("/leader-epoch-checkpoint",),
    FileKind.METADATA: ("/partition.metadata",),
    FileKind.IDENTITY: ("meta.properties", "storage.properties"),
}
"""The endings of the paths of each kind's files."""


_STARTED_AGAIN = ", started again after {for_ms} ms"
_ARMED = ", armed for {for_ms} ms"


# ---------------------------------------------------------------- processes


class Kill(FaultBase, frozen=True, tag="kill"):
    """SIGKILL; started again after for_ms."""

    phrase = "kill {node}"
    lasting = _STARTED_AGAIN
    node: str
    for_ms: int | None = None
    disk: DiskAtStart = DiskAtStart.KEPT


class Terminate(FaultBase, frozen=True, tag="terminate"):
    """SIGTERM; started again for_ms after it has stopped."""

    phrase = "ask {node} to stop"
    lasting = _STARTED_AGAIN
    node: str
    for_ms: int | None = None


class Upgrade(FaultBase, frozen=True, tag="upgrade"):
    """SIGTERM; once it has stopped, it is started from another image, on its old disk.

    What an operator does with one node after the other. Where it does not come up with the image,
    it is put back. Then, or where the engine has no such image, the step is missed.
    """

    phrase = "upgrade {node} to image {image}"
    node: str
    image: str = THIS
    """A tag of the engine, as highwater/node:0123456789ab, or without its repository. "this" is
    the image of the code that runs the plan."""
    preset: Preset | None = None
    """Its preset from then on; None: as before."""


class Pause(FaultBase, frozen=True, tag="pause"):
    """Its processes stand still; its connections stay open."""

    phrase = "pause {node}"
    node: str
    for_ms: int | None = None
    by: PauseBy = PauseBy.FREEZER


class CrashLoop(FaultBase, frozen=True, tag="crash_loop"):
    """SIGKILL, a start at once, and SIGKILL again every_ms after each start, `times` in all."""

    phrase = "kill {node} {times} times, {every_ms} ms after each start"
    node: str
    times: int
    every_ms: int = 0
    for_ms: int | None = None
    """It is killed no more after that time, however often it was."""


class PowerLoss(FaultBase, frozen=True, tag="power_loss"):
    """A kill that also loses all that was not synced to the disk; started again after for_ms."""

    phrase = "cut the power of {node}"
    lasting = _STARTED_AGAIN
    node: str
    for_ms: int | None = None


class CrashAt(FaultBase, frozen=True, tag="crash_at"):
    """SIGKILL when the node reaches a fail-point; started again after restart_after_ms."""

    phrase = "have {node} die at {point}"
    lasting = _ARMED
    node: str
    point: str
    restart_after_ms: int | None = None
    for_ms: int | None = None
    """How long it stays armed."""


class DelayAt(FaultBase, frozen=True, tag="delay_at"):
    """The task that reaches the fail-point waits there for delay_ms, `count` times."""

    phrase = "have {node} wait {delay_ms} ms at {point}"
    lasting = _ARMED
    node: str
    point: str
    delay_ms: int
    count: int = 1
    for_ms: int | None = None


# ---------------------------------------------------------------- network


class Cut(FaultBase, frozen=True, tag="cut"):
    """Nothing passes from source to target; with both_ways nor back."""

    phrase = "cut {source} -> {target} on {plane}"
    source: str
    target: str
    plane: str
    both_ways: bool = False
    for_ms: int | None = None


class Isolate(FaultBase, frozen=True, tag="isolate"):
    """The node is cut off from everyone on every plane, both ways."""

    phrase = "cut {node} off from everyone"
    node: str
    for_ms: int | None = None


class SlowLink(FaultBase, frozen=True, tag="slow_link"):
    """What goes from source to target arrives later, by latency_ms and up to jitter_ms more."""

    phrase = "slow {source} -> {target} on {plane} down by {latency_ms} ms"
    source: str
    target: str
    plane: str
    latency_ms: int
    jitter_ms: int = 0
    for_ms: int | None = None


class LimitBandwidth(FaultBase, frozen=True, tag="limit_bandwidth"):
    """What goes from source to target shares so many kbit/s; what would wait too long is lost."""

    phrase = "limit {source} -> {target} on {plane} to {kbit_per_s} kbit/s"
    source: str
    target: str
    plane: str
    kbit_per_s: int
    for_ms: int | None = None


class LossyLink(FaultBase, frozen=True, tag="lossy_link"):
    """A share of what goes from source to target is lost."""

    phrase = "lose {loss_percent} % of {source} -> {target} on {plane}"
    source: str
    target: str
    plane: str
    loss_percent: int
    for_ms: int | None = None


class ResetConnections(FaultBase, frozen=True, tag="reset_connections"):
    """Every connection between the two breaks; both sides are told."""

    phrase = "reset the connections {source} - {target} on {plane}"
    source: str
    target: str
    plane: str


class HalfOpen(FaultBase, frozen=True, tag="half_open"):
    """Every connection between the two is forgotten by the target; the source is not told."""

    phrase = "have {target} forget its connections with {source} on {plane}"
    source: str
    target: str
    plane: str


# ---------------------------------------------------------------- ZooKeeper


class ExpireSession(FaultBase, frozen=True, tag="expire_session"):
    """ZooKeeper ends the node's session."""

    phrase = "expire the session of {node}"
    node: str


class LoseZooKeeperConnection(FaultBase, frozen=True, tag="lose_zookeeper_connection"):
    """The node's connection to ZooKeeper breaks; the session lives on."""

    phrase = "break the ZooKeeper connection of {node}"
    node: str


class LoseZooKeeperReply(FaultBase, frozen=True, tag="lose_zookeeper_reply"):
    """The node's next operations are carried out; their replies are lost with the connection."""

    phrase = "lose ZooKeeper's next replies to {node}"
    node: str
    count: int = 1


class SlowZooKeeper(FaultBase, frozen=True, tag="slow_zookeeper"):
    """Its replies take longer, to everyone."""

    phrase = "slow ZooKeeper down by {delay_ms} ms"
    delay_ms: int
    for_ms: int | None = None


class PauseZooKeeper(FaultBase, frozen=True, tag="pause_zookeeper"):
    """It freezes for for_ms; when it wakes, it ends the sessions whose time is over by then."""

    phrase = "freeze ZooKeeper"
    for_ms: int | None = None


class RestartZooKeeper(FaultBase, frozen=True, tag="restart_zookeeper"):
    """It is gone for for_ms; sessions and znodes survive."""

    phrase = "stop ZooKeeper"
    for_ms: int | None = None


# ---------------------------------------------------------------- disks and clocks


class DiskFull(FaultBase, frozen=True, tag="disk_full"):
    """ENOSPC for whatever the node would add to its disk."""

    phrase = "fill the disk of {node}"
    node: str
    for_ms: int | None = None


class DiskErrors(FaultBase, frozen=True, tag="disk_errors"):
    """EIO from one kind of operation, with a probability."""

    phrase = "fail {percent} % of {operation} on the disk of {node}"
    node: str
    operation: DiskOperation
    percent: int = 100
    for_ms: int | None = None
    within: str = ""
    """Of files and folders alone whose paths contain this: "t-0/", "t-0/00000000000000000000.log".
    """


class FailFolder(FaultBase, frozen=True, tag="fail_folder"):
    """EIO from every operation in the broker's log folder: nothing is lost, nothing can be reached.

    After for_ms the folder is sound, and the broker is started again. The other log folders of a
    broker that has several go on.
    """

    phrase = "fail the log folder of {node}"
    lasting = ", sound after {for_ms} ms, and the broker started again"
    node: str
    for_ms: int | None = None
    folder: int | None = None
    """The number of the folder, from 0 on, where topology.log_folders_per_broker says several."""


class SlowDisk(FaultBase, frozen=True, tag="slow_disk"):
    """Every sync takes longer."""

    phrase = "slow every sync of {node} down by {delay_ms} ms"
    node: str
    delay_ms: int
    for_ms: int | None = None


class FlipBit(FaultBase, frozen=True, tag="flip_bit"):
    """The node is killed, one bit of one file at rest flips; started again after for_ms."""

    phrase = "kill {node} and flip a bit of one {file} file"
    lasting = _STARTED_AGAIN
    node: str
    file: FileKind
    for_ms: int | None = None


class ClockJump(FaultBase, frozen=True, tag="clock_jump"):
    """The wall clock jumps, and stays so until the faults end."""

    phrase = "move the clock of {node} by {by_ms} ms"
    node: str
    by_ms: int


class ClockRate(FaultBase, frozen=True, tag="clock_rate"):
    """The node's timers run faster (above 0) or slower, in parts per million."""

    phrase = "let the timers of {node} run {ppm} ppm faster"
    node: str
    ppm: int
    for_ms: int | None = None


# ---------------------------------------------------------------- clients


class KillClient(FaultBase, frozen=True, tag="kill_client"):
    """SIGKILL of a producer ("p0"), a consumer ("c0"), a member ("g0m1") or any of them.

    It is started again after for_ms. What it had asked for and was not told of is unknown. Its next
    incarnation writes other values, and reads from the start, or joins its group.
    """

    phrase = "kill client {client}"
    lasting = _STARTED_AGAIN
    client: str = ANY
    for_ms: int | None = None


# ---------------------------------------------------------------- strangers


class StrangeRequests(FaultBase, frozen=True, tag="strange_requests"):
    """A client of its own asks such things `count` times, about a topic of its own.

    count also tells variants apart, where there are several.
    """

    phrase = "ask {count} times what no sound client asks: {kind}"
    kind: Strange
    count: int = 1


Fault = (
    Kill
    | Terminate
    | Upgrade
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
    | FailFolder
    | SlowDisk
    | FlipBit
    | ClockJump
    | ClockRate
    | KillClient
    | CreateTopic
    | ExpandTopic
    | DeleteTopic
    | ChangeConfig
    | MoveReplicas
    | GiveUpMoving
    | ElectPreferred
    | ThrottleReplication
    | ChangeFetchers
    | StrangeRequests
)

FAULTS: tuple[type[Fault], ...] = Fault.__args__


def log_folder_name(number: int) -> str:
    """Return the name of one of a broker's several log folders: d0, d1, ..."""
    return f"d{number}"


def fault_name(fault: Fault | type[Fault]) -> str:
    """Return the name that JSON gives this kind of fault."""
    kind = fault if isinstance(fault, type) else type(fault)
    return str(kind.__struct_config__.tag)
