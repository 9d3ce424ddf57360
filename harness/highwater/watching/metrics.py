"""What is watched, as text for Prometheus: the soak, its present run, and that run's nodes.

A soak's clusters come and go, and the addresses of their nodes with them; this one stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from highwater.soak.status import Doing, Status
from highwater.watching.view import View, last_looks, read_view, run_in
from highwater_checker.run_folder import names
from highwater_core.ids import node_name
from highwater_core.prometheus import Metric, Sample, gauge, prometheus_text, text_of


def read_metrics(folder: Path) -> str:
    """Return the metrics of the run in the folder, or of the soak and its present run.

    The nodes' are those of the run's last look; each sample has the label node.
    """
    view = read_view(folder)
    looks = last_looks(run_in(folder) / names.LOOKS)
    nodes = {node_name(node): each for node, each in looks[-1].nodes.items()} if looks else {}
    return text_of(_metrics_of(view)) + prometheus_text(nodes)


def _metrics_of(view: View) -> Iterator[Metric]:
    yield gauge("highwater_run_faults", "faults that act now", len(view.faults))
    about = "records that leaders append a second"
    yield gauge("highwater_run_records_per_second", about, view.records_per_s)
    if view.soak is not None:
        yield from _of_soak(view.soak)


def _of_soak(status: Status) -> Iterator[Metric]:
    runs = int(status.doing is Doing.RUNNING)
    yield gauge("highwater_soak_running", "1: it runs, 0: it has ended", runs)
    yield gauge("highwater_soak_plan", "number of the plan that runs", status.plan)
    yield gauge("highwater_soak_ran_seconds", "time that plans took so far", status.ran_s)
    yield gauge("highwater_soak_wanted_seconds", "time that plans are to take", status.wanted_s)
    yield Metric(
        "highwater_soak_plans",
        "gauge",
        "plans by their verdict",
        tuple(Sample(count, {"verdict": each.value}) for each, count in status.done.items()),
    )
