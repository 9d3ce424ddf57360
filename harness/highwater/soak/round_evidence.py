"""Copies a round's evidence from nodes that live on, and lets go of the traces that were copied.

A round is a run on a cluster that lived before it and lives after it. Its folder has, of every
node's trace, the events since the round before was copied (see highwater_checker.slices), the logs
of all topics that the cluster has then, ZooKeeper's tree and the nodes' output.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from highwater.cluster.cluster import ANSWER_WITHIN_S, STOPPED, Cluster
from highwater.cluster.disks import DISK_FOLDER
from highwater.cluster.in_node import run_in_node
from highwater.cluster.topology import ZOOKEEPER
from highwater.cluster.trace_parts import TRACE_FOLDER, copy_traces, trace_of_part
from highwater.errors import HarnessError
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import SLICE
from highwater_checker.slices import Start, TraceBegin, kept_events
from highwater_core.events import TraceEvent
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_core.json_lines import DamagedLines
from highwater_core.traces import decode_events, encode_event

MOST_TRIES = 3
"""How often logs are copied that change meanwhile: a cleaner may replace their segments."""
MOST_KEPT = 50_000
"""Events of rounds before that every round's folder has; with more a cluster has lived enough."""


class NotCopied(HarnessError):
    """The evidence of a round could not be copied as a whole."""


class _Place(msgspec.Struct, frozen=True):
    """A line of a trace, as far as its place is concerned."""

    node: int
    incarnation: int
    seq: int


_PLACE = msgspec.json.Decoder(_Place)


class TraceCopies:
    """Cuts whole traces of a cluster's nodes into one slice a round. No I/O but on copies."""

    def __init__(self, node_names: Mapping[int, str]) -> None:
        self._names = node_names
        self._next: dict[Start, int] = {}
        """The number of the next event of each start that was copied before."""
        self._kept: list[TraceEvent] = []

    @property
    def kept(self) -> int:
        """How many events of the rounds so far later rounds have."""
        return len(self._kept)

    def cut(self, whole: Path, target: Path, living: Collection[str]) -> tuple[TraceBegin, ...]:
        """Write the slice of each trace, and return where each begins.

        whole: a folder with all that the nodes still have of their traces, one file a start.
        living: the topics of which events must be kept for the next round.
        """
        files = {
            start: path
            for path in sorted(whole.iterdir())
            if (start := _start_of(path)) is not None
        }
        earlier: dict[Start, list[TraceEvent]] = {}
        for event in self._kept:
            earlier.setdefault((event.node, event.incarnation), []).append(event)
        new: list[TraceEvent] = []
        begins = tuple(
            TraceBegin(*start, from_seq, len(earlier.get(start, ())))
            for start, from_seq in sorted(self._next.items())
        )
        for start in sorted({*files, *earlier}):
            lines = [encode_event(event) + b"\n" for event in earlier.get(start, ())]
            own = self._new_lines(start, files[start]) if start in files else []
            if lines or own:
                name = f"{self._names[start[0]]}-{start[1]}.jsonl"
                (target / name).write_bytes(b"".join((*lines, *own)))
            new += _events_in(own)
        self._kept = kept_events([*self._kept, *new], living)
        for event in new:
            self._next[event.node, event.incarnation] = event.seq + 1
        return begins

    def _new_lines(self, start: Start, path: Path) -> list[bytes]:
        """Return the lines from the first one on that was not copied before.

        A last line without its end is being written: the next round has it.
        """
        due = self._next.get(start, 0)
        data = path.read_bytes()
        lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        for number, line in enumerate(lines):
            if (place := _place_of(line)) is not None and place.seq >= due:
                return lines[number:]
        return []


def _start_of(path: Path) -> Start | None:
    """Return whose trace the file is, None of an empty one: a part was begun."""
    for line in path.read_bytes().splitlines():
        if (place := _place_of(line)) is not None:
            return place.node, place.incarnation
    return None


def _events_in(lines: Sequence[bytes]) -> list[TraceEvent]:
    """Return the events of the lines that can be read; the judge reports the others."""
    try:
        return decode_events(lines)
    except DamagedLines as damaged:
        return damaged.found


