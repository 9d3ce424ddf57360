"""Undoes all faults in a run's containers, also those that a killed harness left.

It reads labels, the engine and the kernel, and no record of faults. So it works after a harness was
killed, and does no harm when it is done again. In the baseline
- every node of the topology runs, is not paused, and has no process that is stopped (SIGSTOP);
- every node is in the run's network under its name and address;
- every node has no nft rules of ours, no ballast on its disk, no orders for a faulty one, a
  wall clock that is not moved, and no fail-point for its next start;
- no helper is left, and the sized disks are held.
Nodes do not report which fail-points are armed: all are disarmed, and the node must answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from docker.errors import APIError, NotFound

from highwater.cluster import labels
from highwater.cluster.builds import finish_replacing
from highwater.cluster.cleaning import find_runs
from highwater.cluster.cluster import STOPPED, Cluster
from highwater.cluster.disks import LOST_AT_A_START, holder_of_disks
from highwater.cluster.images import ensure_faults_image
from highwater.errors import ImageBuildFailed, NoSuchRun
from highwater.faults.disks.faulty_disks import is_ordered, make_sound
from highwater.faults.disks.volumes import (
    closed_folders,
    has_ballast,
    make_room,
    reopen_folder,
)
from highwater.faults.done import NotDone
from highwater.faults.helpers import HELPER_KIND
from highwater.faults.links.namespaces import Namespaces, NotInNamespace, Report, Task
from highwater.faults.links.rules import NO_RULES, TABLE
from highwater.faults.links.tcp_in_namespace import NO_UNTOLD
from highwater.faults.processes.clocks import is_moved, prove_clock, set_clock
from highwater.faults.processes.points import armed_for_start, disarm_everything
from highwater.faults.stopping import STOPPED_STATE, process_states, resume_processes
from highwater.waiting import NeverHappened, eventually

HEAL_WITHIN_S = 30.0
OUR_TABLE = f"inet {TABLE}"
FULL = "its disk is full of ballast"
CLOSED = "its log folder is closed to it"
FAULTY = "its disk refuses or delays operations"
MOVED = "its wall clock is moved"
GONE = "its container is gone"
"""Healing cannot bring such a node back: its volume may be gone too."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """The state of one node, as the engine reports it.

    container: running, paused, exited, created or dead; "gone" when it was removed.
    address: the node's address in the run's network; "" when the node is not in it.
    names: the names by which others find the node in the network.
    stopped: how many of its processes are stopped by SIGSTOP; 0 unless the container runs.
    """

    container: str
    address: str = ""
    names: tuple[str, ...] = ()
    stopped: int = 0


@dataclass(frozen=True, slots=True)
class Baseline:
    """A node's name, address and state when no fault acts on it."""

    name: str
    address: str
    may_be_stopped: bool = False

    def wrong_with(self, seen: NodeSeen) -> list[str]:
        """Return each difference between the node and its baseline, in words."""
        if seen.container == "gone":
            return [GONE]
        wrong = []
        if seen.container in STOPPED:
            wrong += [] if self.may_be_stopped else ["stopped"]
        elif seen.container != "running":
            wrong.append(seen.container)
        if seen.stopped:
            wrong.append(f"{seen.stopped} processes stopped")
        if not self.is_in_place(seen):
            wrong.append(self._place_of(seen))
        return wrong

    def is_in_place(self, seen: NodeSeen) -> bool:
        return seen.address == self.address and self.name in seen.names

    def _place_of(self, seen: NodeSeen) -> str:
        if not seen.address:
            return "off the network"
        if seen.address != self.address:
            return f"at {seen.address}, not {self.address}"
        return f"without its name {self.name}"


def wrong_with_rules(table: str) -> list[str]:
    """Return in words whether our table in nft's list has rules; nothing when there is no table."""
    if not table:
        return []
    acting = "elements = {" in table
    return ["nft rules that drop" if acting else "nft rules whose time is over"]


@dataclass(slots=True)
class NodeHealed:
    """The healing of one node, in words, each fact once.

    found: the differences from its baseline that were found.
    done: the steps that were taken.
    left: the differences that are still there.
    rules: nft's list of our table as it was found, "" when there was none.
    """

    node: int
    name: str
    found: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    rules: str = ""


@dataclass(slots=True)
class Healed:
    """A run after healing.

    helpers: how many helpers were removed.
    left: problems that belong to no node.
    """

    run: str
    nodes: list[NodeHealed]
    helpers: int = 0
    left: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """All differences from the baseline that are still there, in words."""
        return [*self.left, *(f"{node.name}: {what}" for node in self.nodes for what in node.left)]


def heal(
    cluster: Cluster, *, start_stopped: bool = True, within_s: float = HEAL_WITHIN_S
) -> Healed:
    """Undo all that faults may have left in the run, and look whether it is as it was.

    Tries again and again: requests that a harness sent to the engine just before it was killed may
    still be carried out. Without start_stopped, nodes that do not run count as in order.

    Raises:
        NoSuchRun: nothing of the run is in the engine.
    """
    work = _Healing(cluster, start_stopped)
    with contextlib.suppress(NeverHappened):  # then `left` is not empty
        eventually(work.pass_once, within=within_s, what="all is as it was")
    return work.healed


