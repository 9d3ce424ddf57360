"""The files of sound simulated runs: with a failover, and with compaction and a group's commits."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from highwater.run_folder import RunFolder
from highwater.runs.plans.promises import promises_in_simulator
from highwater.runs.simulated_evidence import (
    look_at,
    starts_of,
    write_clock,
    write_histories,
    write_intents,
    write_lines,
    write_looks,
    write_segments,
    write_traces,
)
from highwater.search.judging import watched
from highwater_chaos import faults as f
from highwater_chaos.plan import Consumer, Plan, PlanTopology, Producer, Step, Topic, Workload
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    EXCUSED,
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    WATCHED,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_client.recorder import HistoryRecorder
from highwater_core.ids import TopicPartition
from highwater_simulator.client import SimulatedClient
from highwater_simulator.liveness import Core
from highwater_simulator.runner import PlanRun
from highwater_simulator.world import World
from tests.support.committer import OffsetCommitter
from tests.support.failover_story import ORDERS, failover

Folder = Mapping[str, bytes]
"""Contents by the path in the run's folder."""


def _with_a_failover(folder: RunFolder) -> None:
    """One record at a time, while its leader dies; no clock."""
    world = World(1)
    client = world.client("client-0")
    try:
        world.run(failover(world, client), 600_000)
        write_histories(folder, client.history)
        write_traces(folder, world.trace.entries)
        write_lines(folder, names.INTENTS, starts_of(world.trace.entries))
        write_segments(folder, world)
        topic = PromisedTopic(ORDERS.topic, 1, 3)
        folder.write(PROMISES, Promises((topic,), (PromisedProducer("client-0"),)))
        folder.write(FINAL_LOOK, look_at(world))
    finally:
        world.close()


PLAN = Plan(
    seed=1,
    topology=PlanTopology(
        broker_settings={
            "segment_bytes": 700,
            "min_cleanable_dirty_ratio": 0,
            "log_cleaner_backoff_ms": 130,
            "offsets_topic_partitions": 1,
        }
    ),
    workload=Workload(
        topics=(Topic(is_compacted=True, min_insync_replicas=2),),
        producers=(Producer(keys=4, rate_per_s=20, max_in_flight=5, idempotent=True),),
        consumers=(Consumer(),),
    ),
    steps=(
        Step(600, f.Kill("leader of t-0", 900)),
        Step(1_200, f.Kill("leader of __consumer_offsets-0", 900)),
    ),
    quiet_after_ms=2_400,
)
COMMITTED, COMMITS = TopicPartition("t", 0), 12


def _compacted(folder: RunFolder) -> None:
    """Keys of an idempotent producer are compacted, and a group commits, while leaders die."""

    def write_end(world: World, healed: Core | None) -> None:
        assert healed is not None, "the run did not settle"
        write_segments(folder, world)
        look = look_at(world, healed)
        folder.write(FINAL_LOOK, look)
        write_looks(folder, [look])

    run = PlanRun(PLAN, at_the_end=write_end)
    client = run.world.client("g1")
    recorder = HistoryRecorder(client.stamp_ns, "g1")
    client.runtime.scope("group").spawn("commits", _commits(client, recorder))
    result = run.run()
    write_histories(folder, [*result.history, *recorder.events], result.processes)
    write_traces(folder, result.trace.entries)
    write_clock(folder)
    write_intents(folder, result)
    folder.write(PROMISES, promises_in_simulator(PLAN, groups_are_served=result.groups_are_served))
    folder.write(WATCHED, watched(result))
    folder.write(EXCUSED, ())


async def _commits(client: SimulatedClient, recorder: HistoryRecorder) -> None:
    committer = OffsetCommitter(client.runtime, client.transport, client.bootstrap, "g", recorder)
    for number in range(COMMITS):
        await client.runtime.sleep(250)
        await committer.commit(COMMITTED, number)
        await committer.fetch(COMMITTED)


FAILOVER, COMPACTED = "failover", "compacted"
RUNS: Mapping[str, Callable[[RunFolder], None]] = {
    FAILOVER: _with_a_failover,
    COMPACTED: _compacted,
}


@functools.cache
def sound_run(name: str) -> Folder:
    """Return the files of the run of that name."""
    with tempfile.TemporaryDirectory(prefix="highwater-fuzz-") as place:
        folder = RunFolder(Path(place))
        RUNS[name](folder)
        folder.write(REQUIREMENTS, ())
        return {
            path.relative_to(place).as_posix(): path.read_bytes()
            for path in sorted(folder.path.rglob("*"))
            if path.is_file() and path.suffix in (".json", ".jsonl", ".log")
        }
