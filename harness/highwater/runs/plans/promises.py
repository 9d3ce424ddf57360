"""The promises to a plan's clients, and the requirements at the end of its run. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from highwater_chaos.faults import CreateTopic, Fault
from highwater_chaos.plan import Plan, group_id_of, member_names
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    EXCUSED,
    WATCHED,
    PromisedConsumer,
    PromisedGroup,
    PromisedProducer,
    PromisedTopic,
    Promises,
)

KEPT_IN_CONTAINERS = (names.LOOKS, names.PROBES)
KEPT_IN_SIMULATOR = (names.LOOKS, WATCHED.name, EXCUSED.name)


def promises_of(plan: Plan, least_share: float) -> Promises:
    """Return the promises of the plan's clients in containers.

    p0, p1, ... write; c0, c1, ... read alone, and g0m0, g0m1, ... as members of a group.
    least_share: the share of the records that a run without faults would acknowledge that must be
        acknowledged, where the plan does not expect more.
    """
    workload = plan.workload
    asked = 0 if plan.expected is None else plan.expected.least_acknowledged
    seconds = plan.quiet_after_ms / 1000
    topics = {each.name for each in workload.topics}
    expected = sum(each.rate_per_s for each in workload.producers if each.acks) * seconds
    return Promises(
        topics=tuple(
            PromisedTopic(each.name, each.partitions, each.replication_factor, each.is_compacted)
            for each in workload.topics
        ),
        producers=tuple(
            PromisedProducer(f"p{number}", each.acks, each.max_in_flight, each.idempotent)
            for number, each in enumerate(workload.producers)
        ),
        consumers=tuple(
            PromisedConsumer(f"c{number}", each.topic)
            for number, each in enumerate(workload.consumers)
        ),
        groups=tuple(
            PromisedGroup(group_id_of(workload, number), each.topic, member_names(workload, number))
            for number, each in enumerate(workload.groups)
        ),
        least_acknowledged=max(1, int(expected * least_share), asked),
        kept=KEPT_IN_CONTAINERS,
        writers_are_known=not any(_writes_records(step.do, topics) for step in plan.steps),
    )


def _writes_records(fault: Fault, topics: Collection[str]) -> bool:
    """Return whether an operator, who leaves no history, writes records to one of the topics."""
    return isinstance(fault, CreateTopic) and fault.records > 0 and fault.topic in topics


def promises_in_simulator(plan: Plan, *, groups_are_served: bool) -> Promises:
    """Return the promises in the simulator, where a plan may leave nodes down or cut off."""
    promises = promises_of(plan, 0.0)
    groups = tuple(replace(each, to_the_end=groups_are_served) for each in promises.groups)
    return replace(promises, groups=groups, only_in_sync=True, kept=KEPT_IN_SIMULATOR)
