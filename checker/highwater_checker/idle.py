"""Which checks may have had nothing to examine in a run that proves something all the same. No I/O.

Where a run's looks show that a high watermark hid records for long, a prober must have met them.
"""

from __future__ import annotations

from collections.abc import Sequence

from highwater_checker.finding import CheckResult
from highwater_checker.invariants.empty_fetches import CHECK
from highwater_checker.invariants.high_watermark_in_run import CHECK as IN_RUN
from highwater_checker.invariants.replica_equality import CHECK as REPLICA_EQUALITY
from highwater_checker.invariants.truncations import CHECK as TRUNCATIONS
from highwater_checker.looks import Leadership, Look, leaderships
from highwater_core.ids import TopicPartition

LONG_NS = 2_000_000_000
"""In which a prober that asks many times a second cannot have missed them."""
LEAST_LOOKS = 5


def without_idle_checks(
    checks: Sequence[CheckResult], looks: Sequence[Look], *, is_replicated: bool
) -> list[CheckResult]:
    """Return the checks, but none that had nothing to examine and need not have had.

    A run in which nothing was hidden for long says nothing of the probes; in another, probes that
    met nothing leave the verdict unknown. High watermarks are compared in pairs of looks between
    which all went on: a short run on a busy machine may have none. Without a second replica of
    anything there are no two to compare, and no follower that cuts its log.
    """
    need_not = {IN_RUN}
    if not hidden_for_long(looks):
        need_not.add(CHECK)
    if not is_replicated:
        need_not |= {REPLICA_EQUALITY, TRUNCATIONS}
    return [
        check for check in checks if check.examined or check.findings or check.check not in need_not
    ]


def hidden_for_long(looks: Sequence[Look]) -> list[TopicPartition]:
    """Return the partitions whose leader stood still for LONG_NS with records above its HW.

    looks: in order. Seen again and again: the same leader in the same epoch, with the same high
    watermark below its log's end.
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
