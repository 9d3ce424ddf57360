"""`highwater configs`: shows and changes configurations of a topic, a broker or all brokers."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from highwater.cluster.cluster import Cluster
from highwater.cluster.configs import alter_configs, describe_configs
from highwater.output import RESULTS, print_json, say
from highwater_core.admin_messages import ConfigEntity
from highwater_core.config_layers import EVERY_BROKER, ConfigOwner, ConfigSource
from highwater_wire.kafka.config_messages import ConfigAlteration, ConfigEntry, ConfigOperationType

Topic = Annotated[str | None, typer.Option("--topic", help="Of this topic.")]
Broker = Annotated[int | None, typer.Option("--broker", help="Of this broker.")]
Brokers = Annotated[bool, typer.Option("--brokers", help="Of all brokers.")]
Run = Annotated[str | None, typer.Option("--run", help="The run's id, if several are up.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Change nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print what is in force as JSON.")]

_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "its start",
    ConfigSource.DEFAULT_CONFIG: "default",
}


def register(app: typer.Typer) -> None:
    configs = typer.Typer(help="Show and change configurations while the cluster runs.")
    configs.command()(describe)
    configs.command(name="set")(set_)
    configs.command()(delete)
    app.add_typer(configs, name="configs")


def describe(
    topic: Topic = None,
    broker: Broker = None,
    brokers: Brokers = False,
    run: Run = None,
    json: AsJson = False,
) -> None:
    """Show the configurations in force, and where each was set."""
    entries = describe_configs(Cluster.attach(run), _owner(topic, broker, brokers))
    if json:
        print_json([{**_row(each), "synonyms": _synonyms(each)} for each in entries])
        return
    table = Table("name", "value", "set by", "without that", box=None, padding=(0, 1, 0, 0))
    for each in entries:
        row = _row(each)
        without = ", ".join(f"{text} ({where})" for text, where in _synonyms(each)[1:])
        table.add_row(*map(Text, (row["name"], row["value"], row["source"], without)))
    RESULTS.print(table)


def set_(
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    topic: Topic = None,
    broker: Broker = None,
    brokers: Brokers = False,
    run: Run = None,
    validate_only: ValidateOnly = False,
) -> None:
    """Set configurations; the others stay as they are."""
    odd = [pair for pair in pairs if "=" not in pair]
    if odd:
        raise typer.BadParameter(f"{odd[0]}: NAME=VALUE is meant")
    changes = (pair.split("=", 1) for pair in pairs)
    alterations = tuple(
        ConfigAlteration(name, ConfigOperationType.SET, text) for name, text in changes
    )
    _alter(_owner(topic, broker, brokers), run, alterations, validate_only=validate_only)


def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    topic: Topic = None,
    broker: Broker = None,
    brokers: Brokers = False,
    run: Run = None,
    validate_only: ValidateOnly = False,
) -> None:
    """Delete configurations: a value that is set elsewhere, or the default, applies again."""
    alterations = tuple(ConfigAlteration(name, ConfigOperationType.DELETE, None) for name in names)
    _alter(_owner(topic, broker, brokers), run, alterations, validate_only=validate_only)


def _alter(
    owner: ConfigOwner,
    run: str | None,
    alterations: tuple[ConfigAlteration, ...],
    *,
    validate_only: bool,
) -> None:
    alter_configs(Cluster.attach(run), owner, alterations, validate_only=validate_only)
    say("it could be altered so" if validate_only else "altered")


def _owner(topic: str | None, broker: int | None, brokers: bool) -> ConfigOwner:
    if (topic is not None) + (broker is not None) + brokers != 1:
        raise typer.BadParameter("one of --topic, --broker and --brokers says whose is meant")
    if topic is not None:
        return ConfigOwner(ConfigEntity.TOPIC, topic)
    return EVERY_BROKER if brokers else ConfigOwner(ConfigEntity.BROKER, str(broker))


def _row(entry: ConfigEntry) -> dict[str, str]:
    return {
        "name": entry.name,
        "value": entry.value or "",
        "source": _SOURCES[ConfigSource(entry.source)],
    }


def _synonyms(entry: ConfigEntry) -> list[tuple[str, str]]:
    """Return the values, and where each was set; the first is in force."""
    return [(each.value or "", _SOURCES[ConfigSource(each.source)]) for each in entry.synonyms]
