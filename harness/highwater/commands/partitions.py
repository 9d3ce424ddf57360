"""`highwater reassign` moves a partition's replicas; `highwater elect` elects leaders."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from highwater.cluster.cluster import Cluster
from highwater.cluster.partitions import (
    await_reassigned,
    copied_records,
    elect_leaders,
    list_reassignments,
    parse_partition,
    reassign,
)
from highwater.cluster.throttles import is_throttled, lift_throttle, reassign_throttled
from highwater.durations import seconds
from highwater.output import PROGRESS, RESULTS, print_json, say
from highwater_core.admin_messages import ElectionType, OngoingReassignment
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition

Run = Annotated[str | None, typer.Option("--run", help="The run's id, if several are up.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]
Partitions = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC-PARTITION]...")]


def register(app: typer.Typer) -> None:
    app.command(name="reassign")(reassign_)
    app.command()(elect)


def reassign_(
    partition: Annotated[
        str | None, typer.Argument(metavar="[TOPIC-PARTITION]", help="None: show what moves.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="1,2,3", help="The brokers, preferred first.")
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="RATE", min=1, help="Bytes a second, on each broker."),
    ] = None,
    give_up: Annotated[bool, typer.Option("--give-up", help="Give the move up.")] = False,
    within: Annotated[
        float, typer.Option("--for", callback=seconds, help="How many seconds to wait.")
    ] = 120.0,
    run: Run = None,
    json: AsJson = False,
) -> None:
    """Move a partition's replicas to other brokers, and wait until the move is over.

    Without a partition, or without --to and --give-up, it lists the moves that go on. After the
    move throttles are removed, also those of an earlier command or of Kafka's tool.
    """
    if throttle is not None and to is None:
        raise typer.BadParameter("--throttle goes with --to")
    if to is not None and give_up:
        raise typer.BadParameter("--to and --give-up exclude each other")
    at = None if partition is None else parse_partition(partition)
    is_change = to is not None or give_up
    if is_change and at is None:
        raise typer.BadParameter("TOPIC-PARTITION says what --to and --give-up are about")
    cluster = Cluster.attach(run)
    if at is None or not is_change:
        _show(list_reassignments(cluster, None if at is None else [at]), as_json=json)
        return
    target = None if to is None else parse_brokers(to)
    if throttle is not None and target is not None:
        reassign_throttled(cluster, at, target, throttle)
    else:
        reassign(cluster, at, target)
    _show_progress(cluster, at, within)
    if throttle is not None or is_throttled(cluster, at):
        lift_throttle(cluster, at)
    if json:
        print_json({"topic": at.topic, "partition": at.partition, "error": ErrorCode.NONE.name})
    else:
        say(f"{at}: done")


def _show_progress(cluster: Cluster, at: TopicPartition, within_s: float) -> None:
    """Wait until the move is over; the bar shows the copied records."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[records]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=PROGRESS) as progress:
        task = progress.add_task(f"{at}: asked for", total=None, records="")

        def look(ongoing: OngoingReassignment | None) -> None:
            if ongoing is None:
                progress.update(task, description=f"{at}: moved", total=1, completed=1)
                return
            done, total = copied_records(cluster, at, ongoing.adding)
            words = f"{at}: {_words(ongoing)}"
            records = f"{done:,} of {total:,} records" if total else ""
            progress.update(
                task, description=words, total=total or None, completed=done, records=records
            )

        await_reassigned(cluster, at, within_s, look)


def elect(
    partitions: Partitions = None,
    preferred: Annotated[
        bool, typer.Option("--preferred", help="The first replica, if it is in sync.")
    ] = False,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Any live one, where nobody leads: records may go.")
    ] = False,
    run: Run = None,
    json: AsJson = False,
) -> None:
    """Elect leaders of the named partitions, or of all.

    The exit code is 1 where a needed election found no leader.
    """
    if preferred == unclean:
        raise typer.BadParameter("one of --preferred and --unclean says which election is meant")
    named = None if not partitions else [parse_partition(each) for each in partitions]
    election_type = ElectionType.PREFERRED if preferred else ElectionType.UNCLEAN
    results = elect_leaders(Cluster.attach(run), named, election_type)
    rows = [
        {
            "topic": each.topic_partition.topic,
            "partition": each.topic_partition.partition,
            "error": each.error.name,
            "message": each.message,
        }
        for each in results
    ]
    if json:
        print_json(rows)
    elif not rows:
        say("no election is needed")
    else:
        table = Table("partition", "outcome", "", box=None, padding=(0, 1, 0, 0))
        for row in rows:
            outcome = "elected" if row["error"] == ErrorCode.NONE.name else str(row["error"])
            at = f"{row['topic']}-{row['partition']}"
            table.add_row(Text(at), outcome, Text(str(row["message"] or "")))
        RESULTS.print(table)
    harmless = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    if any(each.error not in harmless for each in results):
        raise typer.Exit(1)


def parse_brokers(words: str) -> list[int]:
    """Return the ids in `1,2,3`, in their order."""
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{words}: broker ids are meant, such as 1,2,3") from None


def _words(ongoing: OngoingReassignment) -> str:
    return f"{list(ongoing.adding)} come, {list(ongoing.removing)} go"


def _show(ongoing: tuple[OngoingReassignment, ...], *, as_json: bool) -> None:
    rows = [
        {
            "topic": each.topic_partition.topic,
            "partition": each.topic_partition.partition,
            "replicas": list(each.replicas),
            "adding": list(each.adding),
            "removing": list(each.removing),
        }
        for each in ongoing
    ]
    if as_json:
        print_json(rows)
        return
    if not rows:
        say("no replica is being moved")
        return
    table = Table("partition", "replicas", "come", "go", box=None, padding=(0, 1, 0, 0))
    for each in ongoing:
        listed = (each.replicas, each.adding, each.removing)
        at = Text(str(each.topic_partition))
        table.add_row(at, *(", ".join(map(str, ids)) for ids in listed))
    RESULTS.print(table)
