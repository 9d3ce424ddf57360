"""The specification of a Kafka listener: its name, port, handler, API versions and limits."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from highwater_adapters.frames import MAX_FRAME_BYTES
from highwater_adapters.memory_quota import MemoryQuota
from highwater_wire.kafka.codec import VERSION_PROFILE, VersionProfile
from highwater_wire.kafka.messages import KafkaAnswer, KafkaRequest

NO_LIMIT = -1
MAX_IDLE_MS = 600_000
"""Kafka's connections.max.idle.ms."""


@dataclass(frozen=True, slots=True)
class ConnectionContext:
    """The origin of a request: the listener's name and the peer's address, "host:port"."""

    listener: str
    peer: str


KafkaHandler = Callable[[KafkaRequest, ConnectionContext], Coroutine[Any, Any, KafkaAnswer]]
"""Answers a request; None: no response (a produce with acks 0). The listener answers an
UnsupportedRequest itself. A produce's records are views of the connection's buffer: they can be
read before the handler's first wait, and not afterwards. When the connection ends, a waiting
handler is cancelled, as a task is, since no client would get its answer. Its effects so far
stay."""


@dataclass(frozen=True, slots=True)
class ListenerSpec:
    """A listener to open. Port 0: any. NO_LIMIT: no limit.

    quota: for the memory of its connections; listeners may share one.
    """

    name: str
    port: int
    handler: KafkaHandler
    profile: VersionProfile = VERSION_PROFILE
    host: str = "0.0.0.0"
    max_frame_bytes: int = MAX_FRAME_BYTES
    max_connections: int = NO_LIMIT
    max_connections_per_ip: int = NO_LIMIT
    max_idle_ms: int = MAX_IDLE_MS
    quota: MemoryQuota = field(default_factory=MemoryQuota)
