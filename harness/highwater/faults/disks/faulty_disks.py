"""Disks that lose power, refuse operations or are slow: the file system in brokers' containers.

highwater_adapters.faulty_disk is that file system. It is told by a file of orders on the broker's
volume, and answers in another file. A probe in the container sees the orders act on the mount
itself, as a client sees a cut link.
"""

from __future__ import annotations

import math
import secrets
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
from docker.errors import NotFound

from highwater.cluster.cluster import Cluster
from highwater.cluster.container_files import put_file
from highwater.cluster.disks import DATA_FOLDER, DISK_FOLDER, FAULTY_DISK
from highwater.faults.disks import on_mount
from highwater.faults.disks.node_files import newest_trace, read_node_file
from highwater.faults.disks.volumes import ask_beside
from highwater.faults.done import Done, NotDone, prove
from highwater.faults.stopping import are_stopped, process_states
from highwater.waiting import eventually
from highwater_chaos.faults import DiskOperation
from highwater_core.events import EventKind

ORDERS, ANSWER = "disk_orders.json", "disk_answer.json"
ANSWERED_WITHIN_S = 10.0
NODE_USER = "highwater"
"""The user of the node image, who owns the mount."""
LEAST_CERTAIN = 1e-9
"""The chance that a disk which refuses some operations refuses none of a probe's."""
MOST_PROBES = 5_000
_PROGRAM = Path(on_mount.__file__).read_text(encoding="utf-8")
_FOLDER_FAILED = EventKind.LOG_FOLDER_FAILED.value.encode()


class _Orders(msgspec.Struct, frozen=True):
    number: int
    percent: dict[str, int]
    sync_delay_ms: int
    within: dict[str, str] = {}


class _Answer(msgspec.Struct, frozen=True):
    number: int
    refused: dict[str, int]
    delayed: int


class _Lost(msgspec.Struct, frozen=True):
    files: int
    lost_bytes: int
    losses: list[dict[str, str | int]]


class _Probed(msgspec.Struct, frozen=True):
    refused: str
    tried: int
    slowest_ms: int


def has_faulty_disk(cluster: Cluster, node: int) -> bool:
    """Return whether the node's disk can lose power, refuse operations and be slow."""
    about = cluster.engine.api.inspect_container(cluster.container_name(node))
    return FAULTY_DISK in (about["Config"]["Cmd"] or ())


def lose_unsynced(cluster: Cluster, node: int) -> str:
    """Take from a dead broker's disk what was not synced, and return the losses in words.

    A part of it, drawn by a seed that is told, may survive.

    Raises:
        NotDone: the disk does not know what was synced, or the helper failed.
        APIError: the engine refused.
    """
    prove(has_faulty_disk(cluster, node), _no_such_disk(node))
    seed = secrets.token_hex(4)
    command = ["python", "-m", f"{FAULTY_DISK}.loss", DISK_FOLDER, seed]
    lost = ask_beside(cluster, node, _Lost, command, "the power loss")
    first = ", ".join(f"{each['path']} {each['what']}" for each in lost.losses[:3])
    words = f"{lost.lost_bytes} unsynced bytes of {lost.files} files lost (seed {seed})"
    return f"{words}: {first}" if first else words


class FaultyDisks:
    """The disks of one cluster's brokers; calls may come from different threads."""

    def __init__(
        self,
        cluster: Cluster,
        may_have_ended: Callable[[int], None],
        start_again: Callable[[int], str],
    ) -> None:
        """may_have_ended: called with each node whose disk fails: the node may stop.

        start_again: kills the node if it runs, starts it, and returns its state.
        """
        self._cluster = cluster
        self._may_have_ended, self._start_again = may_have_ended, start_again
        self._lock = threading.Lock()
        self._acting: dict[int, list[_Trouble]] = {}
        """By node, in the order in which they were begun: the last of a kind counts."""

    def refuse(self, node: int, operation: DiskOperation, percent: int, within: str = "") -> Done:
        """Have the disk refuse a share of one kind of operation; of a refused append a part is
        written.

        within: a part of the paths of the files that are meant.

        Raises:
            NotDone, NeverHappened, APIError: it is not seen to refuse any.
        """
        self._may_have_ended(node)
        tries = tries_for(percent)

        def proof() -> str:
            seen = _probe(self._cluster, node, operation.value, tries)
            prove(seen.refused == "EIO", f"node {node}: {seen.tried} probes, none was refused")
            return f"probe {seen.tried} to {operation.value} was refused with EIO"

        return self._begin(node, _Trouble(operation.value, percent, 0, within), proof)

    def slow(self, node: int, delay_ms: int) -> Done:
        """Have every sync take longer.

        Raises:
            NotDone, NeverHappened, APIError: a sync is not seen to.
        """

        def proof() -> str:
            seen = _probe(self._cluster, node, DiskOperation.SYNC.value, 1)
            slow = seen.slowest_ms >= delay_ms
            prove(slow, f"node {node}: a probe's sync took {seen.slowest_ms} ms, not {delay_ms}")
            return f"a probe's sync took {seen.slowest_ms} ms"

        return self._begin(node, _Trouble("", 0, delay_ms), proof)

    def _begin(self, node: int, trouble: _Trouble, proof: Callable[[], str]) -> Done:
        prove(has_faulty_disk(self._cluster, node), _no_such_disk(node))
        try:
            with self._lock:
                acting = self._acting.setdefault(node, [])
                acting.append(trouble)
                before = _order(self._cluster, node, acting)
            prove(bool(before), f"node {node} is down, or stands still")
            seen = proof()
        except BaseException:
            self._end(node, trouble)
            raise
        counted = _counts(self._cluster, node, trouble)
        counts: list[int] = []

        def end() -> str:
            counts.append(_counts(self._cluster, node, trouble) - counted)
            return f"{_met(counts[-1], trouble)}; {self._end(node, trouble)}"

        return Done(
            node,
            f"orders {before} answered, {seen}",
            end,
            later=lambda: "".join(_met(count, trouble) for count in counts[:1]),
            # A probe meets the orders whatever files they name: the broker must have met them too.
            has_acted=lambda: not trouble.within or any(counts),
        )

    def _end(self, node: int, trouble: _Trouble) -> str:
        with self._lock:
            acting = self._acting.get(node, [])
            if trouble in acting:
                acting.remove(trouble)
            number = _order(self._cluster, node, acting)
        said = f"orders {number} answered" if number else "the node takes its orders when it runs"
        if any(_FOLDER_FAILED in line for line in newest_trace(self._cluster, node)):
            said += f"; its log folder had failed: {self._start_again(node)}"
        return said

    def end(self) -> list[str]:
        """Take all orders back; return the problems."""
        problems = []
        with self._lock:
            for node in tuple(self._acting):
                try:
                    _order(self._cluster, node, [])
                    del self._acting[node]
                except (NotDone, OSError) as error:
                    problems.append(f"the faulty disk of node {node}: {error}")
        return problems


