"""Where probes are sent."""

from __future__ import annotations

import pytest

from highwater.runs.probing import offsets_to_probe
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
