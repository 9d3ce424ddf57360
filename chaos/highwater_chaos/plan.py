"""A plan: everything that a run depends on, in one JSON file, for every world.

A seed merely generates a plan; who has the plan needs no seed to repeat the run. Times count from
the moment at which the topics exist and their ISRs are full. Phase one, until quiet_after_ms, has
the faults; in phase two the core is healed for good, the failures of all others stay, and
progress is demanded. No part of a plan names a toggle except topology.toggles, which generated
plans leave empty.
Source: reference/simulation.md sections 4 and 8.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath

import msgspec

from highwater_chaos.faults import ANY, PLANES, Fault, describe_fault
from highwater_core.config import Preset

FORMAT = 1
_HOSTS = (ANY, "zookeeper")
"""What a link may join besides nodes."""
_DURATIONS = ("for_ms", "restart_after_ms", "delay_ms", "latency_ms", "jitter_ms")


class BadPlan(Exception):
    """The text is no plan; the message says what is wrong and where."""


class Latencies(StrEnum):
    """How long messages travel."""

    EVEN = "even"
    """Evenly between the minimum and the maximum."""
    HEAVY_TAILED = "heavy_tailed"
    """Mostly near the minimum, seldom far beyond the maximum."""


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes and their settings, by the names of BrokerSettings and ControllerSettings."""

    brokers: int = 3
    controllers: int = 2
    preset: Preset = Preset.FENCED
    toggles: str = ""
    broker_settings: dict[str, int] = {}
    controller_settings: dict[str, int] = {}


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The character of every link. Read by the simulator only, as is all of this."""

    latencies: Latencies = Latencies.EVEN
    minimum_us: int = 100
    maximum_us: int = 600
    through_codecs: bool = False
    """Whether every message is encoded and decoded on its way."""
    shuffles_ties: bool = False
    """Whether what is due at one instant on several nodes happens in a drawn order."""


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str = "t"
    partitions: int = 1
    replication_factor: int = 3
    min_insync_replicas: int = 1


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


class Consumer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client that reads every partition of a topic from its start, and follows it."""

    topic: str = "t"


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topics: tuple[Topic, ...] = (Topic(),)
    producers: tuple[Producer, ...] = (Producer(),)
    consumers: tuple[Consumer, ...] = (Consumer(),)


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
    """The event was traced `count` times since the step's time, by `node` if that is given."""


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on what can be observed from outside; true at most once."""

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

    def describe(self) -> str:
        """Return the step in words."""
        if self.when is None:
            return f"at {self.at_ms} ms: {describe_fault(self.do)}"
        what = self.when.event or self.when.state.replace("_", " ")
        where = " ".join(part for part in (self.when.node, self.when.partition) if part)
        delay = f" and {self.when.then_after_ms} ms" if self.when.then_after_ms else ""
        times = f" x{self.when.count}" if self.when.count != 1 else ""
        place = f" ({where})" if where else ""
        return f"from {self.at_ms} ms on, after {what}{place}{times}{delay}: " + describe_fault(
            self.do
        )


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a scenario file says the run must show."""

    verdict: str = "pass"
    invariant: str = ""
    """Of the violation, where the verdict is fail."""
    rows: tuple[int, ...] = ()
    """The rows of the catalogue that explain it."""
    planted: str = ""
    """The planted bug that every node has, in the simulator; empty for none."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run. core: the nodes that are healed in phase two; empty means all."""

    seed: int
    title: str = ""
    commit: str = ""
    topology: Topology = Topology()
    network: Network = Network()
    workload: Workload = Workload()
    steps: tuple[Step, ...] = ()
    quiet_after_ms: int = 8_000
    core: tuple[str, ...] = ()
    expected: Expected | None = None
    format: int = FORMAT


_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODER = msgspec.json.Decoder(Plan)


def encode_plan(plan: Plan, *, omit_defaults: bool = False) -> bytes:
    """Return the plan as indented JSON; equal plans give equal bytes.

    omit_defaults: only what differs from the defaults is written, for readers; a plan that must
    mean the same after a change of defaults is written whole.
    """
    if omit_defaults:
        content = {"title": plan.title, **_without_defaults(plan), "format": plan.format}
        text = msgspec.json.encode(content)  # in the order of the fields' declaration
    else:
        text = _ENCODER.encode(plan)
    return msgspec.json.format(text, indent=2) + b"\n"


