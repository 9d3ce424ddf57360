"""A broker refuses settings with which it could not work, before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from highwater_broker.__main__ import make_listeners
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
        ("SOCKET_REQUEST_MAX_BYTES", "0"),
        ("QUEUED_MAX_REQUEST_BYTES", "1000"),  # less than one request may have
        ("QUEUED_MAX_REQUEST_BYTES", "-2"),
        ("CONNECTIONS_MAX_IDLE_MS", "0"),
        ("MAX_CONNECTIONS", "0"),
        ("MAX_CONNECTIONS_PER_IP", "-3"),
        ("EVENT_LOOP_STALL_MAX_MS", "0"),
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
def test_settings_that_others_could_not_read_or_reach_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        BrokerSettings(node_id=NodeId(1), **setting)


def test_limits_of_clients_take_nothing_from_followers() -> None:
    settings = BrokerSettings(
        1, max_connections=7, max_connections_per_ip=2, queued_max_request_bytes=2**27
    )
    client, external, replication = make_listeners(settings, None)  # type: ignore[arg-type]
    assert client.quota is external.quota is not replication.quota
    assert client.quota.limit_bytes == replication.quota.limit_bytes == 2**27
    assert (client.max_connections, external.max_connections_per_ip) == (7, 2)
    assert replication.max_connections > 7
    assert replication.max_connections_per_ip == -1
    assert {each.max_idle_ms for each in (client, external, replication)} == {600_000}
    unlimited, *_ = make_listeners(BrokerSettings(1, queued_max_request_bytes=-1), None)  # type: ignore[arg-type]
    assert unlimited.quota.limit_bytes is None
    assert unlimited.max_connections > 0  # descriptors bound it
