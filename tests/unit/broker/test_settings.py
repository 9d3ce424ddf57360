"""A broker refuses settings that it could not work with, before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.settings import BrokerSettings
from highwater_core.ids import NodeId
from highwater_core.settings import BadSetting, read_settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOGGLES", '{"truncate": true}'),
        ("TOGGLES", "{"),
        ("SEGMENT_BYTES", "-5"),
        ("REPLICA_LAG_TIME_MAX_MS", "0"),
        ("AUTO_CREATE_TOPICS", "true"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(BadSetting):
        read_settings(BrokerSettings, {"HIGHWATER_NODE_ID": "0", f"HIGHWATER_{name}": value})


def test_the_defaults_are_accepted() -> None:
    assert read_settings(BrokerSettings, {"HIGHWATER_NODE_ID": "3"}).broker_id == 3


@pytest.mark.parametrize(
    "setting",
    [
        {"client_host": ""},
        {"external_host": "a b"},
        {"control_host": "unix:/run/x"},
        {"replication_port": 0},
        {"external_port": 65_536},
        {"control_allowed_networks": "10.0.0.1/8"},
    ],
)
def test_what_others_could_not_read_or_reach_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        BrokerSettings(node_id=NodeId(1), **setting)
