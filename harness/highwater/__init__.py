"""The names that users import, beside highwater_chaos.faults and highwater_chaos.plan.

Everything else may change without notice.

Clusters and plans need Docker's client and clients of Kafka, which take a while to import: each
name is loaded when it is first asked for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highwater.cluster.cluster import Cluster
    from highwater.cluster.settling import (
        await_full_isr,
        await_leader,
        await_replicated,
        look_at,
    )
    from highwater.cluster.topics import create_topic, delete_topic
    from highwater.cluster.topology import Topology
    from highwater.errors import HarnessError
    from highwater.run_folder import RunFolder
    from highwater.runs.judged.cluster import JudgedCluster
    from highwater.runs.plans.outcome import PlanResult
    from highwater.runs.plans.running import WorldName, run_plan
    from highwater.runs.stock.libraries import ClientKind
    from highwater.waiting import NeverHappened, eventually
    from highwater_chaos.plan import Plan
    from highwater_checker.judging import judge_run
    from highwater_checker.verdict import Outcome, Verdict

__all__ = [
    "ClientKind",
    "Cluster",
    "HarnessError",
    "JudgedCluster",
    "NeverHappened",
    "Outcome",
    "Plan",
    "PlanResult",
    "RunFolder",
    "Topology",
    "Verdict",
    "WorldName",
    "await_full_isr",
    "await_leader",
    "await_replicated",
    "create_topic",
    "delete_topic",
    "eventually",
    "judge_run",
    "look_at",
    "run_plan",
]

_MODULES = {
    "ClientKind": "highwater.runs.stock.libraries",
    "Cluster": "highwater.cluster.cluster",
    "HarnessError": "highwater.errors",
    "JudgedCluster": "highwater.runs.judged.cluster",
    "NeverHappened": "highwater.waiting",
    "Outcome": "highwater_checker.verdict",
    "Plan": "highwater_chaos.plan",
    "PlanResult": "highwater.runs.plans.outcome",
    "RunFolder": "highwater.run_folder",
    "Topology": "highwater.cluster.topology",
    "Verdict": "highwater_checker.verdict",
    "WorldName": "highwater.runs.plans.running",
    "await_full_isr": "highwater.cluster.settling",
    "await_leader": "highwater.cluster.settling",
    "await_replicated": "highwater.cluster.settling",
    "create_topic": "highwater.cluster.topics",
    "delete_topic": "highwater.cluster.topics",
    "eventually": "highwater.waiting",
    "judge_run": "highwater_checker.judging",
    "look_at": "highwater.cluster.settling",
    "run_plan": "highwater.runs.plans.running",
}

# gRPC reads these variables at its first import, so they are set before any import of gRPC.
# It prints a line to stderr for each channel that a stopping node closes.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# Its handlers of fork() kill one in ten children of a process that talks to a cluster meanwhile,
# before they run their program: Spark's start, and any of a user's own with a preexec_fn.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
