"""Protocol toggles, the presets made of them, and the promises of each preset.

Every historical rule is one named toggle, independent of the others. Nodes read toggles; no
checker, generator or trace event does.
Source: docs/explanation/presets.md; the rows are of docs/reference/catalogue.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from types import MappingProxyType

import msgspec


class Truncation(StrEnum):
    """How a new follower truncates its log to its leader's."""

    HIGH_WATERMARK = "high_watermark"
    """To its own high watermark (V3)."""
    LEADER_EPOCH_OFFSET_ONLY = "leader_epoch_offset_only"
    """To the end offset that the leader answers for its last epoch (KIP-101)."""
    LEADER_EPOCH = "leader_epoch"
    """The same, with the epoch in the answer (KIP-279)."""


class TruncateOn(StrEnum):
    """The LeaderAndIsr commands that make a follower truncate."""

    LEADER_CHANGE = "leader_change"
    """Only one with another leader than the one that it follows (V3)."""
    EVERY_EPOCH = "every_epoch"
    """Each that raises the leader epoch (KAFKA-7164, KIP-320)."""


class IsrJoin(StrEnum):
    """When a caught-up follower may join the ISR."""

    HIGH_WATERMARK = "high_watermark"
    """When its log end has reached the leader's high watermark (V3)."""
    HIGH_WATERMARK_AND_EPOCH_START = "high_watermark_and_epoch_start"
    """... and the start of the leader's epoch (KAFKA-7128)."""


class IsrWrite(StrEnum):
    """How a leader changes the ISR."""

    LEADER_CONDITIONAL_WRITE = "leader_conditional_write"
    """It writes the state znode itself, on the version that it knows. On a conflict it rereads the
    znode, and adopts the version if the data is equal (KAFKA-1382)."""
    ALTER_PARTITION = "alter_partition"
    """It asks the controller, and computes the HW over the maximal ISR meanwhile (KIP-497)."""


class UnlistedPartitions(StrEnum):
    """What a broker does with partitions that an init LeaderAndIsr does not list."""

    DELETE = "delete"
    """They are deleted (V3)."""
    KEEP = "keep"
    """Nothing: Apache Kafka's first command of a controller is like any other (KIP-516)."""
    MARK_STRAY = "mark_stray"
    """They are set aside, and deleted once their topic is known to be gone."""


class CommandedBy(StrEnum):
    """Who decides on leaders, and commands replicas."""

    CONTROLLER = "controller"
    """One controller, by commands (V3)."""
    STATE_CHANGE_QUEUE = "state_change_queue"
    """Each broker itself: by its queue and the leader paths in ZooKeeper (V2)."""


@dataclass(frozen=True, slots=True)
class Toggles:
    """One value for each historical rule; the names in parentheses are the fixes."""

    unclean_election: bool
    truncation: Truncation
    truncate_on: TruncateOn
    wipe_only_below_leader_start: bool
    """A follower out of its leader's range drops its log only if the leader's starts beyond its
    end (KAFKA-2143)."""
    follow_unknown_leader: bool
    """A follower takes its role, and tries, before it knows that its leader lives (KAFKA-4443,
    KAFKA-1647). Apache Kafka never does."""
    persist_epoch_on_election: bool
    """A new leader enters its epoch in the cache at once (KAFKA-7415)."""
    fence_fetch_by_leader_epoch: bool
    """Fetch, OffsetForLeaderEpoch and ListOffsets carry current_leader_epoch (KIP-320)."""
    isr_join: IsrJoin
    isr_join_checks_broker_epoch: bool
    """Only live brokers, not shutting down, of the registered epoch (KIP-841, KIP-903)."""
    isr_write: IsrWrite
    adopt_own_isr_write: bool
    """A leader that meets another version of the state, and reads its own write there, adopts it:
    the reply was lost (KAFKA-1382)."""
    refuse_unassigned_followers: bool
    """A leader counts the fetches of assigned replicas alone (KAFKA-1097)."""
    raise_high_watermark_on_isr_answer: bool
    """A leader that learns of a written ISR raises its high watermark at once, and looks from time
    to time whether it may (KAFKA-13091)."""
    latest_offset_waits_for_epoch_start: bool
    """No latest offset before the high watermark has reached the epoch's start (KIP-207)."""
    high_watermark_waits_for_min_isr: bool
    """Frozen while the ISR is below min.insync.replicas (KAFKA-15583)."""
    check_controller_epoch: bool
    """Brokers refuse commands of older controllers."""
    controller_epoch_in_multi: bool
    """Each controller write checks /controller_epoch (KAFKA-6082)."""
    broker_epoch: bool
    """Commands carry the broker's registration (KIP-380)."""
    stop_replica_leader_epoch: bool
    """StopReplica is fenced per partition (KIP-570)."""
    stop_at_equal_leader_epoch: bool
    """A StopReplica of the replica's own leader epoch is obeyed (KAFKA-13972)."""
    topic_id: bool
    """A topic's incarnation has an id (KIP-516)."""
    eligible_leader_replicas: bool
    """Replicas that left the ISR while no more records could be committed may lead. A replica whose
    logs may have lost records leaves ISR and ELR (KIP-966)."""
    checkpoint_every_hosted_partition: bool
    """A replica is created and its high watermark loaded before a transition may be refused, and
    checkpoints list every hosted partition (KAFKA-1647)."""
    update_metadata_first: bool
    """Failover sends UpdateMetadata before any LeaderAndIsr (KAFKA-4443)."""
    unlisted_partitions: UnlistedPartitions
    fast_failure_detection: bool = False
    """The controller takes lead and ISR from a broker whose connection broke and that does not
    answer, before its session ends. Apache Kafka never does."""
    commanded_by: CommandedBy = CommandedBy.CONTROLLER


