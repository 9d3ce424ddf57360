"""Configurations: which changes are made, refused and announced, and their effects."""

from __future__ import annotations

import pytest

from highwater_core import znodes
from highwater_core.admin_messages import (
    AlterConfigsRequest,
    AlteredConfig,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
)
from highwater_core.config_layers import EVERY_BROKER, ConfigOwner
from highwater_core.config_znodes import config_path, decode_config, encode_config
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoint
from highwater_core.ids import NO_LEADER, TopicPartition
from highwater_core.messages import FailPointAction, SetFailPointRequest

TOPIC, BROKER = ConfigEntity.TOPIC, ConfigEntity.BROKER
T, ONE = ConfigOwner(TOPIC, "t"), ConfigOwner(BROKER, "1")
UNCLEAN = "unclean.leader.election.enable"
MINIMUM = "min.insync.replicas"


def altered(owner, *, replaces_all=False, delete=(), **values):
    changes = [
        ConfigChange(name.replace("_", "."), ConfigOperation.SET, text)
        for name, text in values.items()
    ]
    changes += [ConfigChange(name, ConfigOperation.DELETE) for name in delete]
    return AlteredConfig(owner.entity, owner.name, tuple(changes), replaces_all)


def alter(cluster, *configs, validate_only=False, controller_id=1000):
    request = AlterConfigsRequest(configs, validate_only)
    return [each.error for each in cluster.ask(request, controller_id).results]


def config(cluster, owner):
    data = cluster.data(config_path(owner))
    return None if data is None else decode_config(data, owner)


def announced(cluster):
    prefix = f"{znodes.CONFIG_CHANGES}/"
    tree = cluster.zookeeper.dump()
    return [tree[path][0].decode() for path in sorted(tree) if path.startswith(prefix)]


@pytest.fixture
def led(running):
    running.create_topic("t", (0, 1))
    return running


def test_each_configuration_is_written_and_announced_by_itself(led):
    nobody = ConfigOwner(TOPIC, "nobody")
    errors = alter(
        led,
        altered(T, retention_ms="5"),
        altered(nobody, retention_ms="5"),
        altered(ONE, log_retention_ms="6"),
        altered(ConfigOwner(BROKER, "77"), log_retention_ms="6"),
        altered(EVERY_BROKER, min_insync_replicas="2"),
        altered(EVERY_BROKER, no_such="2"),
    )
    assert [error.name for error in errors] == [
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NONE",
        "INVALID_REQUEST",
        "NONE",
        "INVALID_CONFIG",
    ]
    assert config(led, T) == {"retention.ms": "5"}
    assert config(led, ONE) == {"log.retention.ms": "6"}
    assert config(led, EVERY_BROKER) == {MINIMUM: "2"}
    assert announced(led) == [
        '{"version":2,"entity_path":"topics/t"}',
        '{"version":2,"entity_path":"brokers/1"}',
        '{"version":2,"entity_path":"brokers/<default>"}',
    ]


def test_configs_not_named_stay_unless_all_are_replaced(led):
    alter(led, altered(T, retention_ms="5", segment_ms="7"))
    alter(led, altered(T, retention_ms="6", delete=("segment.ms", "never.set")))
    assert config(led, T) == {"retention.ms": "6"}
    alter(led, altered(T, replaces_all=True, segment_ms="8"))
    assert config(led, T) == {"segment.ms": "8"}


APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT
THROTTLED = "leader.replication.throttled.replicas"


@pytest.mark.parametrize(
    ("name", "changes", "value"),
    [
        (THROTTLED, [(APPEND, "0:1,0:2")], "0:1,0:2"),
        (THROTTLED, [(APPEND, "0:1"), (APPEND, "1:1, 0:1")], "0:1,1:1"),
        (THROTTLED, [(APPEND, "0:1,0:2"), (SUBTRACT, "0:1,7:7")], "0:2"),
        (THROTTLED, [(APPEND, "0:1,0:2"), (SUBTRACT, "0:2, 0:1")], None),
        (THROTTLED, [(SUBTRACT, "0:1")], None),
        ("cleanup.policy", [(APPEND, "delete")], "delete"),
        ("cleanup.policy", [(APPEND, "compact")], "delete,compact"),
    ],
)
def test_a_list_gains_and_loses_entries(led, name, changes, value):
    for operation, text in changes:
        change = ConfigChange(name, operation, text)
        assert alter(led, AlteredConfig(TOPIC, "t", (change,))) == [ErrorCode.NONE]
    assert config(led, T) == ({} if value is None else {name: value})


@pytest.mark.parametrize(
    ("name", "operation", "text"),
    [
        ("cleanup.policy", SUBTRACT, "delete"),
        ("no.such", SUBTRACT, "x"),
        ("cleanup.policy", APPEND, "squeeze"),
        ("no.such", APPEND, "x"),
        (THROTTLED, APPEND, "x"),
    ],
)
def test_a_list_that_may_not_become_so_stays(led, name, operation, text):
    change = ConfigChange(name, operation, text)
    assert alter(led, AlteredConfig(TOPIC, "t", (change,))) == [ErrorCode.INVALID_CONFIG]
    assert config(led, T) == {}


@pytest.mark.parametrize(
    ("owner", "values", "error"),
    [
        (T, {"min_insync_replicas": "0"}, "INVALID_CONFIG"),
        (T, {"retention_ms": "x"}, "INVALID_CONFIG"),
        (T, {"retention_ms": "1" * 2_000_000}, "INVALID_CONFIG"),
        (ONE, {"retention_ms": "1"}, "INVALID_CONFIG"),
        (ONE, {"unclean_leader_election_enable": "true"}, "INVALID_CONFIG"),
        (ConfigOwner(BROKER, "01"), {}, "INVALID_REQUEST"),
        (ConfigOwner(BROKER, "x"), {}, "INVALID_REQUEST"),
    ],
)
def test_an_invalid_config_is_refused_and_changes_nothing(led, owner, values, error):
    assert [each.name for each in alter(led, altered(owner, **values))] == [error]
    assert announced(led) == []


