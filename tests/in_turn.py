"""Which of the costly tests run for a commit: every second one, the others for the next commit.

A commit's half is settled by its hash, so it passes today and tomorrow alike, and a fault in what
one of these tests alone sees is found within a few commits, at the latest by the nightly run.
"""

from __future__ import annotations

from collections.abc import Sequence

FOLDERS = {
    "tests/integration/": (
        "chaos_run", "clients_that_harm", "cluster_lifecycle", "committed_offsets_in_containers",
        "compaction_in_containers", "crashes_of_jobs_in_containers", "damaged_disks",
        "every_fault_after_a_kill", "faults_after_a_kill", "healing", "more_faults_in_containers",
        "plan_faults_in_containers", "plans_in_containers", "pytest_plugin", "slow_links",
        "stock_groups",
    ),
    "tests/simulation/": ("crashes_of_jobs", "judge_beside_the_oracle"),
    "tests/pipeline/": ("campaign", "comparing", "ranges"),
    "tests/fuzz/": ("fuzz",),
}  # fmt: skip
"""The files of costly tests, each without test_ and .py."""

COSTLY = frozenset(f"{folder}test_{name}.py" for folder, names in FOLDERS.items() for name in names)


def left_to_the_next(nodeids: Sequence[str], seed: int) -> frozenset[str]:
    """Return the tests that this commit leaves out: every second one of the costly files.

    nodeids: of all tests, in the order of their collection; neighbours are parted, so that each
    half has some of each file.
    """
    costly = [each for each in nodeids if each.partition("::")[0] in COSTLY]
    return frozenset(costly[seed % 2 :: 2])
