"""Runs one plan: start, faults under load, healing, progress, and the checks of the end.

A run depends on its plan and on the planted bug alone. Its phases:
- the topics are created and replicated;
- faults, until quiet_after_ms;
- the core is healed for good, and must make progress within a bound;
- the last reads;
- the checks of the end.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from highwater_broker.settings import BrokerSettings
from highwater_chaos.faults import ChangeConfig
from highwater_chaos.plan import Plan
from highwater_checker.history import HistoryEvent, encode
from highwater_checker.stories.entries import FAULTS_BEGIN, HEALED
from highwater_core.check import BugFound
from highwater_core.errors import ErrorCode
from highwater_core.events import TraceEvent
from highwater_core.ids import NodeId, TopicPartition, node_name
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_simulator import liveness
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.coverage import Coverage
from highwater_simulator.end_of_schedule import check_end, leaders_in, lives_in
from highwater_simulator.injector import FaultInjector, Outcome
from highwater_simulator.kernel import SimulationFailed
from highwater_simulator.liveness import Core, Missing
from highwater_simulator.load import Load
from highwater_simulator.minima import KEY, configured_minimum, is_compacted, least_in_sync
from highwater_simulator.network import Plane, latency_of
from highwater_simulator.oracle.documented import OnTheWay
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.oracle.violation import InvariantBroken, Violation
from highwater_simulator.run_cost import NO_COST, CostMeter, RunCost
from highwater_simulator.trace_log import TraceLog
from highwater_simulator.world import World

READY_WITHIN_MS = 20_000
WRITE_ON_MS = 400
"""How long clients go on writing once all faults are healed."""
SETTLE_WITHIN_MS = 40_000
PROBE_WITHIN_MS = 10_000
READ_WITHIN_MS = 10_000
TRIES_TO_REBALANCE = 4
"""A member may be missed, another may join late, a third may send to a former coordinator."""
CONFIG_WITHIN_MS = 2_000
"""Time for every broker to apply its configurations, once all is healed and idle."""
CHECKPOINT_WITHIN_MS = 10_000
"""Time to write a checkpoint, beyond two of its intervals."""
LATE_MESSAGES = 2
"""So many messages in a row may take the longest that their link's latency allows."""
STEP_MS = 20
"""How often a phase's end is checked."""

_OFFSETS_FACTOR = "offsets_topic_replication_factor"
_CHECKPOINT_INTERVAL = "high_watermark_checkpoint_interval_ms"
_DEFAULTS = BrokerSettings(node_id=NodeId(0))

CRASH = "crash"
"""The invariant's name for a node's error or a livelock."""
NOT_READY = "not ready"
SHRINKING_PROBED = "shrinking_probed"
"""The mark of a run that tested whether a leader goes on without a follower."""
MINIMUM_PROBED = "minimum_probed"
"""The mark of a run in which too few were in sync for a minimum that was changed in its course."""


@dataclass(slots=True)
class RunResult:
    """The result of a run; violation None is a pass.

    Units: simulated_ns is virtual time. flags: violations that did not end the run.
    """

    plan: Plan
    violation: Violation | None
    flags: tuple[Violation, ...]
    excused: tuple[tuple[TopicPartition, int], ...]
    acknowledged: int
    events: int
    simulated_ns: int
    marks: Counter[str]
    outcome: Outcome
    trace: TraceLog = field(repr=False)
    history: list[HistoryEvent] = field(repr=False)
    processes: tuple[str, ...] = ()
    """Every incarnation of a client, also without an operation."""
    faults_begin_ns: int | None = None
    """The virtual time from which the plan's steps count, None where the run ended before."""
    cost: RunCost = NO_COST
    groups_are_served: bool = True
    """Whether healed nodes could coordinate every group at the end, and commit its offsets."""

    @property
    def passed(self) -> bool:
        return self.violation is None

    def digest(self) -> str:
        """Return a SHA-256 over trace and history: equal digests mean equal runs."""
        found = hashlib.sha256(self.trace.digest().encode())
        for event in self.history:
            found.update(encode(event))
        return found.hexdigest()


