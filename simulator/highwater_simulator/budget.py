"""At most one disk of a plan may lose data; it may do so several times."""

from __future__ import annotations

from highwater_chaos import faults as f
from highwater_chaos.fault_problems import is_described
from highwater_chaos.plan import Step

_LOSING = (f.PowerLoss, f.FlipBit)


def within_budget(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Keep the first fault that makes a disk lose data, and later ones of the same broker's disk.

    Kafka acknowledges before it syncs: it survives fewer such losses than min.insync.replicas,
    which is at least two in these schedules. All losses of one broker count as one, since the
    other replicas have its records. A step that names a broker by its role may mean another broker
    each time.
    """
    kept: list[Step] = []
    loser: str | None = None
    for step in steps:
        if is_losing(step.do):
            node = getattr(step.do, "node", "")
            if loser is not None and (node != loser or is_described(node)):
                continue
            loser = node
        kept.append(step)
    return tuple(kept)


def is_losing(fault: f.Fault) -> bool:
    """Return whether the fault makes a disk lose data."""
    return isinstance(fault, _LOSING) or (
        isinstance(fault, f.Kill) and fault.disk is f.DiskAtStart.EMPTY
    )
