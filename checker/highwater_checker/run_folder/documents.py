"""A run's small files, each read and written whole: topology, build, promises, steps, verdict, ...

Fields of the topology and build may be absent: they are None then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from highwater_checker.finding import CheckResult
from highwater_checker.looks import Look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.files import may_be_there, read_whole
from highwater_checker.slices import TraceBegin
from highwater_checker.verdict import Requirement, Verdict
from highwater_core.config import Preset, has_controllers
from highwater_core.numbers import Int32, Int64

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]

FORMAT_VERSION = 2
"""Of promises.json, and so of the folder. From version 2 on, the intents have a line for each start
that the run makes of a node that was up before."""
ACKS_ALL = -1
ACKS_NONE = 0


Partitions = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
"""Of one topic: no controller makes more, and each is asked for by its name."""


class BadDocument(Exception):
    """The file is there and malformed; the message names it and says why.

    why: "wrong: ..." of JSON with another structure, "not JSON: ...", or "unreadable: ...".
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


@dataclass(frozen=True)
class Document(Generic[T]):
    """One file: its name in the run's folder, and the type of its contents."""

    name: str
    kind: Any

    def encode(self, value: T) -> bytes:
        """Return the file's content: indented JSON."""
        return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"

    def read(self, folder: Path) -> T | None:
        """Return the file's contents in the run's folder, None without the file.

        Raises:
            BadDocument: the file is malformed.
        """
        if not may_be_there(folder / self.name):
            return None
        try:
            data = read_whole(folder / self.name)
        except OSError as error:
            raise BadDocument(self.name, f"unreadable: {error.strerror or error}") from error
        try:
            value: T = msgspec.json.decode(data, type=self.kind)
        except msgspec.ValidationError as error:
            raise BadDocument(self.name, f"wrong: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadDocument(self.name, f"not JSON: {error}") from error
        return value


@dataclass(frozen=True, slots=True)
class RunTopology:
    """The nodes of a run, as its file has them: of a cluster on containers, or of a plan.

    toggles: the ones that replace rules of the preset.

    session_timeout_ms: of all nodes, in containers; None of a simulated run, whose nodes have it in
    their settings.
    """

    brokers: Count | None = None
    controllers: Count | None = None
    preset: str | None = None
    toggles: Mapping[str, str | bool] = field(default_factory=dict)
    broker_settings: Mapping[str, Any] = field(default_factory=dict)
    controller_settings: Mapping[str, Any] = field(default_factory=dict)
    session_timeout_ms: Int64 | None = None

    @classmethod
    def of(cls, topology: object) -> RunTopology:
        """Return the nodes of a cluster or plan whose topology has these fields, by name.

        Where brokers command themselves no controller runs, whatever the topology says.
        """
        found = msgspec.convert(topology, cls, from_attributes=True)
        alone = found.preset is not None and not has_controllers(
            Preset(found.preset), dict(found.toggles)
        )
        return replace(found, controllers=0) if alone else found


SIMULATED = "sim"


@dataclass(frozen=True, slots=True)
class RunBuild:
    """What a run used.

    commit: of the checkout, ending in "-dirty" where files differ from it; "" without one.
    client: the library of a plan's producers and consumers; "" where there was no plan.
    nodes: the builds that each node ran, in order, by its name; none where all ran the same one.
    world: SIMULATED, or "docker"; folders of earlier versions have builds of containers alone.
    highwater_version: of the package; "" in folders of earlier versions.
    """

    commit: str = ""
    client: str = ""
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    world: str = "docker"
    highwater_version: str = ""

    @property
    def is_simulated(self) -> bool:
        return self.world == SIMULATED

    def told(self) -> tuple[str, ...]:
        """Return a line for each way through the builds: broker-0, broker-1: one -> another."""
        ways = dict.fromkeys(self.nodes.values())
        return tuple(
            f"{', '.join(n for n, ran in self.nodes.items() if ran == way)}: {' -> '.join(way)}"
            for way in ways
        )


@dataclass(frozen=True, slots=True)
class RunStart:
    """The run's start, by its machine's monotonic clock and by its wall clock since 1970.

    Traces have the wall clock: ts_ns - start_wall_ns is a trace event's time in the run.
    """

    start_monotonic_ns: Int64 | None = None
    start_wall_ns: Int64 | None = None


@dataclass(frozen=True, slots=True)
class PromisedTopic:
    """A topic that the run wrote to; every replica must be read."""

    name: str
    partitions: Partitions
    replication_factor: Int32
    is_compacted: bool = False


@dataclass(frozen=True, slots=True)
class PromisedProducer:
    """A producer: its client's name, which its incarnations share, and its settings.

    acks: as in its requests, -1 is all. max_in_flight: its requests at a time, 0 for any number.
    is_idempotent: its records are there once and in order, however often it sent them (KIP-98).
    """

    client: str
    acks: Int32 = ACKS_ALL
    max_in_flight: Int32 = 0
    is_idempotent: bool = False


@dataclass(frozen=True, slots=True)
class PromisedConsumer:
    """A consumer that reads all of a topic from its start, and to the end unless it is killed."""

    client: str
    topic: str


@dataclass(frozen=True, slots=True)
class PromisedGroup:
    """A consumer group whose members, by their names as clients, together read a topic.

    to_the_end: it could go on until all was read.
    """

    group_id: str
    topic: str
    members: tuple[str, ...]
    to_the_end: bool = True


@dataclass(frozen=True, slots=True)
class Promises:
    """The promises to a run's clients, and the requirements at its end.

    Acknowledgements of a producer that is not in the list count as promised.
    least_acknowledged: with fewer acknowledged records little is proven.
    to_the_end: consumers had time to read to the end.
    only_in_sync: nodes may stay down or cut off for good, so replicas out of the ISR, and
    partitions without a leader, are not checked.
    kept: other files that the run wrote.
    writers_are_known: only clients whose histories are here wrote to the topics: a record that none
    of them sent was changed on a disk, or is somebody else's, and leaves the verdict unknown.
    """

    topics: tuple[PromisedTopic, ...] = ()
    producers: tuple[PromisedProducer, ...] = ()
    consumers: tuple[PromisedConsumer, ...] = ()
    groups: tuple[PromisedGroup, ...] = ()
    least_acknowledged: Int64 = 1
    to_the_end: bool = True
    only_in_sync: bool = False
    kept: tuple[str, ...] = ()
    writers_are_known: bool = False
    format_version: Int32 = FORMAT_VERSION

    def __post_init__(self) -> None:
        """Refuse two promises to one producer, whose acks may differ.

        Raises:
            ValueError: there are.
        """
        clients = [producer.client for producer in self.producers]
        if len(set(clients)) < len(clients):
            raise ValueError(f"a producer is promised twice: {clients}")

    @property
    def clients(self) -> list[str]:
        """Return the names of all promised clients, each of which leaves a history."""
        return [
            *(each.client for each in self.producers),
            *(each.client for each in self.consumers),
            *(member for group in self.groups for member in group.members),
        ]


@dataclass(frozen=True, slots=True)
class Excused:
    """The offset from which a partition lost committed records (simulator).

    By its disks, or by an unclean election that an operator allowed.
    """

    topic: str
    partition: Int32
    start_offset: Int64


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of a plan's step.

    Units: times in the plan's time; None of a step that was missed before.
    step: encoded and decoded by highwater_chaos.plan, which alone knows its structure.
    fired: whether it was done and acted.
    node: the node that it acted on, None where there are several.
    due_ms: its time, or the time of its condition and then_after_ms later.
    begun_ms: when the work on it began.
    acted_ms: from when on it acted.
    done_ms: when it was proven.
    drift_ms: how much later than due it acted.
    proof: how it was seen to act.
    later: its effects after the proof, as a fail-point's hit.
    missed: why it was missed, "" of one that was done.
    """

    step: msgspec.Raw
    fired: bool
    node: int | None = None
    due_ms: int | None = None
    begun_ms: int | None = None
    acted_ms: int | None = None
    done_ms: int | None = None
    drift_ms: int | None = None
    proof: str = ""
    later: str = ""
    missed: str = ""


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode's content, parsed when it is JSON (text otherwise), and its metadata."""

    path: str
    data: Any
    node_version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of evidence as it was written. sha256: of its content, in hexadecimal digits."""

    size_bytes: int
    sha256: str


PROMISES: Document[Promises] = Document("promises.json", Promises)
REQUIREMENTS: Document[tuple[Requirement, ...]] = Document(
    "requirements.json", tuple[Requirement, ...]
)
"""The events that had to happen for the run to prove anything, by the runner."""
FINAL_LOOK: Document[Look] = Document("final_look.json", Look)
"""Taken with the cluster healed and idle, just before its logs were copied. A node that was not
healed, or does not answer, is missing in it. A run that ended before that has none."""
WATCHED: Document[CheckResult] = Document("watched.json", CheckResult)
"""Checks during the run: the simulator's invariants after every event."""
EXCUSED: Document[tuple[Excused, ...]] = Document("excused.json", tuple[Excused, ...])
FILES: Document[Mapping[str, int | WrittenFile]] = Document(
    "files.json", dict[str, int | WrittenFile]
)
"""The run's files of evidence at its end, by their paths in the folder; in folders of the format 1
with their sizes in bytes alone. See highwater_checker.run_folder.evidence_files."""
SLICE: Document[tuple[TraceBegin, ...]] = Document("slice.json", tuple[TraceBegin, ...])
"""Where the traces of nodes begin that lived before the run; without the file they are whole."""
TOPOLOGY: Document[RunTopology] = Document(names.TOPOLOGY, RunTopology)
PLAN: Document[msgspec.Raw] = Document(names.PLAN, msgspec.Raw)
"""Encoded and decoded by highwater_chaos.plan, which alone knows its structure."""
BUILD: Document[RunBuild] = Document(names.BUILD, RunBuild)
CLOCK: Document[RunStart] = Document(names.CLOCK, RunStart)
VERDICT: Document[Verdict] = Document(names.VERDICT, Verdict)
STEPS: Document[tuple[StepOutcome, ...]] = Document(names.STEPS, tuple[StepOutcome, ...])
UNREACHABLE = "unreachable"
ZNODES: Document[Mapping[str, Znode | str]] = Document(names.ZNODES, dict[str, Znode | str])
"""ZooKeeper's tree by path. Where ZooKeeper did not answer, its error's text at UNREACHABLE alone.
"""

DOCUMENTS: tuple[Document[Any], ...] = (
    TOPOLOGY,
    PLAN,
    BUILD,
    CLOCK,
    VERDICT,
    PROMISES,
    REQUIREMENTS,
    FINAL_LOOK,
    WATCHED,
    EXCUSED,
    FILES,
    SLICE,
)
"""Those that a verdict, or a table of the pipeline, is made from."""
