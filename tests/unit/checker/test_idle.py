"""Which checks may have nothing to examine: the reasons and their conditions."""

from __future__ import annotations

import pytest

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.idle import MAY_BE_IDLE, Idle, hidden_for_long, without_idle_checks
from highwater_core.messages import ReplicaSnapshot
from tests.support.evidence_makers import AT, look, replica

HIDING, OPEN = replica("leader", 5, 9), replica("leader", 9, 9)
MOVING = [replica("leader", hidden, 9) for hidden in (1, 2, 3, 4, 5, 6)]
HALF_S = 500_000_000


@pytest.mark.parametrize(
    ("held", "is_hidden"),
    [
        ([HIDING] * 5, True),
        ([HIDING] * 4, False),
        ([HIDING, HIDING, OPEN, HIDING, HIDING, HIDING], False),
        ([HIDING, HIDING, None, HIDING, HIDING, HIDING], False),
        (MOVING, False),
        ([OPEN] * 6, False),
    ],
    ids=["for long", "for a moment", "in between it was not", "nobody led", "moving", "never"],
)
def test_a_high_watermark_that_stands_still_hides_for_long(
    held: list[ReplicaSnapshot | None], is_hidden: bool
) -> None:
    looks = [look(number * HALF_S, each) for number, each in enumerate(held)]
    assert hidden_for_long(looks) == ([AT] if is_hidden else [])


OTHER = CheckResult("other", 0, ())
REASONS = set(Idle)


@pytest.mark.parametrize("name", MAY_BE_IDLE)
def test_an_idle_check_is_excused_by_its_own_reason_alone(name: str) -> None:
    empty = CheckResult(name, 0, ())
    reason = MAY_BE_IDLE[name]
    assert without_idle_checks([empty, OTHER], {reason}) == [OTHER]
    assert without_idle_checks([empty, OTHER], REASONS - {reason}) == [empty, OTHER]


@pytest.mark.parametrize("name", MAY_BE_IDLE)
def test_a_check_that_examined_or_found_anything_is_never_left_out(name: str) -> None:
    found = CheckResult(name, 0, (Finding("I9", "got records"),))
    examined = CheckResult(name, 1, ())
    assert without_idle_checks([found, examined], REASONS) == [found, examined]
