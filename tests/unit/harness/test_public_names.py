"""The names that users import from `highwater`: each is kept, and is where the docs say."""

from __future__ import annotations

import subprocess
import sys

import highwater

NAMES = [
    "ClientKind", "Cluster", "HarnessError", "JudgedCluster", "NeverHappened", "Outcome", "Plan",
    "PlanResult", "RunFolder", "Topology", "Verdict", "WorldName", "await_full_isr", "await_leader",
    "await_replicated", "create_topic", "delete_topic", "eventually", "judge_run", "look_at",
    "run_plan",
]  # fmt: skip
"""Removing a name breaks users' tests: it goes from this list and into CHANGELOG.md together."""


def test_every_public_name_is_there() -> None:
    assert highwater.__all__ == NAMES
    for name in NAMES:
        assert getattr(highwater, name).__name__ == name


def test_no_other_name_is_made_up() -> None:
    assert not hasattr(highwater, "no_such_name")


def test_importing_the_package_alone_loads_no_client_library() -> None:
    code = "import sys, highwater; print({'docker', 'confluent_kafka', 'grpc'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
