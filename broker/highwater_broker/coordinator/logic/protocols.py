"""Which protocol a group's members use together, and which topics they say that they read. Pure.

Source: Kafka's GroupMetadata.selectProtocol; ConsumerProtocolSubscription, version 0, with which
every version of a subscription begins.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

CONSUMER_PROTOCOL_TYPE = "consumer"


def select_protocol(preferences: Sequence[Sequence[str]]) -> str | None:
    """Return the protocol that most members prefer among those that all know; None: there is none.

    preferences: each member's protocols, the preferred first. Of equals that which got a vote
    first.
    """
    if not preferences:
        return None
    known_to_all = frozenset(preferences[0]).intersection(*preferences[1:])
    votes: dict[str, int] = {}
    for names in preferences:
        vote = next((name for name in names if name in known_to_all), None)
        if vote is not None:
            votes[vote] = votes.get(vote, 0) + 1
    return max(votes, key=lambda name: votes[name], default=None)


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """Return the topics that a consumer's metadata names, None where they cannot be read."""
    try:
        _, count = struct.unpack_from(">hi", subscription)
        position, topics = 6, []
        if count < 0 or 2 * count > len(subscription):
            return None
        for _ in range(count):
            (length,) = struct.unpack_from(">h", subscription, position)
            position += 2
            if length < 0 or position + length > len(subscription):
                return None
            topics.append(str(subscription[position : position + length], "utf-8"))
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
