"""Campaigns of plans on containers for the command line. Needs the extra.

The plans are a soak's, and so are the results: a folder with a ledger, plans, runs and a page.
"""

from __future__ import annotations

import functools
import hashlib
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from highwater.checkout import commit_here
from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json, say
from highwater.runs.stock.libraries import ClientKind
from highwater.search.campaign_progress import progress_of
from highwater.search.campaign_session import campaign_session, interrupted
from highwater.search.planting import check_planting
from highwater.search.writable import check_can_write
from highwater.soak.campaign.settings import PlanSettings, code_here
from highwater.soak.campaign.worker import BESIDE_FAULTS_S, Order, archive_name, rows_of
from highwater.soak.draws import Drawn, draw
from highwater.soak.folder import SoakFolder, write_whole
from highwater.soak.ledger import Entry, verdict_of
from highwater.soak.page import write_page
from highwater.soak.printing import print_shares, print_with_command
from highwater.soak.running import entry_of
from highwater_chaos.random_kinds import Kind
from highwater_checker.verdict import EXIT_CODES, Outcome
from highwater_core.config import Preset
from highwater_pipeline.campaign.running import Work, read_rows, run_groups
from highwater_pipeline.campaign.state import (
    CONTAINERS,
    CannotGoOn,
    group_receipts,
    open_campaign,
)
from highwater_pipeline.campaign.tables import DATA_VERSION, PLANS
from highwater_pipeline.java import NoSpark
from highwater_pipeline.tables import Row

PLANS_PER_TASK = 1


@dataclass(frozen=True, slots=True)
class AskedOfContainers:
    """The options of a campaign of plans on containers.

    seed: of the soak. plans: how many of its plans. at_once: clusters on one machine.
    name: "" for one made of the other options and of the code.
    """

    seed: int
    plans: int
    preset: Preset
    longest_ms: int
    clients: Sequence[ClientKind]
    without: Sequence[Kind]
    planted: str
    name: str
    store: Path
    out: Path
    master: str
    group_length: int
    at_once: int


def settings_of(asked: AskedOfContainers) -> PlanSettings:
    """Return the settings that determine the campaign's rows, with the digest of the code."""
    return PlanSettings(
        first_seed=asked.seed,
        seeds=asked.plans,
        families=(CONTAINERS,),
        preset=asked.preset,
        planted=asked.planted,
        code=code_here(),
        data_version=DATA_VERSION,
        group_length=asked.group_length,
        commit=commit_here(),
        longest_ms=asked.longest_ms,
        clients=tuple(each.value for each in asked.clients),
        without=tuple(each.value for each in asked.without),
    )


def name_of(asked: AskedOfContainers, settings: PlanSettings) -> str:
    """Return the campaign's name: the option, or one made of settings and code."""
    planted = f"-{asked.planted}" if asked.planted else ""
    said = f"{asked.preset}-{CONTAINERS}-{asked.seed}-{asked.plans}{planted}"
    every = msgspec.json.encode(msgspec.structs.replace(settings, commit=""))
    return asked.name or f"{said}-{hashlib.sha256(every).hexdigest()[:8]}"


def run_on_containers(asked: AskedOfContainers, *, as_json: bool) -> int:
    """Run the rest of the campaign, report on all of it, and return the exit code.

    Raises:
        HarnessError: there is no Java, the name is another campaign's, another process runs it, no
            node would have the planted bug, or nothing can be written to out.
    """
    check_planting(asked.planted, asked.preset)
    wanted = settings_of(asked)
    name, store = name_of(asked, wanted), asked.store.resolve()
    folder = SoakFolder(asked.out / name, of="campaign")
    numbers = range(1, asked.plans + 1)
    drawn = [draw(wanted.soak(), number).with_planted(asked.planted) for number in numbers]
    try:
        with open_campaign(store, name, wanted) as settings:
            check_can_write(folder.page)
            folder.open(settings.soak())
            rows = _rows(asked, store, name, settings)
            entries = take_over(folder, drawn, rows, _archives(store, name))
            write_page(folder, settings.soak(), entries)
    except (NoSpark, CannotGoOn) as error:
        raise HarnessError(str(error)) from error
    except KeyboardInterrupt:
        return interrupted(store, name, asked.plans, "plans")
    outcome = verdict_of(entries)
    if as_json:
        print_json({"campaign": name, "verdict": outcome, "plans": entries})
    else:
        _print(folder, entries, rows, outcome)
    return EXIT_CODES[outcome]


