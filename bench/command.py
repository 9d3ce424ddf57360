"""The common parts of the bench's commands: where results go, and how a command ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import FrameType

import msgspec
import typer

from highwater.errors import HarnessError
from highwater.output import say

RESULT_FOLDER = Path(__file__).parent / "results"


def write_result(result: object, name: str) -> Path:
    """Write the result as JSON below bench/results/, and return the file."""
    RESULT_FOLDER.mkdir(exist_ok=True)
    path = RESULT_FOLDER / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    return path


def result_name(date: datetime) -> str:
    return f"{date:%Y-%m-%d-%H%M}"


def run_command(name: str, command: Callable[..., None]) -> None:
    """Run a command of the bench; it exits with 2 if the harness could not do it, 130 on Ctrl-C."""
    signal.signal(signal.SIGTERM, _leave)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    try:
        app(prog_name=name)
    except HarnessError as error:
        say(f"{name}: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        say(f"{name}: interrupted")
        sys.exit(130)


def _leave(number: int, frame: FrameType | None) -> None:
    """Unwind the stack on SIGTERM, so that clusters are removed."""
    sys.exit(128 + number)
