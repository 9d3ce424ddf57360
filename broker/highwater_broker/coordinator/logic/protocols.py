"""Selects the protocol of a group, and reads the topics that a member subscribes to. Pure.

Source: Kafka's GroupMetadata.selectProtocol; ConsumerProtocolSubscription: every version begins
with the fields of version 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

CONSUMER_PROTOCOL_TYPE = "consumer"


def select_protocol(preferences: Sequence[Sequence[str]]) -> str | None:
    """Return the protocol that most members prefer, of the protocols that all members know.

    None where the members share no protocol. At equal votes the first protocol to get a vote wins.
    preferences: each member's protocols, the preferred first.
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
    """Return the topics in a consumer's metadata, None if it cannot be decoded."""
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
