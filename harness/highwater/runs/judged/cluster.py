"""The cluster of a test, whose evidence is recorded from its start and judged at its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import docker

from highwater.cluster.builds import NodeBuild
from highwater.cluster.cluster import READY_WITHIN_S, STOP_WITHIN_S, Cluster
from highwater.cluster.labels import Lease
from highwater.cluster.stacks import all_stacks
from highwater.cluster.topology import Topology
from highwater.errors import ClusterStartFailed, HarnessError
from highwater.faults.done import Done
from highwater.run_folder import RunFolder
from highwater.runs.build import write_mixed_builds
from highwater.runs.chaos.single import fault_of
from highwater.runs.judged.consuming import RecordedConsumer
from highwater.runs.judged.faults_by_hand import FaultsByHand
from highwater.runs.judged.producing import RecordedProducer
from highwater.runs.judged.recording import Recording
from highwater.runs.plans.outcome import list_evidence
from highwater.runs.reporting import write_pages
from highwater.waiting import NeverHappened
from highwater_chaos import faults as f
from highwater_checker.judging import judge_evidence
from highwater_checker.run_folder.documents import VERDICT
from highwater_checker.run_folder.evidence import read_evidence
from highwater_checker.verdict import Outcome, Verdict


class JudgedCluster(Cluster):
    """A cluster whose folder has what `judge_run` needs; `judge` ends the run.

    Faults by its own functions have intents in the folder. Only clients that it made, by `producer`
    and `consumer`, have histories.
    """

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        *,
        may_stay: bool = False,
        sized_disks: bool = False,
        faulty_disks: bool = False,
        movable_clocks: bool = False,
        images: Mapping[int, NodeBuild | str] | None = None,
        engine: docker.DockerClient | None = None,
    ) -> None:
        """folder: is made by `start`; its name is the run's id.

        may_stay: `leave_up` may be called. Nobody removes the cluster of a process that is killed.
        sized_disks, faulty_disks, movable_clocks, images: as of Cluster.
        """
        lease = Lease.KEPT if may_stay else Lease.OWNED
        super().__init__(
            topology,
            folder.name,
            lease=lease,
            sized_disks=sized_disks,
            faulty_disks=faulty_disks,
            movable_clocks=movable_clocks,
            images=images,
            engine=engine,
        )
        self.folder = folder
        self.has_failed = False
        """Whether a test of it failed."""
        self._recording: Recording | None = None

    def start(self, *, ready_within_s: float = READY_WITHIN_S) -> Self:
        """Bring the cluster up, and record from now on.

        Raises:
            ClusterStartFailed: it did not come up; there is no folder then.
        """
        super().start(ready_within_s=ready_within_s)
        self._recording = Recording(self, RunFolder(self.folder))
        return self

    def wait_until_ready(self, *, within_s: float = READY_WITHIN_S) -> None:
        try:
            super().wait_until_ready(within_s=within_s)
        except ClusterStartFailed as error:
            if isinstance(error.__cause__, NeverHappened):  # otherwise a node's process ended
                error.add_note(all_stacks(self))
            raise

    def stop(self) -> None:
        try:
            if self._recording is not None:
                self._recording.end()
        finally:
            super().stop()

    # ------------------------------------------------------------ clients with a history

    def producer(self, config: Mapping[str, Any] | None = None) -> RecordedProducer:
        """Return a producer of librdkafka with this configuration; its sends are judged."""
        return self._recorded.producer(config or {})

    def consumer(self, topic: str, config: Mapping[str, Any] | None = None) -> RecordedConsumer:
        """Return a consumer that reads all of an existing topic; its reads are judged.

        At the end of the run it reads on until it has read all.
        """
        return self._recorded.consumer(topic, config or {})

    # ------------------------------------------------------------ faults, with their intents

    def kill(self, node: int) -> None:
        with self._faults.doing(node, f.Kill(self._name(node))):
            super().kill(node)

    def terminate(self, node: int, *, within_s: int = STOP_WITHIN_S) -> int:
        with self._faults.doing(node, f.Terminate(self._name(node))):
            return super().terminate(node, within_s=within_s)

    def start_node(self, node: int) -> None:
        with self._faults.starting(node):
            super().start_node(node)

    def pause(self, node: int) -> None:
        with self._faults.doing(node, f.Pause(self._name(node))):
            super().pause(node)

    def unpause(self, node: int) -> None:
        with self._faults.undoing(node, f.Pause):
            super().unpause(node)

    def cut_off(self, node: int) -> None:
        with self._faults.doing(node, f.Isolate(self._name(node))):
            super().cut_off(node)

    def rejoin(self, node: int) -> None:
        with self._faults.undoing(node, f.Isolate):
            super().rejoin(node)

    def fault(self, fault: f.Fault | str, /, **fields: Any) -> AbstractContextManager[Done]:
        """Return a block in which the fault acts: proven as it begins, undone with proof.

        fault: Cut("leader of t-0", "any", "replication"), of highwater_chaos.faults, or its kind,
            with the fields that a plan has: fault("cut", source="leader of t-0", target="any",
            plane="replication"). It acts until the block ends, whatever its for_ms.
        Source: docs/reference/faults.md has all kinds.

        Raises:
            HarnessError: there is no such fault. The block raises it where the fault is not
                possible here, was not done, or was not undone.
        """
        if isinstance(fault, str):
            fault = fault_of(fault, fields)
        elif fields:
            raise HarnessError(f"{fault} has its fields: {', '.join(fields)} besides mean nothing")
        return self._recorded.proven_faults.acting(fault)

    # ------------------------------------------------------------ the end

    def judge(self, accepted: Collection[Outcome] = (Outcome.PASS, Outcome.UNKNOWN)) -> Verdict:
        """End the run: stop its nodes, copy their files into the folder, and judge it.

        Nodes that the test left down stay so. The run's pages are written where a test of the
        cluster failed, the verdict is fail, or it is none of the accepted ones.

        Raises:
            HarnessError: the test removed its cluster, so that there is nothing to judge.
        """
        recording = self._recorded
        if all(self.status(node) == "gone" for node in self.node_ids):
            raise HarnessError("its cluster was removed before its end, and cannot be judged")
        recording.conclude()
        self.collect(self.folder)
        write_mixed_builds(recording.folder, self)
        list_evidence(recording.folder)
        evidence = read_evidence(self.folder)
        verdict = judge_evidence(evidence)
        recording.folder.write(VERDICT, verdict)
        is_told = verdict.outcome is Outcome.FAIL or verdict.outcome not in accepted
        if is_told or self.has_failed:  # of others `highwater report` writes them
            write_pages(recording.folder, evidence, verdict)
        return verdict

    # ------------------------------------------------------------ inside

    @property
    def _recorded(self) -> Recording:
        if self._recording is None:
            raise HarnessError("the cluster was not started: nothing is recorded")
        return self._recording

    @property
    def _faults(self) -> FaultsByHand:
        return self._recorded.faults

    def _name(self, node: int) -> str:
        return self.topology.node(node).name
