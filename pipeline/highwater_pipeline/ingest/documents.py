"""A run's small files, each read whole, and the verdict of the one judge where the run is small.

Each may be absent, and each field too: what is not told is null. A file that is no JSON, or has a
field of a wrong type, tells nothing and goes to quarantine as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from highwater_checker.history import client_of
from highwater_checker.judging import judge_run
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    BUILD,
    CLOCK,
    FINAL_LOOK,
    LOAD,
    PLAN,
    PROMISES,
    TOPOLOGY,
    VERDICT,
    BadDocument,
    Document,
    Promises,
    RunBuild,
    RunLoad,
    RunPlan,
    RunTopology,
)
from highwater_pipeline.ingest.inventory import Inventory
from highwater_pipeline.ingest.lines import Wrong
from highwater_pipeline.tables import DATA_VERSION

Row = dict[str, object]

JUDGED_MAX_BYTES = 64 * 1024 * 1024
"""The judge reads a run into memory: of larger ones the tables' checks alone say something."""
REASONS_MAX = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """A producer's, null where it is not known."""

    acks: int | None = None
    max_in_flight: int | None = None


@dataclass(frozen=True, slots=True)
class Documents:
    """row: of RUNS. producers: by client (p0, p1, ...). wrong: (file, why) of unread ones."""

    row: Row
    producers: dict[str, Settings]
    wrong: tuple[tuple[str, Wrong], ...]

    def settings_of(self, process: str) -> Settings:
        """Return the settings of the client of which the process is an incarnation."""
        return self.producers.get(client_of(process), Settings())


def read_documents(inventory: Inventory) -> Documents:
    """Return what a run's small files tell."""
    wrong: list[tuple[str, Wrong]] = []
    plan = _read(inventory, PLAN, wrong)
    topology = _read(inventory, TOPOLOGY, wrong)
    load = _read(inventory, LOAD, wrong)
    build = _read(inventory, BUILD, wrong)
    clock = _read(inventory, CLOCK, wrong)
    verdict = _read(inventory, VERDICT, wrong)
    promises = _read(inventory, PROMISES, wrong)
    final_look = _read(inventory, FINAL_LOOK, wrong)
    row: Row = {
        "run_id": inventory.run_id,
        **_of_plan(plan),
        **_of_topology(topology, plan),
        "commit": _commit(build, plan),
        "outcome": "" if verdict is None else verdict.outcome.value,
        "data_version": DATA_VERSION,
        "start_wall_ns": None if clock is None else clock.start_wall_ns,
        **_of_promises(promises),
        "saw_the_end": final_look is not None or _looks_stand_for_it(inventory, promises),
        **_judged(inventory),
    }
    return Documents(row, _promised(promises) or _producers(load, plan), tuple(wrong))


def _judged(inventory: Inventory) -> Row:
    if inventory.total_bytes > JUDGED_MAX_BYTES:
        return {}
    found = judge_run(inventory.folder)
    return {"judged": found.outcome.value, "reasons": list(found.reasons[:REASONS_MAX])}


_T = TypeVar("_T")


def _read(
    inventory: Inventory, document: Document[_T], wrong: list[tuple[str, Wrong]]
) -> _T | None:
    try:
        return document.read(inventory.folder)
    except BadDocument as error:
        wrong.append((document.name, Wrong(-1, error.why, None)))
    return None


def _of_plan(plan: RunPlan | None) -> Row:
    if plan is None:
        return {}
    planted = "" if plan.expected is None else plan.expected.planted
    return {"title": plan.title, "seed": plan.seed, "planted": planted}


def _commit(build: RunBuild | None, plan: RunPlan | None) -> str | None:
    """Return the commit of the code that ran, else of that which the plan was kept of."""
    if build is not None and build.commit:
        return build.commit
    return None if plan is None else plan.commit


def _of_topology(topology: RunTopology | None, plan: RunPlan | None) -> Row:
    told = topology or (plan or RunPlan()).topology
    row: Row = {
        "preset": told.preset,
        "brokers": told.brokers,
        "controllers": told.controllers,
    }
    if topology is not None:
        row["world"] = "sim" if topology.session_timeout_ms is None else "docker"
    return row


def _looks_stand_for_it(inventory: Inventory, promises: Promises | None) -> bool:
    """Return whether the last look is the final one, as highwater_checker's evidence has it."""
    looks = inventory.folder / names.LOOKS
    is_healed = promises is None or not promises.only_in_sync
    return is_healed and looks.is_file() and looks.stat().st_size > 0


def _of_promises(promises: Promises | None) -> Row:
    if promises is None:
        return {}
    factors = (topic.replication_factor for topic in promises.topics)
    return {
        "replication_factor": max(factors, default=None),
        "only_in_sync": promises.only_in_sync,
        "consumers": [each.client for each in promises.consumers],
        "topics": [topic.name for topic in promises.topics],
        "to_the_end": promises.to_the_end,
    }


def _promised(promises: Promises | None) -> dict[str, Settings]:
    """Return the settings of the producers that promises.json names, by client."""
    producers = () if promises is None else promises.producers
    return {each.client: Settings(each.acks, each.max_in_flight) for each in producers}


def _producers(load: RunLoad | None, plan: RunPlan | None) -> dict[str, Settings]:
    """Return the settings of p0, p1, ...: of what the clients were told, else of the plan."""
    workload = None if load is None else load.workload
    if workload is None:
        workload = (plan or RunPlan()).workload
    return {
        f"p{number}": Settings(producer.acks, producer.max_in_flight)
        for number, producer in enumerate(workload.producers)
    }
