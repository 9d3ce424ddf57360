"""Presets side by side for the command line: campaigns of a store, one page. Needs the extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer
from rich.console import Console

from highwater.errors import HarnessError
from highwater.output import table_of_columns
from highwater.report.pipeline_runs import with_runs_taken_in
from highwater_pipeline.campaign.state import CannotGoOn, stored_settings
from highwater_pipeline.campaign.tables import SCHEDULES
from highwater_pipeline.comparing.presets import CannotCompare, PresetCosts, compare_presets
from highwater_pipeline.reading import read_table
from highwater_pipeline.report.pages import write_page
from highwater_pipeline.report.presets import lead_of_presets, page_of_presets, shown_costs
from highwater_pipeline.report.sections import shown_value


def comparison_of_campaigns(
    names: Sequence[str], store: Path, out: Path, master: str, *, as_json: bool
) -> int:
    """Compare the presets of the store's campaigns, write the page, and return the exit code, 0.

    Raises:
        HarnessError: the campaigns cannot be compared, or there is no Java.
    """
    try:
        settings = {name: stored_settings(store, name) for name in names}
        with with_runs_taken_in((), store, master, is_small=False) as taken:
            taken.tell("presets are compared")
            rows = read_table(taken.spark, store, SCHEDULES)
            found = compare_presets(rows.where(rows["campaign"].isin(*names)), settings)
    except (CannotGoOn, CannotCompare) as error:
        raise HarnessError(str(error)) from error
    page = write_page(out, page_of_presets(found))
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _print(found, page)
    return 0


def _print(found: PresetCosts, page: Path) -> None:
    console, shown = Console(), [shown_costs(row) for row in found.rows]
    console.print(table_of_columns(shown, "preset", shown_value))
    for text in (lead_of_presets(found), *found.notes, str(page)):
        console.print(text, markup=False, highlight=False, soft_wrap=True)
