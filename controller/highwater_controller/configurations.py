"""The topics' and brokers' configurations that the controller itself uses.

A topic's are read when they are needed. Those of the brokers are kept in the context: they are read
at failover, and again when a change is announced.
Source: KIP-226, whose layers are in highwater_core.config_layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_core import znodes
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import (
    EVERY_BROKER,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_ELECTION,
    ConfigLayers,
    ConfigOwner,
)
from highwater_core.config_znodes import config_path, decode_config, owner_of_broker_config
from highwater_core.ids import NodeId
from highwater_core.znodes import MalformedZnode


async def load_broker_configs(term: Term) -> None:
    """Read the configurations of each broker and of all brokers."""
    owners: list[ConfigOwner] = []
    for name in await term.store.children(znodes.BROKER_CONFIGS):
        try:
            owners.append(owner_of_broker_config(name))
        except MalformedZnode as fault:
            report_malformed(term, f"{znodes.BROKER_CONFIGS}/{name[:300]}", fault)
    term.context.broker_configs = {
        owner: known for owner, known in term.context.broker_configs.items() if owner in owners
    }
    await read_broker_configs(term, owners)


async def read_broker_configs(term: Term, owners: Iterable[ConfigOwner]) -> None:
    """Read these brokers' configurations; a malformed one leaves the known values in force."""
    wanted = list(owners)
    read = await term.store.each(wanted, lambda owner: _read(term, owner))
    for owner, config in zip(wanted, read, strict=True):
        if config is not None:
            term.context.broker_configs[owner] = config


async def allows_unclean_election(term: Term, topic: str) -> bool:
    """Return whether a replica outside the ISR may lead; with the toggle, always.

    False for a topic whose configuration is malformed.
    """
    if term.toggles.unclean_election:
        return True
    config = await _read(term, ConfigOwner(ConfigEntity.TOPIC, topic))
    if config is None:
        return False
    every_broker = term.context.broker_configs.get(EVERY_BROKER, {})
    return bool(ConfigLayers(config, {}, every_broker, {}).value(UNCLEAN_ELECTION))


class TopicConfigs:
    """Topics' configurations for the length of one step, each read once."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._min_insync_replicas: dict[tuple[str, NodeId], int] = {}
        self._read: dict[str, Mapping[str, str] | None] = {}

    async def read(self, topics: Iterable[str]) -> None:
        """Read the configurations of these topics, pipelined."""
        unread = [topic for topic in dict.fromkeys(topics) if topic not in self._read]
        await self._term.store.each(unread, self._of)

    async def min_insync_replicas(self, topic: str, leader: NodeId) -> int:
        """Return the topic's min.insync.replicas; 1 where it is unknown."""
        found = self._min_insync_replicas.get((topic, leader))
        if found is None:
            found = _min_insync_replicas(self._term, await self._of(topic), leader)
            self._min_insync_replicas[topic, leader] = found
        return found

    async def _of(self, topic: str) -> Mapping[str, str] | None:
        """Return the topic's set values, None where the znode is malformed, which is traced."""
        if topic not in self._read:
            self._read[topic] = await _read(self._term, ConfigOwner(ConfigEntity.TOPIC, topic))
        return self._read[topic]


async def min_insync_replicas(
    term: Term, topic: str, leader: NodeId, topics: TopicConfigs | None = None
) -> int:
    """Return the topic's min.insync.replicas; 1 where it is unknown.

    topics: the configurations that this step has read already.
    """
    return await (topics or TopicConfigs(term)).min_insync_replicas(topic, leader)


def _min_insync_replicas(term: Term, config: Mapping[str, str] | None, leader: NodeId) -> int:
    if config is None:
        return 1
    configs = term.context.broker_configs
    layers = ConfigLayers(
        topic=config,
        broker=configs.get(ConfigOwner(ConfigEntity.BROKER, str(leader)), {}),
        every_broker=configs.get(EVERY_BROKER, {}),
        started_with={MIN_INSYNC_REPLICAS: str(term.settings.default_min_insync_replicas)},
    )
    return int(layers.value(MIN_INSYNC_REPLICAS))


async def _read(term: Term, owner: ConfigOwner) -> Mapping[str, str] | None:
    """Return the owner's set values, None where the znode is malformed, which is traced."""
    path = config_path(owner)
    read = await term.store.get(path)
    if read is None:
        return {}
    try:
        return decode_config(read[0], owner)
    except MalformedZnode as fault:
        report_malformed(term, path, fault)
        return None
