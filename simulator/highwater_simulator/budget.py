"""How many disks of a plan may lose something: one, however often."""

from __future__ import annotations

from highwater_chaos import faults as f
from highwater_chaos.fault_problems import is_described
from highwater_chaos.plan import Step

_LOSING = (f.PowerLoss, f.FlipBit)


def within_budget(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Keep the first fault that makes a disk lose something, and those of the same broker's disk.

    Kafka acknowledges before it syncs: it promises to survive fewer such losses than
    min.insync.replicas, which is two at least in these schedules. One broker's are one, however
    often: the others have what it lost. A broker that is described may be another each time.
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
    """Return whether the fault makes a disk lose what it held."""
    return isinstance(fault, _LOSING) or (
        isinstance(fault, f.Kill) and fault.disk is f.DiskAtStart.EMPTY
    )
