"""`highwater sim planted`: known mistakes in the protocol, and how soon the search finds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from highwater.errors import INTERRUPTED_EXIT_CODE
from highwater.output import PROGRESS, RESULTS, print_json, say
from highwater.search.options import CORES, Families

if TYPE_CHECKING:
    from highwater.search.hunting import BugReport, Hunt, Hunted, HuntOptions


def register(app: typer.Typer) -> None:
    app.command()(planted)


def planted(
    name: Annotated[str, typer.Argument(help="One of them; without it, all.")] = "",
    find: Annotated[bool, typer.Option("--find", help="Search until each is found.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Starting seeds for each.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="The first starting seed.")] = 1,
    limit: Annotated[int, typer.Option(min=1, help="Schedules after which to give up.")] = 500,
    family: Annotated[Families, typer.Option(help="Which faults.")] = Families.ALL,
    feedback: Annotated[
        bool, typer.Option("--feedback", help="Change plans that reached new coverage marks.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes.")] = CORES,
    markdown: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write the table of --find here as well.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the planted bugs, or measure how many schedules it takes to find them.

    Ctrl-C ends a measurement with the table of the finished hunts.
    """
    from highwater.search import hunting
    from highwater.search.writable import check_can_write

    bugs = hunting.chosen_bugs(name)
    if not find:
        _list(bugs, json)
        return
    options = hunting.HuntOptions(bugs, seed, seeds, limit, family, feedback, jobs)
    if markdown is not None:
        check_can_write(markdown)
    hunted = _find(options)
    reports = hunting.reports_of(hunted.hunts)
    if markdown is not None:
        markdown.write_text("".join(f"{line}\n" for line in hunting.markdown(reports)))
    if json:
        print_json(reports)
    else:
        _print_found(reports)
    if hunted.was_interrupted:
        raise typer.Exit(INTERRUPTED_EXIT_CODE)
    if not all(report.found == report.hunts for report in reports):
        raise typer.Exit(1)


def _list(bugs: tuple[str, ...], json: bool) -> None:
    from highwater_planted import PLANTED

    chosen = [PLANTED[name] for name in bugs]
    if json:
        print_json(
            [
                {
                    "name": bug.name,
                    "summary": bug.summary,
                    "source": bug.source,
                    "breaks": bug.breaks,
                    "shows_under": bug.shows_under,
                }
                for bug in chosen
            ]
        )
        return
    for bug in chosen:
        RESULTS.print(Text(bug.name, style="bold"))
        RESULTS.print(Text(f"  {bug.summary}"))
        shows = ", ".join(family.replace("_", " ") for family in bug.shows_under)
        RESULTS.print(
            Text(f"  {bug.source}; breaks {', '.join(bug.breaks)}; under {shows}", style="dim")
        )


def _find(options: HuntOptions) -> Hunted:
    from highwater.search.hunting import hunt

    with PROGRESS.status("") as status:
        done: dict[tuple[str, int], None] = {}

        def heard(each: Hunt) -> None:
            status.update(
                f"{len(done)} of {len(options.bugs) * options.seeds} hunts; {each.bug} from seed "
                f"{each.first_seed}: {each.schedules} schedules"
            )
            if each.is_over(options.limit):
                done[each.bug, each.first_seed] = None
                how = f"{each.invariant} in {each.found_by}" if each.invariant else "nothing"
                say(f"{each.bug} from seed {each.first_seed}: {each.schedules} schedules, {how}")

        return hunt(options, heard)


def _print_found(reports: list[BugReport]) -> None:
    from highwater.search.hunting import HEADERS, row_of

    table = Table()
    for number, header in enumerate(HEADERS):
        table.add_column(header, no_wrap=number == 0, justify="left")
    for report in reports:
        table.add_row(*row_of(report), style="" if report.found == report.hunts else "red")
    RESULTS.print(table)
    for report in reports:
        for why in report.lost:
            RESULTS.print(Text(f"{report.bug}: {why}", style="yellow"), soft_wrap=True)
        for what in report.not_its_own:
            RESULTS.print(
                Text(f"{report.bug}: not its own: {what}", style="yellow"), soft_wrap=True
            )
