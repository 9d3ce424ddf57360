"""`highwater topics`: lists, describes, creates, expands and deletes topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from highwater.cluster.cluster import Cluster
from highwater.cluster.configs import describe_configs
from highwater.cluster.log_folders import Described, described_log_folders, folder_of
from highwater.cluster.topics import (
    TopicRefused,
    delete_topic,
    describe_topic,
    expand_topic,
    list_topics,
    new_topic,
    request_topic,
)
from highwater.commands.partitions import parse_brokers
from highwater.output import RESULTS, print_json, say
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import ConfigOwner, ConfigSource
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_LEADER, TopicPartition
from highwater_wire.kafka.messages import MetadataPartition, MetadataTopic

Name = Annotated[str, typer.Argument(metavar="TOPIC")]
Run = Annotated[str | None, typer.Option("--run", help="The run's id, if several are up.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def register(app: typer.Typer) -> None:
    topics = typer.Typer(help="List, describe, create, expand and delete topics.")
    topics.command(name="list")(list_)
    for command in (describe, create, expand, delete):
        topics.command()(command)
    app.add_typer(topics, name="topics")


def list_(run: Run = None, json: AsJson = False) -> None:
    """List topics, with their numbers of partitions without a leader or a replica."""
    rows = [summary(topic) for topic in list_topics(Cluster.attach(run))]
    if json:
        print_json(rows)
        return
    if not rows:
        say("there is no topic")
        return
    columns = ("topic", "partitions", "replicas", "without leader", "under-replicated")
    _print(columns, [[str(cell) for cell in row.values()] for row in rows])


def describe(topic: Name, run: Run = None, json: AsJson = False) -> None:
    """Show each partition's leader, replicas and ISR, and the topic's configurations.

    Where brokers have several log folders, also the folder of each replica.
    """
    cluster = Cluster.attach(run)
    partitions = _partitions(describe_topic(cluster, topic))
    rows = [partition_row(each) for each in partitions]
    columns = ["partition", "leader", "leader_epoch", "replicas", "ISR", "offline"]
    if len(cluster.topology.log_folders) > 1:
        columns.append("log folders")
        described = described_log_folders(cluster)
        for row, each in zip(rows, partitions, strict=True):
            row["log_folders"] = folder_cells(described, topic, each)
    entries = describe_configs(cluster, ConfigOwner(ConfigEntity.TOPIC, topic))
    source = int(ConfigSource.DYNAMIC_TOPIC_CONFIG)
    config = {each.name: each.value for each in entries if each.source == source}
    if json:
        print_json({"topic": topic, "partitions": rows, "config": config})
        return
    _print(tuple(columns), [[_cell(cell) for cell in row.values()] for row in rows])
    for name, value in config.items():
        RESULTS.print(Text(f"{name}={value}"))


def create(
    topic: Name,
    partitions: Annotated[int, typer.Option("--partitions", help="How many.")] = 1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", help="-1: the brokers' default.")
    ] = -1,
    replicas: Annotated[
        list[str] | None,
        typer.Option("--replicas", metavar="1,2,3", help="Of each partition, in their order."),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="Any number.")
    ] = None,
    run: Run = None,
) -> None:
    """Create a topic; when the command ends every partition has a leader."""
    odd = [pair for pair in config or () if "=" not in pair]
    if odd:
        raise typer.BadParameter(f"{odd[0]}: NAME=VALUE is meant")
    assigned = [parse_brokers(words) for words in replicas or ()]
    pairs = dict(pair.split("=", 1) for pair in config or ())
    new = new_topic(topic, partitions, replication_factor, assigned, pairs)
    request_topic(Cluster.attach(run), new)
    say(f"{topic}: created")


def expand(
    topic: Name,
    to: Annotated[int, typer.Option("--to", help="How many partitions it is to have in all.")],
    replicas: Annotated[
        list[str] | None,
        typer.Option("--replicas", metavar="1,2,3", help="Of each partition that is added."),
    ] = None,
    run: Run = None,
) -> None:
    """Add partitions to a topic; when the command ends they have leaders."""
    assigned = None if replicas is None else [parse_brokers(words) for words in replicas]
    expand_topic(Cluster.attach(run), topic, to, assigned)
    say(f"{topic}: {to} partitions")


def delete(topic: Name, run: Run = None) -> None:
    """Delete a topic; when the command ends the broker that was asked no longer lists it."""
    error = delete_topic(Cluster.attach(run), topic)
    if error is not ErrorCode.NONE:
        late = "it is under way, or waits for a broker that is away"
        raise TopicRefused(topic, error, late if error is ErrorCode.REQUEST_TIMED_OUT else None)
    say(f"{topic}: deleted")


def summary(topic: MetadataTopic) -> dict[str, Any]:
    """Return a row of `topics list`; replicas is the greatest count of a partition."""
    partitions = topic.partitions
    return {
        "topic": topic.name,
        "partitions": len(partitions),
        "replicas": max((len(each.replicas) for each in partitions), default=0),
        "without_leader": sum(each.leader == NO_LEADER for each in partitions),
        "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions),
    }


def partition_row(partition: MetadataPartition) -> dict[str, Any]:
    """Return a row of `topics describe`; leader None where there is none."""
    return {
        "partition": partition.partition,
        "leader": None if partition.leader == NO_LEADER else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "offline": list(partition.offline_replicas),
    }


def folder_cells(described: Described, topic: str, partition: MetadataPartition) -> list[str]:
    """Return the log folder of each replica, in the order of the replicas."""
    at = TopicPartition(topic, partition.partition)
    return [folder_of(described, broker, at) for broker in partition.replicas]


def _partitions(topic: MetadataTopic) -> list[MetadataPartition]:
    return sorted(topic.partitions, key=lambda each: each.partition)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "none" if value is None else str(value)


def _print(columns: tuple[str, ...], rows: list[list[str]]) -> None:
    table = Table(*columns, box=None, padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*map(Text, row))
    RESULTS.print(table)
