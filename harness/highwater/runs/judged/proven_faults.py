"""Faults of the table that a test does to its cluster for a block, proven and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import look_at
from highwater.errors import HarnessError, ImageBuildFailed
from highwater.faults.done import Done, NotDone
from highwater.faults.intents import IntentLog
from highwater.faults.links.acting import NotProven
from highwater.faults.links.namespaces import NotInNamespace
from highwater.faults.on_containers import ContainerFaults
from highwater.runs.chaos.single import refuse_impossible
from highwater.runs.judged.faults_by_hand import FaultsByHand
from highwater.runs.plans.conditions import find_node
from highwater_chaos.faults import Fault


class ProvenFaults:
    """A test's faults; while one is done the cluster's own functions write no intents."""

    def __init__(self, cluster: Cluster, intents: IntentLog, by_hand: FaultsByHand) -> None:
        self._cluster = cluster
        self._by_hand = by_hand
        self._faults = ContainerFaults(cluster, intents)
        self._are_used = False

    @contextmanager
    def acting(self, fault: Fault) -> Iterator[Done]:
        """Do the fault and prove it; when the block ends take it back, with proof.

        Raises:
            HarnessError: it is not possible here, was not done, or was not taken back.
        """
        refuse_impossible(self._cluster, fault)
        with self._by_hand.quiet():
            done = self._do(fault)
        try:
            yield done
        finally:
            before = len(self._faults.problems)
            with self._by_hand.quiet():
                done.revert()
            problems = self._faults.problems[before:]
        if problems:
            raise HarnessError("\n".join(problems))

    def _do(self, fault: Fault) -> Done:
        names = {spec.name: int(spec.node_id) for spec in self._cluster.topology.nodes()}
        self._are_used = True
        try:
            self._faults.get_ready([fault])
            look = look_at(self._cluster)
            return self._faults.apply(fault, lambda words: find_node(look, names, words))
        except (NotDone, NotInNamespace, NotProven, ImageBuildFailed) as error:
            raise HarnessError(f"not done: {error}") from error

    def end(self) -> None:
        """Take back what is left of them; again is harmless."""
        if self._are_used:
            with self._by_hand.quiet():
                self._faults.heal_all()