def _without_defaults(value: msgspec.Struct) -> dict[str, object]:
    config = value.__struct_config__
    kept: dict[str, object] = {} if config.tag is None else {str(config.tag_field): config.tag}
    for field in msgspec.structs.fields(value):
        own = getattr(value, field.name)
        if field.required or own != _default_of(field):
            kept[field.name] = _plain(own)
    return kept


def _default_of(field: msgspec.structs.FieldInfo) -> object:
    return field.default_factory() if callable(field.default_factory) else field.default


def _plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return _without_defaults(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def decode_plan(text: bytes, source: PurePath | str = "plan") -> Plan:
    """Return the plan.

    Raises:
        BadPlan: it is no JSON, has a field that plans do not have, or contradicts itself.
    """
    try:
        plan = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadPlan(f"{source}: {error}") from error
    for problem in problems_of(plan):
        raise BadPlan(f"{source}: {problem}")
    return plan


def node_names(topology: Topology) -> tuple[str, ...]:
    """Return the names of all nodes, brokers first."""
    brokers = [f"broker-{number}" for number in range(topology.brokers)]
    controllers = [f"controller-{1000 + number}" for number in range(topology.controllers)]
    return (*brokers, *controllers)


def problems_of(plan: Plan) -> list[str]:
    """Return what makes the plan impossible to run; empty when nothing does."""
    problems: list[str] = []
    if plan.format != FORMAT:
        problems.append(f"format {plan.format} is not {FORMAT}")
    if plan.topology.brokers < 1 or plan.topology.controllers < 1:
        problems.append("a cluster has at least one broker and one controller")
    topics = [topic.name for topic in plan.workload.topics]
    for topic in plan.workload.topics:
        if not 1 <= topic.replication_factor <= plan.topology.brokers:
            problems.append(f"topic {topic.name}: {topic.replication_factor} replicas")
    used = [producer.topic for producer in plan.workload.producers]
    used += [consumer.topic for consumer in plan.workload.consumers]
    problems += [
        f"a client of topic {name!r}, which there is not" for name in used if name not in topics
    ]
    known = set(node_names(plan.topology))
    problems += [f"core: there is no node {name!r}" for name in plan.core if name not in known]
    for step in plan.steps:
        problems += [f"{step.describe()}: {what}" for what in _problems_of_step(step, known)]
    return problems


def _problems_of_step(step: Step, known: set[str]) -> list[str]:
    problems = ["its time is negative"] if step.at_ms < 0 else []
    for field in _DURATIONS:
        if (getattr(step.do, field, None) or 0) < 0:
            problems.append(f"{field} is negative")
    node = getattr(step.do, "node", None)
    if node is not None and not _is_node(node, known):
        problems.append(f"there is no node {node!r}")
    for field in ("source", "target"):
        host = getattr(step.do, field, None)
        if host not in (None, *_HOSTS) and not _is_node(host, known):
            problems.append(f"there is no node {host!r}")
    plane = getattr(step.do, "plane", None)
    if plane not in (None, *PLANES):
        problems.append(f"there is no plane {plane!r}")
    return problems + ([] if step.when is None else _problems_of_condition(step.when, known))


def _problems_of_condition(when: When, known: set[str]) -> list[str]:
    problems = []
    if when.state is Observed.EVENT and not when.event:
        problems.append("it waits for an event without naming it")
    if (when.partition or when.state is not Observed.EVENT) and not _is_partition(when.partition):
        problems.append(f"it waits for partition {when.partition!r}")
    if when.node and not _is_node(when.node, known):
        problems.append(f"it waits for node {when.node!r}, which there is not")
    if when.count < 1 or when.then_after_ms < 0:
        problems.append("it waits for less than one time, or for a time that is past")
    return problems


def _is_node(name: str, known: set[str]) -> bool:
    if name in known or name == "active controller":
        return True
    role, of, partition = name.partition(" of ")
    return role in ("leader", "follower", "last follower") and bool(of) and _is_partition(partition)


def _is_partition(name: str) -> bool:
    topic, _, number = name.rpartition("-")
    return bool(topic) and number.isascii() and number.isdigit()