def _place_of(line: bytes) -> _Place | None:
    try:
        return _PLACE.decode(line)
    except (msgspec.DecodeError, ValueError):
        return None


class RoundEvidence:
    """The evidence of one cluster's rounds, one after another."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        names_of_nodes = {int(spec.node_id): spec.name for spec in cluster.topology.nodes()}
        self._traces = TraceCopies(names_of_nodes)
        self._copied: dict[int, list[str]] = {}
        """The files of traces that each node had when they were copied last."""

    @property
    def has_grown_too_much(self) -> bool:
        return self._traces.kept > MOST_KEPT

    def copy(self, folder: Path, topics: Collection[str]) -> None:
        """Copy the round's evidence into its run folder; the cluster must be at rest.

        Of a node that is down all is copied that it has: a round that lost records fails then, too.

        topics: the round's own.

        Raises:
            NotCopied: logs changed while they were copied, or a node that answers has no trace.
            ProgramFailed, docker.errors.APIError: a node or the engine did not do it.
        """
        self._cluster.collect_zookeeper(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as whole:
            nodes = (ZOOKEEPER, *self._cluster.node_ids)
            with ThreadPoolExecutor(len(nodes), thread_name_prefix="copy") as pool:
                list(pool.map(lambda node: self._copy_node(node, folder, Path(whole)), nodes))
            living = INTERNAL_TOPICS.union(topics)
            begins = self._traces.cut(Path(whole), folder / names.TRACE, living)
        if begins:
            (folder / SLICE.name).write_bytes(SLICE.encode(begins))

    def let_go(self) -> None:
        """Remove from the nodes the parts and traces of past starts that were copied."""
        for node, files in self._copied.items():
            if files:
                run_in_node(self._cluster, node, ["rm", "-f", "--", *files], prints=False)
        self._copied = {}

    def _copy_node(self, node: int, folder: Path, whole: Path) -> None:
        name = self._cluster.topology.node(node).name
        log = folder / names.LOGS / f"{name}.log"
        log.write_text(self._cluster.logs(node), encoding="utf-8")
        if node == ZOOKEEPER:
            return
        self._copy_trace(node, name, whole)
        if node in self._cluster.topology.broker_ids:
            self._copy_logs(node, folder / names.SEGMENTS / name)

    def _copy_trace(self, node: int, name: str, whole: Path) -> None:
        container = self._cluster.container_name(node)
        snapshot = self._cluster.try_snapshot(node, timeout_s=ANSWER_WITHIN_S)
        files = copy_traces(self._cluster.engine, container, name, whole)
        if snapshot is None:  # the round is judged by what there is; nothing may be let go
            return
        incarnation = snapshot.incarnation
        present = f"{incarnation}.jsonl"
        if not any(present in (each, trace_of_part(each)) for each in files):
            raise NotCopied(f"{name}, start {incarnation}: it has no trace")
        self._copied[node] = closed_files(files, present)

    def _copy_logs(self, broker: int, target: Path) -> None:
        if self._cluster.status(broker) in STOPPED:
            self._cluster.copy_broker_data(broker, target)
            return
        for _ in range(MOST_TRIES):
            before = self._logs_of(broker)
            shutil.rmtree(target, ignore_errors=True)
            self._cluster.copy_broker_data(broker, target)
            if self._logs_of(broker) == before:
                return
        raise NotCopied(f"the logs of broker {broker} changed while they were copied")

    def _logs_of(self, broker: int) -> list[str]:
        """Return the broker's segments, with their sizes and times, and a line of the folder."""
        folder = ["-path", DISK_FOLDER, "-printf", ".\\n"]
        logs = ["-type", "f", "-name", "*.log", "-printf", "%P %s %T@\\n"]
        words = ["find", DISK_FOLDER, "-ignore_readdir_race", *folder, "-o", *logs]
        return sorted(run_in_node(self._cluster, broker, words).splitlines())


def closed_files(files: Sequence[str], present: str) -> list[str]:
    """Return the paths of the traces' files that their node no longer writes to.

    present: the name of the file that it writes to.
    """
    return [f"{TRACE_FOLDER}/{name}" for name in sorted(files) if name != present]
