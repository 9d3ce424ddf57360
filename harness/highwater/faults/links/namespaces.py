"""Runs the faults image in nodes' network namespaces: for a second, or as long as a fault lasts.

The containers have NET_ADMIN and no other capability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import docker
import msgspec
from docker.errors import APIError, NotFound
from requests.exceptions import RequestException

from highwater.cluster.labels import RunLabels
from highwater.faults.helpers import begin_helper, run_helper

IN_NAMESPACE = "in_namespace.py"
PACKET_QUEUE = "packet_queue.py"
PROGRAMS = "/highwater/faults/links"
"""The folder of the programs in the image."""
ALREADY_GOING = 409
"""The engine's status code when it is removing the container already."""

R = TypeVar("R")


class NotInNamespace(Exception):
    """A helper in a network namespace did not run, or did not report; the message says why."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of in_namespace.main, which explains each field."""

    ports: Sequence[int] = ()
    send: Sequence[Mapping[str, object]] = ()
    until_ns: int = 0
    every_ns: int = 5_000_000
    least_ns: int = 0
    script: str | None = None
    queue: Sequence[Mapping[str, object]] | None = None
    apply_at_ns: int = 0
    show: str | None = None


class Report(msgspec.Struct, frozen=True):
    """The report of in_namespace.main, which explains each field. Times are CLOCK_MONOTONIC."""

    opened_ns: int
    closed_ns: int
    applied_ns: int | None = None
    error: str = ""
    sent: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    received: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    arrived: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    queue_ready_ns: int | None = None
    told_ns: int | None = None
    loading_ns: int | None = None
    shown_before: str = ""
    shown: str = ""


class Namespaces:
    """The network namespaces of one cluster's nodes."""

    def __init__(
        self, engine: docker.DockerClient, image: str, run: RunLabels, names: Mapping[int, str]
    ) -> None:
        """names: the nodes' containers by node id."""
        self._engine = engine
        self._image = image
        self._run = run
        self._names = names

    def run(self, tasks: Mapping[int, Task]) -> dict[int, Report]:
        """Do each node's task at the same time, and return their reports.

        Raises:
            NotInNamespace: a helper did not run, since its node is down, or the engine refused or
                did not answer in time.
        """
        return self.ask(tasks, IN_NAMESPACE, Report)

    def ask(self, tasks: Mapping[int, object], program: str, report: type[R]) -> dict[int, R]:
        """Do each node's task with one of the image's programs, and return their reports.

        Raises:
            NotInNamespace: as run.
        """
        if not tasks:
            return {}
        with ThreadPoolExecutor(len(tasks), thread_name_prefix="namespace") as pool:
            reports = pool.map(
                lambda node: self._ask_one(node, tasks[node], program, report), tasks
            )
            return dict(zip(tasks, reports, strict=True))

    def _ask_one(self, node: int, task: object, program: str, report: type[R]) -> R:
        name = self._names[node]
        try:
            code, output, errors = run_helper(
                self._engine,
                self._image,
                [msgspec.json.encode(task).decode()],
                self._run,
                **_place(name, program),
            )
            return msgspec.json.decode(output, type=report)
        except RequestException as error:
            raise NotInNamespace(f"{name}: {_why(error)}") from error
        except msgspec.DecodeError as error:
            said = f"{output[-200:]!r} {errors[-300:]!r}"
            raise NotInNamespace(f"{name}: the helper ended with {code}: {said}") from error

    # ------------------------------------------------------------ programs that go on

    def begin(self, node: int, program: str) -> str:
        """Start a program that runs until it ends by itself, and return its container.

        Raises:
            NotInNamespace: the program does not run.
        """
        name = self._names[node]
        try:
            return begin_helper(self._engine, self._image, self._run, **_place(name, program))
        except RequestException as error:
            raise NotInNamespace(f"{name}: {_why(error)}") from error

    def is_running(self, container: str) -> bool:
        """Return whether the container of a program that was begun still runs.

        Raises:
            NotInNamespace: the engine does not say.
        """
        try:
            return bool(self._engine.api.inspect_container(container)["State"]["Running"])
        except NotFound:
            return False
        except RequestException as error:
            raise NotInNamespace(f"a helper: {_why(error)}") from error

    def end(self, container: str) -> None:
        """Remove the container of a program that was begun, if it is still there.

        Raises:
            NotInNamespace: the container may still be there.
        """
        try:
            self._engine.api.remove_container(container, v=True, force=True)
        except NotFound:
            return
        except RequestException as error:
            if not isinstance(error, APIError) or error.status_code != ALREADY_GOING:
                raise NotInNamespace(f"a helper stays: {_why(error)}") from error

    def incarnation(self, node: int) -> str:
        """Return a name of the node's network namespace. Each start of a node makes a new one.

        Raises:
            NotInNamespace: the node has no container, or the engine does not say.
        """
        try:
            state = self._engine.api.inspect_container(self._names[node])["State"]
        except RequestException as error:
            raise NotInNamespace(f"{self._names[node]}: {_why(error)}") from error
        return str(state["StartedAt"])


def _why(error: RequestException) -> str:
    """Return the engine's error, or that the engine did not answer in time (a busy machine)."""
    said = error.explanation if isinstance(error, APIError) else None
    return str(said or error)


def _place(name: str, program: str) -> dict[str, object]:
    return {
        "entrypoint": ["python3", f"{PROGRAMS}/{program}"],
        "network_mode": f"container:{name}",
        "cap_add": ["NET_ADMIN"],
    }
