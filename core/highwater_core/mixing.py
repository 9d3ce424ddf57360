"""Decides which presets the nodes of one cluster may have at the same time. Pure.

Nodes of one cluster must agree on who commands whom, on the way in which an ISR is changed, and on
the ids and epochs that requests carry. Apache Kafka has inter.broker.protocol.version for that:
brokers of a new release speak the old protocol until all are upgraded. Here a preset has one
protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields

from highwater_core.config import INVARIANTS, PRESETS, PROMISES, MayBreak, Preset, Toggles

OF_ONE_NODE = frozenset(
    {
        "fast_failure_detection",
        "latest_offset_waits_for_epoch_start",
        "truncation",
        "unclean_election",
    }
)
"""Toggles that each node may have for itself: the active controller decides about elections, a
follower about its truncation, to which every leader answers, and a leader about latest offsets."""

_WHY: Mapping[str, str] = {
    "commanded_by": "brokers of one elect leaders themselves by queues in ZooKeeper, and brokers "
    "of the other obey a controller: they would elect two leaders",
    "isr_write": "leaders of one write the ISR into ZooKeeper, and leaders of the other ask the "
    "controller: neither learns of the other's changes, and followers stay out of the ISR",
}
"""Why nodes must agree on a toggle, the most telling first."""


def why_not_mixed(one: Preset, other: Preset) -> str:
    """Return why nodes of these presets cannot be in one cluster, "" where they can."""
    differing = _differences(PRESETS[one], PRESETS[other]) - OF_ONE_NODE
    if not differing:
        return ""
    otherwise = f"nodes must agree on {', '.join(sorted(differing))}"
    why = next((why for toggle, why in _WHY.items() if toggle in differing), otherwise)
    return f"presets {one} and {other} cannot be mixed in one cluster: {why}"


def promised_by_all(presets: Collection[Preset]) -> Mapping[str, MayBreak]:
    """Return what a cluster of nodes with these presets promises, by invariant.

    It may break what one of the presets may break, by the rows of that preset.
    """
    promised = [PROMISES[each] for each in presets]
    rows = {name: {row for each in promised for row in each[name].rows} for name in INVARIANTS}
    return {name: MayBreak(tuple(sorted(of))) for name, of in rows.items()}


def _differences(one: Toggles, other: Toggles) -> set[str]:
    names = (field.name for field in fields(Toggles))
    return {name for name in names if getattr(one, name) != getattr(other, name)}
