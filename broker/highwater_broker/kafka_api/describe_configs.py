"""DescribeConfigs: the values in force for topics and for this broker, with their sources.

Source: KIP-133, KIP-226. As in Kafka a broker without a name means all brokers, and only values set
for all of them are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from highwater_broker.kafka_api.api_settings import KafkaApiSettings
from highwater_broker.kafka_api.rest_of_broker import Configs
from highwater_broker.kafka_api.turns import Turns
from highwater_broker.metadata_cache import MetadataCache
from highwater_core.config_layers import (
    BROKER_NAMES,
    CONFIG_KEYS,
    ConfigLayers,
    ConfigSource,
    SetValue,
)
from highwater_core.errors import ErrorCode
from highwater_core.topic_configs import TOPIC_CONFIG_KEYS, TopicConfigKey
from highwater_wire.kafka.config_messages import (
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribedConfig,
)
from highwater_wire.kafka.text import quoted

EntryOf = Callable[[TopicConfigKey, str, Sequence[SetValue]], ConfigEntry]


class DescribeConfigsHandler:
    """Answers DescribeConfigs."""

    def __init__(
        self,
        metadata: MetadataCache,
        configs: Configs,
        settings: KafkaApiSettings,
        turns: Turns,
    ) -> None:
        self._metadata = metadata
        self._configs = configs
        self._settings = settings
        self._turns = turns

    async def handle(
        self, request: DescribeConfigsRequest, listener: str
    ) -> DescribeConfigsResponse:
        """Return each resource's configuration; a repeated one is returned once."""
        resources = _merged(request.resources)
        topics: dict[str, ConfigLayers | None] = {}
        for resource in resources:
            topic = resource.resource_name
            is_topic = resource.resource_type == ConfigResourceType.TOPIC
            if is_topic and self._metadata.has_topic(topic):
                topics[topic] = await self._configs.topic_layers(topic)
        own = [each for each in resources if self._is_own(each)]
        broker = await self._configs.broker_layers() if own else None

        def entry_of(key: TopicConfigKey, name: str, values: Sequence[SetValue]) -> ConfigEntry:
            return _entry(key, name, values, request)

        def describe(resource: ConfigResource) -> DescribedConfig:
            if resource.resource_type == ConfigResourceType.TOPIC:
                return self._describe_topic(resource, topics, entry_of)
            if resource.resource_type == ConfigResourceType.BROKER:
                return self._describe_broker(resource, broker, entry_of)
            message = "only topics (2) and brokers (4) have configurations"
            return _refused(resource, ErrorCode.INVALID_REQUEST, message)

        return DescribeConfigsResponse(tuple(await self._turns.each(describe, resources)))

    def _is_own(self, resource: ConfigResource) -> bool:
        """Return whether the resource is this broker, or all brokers."""
        is_broker = resource.resource_type == ConfigResourceType.BROKER
        return is_broker and resource.resource_name in ("", str(self._settings.node_id))

    def _describe_topic(
        self,
        resource: ConfigResource,
        known: Mapping[str, ConfigLayers | None],
        entry_of: EntryOf,
    ) -> DescribedConfig:
        topic = resource.resource_name
        if topic not in known:
            message = f"this broker knows no topic {quoted(topic)}"
            return _refused(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        layers = known[topic]
        if layers is None:
            message = "the topic's configuration cannot be read at present"
            return _refused(resource, ErrorCode.REQUEST_TIMED_OUT, message)
        return _described(
            resource,
            {
                name: entry_of(key, name, layers.values(name))
                for name, key in TOPIC_CONFIG_KEYS.items()
            },
        )

    def _describe_broker(
        self, resource: ConfigResource, layers: ConfigLayers | None, entry_of: EntryOf
    ) -> DescribedConfig:
        """Describe this broker, or all brokers: another broker's settings are not known here."""
        name = resource.resource_name
        if not self._is_own(resource):
            message = f"ask broker {quoted(name)} itself"
            return _refused(resource, ErrorCode.INVALID_REQUEST, message)
        if layers is None:
            message = "the brokers' configuration cannot be read at present"
            return _refused(resource, ErrorCode.REQUEST_TIMED_OUT, message)
        entries: dict[str, ConfigEntry] = {}
        if name:
            source = ConfigSource.STATIC_BROKER_CONFIG
            for key, kind, text in self._settings.broker_configs:
                known = TopicConfigKey(key, kind, text, "")
                of_start = entry_of(known, key, (SetValue(key, text, source),))
                entries[key] = replace(of_start, read_only=True, documentation=None)
        for topic_key, key in BROKER_NAMES.items():
            values = layers.values(topic_key)
            if not name:
                of_every = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
                values = tuple(each for each in values if each.source is of_every)
            if values:
                entries[key] = entry_of(CONFIG_KEYS[topic_key], key, values)
        return _described(resource, entries)


def _entry(
    key: TopicConfigKey, name: str, values: Sequence[SetValue], request: DescribeConfigsRequest
) -> ConfigEntry:
    """Return the value in force, the first of the values, with what the request asks for."""
    told = values if request.include_synonyms else ()
    return ConfigEntry(
        name,
        values[0].text,
        values[0].source,
        synonyms=tuple(ConfigSynonym(each.name, each.text, each.source) for each in told),
        type=key.type.value,
        documentation=key.documentation if request.include_documentation else None,
    )


def _merged(resources: Iterable[ConfigResource]) -> list[ConfigResource]:
    """Return each resource once, with all its requested names; None or none means all."""
    names: dict[tuple[int, str], dict[str, None] | None] = {}
    for resource in resources:
        key = resource.resource_type, resource.resource_name
        earlier = names.setdefault(key, {})
        if not resource.names:
            names[key] = None
        elif earlier is not None:
            earlier |= dict.fromkeys(resource.names)
    return [
        ConfigResource(*key, None if wanted is None else tuple(wanted))
        for key, wanted in names.items()
    ]


def _described(resource: ConfigResource, entries: Mapping[str, ConfigEntry]) -> DescribedConfig:
    names = None if resource.names is None else frozenset(resource.names)
    wanted = tuple(entries[name] for name in sorted(entries) if names is None or name in names)
    return DescribedConfig(
        ErrorCode.NONE, None, resource.resource_type, resource.resource_name, wanted
    )


def _refused(resource: ConfigResource, error: ErrorCode, message: str) -> DescribedConfig:
    return DescribedConfig(error, message, resource.resource_type, resource.resource_name)
