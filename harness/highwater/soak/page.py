"""The page of a soak: plans over time, findings with the command that shows each again; JUnit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from jinja2 import Environment, PackageLoader

from highwater.report.page import PAGE
from highwater.soak.charts import HEIGHT, TITLES, WIDTH, charts_of
from highwater.soak.draws import SoakSettings
from highwater.soak.folder import SoakFolder, write_whole
from highwater.soak.hooks import command_again
from highwater.soak.junit import soak_junit_xml
from highwater.soak.leaks import judge_usage, leaks_in
from highwater.soak.ledger import Entry, counts_of, verdict_of
from highwater.soak.status import Doing, read_status
from highwater.soak.strip import strip_of
from highwater.soak.usage import read_samples
from highwater_chaos.words import counted
from highwater_checker.verdict import Outcome


@dataclass(frozen=True, slots=True)
class Share:
    """How many plans of one kind had each verdict."""

    kind: str
    passed: int
    failed: int
    unknown: int


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster that lived on: its rounds, its faults, and why it ended."""

    number: int
    rounds: int
    faults: int
    hours: float
    ended: str


def write_page(folder: SoakFolder, settings: SoakSettings, entries: Sequence[Entry]) -> None:
    """Write soak.html, with links to the pages of the runs that are beside it, and junit.xml."""
    samples = read_samples(folder.usage)
    leaks = leaks_in(samples)
    environment = Environment(loader=PackageLoader("highwater.soak"), autoescape=True)
    status = read_status(folder.status)
    was_stopped = status is not None and status.doing is Doing.STOPPED
    strip = strip_of(entries)
    findings = [entry for entry in entries if entry.outcome is Outcome.FAIL]
    verdict = verdict_of(entries, was_stopped=was_stopped, leaks=leaks)
    page = environment.get_template("soak.html.j2").render(
        what=folder.of.capitalize(),
        name=folder.path.name,
        settings=settings,
        counts=counts_of(entries),
        verdict=verdict.value,
        status=status,
        commits=list(dict.fromkeys(entry.commit for entry in entries if entry.commit)),
        hours=sum(entry.took_s for entry in entries) / 3600,
        faults=sum(entry.faults for entry in entries),
        acknowledged=sum(entry.acknowledged for entry in entries),
        strip=strip,
        pauses=f"{counted(strip.pauses, 'pause')} {'is' if strip.pauses == 1 else 'are'}",
        pages=pages_of(folder, entries),
        findings=[(entry, command_again(folder.path, entry)) for entry in findings],
        shares=list(shares_of(entries)),
        unknown=why_unknown(entries),
        clusters=clusters_of(entries),
        leaks=leaks,
        judgements=judge_usage(samples),
        charts=charts_of(samples),
        titles=list(TITLES.values()),
        chart_size=(WIDTH, HEIGHT),
    )
    write_whole(folder.page, page.encode())
    write_whole(folder.junit, soak_junit_xml(folder, entries, leaks, verdict))


def pages_of(folder: SoakFolder, entries: Sequence[Entry]) -> dict[str, str]:
    """Return the link to each run's page that is there, relative to the soak's, by run."""
    runs = {run for entry in entries for run in (entry.run, *(each.run for each in entry.again))}
    return {
        run: f"{folder.runs.name}/{quote(run)}/{PAGE}"
        for run in sorted(runs - {""})
        if (folder.runs / run / PAGE).is_file()
    }


def clusters_of(entries: Sequence[Entry]) -> list[ClusterRow]:
    """Return the clusters that lived on, in their order; none where each plan had its own."""
    found = []
    for number in sorted({entry.cluster for entry in entries} - {0}):
        own = [entry for entry in entries if entry.cluster == number]
        ended = next((entry.cluster_ended for entry in own if entry.cluster_ended), "")
        hours = sum(entry.took_s for entry in own) / 3600
        found.append(ClusterRow(number, len(own), sum(e.faults for e in own), hours, ended))
    return found


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
