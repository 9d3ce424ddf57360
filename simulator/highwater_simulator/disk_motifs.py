"""Motifs of disks: damage found at a start, faults during recovery, losses to be remembered.

Each has a random stream of its own. In each only one broker's disk loses data, perhaps several
times: see budget.
"""

from __future__ import annotations

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_simulator.draws import Targets
from highwater_simulator.motifs import Motif

_SHORT_MS = (1, 30, 300)
_RECOVERING = "during_log_recovery"


def damaged_tail(t: Targets, at_ms: int) -> list[Step]:
    """A broker starts with a damaged log within one boot; brokers with whole logs are down.

    Perhaps it dies once more while it recovers, and its next start forgets the loss.
    Source: KIP-966.
    """
    damaged, *others = t.draw.shuffled(t.brokers)
    flip_ms, back_ms = at_ms + t.draw.of((5, 400, 1_400)), t.draw.of(_SHORT_MS)
    steps = [*_leave(t, others, at_ms), Step(flip_ms, _flip(damaged, back_ms))]
    if t.draw.chance(0.3):
        held = f.DelayAt(damaged, "before_recovery_point_write", 30_000, 1, 2_000)
        steps.append(Step(max(0, at_ms - 600), held))
    return steps + _fall_in_recovery(t, damaged, flip_ms)


def power_lost_again(t: Targets, at_ms: int) -> list[Step]:
    """A machine loses power; during log recovery it loses power again, or its broker dies."""
    broker, *others = t.draw.shuffled(t.brokers)
    steps = [Step(at_ms, f.PowerLoss(broker, t.draw.of(_SHORT_MS)))]
    if t.draw.chance(0.7):
        steps += _leave(t, others, max(0, at_ms + t.draw.of((-300, -5, 50))))
    return steps + _fall_in_recovery(t, broker, at_ms)


def _leave(t: Targets, others: list[str], at_ms: int) -> list[Step]:
    """Kill the other brokers, mostly all of them, one soon after the other."""
    leaving = others if t.draw.chance(0.7) else others[:1]
    gap_ms, away_ms = t.draw.of((0, 3, 40)), t.draw.of((1_500, 3_500))
    return [
        Step(at_ms + place * gap_ms, f.Kill(each, away_ms)) for place, each in enumerate(leaving)
    ]


def _flip(broker: str, back_ms: int) -> f.Fault:
    return f.FlipBit(broker, f.FileKind.LOG_TAIL, back_ms)


def _fall_in_recovery(t: Targets, broker: str, at_ms: int) -> list[Step]:
    """While the broker recovers its logs, kill it, cut its power, or do nothing."""
    how = t.draw.of(("die", "die", "kill", "power", ""))
    if how == "die":
        crash = f.CrashAt(broker, _RECOVERING, t.draw.of(_SHORT_MS), 5_000)
        return [Step(max(0, at_ms - 1), crash)]
    if not how:
        return []
    held = f.DelayAt(broker, _RECOVERING, t.draw.of((40, 400)), t.draw.of((1, 3)), 5_000)
    then_after_ms = t.draw.of((0, 5, 30))
    reached = When(Observed.EVENT, event="fail_point_hit", node=broker, then_after_ms=then_after_ms)
    falls: f.Fault = (
        f.Kill(broker, t.draw.of(_SHORT_MS))
        if how == "kill"
        else f.PowerLoss(broker, t.draw.of(_SHORT_MS))
    )
    return [Step(max(0, at_ms - 1), held), Step(at_ms, falls, reached)]


def stopped_then_power_lost(t: Targets, at_ms: int) -> list[Step]:
    """The last broker is asked to stop, on a disk that fails; its machine loses power then."""
    broker, *others = t.draw.shuffled(t.brokers)
    stop_ms = at_ms + t.draw.of((5, 700, 1_600, 2_500))
    stopped = When(
        Observed.EVENT, event="node_stopped", node=broker, then_after_ms=t.draw.of((0, 1, 50))
    )
    failing = f.DiskErrors(broker, f.DiskOperation.SYNC, t.draw.of((25, 50)), 2_500)
    steps = [
        *_leave(t, others, at_ms),
        Step(stop_ms, f.Terminate(broker, t.draw.of((100, 600)))),
        Step(stop_ms, f.PowerLoss(broker, t.draw.of(_SHORT_MS)), stopped),
    ]
    if t.draw.chance(0.7):
        steps.append(Step(max(0, stop_ms - t.draw.of((5, 150))), failing))
    return steps


def cut_then_power_lost(t: Targets, at_ms: int) -> list[Step]:
    """A deposed leader truncates records that no other broker has, and loses power.

    It must not keep checkpoints above its log's end.
    """
    broker, at = t.draw.of(t.brokers), t.partition()
    leader = f"leader of {at}"
    lost_ms = t.draw.of((0, 5, 40, 200))
    truncated = When(Observed.EVENT, event="log_truncated", partition=at, then_after_ms=lost_ms)
    return [
        Step(at_ms, f.Cut(leader, f.ANY, "replication", True, t.draw.of((300, 700)))),
        Step(at_ms + t.draw.of((100, 250)), f.ExpireSession(leader)),
        Step(at_ms + 100, f.PowerLoss(broker, t.draw.of(_SHORT_MS)), truncated),
    ]


def failing_removal(t: Targets, at_ms: int) -> list[Step]:
    """A topic is deleted, and perhaps created again, while a disk refuses to remove files."""
    broker, gap_ms = t.draw.of(t.brokers), t.draw.of((200, 600))
    factor = min(3, len(t.brokers))
    operation = t.draw.of((f.DiskOperation.REMOVE, f.DiskOperation.REMOVE, f.DiskOperation.RENAME))
    failing = f.DiskErrors(broker, operation, t.draw.of((50, 100)), 4 * gap_ms)
    steps = [
        Step(at_ms, f.CreateTopic("x", t.draw.of((1, 2)), factor, records=2)),
        Step(at_ms + gap_ms + t.draw.of((0, gap_ms)), failing),
        Step(at_ms + 2 * gap_ms, f.DeleteTopic("x")),
    ]
    if t.draw.chance(0.5):
        steps.append(Step(at_ms + gap_ms, f.Kill(broker, t.draw.of((gap_ms, 2 * gap_ms)))))
    if t.draw.chance(0.6):
        steps.append(Step(at_ms + 3 * gap_ms, f.CreateTopic("x", 1, factor, records=1)))
    return steps


def flipped_identity(t: Targets, broker: str, at_ms: int) -> list[Step]:
    """A bit flips in a disk's identity or checkpoint files; mostly the others are down."""
    others = [each for each in t.draw.shuffled(t.brokers) if each != broker]
    kind = t.draw.of((f.FileKind.METADATA, f.FileKind.METADATA, f.FileKind.IDENTITY))
    flip_ms, back_ms = at_ms + t.draw.of((5, 400, 1_400)), t.draw.of(_SHORT_MS)
    leaving = _leave(t, others, at_ms) if t.draw.chance(0.7) else []
    return [*leaving, Step(flip_ms, f.FlipBit(broker, kind, back_ms))]


DISK_MOTIFS: tuple[Motif, ...] = (
    damaged_tail,
    damaged_tail,
    power_lost_again,
    power_lost_again,
    stopped_then_power_lost,
    cut_then_power_lost,
    failing_removal,
)
