"""Faults of every kind that containers can do, for tests and benches that try all kinds.

For the full disk the cluster needs sized disks.
"""

from __future__ import annotations

from highwater.faults.kinds import ROWS
from highwater_chaos import faults as f

TOPIC = f.CreateTopic("kept", records=3)
"""A topic that no example deletes."""
EXAMPLES: tuple[f.Fault, ...] = tuple(example for row in ROWS for example in row.examples)


def example_name(fault: f.Fault) -> str:
    """Return the name of the example's kind, with the fields in which it differs from others."""
    is_emptied = isinstance(fault, f.Kill) and fault.disk is f.DiskAtStart.EMPTY
    is_stopped = isinstance(fault, f.Pause) and fault.by is f.PauseBy.SIGSTOP
    return f.fault_name(fault) + "_and_empty" * is_emptied + "_by_sigstop" * is_stopped
