"""The ports through which node code reaches the world.

Each has a real adapter (highwater_adapters) and a fake (highwater_simulator), both tested by one
suite in tests/contract. An adapter's exceptions are listed here by type; any other is a bug.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, Endpoint, TopicId
from highwater_core.messages import ControlRequest, ControlResponse
from highwater_core.runtime import Queue, Runtime

Buffer = bytes | bytearray | memoryview

ANY_VERSION = -1


class CannotStart(Exception):
    """A node must not run with its settings, disk or cluster; the message tells an operator why.

    An operating error, not a bug: raised out of a node's run() before it serves, it ends the
    process with exit code 1.
    """


# ---------------------------------------------------------------- ZooKeeper


class CoordinationError(Exception):
    """ZooKeeper did not carry out an operation."""


class NoNode(CoordinationError):
    """The znode, or the parent of the one to create, does not exist."""


class NodeExists(CoordinationError):
    """The znode to create exists."""


class BadVersion(CoordinationError):
    """A conditional write met another version."""


class NotEmpty(CoordinationError):
    """The znode to delete has children."""


class ConnectionLost(CoordinationError):
    """No answer: the operation may or may not have been carried out."""


class TooLarge(CoordinationError):
    """The request is larger than ZooKeeper takes; it was not sent, and never can be."""


class SessionExpired(CoordinationError):
    """The session is over: its ephemeral znodes and watches are gone, and this port is dead."""


class MultiFailed(CoordinationError):
    """A multi was refused as a whole: operation `index`, the first that failed, met `error`."""

    def __init__(self, index: int, error: CoordinationError) -> None:
        super().__init__(f"operation {index}: {type(error).__name__} {error}")
        self.index = index
        self.error = error


@dataclass(frozen=True, slots=True)
class Stat:
    """A znode's metadata. czxid grows with each creation; node_version by one with each set."""

    czxid: int
    mzxid: int
    node_version: int
    ephemeral_owner: int


@dataclass(frozen=True, slots=True)
class CreateOp:
    """sequential: ten digits are appended to the path; a multi does not return them."""

    path: str
    data: bytes
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetOp:
    path: str
    data: bytes
    expected_version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class DeleteOp:
    path: str
    expected_version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class CheckOp:
    path: str
    expected_version: int


MultiOp = CreateOp | SetOp | DeleteOp | CheckOp


class CoordinationEventKind(StrEnum):
    NODE_CHANGED = "node_changed"
    """A watched znode was created, set or deleted."""
    CHILDREN_CHANGED = "children_changed"
    SESSION_ESTABLISHED = "session_established"
    """Connected: the first time, or again within the session. A new session after an expiry
    needs a new port."""
    SESSION_SUSPENDED = "session_suspended"
    SESSION_EXPIRED = "session_expired"


@dataclass(frozen=True, slots=True)
class CoordinationEvent:
    """A watch that fired (one-shot, without data) or a change of the session."""

    kind: CoordinationEventKind
    path: str = ""


class Coordination(Protocol):
    """One ZooKeeper session.

    Every call may also raise ConnectionLost (outcome unknown), SessionExpired (final) or TooLarge
    (not sent: see highwater_core.request_sizes). A path that ZooKeeper does not allow, with a part
    such as "..", counts as one that does not exist. Calls of one session are answered in their
    order, and a watch's event comes before any answer that shows its change.
    """

    @property
    def session_id(self) -> int: ...

    @property
    def events(self) -> Queue[CoordinationEvent]:
        """Watches and session changes, in the order in which ZooKeeper sent them."""
        ...

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a znode and return its path, with ten digits appended when sequential.

        Raises:
            NodeExists: the znode exists.
            NoNode: its parent does not exist.
        """
        ...

    async def ensure_path(self, path: str) -> None:
        """Create the persistent znode and its missing parents, all empty."""
        ...

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes, Stat]:
        """Return data and metadata; with watch, one NODE_CHANGED comes at its next change.

        Raises:
            NoNode: no watch is set then.
        """
        ...

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Return metadata or None; with watch, one NODE_CHANGED at creation, change, deletion."""
        ...

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Return the children's names, sorted; with watch, one CHILDREN_CHANGED.

        Raises:
            NoNode: no watch is set then.
        """
        ...

    async def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        """Write data.

        Raises:
            NoNode, BadVersion: nothing was written.
        """
        ...

    async def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        """Delete a znode.

        Raises:
            NoNode, BadVersion, NotEmpty: nothing was deleted.
        """
        ...

    async def multi(self, operations: Sequence[MultiOp]) -> list[Stat | None]:
        """Carry out all operations or none; a Stat for each set, None for the others.

        Raises:
            MultiFailed: nothing was carried out.
        """
        ...

    async def close(self) -> None:
        """End the session: its ephemeral znodes vanish at once."""
        ...


class CoordinationFactory(Protocol):
    """Opens sessions, one after another: a node whose session expired opens the next."""

    async def open(self, session_timeout_ms: int) -> Coordination:
        """Return a connected session, trying until there is one."""
        ...


# ---------------------------------------------------------------- control and data plane


class CallEnd(StrEnum):
    """What a failed call tells of its peer."""

    BROKEN = "broken"
    """The peer's machine closed, reset or refused the connection: it could be reached."""
    SILENT = "silent"
    """Nothing was heard, or nothing is known."""
    ANSWERED = "answered"
    """The peer lives: it answered that it cannot carry the call out now."""


