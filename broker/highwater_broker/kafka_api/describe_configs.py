"""DescribeConfigs: topics' own configurations over their defaults, and some of the broker's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from highwater_broker.kafka_api.seams import KafkaApiSettings, TopicConfigs
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.errors import ErrorCode
from highwater_core.topic_configs import TOPIC_CONFIG_KEYS
from highwater_wire.kafka.messages import (
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
)
from highwater_wire.kafka.text import quoted


class DescribeConfigsHandler:
    """Answers DescribeConfigs."""

    def __init__(
        self,
        metadata: MetadataCache,
        topic_configs: TopicConfigs,
        settings: KafkaApiSettings,
        turns: Turns,
    ) -> None:
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._settings = settings
        self._turns = turns

    async def handle(
        self, request: DescribeConfigsRequest, listener: str
    ) -> DescribeConfigsResponse:
        """Return each resource's configuration; one that is named again is told once."""
        resources = _merged(request.resources)
        overrides: dict[str, Mapping[str, str] | None] = {}
        for resource in resources:
            topic = resource.resource_name
            is_topic = resource.resource_type == ConfigResourceType.TOPIC
            if is_topic and self._metadata.has_topic(topic):
                overrides[topic] = await self._topic_configs.topic_overrides(topic)

        def describe(resource: ConfigResource) -> DescribedConfig:
            if resource.resource_type == ConfigResourceType.TOPIC:
                return self._describe_topic(resource, overrides)
            if resource.resource_type == ConfigResourceType.BROKER:
                return self._describe_broker(resource)
            message = "only topics (2) and brokers (4) have configurations"
            return _refused(resource, ErrorCode.INVALID_REQUEST, message)

        return DescribeConfigsResponse(tuple(await self._turns.each(describe, resources)))

    def _describe_topic(
        self, resource: ConfigResource, known: Mapping[str, Mapping[str, str] | None]
    ) -> DescribedConfig:
        topic = resource.resource_name
        if topic not in known:
            message = f"this broker knows no topic {quoted(topic)}"
            return _refused(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        overrides = known[topic]
        if overrides is None:
            message = "the topic's configuration cannot be read at present"
            return _refused(resource, ErrorCode.REQUEST_TIMED_OUT, message)
        defaults = {name: key.default for name, key in TOPIC_CONFIG_KEYS.items()}
        defaults |= dict(self._settings.topic_defaults)
        entries = [
            ConfigEntry(name, overrides.get(name, defaults[name]), name not in overrides)
            for name in sorted(defaults)
        ]
        return _described(resource, entries)

    def _describe_broker(self, resource: ConfigResource) -> DescribedConfig:
        """Describe this broker only: another's settings are not known here."""
        if resource.resource_name not in ("", str(self._settings.node_id)):
            message = f"ask broker {quoted(resource.resource_name)} itself"
            return _refused(resource, ErrorCode.INVALID_REQUEST, message)
        entries = [
            ConfigEntry(name, value, is_default=False, read_only=True)
            for name, value in sorted(self._settings.broker_configs)
        ]
        return _described(resource, entries)


def _merged(resources: Iterable[ConfigResource]) -> list[ConfigResource]:
    """Return each resource once, with all the names that were asked of it."""
    names: dict[tuple[int, str], dict[str, None] | None] = {}
    for resource in resources:
        key = resource.resource_type, resource.resource_name
        earlier = names.setdefault(key, {})
        if resource.names is None:
            names[key] = None
        elif earlier is not None:
            earlier |= dict.fromkeys(resource.names)
    return [
        ConfigResource(*key, None if wanted is None else tuple(wanted))
        for key, wanted in names.items()
    ]


def _described(resource: ConfigResource, entries: list[ConfigEntry]) -> DescribedConfig:
    names = None if resource.names is None else frozenset(resource.names)
    wanted = tuple(entry for entry in entries if names is None or entry.name in names)
    return DescribedConfig(
        ErrorCode.NONE, None, resource.resource_type, resource.resource_name, wanted
    )


def _refused(resource: ConfigResource, error: ErrorCode, message: str) -> DescribedConfig:
    return DescribedConfig(error, message, resource.resource_type, resource.resource_name)
