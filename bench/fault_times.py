"""Times every fault on one cluster: until it acts, until that is proven, until it is proven gone.

Beside each fault, in the same turn, the bare call of the engine that does the least of it is timed.
The difference is the cost of proof, intent log and undo.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from highwater.cluster.cluster import Cluster
from highwater.cluster.images import ensure_faults_image
from highwater.cluster.settling import look_at
from highwater.cluster.topology import ZOOKEEPER, Topology
from highwater.errors import HarnessError
from highwater.faults.done import NotDone
from highwater.faults.examples import TOPIC, example_name
from highwater.faults.helpers import run_helper
from highwater.faults.intents import IntentLog
from highwater.faults.on_containers import ContainerFaults
from highwater.run_folder import new_run_id
from highwater.runs.plans.conditions import find_node
from highwater.waiting import eventually
from highwater_chaos import faults as f
from highwater_checker.run_folder.names import INTENTS

Say = Callable[[str], None]
NODE = 1
"""The node of the examples."""
POSSIBLE_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class FaultTimes:
    """The times of one fault, in seconds from the request to do it, or to undo it.

    acts_s: to the fault's effect; None where neither the fault nor the engine reports that moment,
        which is before proven_s.
    proven_s: to its proof.
    gone_s: from the request to undo it, to the proof of its end.
    """

    acts_s: float | None
    proven_s: float
    gone_s: float


@dataclass(frozen=True, slots=True)
class Bare:
    """The engine's plain calls that do, and undo, the least of a fault."""

    what: str
    do: Callable[[Cluster], object]
    undo: Callable[[Cluster], object]


def _kill(node: int) -> Callable[[Cluster], None]:
    def kill(cluster: Cluster) -> None:
        name = cluster.container_name(node)
        cluster.engine.api.kill(name)
        cluster.engine.api.wait(name)

    return kill


def _start(node: int) -> Callable[[Cluster], None]:
    return lambda cluster: cluster.engine.api.start(cluster.container_name(node))


def _run_idle_helper(cluster: Cluster) -> None:
    run_helper(
        cluster.engine,
        ensure_faults_image(cluster.engine),
        ["-c", "pass"],
        cluster.labels,
        entrypoint=["python3"],
        network_mode=f"container:{cluster.container_name(NODE)}",
        cap_add=["NET_ADMIN"],
    )


KILL = Bare("kill and wait, start", _kill(NODE), _start(NODE))
HELPER = Bare("a helper that does nothing", _run_idle_helper, _run_idle_helper)
BARE: Mapping[type[f.Fault], Bare] = {
    f.Kill: KILL,
    f.CrashLoop: KILL,
    f.FlipBit: KILL,
    f.PowerLoss: KILL,
    f.Terminate: Bare(
        "stop, start",
        lambda cluster: cluster.engine.api.stop(cluster.container_name(NODE)),
        _start(NODE),
    ),
    f.Pause: Bare(
        "pause, unpause",
        lambda cluster: cluster.engine.api.pause(cluster.container_name(NODE)),
        lambda cluster: cluster.engine.api.unpause(cluster.container_name(NODE)),
    ),
    f.RestartZooKeeper: Bare("kill ZooKeeper and wait, start", _kill(ZOOKEEPER), _start(ZOOKEEPER)),
    f.PauseZooKeeper: Bare(
        "pause ZooKeeper, unpause",
        lambda cluster: cluster.engine.api.pause(cluster.container_name(ZOOKEEPER)),
        lambda cluster: cluster.engine.api.unpause(cluster.container_name(ZOOKEEPER)),
    ),
    f.Cut: HELPER,
    f.Isolate: HELPER,
    f.LossyLink: HELPER,
    f.SlowLink: HELPER,
    f.LimitBandwidth: HELPER,
    f.SlowZooKeeper: HELPER,
    f.HalfOpen: HELPER,
    f.DiskFull: HELPER,
    f.ResetConnections: HELPER,
    f.LoseZooKeeperConnection: HELPER,
}
"""By kind; faults that are done by our request to a node have none."""

ACTS_WITH: Mapping[type[f.Fault], str] = {
    f.Kill: "die",
    f.CrashLoop: "die",
    f.FlipBit: "die",
    f.PowerLoss: "die",
    f.Terminate: "die",
    f.Pause: "pause",
    f.PauseZooKeeper: "pause",
    f.RestartZooKeeper: "die",
}
"""The engine's event that shows when a fault of a kind acts, where its proof does not."""


