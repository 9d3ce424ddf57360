"""What takes a bug away: the toggles, or the planted mistake, that its two runs differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from highwater.bugs.kept import Bug
from highwater_chaos.words import say_value
from highwater_core.config import PRESETS, Preset, resolve_toggles

FIXES: Mapping[int, tuple[str, ...]] = {
    1: ("truncation",),
    2: (
        "unclean_election",
        "isr_write",
        "high_watermark_waits_for_min_isr",
        "eligible_leader_replicas",
    ),
    3: ("truncation",),
    5: ("truncate_on",),
    6: ("fence_fetch_by_leader_epoch",),
    8: ("isr_write", "isr_join_checks_broker_epoch"),
    10: ("unclean_election",),
    15: ("broker_epoch",),
    23: ("latest_offset_waits_for_epoch_start",),
    38: ("commanded_by",),
    39: ("commanded_by",),
}
"""The toggles of a preset that bring a row's bug, by its number, where the plan replaces none."""


@dataclass(frozen=True, slots=True)
class Change:
    """A toggle, its value in the run with the bug, and that of preset fenced."""

    toggle: str
    before: str | bool
    after: str | bool

    def __str__(self) -> str:
        return (
            f"toggle {self.toggle}: {say_value(self.before)} before, {say_value(self.after)} here"
        )


def changes_of(bug: Bug) -> tuple[Change, ...]:
    """Return the toggles that make the difference; () where a planted mistake does.

    Invariant: the bug's plan does not show it once they have the values of preset fenced, whatever
    the other toggles are.

    Raises:
        HasNoPlan: no plan shows the bug.
    """
    topology = bug.plan().topology
    before = asdict(resolve_toggles(topology.preset, topology.toggles))
    after = asdict(PRESETS[Preset.FENCED])
    replaced = tuple(name for name in topology.toggles if before[name] != after[name])
    return tuple(
        Change(name, before[name], after[name])
        for name in replaced or FIXES.get(bug.row.number, ())
    )


def say_difference(bug: Bug) -> Iterator[str]:
    """Yield, one a line, what makes the difference between the bug's two runs."""
    plan = bug.plan()
    if plan.planted:
        yield f"planted mistake {plan.planted}: in every node before, in none here"
        yield "all else is the same"
        return
    changes = changes_of(bug)
    yield from map(str, changes)
    these = "this value" if len(changes) == 1 else "these values"
    yield (
        "all else is the same"
        if plan.topology.preset is Preset.FENCED
        else f"with {these} and all else of the first run the bug does not show either"
    )
