"""Decides a leader's next high watermark. Pure.

Source: docs/explanation/replication.md, "High watermark"; KIP-497 (maximal ISR); KAFKA-15583
(frozen below min.insync.replicas).
"""

from __future__ import annotations

from collections.abc import Iterable

from highwater_core.ids import Offset


def next_high_watermark(
    current: Offset,
    leader_log_end_offset: Offset,
    required_log_end_offsets: Iterable[Offset],
    *,
    frozen: bool,
) -> Offset:
    """Return the least log end among the leader and the replicas that must have a record.

    required_log_end_offsets are those of the followers in the ISR, in an ISR that is proposed but
    not yet known to be written, or about to join (caught up within the lag).

    Invariant: never below `current`: within one leadership a high watermark only rises.
    """
    if frozen:
        return current
    candidate = min([leader_log_end_offset, *required_log_end_offsets])
    return max(current, candidate)


def needed_in_sync(min_insync_replicas: int, replication_factor: int) -> int:
    """Return how many replicas in sync a commit needs: at most all replicas.

    When all replicas have a record, none without it can be elected.
    Source: Kafka's effectiveMinIsr, since KAFKA-15583.
    """
    return min(min_insync_replicas, replication_factor)


def is_frozen(
    in_sync_count: int, needed: int, eligible_count: int, *, waits_for_min_isr: bool
) -> bool:
    """Return whether the high watermark must stay.

    The ISR is too small to commit (KAFKA-15583), or was too small by the min.insync.replicas that
    the controller knew when it wrote the ISR. In the latter case replicas that left are eligible to
    lead with their logs (KIP-966), regardless of this broker's knowledge of the configuration.
    """
    return waits_for_min_isr and (in_sync_count < needed or eligible_count > 0)


def follower_high_watermark(leader_high_watermark: Offset, log_end_offset: Offset) -> Offset:
    """Return a follower's high watermark: the leader's, at most its own log end.

    It may be lower than before: a new leader's high watermark may lag its predecessor's.
    """
    return min(leader_high_watermark, log_end_offset)
