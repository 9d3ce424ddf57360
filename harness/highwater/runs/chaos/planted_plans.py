"""For each planted bug in the nodes: a plan that shows it, and the check that finds it.

The same plans without a mistake must pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_chaos import faults as f
from highwater_chaos.plan import (
    Consumer,
    Expected,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    Workload,
)

_SESSION = {"session_timeout_ms": 2_000}
_LONG_MS, _SHORT_MS = 10_000, 1_500
"""How long an ISR member may lag: longer than the cuts last, or shorter."""
_WORKLOAD = Workload(
    (Topic(min_insync_replicas=2),),
    (Producer(rate_per_s=100, max_in_flight=5), Producer(rate_per_s=100, max_in_flight=5)),
    (Consumer(),),
)
"""Two producers: their retries arrive in another order, so that they cannot hide lost records."""
_LEADER = "leader of t-0"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The faults of a cluster and its settings.

    lag_ms: how long a follower may lag and stay in the ISR.
    """

    title: str
    steps: tuple[Step, ...]
    lag_ms: int
    quiet_after_ms: int = 12_000

    def plan(self, bug: str = "", invariant: str = "") -> Plan:
        """Return the plan with the planted bug; with "", no bug, its run must pass."""
        return Plan(
            seed=1,
            title=self.title,
            topology=PlanTopology(
                controllers=1,
                broker_settings={**_SESSION, "replica_lag_time_max_ms": self.lag_ms},
                controller_settings=_SESSION,
            ),
            workload=_WORKLOAD,
            steps=self.steps,
            quiet_after_ms=self.quiet_after_ms,
            expected=Expected("fail", invariant, planted=bug) if bug else Expected(),
        )


KILLED_WITH_A_TAIL = Circumstances(
    "the leader's answers reach no follower; then it is killed",
    (
        Step(1_500, f.Cut(_LEADER, f.ANY, "replication", False, 6_000)),
        Step(4_500, f.Kill(_LEADER, 4_000)),
    ),
    _LONG_MS,
)
"""The leader appends records that no follower gets, and is killed while it alone has them."""

_ONLY_THE_SLOWEST_LEFT = (
    Step(1_500, f.Cut(_LEADER, "last follower of t-0", "replication", True, 8_000)),
    Step(6_500, f.Kill(_LEADER, 4_000)),
    Step(6_500, f.Kill("follower of t-0", 4_000)),
)
SLOWEST_IN_SYNC_LEFT = Circumstances(
    "one ISR member is cut off its leader; then it alone lives", _ONLY_THE_SLOWEST_LEFT, _LONG_MS
)
SLOWEST_OUT_OF_SYNC_LEFT = Circumstances(
    "the same, with a lag so short that it has left the ISR", _ONLY_THE_SLOWEST_LEFT, _SHORT_MS
)
SILENT_LEFT = Circumstances(
    "a member never fetches from the next leader; then it alone lives",
    (
        Step(1_500, f.Cut(f.ANY, "last follower of t-0", "replication", True, 9_000)),
        Step(2_500, f.Kill(_LEADER, 9_000)),
        Step(7_500, f.Kill(_LEADER, 4_000)),
    ),
    _LONG_MS,
)
POWER_LOST_IN_TURN = Circumstances(
    "each broker in turn loses power",
    tuple(
        Step(2_000 + 6_000 * turn, f.PowerLoss(f"broker-{turn % 3}", 1_500)) for turn in range(5)
    ),
    _LONG_MS,
    quiet_after_ms=34_000,
)


@dataclass(frozen=True, slots=True)
class PlantedPlan:
    """A planted bug, the circumstances that show it, and the invariant that it violates."""

    bug: str
    circumstances: Circumstances
    invariant: str

    def plan(self) -> Plan:
        return self.circumstances.plan(self.bug, self.invariant)


PLANTED_PLANS = (
    PlantedPlan("acknowledged_on_append", KILLED_WITH_A_TAIL, "I1"),
    PlantedPlan("high_watermark_ignores_slowest", SLOWEST_IN_SYNC_LEFT, "I1"),
    PlantedPlan("truncate_below_high_watermark", KILLED_WITH_A_TAIL, "I11"),
    PlantedPlan("high_watermark_skips_silent_members", SILENT_LEFT, "I1"),
    PlantedPlan("uncommitted_served_to_consumers", KILLED_WITH_A_TAIL, "I9"),
    PlantedPlan("truncate_nothing", KILLED_WITH_A_TAIL, "I3"),
    PlantedPlan("leader_epoch_reused", KILLED_WITH_A_TAIL, "I7"),
    PlantedPlan("election_outside_isr", SLOWEST_OUT_OF_SYNC_LEFT, "I1"),
    PlantedPlan("recovery_keeps_torn_batch", POWER_LOST_IN_TURN, "I3"),
)
CONTROLS = (KILLED_WITH_A_TAIL, SLOWEST_OUT_OF_SYNC_LEFT, POWER_LOST_IN_TURN)
"""The circumstances that are also run without a bug."""
