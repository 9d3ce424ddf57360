"""Runs a short program inside a node's container, beside the node."""

from __future__ import annotations

from collections.abc import Sequence

from docker.errors import APIError

from highwater.cluster.cluster import Cluster
from highwater.errors import HarnessError

MOST_TRIES = 3


class ProgramFailed(HarnessError):
    """A program did not run in a node's container, or ended with another code than 0."""


def run_in_node(cluster: Cluster, node: int, command: Sequence[str], *, prints: bool = True) -> str:
    """Return what the program wrote; its paths are the container's.

    prints: the program writes something, and changes nothing. The engine of a busy machine may lose
    the output of a short program: then it is run again. An empty answer would mean "nothing left".

    Raises:
        ProgramFailed: the container does not run, or the program failed, or its output was lost.
    """
    for _ in range(MOST_TRIES):
        said = _run_once(cluster, node, command)
        if said or not prints:
            return said
    name = cluster.container_name(node)
    raise ProgramFailed(f"{name}: {command[0]}: its output was lost {MOST_TRIES} times")


def _run_once(cluster: Cluster, node: int, command: Sequence[str]) -> str:
    api, name = cluster.engine.api, cluster.container_name(node)
    try:
        made = api.exec_create(name, list(command))["Id"]
        said = bytes(api.exec_start(made)).decode("utf-8", errors="replace")
        code = api.exec_inspect(made)["ExitCode"]
    except APIError as error:
        raise ProgramFailed(f"{name}: {command[0]}: {error.explanation or error}") from error
    if code != 0:
        raise ProgramFailed(f"{name}: {command[0]} ended with {code}: {said.strip()}")
    return said
