"""What a leader does next to move its replicas under preset v2, as a table."""

from __future__ import annotations

import pytest

from highwater_broker.logic.first_design import may_lead_unclean
from highwater_broker.logic.moves import Begin, Complete, Impossible, MoveFacts, Wait, next_step
from highwater_core.reassignments import NOT_REASSIGNED
from highwater_core.topic_znode import Reassignment

ALL = frozenset(range(5))


def facts(replicas, asked, isr, *, moved=NOT_REASSIGNED, leader=0, live=ALL, least=1):
    return MoveFacts(leader, replicas, moved, asked, isr, live, least)


TO_034 = Reassignment(adding=(3, 4), removing=(1, 2))
GIVEN_UP = Reassignment(adding=(3, 4), removing=(3, 4))


@pytest.mark.parametrize(
    ("known", "step"),
    [
        pytest.param(facts((0, 1, 2), None, (0,)), None, id="nothing is asked for"),
        pytest.param(
            facts((0, 1, 2), (0, 3, 4), (0, 1, 2)),
            Begin((0, 3, 4, 1, 2), TO_034, started=(3, 4)),
            id="RAR - AR is started",
        ),
        pytest.param(
            facts((0, 1, 2), (2, 0), (0, 1, 2)),
            Begin((2, 0, 1), Reassignment((), (1,)), started=()),
            id="fewer replicas",
        ),
        pytest.param(
            facts((0, 3, 4, 1, 2), (0, 3, 4), (0, 1, 2, 3), moved=TO_034),
            Wait(),
            id="one of RAR is not in sync",
        ),
        pytest.param(
            facts((0, 3, 4, 1, 2), (0, 3, 4), (0, 3, 4), moved=TO_034, live=frozenset({0, 1, 3})),
            Wait(),
            id="one of RAR is not live",
        ),
        pytest.param(
            facts((0, 3, 4, 1, 2), (0, 3, 4), (0, 1, 3, 4), moved=TO_034),
            Complete((0, 3, 4), (0, 3, 4), closed=(1, 2), leads_on=True),
            id="all of RAR are in sync",
        ),
        pytest.param(
            facts((0, 3, 4, 1, 2), (0, 3, 4), (1, 0, 3, 4), moved=TO_034, leader=1),
            Complete((0, 3, 4), (0, 3, 4), closed=(1, 2), leads_on=False),
            id="the leader is not in RAR",
        ),
        pytest.param(
            facts((0, 3, 4, 1, 2), (0, 4), (0,), moved=TO_034),
            Begin((0, 4, 3, 1, 2), Reassignment((4, 3), (3, 1, 2)), started=()),
            id="another target, from the original replicas",
        ),
        pytest.param(
            facts((0, 3, 4, 1, 2), None, (0, 1, 3), moved=TO_034),
            Begin((0, 1, 2, 3, 4), GIVEN_UP, started=()),
            id="nobody asks any more: it is given up",
        ),
        pytest.param(
            facts((0, 1, 2, 3, 4), None, (0, 1, 3), moved=GIVEN_UP, least=2),
            Complete((0, 1, 2), (0, 1), closed=(3, 4), leads_on=True),
            id="given up, with enough in sync",
        ),
        pytest.param(
            facts((0, 1, 2, 3, 4), None, (0, 3, 4), moved=GIVEN_UP, least=2),
            Wait(),
            id="given up, with too few in sync",
        ),
        pytest.param(
            facts((0, 1, 2, 3, 4), None, (0,), moved=GIVEN_UP, least=2),
            Complete((0, 1, 2), (0,), closed=(3, 4), leads_on=True),
            id="given up, and the ISR loses nobody",
        ),
        pytest.param(
            facts((0, 1), (0, 1), (0,), live=frozenset({0})),
            Complete((0, 1), (0,), closed=(), leads_on=True),
            id="the replicas that there are, one of them dead",
        ),
    ],
)
def test_the_leaders_next_step(known, step):
    assert next_step(known) == step


@pytest.mark.parametrize("asked", [(), (0, 0), (0, 9), tuple(range(2_000))])
def test_impossible_replicas_are_not_begun(asked):
    with pytest.raises(Impossible):
        next_step(facts((0, 1, 2), asked, (0,)))


@pytest.mark.parametrize(
    ("broker", "adding", "live", "may"),
    [(0, (), (0,), True), (2, (2,), (1, 2), False), (2, (2,), (2,), True), (1, (2,), (1, 2), True)],
)
def test_an_added_replica_leaves_an_unclean_lead_to_the_others(broker, adding, live, may):
    assert may_lead_unclean(broker, (0, 1, 2), adding, live) is may
