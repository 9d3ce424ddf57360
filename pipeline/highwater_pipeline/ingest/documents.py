"""A run's small files, each read whole, and the verdict of the one judge where the run is small.

Each file may be absent, and each field too: an absent field is null. A file that is no JSON, or has
a field of a wrong type, goes to quarantine as a whole; all its fields are null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

from highwater_chaos.plan import BadPlan, Plan, PlanTopology, decode_plan
from highwater_checker.finding import CheckResult
from highwater_checker.history import client_of
from highwater_checker.judging import judge_run
from highwater_checker.requirements import (
    histories_are_whole,
    nodes_answered,
    replicas_were_in_sync,
    replicas_were_read,
)
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    BUILD,
    CLOCK,
    EXCUSED,
    FINAL_LOOK,
    PLAN,
    PROMISES,
    REQUIREMENTS,
    SLICE,
    TOPOLOGY,
    VERDICT,
    WATCHED,
    BadDocument,
    Document,
    Promises,
    RunBuild,
    RunTopology,
)
from highwater_checker.run_folder.files import may_be_there
from highwater_checker.run_folder.histories import followed_processes, last_process
from highwater_checker.run_folder.replica_logs import (
    asked_replicas,
    compacted_topics,
    compared_topics,
    missing_from,
)
from highwater_checker.run_folder.small_files import SmallFiles, read_small_files
from highwater_checker.slices import TraceBegin
from highwater_checker.verdict import judge
from highwater_pipeline.ingest.inventory import Inventory
from highwater_pipeline.ingest.line_files import (
    SEEN,
    LineFile,
    WrongLine,
    rows_of_file,
    rows_of_final_look,
)
from highwater_pipeline.ingest.lines import Wrong
from highwater_pipeline.tables import DATA_VERSION

Row = dict[str, object]

JUDGED_MAX_BYTES = 64 * 1024 * 1024
"""The judge reads a run into memory: larger runs have only the tables' checks."""
REASONS_MAX = 20
_JUDGED: tuple[Document[Any], ...] = (
    PROMISES,
    REQUIREMENTS,
    FINAL_LOOK,
    WATCHED,
    EXCUSED,
    SLICE,
)
"""The files that the judge reads whole; RUNS has why they leave a run unproven."""


class Settings(NamedTuple):
    """A producer's, null where it is not known."""

    acks: int | None = None
    max_in_flight: int | None = None
    is_idempotent: bool | None = None


@dataclass(frozen=True, slots=True)
class Documents:
    """inventory: of the run, without files that changed since.

    row: of RUNS. producers: by client (p0, p1, ...). wrong: (file, why) of unread ones.

    start_wall_ns: when the run began, None if unknown.
    compacted: the run's compacted topics.
    excused: rows of EXCUSED. members: rows of GROUP_MEMBERS.
    begins: where traces begin in the run, of starts of nodes before it.
    final_look: the rows in SEEN of the look at the end, none where no file has it.
    last_look_is_final: whether the run's last look stands for it.
    """

    inventory: Inventory
    row: Row
    producers: dict[str, Settings]
    wrong: tuple[tuple[str, Wrong], ...]
    start_wall_ns: int | None
    compacted: frozenset[str]
    excused: tuple[Row, ...]
    members: tuple[Row, ...]
    begins: tuple[TraceBegin, ...]
    final_look: tuple[Row, ...]
    last_look_is_final: bool

    def rows_of_begins(self) -> list[Row]:
        """Return the rows of TRACE_BEGINS."""
        return [{"run_id": self.row["run_id"], **asdict(each)} for each in self.begins]

    def settings_of(self, process: str) -> Settings:
        """Return the settings of the client of which the process is an incarnation."""
        return self.producers.get(client_of(process), Settings())


def read_documents(inventory: Inventory) -> Documents:
    """Return the contents of a run's small files."""
    wrong: list[tuple[str, Wrong]] = []
    plan = _read_plan(inventory, wrong)
    topology = _read(inventory, TOPOLOGY, wrong)
    build = _read(inventory, BUILD, wrong)
    clock = _read(inventory, CLOCK, wrong)
    verdict = _read(inventory, VERDICT, wrong)
    for document in _JUDGED:
        _read(inventory, document, wrong)
    files = read_small_files(inventory.folder)
    inventory = inventory.without(files.changed)
    promises = files.promises
    start_wall_ns = None if clock is None else clock.start_wall_ns
    final_look = _final_look(inventory, files, wrong)
    row: Row = {
        "run_id": inventory.run_id,
        **_of_plan(plan),
        **_of_topology(topology, plan),
        "commit": _commit(build, plan),
        "outcome": "" if verdict is None else verdict.outcome.value,
        "data_version": DATA_VERSION,
        "start_wall_ns": start_wall_ns,
        **_of_promises(promises),
        "saw_the_end": bool(final_look) or _looks_stand_for_it(inventory, files),
        "unproven": _unproven(inventory, files),
        "followed": followed_processes(files.processes),
        "incomplete": list(files.incomplete),
        **_last_readers(files),
        **_of_watched(files.watched),
        **_judged(inventory),
    }
    excused = tuple({"run_id": inventory.run_id, **asdict(each)} for each in files.excused)
    return Documents(
        inventory=inventory,
        row=row,
        producers=_producers(promises),
        wrong=tuple(wrong),
        start_wall_ns=start_wall_ns,
        compacted=compacted_topics(promises),
        excused=excused,
        members=tuple(_members(inventory.run_id, promises)),
        begins=tuple(files.slices.begins),
        final_look=final_look,
        last_look_is_final=files.last_look_is_final,
    )


