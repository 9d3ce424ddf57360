"""The clients' process of a plan (RunningLoad) on simulated ports instead of sockets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from highwater_chaos.plan import Consumer, Group, Producer, Topic, Workload
from highwater_checker.history import POLL, HistoryEvent, sends_of
from highwater_client.load_job import LoadJob
from highwater_client.running_load import LoadReport, RunningLoad
from highwater_core.ids import TopicPartition
from highwater_core.ports import Rng, Transport
from highwater_core.runtime import Queue, Runtime
from highwater_simulator.client import SimulatedClient
from highwater_simulator.world import World

WORKLOAD = Workload(
    topics=(Topic(partitions=2, min_insync_replicas=2),),
    producers=(Producer(rate_per_s=50), Producer(rate_per_s=50, acks=1)),
    consumers=(Consumer(),),
    groups=(Group(members=1, stays_ms=400),),
)


@dataclass
class SimulatedProcess:
    """A client program's interface to its process, over a simulated client's ports."""

    client: SimulatedClient
    rngs: Callable[[str], Rng]
    told: list[LoadReport] = field(default_factory=list)
    files: dict[str, list[HistoryEvent]] = field(default_factory=dict)
    inbox: Queue[str] | None = None

    @property
    def runtime(self) -> Runtime:
        return self.client.runtime

    @property
    def commands(self) -> Queue[str]:
        if self.inbox is None:
            self.inbox = self.client.runtime.queue()
        return self.inbox

    def transport(self, name: str) -> Transport:
        return self.client.transport

    def rng(self, name: str, seed: int) -> Rng:
        return self.rngs(f"{name}/{seed}")

    def line_file(self, path: str) -> Callable[[Any], None]:
        return self.files.setdefault(path, []).append

    def tell(self, value: Any) -> None:
        self.told.append(value)

    def done(self) -> list[tuple[str, str]]:
        return [(report.done, report.error) for report in self.told if report.done]


def is_replicated(world: World) -> bool:
    return all(world.is_replicated(TopicPartition("t", n), world.brokers) for n in range(2))


def test_load_creates_topics_writes_reads_to_the_end_and_tells() -> None:
    world = World(3)
    client = world.client("load")
    process = SimulatedProcess(client, world.rng.stream)
    job = LoadJob(tuple(client.bootstrap), WORKLOAD, 9, 0, "history")
    commands = process.commands
    load = RunningLoad(job, process)

    async def story() -> None:
        world.start_all()
        task = client.runtime.start("load", load.run())
        await world.eventually(lambda: process.done() == [("create", "")], 20_000, "topics")
        await world.eventually(lambda: is_replicated(world), 20_000, "full ISRs")
        commands.put("start")
        await world.sleep(1_000)
        for command in ("stop", "dance", "read"):
            commands.put(command)
        await world.eventually(lambda: process.done()[-1][0] == "read", 20_000, "the end")
        commands.put("quit")
        await world.eventually(task.is_done, 1_000, "the process's end")

    try:
        world.run(story(), 100_000)
    finally:
        world.close()
    assert process.done()[1:] == [
        ("start", ""), ("stop", ""), ("dance", "there is no such command"), ("read", ""),
    ]  # fmt: skip
    assert set(process.files) == {f"history/{name}.jsonl" for name in ("p0", "p1", "c0", "g0m0")}
    sends = [sends_of(process.files[f"history/p{number}.jsonl"]) for number in range(2)]
    last = process.told[-1]
    assert last.acknowledged == last.sent == sum(len(each.acknowledged) for each in sends) > 50
    member = process.files["history/g0m0.jsonl"]
    read_by_group = {(e.partition, e.offset) for e in member if e.function == POLL}
    assert len(read_by_group) == last.acknowledged
    assert last.read >= 2 * last.acknowledged
    assert any(report.done == "" for report in process.told), "progress is told meanwhile"
