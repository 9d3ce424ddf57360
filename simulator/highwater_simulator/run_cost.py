"""The cost of a run's faults: time in which records waited, leader changes, and requests.

It makes presets comparable: the same schedule costs each of them something else. Set-up, healing
and the probes of the end do not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from highwater_checker.history import SEND, HistoryEvent, OperationType
from highwater_checker.stories.entries import Entry
from highwater_core.events import EventKind, TraceEvent
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.network import Network, Plane
from highwater_simulator.zookeeper import ZooKeeper

WAITS_FROM_MS = 100
"""Shorter waits do not count: this is many times the latency of a link that no fault slows down."""

Interval = tuple[int, int]
"""Virtual time in nanoseconds: from, to."""


@dataclass(frozen=True, slots=True)
class RunCost:
    """The cost of the time from the first fault until all is healed, or until a violation.

    leader_changes: leader epochs in which a broker began to lead, but the first of a partition.
    control_calls: requests between controllers and brokers, those without an answer included.
    zookeeper_requests: requests that reached ZooKeeper; heartbeats are none.
    unavailable_ns: virtual time in which a partition to which records were sent took none, summed
        over partitions.
    """

    leader_changes: int = 0
    control_calls: int = 0
    zookeeper_requests: int = 0
    unavailable_ns: int = 0


NO_COST = RunCost()


@dataclass(slots=True)
class CostMeter:
    """Measures a run from `begin` to `end`; a run that ends before costs nothing."""

    network: Network
    zookeeper: ZooKeeper
    _during: Interval | None = None
    _before: tuple[int, int] = (0, 0)
    _requests: tuple[int, int] = (0, 0)

    def begin(self, now_ns: int) -> None:
        self._during, self._before = (now_ns, -1), self._counted()

    def end(self, now_ns: int) -> None:
        """Measure up to now; what comes later does not count, nor does a second end."""
        if self._during is None or self._during[1] >= 0:
            return
        self._during = self._during[0], now_ns
        calls, requests = self._counted()
        self._requests = calls - self._before[0], requests - self._before[1]

    def cost(self, trace: Iterable[Entry], history: Iterable[HistoryEvent]) -> RunCost:
        if self._during is None:
            return NO_COST
        calls, requests = self._requests
        return RunCost(
            leader_changes=leader_changes(trace, self._during),
            control_calls=calls,
            zookeeper_requests=requests,
            unavailable_ns=unavailable_ns(history, self._during),
        )

    def _counted(self) -> tuple[int, int]:
        return self.network.calls[Plane.CONTROL], self.zookeeper.requests


def leader_changes(trace: Iterable[Entry], during: Interval) -> int:
    """Return in how many leader epochs, but the first of each partition, a broker began to lead."""
    begin_ns, end_ns = during
    return len(
        {
            (event.topic, event.partition, event.topic_id, event.leader_epoch)
            for at_ns, _, event in trace
            if begin_ns <= at_ns <= end_ns
            and isinstance(event, TraceEvent)
            and event.kind is EventKind.BECAME_LEADER
            and event.leader_epoch
        }
    )


def unavailable_ns(history: Iterable[HistoryEvent], during: Interval) -> int:
    """Return how long partitions took no records in that time, summed over partitions.

    A record that is acknowledged shows it from its invoke to its acknowledgement. Any other one
    shows it until the partition acknowledges another record after its outcome, or until the end.
    """
    begin_ns, end_ns = during
    found = 0
    for sends in _sends_by_partition(history, end_ns).values():
        acknowledged_ns = sorted(send.until_ns for send in sends if send.is_acknowledged)
        waits: list[Interval] = []
        for send in sends:
            until_ns = send.until_ns
            if not send.is_acknowledged:
                later = acknowledged_ns[bisect_left(acknowledged_ns, until_ns) :]
                until_ns = later[0] if later else end_ns
            began_ns, until_ns = max(send.invoked_ns, begin_ns), min(until_ns, end_ns)
            if until_ns - began_ns > WAITS_FROM_MS * NS_PER_MS:
                waits.append((began_ns, until_ns))
        found += _covered_ns(waits)
    return found


class _Send(NamedTuple):
    """until_ns: when its client knew its outcome, or the end."""

    invoked_ns: int
    until_ns: int
    is_acknowledged: bool


def _sends_by_partition(
    history: Iterable[HistoryEvent], end_ns: int
) -> dict[tuple[str, int], list[_Send]]:
    invoked: dict[tuple[str, int], HistoryEvent] = {}
    found: dict[tuple[str, int], list[_Send]] = {}
    for event in history:
        if event.function != SEND:
            continue
        operation = event.process, event.operation_id
        if event.type is OperationType.INVOKE:
            invoked[operation] = event
        elif operation in invoked:
            began = invoked.pop(operation)
            send = _Send(began.time_ns, event.time_ns, event.type is OperationType.OK)
            found.setdefault((event.topic, event.partition), []).append(send)
    for began in invoked.values():
        send = _Send(began.time_ns, end_ns, is_acknowledged=False)
        found.setdefault((began.topic, began.partition), []).append(send)
    return found


def _covered_ns(intervals: list[Interval]) -> int:
    """Return the length of the intervals' union."""
    covered_ns, reached_ns = 0, -1
    for began_ns, ended_ns in sorted(intervals):
        covered_ns += max(0, ended_ns - max(began_ns, reached_ns))
        reached_ns = max(reached_ns, ended_ns)
    return covered_ns
