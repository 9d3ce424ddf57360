"""The page of a soak: verdicts over time, findings with the command that shows each again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from jinja2 import Environment, PackageLoader

from highwater.soak.draws import SoakSettings
from highwater.soak.folder import SoakFolder, write_whole
from highwater.soak.hooks import command_again
from highwater.soak.ledger import Entry, counts_of, verdict_of
from highwater_chaos.words import counted
from highwater_checker.verdict import Outcome

WIDTH, HEIGHT = 920, 60
"""Of the strip of plans, in pixels."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A plan in the strip: where it begins, its width and height, its verdict and its words."""

    x: float
    width: float
    outcome: str
    words: str


@dataclass(frozen=True, slots=True)
class Share:
    """How many plans of one kind had each verdict."""

    kind: str
    passed: int
    failed: int
    unknown: int


def write_page(folder: SoakFolder, settings: SoakSettings, entries: Sequence[Entry]) -> None:
    """Write soak.html, one file without links to others."""
    environment = Environment(loader=PackageLoader("highwater.soak"), autoescape=True)
    findings = [entry for entry in entries if entry.outcome is Outcome.FAIL]
    page = environment.get_template("soak.html.j2").render(
        name=folder.path.name,
        settings=settings,
        counts=counts_of(entries),
        verdict=verdict_of(entries).value,
        hours=sum(entry.took_s for entry in entries) / 3600,
        faults=sum(entry.faults for entry in entries),
        acknowledged=sum(entry.acknowledged for entry in entries),
        bars=bars_of(entries),
        width=WIDTH,
        height=HEIGHT,
        findings=[(entry, command_again(folder.path, entry)) for entry in findings],
        shares=list(shares_of(entries)),
        unknown=why_unknown(entries),
    )
    write_whole(folder.page, page.encode())


def bars_of(entries: Sequence[Entry]) -> list[Bar]:
    """Return the plans side by side, each as wide as it took."""
    whole_s = sum(entry.took_s for entry in entries) or 1
    widths = [WIDTH * entry.took_s / whole_s for entry in entries]
    starts = accumulate(widths, initial=0.0)
    return [
        Bar(
            round(x, 2),
            round(width, 2),
            entry.outcome.value,
            f"plan {entry.number}: {entry.outcome.value}, {entry.preset.value}, "
            f"{entry.client.value}, load {entry.load:g}",
        )
        for x, width, entry in zip(starts, widths, entries, strict=False)
    ]


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
