"""A plan: all inputs of a run in one JSON file, for both worlds.

A seed only generates a plan; the plan alone repeats the run. Times count from the moment at which
the topics exist and their ISRs are full. Phase one, until quiet_after_ms, has the faults. In phase
two the core is healed for good and must make progress; all other nodes stay failed. No part of a
plan names a toggle except topology.toggles, which generated plans leave empty.
Source: docs/explanation/simulator.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import PurePath

import msgspec

from highwater_chaos.bounds import Bounds, problems_of_numbers
from highwater_chaos.builds import NodeBuild, presets_in, problems_of_builds
from highwater_chaos.fault_problems import (
    is_controller,
    is_node,
    is_partition,
    is_topic_name,
    problems_of_fault,
)
from highwater_chaos.faults import ANY, FailFolder, Fault, fault_name, log_folder_name
from highwater_chaos.node_settings import problems_of_settings
from highwater_chaos.sparse import without_defaults
from highwater_core.config import Preset, has_controllers, resolve_toggles
from highwater_core.events import EventKind
from highwater_core.numbers import Int32, Int64

FORMAT = 2
MAX_IN_FLIGHT = 5
"""Requests on one connection; clients refuse more."""
ACKS_ALL = -1
MOST_MEMBERS = 100
MOST_LOG_FOLDERS = 16
SENDFILE_FROM_BYTES = 32 * 1024
"""From here on brokers send records by sendfile."""
_TOPIC_BOUNDS: Mapping[str, Bounds] = {"partitions": (1, None), "min_insync_replicas": (1, None)}
_PRODUCER_BOUNDS: Mapping[str, Bounds] = {
    "rate_per_s": (1, None),
    "acks": (-1, 1),
    "max_in_flight": (1, MAX_IN_FLIGHT),
    "batch_max_records": (1, None),
    "linger_ms": (0, None),
    "request_timeout_ms": (1, None),
    "delivery_timeout_ms": (1, None),
    "value_bytes": (0, 1_000_000),
    "keys": (0, None),
}
_GROUP_BOUNDS: Mapping[str, Bounds] = {
    "members": (1, MOST_MEMBERS),
    "commit_every_ms": (1, None),
    "stays_ms": (0, None),
    "session_timeout_ms": (1, None),
    "request_timeout_ms": (1, None),
}


class BadPlan(Exception):
    """The text is no plan; the message says what is wrong and where."""


class Latencies(StrEnum):
    """The distribution of messages' latencies."""

    EVEN = "even"
    """Evenly between the minimum and the maximum."""
    HEAVY_TAILED = "heavy_tailed"
    """Mostly near the minimum, seldom far beyond the maximum."""


class PlanTopology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes and their settings, by the names of BrokerSettings and ControllerSettings."""

    brokers: Int32 = 3
    controllers: Int32 = 2
    preset: Preset = Preset.FENCED
    toggles: dict[str, str | bool] = {}
    broker_settings: dict[str, int] = {}
    controller_settings: dict[str, int] = {}
    log_folders_per_broker: int = 1
    """With several, each of a broker's replicas is in one of them: d0, d1, ..."""
    builds: dict[str, NodeBuild] = {}
    """With which image and preset nodes begin, by name, or "any" for the others."""

    @property
    def controller_count(self) -> int:
        """How many controllers run: none where brokers command themselves."""
        return self.controllers if has_controllers(self.preset, self.toggles) else 0

    @property
    def settings_of_brokers(self) -> dict[str, int | str]:
        """The broker settings together with the one that names several log folders."""
        if self.log_folders_per_broker == 1:
            return dict(self.broker_settings)
        names = map(log_folder_name, range(self.log_folders_per_broker))
        return {**self.broker_settings, "log_folders": ",".join(names)}


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The properties of every link, for the simulator alone."""

    latencies: Latencies = Latencies.EVEN
    minimum_us: int = 100
    maximum_us: int = 600
    through_codecs: bool = False
    """Whether every message is encoded and decoded on its way."""
    shuffles_ties: bool = False
    """Whether the order of several nodes' actions at one instant is drawn."""
    sends_file_from_bytes: int = SENDFILE_FROM_BYTES
    """Fetched records of so many bytes or more are read from their file when they arrive."""


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "t"
    partitions: int = 1
    replication_factor: int = 3
    min_insync_replicas: int = 1
    """More than there are replicas counts as all of them (KAFKA-15583)."""
    has_id: bool = True
    """Whether a broker creates it; else ZooKeeper gets it, as from tools before KIP-516."""
    is_compacted: bool = False
    """Whether old segments are compacted to the newest record of each key, instead of deleted."""

    @property
    def configs(self) -> tuple[tuple[str, str], ...]:
        """The configuration with which it is created."""
        configs = (("min.insync.replicas", str(self.min_insync_replicas)),)
        return (*configs, ("cleanup.policy", "compact")) if self.is_compacted else configs

    @property
    def least_in_sync(self) -> int:
        """The number of replicas in sync that a commit needs."""
        return min(self.min_insync_replicas, self.replication_factor)


