"""The page of a soak: plans over time, findings with the command that shows each again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from jinja2 import Environment, PackageLoader

from highwater.report.page import PAGE
from highwater.soak.draws import SoakSettings
from highwater.soak.folder import SoakFolder, write_whole
from highwater.soak.hooks import command_again
from highwater.soak.ledger import Entry, counts_of, verdict_of
from highwater.soak.strip import strip_of
from highwater_chaos.words import counted
from highwater_checker.verdict import Outcome


@dataclass(frozen=True, slots=True)
class Share:
    """How many plans of one kind had each verdict."""

    kind: str
    passed: int
    failed: int
    unknown: int


def write_page(folder: SoakFolder, settings: SoakSettings, entries: Sequence[Entry]) -> None:
    """Write soak.html: one file, with links to the pages of the runs that are beside it."""
    environment = Environment(loader=PackageLoader("highwater.soak"), autoescape=True)
    strip = strip_of(entries)
    findings = [entry for entry in entries if entry.outcome is Outcome.FAIL]
    page = environment.get_template("soak.html.j2").render(
        name=folder.path.name,
        settings=settings,
        counts=counts_of(entries),
        verdict=verdict_of(entries).value,
        hours=sum(entry.took_s for entry in entries) / 3600,
        faults=sum(entry.faults for entry in entries),
        acknowledged=sum(entry.acknowledged for entry in entries),
        strip=strip,
        pauses=f"{counted(strip.pauses, 'pause')} {'is' if strip.pauses == 1 else 'are'}",
        pages=pages_of(folder, entries),
        findings=[(entry, command_again(folder.path, entry)) for entry in findings],
        shares=list(shares_of(entries)),
        unknown=why_unknown(entries),
    )
    write_whole(folder.page, page.encode())


def pages_of(folder: SoakFolder, entries: Sequence[Entry]) -> dict[str, str]:
    """Return the link to each run's page that is there, relative to the soak's, by run."""
    runs = {run for entry in entries for run in (entry.run, *(each.run for each in entry.again))}
    return {
        run: f"{folder.runs.name}/{quote(run)}/{PAGE}"
        for run in sorted(runs - {""})
        if (folder.runs / run / PAGE).is_file()
    }


def shares_of(entries: Sequence[Entry]) -> Iterator[Share]:
    """Yield the verdicts by preset, by clients and by size of cluster."""
    kinds: tuple[Callable[[Entry], str], ...] = (
        lambda entry: f"preset {entry.preset.value}",
        lambda entry: f"clients {entry.client.value}",
        lambda entry: counted(entry.brokers, "broker"),
        lambda entry: counted(entry.controllers, "controller"),
    )
    for kind in kinds:
        for name in sorted({kind(entry) for entry in entries}):
            counts = counts_of([entry for entry in entries if kind(entry) == name])
            yield Share(name, counts[Outcome.PASS], counts[Outcome.FAIL], counts[Outcome.UNKNOWN])


def why_unknown(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    """Return the first reasons of unknown plans without their details, the most frequent first."""
    reasons = Counter(
        entry.reasons[0].split(":")[0]
        for entry in entries
        if entry.outcome is Outcome.UNKNOWN and entry.reasons
    )
    return reasons.most_common(12)
