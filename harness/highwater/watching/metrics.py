"""What is watched, as text for Prometheus: the soak, its present run, and that run's nodes.

A soak's clusters come and go, and the addresses of their nodes with them; this one stays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from highwater.soak.folder import SoakFolder
from highwater.soak.status import Doing, Status, read_status
from highwater.watching.view import last_looks, view_at
from highwater_checker.run_folder import names
from highwater_core.ids import node_name
from highwater_core.prometheus import Metric, Sample, gauge, prometheus_text, text_of

FRESH_S = 15
"""A file of looks that was written longer ago is of a run that is over."""


def read_metrics(folder: Path) -> str:
    """Return the metrics of the run in the folder, or of the soak and its present run.

    The nodes' are those of the run's last look, each sample with the label node; there are none
    once the run is over.
    """
    soak = SoakFolder(folder)
    status = read_status(soak.status)
    run = folder if status is None else soak.runs / status.run
    of_soak = "" if status is None else text_of(_of_soak(status, _age_s(soak.status)))
    if _age_s(run / names.LOOKS) > FRESH_S:
        return of_soak
    looks = last_looks(run / names.LOOKS)
    nodes = {node_name(node): each for node, each in looks[-1].nodes.items()} if looks else {}
    view = view_at(run, looks)
    about = "records that leaders append a second"
    of_run = (
        gauge("highwater_run_faults", "faults that act now", len(view.faults)),
        gauge("highwater_run_records_per_second", about, view.records_per_s),
    )
    return of_soak + text_of(of_run) + prometheus_text(nodes)


def _age_s(path: Path) -> float:
    """Return the time since the file was written; without it, since the clock's beginning."""
    try:
        written_s = path.stat().st_mtime
    except OSError:
        written_s = 0.0
    return max(0.0, time.time() - written_s)


def _of_soak(status: Status, age_s: float) -> Iterator[Metric]:
    runs = int(status.doing is Doing.RUNNING)
    yield gauge("highwater_soak_running", "1: it has not told that it ended", runs)
    about = "since it last told: at most a plan's time while it lives"
    yield gauge("highwater_soak_status_age_seconds", about, round(age_s, 1))
    yield gauge("highwater_soak_plan", "number of the plan that runs", status.plan)
    yield gauge("highwater_soak_ran_seconds", "time that plans took so far", status.ran_s)
    yield gauge("highwater_soak_wanted_seconds", "time that plans are to take", status.wanted_s)
    yield gauge("highwater_soak_leaks", "values of nodes that leak", len(status.leaks))
    yield Metric(
        "highwater_soak_plans",
        "gauge",
        "plans by their verdict",
        tuple(Sample(count, {"verdict": each.value}) for each, count in status.done.items()),
    )
