"""The `highwater` command. Each command is a module of highwater.commands with register(app).

Progress goes to stderr, results to stdout. Exit codes: 0 done, 1 a run's verdict is fail,
2 it is unknown, or the command failed (the message says what to do; a traceback is our bug),
130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from errno import EACCES, EDQUOT, EIO, ENAMETOOLONG, ENOSPC, ENOTDIR, EPERM, EROFS
from types import FrameType
from typing import Annotated, Any

import typer
import typer.main

from highwater import commands
from highwater.checkout import version_here
from highwater.errors import INTERRUPTED_EXIT_CODE, HarnessError
from highwater.option_variables import read_variables
from highwater.typed_words import typed_words
from highwater_core.check import BugFound

CANNOT_EXIT_CODE = 2


def make_app(wanted: str = "") -> typer.Typer:
    """Return the application with the named command, or without a name with all commands.

    So `highwater down` does not wait for the imports of `highwater demo`.
    """
    app = _app_without_commands()
    commands.add_commands(app, commands.__name__, commands.__path__, wanted)
    return app


_OF_THE_DISK = (ENOSPC, EDQUOT, EROFS, EACCES, EPERM, ENAMETOOLONG, ENOTDIR, EIO)
"""Errors that are the machine's, and no bug of ours."""


def _app_without_commands() -> typer.Typer:
    app = typer.Typer(
        name="highwater",
        help="Clusters for Kafka-style replication in containers: bring up, break, prove.\n\n"
        "Each option has an environment variable: HIGHWATER_UP_BROKERS=5 is `highwater up "
        "--brokers 5`.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)  # without one, a single command would lose its name
    return app


def make_names_app() -> typer.Typer:
    """Return the application that lists all commands: no command's imports are waited for."""
    app = _app_without_commands()
    commands.add_names(app)
    return app


def make_command(words: Sequence[str]) -> Any:
    """Return the command line with what these words need, and with variables for options."""
    wanted = next((word for word in words if not word.startswith("-")), "")
    app = make_app(wanted) if wanted in commands.command_names() else make_names_app()
    command = typer.main.get_command(app)
    read_variables(command, os.environ)
    return command


def main() -> None:
    """Run the command line and exit with its code."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        make_command(typed_words(sys.argv, os.environ))()
    except HarnessError as error:
        sys.stderr.write(f"highwater: {error}\n")
        sys.exit(CANNOT_EXIT_CODE)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click's and rich's 1 is a failed verdict
            sys.exit(128 + signal.SIGPIPE)
        if end.code == INTERRUPTED_EXIT_CODE:  # typer turns a KeyboardInterrupt into this
            sys.stderr.write("highwater: interrupted\n")
        raise
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            traceback.print_exc()
        else:
            sys.stderr.write(f"highwater: {error}\n")
        sys.exit(CANNOT_EXIT_CODE)
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
        typer.echo(f"highwater {version_here()}")
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
