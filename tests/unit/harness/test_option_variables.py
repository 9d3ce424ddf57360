"""Options are read from environment variables, and no variable of another's is taken for one."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer.main

from highwater.cli import make_app
from highwater.option_variables import options_below, read_variables
from highwater.project import project_root
from highwater_broker.settings import BrokerSettings
from highwater_controller.settings import ControllerSettings

READ = ("Makefile", ".ci", "compose", "scripts", "tests", "harness/highwater")
SUFFIXES = {"", ".py", ".yaml", ".yml"}
OURS = {"HIGHWATER_UP_BROKERS"}
"""Options' variables that these files name."""


@pytest.fixture(scope="module")
def variables() -> list[str]:
    command = typer.main.get_command(make_app())
    read_variables(command, {})
    return [option.envvar for _, option in options_below(command)]


def test_each_option_has_a_variable_of_its_own(variables: list[str]) -> None:
    assert "HIGHWATER_UP_BROKERS" in variables
    assert "HIGHWATER_SIM_RUN_SCHEDULES" in variables
    assert "HIGHWATER_SHUTDOWN_BROKER_FOR" in variables, "the option's name, not the parameter's"
    assert "HIGHWATER_LOGS_FOLLOW" in variables, "the long name"
    assert [name for name, count in Counter(variables).items() if count > 1] == []


def test_no_variable_means_something_else_already(variables: list[str]) -> None:
    taken = {
        f"HIGHWATER_{field.name.upper()}"
        for settings in (BrokerSettings, ControllerSettings)
        for field in fields(settings)
    }
    for name in READ:
        place = project_root() / name
        for path in place.rglob("*") if place.is_dir() else [place]:
            if path.is_file() and path.suffix in SUFFIXES and path.name != Path(__file__).name:
                taken |= set(re.findall(r"\bHIGHWATER_[A-Z0-9_]*[A-Z0-9]", path.read_text()))
    assert "HIGHWATER_REQUIRE_DOCKER" in taken
    assert "HIGHWATER_REPLICA_LAG_TIME_MAX_MS" in taken
    assert (taken - OURS).intersection(variables) == set()


Values = tuple[int, list[str] | None, bool]


@pytest.mark.parametrize(
    ("environment", "arguments", "values"),
    [
        ({}, [], (1, None, False)),
        ({"FOR": "2"}, [], (2, None, False)),
        ({"FOR": "2"}, ["--for", "3"], (3, None, False)),
        ({"FOR": ""}, [], (1, None, False)),
        ({"NAMED": "a b"}, [], (1, ["a", "b"], False)),
        ({"JSON": "1"}, [], (1, None, True)),
        ({"JSON": "false"}, [], (1, None, False)),
        ({"AS_JSON": "1", "WITHIN": "2"}, [], (1, None, False)),
    ],
)
def test_the_command_line_wins_over_a_variable_and_that_over_the_default(
    environment: dict[str, str],
    arguments: list[str],
    values: Values,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"HIGHWATER_OFTEN_RUN_{name}", value)
    assert small_command()(["often-run", *arguments], standalone_mode=False) == values


def test_a_value_that_does_not_fit_is_told_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIGHWATER_OFTEN_RUN_FOR", "long")
    with pytest.raises(SystemExit) as ended:
        small_command()(["often-run"])
    assert ended.value.code == 2
    assert "HIGHWATER_OFTEN_RUN_FOR" in capsys.readouterr().err
    monkeypatch.delenv("HIGHWATER_OFTEN_RUN_FOR")
    with pytest.raises(SystemExit):
        small_command()(["often-run", "--help"])
    assert "HIGHWATER_" not in capsys.readouterr().out


def small_command() -> Any:
    """Return a command line whose one command returns its options' values."""
    app = typer.Typer()

    @app.command("often-run")
    def often_run(
        within: Annotated[int, typer.Option("--for", "-f")] = 1,
        named: Annotated[list[str] | None, typer.Option()] = None,
        as_json: Annotated[bool, typer.Option("--json")] = False,
    ) -> Values:
        return within, named, as_json

    app.callback()(lambda: None)
    command = typer.main.get_command(app)
    read_variables(command, os.environ)
    return command
