"""The checks that may have nothing to examine in a run that still proves something. No I/O.

MAY_BE_IDLE is their one table, for the judge and for the pipeline. Any other check that examined
nothing makes the verdict unknown, as does one whose reason does not hold in the run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto

from highwater_checker.finding import CheckResult
from highwater_checker.invariants.compactions import CHECK as COMPACTIONS
from highwater_checker.invariants.empty_fetches import CHECK as EMPTY_FETCHES
from highwater_checker.invariants.high_watermark_in_run import CHECK as IN_RUN
from highwater_checker.invariants.reads import CHECK as READS
from highwater_checker.invariants.replica_equality import CHECK as REPLICA_EQUALITY
from highwater_checker.invariants.truncations import CHECK as TRUNCATIONS
from highwater_checker.looks import Leadership, Look, leaderships
from highwater_core.ids import TopicPartition

LONG_NS = 2_000_000_000
"""In this time a prober that asks many times a second must meet hidden records."""
LEAST_LOOKS = 5


class Idle(Enum):
    """A reason why a check had nothing to examine, which holds in a run or does not."""

    FEW_LOOKS = auto()
    """Holds in every run. Two looks are compared only where no node stopped between them: a short
    run on a busy machine may have no such pair."""
    NOTHING_HIDDEN = auto()
    """No high watermark hid records for long, so a prober need not have met any."""
    ONE_REPLICA = auto()
    """No partition has a second replica: there are no two to compare and no follower to cut."""
    NO_CONSUMERS = auto()
    NOTHING_COMPACTED = auto()
    """Holds in every run: few have a compacted topic, and its logs may stay clean enough."""


MAY_BE_IDLE: Mapping[str, Idle] = {
    IN_RUN: Idle.FEW_LOOKS,
    EMPTY_FETCHES: Idle.NOTHING_HIDDEN,
    REPLICA_EQUALITY: Idle.ONE_REPLICA,
    TRUNCATIONS: Idle.ONE_REPLICA,
    READS: Idle.NO_CONSUMERS,
    COMPACTIONS: Idle.NOTHING_COMPACTED,
}
"""The reason that excuses each check, by the check's name."""


def may_be_idle(check: str, reasons: Collection[Idle]) -> bool:
    """Return whether one of the reasons that hold in a run excuses the check."""
    return MAY_BE_IDLE.get(check) in reasons


def without_idle_checks(
    checks: Sequence[CheckResult], reasons: Collection[Idle]
) -> list[CheckResult]:
    """Return the checks without those that examined nothing and are excused by the reasons."""
    return [
        check
        for check in checks
        if check.examined or check.findings or not may_be_idle(check.check, reasons)
    ]


def hidden_for_long(looks: Sequence[Look]) -> list[TopicPartition]:
    """Return the partitions whose leader had records above an unchanged HW for LONG_NS.

    looks: in order. All looks of that time have the same leader in the same epoch, with the same
    high watermark below its log's end.
    """
    since: dict[TopicPartition, tuple[Leadership, int, int]] = {}
    found: dict[TopicPartition, None] = {}
    for look in looks:
        led = leaderships(look)
        for at in dict.fromkeys((*since, *led)):
            now = led.get(at)
            if now is None or now.high_watermark >= now.log_end_offset:
                since.pop(at, None)
                continue
            first, since_ns, seen = since.get(at, (now, look.time_ns, 0))
            if not _stands_still(first, now):
                first, since_ns, seen = now, look.time_ns, 0
            since[at] = first, since_ns, seen + 1
            if look.time_ns - since_ns >= LONG_NS and seen + 1 >= LEAST_LOOKS:
                found[at] = None
    return list(found)


def _stands_still(first: Leadership, now: Leadership) -> bool:
    return (first.leader, first.leader_epoch, first.high_watermark) == (
        now.leader,
        now.leader_epoch,
        now.high_watermark,
    )