class Producer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client that writes unique values to all partitions of a topic."""

    topic: str = "t"
    rate_per_s: int = 20
    acks: int = -1
    max_in_flight: int = 1
    batch_max_records: int = 1
    linger_ms: int = 0
    retries: bool = True
    request_timeout_ms: int = 2_000
    delivery_timeout_ms: int = 5_000
    value_bytes: int = 0
    """Values are padded to this size."""
    keys: int = 0
    """Each record has one of so many keys, drawn; 0: no keys, which a compacted topic refuses."""
    idempotent: bool = False
    """Whether each record is written once, however often it is sent; with acks -1 and retries."""


class Consumer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client that reads every partition of a topic from its start, and follows it."""

    topic: str = "t"


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A consumer group: its members share a topic's partitions, and commit what they have read.

    They read on from the committed offsets, and from the start where there are none.
    """

    topic: str = "t"
    members: int = 2
    commit_every_ms: int = 200
    """How often a member commits what it has read since."""
    stays_ms: int = 0
    """How long a member stays before it leaves, or every other time stays away without a word; then
    it comes again as a new one. The later ones stay longer. 0: all stay."""
    session_timeout_ms: int = 6_000
    """Brokers take no less, unless group_min_session_timeout_ms says so."""
    request_timeout_ms: int = 2_000
    group_id: str = ""
    """Empty: g0, g1, ... by its place."""


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topics: tuple[Topic, ...] = (Topic(),)
    producers: tuple[Producer, ...] = (Producer(),)
    consumers: tuple[Consumer, ...] = (Consumer(),)
    groups: tuple[Group, ...] = ()


class Observed(StrEnum):
    """States that a step may wait for."""

    ISR_IS_LEADER = "isr_is_leader"
    """The ISR is {leader}."""
    FOLLOWER_BEHIND = "follower_behind"
    """An ISR member's log ends below the leader's."""
    HIGH_WATERMARK_BEHIND = "high_watermark_behind"
    """An ISR member's high watermark is below the leader's."""
    LEADER_EPOCH = "leader_epoch"
    """The leader epoch is at least `count`."""
    EVENT = "event"
    """The event was traced `count` times since the step's time, by `node` if given."""


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on states that are visible from outside; true at most once."""

    state: Observed
    partition: str = ""
    event: str = ""
    node: str = ""
    count: int = 1
    then_after_ms: int = 0


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault at at_ms, or at the first moment from then on at which `when` holds."""

    at_ms: int
    do: Fault
    when: When | None = None


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The expected result of a scenario's run."""

    verdict: str = "pass"
    invariant: str = ""
    """The violated invariant, where the verdict is fail. In virtual time a run goes on up to its
    violation, past those of other invariants that a row of the catalogue explains."""
    rows: tuple[int, ...] = ()
    """The rows of the catalogue that explain it. A plan with toggles names those that they bring
    back; otherwise only the preset's rows explain a violation."""
    planted: str = ""
    """The planted bug that every node has; empty for none."""
    least_acknowledged: int = 0
    """Records that must be acknowledged; a run with fewer is unknown."""
    least_takeovers: int = 0
    """Faults after which another leader or controller must be seen; with fewer the run is
    unknown."""
    with_every_fix: str = ""
    """The title of the same schedule with every fix (highwater_chaos.fixed), which passes."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run.

    core: the nodes that are healed in phase two; empty: all.
    probes_shrinking: whether the end also requires that a leader commits without a live follower
    that cannot fetch (L5), and adds it to the ISR again (L4); for the simulator alone.
    """

    seed: Int64
    title: str = ""
    commit: str = ""
    topology: PlanTopology = PlanTopology()
    network: Network = Network()
    workload: Workload = Workload()
    steps: tuple[Step, ...] = ()
    quiet_after_ms: int = 8_000
    core: tuple[str, ...] = ()
    probes_shrinking: bool = False
    expected: Expected | None = None
    format: int = FORMAT

    @property
    def planted(self) -> str:
        """The planted bug that every node has, "" for none."""
        return "" if self.expected is None else self.expected.planted

    @property
    def presets(self) -> tuple[Preset, ...]:
        """All presets that its nodes ever have, the cluster's first."""
        builds = [build.preset for build in self.topology.builds.values()]
        steps = [getattr(step.do, "preset", None) for step in self.steps]
        return presets_in(self.topology.preset, (*builds, *steps))