def _last_readers(files: SmallFiles) -> Row:
    if files.promises is None:
        return {}
    known = {*files.processes, *files.incomplete}
    last = [(last_process(each.client, known), each.topic) for each in files.promises.consumers]
    found = [(process, topic) for process, topic in last if process in files.processes]
    return {
        "last_readers": [process for process, _ in found],
        "last_topics": [topic for _, topic in found],
    }


def _unproven(inventory: Inventory, files: SmallFiles) -> list[str]:
    """Return the evidence not read and the requirements not met, by the small files alone."""
    promises = files.promises or Promises()
    required = [*files.requirements]
    if files.final_look is not None:
        copied = {(each.topic, each.partition, each.broker) for each in inventory.replicas}
        asked = asked_replicas(files.final_look, files.promises)
        missing = [
            name
            for at, each in asked.items()
            for name in missing_from(
                at, each, [b for b in each.hosted if (at.topic, at.partition, b) in copied]
            )
        ]
        required.append(replicas_were_read(promises, asked, missing))
        lagging = [name for at, each in asked.items() for name in missing_from(at, each, each.isr)]
        required.append(replicas_were_in_sync(lagging))
        required += nodes_answered(promises, files.final_look, files.node_count)
    required += histories_are_whole(promises, files.processes, files.torn_while_alive)
    wrong = files.slices.wrong_declarations()
    return [*files.unread, *wrong, *judge((), required).without_findings]


def _of_watched(watched: CheckResult | None) -> Row:
    if watched is None:
        return {}
    findings = [str(each) for each in watched.findings]
    return {"watched_examined": watched.examined, "watched": findings}


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


def _read_plan(inventory: Inventory, wrong: list[tuple[str, Wrong]]) -> Plan | None:
    text = _read(inventory, PLAN, wrong)
    try:
        return None if text is None else decode_plan(bytes(text), PLAN.name)
    except BadPlan as error:
        wrong.append((PLAN.name, Wrong(-1, f"wrong: {error}", None)))
    return None


def _of_plan(plan: Plan | None) -> Row:
    if plan is None:
        return {}
    return {"title": plan.title, "seed": plan.seed, "planted": plan.planted}


def _commit(build: RunBuild | None, plan: Plan | None) -> str | None:
    """Return the commit of the code that ran, else the commit that the plan names."""
    if build is not None and build.commit:
        return build.commit
    return None if plan is None else plan.commit or None


def _of_topology(topology: RunTopology | None, plan: Plan | None) -> Row:
    """Return the nodes of the run, else the plan's."""
    if topology is not None:
        world = "sim" if topology.session_timeout_ms is None else "docker"
        return {**_nodes_of(topology, topology.preset), "world": world}
    return {} if plan is None else _nodes_of(plan.topology, plan.topology.preset.value)


def _nodes_of(told: RunTopology | PlanTopology, preset: str | None) -> Row:
    return {"preset": preset, "brokers": told.brokers, "controllers": told.controllers}


def _looks_stand_for_it(inventory: Inventory, files: SmallFiles) -> bool:
    """Return whether one of the run's looks is taken for the one at the end.

    A run has such looks alone where it was stopped early: its whole file is read once more.
    """
    if not files.last_look_is_final or not may_be_there(inventory.folder / names.LOOKS):
        return False
    file = LineFile(inventory.run_id, str(inventory.folder), names.LOOKS)
    return any(row.get("is_final") for row in rows_of_file(file, SEEN))


def _final_look(
    inventory: Inventory, files: SmallFiles, wrong: list[tuple[str, Wrong]]
) -> tuple[Row, ...]:
    """Return the rows in SEEN of the look at the end; wrong gets why it has none."""
    if files.final_look is None:
        return ()
    try:
        return tuple(dict(row) for row in rows_of_final_look(inventory.run_id, files.final_look))
    except WrongLine as error:
        wrong.append((FINAL_LOOK.name, Wrong(-1, f"wrong: {error}", None)))
    return ()


def _of_promises(promises: Promises | None) -> Row:
    topics, compacted = compared_topics(promises), sorted(compacted_topics(promises))
    if promises is None or topics is None:
        return {"compacted": compacted}
    factors = (topic.replication_factor for topic in promises.topics)
    return {
        "replication_factor": max(factors, default=None),
        "only_in_sync": promises.only_in_sync,
        "consumers": [each.client for each in promises.consumers],
        "topics": sorted(topics),
        "compacted": compacted,
        "to_the_end": promises.to_the_end,
        "least_acknowledged": promises.least_acknowledged,
        "format_version": promises.format_version,
        "writers_are_known": promises.writers_are_known,
    }


def _members(run_id: str, promises: Promises | None) -> Iterator[Row]:
    """Yield the rows of GROUP_MEMBERS; a group without members has one without a client."""
    for group in () if promises is None else promises.groups:
        told = {"run_id": run_id, "group_id": group.group_id, "topic": group.topic}
        for client in group.members or ("",):
            yield {**told, "client": client, "to_the_end": group.to_the_end}


def _producers(promises: Promises | None) -> dict[str, Settings]:
    """Return the settings of the producers that promises.json names, by client."""
    producers = () if promises is None else promises.producers
    return {
        each.client: Settings(each.acks, each.max_in_flight, each.is_idempotent)
        for each in producers
    }