class Preset(StrEnum):
    V2 = "v2"
    """The first design: brokers elect leaders themselves, without a controller."""
    V3 = "v3"
    """The V3 design as written."""
    CLASSIC = "classic"
    """Apache Kafka 0.10.2: truncation to the high watermark, unclean election by default."""
    KIP101 = "kip101"
    """Apache Kafka 1.0: truncation to the end offset of a leader epoch, clean election."""
    FENCED = "fenced"
    """Every fix; the default."""


_V3 = Toggles(
    unclean_election=True,
    truncation=Truncation.HIGH_WATERMARK,
    truncate_on=TruncateOn.LEADER_CHANGE,
    wipe_only_below_leader_start=True,
    follow_unknown_leader=True,
    persist_epoch_on_election=False,
    fence_fetch_by_leader_epoch=False,
    isr_join=IsrJoin.HIGH_WATERMARK,
    isr_join_checks_broker_epoch=False,
    isr_write=IsrWrite.LEADER_CONDITIONAL_WRITE,
    adopt_own_isr_write=True,
    refuse_unassigned_followers=True,
    raise_high_watermark_on_isr_answer=True,
    latest_offset_waits_for_epoch_start=True,
    high_watermark_waits_for_min_isr=False,
    check_controller_epoch=True,
    controller_epoch_in_multi=False,
    broker_epoch=False,
    stop_replica_leader_epoch=False,
    stop_at_equal_leader_epoch=True,
    topic_id=False,
    eligible_leader_replicas=False,
    checkpoint_every_hosted_partition=True,
    update_metadata_first=True,
    unlisted_partitions=UnlistedPartitions.DELETE,
)
_V2 = replace(
    _V3,
    unclean_election=False,
    truncate_on=TruncateOn.EVERY_EPOCH,
    check_controller_epoch=False,
    stop_replica_leader_epoch=True,
    commanded_by=CommandedBy.STATE_CHANGE_QUEUE,
)
_CLASSIC = replace(_V3, latest_offset_waits_for_epoch_start=False)
_KIP101 = replace(_CLASSIC, unclean_election=False, truncation=Truncation.LEADER_EPOCH_OFFSET_ONLY)

PRESETS: dict[Preset, Toggles] = {
    Preset.V2: _V2,
    Preset.V3: _V3,
    Preset.CLASSIC: _CLASSIC,
    Preset.KIP101: _KIP101,
    Preset.FENCED: Toggles(
        unclean_election=False,
        truncation=Truncation.LEADER_EPOCH,
        truncate_on=TruncateOn.EVERY_EPOCH,
        wipe_only_below_leader_start=True,
        follow_unknown_leader=True,
        persist_epoch_on_election=True,
        fence_fetch_by_leader_epoch=True,
        isr_join=IsrJoin.HIGH_WATERMARK_AND_EPOCH_START,
        isr_join_checks_broker_epoch=True,
        isr_write=IsrWrite.ALTER_PARTITION,
        adopt_own_isr_write=True,
        refuse_unassigned_followers=True,
        raise_high_watermark_on_isr_answer=True,
        latest_offset_waits_for_epoch_start=True,
        high_watermark_waits_for_min_isr=True,
        check_controller_epoch=True,
        controller_epoch_in_multi=True,
        broker_epoch=True,
        stop_replica_leader_epoch=True,
        stop_at_equal_leader_epoch=True,
        topic_id=True,
        eligible_leader_replicas=True,
        checkpoint_every_hosted_partition=True,
        update_metadata_first=True,
        unlisted_partitions=UnlistedPartitions.MARK_STRAY,
    ),
}


Overrides = Mapping[str, str | bool]
"""Values of toggles by name, in place of the preset's."""
NO_OVERRIDES: Overrides = MappingProxyType({})


