"""Planted: of several fetchers for a leader others than the first are forgotten."""

from __future__ import annotations

from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_core.ids import TopicPartition
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_remove = FetcherRegistry.remove


def _remove_from_the_first(self: FetcherRegistry, topic_partition: TopicPartition) -> bool:
    key = self._fetcher_of.get(topic_partition)
    if key is not None and key.number:
        del self._fetcher_of[topic_partition]
        return False
    return _remove(self, topic_partition)


BUGS = (
    PlantedBug(
        name="later_fetchers_go_on",
        summary="a partition is taken from a leader's first fetcher alone: others go on with it",
        source="own",
        breaks=("L8", "I4", "I3"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(FetcherRegistry, "remove", _remove_from_the_first),),
    ),
)