class _Format(msgspec.Struct, frozen=True):
    """The format of a plan of any format."""

    format: int = FORMAT


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(Plan)
_FORMAT_DECODER = msgspec.json.Decoder(_Format)


def encode_plan(plan: Plan, *, omit_defaults: bool = False) -> bytes:
    """Return the plan as indented JSON; equal plans give equal bytes.

    omit_defaults: write only fields that differ from their defaults, for readers; a plan that must
    mean the same after a change of defaults is written whole.
    """
    if omit_defaults:
        content = {"title": plan.title, **without_defaults(plan), "format": plan.format}
        text = msgspec.json.encode(content)  # in the order of the fields' declaration
    else:
        text = _ENCODER.encode(plan)
    return msgspec.json.format(text, indent=2) + b"\n"


def decode_plan(text: bytes, source: PurePath | str = "plan") -> Plan:
    """Return the plan.

    Raises:
        BadPlan: the text is no JSON, has another format or an unknown field, or contradicts itself.
    """
    try:
        for problem in _problems_of_format(_FORMAT_DECODER.decode(text).format):
            raise BadPlan(f"{source}: {problem}")
        plan = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadPlan(f"{source}: {error}") from error
    for problem in problems_of(plan):
        raise BadPlan(f"{source}: {problem}")
    return plan


def node_names(topology: PlanTopology) -> tuple[str, ...]:
    """Return the names of all nodes, brokers first."""
    brokers = [f"broker-{number}" for number in range(topology.brokers)]
    controllers = [f"controller-{1000 + number}" for number in range(topology.controller_count)]
    return (*brokers, *controllers)


def client_names(workload: Workload) -> tuple[str, ...]:
    """Return the names of all clients: producers p0, p1, ..., consumers c0, c1, ..., and members.

    The members of the first group are g0m0, g0m1, ...
    """
    producers = (f"p{number}" for number in range(len(workload.producers)))
    consumers = (f"c{number}" for number in range(len(workload.consumers)))
    members = (name for number in range(len(workload.groups))
               for name in member_names(workload, number))  # fmt: skip
    return (*producers, *consumers, *members)


def group_name(number: int) -> str:
    """Return the name of the group, from which its members have theirs: g0, g1, ..."""
    return f"g{number}"


def group_id_of(workload: Workload, number: int) -> str:
    """Return the id by which brokers know the group: its name, where the plan gives no other."""
    return workload.groups[number].group_id or group_name(number)


def member_names(workload: Workload, number: int) -> tuple[str, ...]:
    """Return the names of the group's members, as clients: g0m0, g0m1, ..."""
    count = workload.groups[number].members
    return tuple(f"{group_name(number)}m{member}" for member in range(count))


# ---------------------------------------------------------------- problems


def problems_of(plan: Plan) -> list[str]:
    """Return the problems that make the plan impossible in any world; empty without any."""
    return list(_problems_of(plan))


def _problems_of(plan: Plan) -> Iterator[str]:
    yield from _problems_of_format(plan.format)
    if plan.quiet_after_ms < 0:
        yield "quiet_after_ms is negative"
    yield from _problems_of_topology(plan.topology)
    yield from _problems_of_network(plan.network)
    yield from _problems_of_workload(plan.workload, plan.topology.brokers)
    known = set(node_names(plan.topology))
    yield from _problems_of_core(plan.core, known, plan.topology.controller_count)
    yield from problems_of_builds(plan.topology.builds, plan.presets, known)
    for number, step in enumerate(plan.steps, 1):
        where = f"step {number}, {fault_name(step.do)}"
        for problem in _problems_of_step(step, known):
            yield f"{where}: {problem}"
        client = getattr(step.do, "client", ANY)
        if client not in (ANY, *client_names(plan.workload)):
            yield f"{where}: there is no client {client!r}"
        if isinstance(step.do, FailFolder):
            wrong = _problems_of_folder(step.do, plan.topology.log_folders_per_broker)
            yield from (f"{where}: {problem}" for problem in wrong)


def _problems_of_format(number: int) -> Iterator[str]:
    if number != FORMAT:
        yield f"format {number} is not {FORMAT}"


