"""Faults of the table that a test does to its cluster for a block, proven and undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from highwater.cluster.cluster import Cluster
from highwater.errors import HarnessError
from highwater.faults.done import Done
from highwater.faults.intents import IntentLog
from highwater.faults.on_containers import ContainerFaults
from highwater.runs.chaos.single import do_now, refuse_impossible
from highwater.runs.judged.faults_by_hand import FaultsByHand
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
        """Do the fault and prove it; when the block ends undo it, with proof.

        Raises:
            HarnessError: it is not possible here, was not done, or was not undone.
        """
        refuse_impossible(self._cluster, fault)
        self._are_used = True
        with self._by_hand.quiet():
            done = do_now(self._cluster, self._faults, fault)
        try:
            yield done
        except BaseException as error:
            for problem in self._undo(done):  # the block's own error comes first
                error.add_note(problem)
            raise
        if problems := self._undo(done):
            raise HarnessError("\n".join(problems))

    def _undo(self, done: Done) -> tuple[str, ...]:
        """Undo the fault, and return what could not be undone or was not proven."""
        before = len(self._faults.problems)
        with self._by_hand.quiet():
            done.revert()
        return self._faults.problems[before:]

    def end(self) -> None:
        """Undo the faults that still act; again is harmless."""
        if self._are_used:
            with self._by_hand.quiet():
                self._faults.heal_all()