def test_a_validated_config_is_not_written(led):
    request = altered(T, min_insync_replicas="2"), altered(T, min_insync_replicas="-2")
    errors = alter(led, *request, validate_only=True)
    assert errors == [ErrorCode.NONE, ErrorCode.INVALID_CONFIG]
    assert config(led, T) == {}
    assert announced(led) == []


def test_garbage_is_traced_and_overwritten(led):
    led.write(config_path(T), b"garbage")
    assert alter(led, altered(T, retention_ms="5")) == [ErrorCode.NONE]
    assert config(led, T) == {"retention.ms": "5"}
    told = [event.detail["where"] for event in led.events(EventKind.BAD_INPUT_MET)]
    assert config_path(T) in told


def test_a_concurrent_write_is_not_lost(led):
    async def meddle():
        await led.put(config_path(T), encode_config({"segment.ms": "9"}))

    led.before_multi(config_path(T), meddle)
    assert alter(led, altered(T, retention_ms="5")) == [ErrorCode.NONE]
    assert config(led, T) == {"retention.ms": "5", "segment.ms": "9"}


@pytest.mark.parametrize(
    ("point", "written"),
    [(FailPoint.BEFORE_CONFIG_WRITE, 0), (FailPoint.AFTER_CONFIG_WRITE, 1)],
)
def test_a_controller_that_dies_leaves_each_configuration_announced_or_unwritten(
    led, point, written
):
    """The first of three is at the point when the controller dies; the client asks again."""
    alter(led, altered(T, segment_ms="7"))
    led.start_controller(1001)
    led.settle(1_000)
    led.ask(SetFailPointRequest(point, FailPointAction.DELAY, delay_ms=60_000))
    request = (
        altered(T, retention_ms="5"),
        altered(ONE, log_retention_ms="5"),
        altered(EVERY_BROKER, log_retention_ms="5"),
    )
    led.ask_later(AlterConfigsRequest(request), [])
    led.until(lambda: led.events(EventKind.FAIL_POINT_HIT), "the point")
    led.kill_controller(1000)
    changed = [
        owner for owner in (T, ONE, EVERY_BROKER) if "5" in (config(led, owner) or {}).values()
    ]
    assert len(changed) == written
    assert len(announced(led)) == 1 + written
    led.until_failed_over()
    assert alter(led, *request, controller_id=1001) == [ErrorCode.NONE] * 3
    assert [config(led, owner)[name] for owner, name in (
        (T, "retention.ms"), (ONE, "log.retention.ms"), (EVERY_BROKER, "log.retention.ms"),
    )] == ["5"] * 3  # fmt: skip
    assert config(led, T)["segment.ms"] == "7"


# ---------------------------------------------------------------- effects of a change


def leaderless(cluster):
    """Leave t with a live replica, 1, that is not in sync."""
    cluster.write(
        znodes.partition_state_path(TopicPartition("t", 0)),
        b'{"version":1,"leader":0,"leader_epoch":3,"controller_epoch":1,"isr":[0]}',
    )
    cluster.expire_session()
    cluster.until_failed_over()
    cluster.brokers[0].die()
    cluster.settle(2_000)
    assert cluster.state("t").leader == NO_LEADER


@pytest.mark.parametrize("owner", [T, EVERY_BROKER])
@pytest.mark.parametrize("by_hand", [False, True])
def test_an_unclean_election_is_held_as_soon_as_it_is_allowed(led, owner, by_hand):
    leaderless(led)
    if by_hand:
        led.write(config_path(owner), encode_config({UNCLEAN: "true"}))
        path = "topics/t" if owner is T else "brokers/<default>"
        change = f'{{"version":2,"entity_path":"{path}"}}'
        led.write(f"{znodes.CONFIG_CHANGES}/config_change_0000000000", change.encode())
    else:
        assert alter(led, altered(owner, unclean_leader_election_enable="true")) == [ErrorCode.NONE]
    led.settle(1_000)
    assert led.state("t").leader == 1


def test_a_topics_no_goes_before_every_brokers_yes(led):
    leaderless(led)
    alter(led, altered(T, unclean_leader_election_enable="false"))
    alter(led, altered(EVERY_BROKER, unclean_leader_election_enable="true"))
    led.settle(1_000)
    assert led.state("t").leader == NO_LEADER


def test_garbage_in_an_announcement_is_traced_and_holds_nothing_up(led):
    leaderless(led)
    led.write(f"{znodes.CONFIG_CHANGES}/config_change_0000000000", b"garbage")
    led.write(f"{znodes.BROKER_CONFIGS}/x", b"garbage")
    led.settle(500)
    told = [event.detail["where"] for event in led.events(EventKind.BAD_INPUT_MET)]
    assert f"{znodes.CONFIG_CHANGES}/config_change_0000000000" in told
    alter(led, altered(T, unclean_leader_election_enable="true"))
    led.settle(1_000)
    assert led.state("t").leader == 1


def test_announcements_go_after_a_quarter_of_an_hour(led):
    alter(led, altered(T, retention_ms="5"))
    led.settle(14 * 60_000)
    assert len(announced(led)) == 1
    led.settle(3 * 60_000)
    assert announced(led) == []
    assert config(led, T) == {"retention.ms": "5"}
