"""Which of the costly tests run for a commit: every third one.

A commit's share is settled by its hash, so it passes today and tomorrow alike, and a fault in what
one of these tests alone sees is found within a few commits, at the latest by the nightly job
(.github/workflows/nightly.yml), which runs all. The reasons are in
docs/decisions/0015-a-commit-runs-a-third-of-the-costly-tests.md.
"""

from __future__ import annotations

from collections.abc import Sequence

FOLDERS = {
    "tests/integration/": (
        "chaos_run", "clients_that_harm", "cluster_lifecycle", "committed_offsets_in_containers",
        "compaction_in_containers", "crashes_of_jobs_in_containers", "damaged_disks",
        "every_fault_after_a_kill", "example_project", "faults_after_a_kill", "healing",
        "more_faults_in_containers",
        "plan_faults_in_containers", "plans_in_containers", "properties_under_faults",
        "pytest_plans", "pytest_plugin", "slow_links", "stock_groups", "whole_node_failures",
    ),
    "tests/simulation/": (
        "bugs_for_containers", "crashes_of_jobs", "judge_beside_the_oracle", "plan_commands",
        "plans_agree_simulated", "search_processes",
    ),
    "tests/pipeline/": ("campaign", "comparing", "ranges"),
    "tests/scenarios/": ("bugs_are_minimal",),
    "tests/fuzz/": ("fuzz",),
}  # fmt: skip
"""The files of costly tests, each without test_ and .py."""

COSTLY = frozenset(f"{folder}test_{name}.py" for folder, names in FOLDERS.items() for name in names)

SHARE = 3
"""Of so many costly tests a commit runs one."""


def left_to_the_next(nodeids: Sequence[str], seed: int) -> frozenset[str]:
    """Return the tests that this commit leaves out: of the costly files all but every third one.

    nodeids: of all tests, in the order of their collection; neighbours are parted, so that each
    share has some of each file.
    """
    costly = [each for each in nodeids if each.partition("::")[0] in COSTLY]
    return frozenset(costly) - frozenset(costly[seed % SHARE :: SHARE])
