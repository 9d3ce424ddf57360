"""A view in a terminal of 80 columns."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from highwater.output import STYLES
from highwater.watching.view import View

MIB = 2**20


def screen_of(view: View) -> RenderableType:
    """Return the soak's progress, nodes, partitions, faults that act, and the last plans."""
    parts: list[RenderableType] = [*_soak_lines(view), *_run_lines(view)]
    if view.partitions:
        parts.append(_partitions(view))
    parts += [Text(f"acts: {fault}", style="bold") for fault in view.faults]
    for finding in view.findings:
        broken = ", ".join(finding.invariants)
        parts.append(Text(f"plan {finding.plan} violated {broken}:", style="bold red"))
        parts.append(Text(f"  {finding.command}", overflow="fold"))
    if view.last:
        parts.append(_plans(view))
    return Group(*parts)


def _soak_lines(view: View) -> list[Text]:
    soak = view.soak
    if soak is None:
        return []
    done = ", ".join(f"{count} {outcome.value}" for outcome, count in soak.done.items())
    line = f"{soak.doing.value}: {soak.ran_s / 3600:.2f} of {soak.wanted_s / 3600:.2f} h; {done}"
    lines = [Text(line + (f"; {soak.why}" if soak.why else ""), style="bold")]
    if view.is_abandoned:
        words = f"no process runs it: it was killed after {soak.updated}; its command goes on"
        lines.append(Text(words, style="bold red"))
    return [*lines, *(Text(f"leak: {each}", style="bold red") for each in soak.leaks)]


def _run_lines(view: View) -> list[Text]:
    silent = [node.name for node in view.nodes if node.incarnation < 0]
    active = next((node.name for node in view.nodes if node.is_active), "")
    memory = sum(node.resident_bytes for node in view.nodes) / MIB
    lines = [
        Text(f"{view.run}, {view.time_s:.1f} s: {view.records_per_s:g} records/s"),
        Text(f"active: {active or 'none'}; memory of all nodes: {memory:.0f} MiB"),
    ]
    if silent:
        lines.append(Text(f"not answering: {', '.join(silent)}", style="bold red"))
    return lines


def _partitions(view: View) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in ("partition", "leader", "epoch", "ISR", "HW / LEO by broker"):
        table.add_column(name)
    for each in view.partitions:
        offsets = "  ".join(
            f"{replica.broker}: {replica.high_watermark}/{replica.log_end_offset}"
            for replica in each.replicas
        )
        leader = "none" if each.leader < 0 else str(each.leader)
        isr = ",".join(map(str, each.isr))
        table.add_row(
            each.name, leader, str(each.leader_epoch), isr, offsets,
            style="red" if each.leader < 0 else "",
        )  # fmt: skip
    return table


def _plans(view: View) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0))
    for name in ("plan", "verdict", "took", "preset", "clients", "faults", "load"):
        table.add_column(name)
    for entry in view.last:
        table.add_row(
            str(entry.number),
            Text(entry.outcome.value, style=STYLES[entry.outcome]),
            f"{entry.took_s:.0f} s",
            entry.preset.value,
            entry.client.value,
            str(entry.faults),
            f"{entry.load:g}",
        )
    return table
