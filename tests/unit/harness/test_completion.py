"""What a shell offers at a tab, and that it need not load what it does not name."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer.main
from docker.errors import DockerException

from highwater.cli import make_app, make_names_app
from highwater.cluster import names_up
from highwater.typed_words import typed_words

ASKED_BY_BASH = {"_HIGHWATER_COMPLETE": "complete_bash"}
ASKED_BY_ZSH = {"_HIGHWATER_COMPLETE": "complete_zsh"}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, ["up", "--json"]),
        ({"_HIGHWATER_COMPLETE": ""}, ["up", "--json"]),
        ({"_HIGHWATER_COMPLETE": "source_bash"}, []),
        (ASKED_BY_BASH | {"COMP_WORDS": "highwater\nu", "COMP_CWORD": "1"}, []),
        (ASKED_BY_BASH | {"COMP_WORDS": "highwater\nup\n", "COMP_CWORD": "2"}, ["up"]),
        (ASKED_BY_BASH | {"COMP_WORDS": "highwater\nup", "COMP_CWORD": "?"}, []),
        (ASKED_BY_ZSH | {"_TYPER_COMPLETE_ARGS": "highwater"}, []),
        (ASKED_BY_ZSH | {"_TYPER_COMPLETE_ARGS": "highwater u"}, []),
        (ASKED_BY_ZSH | {"_TYPER_COMPLETE_ARGS": "highwater up "}, ["up"]),
        (ASKED_BY_ZSH | {"_TYPER_COMPLETE_ARGS": "highwater up --j"}, ["up"]),
    ],
)
def test_words_that_are_still_being_typed_name_no_command(
    environment: dict[str, str], words: list[str]
) -> None:
    assert typed_words(["highwater", "up", "--json"], environment) == words


def test_every_command_is_listed_with_the_first_sentence_of_its_help() -> None:
    def helps(app: typer.Typer) -> dict[str, str]:
        below: dict[str, Any] = getattr(typer.main.get_command(app), "commands")  # noqa: B009
        return {name: command.get_short_help_str(limit=200) for name, command in below.items()}

    assert helps(make_names_app()) == helps(make_app())


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["--version"], {}, f"highwater {metadata.version('highwater')}"),
        ([], {}, "Kill the leader and the active controller"),
        (["--help"], {}, "Kill the leader and the active controller"),
        (
            [],
            ASKED_BY_BASH | {"COMP_WORDS": "highwater\nre", "COMP_CWORD": "1"},
            "reassign\nreport\nreproduce",
        ),
    ],
    ids=["version", "nothing", "help", "completing"],
)
def test_no_command_is_loaded_where_none_is_named(
    arguments: list[str], environment: dict[str, str], says: str
) -> None:
    done = run([sys.executable, "-X", "importtime", "-c", CALL, *arguments], environment)
    assert [line for line in done.stderr.splitlines() if "highwater.commands." in line] == []
    assert says in done.stdout


CALL = "import sys; from highwater.cli import main; sys.argv[0] = 'highwater'; main()"


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_bash_offers_the_values_of_an_option(tmp_path: Path) -> None:
    """As a user's shell does: the script is evaluated, then its function is called at a tab."""
    program = tmp_path / "highwater"
    program.write_text(f"#!{sys.executable}\n{CALL}\n")
    program.chmod(0o755)
    script = (
        'eval "$(_HIGHWATER_COMPLETE=source_bash highwater)"\n'
        "COMP_WORDS=(highwater down --al); COMP_CWORD=2\n"
        "complete -p highwater; _highwater_completion highwater; echo ${COMPREPLY[*]}\n"
    )
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = run(["bash", "--norc", "-c", script], path)
    assert done.stdout == ("complete -o default -F _highwater_completion highwater\n--all\n"), (
        done.stderr
    )


class FakeEngine:
    """Has the containers of two runs."""

    CONTAINERS = (
        ("mine", "broker-0"),
        ("mine", "zookeeper"),
        ("mine-too", "broker-0"),
        ("mine-too", "controller-1000"),
    )

    def __init__(self) -> None:
        self.api = self

    def containers(self, **_: object) -> list[dict[str, object]]:
        return [
            {"Labels": {names_up.labels.RUN: run}, "Names": [f"/highwater-{run}-{node}"]}
            for run, node in self.CONTAINERS
        ]

    def close(self) -> None:
        pass


def test_runs_and_nodes_that_are_up_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_up.docker, "from_env", lambda timeout: FakeEngine())
    assert names_up.runs_up("") == ["mine", "mine-too"]
    assert names_up.runs_up("mine-") == ["mine-too"]
    assert names_up.nodes_up("") == ["broker-0", "controller-1000", "zookeeper"]
    assert names_up.nodes_up("bro") == ["broker-0"]


def test_without_an_engine_nothing_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(timeout: int) -> FakeEngine:
        raise DockerException("no engine")

    monkeypatch.setattr(names_up.docker, "from_env", fails)
    assert names_up.nodes_up("") == []
