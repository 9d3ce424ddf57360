"""`highwater init ci`: writes the file that makes failover tests a stage of a project's CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.ci_stage import CiSystem, write_stage
from highwater.output import say


def register(app: typer.Typer) -> None:
    app.command()(ci)


def ci(
    system: Annotated[CiSystem, typer.Option("--for", help="The CI.")],
    folder: Annotated[
        Path, typer.Option(exists=True, file_okay=False, help="The project's top folder.")
    ] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write the file that makes a project's failover tests a stage of its CI.

    The stage installs requirements.txt, has the images, runs pytest, puts the verdicts on the job's
    page, and keeps runs/ when it failed. The file is the project's own from then on.
    """
    written = write_stage(system, folder, force=force)
    if not written.is_new:
        say(f"{written.file} is there already, as it would be written")
    for lacking in written.lacks:
        say(f"note: {lacking}")
    typer.echo(str(written.file))
