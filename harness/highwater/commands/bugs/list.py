"""`highwater bugs list`: the rows of the catalogue, and by what each is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from highwater.output import RESULTS, print_json

if TYPE_CHECKING:
    from highwater.bugs.kept import Bug

_HEADS = ("row", "bug", "shown under", "docker", "what happens")
_WIDTHS = (3, 11, 18, 6, 0)
"""Of the cells of a line; the last one is not filled up."""


def register(app: typer.Typer) -> None:
    app.command("list")(list_bugs)


def list_bugs(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with all of each row.")] = False,
) -> None:
    """List the catalogue's bugs, by row: what shows each here, also on containers, and its title.

    Where stdout is no terminal each row is one line, whatever its length.
    """
    from highwater.bugs.kept import all_bugs

    bugs = all_bugs()
    if json:
        print_json([_fields(bug) for bug in bugs])
    elif RESULTS.is_terminal:
        RESULTS.print(_table(bugs))
    else:
        for cells in (_HEADS, *map(_cells, bugs)):
            typer.echo("  ".join(map(str.ljust, cells, _WIDTHS)))


def _table(bugs: list[Bug]) -> Table:
    table = Table(box=None)
    for head in _HEADS[:-1]:
        table.add_column(head, no_wrap=True, justify="right" if head == "row" else "left")
    table.add_column(_HEADS[-1])
    for bug in bugs:
        table.add_row(*_cells(bug), style="" if bug.scenario else "dim")
    return table


def _cells(bug: Bug) -> tuple[str, ...]:
    from highwater.bugs.in_containers import PLANS

    row = bug.row
    in_containers = "yes" if row.number in PLANS else "–"
    return str(row.number), bug.name, _in_short(bug), in_containers, row.title


def _in_short(bug: Bug) -> str:
    """Return the preset, with how many toggles are replaced, or that a mistake is planted."""
    if not bug.scenario:
        return "does not apply" if bug.row.why_not_here else "no plan yet"
    plan = bug.plan()
    if plan.planted:
        return "planted mistake"
    preset, count = plan.topology.preset, len(plan.topology.toggles)
    if not count:
        return preset.value
    return f"{preset.value} + {'toggle' if count == 1 else f'{count} toggles'}"


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
