"""The partitions that must have changed their leader for a run to prove anything, and how soon.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from highwater.cluster.topology import Topology
from highwater.report.failover import Gap, longest_gap
from highwater.report.observation import active_controller
from highwater.runs.plans.schedule import StepDone
from highwater_chaos import faults as f
from highwater_chaos.plan import Plan
from highwater_checker.history import Acknowledged
from highwater_checker.looks import Leadership, Look, leaderships
from highwater_checker.verdict import Requirement
from highwater_core.ids import NodeId, TopicPartition, is_controller

SURE_AFTER_SESSIONS = 2
"""Session timeouts after which a leader that does not answer has been replaced."""
_SILENCING = f.Kill | f.FlipBit | f.Pause | f.Isolate | f.Cut
_OF_ZOOKEEPER = f.PauseZooKeeper | f.RestartZooKeeper | f.SlowZooKeeper
_MS = 1_000_000
_UNSET_SESSION_MS = Topology().session_timeout_ms


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A partition whose leader a fault must have changed.

    Units: ns from the run's start.
    after: the first other leader seen, None if there was none.
    acted_ns: when the fault acted.
    seen_ns: when that leader was seen; without one, by when it should have been.
    """

    before: Leadership
    after: Leadership | None
    done: StepDone
    acted_ns: int
    seen_ns: int

    def requirement(self) -> Requirement:
        leader = self.before.leader
        return Requirement(
            f"{self.before.topic_partition} changed its leader: "
            f"{f.fault_name(self.done.step.do)} of broker {leader} at {self.done.acted_ms} ms",
            self.after is not None,
            _say(leader, self.before.leader_epoch, self.after),
        )

    def gap(self, acknowledged: Sequence[Acknowledged]) -> Gap | None:
        """Return the longest time without an acknowledgement of the partition meanwhile."""
        at = self.before.topic_partition
        return longest_gap(
            acknowledged, at.topic, at.partition, start_ns=self.acted_ns, end_ns=self.seen_ns
        )


def takeovers(
    plan: Plan,
    steps: Sequence[StepDone],
    looks: Sequence[Look],
    begin_ns: int,
    session_timeout_ms: int,
) -> list[Requirement]:
    """Return the run's requirements about takeovers.

    The plan may require a least number of them. The arguments are those of leader_changes.
    """
    seen = steps, looks, begin_ns, session_timeout_ms, plan.quiet_after_ms
    changes, of_controllers = list(leader_changes(*seen)), list(controller_changes(*seen))
    required = [*(change.requirement() for change in changes), *of_controllers]
    least = 0 if plan.expected is None else plan.expected.least_takeovers
    if least:
        judged = len({id(change.done) for change in changes}) + len(of_controllers)
        name = f"{least} takeovers could be judged"
        required.append(Requirement(name, judged >= least, f"{judged} could"))
    return required


def longest_session_timeout_ms(*settings: Mapping[str, Any]) -> int:
    """Return the longest session timeout of nodes with these settings, by kind of node.

    A kind without one, or with one that is no number, has the default.
    """
    given = (each.get("session_timeout_ms") for each in settings)
    return max(each if isinstance(each, int) else _UNSET_SESSION_MS for each in given)


def leader_changes(
    steps: Sequence[StepDone],
    looks: Sequence[Look],
    begin_ns: int,
    session_timeout_ms: int,
    quiet_after_ms: int,
) -> Iterator[LeaderChange]:
    """Yield, for each fault that must have changed a leader, whether it did.

    A leader must change when all of this holds for two session timeouts:
    - the fault took a broker out, or cut it off from ZooKeeper;
    - the broker led a partition whose ISR had another member, which answered and had no fault;
    - ZooKeeper answered: without it no session expires and no leader is elected.

    looks: in order.
    begin_ns: the start of the plan's time, by the looks' clock.
    quiet_after_ms: when all faults are undone, in the plan's time.
    """
    session_ns = session_timeout_ms * _MS
    for done in steps:
        besides = _besides(done, steps, session_timeout_ms)
        zookeeper_is_hit = any(isinstance(each.step.do, _OF_ZOOKEEPER) for each in besides)
        if zookeeper_is_hit or not _ends_a_session(done, session_timeout_ms, quiet_after_ms):
            continue
        hit = {each.node for each in besides}
        acted_ns = begin_ns + (done.acted_ms or 0) * _MS
        meanwhile = _meanwhile(looks, acted_ns, session_ns)
        before = _led(look for look in meanwhile if look.time_ns < acted_ns)
        for leadership in before.values():
            others = [
                broker
                for broker in leadership.isr
                if broker != leadership.leader and int(broker) not in hit
            ]
            is_led_by_it = int(leadership.leader) == done.node
            if is_led_by_it and any(_goes_on(each, meanwhile, session_ns) for each in others):
                after, seen_ns = _successor(leadership, looks, acted_ns)
                yield LeaderChange(
                    leadership,
                    after,
                    done,
                    acted_ns,
                    seen_ns or acted_ns + SURE_AFTER_SESSIONS * session_ns,
                )


