"""A log can be opened with every valid configuration of a topic and of a broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from highwater_broker.current_session import CurrentSession
from highwater_broker.log.log_config import LOG_CONFIG_KEYS, LogConfig
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.settings import BrokerSettings
from highwater_broker.topic_settings import TopicSettings
from highwater_core.errors import ErrorCode
from highwater_core.ids import LeaderEpoch, Offset
from highwater_core.ports import NoNode
from highwater_core.topic_configs import (
    BROKER_DEFAULTS,
    TOPIC_CONFIG_KEYS,
    BadTopicConfig,
    ConfigType,
    TopicConfigKey,
    parse_topic_config,
)
from highwater_core.znodes import TopicConfigZnode, encode, topic_config_path

DEFAULTS = BrokerSettings(node_id=0)
NUMBERS = {name: key for name, key in BROKER_DEFAULTS.items() if not key.choices}
POLITE = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
)
FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))

interesting = st.sampled_from(
    [number + more for number in (0, 14, 69, 2**31, 2**63) for more in (-2, -1, 0, 1)]
)
numbers = interesting | st.integers(-(2**64), 2**64)
texts = (
    numbers.map(str)
    | numbers.map("{:+d}".format)
    | numbers.map(" {}\n".format)
    | st.sampled_from(["", "delete", "producer", "true", "FALSE", "CreateTime", "1e3", "0x10"])
)


class OneTopic:
    """A ZooKeeper session in which one topic has a configuration."""

    def __init__(self, config: dict[str, str]) -> None:
        self.content = encode(TopicConfigZnode(config))

    async def get(self, path: str) -> tuple[bytes, int]:
        if path != topic_config_path("t"):
            raise NoNode(path)
        return self.content, 0


def log_config(machine: Any, config: dict[str, str]) -> LogConfig:
    """Return a default broker's log configuration for the topic's znode."""
    session = CurrentSession()
    session.put(OneTopic(config))  # type: ignore[arg-type]
    trace: Any = SimpleNamespace(emit=lambda *_args, **_detail: pytest.fail("refused"))
    topics = TopicSettings(DEFAULTS, machine.runtime, trace, session, lambda _topic: None)
    machine.run(topics.load("t"))
    return topics.log_config("t")


def use(machine: Any, tools: Any) -> None:
    """Open the machine's log and have it do all that depends on its configuration."""
    log, _ = machine.open()
    for timestamp in (1_000, 5_000):
        try:
            log.append_as_leader(tools.batch(b"x", timestamp=timestamp), LeaderEpoch(0), 2_000)
        except LogRefused as refused:
            assert refused.error in POLITE  # noqa: PT017 (most examples refuse nothing)
    for offset, now_ms in ((log.log_end_offset, 0), (log.log_end_offset + 1, 2**62)):
        log.append_as_follower(tools.batch(b"y", offset=offset, epoch=0), now_ms)
    end = log.log_end_offset
    written = tools.all_bytes(log)
    log.delete_old_segments(10_000, Offset(end))
    start = log.log_start_offset
    machine.run(log.flush())
    log.close()
    again, report = machine.open(clean=True, recovery_point=end, log_start=start)
    assert (again.log_end_offset, report.repairs) == (end, ())
    assert written.endswith(tools.all_bytes(again))
    tools.look_up(again, 0)


@pytest.mark.parametrize("key", TOPIC_CONFIG_KEYS.values(), ids=lambda key: key.name)
def test_a_log_works_with_every_valid_topic_configuration(
    key: TopicConfigKey, new_machine: Callable[..., Any], tools: Any
) -> None:
    @FEW
    @given(texts)
    def check(text: str) -> None:
        machine = new_machine()
        try:
            parse_topic_config({key.name: text})
        except BadTopicConfig:
            return
        machine.config = log_config(machine, {key.name: text})
        use(machine, tools)

    check()


@pytest.mark.parametrize("bound", ["minimum", "maximum"])
def test_a_log_works_at_all_bounds_at_once(
    bound: str, new_machine: Callable[..., Any], tools: Any
) -> None:
    machine = new_machine()
    config = {key.name: str(getattr(key, bound)) for key in NUMBERS.values()}
    machine.config = log_config(machine, config)
    use(machine, tools)


def test_no_batch_is_small_enough_for_a_topic_that_takes_none(
    new_machine: Callable[..., Any], tools: Any
) -> None:
    machine = new_machine(LogConfig(max_message_bytes=0))
    log, _ = machine.open()
    with pytest.raises(LogRefused) as refused:
        tools.append(log, b"x")
    assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("setting", NUMBERS)
def test_a_brokers_defaults_have_the_bounds_of_the_topics_configuration(setting: str) -> None:
    key = BROKER_DEFAULTS[setting]
    assert getattr(DEFAULTS, setting) == key.parse(key.default)
    for value in (key.minimum, key.maximum):
        of_broker = BrokerSettings(node_id=0, **{setting: value})  # type: ignore[arg-type]
        LogConfig(**{name: getattr(of_broker, name) for name in LOG_CONFIG_KEYS})
    for value in (key.minimum - 1, key.maximum + 1):
        with pytest.raises(ValueError, match=key.name):
            BrokerSettings(node_id=0, **{setting: value})  # type: ignore[arg-type]


def test_every_number_is_a_brokers_default_too() -> None:
    numbers_of_topics = [
        key.name.replace(".", "_")
        for key in TOPIC_CONFIG_KEYS.values()
        if key.type in (ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE)
    ]
    assert list(NUMBERS) == numbers_of_topics
    assert {*LOG_CONFIG_KEYS, "min_insync_replicas"} == {*numbers_of_topics, "cleanup_policy"}


@pytest.mark.parametrize(
    ("policy", "is_compacted", "deletes"),
    [("delete", False, True), ("compact", True, False), (" delete , compact", True, True)],
)
def test_a_topic_is_compacted_or_has_old_segments_deleted_or_both(
    policy: str, is_compacted: bool, deletes: bool, new_machine: Any
) -> None:
    config = log_config(new_machine(), {"cleanup.policy": policy})
    assert (config.is_compacted, config.deletes_old_segments) == (is_compacted, deletes)


def test_a_topic_cannot_have_its_indexes_fill_the_memory(new_machine: Any) -> None:
    """Found: with an interval of 0 small batches took a fifth of their log in memory."""
    machine = new_machine()
    assert log_config(machine, {"index.interval.bytes": "0"}).index_interval_bytes == 1_024
    assert log_config(machine, {"index.interval.bytes": "5000"}).index_interval_bytes == 5_000
