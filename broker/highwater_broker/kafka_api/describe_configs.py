"""DescribeConfigs: topics' own configurations over their defaults, and some of the broker's."""

from __future__ import annotations

from highwater_broker.kafka_api.seams import KafkaApiSettings, TopicConfigs
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


class DescribeConfigsHandler:
    """Answers DescribeConfigs."""

    def __init__(
        self, metadata: MetadataCache, topic_configs: TopicConfigs, settings: KafkaApiSettings
    ) -> None:
        self._metadata = metadata
        self._topic_configs = topic_configs
        self._settings = settings

    async def handle(
        self, request: DescribeConfigsRequest, listener: str
    ) -> DescribeConfigsResponse:
        described = [await self._describe(resource) for resource in request.resources]
        return DescribeConfigsResponse(tuple(described))

    async def _describe(self, resource: ConfigResource) -> DescribedConfig:
        if resource.resource_type == ConfigResourceType.TOPIC:
            return await self._describe_topic(resource)
        if resource.resource_type == ConfigResourceType.BROKER:
            return self._describe_broker(resource)
        message = "only topics (2) and brokers (4) have configurations"
        return _refused(resource, ErrorCode.INVALID_REQUEST, message)

    async def _describe_topic(self, resource: ConfigResource) -> DescribedConfig:
        topic = resource.resource_name
        if not self._metadata.has_topic(topic):
            message = f"this broker knows no topic {topic!r}"
            return _refused(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        overrides = await self._topic_configs.topic_overrides(topic)
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
            message = f"ask broker {resource.resource_name!r} itself"
            return _refused(resource, ErrorCode.INVALID_REQUEST, message)
        entries = [
            ConfigEntry(name, value, is_default=False, read_only=True)
            for name, value in sorted(self._settings.broker_configs)
        ]
        return _described(resource, entries)


def _described(resource: ConfigResource, entries: list[ConfigEntry]) -> DescribedConfig:
    wanted = tuple(
        entry for entry in entries if resource.names is None or entry.name in resource.names
    )
    return DescribedConfig(
        ErrorCode.NONE, None, resource.resource_type, resource.resource_name, wanted
    )


def _refused(resource: ConfigResource, error: ErrorCode, message: str) -> DescribedConfig:
    return DescribedConfig(error, message, resource.resource_type, resource.resource_name)
