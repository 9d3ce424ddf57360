"""A plan that shows a bug, and the same schedule with every fix."""

from __future__ import annotations

from msgspec.structs import replace

from highwater_chaos.plan import Plan
from highwater_core.config import Preset


def with_every_fix(plan: Plan) -> Plan:
    """Return the same schedule under preset fenced, without toggles and planted mistakes."""
    title = plan.title if plan.expected is None else plan.expected.with_every_fix
    fixed = replace(plan.topology, preset=Preset.FENCED, toggles={})
    return replace(plan, title=title or plan.title, topology=fixed, expected=None)
