"""Where probes are sent, and when a run must have met hidden records."""

from __future__ import annotations

import pytest

from highwater.runs.probing import offsets_to_probe
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.idle import hidden_for_long, without_idle_checks
from highwater_checker.invariants.empty_fetches import CHECK
from highwater_checker.invariants.high_watermark_in_run import CHECK as IN_RUN
from highwater_checker.invariants.replica_equality import CHECK as REPLICA_EQUALITY
from highwater_checker.invariants.truncations import CHECK as TRUNCATIONS
from highwater_checker.looks import Look
from tests.support.evidence_makers import AT, look, replica


def seen(time_ns: int, *replicas: object) -> Look:
    made = look(time_ns, *replicas)  # type: ignore[arg-type]
    return Look(made.time_ns, made.nodes)


@pytest.mark.parametrize(
    ("held", "told", "offsets"),
    [
        (replica("leader", 5, 9), None, (5, 7, 8)),
        (replica("leader", 5, 6), None, (5,)),
        (replica("leader", 5, 5), None, (5,)),
        (replica("leader", 5, 9), 6, (5, 6, 7, 8)),
        (replica("follower", 5, 9), 6, (6,)),
        (replica("follower", 5, 9), None, ()),
        (None, 6, (6,)),
    ],
)
def test_where_probes_are_sent(held: object, told: int | None, offsets: tuple[int, ...]) -> None:
    assert offsets_to_probe(seen(0, held), 0, AT, told) == offsets


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
    held: list[object], is_hidden: bool
) -> None:
    looks = [seen(number * HALF_S, each) for number, each in enumerate(held)]
    assert hidden_for_long(looks) == ([AT] if is_hidden else [])


IDLE, OTHER = CheckResult(CHECK, 0, ()), CheckResult("other", 0, ())
FOUND = CheckResult(CHECK, 0, (Finding("I9", "got records"),))


@pytest.mark.parametrize(
    ("check", "held", "stays"),
    [
        (IDLE, OPEN, False),
        (IDLE, HIDING, True),
        (FOUND, OPEN, True),
        (CheckResult(IN_RUN, 0, ()), HIDING, False),
        (CheckResult(IN_RUN, 1, ()), HIDING, True),
    ],
    ids=[
        "nothing to meet",
        "it should have met some",
        "it found something",
        "no pair of looks",
        "a pair of looks",
    ],
)
def test_a_check_that_met_nothing_counts_where_there_was_something_to_meet(
    check: CheckResult, held: object, stays: bool
) -> None:
    looks = [seen(number * HALF_S, held) for number in range(6)]
    kept = without_idle_checks([check, OTHER], looks, is_replicated=True)
    assert kept == ([check] if stays else []) + [OTHER]


@pytest.mark.parametrize("name", [REPLICA_EQUALITY, TRUNCATIONS])
def test_replicas_need_a_second_one_to_be_compared(name: str) -> None:
    empty, broken = CheckResult(name, 0, ()), CheckResult(name, 0, (Finding("I3", "differs"),))
    assert without_idle_checks([empty], [], is_replicated=True) == [empty]
    assert without_idle_checks([empty], [], is_replicated=False) == []
    assert without_idle_checks([broken], [], is_replicated=False) == [broken]
