"""`highwater shutdown-broker ID`: a controlled shutdown, and the leaders afterwards."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from highwater.cluster.cluster import ANSWER_WITHIN_S, Cluster
from highwater.cluster.settling import look_at
from highwater.cluster.topology import NodeKind
from highwater.commands.logs import find_node
from highwater.durations import seconds
from highwater.errors import HarnessError
from highwater.output import RESULTS, print_json, say
from highwater.waiting import NeverHappened, eventually
from highwater_checker.looks import Look, leaderships, replicas_of
from highwater_core.ids import TopicPartition

LEAD_WITHIN_S = 5.0
WITHIN_S = 60
"""Longer than a broker asks the controller for its shutdown, by its settings."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A partition that the broker led; leader None: it has no leader now."""

    partition: TopicPartition
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]


def register(app: typer.Typer) -> None:
    app.command(name="shutdown-broker")(shutdown_broker)


def shutdown_broker(
    broker: Annotated[str, typer.Argument(metavar="ID", help="1, broker-1.")],
    within: Annotated[
        int, typer.Option("--for", callback=seconds, help="After so many seconds it is killed.")
    ] = WITHIN_S,
    run: Annotated[str | None, typer.Option("--run", help="The run, if several are up.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what moved as JSON.")] = False,
) -> None:
    """Stop a broker once others lead its partitions; show the new leaders.

    The exit code is 1 where a partition has no leader now, or the broker did not stop by itself.
    """
    cluster = Cluster.attach(run)
    node = find_node(cluster.topology, broker)
    if cluster.topology.node(node).kind is not NodeKind.BROKER:
        raise HarnessError(f"{broker} is no broker")
    if cluster.status(node) != "running":
        raise HarnessError(f"{broker} is not running: {cluster.status(node)}")
    before = look_at(cluster, timeout_s=ANSWER_WITHIN_S)
    if before.nodes[node] is None:
        raise HarnessError(f"{broker} does not answer: what it leads is not known; it still runs")
    say(f"broker {node} is asked to stop")
    exit_code = cluster.terminate(node, within_s=within)
    moved = _moved(cluster, before, node)
    if json:
        print_json({"broker": node, "exit_code": exit_code, "moved": moved})
    else:
        _print(moved)
        say(f"broker {node} stopped with exit code {exit_code}")
        say(f"'docker start {cluster.container_name(node)}' starts it again")
    if exit_code != 0 or any(each.leader is None for each in moved):
        raise typer.Exit(1)


def _moved(cluster: Cluster, before: Look, broker: int) -> list[Moved]:
    """Look until others lead all that the broker led, LEAD_WITHIN_S at most."""
    moved: list[Moved] = []

    def all_are_led() -> bool:
        moved[:] = moved_from(before, look_at(cluster), broker)
        return all(each.leader is not None for each in moved)

    with suppress(NeverHappened):
        eventually(all_are_led, within=LEAD_WITHIN_S)
    return moved


def moved_from(before: Look, after: Look, broker: int) -> list[Moved]:
    """Return the partitions that the broker led in the first look, with the second look's leaders.

    Where the ISR was the broker alone there is no leader. A partition whose topic is gone is left
    out.
    """
    led_now = leaderships(after)
    moved = []
    for at, led in leaderships(before).items():
        if led.leader != broker:
            continue
        now = led_now.get(at)
        if now is not None:
            moved.append(Moved(at, now.leader, now.leader_epoch, now.isr))
        elif replicas_of(after, at) or len(replicas_of(before, at)) == 1:
            moved.append(Moved(at, None, led.leader_epoch, led.isr))
    return moved


def _print(moved: list[Moved]) -> None:
    if not moved:
        say("it led nothing")
        return
    table = Table("partition", "leader", "leader_epoch", "ISR", box=None, padding=(0, 1, 0, 0))
    for each in moved:
        leader = "none" if each.leader is None else str(each.leader)
        isr = ", ".join(map(str, each.isr))
        table.add_row(Text(str(each.partition)), leader, str(each.leader_epoch), isr)
    RESULTS.print(table)
