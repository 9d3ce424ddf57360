"""The source of a configuration's value, and configurations in ZooKeeper."""

from __future__ import annotations

import pytest

from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import (
    EVERY_BROKER,
    ConfigLayers,
    ConfigOwner,
    ConfigSource,
    keys_of,
)
from highwater_core.config_znodes import (
    config_path,
    decode_config,
    decode_config_change,
    encode_config,
    encode_config_change,
)
from highwater_core.znodes import MalformedZnode

T, ONE = ConfigOwner(ConfigEntity.TOPIC, "t"), ConfigOwner(ConfigEntity.BROKER, "1")
LAYERS = (
    ({"retention.ms": "1"}, ConfigSource.DYNAMIC_TOPIC_CONFIG, "retention.ms"),
    ({"log.retention.ms": "2"}, ConfigSource.DYNAMIC_BROKER_CONFIG, "log.retention.ms"),
    ({"log.retention.ms": "3"}, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, "log.retention.ms"),
    ({"retention.ms": "4"}, ConfigSource.STATIC_BROKER_CONFIG, "log.retention.ms"),
)


@pytest.mark.parametrize("first", range(5))
def test_the_first_layer_that_sets_a_value_has_it_and_the_others_follow(first: int) -> None:
    set_here = [values if number >= first else {} for number, (values, _, _) in enumerate(LAYERS)]
    layers = ConfigLayers(*set_here)
    values = layers.values("retention.ms")
    expected = [(name, str(n), source) for n, (_, source, name) in enumerate(LAYERS, 1)][first:]
    expected.append(("log.retention.ms", "604800000", ConfigSource.DEFAULT_CONFIG))
    assert [(each.name, each.text, each.source) for each in values] == expected
    assert layers.value("retention.ms") == int(expected[0][1])


def test_brokers_have_values_that_topics_have_not() -> None:
    name = "leader.replication.throttled.rate"
    layers = ConfigLayers({}, {name: "1"}, {name: "2"}, {})
    assert [(each.text, int(each.source)) for each in layers.values(name)] == [
        ("1", 2),
        ("2", 3),
        (str(2**63 - 1), 5),
    ]
    assert layers.value(name) == 1
    assert name in keys_of(ONE)
    assert name in keys_of(EVERY_BROKER)
    assert name not in keys_of(T)


@pytest.mark.parametrize(
    ("owner", "path", "change"),
    [
        (T, "/config/topics/t", b'{"version":2,"entity_path":"topics/t"}'),
        (ONE, "/config/brokers/1", b'{"version":2,"entity_path":"brokers/1"}'),
        (
            EVERY_BROKER,
            "/config/brokers/<default>",
            b'{"version":2,"entity_path":"brokers/<default>"}',
        ),
    ],
)
def test_znodes_and_announcements_are_kafkas(owner: ConfigOwner, path: str, change: bytes) -> None:
    assert config_path(owner) == path
    assert encode_config_change(owner) == change
    assert decode_config_change(change, "c") == owner
    name = "retention.ms" if owner is T else "log.retention.ms"
    data = encode_config({name: "5"})
    assert data == b'{"version":1,"config":{"%s":"5"}}' % name.encode()
    assert decode_config(data, owner) == {name: "5"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        '{"version":2,"entity_path":"t"}',
        '{"version":2,"entity_path":"topics/a/b"}',
        '{"version":2,"entity_path":"brokers/01"}',
        '{"version":2,"entity_path":"brokers/"}',
        '{"version":2,"entity_path":"users/x"}',
    ],
)
def test_an_announcement_of_nobodys_configuration_is_malformed(text: str) -> None:
    with pytest.raises(MalformedZnode):
        decode_config_change(text.encode(), "c")


@pytest.mark.parametrize(
    ("owner", "config"),
    [
        (T, {"log.retention.ms": "5"}),
        (T, {"retention.ms": "x"}),
        (ONE, {"retention.ms": "5"}),
        (ONE, {"unclean.leader.election.enable": "true"}),
        (EVERY_BROKER, {"min.insync.replicas": "0"}),
    ],
)
def test_a_config_that_an_owner_cannot_set_is_malformed(
    owner: ConfigOwner, config: dict[str, str]
) -> None:
    with pytest.raises(MalformedZnode):
        decode_config(encode_config(config), owner)
