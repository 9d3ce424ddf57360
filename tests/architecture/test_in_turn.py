"""Two commits of unlike seeds run every costly test between them, and all others each."""

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


def test_each_costly_test_is_left_out_for_one_seed_of_two_and_no_other_test_is() -> None:
    even, odd = (left_to_the_next(TESTS, seed) for seed in (100, 7))
    assert even | odd == set(TESTS[1:5])
    assert not even & odd
    assert even == {TESTS[1], TESTS[3]}


def test_the_files_are_there() -> None:
    assert [name for name in sorted(COSTLY) if not (project_root() / name).is_file()] == []
