"""`highwater sim replay`: a schedule of a search again, with a line for each event.

Of a plan file it is `highwater run FILE --events` without a run folder.
"""

from __future__ import annotations

from typing import Annotated

import typer

from highwater.output import print_json
from highwater.search.options import Families
from highwater_core.config import Preset


def register(app: typer.Typer) -> None:
    app.command()(replay)


def replay(
    what: Annotated[str, typer.Argument(metavar="SEED|PLANFILE", help="What is to be run again.")],
    preset: Annotated[
        Preset | None, typer.Option(help="The protocol's rules, of a seed. [default: fenced]")
    ] = None,
    family: Annotated[
        Families | None, typer.Option(help="Which faults, of a seed. [default: processes]")
    ] = None,
    planted: Annotated[str, typer.Option(help="Have all nodes make this mistake.")] = "",
    around_violation: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Only so many lines before and after it."),
    ] = None,
    digest_only: Annotated[
        bool, typer.Option("--digest-only", help="Print nothing but the run's digest.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Run a search's seed again and show it; equal plans give equal digests.

    A plan file is run and shown by 'highwater run FILE --events', which also keeps its run folder.
    """
    from highwater.runs.plans import replaying
    from highwater.search.plans import plan_of

    replayed = replaying.replay(plan_of(what, preset, family), planted)
    if digest_only:
        typer.echo(replayed.result.digest())
    elif json:
        print_json(replaying.report_of(replayed))
    else:
        replaying.show(replayed, around_violation)
    raise typer.Exit(replayed.exit_code)
