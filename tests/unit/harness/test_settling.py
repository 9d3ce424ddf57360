"""When a topic counts as replicated: by the replicas of the brokers that answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.cluster.settling import is_replicated
from highwater_checker.looks import Look
from highwater_core.ids import NodeId, Offset
from highwater_core.messages import NodeSnapshot
from tests.support.run_on_disk import broker

EMPTY = replace(broker(1), node_id=NodeId(2), replicas=())
STRAY = replace(
    broker(1), node_id=NodeId(2), replicas=(replace(broker(1).replicas[0], role="stopped"),)
)
BEHIND = replace(broker(1), replicas=(replace(broker(1).replicas[0], high_watermark=Offset(0)),))


@pytest.mark.parametrize(
    ("others", "everyone", "expected"),
    [
        ({1: broker(1)}, True, True),
        ({1: broker(1), 2: EMPTY}, True, True),
        ({1: BEHIND}, False, False),
        ({1: None}, False, False),
        ({1: broker(1), 2: STRAY}, False, False),
        ({1: broker(1), 2: None}, False, True),
        ({1: broker(1), 2: None}, True, False),  # it may have a replica that nobody assigned
        ({1: broker(1), 1000: None}, True, False),
    ],
)
def test_a_topic_is_replicated_when_all_assigned_replicas_are_equal_and_no_other_is_there(
    others: dict[int, NodeSnapshot | None], everyone: bool, expected: bool
) -> None:
    look = Look(0, {0: broker(0), **others})
    assert is_replicated(look, "t", 1, everyone=everyone) is expected
