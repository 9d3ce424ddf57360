"""Which partitions must have changed their leader for a plan's run to prove anything. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from highwater.observation import Leadership, Look, leaderships
from highwater.planned.schedule import StepDone
from highwater_chaos import faults as f
from highwater_checker.verdict import Requirement
from highwater_core.ids import NodeId

SURE_AFTER_SESSIONS = 2
"""Session timeouts after which a leader that does not answer has been replaced."""
_SILENCING = f.Kill | f.FlipBit | f.Pause | f.Isolate | f.Cut
_MS = 1_000_000


def leader_changes(
    steps: Sequence[StepDone], looks: Sequence[Look], begin_ns: int, session_timeout_ms: int
) -> Iterator[Requirement]:
    """Yield, for each fault that must have changed a leader, whether it did.

    It must when it took a broker out, or kept ZooKeeper from hearing of it, for two session
    timeouts, and the broker led a partition whose ISR had another member that answered all that
    time. looks: in order; begin_ns: when the plan's time
    began in theirs.
    """
    for done in steps:
        if not _ends_a_session(done, session_timeout_ms):
            continue
        acted_ns = begin_ns + (done.acted_ms or 0) * _MS
        before = _last_before(looks, acted_ns)
        after = [look for look in looks if look.time_ns > acted_ns]
        sure_ns = acted_ns + SURE_AFTER_SESSIONS * session_timeout_ms * _MS
        meanwhile = [before, *(look for look in after if look.time_ns <= sure_ns)]
        for leadership in leaderships(before).values():
            if int(leadership.leader) == done.node and _has_another(leadership, meanwhile):
                yield _requirement(leadership, after, done)


def _ends_a_session(done: StepDone, session_timeout_ms: int) -> bool:
    fault = done.step.do
    if not done.has_fired or not isinstance(fault, _SILENCING):
        return False
    return fault.for_ms is None or fault.for_ms >= SURE_AFTER_SESSIONS * session_timeout_ms


def _last_before(looks: Sequence[Look], at_ns: int) -> Look:
    """Return the last look before that time; one that saw nobody when there was none."""
    return next((look for look in reversed(looks) if look.time_ns < at_ns), Look(0, {}))


def _has_another(leadership: Leadership, looks: Sequence[Look]) -> bool:
    others = [broker for broker in leadership.isr if broker != leadership.leader]
    return any(all(look.nodes.get(broker) is not None for look in looks) for broker in others)


def _requirement(before: Leadership, looks: Sequence[Look], done: StepDone) -> Requirement:
    at = before.topic_partition
    led = (found for look in looks if (found := leaderships(look).get(at)) is not None)
    successor = next(
        (
            found
            for found in led
            if found.leader_epoch > before.leader_epoch and found.leader != before.leader
        ),
        None,
    )
    return Requirement(
        f"{at} changed its leader: {f.fault_name(done.step.do)} of broker {before.leader} "
        f"at {done.acted_ms} ms",
        successor is not None,
        _say(before.leader, before.leader_epoch, successor),
    )


def _say(leader: NodeId, leader_epoch: int, successor: Leadership | None) -> str:
    was = f"broker {leader} led at leader_epoch {leader_epoch}"
    if successor is None:
        return f"{was}, and nobody else was seen to lead after it"
    return f"{was}, then broker {successor.leader} at {successor.leader_epoch}"
