"""The `highwater` command. Each command is a module of highwater.commands with register(app).

Progress goes to stderr, results to stdout. Exit codes: 0 done, 1 a run's verdict is fail,
2 it is unknown, or the command failed (the message says what to do; a traceback is our bug),
130 interrupted.
"""

from __future__ import annotations

import signal
import sys
import traceback
from importlib import metadata
from types import FrameType
from typing import Annotated

import typer

from highwater import commands
from highwater.errors import INTERRUPTED_EXIT_CODE, HarnessError
from highwater_core.check import BugFound

CANNOT_EXIT_CODE = 2


def make_app(wanted: str = "") -> typer.Typer:
    """Return the application with the named command, or without a name with all commands.

    So `highwater down` does not wait for the imports of `highwater demo`.
    """
    app = typer.Typer(
        name="highwater",
        help="Clusters for Kafka-style replication in containers: bring up, break, prove.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)  # without one, a single command would lose its name
    commands.add_commands(app, commands.__name__, commands.__path__, wanted)
    return app


def main() -> None:
    """Run the command line and exit with its code."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        make_app(sys.argv[1] if len(sys.argv) > 1 else "")()
    except HarnessError as error:
        sys.stderr.write(f"highwater: {error}\n")
        sys.exit(CANNOT_EXIT_CODE)
    except SystemExit as end:
        if end.code == INTERRUPTED_EXIT_CODE:  # typer turns a KeyboardInterrupt into this
            sys.stderr.write("highwater: interrupted\n")
        raise
    except KeyboardInterrupt:
        sys.stderr.write("highwater: interrupted\n")
        sys.exit(INTERRUPTED_EXIT_CODE)
    except (Exception, BugFound):  # noqa: BLE001 - shown whole; Python's own 1 would read as a failed verdict
        traceback.print_exc()
        sys.exit(CANNOT_EXIT_CODE)


def _leave(number: int, frame: FrameType | None) -> None:
    """SIGTERM unwinds the stack, so that a cluster that was brought up is removed."""
    sys.exit(128 + number)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"highwater {metadata.version('highwater')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version, and exit."
        ),
    ] = False,
) -> None:
    """Take the options before the command's name."""
