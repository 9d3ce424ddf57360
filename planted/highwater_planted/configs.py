"""Planted: configurations and quotas that are changed while the cluster runs act wrongly."""

from __future__ import annotations

from highwater_broker import replication_quotas
from highwater_broker.logic.replication_quota import Windows, is_exceeded
from highwater_broker.partition import Partition
from highwater_controller import partition_state_machine
from highwater_controller.term import Term
from highwater_core.config_layers import ConfigLayers, ConfigSource, SetValue
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_values = ConfigLayers.values
_take_minimum = Partition.take_min_insync_replicas


def _topics_last(self: ConfigLayers, name: str) -> tuple[SetValue, ...]:
    values = _values(self, name)
    return tuple(sorted(values, key=lambda each: each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG))


async def _allow_where_nobody_asked(term: Term, topic: str) -> bool:
    return True


def _as_of_the_last_record(windows: Windows, limit_bytes_per_s: int, now_ms: int) -> bool:
    last_ms = windows[-1].start_ms if windows else now_ms
    return is_exceeded(windows, limit_bytes_per_s, last_ms)


def _take_lower_ones(self: Partition, min_insync_replicas: int) -> None:
    _take_minimum(self, min(min_insync_replicas, self.min_insync_replicas))


BUGS = (
    PlantedBug(
        name="raised_minimum_ignored",
        summary="a broker goes on committing with as many in sync as before min.insync.replicas "
        "was raised; no ELR is waited for, which would hide it",
        source="own; KIP-226",
        breaks=("I17",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        toggles={"eligible_leader_replicas": False},
        replacements=(Replacement(Partition, "take_min_insync_replicas", _take_lower_ones),),
    ),
    PlantedBug(
        name="throttled_for_ever",
        summary="a replication quota that is exceeded stays so until more passes, which never does",
        source="own; KIP-73",
        breaks=("L4", "L6", "L8", "L5"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(replication_quotas, "is_exceeded", _as_of_the_last_record),),
    ),
    PlantedBug(
        name="topic_configs_count_last",
        summary="what a topic sets counts only where no broker has a value, its default included",
        source="own; KIP-226",
        breaks=("I17",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(ConfigLayers, "values", _topics_last),),
    ),
    PlantedBug(
        name="unclean_election_unasked",
        summary="a topic that sets nothing may be led by a replica that is not in sync",
        source="own; KIP-106, KIP-226",
        breaks=("I12", "I4", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(
            Replacement(
                partition_state_machine, "allows_unclean_election", _allow_where_nobody_asked
            ),
        ),
    ),
)
