"""`highwater bugs list`: the rows of the catalogue, and by what each is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from highwater.output import RESULTS, print_json
from highwater_core.config import Preset

if TYPE_CHECKING:
    from highwater.bugs.kept import Bug


def register(app: typer.Typer) -> None:
    app.command("list")(list_bugs)


def list_bugs(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the catalogue's bugs, by row: what each breaks, and what shows it here."""
    from highwater.bugs.in_containers import PLANS
    from highwater.bugs.kept import all_bugs

    bugs = all_bugs()
    if json:
        print_json([_fields(bug) for bug in bugs])
        return
    table = Table()
    table.add_column("row", justify="right")
    table.add_column("bug", no_wrap=True)
    table.add_column("what happens")
    table.add_column("breaks")
    table.add_column("shown under", no_wrap=True)
    table.add_column("containers", no_wrap=True)
    for bug in bugs:
        row = bug.row
        table.add_row(
            str(row.number),
            bug.name,
            row.title,
            ", ".join(row.invariants),
            _in_short(bug),
            "yes" if bug.row.number in PLANS else "–",
            style="" if bug.scenario else "dim",
        )
    RESULTS.print(table)


def _in_short(bug: Bug) -> str:
    """Return the preset, or else what replaces one of its rules."""
    if not bug.scenario:
        return "no plan yet"
    plan = bug.plan()
    if plan.topology.preset is not Preset.FENCED:
        return plan.topology.preset.value
    return "a planted mistake" if plan.planted else "a toggle"


def _shown_under(bug: Bug) -> str:
    from highwater.bugs.kept import means_of

    return means_of(bug.plan()) if bug.scenario else ""


def _fields(bug: Bug) -> dict[str, object]:
    from highwater.bugs.in_containers import FOLDER, PLANS

    row = bug.row
    name = PLANS.get(row.number)
    return {
        "row": row.number,
        "ids": row.ids,
        "title": row.title,
        "affected": row.affected,
        "fixed_in": row.fixed_in,
        "breaks": dict(row.breaks),
        "in_a_trace": row.in_a_trace,
        "scenario": bug.scenario,
        "shown_under": _shown_under(bug),
        "plan_for_containers": f"{FOLDER}/{name}.json" if name else "",
    }
