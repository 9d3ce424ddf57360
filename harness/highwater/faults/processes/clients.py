"""Kills a run's clients, who are processes of the harness's machine and not containers."""

from __future__ import annotations

from typing import Protocol

from highwater.faults.done import Done, NotDone, prove
from highwater_chaos import faults as f

ONE_PROCESS = "all clients of a run are one process: they die together"


class Clients(Protocol):
    """A run's clients; both calls raise NotDone."""

    def kill(self) -> str:
        """End the clients with SIGKILL, and return the proof in words."""
        ...

    def start_again(self) -> str:
        """Start the clients' next incarnation if they do not run, and return the proof in words."""
        ...


def kill_clients(clients: Clients | None, fault: f.KillClient) -> Done:
    """Kill all clients.

    Raises:
        NotDone: the run has no clients, or the fault names one of them.
    """
    if clients is None:
        raise NotDone("there are no clients here")
    prove(fault.client == f.ANY, ONE_PROCESS)
    return Done(None, clients.kill(), clients.start_again)
