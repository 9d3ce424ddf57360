"""Whether this machine has what faulty disks need."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.faults.kinds import KINDS
from highwater.faults.means import Means
from highwater_chaos import faults as f

HAS_FUSE = Path("/dev/fuse").exists()
NEEDS_FUSE = pytest.mark.skipif(not HAS_FUSE, reason="this machine has no /dev/fuse")


def marks_of(fault: f.Fault) -> tuple[pytest.MarkDecorator, ...]:
    """Return the marks of a test of the fault."""
    return (NEEDS_FUSE,) if Means.FAULTY_DISKS in KINDS[type(fault)].needs else ()