def _problems_of_topology(topology: PlanTopology) -> Iterator[str]:
    if topology.brokers < 1 or topology.controllers < 1:
        yield "a cluster has at least one broker and one controller"
    if not 1 <= topology.log_folders_per_broker <= MOST_LOG_FOLDERS:
        yield f"a broker has 1 to {MOST_LOG_FOLDERS} log folders"
    try:
        resolve_toggles(topology.preset, topology.toggles)
    except msgspec.ValidationError as error:
        yield f"toggles: {error}"
    yield from problems_of_settings("broker", topology.broker_settings)
    yield from problems_of_settings("controller", topology.controller_settings)


def _problems_of_network(network: Network) -> Iterator[str]:
    if not 0 <= network.minimum_us < network.maximum_us:
        yield f"latencies from {network.minimum_us} to {network.maximum_us} us are none"
    if network.sends_file_from_bytes < 1:
        yield "records of less than 1 byte cannot be sent from a file"


def _problems_of_workload(workload: Workload, brokers: int) -> Iterator[str]:
    topics = Counter(topic.name for topic in workload.topics)
    if not topics:
        yield "a plan has at least one topic"
    yield from (
        f"topic {name} is there {count} times" for name, count in topics.items() if count > 1
    )
    for topic in workload.topics:
        if not is_topic_name(topic.name):
            yield f"{topic.name!r} is no topic's name"
        if not 1 <= topic.replication_factor <= brokers:
            yield f"topic {topic.name}: {topic.replication_factor} replicas"
        wrong = problems_of_numbers(topic, _TOPIC_BOUNDS)
        yield from (f"topic {topic.name}: {what}" for what in wrong)
    for number, producer in enumerate(workload.producers):
        wrong = problems_of_numbers(producer, _PRODUCER_BOUNDS)
        yield from (f"producer p{number}: {what}" for what in wrong)
        if producer.idempotent and not (producer.acks == ACKS_ALL and producer.retries):
            yield f"producer p{number} is idempotent, without acks -1 or without retries"
    for number, group in enumerate(workload.groups):
        wrong = problems_of_numbers(group, _GROUP_BOUNDS)
        yield from (f"group {group_name(number)}: {what}" for what in wrong)
    ids = Counter(group_id_of(workload, number) for number in range(len(workload.groups)))
    yield from (f"group id {each!r} is there {n} times" for each, n in ids.items() if n > 1)
    compacted = {topic.name for topic in workload.topics if topic.is_compacted}
    for number, producer in enumerate(workload.producers):
        if producer.topic in compacted and not producer.keys:
            yield f"producer p{number} writes without keys to a compacted topic"
    clients: tuple[Producer | Consumer | Group, ...] = (
        *workload.producers, *workload.consumers, *workload.groups,
    )  # fmt: skip
    for client in clients:
        if client.topic not in topics:
            yield f"a client of topic {client.topic!r}, which there is not"


def _problems_of_core(core: tuple[str, ...], known: set[str], controllers: int) -> Iterator[str]:
    """A core without a broker and a controller, if there are any, makes no progress."""
    yield from (f"core: there is no node {name!r}" for name in core if name not in known)
    if len(set(core)) < len(core):
        yield "core: a node is there twice"
    kinds = {is_controller(name) for name in core}
    if core and controllers and len(kinds) < 2:
        yield "core: it has at least one broker and one controller"


def _problems_of_step(step: Step, known: set[str]) -> Iterator[str]:
    if step.at_ms < 0:
        yield "its time is negative"
    yield from problems_of_fault(step.do, known)
    if step.when is not None:
        yield from _problems_of_condition(step.when, known)


def _problems_of_folder(fault: FailFolder, count: int) -> Iterator[str]:
    if fault.folder is None and count > 1:
        yield f"it does not say which of a broker's {count} log folders fails"
    elif fault.folder is not None and not 0 <= fault.folder < count:
        yield f"a broker has no log folder {fault.folder}: they are numbered 0 to {count - 1}"


def _problems_of_condition(when: When, known: set[str]) -> Iterator[str]:
    if when.state is Observed.EVENT and not when.event:
        yield "it waits for an event without naming it"
    elif when.event and when.event not in tuple(EventKind):
        yield f"it waits for {when.event!r}, which no node traces"
    if (when.partition or when.state is not Observed.EVENT) and not is_partition(when.partition):
        yield f"it waits for partition {when.partition!r}"
    if when.node and not is_node(when.node, known):
        yield f"it waits for node {when.node!r}, which there is not"
    if when.count < 1 or when.then_after_ms < 0:
        yield "it waits for less than one time, or for a time that is past"
