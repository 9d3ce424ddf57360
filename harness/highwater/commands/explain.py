"""`highwater explain`: what happened in a run that failed, told from the files of its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from highwater.output import PROGRESS, print_json, printable
from highwater.report.explained import judge_and_explain
from highwater.report.explained_text import (
    explained_json,
    print_explained,
    print_lacking,
    print_other_findings,
)
from highwater.report.verdict_text import print_outcome
from highwater_checker.verdict import EXIT_CODES


def register(app: typer.Typer) -> None:
    app.command()(explain)


def explain(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A run's folder.")],
    finding: Annotated[int, typer.Option(min=1, help="Which of the verdict's findings.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Tell how a run failed: its first finding as a story, with the lines of evidence.

    The story has the faults, elections, ISRs, truncations and clients' answers up to the finding.
    Exit code as of `highwater judge`: 0 the run passes, 1 it fails, 2 it is unknown.
    """
    PROGRESS.print(Text(f"judging {printable(str(folder))}"), soft_wrap=True)
    verdict, explained = judge_and_explain(folder, finding)
    if as_json:
        print_json(explained_json(verdict, explained))
    elif explained is None:
        print_outcome(verdict, "")
    else:
        print_explained(explained)
        print_other_findings(verdict.findings, explained)
        print_lacking(verdict, explained)
    raise typer.Exit(EXIT_CODES[verdict.outcome])
