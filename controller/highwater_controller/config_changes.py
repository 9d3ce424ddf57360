"""The controller's reaction to changed configurations.

It reads brokers' configurations, holds the elections that unclean.leader.election.enable allows
from now on, ends the cancelled reassignments that min.insync.replicas allows, and removes old
announcements.
Source: Kafka's ZkConfigManager; KIP-226 (the election after a change).
"""

from __future__ import annotations

from collections.abc import Collection

from highwater_controller.configurations import (
    allows_unclean_election,
    load_broker_configs,
    read_broker_configs,
)
from highwater_controller.partition_state_machine import elect_leaders_where_none
from highwater_controller.reassignment import advance_reassignments
from highwater_controller.state_reader import report_malformed
from highwater_controller.term import Term
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import EVERY_BROKER, ConfigOwner
from highwater_core.config_znodes import decode_config_change
from highwater_core.reassignments import is_given_up
from highwater_core.znodes import CONFIG_CHANGES, MalformedZnode

KEPT_MS = 15 * 60_000
"""How long an announcement stays; brokers that were down for longer read all configurations."""
CHECK_INTERVAL_MS = 60_000
KEPT_MAX = 10_000
"""Most announcements that stay: beyond, the oldest are removed sooner."""
REMOVED_AT_ONCE = 1_000
"""Announcements to remove in one event; the watch for their removal triggers the next event."""


async def load_config_changes(term: Term) -> None:
    """Read brokers' configurations, which includes all changes announced so far."""
    now_ms = term.runtime.now_ms()
    names = await term.store.children(CONFIG_CHANGES, watch=True)
    term.context.config_changes = dict.fromkeys(names, now_ms)
    await load_broker_configs(term)


async def on_config_changes(term: Term) -> None:
    """Act on new announcements, and remove old ones.

    Ordering: announcements read, and watched -> brokers' configurations read that changed ->
    elections of partitions without a leader, where unclean ones are allowed now -> cancelled
    reassignments completed that are ready now -> announcements removed that are old.
    """
    seen = term.context.config_changes
    now_ms = term.runtime.now_ms()
    names = await term.store.children(CONFIG_CHANGES, watch=True)
    owners = await _changed(term, [name for name in names if name not in seen])
    if owners is None:
        await load_broker_configs(term)
        await _elect(term, sorted(term.context.topics()))
        await _end_given_up(term, term.context.topics())
    else:
        of_brokers = [each for each in owners if _is_broker(each)]
        await read_broker_configs(term, of_brokers)
        is_for_all = EVERY_BROKER in owners
        topics = [topic for topic in term.context.topics() if is_for_all or _topic(topic) in owners]
        await _elect(term, topics)
        await _end_given_up(term, term.context.topics() if of_brokers else topics)
    term.context.config_changes = {name: seen.get(name, now_ms) for name in names}
    await _remove_old(term, names, now_ms)


async def _changed(term: Term, names: Collection[str]) -> Collection[ConfigOwner] | None:
    """Return the owners of the changed configurations; None where an announcement is gone."""
    paths = [f"{CONFIG_CHANGES}/{name}" for name in names]
    read = await term.store.each(paths, term.store.get)
    owners: dict[ConfigOwner, None] = {}
    for path, found in zip(paths, read, strict=True):
        if found is None:
            return None
        try:
            owners[decode_config_change(found[0], path)] = None
        except MalformedZnode as fault:
            report_malformed(term, path, fault)
    return owners.keys()


async def _elect(term: Term, changed: Collection[str]) -> None:
    """Hold elections for the topics' partitions without a leader, where that may help."""
    waiting = {partition.topic for partition in term.context.partitions_without_leader()}
    topics = [topic for topic in changed if topic in waiting]
    allowed = await term.store.each(topics, lambda topic: allows_unclean_election(term, topic))
    may_be_led = [topic for topic, is_allowed in zip(topics, allowed, strict=True) if is_allowed]
    if may_be_led:
        await elect_leaders_where_none(term, may_be_led)


async def _end_given_up(term: Term, changed: Collection[str]) -> None:
    """Complete the topics' cancelled reassignments that need no more replicas in sync."""
    reassignments, topics = term.context.reassignments, frozenset(changed)
    given_up = [at for at in sorted(reassignments) if is_given_up(reassignments[at])]
    await advance_reassignments(term, [at for at in given_up if at.topic in topics])


async def _remove_old(term: Term, names: list[str], now_ms: int) -> None:
    """Remove old announcements, and the first of too many."""
    seen = term.context.config_changes
    too_many = names[: max(0, len(names) - KEPT_MAX)]
    old = [name for name in names if now_ms - seen[name] >= KEPT_MS]
    doomed = list(dict.fromkeys((*too_many, *old)))[:REMOVED_AT_ONCE]
    await term.store.each(doomed, lambda name: term.store.delete(f"{CONFIG_CHANGES}/{name}"))


def _is_broker(owner: ConfigOwner) -> bool:
    return owner.entity is ConfigEntity.BROKER


def _topic(name: str) -> ConfigOwner:
    return ConfigOwner(ConfigEntity.TOPIC, name)
