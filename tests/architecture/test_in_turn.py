"""Three commits of unlike seeds run every costly test between them, and all others each."""

from __future__ import annotations

from highwater.project import project_root
from tests.in_turn import COSTLY, left_to_the_next

COSTLIEST = "tests/integration/test_slow_links.py"
TESTS = (
    "tests/unit/core/test_ids.py::test_a",
    *(f"{COSTLIEST}::test_{number}" for number in range(3)),
    "tests/fuzz/test_fuzz.py::test_no_input_does_harm[files]",
    "tests/unit/core/test_ids.py::test_b",
)


def test_each_costly_test_runs_for_one_seed_of_three_and_every_other_test_for_each() -> None:
    left_out = [left_to_the_next(TESTS, seed) for seed in (99, 7, 2)]
    run = [set(TESTS) - each for each in left_out]
    others = {TESTS[0], TESTS[5]}
    assert run == [others | costly for costly in ({TESTS[1], TESTS[4]}, {TESTS[2]}, {TESTS[3]})]


def test_the_files_are_there() -> None:
    assert [name for name in sorted(COSTLY) if not (project_root() / name).is_file()] == []
