"""Topic configurations: which are known, and what their values may be."""

from __future__ import annotations

import pytest

from highwater_core.topic_configs import TOPIC_CONFIG_KEYS, BadTopicConfig, parse_topic_config


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "-1", -1),
        ("retention.ms", "1000", 1000),
        ("retention.bytes", "-1", -1),
        ("segment.bytes", "14", 14),
        ("min.insync.replicas", "2", 2),
        ("unclean.leader.election.enable", "true", True),
        ("unclean.leader.election.enable", "False", False),
        ("cleanup.policy", "delete", "delete"),
        ("compression.type", "producer", "producer"),
    ],
)
def test_values_that_are_allowed(name, text, value):
    assert parse_topic_config({name: text}) == {name: value}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no.such.key", "1"),
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("retention.ms", "1_000"),
        ("segment.bytes", "13"),
        ("segment.bytes", str(2**31)),
        ("segment.ms", "0"),
        ("min.insync.replicas", "0"),
        ("unclean.leader.election.enable", "yes"),
        ("cleanup.policy", "compact"),
        ("compression.type", "gzip"),
    ],
)
def test_keys_and_values_that_are_refused_by_name(name, text):
    with pytest.raises(BadTopicConfig, match=name.replace(".", r"\.")):
        parse_topic_config({name: text})


def test_every_default_is_allowed():
    parse_topic_config({name: key.default for name, key in TOPIC_CONFIG_KEYS.items()})
    assert list(TOPIC_CONFIG_KEYS) == sorted(TOPIC_CONFIG_KEYS)
