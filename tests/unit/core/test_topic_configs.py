"""Topic configurations: the known ones and their valid values."""

from __future__ import annotations

import pytest

from highwater_core.topic_configs import (
    MAX_VALUE_LENGTH,
    TOPIC_CONFIG_KEYS,
    BadTopicConfig,
    parse_topic_config,
)

THROTTLED = "leader.replication.throttled.replicas"


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
        ("cleanup.policy", "compact", "compact"),
        ("cleanup.policy", " delete, compact", "compact,delete"),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("min.cleanable.dirty.ratio", " 1", 1.0),
        ("min.cleanable.dirty.ratio", ".5", 0.5),
        ("compression.type", "producer", "producer"),
        (THROTTLED, "", ""),
        (THROTTLED, " * ", "*"),
        (THROTTLED, "0:1, 12:10 ,,0:2", "0:1,12:10,0:2"),
        (THROTTLED, "0:1," * 8_000, ",".join(["0:1"] * 8_000)),
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
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,"),
        ("cleanup.policy", "squeeze"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "-0.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "1e-1"),
        ("compression.type", "gzip"),
        (THROTTLED, "0"),
        (THROTTLED, "0:"),
        (THROTTLED, "0:1;0:2"),
        (THROTTLED, "-1:0"),
        (THROTTLED, "*,0:1"),
        (THROTTLED, "\u0661:1"),
        (THROTTLED, "0:1," * 9_000),
    ],
)
def test_keys_and_values_that_are_refused_by_name(name, text):
    with pytest.raises(BadTopicConfig, match=name.replace(".", r"\.")):
        parse_topic_config({name: text})


PADDED = (
    ("retention.ms", "{}1000", 1000),
    ("segment.bytes", "1000{}", 1000),
    ("unclean.leader.election.enable", "{}true{}", True),
    ("cleanup.policy", "delete{}", "delete"),
)


@pytest.mark.parametrize(("name", "text", "value"), PADDED)
def test_white_space_around_a_value_is_no_part_of_it(name, text, value):
    assert parse_topic_config({name: text.format("  ", "\t")}) == {name: value}


@pytest.mark.parametrize("length", [33, 32_767, 900_000])
@pytest.mark.parametrize(("name", "text", "value"), PADDED)
def test_a_value_that_is_longer_than_any_need_be_is_refused_in_few_words(name, text, value, length):
    padded = text.format(" " * (length - len(text.format("", ""))), "")
    assert len(padded) == length
    with pytest.raises(BadTopicConfig, match="at most 32") as refused:
        parse_topic_config({name: padded})
    assert len(str(refused.value)) < 100


def test_the_longest_number_has_room():
    for name, key in TOPIC_CONFIG_KEYS.items():
        for number in (key.minimum, key.maximum):
            if not key.choices and key.default.lstrip("-").isdigit():
                text = f"{number:+021}".center(MAX_VALUE_LENGTH)
                assert parse_topic_config({name: text}) == {name: number}


def test_every_default_is_allowed():
    parse_topic_config({name: key.default for name, key in TOPIC_CONFIG_KEYS.items()})
    assert list(TOPIC_CONFIG_KEYS) == sorted(TOPIC_CONFIG_KEYS)
