"""`highwater stop-controller`: the active controller stops, and another is active at once."""

from __future__ import annotations

from typing import Annotated

import typer

from highwater.cluster.cluster import Cluster
from highwater.cluster.hand_over import hand_over
from highwater.durations import seconds
from highwater.output import print_json, say


def register(app: typer.Typer) -> None:
    app.command("stop-controller")(stop_controller)


def stop_controller(
    run: Annotated[
        str | None, typer.Option("--run", help="The run's id, if several are up.")
    ] = None,
    within: Annotated[
        float, typer.Option("--for", callback=seconds, help="How many seconds to wait.")
    ] = 30.0,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Stop the active controller, and wait until another one is active.

    It closes its ZooKeeper session, so that the next one need not wait for the session to expire.
    It stays down: 'highwater heal' starts it again.
    """
    cluster = Cluster.attach(run)
    done = hand_over(cluster, within_s=within)
    if json:
        print_json(done)
        return
    stopped, active = (cluster.topology.node(node).name for node in (done.stopped, done.active))
    epoch = f"controller epoch {done.controller_epoch}"
    say(f"{stopped} has stopped; {active} is active, {epoch}, {done.took_s:.2f} s after the signal")
