"""A broker refuses settings that it could not work with, before it starts."""

from __future__ import annotations

import pytest

from highwater_broker.settings import BrokerSettings
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
