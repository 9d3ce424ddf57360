"""The topics that brokers keep for themselves: clients read them, and produce nothing to them."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
"""Groups and their committed offsets."""
TRANSACTIONS_TOPIC = "__transaction_state"
"""Kafka's: nothing is kept in it here, but its name is taken."""
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
