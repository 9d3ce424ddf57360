"""The demo's plan: two kills under load, of a leader and of the active controller."""

from __future__ import annotations

from highwater_chaos.faults import Kill
from highwater_chaos.plan import (
    Consumer,
    Expected,
    Observed,
    Plan,
    PlanTopology,
    Producer,
    Step,
    Topic,
    When,
    Workload,
)
from highwater_core.config import Preset, has_controllers

TOPIC = "demo"
KILLED_PARTITION = f"{TOPIC}-0"
STEADY_MS = 3_000
"""Time without a fault before each kill."""
LEAST_ACKNOWLEDGED = 1_000


def demo_plan(
    preset: Preset = Preset.FENCED, session_timeout_ms: int = 2_000, records_per_second: int = 1_000
) -> Plan:
    """Return the plan: kill a leader, then, once another one leads, the active controller.

    Each stays down until well after another one has taken over; both are back before the end.
    Under a preset without controllers only the leader is killed.
    """
    session = {"session_timeout_ms": session_timeout_ms}
    leader_down_ms = 2 * session_timeout_ms + 2 * STEADY_MS
    controller_down_ms = 2 * session_timeout_ms + 1_000
    another_leads = When(Observed.LEADER_EPOCH, KILLED_PARTITION, count=1, then_after_ms=STEADY_MS)
    kills = [Step(STEADY_MS, Kill(f"leader of {KILLED_PARTITION}", leader_down_ms))]
    killed = "a leader is killed"
    if has_controllers(preset):
        kills.append(Step(STEADY_MS, Kill("active controller", controller_down_ms), another_leads))
        killed = "a leader and the active controller are killed"
    return Plan(
        seed=7,
        title=f"The demo: {killed} under load",
        topology=PlanTopology(preset=preset, broker_settings=session, controller_settings=session),
        workload=Workload(
            topics=(Topic(TOPIC, partitions=3, min_insync_replicas=2),),
            producers=(
                Producer(
                    TOPIC,
                    rate_per_s=records_per_second,
                    max_in_flight=5,
                    batch_max_records=50,
                    linger_ms=2,
                    request_timeout_ms=1_500,
                    delivery_timeout_ms=60_000,
                    value_bytes=100,
                ),
            ),
            consumers=(Consumer(TOPIC),),
        ),
        steps=tuple(kills),
        quiet_after_ms=3 * session_timeout_ms + 4 * STEADY_MS,
        expected=Expected(least_acknowledged=LEAST_ACKNOWLEDGED, least_takeovers=len(kills)),
    )