@dataclass(slots=True)
class Samples:
    """The times of each turn.

    ours: by example_name.
    bare: the seconds to do and to undo each bare call, by its description.
    """

    ours: dict[str, list[FaultTimes]] = field(default_factory=dict)
    bare: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


def measure_faults(examples: Sequence[f.Fault], folder: Path, repeat: int, say: Say) -> Samples:
    """Do each example repeat times, in turns with its bare calls; the cluster is removed after.

    Several kinds share bare calls, which are measured with the first of them.

    Raises:
        HarnessError: a fault was not undone, so that later times would be of a damaged cluster.
        NeverHappened: a fault could not be done.
    """
    samples = Samples()
    with _cluster_and_faults(examples, folder) as (cluster, faults):
        for fault in examples:
            times = samples.ours[example_name(fault)] = []
            for _ in range(repeat):
                times.append(_time_fault_once_possible(cluster, faults, fault))
                cluster.wait_until_ready()
                say(f"{example_name(fault)}: {times[-1]}")
                bare = BARE.get(type(fault))
                if bare is not None and len(samples.bare.setdefault(bare.what, [])) < repeat:
                    samples.bare[bare.what].append(_time_bare(cluster, bare))
                    cluster.wait_until_ready()
        if problems := faults.heal_all():
            raise HarnessError("\n".join(problems))
    return samples


@contextmanager
def _cluster_and_faults(
    examples: Sequence[f.Fault], folder: Path
) -> Iterator[tuple[Cluster, ContainerFaults]]:
    with Cluster(
        Topology(controllers=1),
        new_run_id("bench"),
        sized_disks=True,
        faulty_disks=True,
        movable_clocks=True,
    ) as cluster:
        cluster.start()
        intents = IntentLog(folder / INTENTS, time.monotonic_ns)
        faults = ContainerFaults(cluster, intents)
        faults.get_ready(examples)
        faults.apply(TOPIC, lambda words: None)
        yield cluster, faults
        intents.close()


def _time_fault_once_possible(
    cluster: Cluster, faults: ContainerFaults, fault: f.Fault
) -> FaultTimes:
    """Time the fault; first wait until a broken connection is open again."""
    times: FaultTimes = eventually(
        lambda: _time_fault(cluster, faults, fault),
        within=POSSIBLE_WITHIN_S,
        what=f"{example_name(fault)} can be done",
        retry_on=NotDone,
    )
    return times


def _time_fault(cluster: Cluster, faults: ContainerFaults, fault: f.Fault) -> FaultTimes:
    names = {spec.name: int(spec.node_id) for spec in cluster.topology.nodes()}
    look = look_at(cluster)
    asked_ns, asked_at_ns = time.monotonic_ns(), time.time_ns()
    done = faults.apply(fault, lambda words: find_node(look, names, words))
    proven_ns = time.monotonic_ns()
    done.revert()
    gone_ns = time.monotonic_ns()
    acts_ns = None if done.acted_ns is None else done.acted_ns - asked_ns
    if acts_ns is None and done.node is not None and type(fault) in ACTS_WITH:
        event_ns = _event_ns(cluster, done.node, ACTS_WITH[type(fault)], asked_at_ns)
        acts_ns = event_ns - asked_at_ns
    return FaultTimes(
        None if acts_ns is None else acts_ns / 1e9,
        (proven_ns - asked_ns) / 1e9,
        (gone_ns - proven_ns) / 1e9,
    )


def _event_ns(cluster: Cluster, node: int, action: str, since_ns: int) -> int:
    """Return the wall-clock time of the engine's event about the node's container.

    Raises:
        HarnessError: there is no such event.
    """
    filters = {"container": cluster.container_name(node), "event": action}
    events = cluster.engine.api.events(
        since=since_ns // 10**9, until=int(time.time()) + 1, filters=filters, decode=True
    )
    for event in events:
        if int(event["timeNano"]) >= since_ns:
            return int(event["timeNano"])
    raise HarnessError(f"the engine tells of no {action} of node {node}")


def _time_bare(cluster: Cluster, bare: Bare) -> tuple[float, float]:
    began = time.perf_counter()
    bare.do(cluster)
    done = time.perf_counter()
    bare.undo(cluster)
    return done - began, time.perf_counter() - done
