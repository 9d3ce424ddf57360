"""Does one fault to a cluster that stays up, and undoes it after its time or on request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import look_at
from highwater.durations import duration_ms
from highwater.errors import HarnessError
from highwater.faults.done import Done, NotDone
from highwater.faults.intents import IntentLog
from highwater.faults.links.acting import NotProven
from highwater.faults.links.namespaces import NotInNamespace
from highwater.faults.on_containers import ContainerFaults
from highwater.runs.plans.conditions import find_node
from highwater.runs.plans.translation import unsupported
from highwater_chaos.faults import Fault
from highwater_chaos.plan import Plan, PlanTopology, Step, problems_of
from highwater_checker.run_folder.names import INTENTS


@dataclass(frozen=True, slots=True)
class Applied:
    """A fault that was done and undone.

    node: its target, None for several.
    """

    run: str
    fault: Fault
    node: int | None
    proof: str


def parse_fault(words: Sequence[str]) -> Fault:
    """Return the fault of a command line: JSON, or a kind with its fields.

    Fields are field=value; a word without = is the node, and for=5s is for_ms.

    Raises:
        HarnessError: the words are no fault.
    """
    first, *rest = words
    if first.lstrip().startswith("{"):
        if rest:
            raise HarnessError(f"{' '.join(rest)!r} follows the JSON of the fault")
        return _of_json(first)
    fields: dict[str, Any] = {}
    for word in rest:
        name, given, value = word.partition("=")
        if not given:
            name, value = "node", word
        elif name == "for":
            name, value = "for_ms", str(duration_ms(value))
        if name in fields:
            raise HarnessError(f"{name} is given twice: {fields[name]!r} and {value!r}")
        fields[name] = value
    return fault_of(first, fields, are_words=True)


def fault_of(kind: str, fields: Mapping[str, Any], *, are_words: bool = False) -> Fault:
    """Return the fault, of a kind and with fields as a plan has them.

    are_words: numbers and truth values may be words, as of a command line.

    Raises:
        HarnessError: there is no such kind or field, or a value is wrong; the message says which.
    """
    try:
        fault: Fault = msgspec.convert({**fields, "fault": kind}, Fault, strict=not are_words)
    except msgspec.ValidationError as error:
        raise HarnessError(f"no fault {kind!r} with {dict(fields)}: {error}") from error
    return fault


def _of_json(text: str) -> Fault:
    try:
        fault: Fault = msgspec.json.decode(text, type=Fault)
    except msgspec.DecodeError as error:
        raise HarnessError(f"{text!r} is no fault: {error}") from error
    return fault


def apply_one(
    cluster: Cluster,
    fault: Fault,
    runs: Path,
    undo: threading.Event,
    acts: Callable[[Done], None] = lambda done: None,
) -> Applied:
    """Do the fault, and undo it after its for_ms or once `undo` is set; prove both.

    Its intent is written to runs/<run>/intent.jsonl first. acts: called once the fault acts.

    Raises:
        HarnessError: the fault is not possible here, was not done, or was not undone.
    """
    refuse_impossible(cluster, fault)
    intents = IntentLog(runs / cluster.run_id / INTENTS, time.monotonic_ns)
    faults = ContainerFaults(cluster, intents)
    try:
        done = do_now(cluster, faults, fault)
        acts(done)
        undo.wait(_seconds_left(fault, done))
    finally:
        problems = faults.heal_all()
        intents.close()
    if problems:
        again = f"'highwater heal --run {cluster.run_id}' tries again"
        raise HarnessError("\n".join([*problems, again]))
    return Applied(cluster.run_id, fault, done.node, done.proof)


def do_now(cluster: Cluster, faults: ContainerFaults, fault: Fault) -> Done:
    """Do the fault to the nodes that its words mean now, and prove it.

    Raises:
        HarnessError: it was not done, or is not seen to act.
    """
    names = {spec.name: int(spec.node_id) for spec in cluster.topology.nodes()}
    try:
        faults.get_ready([fault])
        look = look_at(cluster)
        return faults.apply(fault, lambda words: find_node(look, names, words))
    except (NotDone, NotInNamespace, NotProven) as error:
        raise HarnessError(f"not done: {error}") from error


def _seconds_left(fault: Fault, done: Done) -> float | None:
    for_ms: int | None = getattr(fault, "for_ms", None)
    if for_ms is None:
        return None
    now_ns = time.monotonic_ns()
    acted_ns = now_ns if done.acted_ns is None else done.acted_ns
    return max(0.0, for_ms / 1e3 - (now_ns - acted_ns) / 1e9)


def refuse_impossible(cluster: Cluster, fault: Fault) -> None:
    """Return if containers can do the fault to this cluster.

    Raises:
        HarnessError: they cannot, or it names a node that the cluster lacks.
    """
    topology = PlanTopology(
        brokers=cluster.topology.brokers, controllers=cluster.topology.controllers
    )
    plan = Plan(seed=0, topology=topology, steps=(Step(0, fault),))
    # The default topic has three replicas, which does not matter for this fault.
    problems = [each for each in problems_of(plan) if each.startswith("step")]
    if problems := problems + unsupported(plan):
        raise HarnessError("\n".join(problems))
