"""I9: what consumers read is what lies in the logs, all of it."""

from __future__ import annotations

import pytest

from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.invariants.reads import check_reads
from highwater_checker.segments import ReplicaLog
