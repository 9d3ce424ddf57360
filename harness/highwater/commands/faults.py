"""`highwater faults`: each kind of fault, its means and proof, and whether it works here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from highwater.faults.capabilities import Capabilities, Tried, probe, why_unsupported
from highwater.faults.kinds import KINDS
from highwater.faults.means import DOES
from highwater.output import RESULTS, print_json, say
from highwater_chaos import faults as f


@dataclass(frozen=True, slots=True)
class FaultListing:
    """One kind of fault; because: why it is unsupported here, "" when it is not."""

    fault: str
    supported: bool
    because: str
    mechanism: str
    proof: str
    ends: str


def register(app: typer.Typer) -> None:
    app.command("faults")(list_faults)


def list_faults(
    json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the faults that this machine can do to a cluster; each means is tried first."""
    capabilities = probe(say)
    listings = [listing_of(kind, capabilities) for kind in f.FAULTS]
    if json:
        means = [
            {
                "means": each.means,
                "what": DOES[each.means],
                "works": each.works,
                "why_not": each.why_not,
            }
            for each in capabilities.values()
        ]
        print_json({"means": means, "faults": listings})
        return
    RESULTS.print(_means_table(list(capabilities.values())))
    RESULTS.print(Text("\nfaults that are supported here", style="italic"))
    RESULTS.print(_faults_table([each for each in listings if each.supported]))
    RESULTS.print(Text("\nfaults that are not", style="italic"))
    for each in listings:
        if not each.supported:
            because = f": unsupported here, because {each.because}"
            RESULTS.print(Text.assemble((each.fault, "bold"), because), soft_wrap=True)


def listing_of(kind: type[f.Fault], capabilities: Capabilities) -> FaultListing:
    because, row = why_unsupported(kind, capabilities), KINDS[kind]
    return FaultListing(
        fault=f.fault_name(kind),
        supported=not because,
        because=because,
        mechanism=row.mechanism,
        proof=row.proof,
        ends=row.ends,
    )


def _means_table(tried: list[Tried]) -> Table:
    table = Table(title="means, as tried here", title_justify="left", box=None)
    for column in ("means", "what it is", "works"):
        table.add_column(column)
    for each in tried:
        style = "green" if each.works else "yellow"
        works = Text("yes" if each.works else f"no: {each.why_not}", style=style)
        table.add_row(each.means.value, DOES[each.means], works)
    return table


def _faults_table(listings: list[FaultListing]) -> Table:
    """Return each fault's texts below each other: they are too long for columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for each in listings:
        table.add_row(Text(each.fault, style="bold"), "done by", each.mechanism)
        table.add_row("", "proven by", each.proof)
        table.add_row("", "ends by itself", each.ends)
    return table
