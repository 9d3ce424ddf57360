"""The bounds of groups, from the broker's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of the group coordinator; the defaults are Kafka's.

    new_member_join_timeout_ms: how long a new member may wait to join before it is removed; it
    cannot send heartbeats yet. A constant in Kafka, too.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    new_member_join_timeout_ms: int = 300_000
