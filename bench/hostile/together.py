"""All deeds, honest producers at load and faults on nodes together, for a given time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.hostile.greedy import Deed
from bench.hostile.harm import RECOVERED_WITHIN_S, Harm
from bench.hostile.honest import Audit, FullLoad, audit
from bench.hostile.scene import PARTITIONS, TOPIC, Scene, brought_up
from bench.hostile.troop import Troop
from bench.hostile.watching import MemoryWatch, Prober
from bench.summary import format_number
from highwater.cluster.settling import await_full_isr, await_replicated
from highwater.cluster.topics import create_topic

HONEST, HONEST_PARTITIONS = "honest", 6
_RETENTION_BYTES, _SEGMENT_BYTES = 64 << 20, 16 << 20
_FAULT_EVERY_S = 20.0
_MEMORY_EVERY_S = 10.0
_MAY_GROW_MIB = 64.0
"""Allowed growth of the median from a run's first quarter to its last: buffers and caches."""


@dataclass(frozen=True, slots=True)
class Together:
    """The results of a run. memory_mib: samples of each node. starts, incarnations: by node."""

    minutes: float
    seed: int
    deeds: Mapping[str, int]
    failed: Mapping[str, Mapping[str, int]]
    faults: Mapping[str, int]
    acknowledged: int
    not_acknowledged: Mapping[str, int]
    audit: Audit
    status: Mapping[int, str]
    starts: Mapping[int, int]
    incarnations: Mapping[int, int]
    memory_mib: Mapping[int, Sequence[float]]
    probes: Mapping[int, tuple[int, int, float, float, float]]
    """By broker: requests, unanswered ones, p50, p99 and longest in ms; without times of faults."""
    trouble: str


def run_together(
    deeds: Mapping[str, Deed],
    seed: int,
    minutes: float,
    megabytes_per_s: float,
    say: Callable[[str], None],
) -> Together:
    """Run all of it on a cluster of its own, and return the results."""
    with brought_up(say) as scene:
        create_topic(
            scene.cluster,
            HONEST,
            partition_count=HONEST_PARTITIONS,
            config={
                "min.insync.replicas": "2",
                "retention.bytes": str(_RETENTION_BYTES),
                "segment.bytes": str(_SEGMENT_BYTES),
            },
        )
        return _run(scene, deeds, seed, minutes, megabytes_per_s, say)


def _run(
    scene: Scene,
    deeds: Mapping[str, Deed],
    seed: int,
    minutes: float,
    megabytes_per_s: float,
    say: Callable[[str], None],
) -> Together:
    cluster, target = scene.cluster, scene.target
    topics = {HONEST: HONEST_PARTITIONS, TOPIC: PARTITIONS}
    load = FullLoad(
        cluster.bootstrap, HONEST, HONEST_PARTITIONS, max_megabytes_per_s=megabytes_per_s
    )
    probers = {broker: Prober(endpoint) for broker, endpoint in target.brokers.items()}
    memory = MemoryWatch(cluster, _MEMORY_EVERY_S)
    troop = Troop(target, deeds, seed, threads=3, pause_s=0.2)
    harm = Harm(cluster, topics, probers, seed, every_s=_FAULT_EVERY_S, say=say)
    for start in (load.start, memory.start, troop.start, harm.start):
        start()
    for prober in probers.values():
        prober.start()
    trouble = _watch(load, troop, harm, minutes, say)
    for part in (harm, troop, load):
        try:
            part.stop()
        except (RuntimeError, TimeoutError) as error:
            trouble = trouble or f"{error}: {error.__cause__}"
    for topic, count in topics.items():
        await_full_isr(cluster, topic, count, within=RECOVERED_WITHIN_S)
        await_replicated(cluster, topic, count, within=RECOVERED_WITHIN_S)
    say("everything is replicated; looking up the acknowledged records")
    waits = {broker: prober.stop() for broker, prober in probers.items()}
    samples = memory.stop()
    found = audit(cluster.bootstrap, HONEST, load)
    status = {int(node): cluster.status(node) for node in cluster.node_ids}
    return Together(
        minutes,
        seed,
        troop.done,
        troop.failed,
        harm.done,
        load.acknowledged,
        load.failures,
        found,
        status,
        harm.starts,
        {
            int(node): cluster.snapshot(node, timeout_s=10).incarnation
            for node in cluster.node_ids
            if status[int(node)] == "running"
        },
        {node: [round(each / 2**20, 1) for each in of] for node, of in samples.items()},
        {
            broker: (len(each.ms), each.failures, each.at(50), each.at(99), max(each.ms, default=0))
            for broker, each in waits.items()
        },
        trouble,
    )


