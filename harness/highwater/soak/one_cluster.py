"""The cluster of a soak that lives on: plans are rounds on it, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import docker.errors
import requests

from highwater.cluster.cluster import Cluster
from highwater.errors import HarnessError, NodeUnreachable
from highwater.faults.healing import baseline_problems
from highwater.report.screen import Screen
from highwater.run_folder import RunFolder
from highwater.runs.plans.in_containers import check_supported, run_on_cluster
from highwater.runs.stock.libraries import played_by
from highwater.soak.draws import Drawn
from highwater.soak.round_end import clean_up
from highwater.soak.round_evidence import RoundEvidence
from highwater.soak.usage import Sample, take_samples
from highwater.soak.world import RoundDone
from highwater.waiting import NeverHappened
from highwater_chaos.plan import Plan
from highwater_checker.verdict import Outcome

AFTER = "after"
"""In a run's folder: what the nodes had when its round had ended their cluster."""


_NOT_AT_REST = (
    HarnessError, NeverHappened, NodeUnreachable, docker.errors.APIError,
    requests.RequestException,
)  # fmt: skip
"""Errors of removing a round's topics and groups, and of looking at what is left of the round."""


class OneCluster:
    """One cluster, from its start to its end."""

    def __init__(self, run_id: str, number: int, plan: Plan, screen: Screen) -> None:
        """Make a cluster that `start` brings up.

        number: which one of the soak it is, from 1.
        plan: of its first round; all have one topology.
        """
        self.run_id = run_id
        self._number = number
        self._round = 0
        self._screen = screen
        self._cluster = Cluster(check_supported(plan), run_id=run_id, planted=plan.planted)
        self._evidence = RoundEvidence(self._cluster)

    def start(self) -> None:
        """Bring the nodes up.

        Raises:
            ClusterStartFailed: they did not come up, and are removed again.
        """
        self._cluster.start()
        self._screen.say(f"cluster {self._number} is up: {self.run_id}", style="bold")

    def play(self, drawn: Drawn, folder: Path) -> RoundDone:
        """Run the plan as the next round, and take its topics away again.

        Raises:
            HarnessError: the round has no verdict.
        """
        self._round += 1
        plan = played_by(drawn.client, drawn.plan)
        topics = [topic.name for topic in plan.workload.topics]
        done = run_on_cluster(
            self._cluster,
            plan,
            RunFolder(folder),
            self._screen,
            drawn.client,
            lambda run: self._evidence.copy(run.path, topics),
        )
        if done.result.verdict.outcome is Outcome.FAIL:
            return RoundDone(done.result, "the round failed")
        if done.unmet:
            return RoundDone(done.result, done.unmet[0])
        if self._evidence.has_grown_too_much:
            return RoundDone(
                done.result, "its rounds are compared with too many events before them"
            )
        try:
            samples = self._at_rest(plan, drawn.number)
        except _NOT_AT_REST as error:
            return RoundDone(done.result, str(error).partition("\n")[0], is_at_rest=False)
        return RoundDone(done.result, "", samples)

    def _at_rest(self, plan: Plan, number: int) -> Sequence[Sample]:
        """Return the nodes' samples once nothing is left of the round.

        Raises:
            _NOT_AT_REST: something is, or nobody can tell.
        """
        self._screen.say("taking the round's topics away")
        clean_up(self._cluster, plan)
        self._evidence.let_go()
        wrong = baseline_problems(self._cluster)
        if wrong:
            raise HarnessError("; ".join(wrong))
        return take_samples(self._cluster, self._number, self._round, number)

    def end(self, folder: Path | None) -> None:
        """Remove the cluster. folder: of the round that ended it, which gets all that is left."""
        try:
            if folder is not None and folder.is_dir():
                self._cluster.collect(folder / AFTER)
        except _NOT_AT_REST as error:
            self._screen.say(f"what {self.run_id} had was not all copied: {error}")
        finally:
            self._cluster.stop()
