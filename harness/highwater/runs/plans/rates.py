"""Whether a plan's producers kept their rates, from their histories; no I/O.

A client that cannot send as fast as its plan asks, or a machine too busy for it, makes a run of
less load than its plan's title says, whatever the verdict is.
"""

from __future__ import annotations

from collections.abc import Iterator

from highwater_chaos.plan import Plan
from highwater_checker.history import SEND, OperationType, client_of
from highwater_checker.run_folder.histories import Histories

KEPT_SHARE = 0.75
"""A producer that sends less than this share of its rate is told."""
LEAST_RECORDS = 1_000
"""A producer that was to send fewer has no rate to speak of: the own client draws its bursts and
their distances at random, and over so many records a rate is within 6 % of its mean (1 sigma)."""
_NS_PER_S = 1_000_000_000


def slower_than_planned(plan: Plan, histories: Histories) -> Iterator[str]:
    """Yield a sentence for each producer, p0, p1, ..., that sent more slowly than its plan asks.

    Over the time from its first send to its last one; what faults held up counts, too.
    """
    for number, producer in enumerate(plan.workload.producers):
        name = f"p{number}"
        sent_ns = [
            event.time_ns
            for process, events in histories.items()
            if client_of(process) == name
            for event in events
            if event.function == SEND and event.type is OperationType.INVOKE
        ]
        took_s = (max(sent_ns, default=0) - min(sent_ns, default=0)) / _NS_PER_S
        planned = producer.rate_per_s * took_s
        if planned >= LEAST_RECORDS and len(sent_ns) - 1 < KEPT_SHARE * planned:
            yield (
                f"{name} sent {(len(sent_ns) - 1) / took_s:,.0f} records a second,"
                f" its plan asks for {producer.rate_per_s:,}"
            )