class CallFailed(Exception):
    """A call's outcome is unknown: no connection, a reset, or no answer in time.

    `sent` is False only when the request certainly never left this node.
    """

    def __init__(self, message: str, *, sent: bool = True, end: CallEnd = CallEnd.SILENT) -> None:
        super().__init__(message)
        self.sent = sent
        self.end = end


class CallRefused(CallFailed):
    """The request cannot be sent, or the peer cannot read it: it will never be carried out."""


class ControlPlane(Protocol):
    """Calls between nodes over gRPC."""

    async def call(
        self, endpoint: Endpoint, request: ControlRequest, timeout_ms: int
    ) -> ControlResponse:
        """Return the peer's answer.

        Raises:
            CallFailed: the request may still be carried out, even later.
            CallRefused: the request will never be carried out.
        """
        ...

    def serve(self, handler: ControlHandler) -> None:
        """Answer incoming calls with the handler's responses; the handler gets them in order."""
        ...


ControlHandler = Callable[[ControlRequest], Awaitable[ControlResponse]]


class Transport(Protocol):
    """Calls to brokers in Kafka's protocol (values of highwater_wire.kafka.messages).

    One connection per endpoint and `connection` name: requests on it are answered in order.

    When a connection ends, the broker cancels the waiting handlers of its requests, as tasks are
    cancelled: no client would get their answers. Their effects so far (records appended, a request
    forwarded) stay.
    """

    async def call(self, endpoint: Endpoint, connection: str, request: Any, timeout_ms: int) -> Any:
        """Return the response value; None, once it is sent, for a request that has no response.

        Raises:
            CallFailed: the request may still be carried out. The connection is closed.
        """
        ...

    def disconnect(self, endpoint: Endpoint, connection: str) -> None:
        """Close that connection if there is one; calls in flight raise CallFailed."""
        ...


# ---------------------------------------------------------------- files


class File(Protocol):
    """An open file that grows at its end.

    append, pread, truncate and overwrite work on the page cache and return at once; only sync waits
    for the disk. Each may raise OSError (ENOSPC, EIO); an append that raises leaves the size
    unchanged.
    """

    @property
    def path(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers at the end with one system call; return the position of the first."""
        ...

    def pread(self, position: int, length: int) -> bytes:
        """Return up to length bytes from position; fewer only at the file's end."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def overwrite(self, content: Buffer) -> None:
        """Replace the whole content where it lies: a full disk has room for as many bytes again.

        A process or machine that ends meanwhile may leave a mixture of both contents.
        """
        ...

    async def sync(self) -> None:
        """Return once content and size are on the disk (fdatasync, off the event loop)."""
        ...

    def close(self) -> None: ...


class DiskSpace(NamedTuple):
    """Of the disk that a folder is on. usable_bytes: what this process may still write."""

    total_bytes: int
    usable_bytes: int


class FileSystem(Protocol):
    """A node's own folder on a mounted volume; paths are relative to it, with '/' between parts.

    A creation, rename or removal survives a power loss only after sync_folder of its folder.
    """

    def open(self, path: str) -> File:
        """Open the file, creating it empty when it does not exist (its folder must)."""
        ...

    def make_folder(self, path: str) -> None:
        """Create the folder and its missing parents; an existing one is left alone."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Return the folder's entries' names, sorted; empty when it does not exist."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder, replacing a file at the target atomically."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it; nothing happens when it does not exist."""
        ...

    def space(self, path: str) -> DiskSpace | None:
        """Return the size of the folder's disk, None where it is not known."""
        ...

    def bound_syncs(self, folder: str, timeout_ms: int, hangs: Callable[[], None]) -> None:
        """Give up a sync in the folder that has not returned after timeout_ms; call it once.

        From then on every sync in the folder raises OSError (ETIMEDOUT), also those under way:
        `hangs` is called first. Syncs in other folders that have a bound wait for none of these.
        Time in which the process stands still does not count.

        folder: "" or a folder in this one. A folder belongs to the nearest one with a bound.
        """
        ...

    async def sync_folder(self, path: str) -> None: ...

    async def sync_many(self, files: Sequence[str], folders: Sequence[str]) -> None:
        """Return once the files' contents and the folders' entries survive a power loss.

        For many files it is one wait for the disk, not one for each.
        """
        ...


# ---------------------------------------------------------------- randomness and traces


class Rng(Protocol):
    """A named stream of random numbers, independent of the draws of other streams."""

    def stream(self, name: str) -> Rng: ...

    def randrange(self, start: int, stop: int) -> int:
        """Return an integer in [start, stop)."""
        ...

    def random(self) -> float: ...

    def hex_id(self) -> str:
        """Return 32 random hex digits."""
        ...


class Trace(Protocol):
    """Writes this node's events; node, incarnation, seq and time are filled in."""

    def emit(
        self,
        kind: EventKind,
        *,
        topic: str | None = None,
        topic_id: TopicId = NO_TOPIC_ID,
        partition: int | None = None,
        leader_epoch: int | None = None,
        controller_epoch: int | None = None,
        offset: int | None = None,
        **detail: Any,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """All ports of a node."""

    runtime: Runtime
    coordination: CoordinationFactory
    control: ControlPlane
    transport: Transport
    files: FileSystem
    rng: Rng
    trace: Trace
    exit_now: Callable[[], None]
    """Ends the process at once, as SIGKILL does; if it returns, the caller must do no more."""
    boot_id: str = ""
    """The id of the machine's boot: while it is the same, written data is at least still in the
    page cache. Empty where it is unknown, which equals no other."""
