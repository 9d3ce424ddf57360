"""`highwater sim run`: thousands of fault schedules from seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.errors import INTERRUPTED_EXIT_CODE
from highwater.output import RESULTS, print_json
from highwater.run_folder import RunFolder, new_run_id
from highwater.search.options import CORES, Families, SearchOptions
from highwater.search.progress import SearchProgress
from highwater_checker.verdict import EXIT_CODES, Outcome
from highwater_core.config import Preset

if TYPE_CHECKING:
    from highwater.search.pool import Lost
    from highwater.search.searching import Search
    from highwater_simulator.search import Summary


def register(app: typer.Typer) -> None:
    app.command()(run)


def run(
    schedules: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="The first one's.")] = 1,
    preset: Annotated[Preset, typer.Option(help="The protocol's rules.")] = Preset.FENCED,
    family: Annotated[Families, typer.Option(help="Which faults.")] = Families.ALL,
    planted: Annotated[str, typer.Option(help="Have all nodes make this mistake.")] = "",
    feedback: Annotated[
        bool, typer.Option("--feedback", help="Change plans that reached new coverage marks.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(min=0, help="Worker processes; 0: all in this process.")
    ] = CORES,
    stop_at_first: Annotated[
        bool, typer.Option("--stop-at-first/--keep-going", help="Whether a failure ends it.")
    ] = False,
    out: Annotated[Path, typer.Option(file_okay=False, help="Where run folders are kept.")] = Path(
        "runs"
    ),
    record_marks: Annotated[
        Path | None, typer.Option(dir_okay=False, hidden=True, help="Add the marks reached.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Search: run schedules of random topologies, workloads and faults, and judge each of them."""
    from highwater.checkout import commit_here
    from highwater.search.planting import check_planting
    from highwater.search.report import print_report, report_of
    from highwater.search.searching import keep_plan, search
    from highwater.search.writable import check_can_write

    check_planting(planted, preset)
    options = SearchOptions(
        schedules=schedules,
        first_seed=seed,
        preset=preset,
        families=family,
        bug=planted,
        has_feedback=feedback,
        stops_at_first=stop_at_first,
        jobs=jobs,
    )
    for path in (out / "search.json", record_marks):
        if path is not None:
            check_can_write(path)
    folder = RunFolder.create(out, new_run_id("sim"))
    plans, commit = folder.path / "plans", commit_here()
    with SearchProgress(schedules) as progress:

        def heard(found: Search, outcome: Summary | Lost) -> None:
            keep_plan(plans, outcome, planted, commit)
            progress.show(found, outcome)

        found = search(options, heard)
    report = report_of(found, plans)
    folder.write_json("search.json", report)
    if record_marks is not None:
        _record_marks(record_marks, found)
    if json:
        print_json(report)
    else:
        print_report(report, RESULTS)
        RESULTS.print(str(folder.path / "search.json"), soft_wrap=True)
    is_only_interrupted = found.was_interrupted and report.verdict is Outcome.UNKNOWN
    raise typer.Exit(INTERRUPTED_EXIT_CODE if is_only_interrupted else EXIT_CODES[report.verdict])


def _record_marks(path: Path, found: Search) -> None:
    from highwater_simulator.known_marks import merge_marks, read_known_marks, write_known_marks

    known = merge_marks(read_known_marks(path), found.options.preset, found.totals.reached)
    write_known_marks(known, path)
