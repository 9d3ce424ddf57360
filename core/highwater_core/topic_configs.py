"""The topic configurations that Highwater knows: their types, defaults and bounds. Pure.

The controller validates them when a topic is created; brokers read them for their logs.
Names and defaults are Kafka's. Features that Highwater does not implement have no key here, or
allow only the implemented value (recompression, timestamps by the broker).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

ConfigValue = bool | int | float | str

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1

MAX_VALUE_LENGTH = 32
"""Most characters of a value, white space included: a number has a sign and 20 digits, the longest
choice half of that. ZooKeeper and every broker keep the text, not the number."""
MAX_LIST_LENGTH = 2**15 - 1
"""Most characters of a list of replicas: the longest value of Kafka's protocol."""

CLEANUP_POLICY = "cleanup.policy"
LEADER_THROTTLED_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS = "follower.replication.throttled.replicas"
EVERY_REPLICA = "*"
_REPLICA = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


class ConfigType(Enum):
    """A configuration's type, by the code that DescribeConfigs gives it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class BadTopicConfig(Exception):
    """A key is unknown or its value is malformed or out of bounds; the message names it."""


@dataclass(frozen=True, slots=True)
class TopicConfigKey:
    """One configuration. Numbers lie in [minimum, maximum]; a text is one of choices, a list has
    at least one of them."""

    name: str
    type: ConfigType
    default: str
    documentation: str
    minimum: int = 0
    maximum: int = _LONG_MAX
    choices: tuple[str, ...] = ()
    lists_replicas: bool = False
    """The value is EVERY_REPLICA, or any number of partition:broker, separated by commas."""

    def parse(self, text: str) -> ConfigValue:
        """Return the value of the text.

        Raises:
            BadTopicConfig: the text is malformed, too long or out of bounds.
        """
        max_length = MAX_LIST_LENGTH if self.lists_replicas else MAX_VALUE_LENGTH
        if len(text) > max_length:
            raise BadTopicConfig(
                f"{self.name}: a value of {len(text)} characters (at most {max_length})"
            )
        if self.lists_replicas:
            return self._parse_replicas(text)
        if self.type is ConfigType.BOOLEAN:
            if text.strip().lower() not in ("true", "false"):
                raise BadTopicConfig(f"{self.name}: {text!r} is neither true nor false")
            return text.strip().lower() == "true"
        if self.type in (ConfigType.STRING, ConfigType.LIST):
            return self._parse_choice(text)
        number = self._parse_number(text)
        if not self.minimum <= number <= self.maximum:
            raise BadTopicConfig(
                f"{self.name}: {number} is not in [{self.minimum}, {self.maximum}]"
            )
        return number

    def _parse_choice(self, text: str) -> str:
        """Return the text, or the list's entries, without white space, in the order of choices."""
        is_list = self.type is ConfigType.LIST
        entries = [each.strip() for each in text.split(",")] if is_list else [text.strip()]
        if not set(entries) <= set(self.choices):
            raise BadTopicConfig(
                f"{self.name}: {text!r} is not supported (only {', '.join(self.choices)})"
            )
        return ",".join(each for each in self.choices if each in entries)

    def _parse_number(self, text: str) -> int | float:
        if self.type is ConfigType.DOUBLE:
            if not re.fullmatch(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*", text):
                raise BadTopicConfig(f"{self.name}: {text!r} is not a decimal number")
            return float(text)
        if not re.fullmatch(r"\s*[+-]?[0-9]{1,20}\s*", text):
            raise BadTopicConfig(f"{self.name}: {text!r} is not a whole number")
        return int(text)

    def _parse_replicas(self, text: str) -> str:
        """Return the list without white space; one without entries is empty."""
        entries = [entry.strip() for entry in text.split(",")]
        if entries != [EVERY_REPLICA]:
            entries = [entry for entry in entries if entry]
            odd = [entry for entry in entries if not _REPLICA.fullmatch(entry)]
            if odd:
                raise BadTopicConfig(f"{self.name}: {odd[0][:50]!r} is no partition:broker")
        return ",".join(entries)


_KEYS: tuple[TopicConfigKey, ...] = (
    TopicConfigKey(
        CLEANUP_POLICY, ConfigType.LIST, "delete",
        "What happens to old segments: they are deleted, or compacted to the newest record of each "
        "key, or both.", choices=("compact", "delete"),
    ),
    TopicConfigKey(
        "compression.type", ConfigType.STRING, "producer",
        "Batches are stored as the producer compressed them.", choices=("producer",),
    ),
    TopicConfigKey(
        "delete.retention.ms", ConfigType.LONG, "86400000",
        "How long a compacted topic keeps a record without a value, once it was the newest of its "
        "key when the log was compacted.",
    ),
    TopicConfigKey(
        FOLLOWER_THROTTLED_REPLICAS, ConfigType.LIST, "",
        "Which replicas' fetches count as throttled, and wait while these are over their rate.",
        lists_replicas=True,
    ),
    TopicConfigKey(
        "index.interval.bytes", ConfigType.INT, "4096",
        "Bytes of log between two entries of a segment's indexes.", maximum=_INT_MAX,
    ),
    TopicConfigKey(
        LEADER_THROTTLED_REPLICAS, ConfigType.LIST, "",
        "Which leaders' answers to followers count as throttled, and may go without records.",
        lists_replicas=True,
    ),
    TopicConfigKey(
        "max.message.bytes", ConfigType.INT, "1048588",
        "The largest record batch that a producer may send, in bytes.", maximum=_INT_MAX,
    ),
    TopicConfigKey(
        "message.timestamp.after.max.ms", ConfigType.LONG, "3600000",
        "How far a record's timestamp may be ahead of the broker's clock.",
    ),
    TopicConfigKey(
        "message.timestamp.before.max.ms", ConfigType.LONG, str(_LONG_MAX),
        "How far a record's timestamp may be behind the broker's clock.",
    ),
    TopicConfigKey(
        "message.timestamp.type", ConfigType.STRING, "CreateTime",
        "Whose clock a record's timestamp is of: the producer's.", choices=("CreateTime",),
    ),
    TopicConfigKey(
        "min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5",
        "What part of a compacted topic's log must not be compacted yet for it to be, in bytes.",
        maximum=1,
    ),
    TopicConfigKey(
        "min.compaction.lag.ms", ConfigType.LONG, "0",
        "How old a record must be at least for compaction to remove it.",
    ),
    TopicConfigKey(
        "min.insync.replicas", ConfigType.INT, "1",
        "How many replicas must be in sync for an acks=all write to be taken.",
        minimum=1, maximum=_INT_MAX,
    ),
    TopicConfigKey(
        "retention.bytes", ConfigType.LONG, "-1",
        "How large a partition may grow before old segments are deleted; -1: unlimited.",
        minimum=-1,
    ),
    TopicConfigKey(
        "retention.ms", ConfigType.LONG, "604800000",
        "How old a segment may grow before it is deleted, the last one too; -1: unlimited.",
        minimum=-1,
    ),
    TopicConfigKey(
        "segment.bytes", ConfigType.INT, "1073741824",
        "How large a segment may grow before the next one begins.",
        minimum=14, maximum=_INT_MAX,
    ),
    TopicConfigKey(
        "segment.ms", ConfigType.LONG, "604800000",
        "How old a segment may grow before the next one begins.", minimum=1,
    ),
    TopicConfigKey(
        "unclean.leader.election.enable", ConfigType.BOOLEAN, "false",
        "Whether a replica that is not in sync may lead when no other can; records may be lost.",
    ),
)  # fmt: skip

TOPIC_CONFIG_KEYS: dict[str, TopicConfigKey] = {key.name: key for key in _KEYS}
"""Every known key by its name, in alphabetical order."""

BROKER_DEFAULTS: dict[str, TopicConfigKey] = {
    key.name.replace(".", "_"): key
    for key in _KEYS
    if key.type in (ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE)
    or key.name == CLEANUP_POLICY
}
"""The keys for which a broker has a default of its own, by the name of its setting."""


def parse_topic_config(config: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Return the values of the keys that are set.

    Raises:
        BadTopicConfig: a key is unknown or its value is invalid.
    """
    return parse_config(config, TOPIC_CONFIG_KEYS)


def parse_config(
    config: Mapping[str, str], keys: Mapping[str, TopicConfigKey]
) -> dict[str, ConfigValue]:
    """Return the set values of these keys.

    Raises:
        BadTopicConfig: another key is set, or a value is invalid.
    """
    values: dict[str, ConfigValue] = {}
    for name in sorted(config):
        key = keys.get(name)
        if key is None:
            raise BadTopicConfig(f"{name[:300]}: no such configuration")
        values[name] = key.parse(config[name])
    return values
