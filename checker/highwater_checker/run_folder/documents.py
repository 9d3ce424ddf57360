"""A run's small files, each read and written whole: what ran, what was promised, last seen, judged.

Of what ran each field may be absent: what a file does not tell is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from highwater_checker.finding import CheckResult
from highwater_checker.looks import Look
from highwater_checker.run_folder import names
from highwater_checker.verdict import Requirement, Verdict

T = TypeVar("T")

FORMAT_VERSION = 1
"""Of promises.json, and so of the folder."""
ACKS_ALL = -1


Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class BadDocument(Exception):
    """The file is there and is not what it should be; the message names it and says why.

    why: "wrong: ..." of JSON with another structure, "not JSON: ...", or "unreadable: ...".
    """

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


@dataclass(frozen=True)
class Document(Generic[T]):
    """One file: its name in the run's folder, and the type of what it holds."""

    name: str
    kind: Any

    def encode(self, value: T) -> bytes:
        """Return the file's content: indented JSON."""
        return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"

    def read(self, folder: Path) -> T | None:
        """Return what the run's folder has, None without the file.

        Raises:
            BadDocument: it cannot be read as what it should be.
        """
        try:
            data = (folder / self.name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadDocument(self.name, f"unreadable: {error}") from error
        try:
            value: T = msgspec.json.decode(data, type=self.kind)
        except msgspec.ValidationError as error:
            raise BadDocument(self.name, f"wrong: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadDocument(self.name, f"not JSON: {error}") from error
        return value


@dataclass(frozen=True, slots=True)
class RunTopology:
    """The nodes of a run. toggles: those that replace rules of the preset.

    session_timeout_ms: of all nodes, in containers; None of a simulated run, whose nodes have it in
    their settings.
    """

    brokers: Int32 | None = None
    controllers: Int32 | None = None
    preset: str | None = None
    toggles: Mapping[str, str | bool] = field(default_factory=dict)
    broker_settings: Mapping[str, Any] = field(default_factory=dict)
    controller_settings: Mapping[str, Any] = field(default_factory=dict)
    session_timeout_ms: Int64 | None = None


@dataclass(frozen=True, slots=True)
class RunBuild:
    """commit: of the checkout, ending in "-dirty" where files differ from it; "" without one."""

    commit: str = ""


@dataclass(frozen=True, slots=True)
class RunStart:
    """When the run began, by its machine's monotonic clock and by its wall clock since 1970.

    Nodes trace the wall clock: ts_ns - start_wall_ns is a trace event's time in the run.
    """

    start_monotonic_ns: Int64 | None = None
    start_wall_ns: Int64 | None = None


@dataclass(frozen=True, slots=True)
class PromisedTopic:
    """A topic that the run wrote to, of which every replica must be read."""

    name: str
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class PromisedProducer:
    """A producer: its client's name, which its incarnations share, and how it asked.

    acks: as in its requests, -1 is all. max_in_flight: its requests at a time, 0 for any number.
    """

    client: str
    acks: int = ACKS_ALL
    max_in_flight: int = 0


@dataclass(frozen=True, slots=True)
class PromisedConsumer:
    """A consumer that reads all of a topic from its start, and to the end unless it is killed."""

    client: str
    topic: str


@dataclass(frozen=True, slots=True)
class Promises:
    """What a run's clients were promised, and what its end must show.

    least_acknowledged: with fewer acknowledged records little is proven. Of a producer that is not
    named all acknowledgements count as promised. to_the_end: consumers were let read to the end.
    only_in_sync: nodes may stay down or cut off for good, so of replicas out of the ISR, and of
    partitions without a leader, nothing is asked. kept: files that the run wrote besides.
    """

    topics: tuple[PromisedTopic, ...] = ()
    producers: tuple[PromisedProducer, ...] = ()
    consumers: tuple[PromisedConsumer, ...] = ()
    least_acknowledged: int = 1
    to_the_end: bool = True
    only_in_sync: bool = False
    kept: tuple[str, ...] = ()
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Excused:
    """From which offset on a partition lost committed records by its disks alone: a simulator knows
    that."""

    topic: str
    partition: int
    start_offset: int


PROMISES: Document[Promises] = Document("promises.json", Promises)
REQUIREMENTS: Document[tuple[Requirement, ...]] = Document(
    "requirements.json", tuple[Requirement, ...]
)
"""What had to happen in the run for it to prove anything, as the runner saw it."""
FINAL_LOOK: Document[Look] = Document("final_look.json", Look)
"""Taken with the cluster healed and idle, just before its logs were copied. A node that was not
healed is not in it, as one that does not answer. There is none of a run that ended before that."""
WATCHED: Document[CheckResult] = Document("watched.json", CheckResult)
"""What was checked while the run went on: the simulator's invariants after every event."""
EXCUSED: Document[tuple[Excused, ...]] = Document("excused.json", tuple[Excused, ...])
TOPOLOGY: Document[RunTopology] = Document(names.TOPOLOGY, RunTopology)
PLAN: Document[msgspec.Raw] = Document(names.PLAN, msgspec.Raw)
"""As highwater_chaos.plan encodes and decodes it, which alone knows what is in it."""
BUILD: Document[RunBuild] = Document(names.BUILD, RunBuild)
CLOCK: Document[RunStart] = Document(names.CLOCK, RunStart)
VERDICT: Document[Verdict] = Document(names.VERDICT, Verdict)

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
)