class _Failed(Exception):
    """A phase did not reach its end."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.message)
        self.missing = missing


class PlanRun:
    """One run of one plan.

    at_the_end: called with the world while its nodes still exist, and with the healed nodes: None
        where the run ended before they had settled.
    """

    def __init__(
        self, plan: Plan, at_the_end: Callable[[World, Core | None], None] | None = None
    ) -> None:
        self.plan = plan
        self._at_the_end = at_the_end
        self.faults_begin_ns: int | None = None
        self._groups_are_served = True
        self._late_ms = LATE_MESSAGES * -(-latency_of(plan.network).tail_ns // NS_PER_MS)
        self.world = World(plan.seed, plan.topology, plan.network)
        self._on_the_way = OnTheWay(plan, self.world.trace.entries)
        self.oracle = Oracle(self.world, self._on_the_way)
        self.coverage = Coverage()
        self._meter = CostMeter(self.world.network, self.world.zookeeper)
        self.load = Load(self.world, plan)
        self.injector = FaultInjector(self.world, self.oracle, plan.steps, self.load)
        judge = self.world.on_event

        def on_event(event: TraceEvent) -> None:
            if judge is not None:
                judge(event)
            self.coverage.event_traced(event)
            self.injector.event_traced(event)

        self.world.on_event = on_event

    # ------------------------------------------------------------ phases

    def run(self) -> RunResult:
        """Run all phases, or as far as the first violation past which the run does not go on."""
        violation: Violation | None = None
        settled: Core | None = None
        try:
            self._get_ready()
            self._do_faults()
            core = self._heal()
            self._settle(core)
            self._probe(core)
            self._settle(core)  # again: a replica that only seemed to follow lacks the probe record
            if _changes_minimum(self.plan):
                self._probe_minimum(core)
            if self.plan.probes_shrinking:
                self._probe_shrinking(core)
            self._await_checkpoints(core)
            self._read_to_the_end(core)  # last: late records are committed by then
            settled = core
            self._check_end(core)
            violation = self._on_the_way.first_passed()  # the expected one never came
        except InvariantBroken as broken:
            violation = broken.violation
        except _Failed as failed:
            missing = failed.missing
            violation = self.oracle.note(
                missing.topic_partition, missing.invariant, missing.message
            )
        except (SimulationFailed, BugFound) as failure:
            violation = self.oracle.note(None, CRASH, str(failure).split("\n", 1)[0])
        finally:
            if self._at_the_end is not None:
                self._at_the_end(self.world, settled)
            self.world.close()
        return self._result(violation)

    def _get_ready(self) -> None:
        self.world.start_all()
        self.load.create_topics()

        def missing() -> Missing | None:
            assigned = liveness.assignments_of(self.world)
            for at in self.load.partitions:
                if at not in assigned or not self.world.is_replicated(at, assigned[at]):
                    return Missing(NOT_READY, "the topic is not fully replicated", at)
            return None

        self._await(missing, READY_WITHIN_MS)

    def _do_faults(self) -> None:
        self.world.trace.note("plan", FAULTS_BEGIN)
        self.faults_begin_ns = self.world.kernel.now_ns()
        self._meter.begin(self.faults_begin_ns)
        self.injector.begin()
        self.load.begin()
        self.world.kernel.run_for(self.plan.quiet_after_ms)
        self._meter.end(self.world.kernel.now_ns())

    def _heal(self) -> Core:
        core = liveness.extend_core(self.world, self._planned_core())
        self.injector.heal(core)
        self.world.trace.note("plan", HEALED, core=[*core.brokers, *core.controllers])
        self._await(
            lambda: next(liveness.held_by_failed_folders(self.world, core), None), SETTLE_WITHIN_MS
        )
        self.injector.start_again_on_sound_folders(core)
        self.world.kernel.run_for(WRITE_ON_MS)
        self.load.stop_writing()
        return core

    def _planned_core(self) -> Core:
        names, world = self.plan.core, self.world
        return Core(
            tuple(broker for broker in world.brokers if not names or node_name(broker) in names),
            tuple(
                controller
                for controller in world.controllers
                if not names or node_name(controller) in names
            ),
        )

    def _settle(self, core: Core) -> None:
        def missing() -> Missing | None:
            if not self.load.has_stopped_writing():
                return Missing("L5", "a producer still waits for an outcome")
            healed = (*core.brokers, *core.controllers)
            stopping = [node for node in self.injector.asked_to_stop if node in healed]
            if stopping:
                return Missing("L7", f"{stopping} were asked to stop and have not")
            return next(liveness.missing(self.world, core), None)

        self._await(missing, SETTLE_WITHIN_MS)

    def _probe(self, core: Core) -> None:
        """L5: every partition takes a record, if enough of the core can be in sync."""
        assigned = liveness.assignments_of(self.world)
        for topic in self.plan.workload.topics:
            for number in range(topic.partitions):
                at = TopicPartition(topic.name, number)
                if self._takes_records(core, at, assigned.get(at, ())):
                    self._probe_one(at, f"probe-{at}")

    def _takes_records(self, core: Core, at: TopicPartition, replicas: Sequence[int]) -> bool:
        """Return whether the core leads the partition, and enough of it can be in sync."""
        able = [broker for broker in replicas if broker in core.brokers]
        leadership = self.world.partition_state(at)
        has_leader = leadership is not None and leadership.leader in core.brokers
        return has_leader and len(able) >= least_in_sync(self.world, at.topic, len(replicas))

    def _serves_groups(self, core: Core) -> bool:
        """Return whether the core can coordinate every group and commit its offsets.

        Without __consumer_offsets: whether the core has enough brokers to create it.
        """
        offsets = {
            at: replicas
            for at, replicas in liveness.assignments_of(self.world).items()
            if at.topic == OFFSETS_TOPIC
        }
        if not offsets:
            settings = self.plan.topology.broker_settings
            factor = settings.get(_OFFSETS_FACTOR, _DEFAULTS.offsets_topic_replication_factor)
            return len(core.brokers) >= factor
        return all(self._takes_records(core, at, replicas) for at, replicas in offsets.items())

    def _probe_one(self, at: TopicPartition, value: str, *, is_acknowledged: bool = True) -> None:
        """Send a record; check that it is acknowledged, or not where is_acknowledged is False."""
        outcomes: list[str] = []

        async def send() -> None:
            key = "probe" if is_compacted(self.world, at.topic) else ""
            within_ms = PROBE_WITHIN_MS + self._late_ms
            outcome = await self.load.admin.send(at.topic, at.partition, value, within_ms, key=key)
            outcomes.append(outcome.error or ErrorCode.NONE.name)

        self.load.admin.runtime.start("probe", send())

        def missing() -> Missing | None:
            if outcomes and (outcomes == [ErrorCode.NONE.name]) is is_acknowledged:
                return None
            if outcomes and not is_acknowledged:
                return Missing("I17", "a record that its leader alone has is acknowledged", at)
            return Missing("L5", f"a record is not acknowledged: {outcomes}", at)

        self._await(missing, 2 * PROBE_WITHIN_MS)

    def _probe_shrinking(self, core: Core) -> None:
        """L5: a leader goes on without an ISR member that cannot fetch; L4: and adds it again.

        The member is cut off from its leader alone and keeps its session, so no controller helps. A
        record must be on its way, or the member does not lag (KAFKA-7152). Tested on the first
        partition whose ISR has a member to spare; without one the mark is not reached.
        """
        for at in self.load.partitions:
            leadership = self.world.partition_state(at)
            minimum = configured_minimum(self.world, at.topic)
            if leadership is None or len(leadership.isr) <= minimum:
                continue
            follower = [broker for broker in leadership.isr if broker != leadership.leader][-1]
            ends = node_name(follower), node_name(leadership.leader)
            self.world.trace.note("plan", f"{ends[0]} cannot fetch from {ends[1]}")
            self.world.network.cut_both_ways(*ends, Plane.REPLICATION)
            self._probe_one(at, f"again-{at}")
            self.coverage.marks[SHRINKING_PROBED] += 1
            self.world.network.heal_both_ways(*ends, Plane.REPLICATION)
            self._settle(core)
            return

    def _probe_minimum(self, core: Core) -> None:
        """I17: no record is acknowledged with fewer replicas in sync than a changed minimum.

        During the run a broker may not have read the new minimum yet; by now it must have. The ISR
        members are cut off from their leader alone, and lag. Tested on the first partition with a
        minimum of at least two; without one the mark is not reached.
        """
        self.world.kernel.run_for(CONFIG_WITHIN_MS)
        self.oracle.minima_are_known()
        assigned = liveness.assignments_of(self.world)
        for at in self.load.partitions:
            leadership, replicas = self.world.partition_state(at), assigned.get(at, ())
            if leadership is None or leadership.leader not in core.brokers:
                continue
            if least_in_sync(self.world, at.topic, len(replicas)) < 2:
                continue
            leader = node_name(leadership.leader)
            others = [node_name(each) for each in leadership.isr if each != leadership.leader]
            self.world.trace.note("plan", f"{', '.join(others)} cannot fetch from {leader}")
            for other in others:
                self.world.network.cut_both_ways(other, leader, Plane.REPLICATION)
            self._probe_one(at, f"too-few-{at}", is_acknowledged=False)
            self.coverage.marks[MINIMUM_PROBED] += 1
            for other in others:
                self.world.network.heal_both_ways(other, leader, Plane.REPLICATION)
            self._settle(core)
            return

    def _read_to_the_end(self, core: Core) -> None:
        self._groups_are_served = self._serves_groups(core)

        def missing() -> Missing | None:
            ends = self._high_watermarks(core)
            if not self.load.have_read_up_to(ends):
                return Missing("unseen", f"the consumers have not read up to {ends}")
            if self._groups_are_served and (group := self.load.group_that_lags(ends)):
                return Missing("unseen", f"group {group} has not read and committed up to {ends}")
            for at in ends:  # late records are on their way to the followers
                log_ends = self._log_ends_in_isr(at)
                if len(set(log_ends.values())) > 1:
                    return Missing("unseen", f"{at} ends at {log_ends} on its ISR")
            return None

        self._await(missing, READ_WITHIN_MS + _rebalanced_within_ms(self.plan))

    def _await_checkpoints(self, core: Core) -> None:
        """I15: each broker's high watermarks of now are in its next checkpoint."""
        had = liveness.hosted_high_watermarks(self.world, core)

        def missing() -> Missing | None:
            return next(liveness.not_checkpointed(self.world, had), None)

        settings = self.plan.topology.broker_settings
        interval_ms = settings.get(
            _CHECKPOINT_INTERVAL, _DEFAULTS.high_watermark_checkpoint_interval_ms
        )
        self._await(missing, 2 * interval_ms + CHECKPOINT_WITHIN_MS)

    def _log_ends_in_isr(self, at: TopicPartition) -> dict[int, int]:
        leadership = self.world.partition_state(at)
        isr = () if leadership is None else leadership.isr
        replicas = {int(broker): self.world.replica(int(broker), at) for broker in isr}
        return {
            broker: each.log_end_offset for broker, each in replicas.items() if each is not None
        }

    def _high_watermarks(self, core: Core) -> dict[TopicPartition, int]:
        """Return the leader's high watermark of each partition that the core leads."""
        return {
            at: replica.high_watermark
            for at in self.load.partitions
            if (leadership := self.world.partition_state(at)) is not None
            and leadership.leader in core.brokers
            and (replica := self.world.replica(int(leadership.leader), at)) is not None
        }

    def _check_end(self, core: Core) -> None:
        isrs = {
            at: [int(broker) for broker in leadership.isr]
            for at in self.load.partitions
            if (leadership := self.world.partition_state(at)) is not None
        }
        ends, excuses = self._high_watermarks(core), self.oracle.excuses
        for finding in check_end(
            self.world,
            isrs,
            ends,
            self.load.sent(),
            self.load.read(groups_to_the_end=self._groups_are_served),
            excuses,
            committed_ends={
                at: partition.committed.end_offset
                for at, partition in self.oracle.partitions.items()
            },
            lives=lives_in(self.world.trace, {at.topic for at in self.load.partitions}),
            retention=_lets_records_go(self.plan),
            leaders=lambda: leaders_in(self.world.trace),
        ):
            at = TopicPartition(finding.topic, finding.partition)
            self.oracle.report(at, finding.invariant, finding.message, finding.offset)

    # ------------------------------------------------------------ helpers

    def _await(self, missing: Callable[[], Missing | None], within_ms: int) -> None:
        """Run the world until nothing is missing; late messages get their time beyond within_ms.

        Raises:
            _Failed: something is still missing then.
        """
        kernel = self.world.kernel
        for _ in range((within_ms + self._late_ms) // STEP_MS):
            if missing() is None:
                return
            kernel.run_for(STEP_MS)
        last = missing()
        if last is not None:
            raise _Failed(last)

    def _result(self, violation: Violation | None) -> RunResult:
        history, excuses = self.load.histories(), self.oracle.excuses
        self._meter.end(self.world.kernel.now_ns())  # where the faults' violation ended it
        return RunResult(
            plan=self.plan,
            violation=violation,
            flags=tuple(self._on_the_way.flags),
            excused=tuple((each.topic_partition, each.start_offset) for each in excuses),
            acknowledged=self.load.acknowledged(),
            events=self.world.kernel.event_count,
            simulated_ns=self.world.kernel.now_ns(),
            marks=self.coverage.marks,
            outcome=self.injector.outcome,
            trace=self.world.trace,
            history=history,
            processes=self.load.processes(),
            cost=self._meter.cost(self.world.trace.entries, history),
            groups_are_served=self._groups_are_served,
            faults_begin_ns=self.faults_begin_ns,
        )


def _changes_minimum(plan: Plan) -> bool:
    """Return whether a step changes min.insync.replicas."""
    return any(isinstance(step.do, ChangeConfig) and step.do.key == KEY for step in plan.steps)


def _rebalanced_within_ms(plan: Plan) -> int:
    """Return the time in which groups expire a lost member, rebalance and read on."""
    groups = plan.workload.groups
    waits_ms = (each.session_timeout_ms + each.request_timeout_ms for each in groups)
    return TRIES_TO_REBALANCE * max(waits_ms, default=0)


def _lets_records_go(plan: Plan) -> bool:
    """Return whether retention may remove segments in the run."""
    changed = (step.do.key for step in plan.steps if isinstance(step.do, ChangeConfig))
    configured = (*plan.topology.broker_settings, *(key.replace(".", "_") for key in changed))
    return any(key.startswith("retention_") for key in configured)


def run_plan(plan: Plan) -> RunResult:
    """Run the plan in a world of its own."""
    return PlanRun(plan).run()
