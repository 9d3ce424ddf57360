"""The handlers' interfaces to the rest of the broker, as narrow protocols."""

from __future__ import annotations

from typing import Protocol, TypeVar

from highwater_broker.log_folders import FolderContent
from highwater_broker.partition import Partition
from highwater_core.config_layers import ConfigLayers
from highwater_core.ids import ProducerId, TopicPartition
from highwater_core.messages import ControllerCommand, ControllerResponse

Response = TypeVar("Response", bound=ControllerResponse)


class Partitions(Protocol):
    """The partitions that this broker hosts (the replica manager)."""

    def get(self, topic_partition: TopicPartition) -> Partition | None: ...

    def has_failed(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition's replica here is in a log folder that failed."""
        ...


class LogDirs(Protocol):
    """The folders that this broker's replicas are in."""

    def contents(self) -> tuple[FolderContent, ...]: ...


class Controller(Protocol):
    """Calls the active controller; CallFailed when none answers in time."""

    async def call(
        self, request: ControllerCommand, response_type: type[Response], timeout_ms: int
    ) -> Response: ...


class Configs(Protocol):
    """The configurations of topics, hosted here or not, and of this broker."""

    async def topic_layers(self, topic: str) -> ConfigLayers | None:
        """Return all layers for the topic, None when they cannot be read at present."""
        ...

    async def broker_layers(self) -> ConfigLayers | None:
        """Return the layers for a topic without own values, None when they cannot be read."""
        ...


class ProducerIdSource(Protocol):
    """Returns each id once in the cluster's life; None when there is none at present."""

    async def next_id(self) -> ProducerId | None: ...


class TopicSize(Protocol):
    """The number of partitions of `__consumer_offsets`."""

    @property
    def count(self) -> int:
        """The number, 0 while it is not known."""
        ...

    async def learn(self) -> int:
        """Read and return the number, 0 where there is no such topic or no answer now."""
        ...
