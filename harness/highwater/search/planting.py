"""The planted bug of a run, and whether its nodes can have it."""

from __future__ import annotations

import msgspec

from highwater.errors import HarnessError
from highwater_chaos.plan import Plan
from highwater_core.config import NO_OVERRIDES, Overrides, Preset, resolve_toggles
from highwater_planted import PLANTED


class NoSuchBug(HarnessError):
    """No planted bug has that name."""


class PlantsNothing(HarnessError):
    """The bug is another value of toggles, and the run does not have those toggles."""


def check_bug(name: str) -> None:
    """Raise NoSuchBug unless the name is "" or a planted bug's."""
    if name and name not in PLANTED:
        known = ", ".join(sorted(PLANTED))
        raise NoSuchBug(f"there is no planted bug {name!r}; there are {known}")


def check_planting(name: str, preset: Preset, overrides: Overrides = NO_OVERRIDES) -> None:
    """Check that nodes of the preset with these toggles can have the bug.

    Otherwise a search would have a result for a bug that no node had.

    Raises:
        NoSuchBug: there is no planted bug of that name.
        PlantsNothing: the bug's toggles change nothing there, or the overrides are no toggles.
    """
    check_bug(name)
    if not name or not PLANTED[name].toggles:
        return
    try:
        without = resolve_toggles(preset, overrides)
        with PLANTED[name].apply():
            is_there = resolve_toggles(preset, overrides) != without
    except msgspec.ValidationError as error:
        raise PlantsNothing(f"toggles {dict(overrides)}: {error}") from error
    if not is_there:
        toggles = ", ".join(PLANTED[name].toggles)
        own = f" with toggles {dict(overrides)}" if overrides else ""
        raise PlantsNothing(
            f"planted bug {name} sets {toggles} of preset {Preset.FENCED} alone: "
            f"under preset {preset}{own} no node would have it"
        )


def problems_with_bug(plan: Plan) -> list[str]:
    """Return why the plan's nodes cannot have the plan's bug; empty when they can."""
    try:
        bug_of(plan)
    except HarnessError as error:
        return [str(error)]
    return []


def bug_of(plan: Plan, bug: str = "") -> str:
    """Return the bug of that name, or for "" the one that the plan names.

    Raises:
        NoSuchBug, PlantsNothing: the plan's nodes cannot have it.
    """
    chosen = bug or plan.planted
    check_planting(chosen, plan.topology.preset, plan.topology.toggles)
    return chosen
