"""A trial: a stock producer's load upon a running cluster, whole-node faults, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from highwater.cluster.cluster import KILLED_EXIT_CODE, Cluster
from highwater.cluster.settling import await_full_isr, await_replicated, look_at
from highwater.run_folder import RunFolder
from highwater.runs.build import write_build
from highwater.runs.clock import RunClock
from highwater.runs.workload import HistoryRecorder, ProducerWorkload
from highwater.waiting import eventually
from highwater_checker.judging import judge_run
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import (
    FINAL_LOOK,
    PROMISES,
    REQUIREMENTS,
    PromisedProducer,
    PromisedTopic,
    Promises,
)
from highwater_checker.verdict import Requirement, Verdict

WITHIN_S = 45.0


class Trial:
    """Writes with acks=all to one topic, which exists, while its caller does harm.

    >>> trial.write()
    >>> trial.await_more_acknowledged(200)
    >>> trial.kill(0)
    >>> trial.restart(0)
    >>> verdict = trial.conclude()
    """

    def __init__(
        self,
        cluster: Cluster,
        folder: RunFolder,
        *,
        topic: str,
        partition_count: int,
        records_per_second: int = 300,
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partition_count = partition_count
        self._folder = folder
        self._records_per_second = records_per_second
        write_build(folder)
        self._clock = RunClock.begin(folder)
        self._workload: ProducerWorkload | None = None
        self._writers = 0
        self._acknowledged_before = 0
        self._requirements: list[Requirement] = []

    # ------------------------------------------------------------ load

    def write(self) -> None:
        """Begin to write; each producer is a process of its own in the history."""
        process = f"producer-{self._writers}"
        self._writers += 1
        self._workload = ProducerWorkload(
            bootstrap=self.cluster.bootstrap,
            topic=self.topic,
            partition_count=self.partition_count,
            records_per_second=self._records_per_second,
            recorder=HistoryRecorder(
                self._folder.path / "history" / f"{process}.jsonl", self._clock.start_monotonic_ns
            ),
            process=process,
        )
        self._workload.start()

    def stop_writing(self) -> None:
        """End the load; returns when every record has its outcome."""
        if self._workload is not None:
            workload, self._workload = self._workload, None
            self._acknowledged_before += workload.stop().acknowledged

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        running = self._workload.progress().acknowledged if self._workload else 0
        return self._acknowledged_before + running

    def await_more_acknowledged(self, count: int, *, within: float = WITHIN_S) -> None:
        """Return when so many more records than now are acknowledged."""
        goal = self.acknowledged + count
        eventually(
            lambda: self.acknowledged >= goal,
            within=within,
            what=f"{count} more acknowledged records",
            state=lambda: f"{self.acknowledged} of {goal}\n{self._describe()}",
        )

    def _describe(self) -> str:
        workload = "nobody writes" if self._workload is None else self._workload.describe()
        return f"{workload}\n{self.cluster.describe()}"

    # ------------------------------------------------------------ faults

    def kill(self, *nodes: int) -> None:
        """SIGKILL the nodes at once; that they died of it is a requirement of the verdict."""
        with ThreadPoolExecutor(len(nodes), thread_name_prefix="kill") as pool:
            list(pool.map(self.cluster.kill, nodes))
        for node in nodes:
            code = self.cluster.exit_code(node)
            self.require(
                f"node {node} died of SIGKILL", code == KILLED_EXIT_CODE, f"exit code {code}"
            )

    def restart(self, *nodes: int) -> None:
        """Start stopped nodes at once; returns before they serve."""
        with ThreadPoolExecutor(len(nodes), thread_name_prefix="start") as pool:
            list(pool.map(self.cluster.start_node, nodes))

    def require(self, name: str, met: bool, evidence: object) -> None:
        """Note something without which the trial proves nothing."""
        self._requirements.append(Requirement(name, met, str(evidence)))

    # ------------------------------------------------------------ verdict

    def conclude(self, *, at_least: int = 100, extra_topics: Sequence[str] = ()) -> Verdict:
        """End the load, wait until all is replicated, stop the nodes, and judge what they left."""
        self.stop_writing()
        await_full_isr(self.cluster, self.topic, self.partition_count, within=WITHIN_S)
        await_replicated(self.cluster, self.topic, self.partition_count, within=WITHIN_S)
        final_look = look_at(self.cluster)
        self.cluster.collect(self._folder.path)
        factor = self.cluster.topology.brokers
        topics = (
            PromisedTopic(self.topic, self.partition_count, factor),
            *(PromisedTopic(each, 0, factor) for each in extra_topics),
        )
        producers = tuple(PromisedProducer(f"producer-{n}") for n in range(self._writers))
        self._folder.write(PROMISES, Promises(topics, producers, least_acknowledged=at_least))
        self._folder.write(REQUIREMENTS, tuple(self._requirements))
        self._folder.write(FINAL_LOOK, final_look)
        verdict = judge_run(self._folder.path)
        self._folder.write_json(names.VERDICT, verdict)
        return verdict
