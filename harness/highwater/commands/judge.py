"""`highwater judge`: the verdict of finished runs, from the files in their folders."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from highwater.output import PROGRESS, RESULTS, print_json, printable
from highwater.report.summary import MOST_TOLD, ToldRun, judged, summary_of
from highwater.report.verdict_json import judged_run
from highwater.report.verdict_text import checks_table, print_outcome
from highwater.soak.kept_runs import runs_in
from highwater_checker.verdict import EXIT_CODES, Verdict, worst_of


def register(app: typer.Typer) -> None:
    app.command()(judge)


def judge(
    folders: Annotated[
        list[Path],
        typer.Argument(
            exists=True, file_okay=False, help="Folders of runs, or folders with runs in them."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a summary for a CI's page as Markdown.")
    ] = False,
    all_reasons: Annotated[
        bool, typer.Option("--all", help="Print all reasons of a verdict, not the first ones.")
    ] = False,
) -> None:
    """Judge finished runs again, from their files alone; the folders are not changed.

    Of runs/ that is each run in it. Of a soak it is each plan's that did not pass.
    --markdown has a table of all runs, and the story of each failed one's first finding.

    Exit code 0: every run passes; 1: one fails; 2: one is unknown.
    """
    if as_json and as_markdown:
        raise typer.BadParameter("--json and --markdown exclude each other")
    runs: dict[Path, ToldRun] = {}
    for folder in chain.from_iterable(map(runs_in, folders)):
        PROGRESS.print(Text(f"judging {printable(str(folder))}"), soft_wrap=True)
        told = sum(run.told is not None for run in runs.values())
        runs[folder] = judged(folder, is_told=as_markdown and told < MOST_TOLD)
    verdicts = {folder: run.verdict for folder, run in runs.items()}
    if as_markdown:
        typer.echo(summary_of([*runs.values()]), nl=False)
    elif as_json:
        print_json([judged_run(folder, verdict) for folder, verdict in verdicts.items()])
    else:
        for folder, verdict in verdicts.items():
            RESULTS.print(Text(printable(str(folder))), soft_wrap=True)
            RESULTS.print(checks_table(verdict))
            print_outcome(verdict, "" if all_reasons else "printed with --all or --json")
        if len(verdicts) > 1:
            RESULTS.print(_all_of(verdicts))
    outcomes = {verdict.outcome for verdict in verdicts.values()}
    raise typer.Exit(EXIT_CODES[worst_of(outcomes)])


def _all_of(verdicts: dict[Path, Verdict]) -> Table:
    table = Table("run", "verdict", "first reason")
    for folder, verdict in verdicts.items():
        reason = next(iter(verdict.reasons), "")
        table.add_row(Text(printable(str(folder))), verdict.outcome.value, Text(printable(reason)))
    return table