def controller_changes(
    steps: Sequence[StepDone],
    looks: Sequence[Look],
    begin_ns: int,
    session_timeout_ms: int,
    quiet_after_ms: int,
) -> Iterator[Requirement]:
    """Yield, for each kill of an active controller, whether another one was active after it.

    There must be one when the killed one is down for two session timeouts, and meanwhile another
    controller answers and there are no faults but to brokers. The arguments are those of
    leader_changes.
    """
    session_ns = session_timeout_ms * _MS
    for done in steps:
        is_kill = isinstance(done.step.do, f.Kill)
        if not is_kill or not _ends_a_session(done, session_timeout_ms, quiet_after_ms):
            continue
        acted_ns = begin_ns + (done.acted_ms or 0) * _MS
        meanwhile = _meanwhile(looks, acted_ns, session_ns)
        active = (active_controller(look) for look in meanwhile if look.time_ns < acted_ns)
        before = next((each for each in reversed(list(active)) if each is not None), None)
        if before is None or int(before.node_id) != done.node:
            continue
        controllers = [node for look in looks[:1] for node in look.nodes if is_controller(node)]
        others = [NodeId(node) for node in controllers if node != done.node]
        besides = _besides(done, steps, session_timeout_ms)
        is_alone = not any(map(_hits_more_than_brokers, besides))
        if not is_alone or not any(_goes_on(each, meanwhile, session_ns) for each in others):
            continue
        later = (active_controller(look) for look in looks if look.time_ns > acted_ns)
        after = next(
            (
                each
                for each in later
                if each is not None
                and each.controller_epoch > before.controller_epoch
                and each.node_id != before.node_id
            ),
            None,
        )
        yield Requirement(
            f"another controller was active: kill of {before.node_id} at {done.acted_ms} ms",
            after is not None,
            f"{before.node_id} at controller_epoch {before.controller_epoch}, then "
            + (f"{after.node_id} at {after.controller_epoch}" if after else "nobody else"),
        )


def _hits_more_than_brokers(done: StepDone) -> bool:
    """Return whether the step may have acted on a controller, ZooKeeper or a link."""
    if isinstance(done.step.do, f.KillClient):
        return False
    return done.node is None or is_controller(done.node)


def _besides(done: StepDone, steps: Sequence[StepDone], session_timeout_ms: int) -> list[StepDone]:
    """Return the other steps that acted during the takeover."""
    return [each for each in steps if each is not done and _overlap(done, each, session_timeout_ms)]


def _overlap(done: StepDone, other: StepDone, session_timeout_ms: int) -> bool:
    """Return whether the other step acted during the takeover."""
    if not other.has_fired or other.acted_ms is None or done.acted_ms is None:
        return False
    for_ms: int | None = getattr(other.step.do, "for_ms", None)
    sure_ms = done.acted_ms + SURE_AFTER_SESSIONS * session_timeout_ms
    has_ended = for_ms is not None and other.acted_ms + for_ms < done.acted_ms - session_timeout_ms
    return other.acted_ms <= sure_ms and not has_ended


def _ends_a_session(done: StepDone, session_timeout_ms: int, quiet_after_ms: int) -> bool:
    """Return whether the step acted for so long; at quiet_after_ms it was undone at the latest."""
    fault = done.step.do
    if not done.has_fired or not isinstance(fault, _SILENCING):
        return False
    acted_ms = done.acted_ms or 0
    end_ms = quiet_after_ms if fault.for_ms is None else acted_ms + fault.for_ms
    lasted_ms = min(end_ms, quiet_after_ms) - acted_ms
    return lasted_ms >= SURE_AFTER_SESSIONS * session_timeout_ms


def _meanwhile(looks: Sequence[Look], acted_ns: int, session_ns: int) -> list[Look]:
    """Return the looks from one session timeout before the fault until a change is sure."""
    sure_ns = acted_ns + SURE_AFTER_SESSIONS * session_ns
    return [look for look in looks if acted_ns - session_ns <= look.time_ns <= sure_ns]


def _led(looks: Iterable[Look]) -> dict[TopicPartition, Leadership]:
    """Return the last leader of each partition, from the looks that the node answered."""
    found: dict[TopicPartition, Leadership] = {}
    for look in looks:
        found |= leaderships(look)
    return found


def _goes_on(node: NodeId, looks: Sequence[Look], session_ns: int) -> bool:
    """Return whether the node answered, without a pause of half a session timeout."""
    answered_ns = looks[0].time_ns
    for look in looks:
        if look.nodes.get(node) is not None:
            answered_ns = look.time_ns
        elif 2 * (look.time_ns - answered_ns) >= session_ns:
            return False
    return any(look.nodes.get(node) is not None for look in looks)


def _successor(
    before: Leadership, looks: Sequence[Look], acted_ns: int
) -> tuple[Leadership | None, int]:
    """Return the first other leader of a later epoch, and its time; None and 0 without one."""
    for look in looks:
        found = leaderships(look).get(before.topic_partition)
        if look.time_ns <= acted_ns or found is None:
            continue
        if found.leader_epoch > before.leader_epoch and found.leader != before.leader:
            return found, look.time_ns
    return None, 0


def _say(leader: NodeId, leader_epoch: int, successor: Leadership | None) -> str:
    was = f"broker {leader} led at leader_epoch {leader_epoch}"
    if successor is None:
        return f"{was}, and nobody else was seen to lead after it"
    return f"{was}, then broker {successor.leader} at {successor.leader_epoch}"
