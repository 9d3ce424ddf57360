"""A run's small files, each read whole, and the verdict of the one judge where the run is small.

Each may be absent, and each field too: what is not told is null. A file that is no JSON, or has a
field of a wrong type, tells nothing and goes to quarantine as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec

from highwater_checker.judging import judge_run
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import PROMISES, BadDocument, Promises
from highwater_pipeline.ingest.inventory import Inventory
from highwater_pipeline.ingest.lines import Wrong
from highwater_pipeline.tables import DATA_VERSION

Row = dict[str, object]

JUDGED_MAX_BYTES = 64 * 1024 * 1024
"""The judge reads a run into memory: of larger ones the tables' checks alone say something."""
REASONS_MAX = 20

_Int = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Topology(msgspec.Struct):
    """As a plan, a cluster of containers or the simulator's demo (broker_count) writes it."""

    brokers: _Int | None = None
    controllers: _Int | None = None
    broker_count: _Int | None = None
    controller_count: _Int | None = None
    preset: str | None = None
    session_timeout_ms: _Long | None = None
    """Of clusters of containers only: the simulator's have it per node."""


class _Producer(msgspec.Struct):
    acks: _Int | None = None
    max_in_flight: _Int | None = None


class _Workload(msgspec.Struct):
    producers: tuple[_Producer, ...] = ()


class _Expected(msgspec.Struct):
    planted: str = ""


class _Plan(msgspec.Struct):
    title: str | None = None
    seed: _Long | None = None
    commit: str | None = None
    topology: _Topology = msgspec.field(default_factory=_Topology)
    workload: _Workload = msgspec.field(default_factory=_Workload)
    expected: _Expected | None = None


class _Load(msgspec.Struct):
    workload: _Workload | None = None


class _Build(msgspec.Struct):
    commit: str = ""


class _Clock(msgspec.Struct):
    start_wall_ns: _Long | None = None


class _Verdict(msgspec.Struct):
    outcome: str = ""


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
        """Return the settings of the client of which the process is an incarnation.

        A client's incarnations are p0, p0.2, p0.3, ...
        Source: highwater_client.planned.client_of.
        """
        return self.producers.get(process.partition(".")[0], Settings())


def read_documents(inventory: Inventory) -> Documents:
    """Return what a run's small files tell."""
    wrong: list[tuple[str, Wrong]] = []
    plan = _read(inventory, names.PLAN, _Plan, wrong)
    topology = _read(inventory, names.TOPOLOGY, _Topology, wrong)
    load = _read(inventory, names.LOAD, _Load, wrong)
    build = _read(inventory, names.BUILD, _Build, wrong)
    clock = _read(inventory, names.CLOCK, _Clock, wrong)
    verdict = _read(inventory, names.VERDICT, _Verdict, wrong)
    promises = _promises(inventory)
    row: Row = {
        "run_id": inventory.run_id,
        **_of_plan(plan),
        **_of_topology(topology, plan),
        "commit": _commit(build, plan),
        "outcome": "" if verdict is None else verdict.outcome,
        "data_version": DATA_VERSION,
        "start_wall_ns": None if clock is None else clock.start_wall_ns,
        **_of_promises(promises),
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
    inventory: Inventory, name: str, kind: type[_T], wrong: list[tuple[str, Wrong]]
) -> _T | None:
    if name not in inventory.documents:
        return None
    data = (inventory.folder / name).read_bytes()
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        wrong.append((name, Wrong(-1, f"wrong: {error}", None)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wrong.append((name, Wrong(-1, f"not JSON: {error}", None)))
    return None


def _of_plan(plan: _Plan | None) -> Row:
    if plan is None:
        return {}
    planted = "" if plan.expected is None else plan.expected.planted
    return {"title": plan.title, "seed": plan.seed, "planted": planted}


def _commit(build: _Build | None, plan: _Plan | None) -> str | None:
    """Return the commit of the code that ran, else of that which the plan was kept of."""
    if build is not None and build.commit:
        return build.commit
    return None if plan is None else plan.commit


def _of_topology(topology: _Topology | None, plan: _Plan | None) -> Row:
    told = topology or (plan or _Plan()).topology
    row: Row = {
        "preset": told.preset,
        "brokers": told.broker_count if told.brokers is None else told.brokers,
        "controllers": told.controller_count if told.controllers is None else told.controllers,
    }
    if topology is not None:
        row["world"] = "sim" if topology.session_timeout_ms is None else "docker"
    return row


def _promises(inventory: Inventory) -> Promises | None:
    try:
        return PROMISES.read(inventory.folder)
    except BadDocument:
        return None  # the judge tells of it


def _of_promises(promises: Promises | None) -> Row:
    if promises is None:
        return {}
    factors = (topic.replication_factor for topic in promises.topics)
    return {
        "replication_factor": max(factors, default=None),
        "only_in_sync": promises.only_in_sync,
        "consumers": [each.client for each in promises.consumers],
    }


def _promised(promises: Promises | None) -> dict[str, Settings]:
    """Return the settings of the producers that promises.json names, by client."""
    producers = () if promises is None else promises.producers
    return {each.client: Settings(each.acks, each.max_in_flight) for each in producers}


def _producers(load: _Load | None, plan: _Plan | None) -> dict[str, Settings]:
    """Return the settings of p0, p1, ...: of what the clients were told, else of the plan."""
    workload = None if load is None else load.workload
    if workload is None:
        workload = (plan or _Plan()).workload
    return {
        f"p{number}": Settings(producer.acks, producer.max_in_flight)
        for number, producer in enumerate(workload.producers)
    }
