"""A harness that does one fault to a cluster, undoes it, and dies by SIGKILL at a given moment.

A moment is named by the fault's last phase on the disk, and by the action under way: a line of the
intent log is about to be written or was written, or the engine has a request that changes something
and has not answered. Each moment is listed in a file. At the fatal moment the process ends, with
the engine's client in the middle of its request.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from urllib3.connection import HTTPConnection

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import look_at
from highwater.faults.intents import IntentLog
from highwater.faults.links import of_cluster as cluster_links
from highwater.faults.on_containers import ContainerFaults
from highwater.runs.plans.conditions import find_node
from highwater_chaos.faults import Fault
from highwater_checker.run_folder.intents import Intent
from highwater_checker.run_folder.names import INTENTS

MOMENTS = "moments"
OUTPUT = "output"
NEVER_S = 3_600.0


class Moments:
    """Counts moments as they come, in the order in which they are listed."""

    def __init__(self, path: Path, fatal: str, fatal_time: int) -> None:
        self._file = path.open("w")
        self._fatal = fatal, fatal_time
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.phase = "nothing"

    def comes(self, what: str) -> None:
        with self._lock:
            moment = f"{self.phase}: {what}"
            self._counts[moment] += 1
            self._file.write(f"{moment}\n")
            self._file.flush()
            if (moment, self._counts[moment]) == self._fatal:
                os.kill(os.getpid(), signal.SIGKILL)


class DyingIntentLog(IntentLog):
    """An intent log whose lines are moments."""

    def __init__(self, path: Path, moments: Moments) -> None:
        super().__init__(path, time.monotonic_ns)
        self._moments = moments

    def _write(self, line: Intent[Fault]) -> None:
        # Lines of no fault, as of a node's start, are moments within a fault's phase.
        self._moments.comes(f"{line.phase} is about to be written")
        super()._write(line)
        if line.number:
            self._moments.phase = line.phase
            self._moments.comes("written")
        else:
            self._moments.comes(f"{line.phase} is written")


def watch_the_engines_client(moments: Moments) -> None:
    """Make a moment of each request that changes something in the engine, before its answer."""
    send, answer = HTTPConnection.request, HTTPConnection.getresponse
    asked: dict[HTTPConnection, str] = {}

    def request(self: HTTPConnection, method: str, url: str, *rest: Any, **options: Any) -> None:
        asked[self] = "" if method in ("GET", "HEAD") else f"asked to {method} {without_names(url)}"
        send(self, method, url, *rest, **options)

    def getresponse(self: HTTPConnection) -> Any:
        if what := asked.pop(self, ""):
            moments.comes(what)
        return answer(self)

    HTTPConnection.request, HTTPConnection.getresponse = request, getresponse  # type: ignore[assignment,method-assign]


def without_names(url: str) -> str:
    """Return the path of the engine's API without names: /containers/*/start."""
    path = re.sub(r"^/v[\d.]+", "", url.partition("?")[0])
    return re.sub(r"^/(\w+)/(?!create$|prune$)[^/]+", r"/\1/*", path)


def live(run_id: str, fault: Fault, folder: Path, fatal: str = "", fatal_time: int = 0) -> None:
    """Do the fault to the run's cluster, and undo it; end with 1 if it is not undone.

    fatal: the moment of death, when it comes for the fatal_time-th time; "": the harness lives.
    """
    with (folder / OUTPUT).open("wb") as output:
        for standard in (1, 2):
            os.dup2(output.fileno(), standard)
    moments = Moments(folder / MOMENTS, fatal, fatal_time)
    watch_the_engines_client(moments)
    cluster = Cluster.attach(run_id)
    names = {spec.name: int(spec.node_id) for spec in cluster.topology.nodes()}
    faults = ContainerFaults(cluster, DyingIntentLog(folder / INTENTS, moments))
    # Renewals belong to no step of a fault.
    cluster_links.RENEW_S = NEVER_S  # type: ignore[attr-defined]
    faults.get_ready([fault])
    look = look_at(cluster)
    done = faults.apply(fault, lambda words: find_node(look, names, words))
    done.revert()
    if problems := faults.heal_all():
        sys.exit("\n".join(problems))