def baseline_problems(cluster: Cluster, *, in_namespaces: bool = True) -> list[str]:
    """Return each difference between the run and its baseline, in words; nothing is changed.

    in_namespaces: whether helpers look into the nodes' network namespaces too. Where the helpers'
        image cannot be made, no helper can have left anything there.

    Raises:
        NoSuchRun: nothing of the run is in the engine.
    """
    work = _Healing(cluster, start_stopped=True)
    work.look_only(in_namespaces=in_namespaces)
    return work.healed.problems


class _Healing:
    """One run's healing, in passes; each node's work is done beside the others'."""

    def __init__(self, cluster: Cluster, start_stopped: bool) -> None:
        self._cluster = cluster
        self._engine = cluster.engine
        self._start_stopped = start_stopped
        self._namespaces: Namespaces | None = None
        self._baselines = {
            int(spec.node_id): Baseline(
                spec.name, cluster.address(spec.node_id), may_be_stopped=not start_stopped
            )
            for spec in cluster.topology.nodes()
        }
        nodes = [NodeHealed(node, at.name) for node, at in self._baselines.items()]
        self.healed = Healed(cluster.run_id, nodes)

    def pass_once(self) -> bool:
        """Undo the differences that are seen; return whether none is left that can be undone."""
        self.healed.left = self._make_namespaces()
        self._remove_helpers()
        self._at_each(self._mend)
        self._look_for_helpers()
        left = [what for node in self.healed.nodes for what in node.left if what != GONE]
        return not (left or self.healed.left)

    def look_only(self, *, in_namespaces: bool) -> None:
        if in_namespaces:
            self._make_namespaces()
        self._look_for_helpers()
        self._at_each(self._look_at_all_of)

    def _at_each(self, work: Callable[[NodeHealed], None]) -> None:
        with ThreadPoolExecutor(len(self.healed.nodes), thread_name_prefix="heal") as pool:
            for _ in pool.map(partial(_noting_errors, work), self.healed.nodes):
                pass

    # ------------------------------------------------------------ one node

    def _mend(self, node: NodeHealed) -> None:
        if half_done := finish_replacing(self._cluster, node.node):
            _note(node.found, [half_done])
            _note(node.done, ["it has one container"])
        at, seen = self._baselines[node.node], self._look_at(node.node)
        _note(node.found, at.wrong_with(seen))
        if seen.container == "paused":
            self._cluster.unpause(node.node)
            _note(node.done, ["unpaused"])
            seen = self._look_at(node.node)  # shows processes that were stopped before the pause
            _note(node.found, at.wrong_with(seen))
        if seen.stopped:
            name = self._cluster.container_name(node.node)
            resume_processes(self._engine, name)
            _note(node.done, ["its processes go on"])
        if seen.container != "gone" and not at.is_in_place(seen):
            if seen.address:
                self._cluster.cut_off(node.node)
            self._cluster.rejoin(node.node)
            _note(node.done, [f"put back at {at.address}"])
        self._disarm(node, seen)
        if seen.container != "gone" and is_ordered(self._cluster, node.node):
            _note(node.found, [FAULTY])
            is_running = seen.container not in STOPPED
            if is_running:  # it may have taken its folder for failed, or its disk's process died
                self._cluster.kill(node.node)
            make_sound(self._cluster, node.node)
            if is_running:
                self._cluster.start_node(node.node)
            _note(node.done, ["its disk made sound"])
        if seen.container != "gone" and (closed := closed_folders(self._cluster, node.node)):
            _note(node.found, [CLOSED])
            is_running = seen.container not in STOPPED
            if is_running:  # it has taken its folder for failed
                self._cluster.kill(node.node)
            for folder in closed:
                reopen_folder(self._cluster, node.node, folder)
            if is_running:
                self._cluster.start_node(node.node)
            _note(node.done, ["its folder opened again"])
        if seen.container != "gone" and has_ballast(self._cluster, node.node):
            _note(node.found, [FULL])
            make_room(self._cluster, node.node)
            _note(node.done, ["room made on its disk"])
        if seen.container != "gone" and is_moved(self._cluster, node.node):
            _note(node.found, [MOVED])
            set_clock(self._cluster, node.node, 0)
            _note(node.done, [prove_clock(self._cluster, node.node)])
        if seen.container in STOPPED and self._start_stopped:
            self._cluster.start_node(node.node)
            _note(node.done, ["started"])
        rules_left = self._remove_rules(node)
        node.left = at.wrong_with(self._look_at(node.node)) + rules_left

    def _disarm(self, node: NodeHealed, seen: NodeSeen) -> None:
        """Disarm the node's fail-points: in the running node and in its file for the next start."""
        if seen.container == "gone" or node.node not in self._cluster.node_ids:
            return
        for_start = self._wrong_with_start(node)
        if for_start or seen.container not in STOPPED:
            disarm_everything(self._cluster, node.node)
        if for_start:
            _note(node.found, for_start)
            _note(node.done, ["fail-points disarmed"])

    def _wrong_with_start(self, node: NodeHealed) -> list[str]:
        if node.node not in self._cluster.node_ids:
            return []
        points = armed_for_start(self._cluster, node.node)
        return [f"arms {', '.join(points)} when it starts"] if points else []

    def _remove_rules(self, node: NodeHealed) -> list[str]:
        report = self._in_namespace(node.node, NO_RULES + NO_UNTOLD)
        if report is None:
            return []
        if report.shown_before:
            node.rules = node.rules or report.shown_before
            _note(node.found, wrong_with_rules(report.shown_before))
            _note(node.done, ["nft rules removed"])
        return wrong_with_rules(report.shown) + ([report.error] if report.error else [])

    def _look_at_all_of(self, node: NodeHealed) -> None:
        report = self._in_namespace(node.node, None)
        node.rules = "" if report is None else report.shown
        seen = self._look_at(node.node)
        node.left = self._baselines[node.node].wrong_with(seen) + wrong_with_rules(node.rules)
        if seen.container != "gone":
            node.left += self._wrong_with_start(node)
            is_closed = bool(closed_folders(self._cluster, node.node))
            node.left += [CLOSED] if is_closed else []
            node.left += [FAULTY] if is_ordered(self._cluster, node.node) else []
            node.left += [MOVED] if is_moved(self._cluster, node.node) else []
            node.left += [FULL] if not is_closed and has_ballast(self._cluster, node.node) else []

    def _look_at(self, node: int) -> NodeSeen:
        try:
            about = self._engine.api.inspect_container(self._cluster.container_name(node))
        except NotFound:
            return NodeSeen("gone")
        place = about["NetworkSettings"]["Networks"].get(self._cluster.network_name) or {}
        # A container that does not run has only the address that it will have when it runs.
        address = place.get("IPAddress") or (place.get("IPAMConfig") or {}).get("IPv4Address")
        names = tuple(place.get("Aliases") or ())
        status = str(about["State"]["Status"])
        return NodeSeen(status, str(address or ""), names, self._stopped_in(node, status))

    def _stopped_in(self, node: int, status: str) -> int:
        if status != "running":
            return 0
        states = process_states(self._engine, self._cluster.container_name(node))
        return states.count(STOPPED_STATE)

    def _in_namespace(self, node: int, script: str | None) -> Report | None:
        """Load the script, and return the report with nft's lists; None if the node is down."""
        if self._namespaces is None or self._look_at(node).container != "running":
            return None
        task = Task(script=script, show=OUR_TABLE)
        return self._namespaces.run({node: task})[node]

    # ------------------------------------------------------------ the run

    def _make_namespaces(self) -> list[str]:
        if self._namespaces is not None:
            return []
        # Helpers get the run's own labels, so that the run's owner stays the same.
        runs = find_runs(self._engine, self._cluster.run_id)
        if not runs:
            raise NoSuchRun(f"nothing is left of {self._cluster.run_id}")
        names = {node: self._cluster.container_name(node) for node in self._baselines}
        try:
            image = ensure_faults_image(self._engine)
        except ImageBuildFailed as error:
            return [f"the nodes' network namespaces were not looked into: {error}"]
        self._namespaces = Namespaces(self._engine, image, runs[0].labels, names)
        return []

    def _helpers(self) -> list[str]:
        of_run = [f"{labels.RUN}={self._cluster.run_id}", f"{labels.KIND}={HELPER_KIND}"]
        found = self._engine.api.containers(all=True, filters={"label": of_run})
        return [str(container["Id"]) for container in found]

    def _remove_helpers(self) -> None:
        for helper in self._helpers():
            try:
                self._engine.api.remove_container(helper, v=True, force=True)
            except NotFound:
                continue  # it ended by itself
            except APIError as error:
                self.healed.left.append(f"a helper stays: {error.explanation or error}")
                continue
            self.healed.helpers += 1

    def _look_for_helpers(self) -> None:
        count = len(self._helpers())
        if count:
            self.healed.left.append(f"{count} helpers in network namespaces")
        if holder_of_disks(self._engine, self._cluster.run_id) not in ("", "running"):
            self.healed.left.append(f"nothing holds the brokers' disks: {LOST_AT_A_START}")


def _noting_errors(work: Callable[[NodeHealed], None], node: NodeHealed) -> None:
    """Do the work at the node; its errors go to node.left and do not stop the other nodes' work."""
    try:
        work(node)
    except APIError as error:
        node.left = [f"the engine refused: {error.explanation or error}"]
    except (NeverHappened, NotInNamespace, NotDone) as error:
        node.left = [str(error)]


def _note(told: list[str], more: Iterable[str]) -> None:
    told += [what for what in more if what not in told]