class _Trouble(msgspec.Struct, frozen=True, eq=False):
    """One fault. operation: of disk_errors, "" for slow syncs."""

    operation: str
    percent: int
    delay_ms: int
    within: str = ""

    @property
    def in_words(self) -> str:
        return f"operations to {self.operation} refused" if self.operation else "syncs delayed"


def _met(count: int, trouble: _Trouble) -> str:
    return f"{count} {trouble.in_words} since then"


def tries_for(percent: int) -> int:
    """Return how many operations a probe needs to meet a refusal all but certainly."""
    if percent >= 100:
        return 1
    tries = math.log(LEAST_CERTAIN) / math.log(1 - percent / 100)
    return min(MOST_PROBES, math.ceil(tries))


def make_sound(cluster: Cluster, node: int) -> int:
    """Order a broker's faulty disk to refuse and delay nothing; return the orders' number."""
    return _order(cluster, node, [])


def is_ordered(cluster: Cluster, node: int) -> bool:
    """Return whether a faulty disk has orders to refuse or delay anything."""
    try:
        orders = _read_orders(cluster, node)
    except msgspec.DecodeError:
        return True  # a harness was killed while it wrote them: the disk follows those before
    return orders is not None and bool(orders.percent or orders.sync_delay_ms)


def _order(cluster: Cluster, node: int, acting: list[_Trouble]) -> int:
    """Give the disk its orders, wait for its answer, and return their number.

    0: the node is down, or stands still; the disk takes them when it runs.

    Raises:
        NeverHappened: the disk does not answer in time.
        APIError: the engine refused.
    """
    number = _last_number(cluster, node) + 1
    percent = {each.operation: each.percent for each in acting if each.operation}
    within = {each.operation: each.within for each in acting if each.operation}
    delay_ms = next((each.delay_ms for each in reversed(acting) if not each.operation), 0)
    orders = _Orders(number, percent, delay_ms, within)
    entry = tarfile.TarInfo(ORDERS)
    entry.mode = 0o644
    name = cluster.container_name(node)
    put_file(cluster.engine, name, DATA_FOLDER, entry, msgspec.json.encode(orders))
    if _stands_still(cluster, node):
        return 0
    eventually(
        lambda: _answer(cluster, node).number == number,
        within=ANSWERED_WITHIN_S,
        what=f"the disk of node {node} answers orders {number}",
        state=lambda: _answer(cluster, node),
    )
    return number


def _last_number(cluster: Cluster, node: int) -> int:
    try:
        orders = _read_orders(cluster, node)
    except msgspec.DecodeError:
        orders = None
    return max(_answer(cluster, node).number, orders.number if orders else 0)


def _read_orders(cluster: Cluster, node: int) -> _Orders | None:
    """Return the orders that were given last, None if none ever were.

    Raises:
        DecodeError: the file is torn.
    """
    try:
        return msgspec.json.decode(read_node_file(cluster, node, ORDERS), type=_Orders)
    except NotFound:
        return None


def _stands_still(cluster: Cluster, node: int) -> bool:
    """Return whether no process of the node runs: it is down, frozen or stopped."""
    status = cluster.status(node)
    if status != "running":
        return True
    return are_stopped(process_states(cluster.engine, cluster.container_name(node)))


def _answer(cluster: Cluster, node: int) -> _Answer:
    try:
        return msgspec.json.decode(read_node_file(cluster, node, ANSWER), type=_Answer)
    except (NotFound, msgspec.DecodeError):
        return _Answer(-1, {}, 0)


def _counts(cluster: Cluster, node: int, trouble: _Trouble) -> int:
    answer = _answer(cluster, node)
    return answer.refused.get(trouble.operation, 0) if trouble.operation else answer.delayed


def _probe(cluster: Cluster, node: int, operation: str, tries: int) -> _Probed:
    """Do operations of the kind on a file of our own on the broker's mount.

    Raises:
        NotDone: the probe failed otherwise.
        APIError: the engine refused.
    """
    command = ["python3", "-c", _PROGRAM, DISK_FOLDER, operation, str(tries)]
    name, api = cluster.container_name(node), cluster.engine.api
    made = api.exec_create(name, command, user=NODE_USER)["Id"]
    said = bytes(api.exec_start(made))
    try:
        return msgspec.json.decode(said, type=_Probed)
    except msgspec.DecodeError as error:
        raise NotDone(f"the probe of node {node}'s disk said {said[-300:]!r}") from error


def _no_such_disk(node: int) -> str:
    return f"the disk of node {node} is an ordinary one: the run was begun without faulty disks"
