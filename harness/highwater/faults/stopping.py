"""Stops a container's processes by SIGSTOP, lets them go on by SIGCONT, and sees their states.

The engine's own kill signals a container's init alone, and stopping the init stops nothing else. So
a process that the engine starts inside signals all the others. The engine reports a frozen
container as paused, and one whose processes are stopped as running.
"""

from __future__ import annotations

from collections.abc import Sequence

import docker

from highwater.faults.done import prove

STOPPED_STATE = "T"


def stop_processes(engine: docker.DockerClient, name: str) -> None:
    """Send SIGSTOP to every process of the container but its init.

    Raises:
        NotDone: there was no such process, or the signal was refused.
        docker.errors.APIError: the engine refused; it does while the container is frozen.
    """
    _signal_all(engine, name, "STOP")


def resume_processes(engine: docker.DockerClient, name: str) -> None:
    """Send SIGCONT to every process of the container but its init; raises as stop_processes."""
    _signal_all(engine, name, "CONT")


def _signal_all(engine: docker.DockerClient, name: str, signal: str) -> None:
    # -1: everyone but the init and the sender. Source: kill(2).
    made = engine.api.exec_create(name, ["sh", "-c", f"kill -s {signal} -- -1"])["Id"]
    said = engine.api.exec_start(made)
    code = engine.api.exec_inspect(made)["ExitCode"]
    prove(code == 0, f"SIG{signal} in {name} ended with {code}: {said!r}")


def process_states(engine: docker.DockerClient, name: str) -> tuple[str, ...]:
    """Return the states of the container's processes but its init, by ps's first letter.

    Raises:
        docker.errors.APIError: the container does not run.
    """
    init = str(engine.api.inspect_container(name)["State"]["Pid"])
    top = engine.api.top(name, ps_args="-eo pid,stat")
    return states_in(top["Titles"] or (), top["Processes"] or (), init)


def states_in(titles: Sequence[str], rows: Sequence[Sequence[str]], init: str) -> tuple[str, ...]:
    """Return the states in the engine's list of a container's processes, without the init's."""
    at_pid, at_state = titles.index("PID"), titles.index("STAT")
    return tuple(row[at_state][:1] for row in rows if row[at_pid] != init)


def are_stopped(states: tuple[str, ...]) -> bool:
    """Return whether there is a process and all of them are stopped."""
    return bool(states) and set(states) == {STOPPED_STATE}
