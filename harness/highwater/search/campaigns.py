"""Campaigns for the command line: run group by group, shrunk, reported. Needs the extra."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from highwater.checkout import commit_here
from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json, say
from highwater.search.campaign_progress import progress_of
from highwater.search.campaign_report import (
    CampaignReport,
    Sums,
    lead_of,
    make_report,
    notes_of,
    page_rows,
    print_campaign,
    search_of,
    shrunk_name,
)
from highwater.search.campaign_session import RUN_ON, campaign_session, interrupted
from highwater.search.options import Families
from highwater.search.planting import check_planting
from highwater.search.schedule_rows import rows_of, shrunk_of, summary_of
from highwater.search.searching import families_of, plan_name
from highwater.search.writable import check_can_write
from highwater_checker.verdict import EXIT_CODES
from highwater_core.config import Preset
from highwater_pipeline.campaign import sums as summing
from highwater_pipeline.campaign.running import Work, read_rows, run_groups, shrink_failing
from highwater_pipeline.campaign.shipping import digest_of
from highwater_pipeline.campaign.state import (
    CannotGoOn,
    Settings,
    group_receipts,
    open_campaign,
)
from highwater_pipeline.campaign.tables import DATA_VERSION, SCHEDULES, SHRUNK
from highwater_pipeline.java import NoSpark
from highwater_pipeline.report.campaign import page_of_campaign
from highwater_pipeline.report.pages import write_page
from highwater_pipeline.tables import Row

MAKE_ROWS = (
    "highwater.checkout",
    "highwater.errors",
    "highwater.project",
    "highwater.search.judging",
    "highwater.search.options",
    "highwater.search.planting",
    "highwater.search.plans",
    "highwater.search.schedule_rows",
    "highwater.search.shrinking",
    "highwater_pipeline.campaign.state",
    "highwater_pipeline.campaign.tables",
    "highwater_pipeline.locking",
    "highwater_pipeline.receipts",
)
"""The modules of harness and pipeline that workers import to make a row. A campaign belongs to one
state of these and RUN_ON; code that distributes, sums up and reports may change meanwhile."""
KEPT_OF_EACH = 3
"""Schedules of each kind of violation that get plan files, and are shrunk if they fail."""
SHRUNK_MAX = 32
LOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a campaign.

    seeds: how many; each runs in every family.
    name: "" for one made of the other options and of the code.
    """

    seeds: int
    first_seed: int
    preset: Preset
    families: Families
    planted: str
    name: str
    store: Path
    out: Path
    master: str
    group_length: int
    shrink_runs: int


def settings_of(asked: Asked) -> Settings:
    """Return the settings that determine the campaign's rows, with the digest of the code."""
    return Settings(
        first_seed=asked.first_seed,
        seeds=asked.seeds,
        families=tuple(str(family) for family in families_of(asked.families)),
        preset=asked.preset,
        planted=asked.planted,
        code=digest_of((*RUN_ON, *MAKE_ROWS)),
        data_version=DATA_VERSION,
        group_length=asked.group_length,
        commit=commit_here(),
    )


def name_of(asked: Asked, settings: Settings) -> str:
    """Return the campaign's name: the option, or one made of settings and code."""
    last = asked.first_seed + asked.seeds - 1
    planted = f"-{asked.planted}" if asked.planted else ""
    said = f"{asked.preset}-{asked.families}-{asked.first_seed}-{last}{planted}"
    return asked.name or f"{said}-{settings.code[:8]}"


