"""The quotas of this broker's throttled replication, as a leader and as a follower.

Source: KIP-73.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_broker.logic.replication_quota import Windows, is_exceeded, record
from highwater_core.config_layers import UNLIMITED_RATE
from highwater_core.runtime import Runtime


class ReplicationQuota:
    """A rate, and the recorded traffic of throttled replicas."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._windows: Windows = ()
        self.limit_bytes_per_s = UNLIMITED_RATE

    def record(self, size_bytes: int) -> None:
        self._windows = record(self._windows, size_bytes, self._runtime.now_ms())

    def is_exceeded(self) -> bool:
        return is_exceeded(self._windows, self.limit_bytes_per_s, self._runtime.now_ms())


class ReplicationQuotas:
    """The quotas for records sent to followers, and for records fetched from leaders."""

    def __init__(self, runtime: Runtime) -> None:
        self.leader = ReplicationQuota(runtime)
        self.follower = ReplicationQuota(runtime)


@dataclass(frozen=True, slots=True)
class Throttling:
    """Whether a replica's traffic is throttled: while it leads, and while it follows."""

    as_leader: bool = False
    as_follower: bool = False
