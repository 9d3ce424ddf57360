"""A broker's listeners on the data plane, by their names."""

from __future__ import annotations

from enum import StrEnum


class Listener(StrEnum):
    """A broker's data-plane listeners. EXTERNAL is CLIENT for clients outside the network."""

    CLIENT = "CLIENT"
    EXTERNAL = "EXTERNAL"
    REPLICATION = "REPLICATION"


CLIENT_LISTENERS = (Listener.CLIENT, Listener.EXTERNAL)
