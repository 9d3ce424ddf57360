"""Does one fault to a cluster that stays up, and undoes it after its time or on request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from highwater.cluster.cluster import STOPPED, Cluster
from highwater.cluster.looking import why_gone
from highwater.cluster.settling import look_at
from highwater.durations import duration_ms
from highwater.errors import HarnessError
from highwater.faults.done import Done, NotDone
from highwater.faults.intents import IntentLog
from highwater.faults.links.acting import NotProven
from highwater.faults.links.namespaces import NotInNamespace
from highwater.faults.on_containers import ContainerFaults
from highwater.runs.chaos.acting import acting_faults
from highwater.runs.plans.conditions import find_node
from highwater.runs.plans.translation import unsupported
from highwater.waiting import NeverHappened, eventually
from highwater_chaos.faults import Fault, Kill, Pause, Terminate
from highwater_chaos.plan import Plan, PlanTopology, Step, problems_of
from highwater_chaos.words import say_fault
from highwater_checker.run_folder.intents import NO_FAULT, Phase
from highwater_checker.run_folder.names import INTENTS
from highwater_core.ids import NodeId

LEFT = Kill | Terminate | Pause
"""Faults that go on acting when their harness has ended."""
ANSWERS_WITHIN_S = 30.0


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


def leave_one(cluster: Cluster, fault: Fault, runs: Path) -> Applied:
    """Do the fault, prove it, and leave it acting: `start_again` or `highwater heal` ends it.

    Its intent is written to runs/<run>/intent.jsonl first.

    Raises:
        HarnessError: the fault is not possible here, acts only while its harness lives, or was not
            done.
    """
    refuse_impossible(cluster, fault)
    if not isinstance(fault, LEFT):
        raise HarnessError(f"{say_fault(fault)}: it acts only while the command that did it runs")
    intents = IntentLog(runs / cluster.run_id / INTENTS, time.monotonic_ns)
    try:
        done = do_now(cluster, ContainerFaults(cluster, intents), fault)
    finally:
        intents.close()
    return Applied(cluster.run_id, fault, done.node, done.proof)


def start_again(cluster: Cluster, words: str, runs: Path) -> tuple[int, str]:
    """End what was left acting on the node, and start it if it is down; return it, and the proof.

    words: the node's name.

    Raises:
        HarnessError: there is no such node, or it does not answer in time.
    """
    node = _node_named(cluster, words)
    path = runs / cluster.run_id / INTENTS
    acting = acting_faults(path) if path.exists() else []
    numbers = [each.number for each in acting if each.node == node]
    intents = IntentLog(path, time.monotonic_ns)
    try:
        for number in numbers:
            intents.write(number, Phase.REVERTING)
        _bring_back(cluster, node, intents)
        eventually(
            lambda: cluster.try_snapshot(node) is not None,
            within=ANSWERS_WITHIN_S,
            what=f"{words} answers",
            state=lambda: cluster.status(node),
        )
        for number in numbers:
            intents.write(number, Phase.REVERTED, seen="it answers")
    except NeverHappened as error:
        raise HarnessError(str(error)) from error
    finally:
        intents.close()
    return node, "it answers"


def _bring_back(cluster: Cluster, node: NodeId, intents: IntentLog) -> None:
    status = cluster.status(node)
    if status == "paused":
        cluster.unpause(node)
    elif status == "gone":
        name = cluster.topology.node(node).name
        raise HarnessError(f"{name} has no container: {why_gone(cluster)}")
    elif status in STOPPED:
        intents.write(NO_FAULT, Phase.STARTING, node=int(node))
        cluster.start_node(node)


def _node_named(cluster: Cluster, words: str) -> NodeId:
    names = {cluster.topology.node(node).name: node for node in cluster.node_ids}
    if words not in names:
        raise HarnessError(f"no broker or controller {words!r}; there are {', '.join(names)}")
    return names[words]


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