def run_campaign(asked: Asked, *, as_json: bool) -> int:
    """Run the rest of the campaign, report on all of it, and return the exit code.

    Raises:
        HarnessError: there is no Java, the name is another campaign's, another process runs it, no
            node would have the planted bug, or nothing can be written to out.
    """
    check_planting(asked.planted, asked.preset)
    asked_settings = settings_of(asked)
    name, store = name_of(asked, asked_settings), asked.store.resolve()
    try:
        with open_campaign(store, name, asked_settings) as settings:
            check_can_write(asked.out / name / "campaign.html")
            before = len(group_receipts(store, name))
            sums = _sums_of(asked, store, name, settings)
            report = report_on(asked, store, name, settings, sums, before)
    except (NoSpark, CannotGoOn) as error:
        raise HarnessError(str(error)) from error
    except KeyboardInterrupt:
        return interrupted(store, name, asked_settings.schedules, "schedules")
    if as_json:
        print_json(report)
    else:
        print_campaign(report, RESULTS)
    return EXIT_CODES[report.verdict]


def _sums_of(asked: Asked, store: Path, name: str, settings: Settings) -> Sums:
    """Run and shrink the remaining schedules, and return the sums of all."""
    say(f"campaign {name}: {settings.schedules:,} schedules in {len(settings.groups())} groups")
    with campaign_session(asked.master) as spark:
        return run_in(spark, asked, store, name, settings)


def run_in(spark: SparkSession, asked: Asked, store: Path, name: str, settings: Settings) -> Sums:
    """Run the groups without a receipt, shrink failing schedules, and return the sums of all."""
    with progress_of(settings, group_receipts(store, name)) as heard:
        run_groups(spark, store, name, settings, Work(functools.partial(rows_of, settings)), heard)
    schedules = read_rows(spark, store, SCHEDULES, name)
    chosen = summing.chosen(schedules, KEPT_OF_EACH)
    failed = [
        (name, row["seed"], row["family"], row["plan"])
        for row in chosen
        if row["outcome"] == "fail"
    ][:SHRUNK_MAX]
    shrunk: list[Row] = []
    if failed and asked.shrink_runs:
        say(f"{len(failed)} failing schedules are shrunk")
        shrink = functools.partial(shrunk_of, settings, asked.shrink_runs)
        shrink_failing(spark, store, name, failed, shrink, asked.shrink_runs)
        rows = read_rows(spark, store, SHRUNK, name).orderBy("invariant", "seed", "family")
        shrunk = [row.asDict() for row in rows.collect()]
    families = summing.by_family(schedules)
    there = sum(row["schedules"] for row in families)
    if there != settings.schedules:
        raise CannotGoOn(
            f"campaign {name} has the rows of {there:,} of its {settings.schedules:,} schedules, "
            f"and receipts for all: files are missing below {store}; take another --name"
        )
    return Sums(
        families=families,
        entries=summing.by_entry(schedules),
        chosen=chosen,
        lost=summing.lost(schedules, LOST_SHOWN),
        shrunk=shrunk,
    )


def report_on(
    asked: Asked, store: Path, name: str, settings: Settings, sums: Sums, groups_before: int
) -> CampaignReport:
    """Write the campaign's page, plans and search.json into its folder; return the report."""
    folder = asked.out / name
    receipts = group_receipts(store, name)
    wall_s = sum(receipt.wall_s for receipt in receipts.values())
    _write_plans(folder / "plans", sums)
    report = make_report(
        search_of(settings, asked.families, sums, wall_s),
        settings,
        sums,
        folder / "plans",
        campaign=name,
        master=asked.master,
        groups=len(receipts),
        groups_now=len(receipts) - groups_before,
        page=str(folder / "campaign.html"),
    )
    lead, notes = lead_of(report), notes_of(report)
    write_page(folder, page_of_campaign(name, report.verdict, lead, notes, page_rows(report)))
    text = msgspec.json.format(msgspec.json.encode(report.search), indent=2)
    (folder / "search.json").write_bytes(text + b"\n")
    return report


def _write_plans(plans: Path, sums: Sums) -> None:
    """Write the chosen schedules' plans, as found and as shrunk."""
    files = {plan_name(summary_of(row)): row["plan"] for row in sums.chosen}
    files |= {shrunk_name(row): row["plan"] for row in sums.shrunk if row["plan"] is not None}
    if files:
        plans.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (plans / name).write_text(text)