def resolve_toggles(preset: Preset, overrides: Overrides = NO_OVERRIDES) -> Toggles:
    """Return the preset's toggles with some replaced.

    Raises:
        msgspec.ValidationError: an override is no toggle or no value of one, or one toggle removes
            the premise of another.
    """
    values = asdict(PRESETS[preset])
    unknown = sorted(set(overrides) - set(values))
    if unknown:
        raise msgspec.ValidationError(f"no such toggle: {', '.join(unknown)}")
    toggles = msgspec.convert(values | dict(overrides), Toggles)
    for is_given_up, why in _PREMISES:
        if is_given_up(toggles):
            raise msgspec.ValidationError(f"toggles: {why}")
    return toggles


def has_controllers(preset: Preset, overrides: Overrides = NO_OVERRIDES) -> bool:
    """Return whether a cluster with these toggles has controllers; the toggles may be refused."""
    commanded_by = overrides.get("commanded_by", PRESETS[preset].commanded_by)
    return commanded_by != CommandedBy.STATE_CHANGE_QUEUE


_PREMISES: tuple[tuple[Callable[[Toggles], bool], str], ...] = (
    (
        lambda t: t.eligible_leader_replicas and not t.high_watermark_waits_for_min_isr,
        "eligible_leader_replicas needs high_watermark_waits_for_min_isr: a replica that left the"
        " ISR holds all that is committed only if nothing more is committed without it",
    ),
    (
        lambda t: (
            t.commanded_by is CommandedBy.STATE_CHANGE_QUEUE
            and (t.isr_write is IsrWrite.ALTER_PARTITION or t.broker_epoch or t.topic_id)
        ),
        "commanded_by state_change_queue needs isr_write leader_conditional_write, and neither"
        " broker_epoch nor topic_id: without a controller nobody answers and nobody gives them",
    ),
    (
        lambda t: t.commanded_by is CommandedBy.STATE_CHANGE_QUEUE and t.fast_failure_detection,
        "commanded_by state_change_queue has no fast_failure_detection: a controller does that",
    ),
    (
        lambda t: t.eligible_leader_replicas and t.isr_write is not IsrWrite.ALTER_PARTITION,
        "eligible_leader_replicas needs isr_write alter_partition: a leader that writes the ISR"
        " itself leaves out who is eligible, and whose contents are meant",
    ),
)
"""Pairs of toggles that are refused: one of them makes the other's promise impossible. Pairs that
bring a historical bug back are allowed: toggles are made for that."""


@dataclass(frozen=True, slots=True)
class MayBreak:
    """An invariant that a preset does not promise; each row names its historical bug."""

    rows: tuple[int, ...]


MUST_HOLD = MayBreak(rows=())

INVARIANTS: tuple[str, ...] = (
    *(f"I{number}" for number in range(1, 23)),
    *(f"L{number}" for number in range(1, 12)),
)

# Rows of the catalogue that may break an invariant; the trigger of one must then be in the trace.
# The reasons are in highwater_checker.catalogue.rows, which a test holds to this table.
_BROKEN_BY: dict[str, tuple[int, ...]] = {
    "I1": (1, 2, 4, 7, 8, 9, 10, 38),
    "I2": (1, 2, 4, 5, 6, 7, 8, 10, 16, 38),
    "I3": (1, 2, 3, 4, 5, 6, 10, 24, 38),
    "I4": (1, 2, 4, 5, 6, 7, 8, 9, 10, 38),
    "I5": (15,),
    "I7": (13, 39),
    "I8": (13,),
    "I9": (1, 2, 4, 7, 8, 9, 10, 23, 38),
    "I10": (4, 6),
    "I6": (19,),
    "I11": (1, 2, 4, 6, 10, 12, 19, 38),
    "I12": (10,),
    "I13": (17, 24),
    "I15": (11,),
    "I16": (5, 6, 16, 24),
    "I22": (1, 2, 4, 7, 8, 9, 10),
    "L2": (13, 15),
    "L3": (13, 14, 15),
    "L4": (5, 6, 8, 13, 14, 15, 16, 18),
    "L5": (15, 21),
    "L6": (15,),
    "L8": (15, 16, 18),
}

FLAWS: dict[Preset, tuple[int, ...]] = {
    Preset.V2: (1, 2, 4, 6, 8, 9, 24, 38, 39),
    Preset.V3: (1, 2, 4, 5, 6, 7, 8, 9, 10, 13, 15, 16, 24),
    Preset.CLASSIC: (1, 2, 4, 5, 6, 7, 8, 9, 10, 13, 15, 16, 23, 24),
    Preset.KIP101: (2, 3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 23, 24),
    Preset.FENCED: (),
}
"""The rows of the catalogue whose fix a preset lacks."""


def _promised_by(preset: Preset, invariant: str) -> MayBreak:
    rows = _BROKEN_BY.get(invariant, ())
    return MayBreak(tuple(row for row in rows if row in FLAWS[preset]))


PROMISES: dict[Preset, dict[str, MayBreak]] = {
    preset: {name: _promised_by(preset, name) for name in INVARIANTS} for preset in Preset
}
"""Invariant by preset: MUST_HOLD, or the catalogue rows that alone excuse a violation."""
