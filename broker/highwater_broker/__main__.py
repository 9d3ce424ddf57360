"""Runs one broker: `python -m highwater_broker`, with HIGHWATER_* variables as settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from highwater_adapters.process import load_settings, run_node
from highwater_adapters.tcp_server import ConnectionContext, KafkaHandler, ListenerSpec
from highwater_broker.kafka_api.seams import Listener
from highwater_broker.node import BrokerNode
from highwater_broker.settings import BrokerSettings
from highwater_wire.kafka.messages import KafkaRequest, KafkaResponse
from highwater_wire.kafka.versions import REPLICATION_PROFILE


def make_listeners(settings: BrokerSettings, node: BrokerNode) -> Sequence[ListenerSpec]:
    """Return the broker's three data-plane listeners.

    Each listens where it says that it is; EXTERNAL, which is reached through published ports, at
    every address.
    """

    def handler(listener: Listener) -> KafkaHandler:
        async def handle(request: KafkaRequest, context: ConnectionContext) -> KafkaResponse | None:
            return await node.handle_kafka(request, listener.value)

        return handle

    return (
        ListenerSpec(
            Listener.CLIENT,
            settings.client_port,
            handler(Listener.CLIENT),
            host=settings.listen_host or settings.client_host,
        ),
        ListenerSpec(Listener.EXTERNAL, settings.external_bind_port, handler(Listener.EXTERNAL)),
        ListenerSpec(
            Listener.REPLICATION,
            settings.replication_port,
            handler(Listener.REPLICATION),
            REPLICATION_PROFILE,
            host=settings.listen_host or settings.replication_host,
        ),
    )


def main() -> int:
    return run_node(load_settings(BrokerSettings), BrokerNode, make_listeners)


if __name__ == "__main__":
    sys.exit(main())