def _watch(
    load: FullLoad, troop: Troop, harm: Harm, minutes: float, say: Callable[[str], None]
) -> str:
    """Report progress now and then; return "" at the end, or the problem that ended the run."""
    end_s = time.monotonic() + minutes * 60
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(30.0, left_s))
        deeds, faults = sum(troop.done.values()), sum(harm.done.values())
        say(f"{load.acknowledged} acknowledged, {deeds} deeds, {faults} faults")
        trouble = harm.trouble or troop.trouble
        if trouble:
            return trouble
    return ""


def judge(result: Together) -> list[str]:
    """Return the run's problems, one line each."""
    wrong = [f"stopped early: {result.trouble}"] if result.trouble else []
    wrong += [
        f"node {node} is {status}" for node, status in result.status.items() if status != "running"
    ]
    wrong += [
        f"node {node} was started {result.starts[node]} times by us, {incarnation} in all"
        for node, incarnation in result.incarnations.items()
        if incarnation != result.starts[node]
    ]
    if result.audit.lost:
        wrong.append(f"{result.audit.lost} acknowledged records are lost: {result.audit.examples}")
    if not result.audit.looked_up:
        wrong.append("no acknowledged record could be looked up")
    wrong += [f"nobody did {name}" for name, count in result.deeds.items() if not count]
    for node, samples in result.memory_mib.items():
        quarter = max(1, len(samples) // 4)
        first, last = _median(samples[:quarter]), _median(samples[-quarter:])
        if last > first + _MAY_GROW_MIB:
            wrong.append(f"node {node} grew from {first:.0f} to {last:.0f} MiB")
    return wrong


def _median(samples: Sequence[float]) -> float:
    return sorted(samples)[len(samples) // 2] if samples else 0.0


def print_together(console: Console, result: Together) -> None:
    nodes = Table(title=f"{result.minutes:g} minutes, seed {result.seed}: the nodes")
    for column in ("node", "status", "starts", "MiB first", "most", "last", "p50 ms", "p99 ms",
                   "longest ms", "unanswered"):  # fmt: skip
        nodes.add_column(column, justify="right")
    for node, status in result.status.items():
        memory = result.memory_mib[node] or [0.0]
        probes = result.probes.get(node)
        times = [format_number(ms) for ms in probes[2:]] if probes else ["–"] * 3
        nodes.add_row(
            str(node),
            status,
            str(result.starts[node]),
            *(f"{mib:.0f}" for mib in (memory[0], max(memory), memory[-1])),
            *times,
            str(probes[1]) if probes else "–",
        )
    console.print(nodes)
    deeds = Table(title="what was done")
    deeds.add_column("deed or fault")
    deeds.add_column("times", justify="right")
    deeds.add_column("not at that moment", justify="right")
    for name, count in result.deeds.items():
        deeds.add_row(name, str(count), str(sum(result.failed[name].values())))
    for name, count in result.faults.items():
        deeds.add_row(name, str(count), "")
    console.print(deeds)
    found = result.audit
    console.print(
        f"{result.acknowledged:,} records acknowledged, {found.looked_up:,} looked up, "
        f"{found.let_go:,} let go by retention, {found.lost:,} lost"
    )
