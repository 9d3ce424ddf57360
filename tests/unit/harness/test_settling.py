"""When a cluster is at rest: ZooKeeper has the leaders and ISRs that the leaders have."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.cluster.settling import unlike_zookeeper
from highwater_checker.looks import Look
from highwater_checker.run_folder.documents import Znode
from highwater_core.ids import TopicPartition
from highwater_core.znodes import partition_state_path
from tests.support.run_on_disk import broker

AT = TopicPartition("t", 0)


def look() -> Look:
    """Broker 0 leads t-0 with ISR [0, 1]."""
    return Look(0, {0: broker(0), 1: broker(1)})


def znodes(data: Any) -> dict[str, Znode]:
    path = partition_state_path(AT)
    return {path: Znode(path, data, 0, 1, 1, 0)}


@pytest.mark.parametrize(
    ("data", "is_alike"),
    [
        ({"leader": 0, "isr": [0, 1]}, True),
        ({"leader": 0, "isr": [1, 0]}, True),
        ({"leader": 0, "isr": [0]}, False),
        ({"leader": 1, "isr": [0, 1]}, False),
        ({"leader": 0, "isr": "01"}, False),
        ({}, False),
        ("garbage", False),
        (None, False),
    ],
)
def test_zookeepers_state_is_the_leaders(data: Any, *, is_alike: bool) -> None:
    assert (list(unlike_zookeeper(look(), znodes(data), ["t"])) == []) is is_alike


def test_a_state_that_is_not_there_is_unlike() -> None:
    (told,) = unlike_zookeeper(look(), {}, ["t"])
    assert told == ("t-0: broker 0 leads with ISR [0, 1], ZooKeeper has leader None and ISR None")


def test_other_topics_are_not_asked_for() -> None:
    assert list(unlike_zookeeper(look(), {}, ["u"])) == []