def _rows(asked: AskedOfContainers, store: Path, name: str, settings: PlanSettings) -> list[Row]:
    """Run the groups without a receipt, and return the rows of all plans, by number."""
    say(f"campaign {name}: {settings.schedules:,} plans in {len(settings.groups())} groups")
    with campaign_session(asked.master) as spark:
        return run_in(spark, asked, store, name, settings)


def run_in(
    spark: SparkSession, asked: AskedOfContainers, store: Path, name: str, settings: PlanSettings
) -> list[Row]:
    """Run the groups without a receipt, and return the rows of all plans, by number.

    Raises:
        CannotGoOn: there are receipts for all, and not all rows.
    """
    order = Order(
        soak=msgspec.to_builtins(settings.soak()),
        planted=settings.planted,
        code=settings.code,
        data_version=settings.data_version,
        at_once=asked.at_once,
        within_s=settings.longest_ms / 1_000 + BESIDE_FAULTS_S,
        kept=str(_archives(store, name)),
    )
    work = Work(functools.partial(rows_of, order), PLANS, PLANS_PER_TASK, tries_lost_again=True)
    with progress_of(settings, group_receipts(store, name), what="plans") as heard:
        run_groups(spark, store, name, settings, work, heard)
    found = [row.asDict() for row in read_rows(spark, store, PLANS, name).collect()]
    if len(found) != settings.schedules:
        raise CannotGoOn(
            f"campaign {name} has the rows of {len(found):,} of its {settings.schedules:,} plans, "
            f"and receipts for all: files are missing below {store}; take another --name"
        )
    return sorted(found, key=lambda row: row["number"])


def _archives(store: Path, name: str) -> Path:
    return store / "_campaigns" / name / "runs"


def take_over(
    folder: SoakFolder, drawn: Sequence[Drawn], rows: Sequence[Row], archives: Path
) -> list[Entry]:
    """Write plans and ledger into the folder, unpack runs that did not pass; return the entries."""
    entries = []
    for each, row in zip(drawn, rows, strict=True):
        folder.write_plan(each)
        entry = entry_in(row, each)
        if entry.run and not (folder.runs / entry.run).is_dir():
            unpack(archives / archive_name(entry.number, entry.run), folder)
        entries.append(entry)
    lines = (msgspec.json.encode(entry) + b"\n" for entry in entries)
    write_whole(folder.ledger, b"".join(lines))
    return entries


def unpack(archive: Path, folder: SoakFolder) -> None:
    """Unpack a run into the folder, where it appears once it is whole.

    Raises:
        HarnessError: the archive is missing or torn, or the disk failed.
    """
    try:
        with tempfile.TemporaryDirectory(dir=folder.path, prefix=".") as aside:
            with tarfile.open(archive) as packed:
                packed.extractall(aside, filter="data")
            for found in (*Path(aside).glob("shrunk/*"), *Path(aside).glob("runs/*")):
                target = folder.path / found.relative_to(aside)
                target.parent.mkdir(exist_ok=True)
                found.replace(target)
    except (OSError, tarfile.TarError) as error:
        raise HarnessError(f"{archive} could not be unpacked: {error}") from error


def entry_in(row: Row, drawn: Drawn) -> Entry:
    """Return the plan's entry; of a plan that a machine could not run: what it said."""
    told = msgspec.json.decode(row["entry"])
    if "seed" in told:
        return msgspec.convert(told, Entry)
    why = tuple(told["reasons"])
    return entry_of(drawn, None, why, run="", began="", took_s=0, load=0)


def _print(
    folder: SoakFolder, entries: Sequence[Entry], rows: Sequence[Row], outcome: Outcome
) -> None:
    print_shares(entries)
    machines = sorted({row["machine"] for row in rows})
    RESULTS.print(f"machines: {', '.join(machines)}", markup=False, soft_wrap=True)
    for entry in entries:
        if entry.outcome is not Outcome.PASS:
            print_with_command(folder.path, entry)
    RESULTS.print(f"verdict: {outcome.value}")
    RESULTS.print(str(folder.page), soft_wrap=True)
