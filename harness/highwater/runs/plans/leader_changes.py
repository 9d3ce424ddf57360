"""Which partitions must have changed their leader for a plan's run to prove anything. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from highwater.runs.plans.schedule import StepDone
from highwater_chaos import faults as f
from highwater_checker.looks import Leadership, Look, leaderships
from highwater_checker.verdict import Requirement
from highwater_core.ids import NodeId, TopicPartition

SURE_AFTER_SESSIONS = 2
"""Session timeouts after which a leader that does not answer has been replaced."""
_SILENCING = f.Kill | f.FlipBit | f.Pause | f.Isolate | f.Cut
_MS = 1_000_000


def leader_changes(
    steps: Sequence[StepDone], looks: Sequence[Look], begin_ns: int, session_timeout_ms: int
) -> Iterator[Requirement]:
    """Yield, for each fault that must have changed a leader, whether it did.

    It must when it took a broker out, or kept ZooKeeper from hearing of it, for two session
    timeouts, and the broker led a partition whose ISR had another member that went on all that
    time. looks: in order; begin_ns: when the plan's time began in theirs.
    """
    session_ns = session_timeout_ms * _MS
    for done in steps:
        if not _ends_a_session(done, session_timeout_ms):
            continue
        acted_ns = begin_ns + (done.acted_ms or 0) * _MS
        sure_ns = acted_ns + SURE_AFTER_SESSIONS * session_ns
        meanwhile = [look for look in looks if acted_ns - session_ns <= look.time_ns <= sure_ns]
        after = [look for look in looks if look.time_ns > acted_ns]
        before = _led(look for look in meanwhile if look.time_ns < acted_ns)
        for leadership in before.values():
            others = [broker for broker in leadership.isr if broker != leadership.leader]
            is_led_by_it = int(leadership.leader) == done.node
            if is_led_by_it and any(_goes_on(each, meanwhile, session_ns) for each in others):
                yield _requirement(leadership, after, done)


def _ends_a_session(done: StepDone, session_timeout_ms: int) -> bool:
    fault = done.step.do
    if not done.has_fired or not isinstance(fault, _SILENCING):
        return False
    return fault.for_ms is None or fault.for_ms >= SURE_AFTER_SESSIONS * session_timeout_ms


def _led(looks: Iterable[Look]) -> dict[TopicPartition, Leadership]:
    """Return who led each partition last; looks that an asked node did not answer in time tell
    nothing of it."""
    found: dict[TopicPartition, Leadership] = {}
    for look in looks:
        found |= leaderships(look)
    return found


def _goes_on(broker: NodeId, looks: Sequence[Look], session_ns: int) -> bool:
    """Return whether it answered, and never left looks unanswered for as long as half a session."""
    answered_ns = looks[0].time_ns
    for look in looks:
        if look.nodes.get(broker) is not None:
            answered_ns = look.time_ns
        elif 2 * (look.time_ns - answered_ns) >= session_ns:
            return False
    return any(look.nodes.get(broker) is not None for look in looks)


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
