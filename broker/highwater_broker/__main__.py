"""Runs one broker: `python -m highwater_broker`, with HIGHWATER_* variables as settings."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import replace

from highwater_adapters.memory_quota import MemoryQuota
from highwater_adapters.process import descriptor_limit, load_settings, run_node
from highwater_adapters.tcp_server import ConnectionContext, KafkaHandler, ListenerSpec
from highwater_broker.kafka_api.listeners import Listener
from highwater_broker.node import BrokerNode
from highwater_broker.settings import NO_LIMIT, BrokerSettings
from highwater_wire.kafka.group_messages import JoinGroupRequest
from highwater_wire.kafka.messages import KafkaAnswer, KafkaRequest
from highwater_wire.kafka.versions import REPLICATION_PROFILE


def make_listeners(settings: BrokerSettings, node: BrokerNode) -> Sequence[ListenerSpec]:
    """Return the broker's three data-plane listeners.

    Each listens on the address that it advertises; EXTERNAL, whose ports are published, on every
    address.
    Clients' memory, connections and descriptors are bounded apart from followers'.
    """

    def handler(listener: Listener) -> KafkaHandler:
        async def handle(request: KafkaRequest, context: ConnectionContext) -> KafkaAnswer:
            if isinstance(request, JoinGroupRequest):
                host = context.peer.rpartition(":")[0]
                request = replace(request, client_host=f"/{host}")
            return await node.handle_kafka(request, listener.value)

        return handle

    def quota() -> MemoryQuota:
        limit = settings.queued_max_request_bytes
        return MemoryQuota(None if limit == NO_LIMIT else limit)

    most_connections = descriptor_limit() // 4
    wanted = settings.max_connections
    of_clients = most_connections if wanted == NO_LIMIT else min(wanted, most_connections)
    spec = functools.partial(
        ListenerSpec,
        max_frame_bytes=settings.socket_request_max_bytes,
        max_idle_ms=settings.connections_max_idle_ms,
    )
    for_clients = functools.partial(
        spec,
        max_connections=of_clients,
        max_connections_per_ip=settings.max_connections_per_ip,
        quota=quota(),
    )
    return (
        for_clients(
            Listener.CLIENT,
            settings.client_port,
            handler(Listener.CLIENT),
            host=settings.listen_host or settings.client_host,
        ),
        for_clients(Listener.EXTERNAL, settings.external_bind_port, handler(Listener.EXTERNAL)),
        spec(
            Listener.REPLICATION,
            settings.replication_port,
            handler(Listener.REPLICATION),
            REPLICATION_PROFILE,
            host=settings.listen_host or settings.replication_host,
            max_connections=most_connections,
            quota=quota(),
        ),
    )


def main() -> int:
    return run_node(load_settings(BrokerSettings), BrokerNode, make_listeners)


if __name__ == "__main__":
    sys.exit(main())
