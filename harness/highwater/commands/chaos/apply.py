"""`highwater chaos apply FAULT`: one fault on a cluster that `highwater up` brought up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.commands.run import RUNS
from highwater.faults.done import Done
from highwater.output import print_json, say
from highwater.runs.chaos.single import apply_one, parse_fault
from highwater_chaos.faults import Fault
from highwater_chaos.words import say_fault


def register(app: typer.Typer) -> None:
    app.command()(apply)


def apply(
    fault: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND [FIELD=VALUE]...",
            help="""`pause broker-0 for=5s`, or JSON:
            '{"fault":"pause","node":"broker-0","for_ms":5000}'.""",
        ),
    ],
    run: Annotated[str, typer.Option(help="The run's id; needless if there is one.")] = "",
    runs: Annotated[Path, typer.Option(file_okay=False, help="Where run folders are.")] = RUNS,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Do one fault, and undo it after its time or at Ctrl-C; prove both.

    `highwater faults` lists the kinds, docs/reference/faults.md their fields. A word without = is
    the node: its name, `leader of t-0`, `follower of t-0` or `active controller`.
    """
    act(parse_fault(fault), run, runs, as_json=json)


def act(fault: Fault, run: str, runs: Path, *, as_json: bool) -> None:
    """Do the fault to the cluster, and undo it after its time or at Ctrl-C; prove both."""
    cluster = Cluster.attach(run or None)

    def acts(done: Done) -> None:
        until = "" if getattr(fault, "for_ms", None) is not None else "; Ctrl-C undoes it"
        say(f"{cluster.run_id}: {say_fault(fault)}: {done.proof}{until}")

    try:
        with _set_by_interrupt() as undo:
            applied = apply_one(cluster, fault, runs, undo, acts)
    finally:
        cluster.engine.close()
    if as_json:
        print_json(applied)
    else:
        typer.echo(f"{applied.run}: undone")


@contextmanager
def _set_by_interrupt() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets, so that no fault stays half done."""
    interrupted = threading.Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
