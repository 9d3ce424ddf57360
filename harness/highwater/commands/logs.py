"""`highwater logs`: a node's log, where its threads are, or the controllers' state changes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.cluster.looking import why_gone
from highwater.cluster.names_up import nodes_up, runs_up
from highwater.cluster.partitions import parse_partition
from highwater.cluster.stacks import all_stacks, stacks_of
from highwater.cluster.topology import Topology
from highwater.cluster.traces import controllers_traces
from highwater.errors import HarnessError
from highwater.output import print_json, say
from highwater.report.state_changes import read_state_changes, select, to_text
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import CLOCK
from highwater_checker.run_folder.lines import read_traces
from highwater_core.events import TraceEvent
from highwater_core.ids import NodeId, TopicPartition

_OF_STATE_CHANGES = "With --state-changes: only "


def register(app: typer.Typer) -> None:
    app.command()(logs)


def logs(
    node: Annotated[
        str,
        typer.Argument(
            metavar="[NODE|RUN_FOLDER]",
            help="0, broker-0, 1000, controller-1000, zookeeper; with --state-changes the folder "
            "of a run, of either world, or nothing for the cluster that is up.",
            autocompletion=nodes_up,
        ),
    ] = "",
    run: Annotated[
        str,
        typer.Option(help="The run's id; needless if there is one.", autocompletion=runs_up),
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    tail: Annotated[int | None, typer.Option(help="Only the last lines.")] = None,
    stacks: Annotated[
        bool, typer.Option("--stacks", help="Where the node's threads and tasks are now.")
    ] = False,
    state_changes: Annotated[
        bool, typer.Option("--state-changes", help="What controllers did, a line a change.")
    ] = False,
    partition: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC-PARTITION", help=f"{_OF_STATE_CHANGES}lines about it."),
    ] = None,
    broker: Annotated[
        list[int] | None, typer.Option(help=f"{_OF_STATE_CHANGES}lines about that broker.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help=f"{_OF_STATE_CHANGES}as JSON.")] = False,
) -> None:
    """Print a node's log, all its incarnations, oldest first; most nodes write little or none.

    A node's events are in its trace: docker exec CONTAINER sh -c 'cat /var/lib/highwater/trace/*'.
    With --state-changes: each change of a partition's or replica's state, leader or ISR, from the
    controllers' traces, with the component, the epochs and the reason; failed changes too.
    With --stacks: the stacks of the node's threads and tasks, without NODE of all nodes. A node
    that is paused or down has none.
    """
    if stacks:
        if state_changes or follow or tail is not None or partition or broker or json:
            raise HarnessError("--stacks goes with NODE and --run alone")
        _print_stacks(Cluster.attach(run or None), node)
        return
    if state_changes:
        if follow:
            raise HarnessError("--follow is for a node's log")
        at = [parse_partition(words) for words in partition or ()]
        _print_state_changes(node, run, at, broker or [], tail, as_json=json)
        return
    if partition or broker or json:
        raise HarnessError("--partition, --broker and --json go with --state-changes")
    if not node:
        raise HarnessError("whose log? a node's name, or --stacks or --state-changes")
    _print_log(Cluster.attach(run or None), node, follow=follow, tail=tail)


def _print_log(cluster: Cluster, node: str, *, follow: bool, tail: int | None) -> None:
    node_id = find_node(cluster.topology, node)
    if cluster.status(node_id) == "gone":
        raise HarnessError(f"{node} has no container: {why_gone(cluster)}")
    if follow:
        for text in cluster.follow_logs(node_id):
            sys.stdout.write(text)
            sys.stdout.flush()
        return
    text = cluster.logs(node_id, tail=tail)
    sys.stdout.write(text)
    if not text:
        say(f"{node} has written nothing; what it did is in its trace")


def _print_stacks(cluster: Cluster, node: str) -> None:
    """Print the node's stacks, "" for all nodes'.

    Raises:
        HarnessError: there is no such node, or it tells no stacks.
    """
    if node:
        sys.stdout.write(stacks_of(cluster, find_node(cluster.topology, node)))
    else:
        sys.stdout.write(all_stacks(cluster))


def _print_state_changes(
    folder: str,
    run: str,
    partitions: list[TopicPartition],
    brokers: list[int],
    tail: int | None,
    *,
    as_json: bool,
) -> None:
    if folder and run:
        raise HarnessError("a run's folder or --run, not both")
    events, start_ns = _of_folder(Path(folder)) if folder else _of_cluster(run)
    lines = select(read_state_changes(events), partitions, brokers)
    if tail is not None:
        lines = lines[max(0, len(lines) - tail) :]
    if as_json:
        print_json(lines)
        return
    for line in lines:
        sys.stdout.write(to_text(line, start_ns) + "\n")
    if not lines:
        say("no controller has traced a change of that kind")


def _of_cluster(run: str) -> tuple[tuple[TraceEvent, ...], int | None]:
    """Return the running cluster's events, with times of day."""
    unread: list[str] = []
    events = controllers_traces(Cluster.attach(run or None), unread)
    _tell(unread)
    return events, None


def _of_folder(folder: Path) -> tuple[tuple[TraceEvent, ...], int | None]:
    """Return the run's events and its start, None where the folder does not have it."""
    if not (folder / names.TRACE).is_dir():
        raise HarnessError(f"{folder} is no folder of a run: it has no {names.TRACE}/")
    unread: list[str] = []
    events = read_traces(folder / names.TRACE, unread)
    _tell(unread)
    clock = CLOCK.read(folder)
    return events, None if clock is None else clock.start_wall_ns


def _tell(unread: list[str]) -> None:
    for what in unread:
        say(f"not read: {what}")


def find_node(topology: Topology, text: str) -> NodeId:
    """Return the node of that number or name.

    Raises:
        HarnessError: there is no such node; the message lists the nodes.
    """
    for spec in topology.nodes():
        if text in (str(spec.node_id), spec.name):
            return spec.node_id
    raise HarnessError(f"no node {text!r}; there are {', '.join(s.name for s in topology.nodes())}")
