"""What a soak asks of the machine on which it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from highwater.errors import HarnessError
from highwater.runs.plans.outcome import PlanResult
from highwater.soak.draws import Drawn
from highwater.soak.usage import Sample
from highwater_checker.verdict import Outcome


class CouldNotRun(HarnessError):
    """A plan's run had no verdict: the engine was away, or the harness refused the plan."""


@dataclass(frozen=True, slots=True)
class RoundDone:
    """How a round on a cluster that lives on ended.

    ends_cluster: why the cluster must not have another round, "" where it may.
    samples: of its nodes; none where they are not at rest.
    is_at_rest: whether nothing was seen to be left of the round; a round that passed and left
    something is unknown.
    """

    result: PlanResult
    ends_cluster: str
    samples: Sequence[Sample] = ()
    is_at_rest: bool = True

    @property
    def outcome(self) -> Outcome:
        told = self.result.verdict.outcome
        return Outcome.UNKNOWN if told is Outcome.PASS and not self.is_at_rest else told

    @property
    def reasons(self) -> tuple[str, ...]:
        """The verdict's, after what the round left behind."""
        left = () if self.is_at_rest else (f"after the round: {self.ends_cluster}",)
        return (*left, *self.result.verdict.reasons)


class World(Protocol):
    """The machine on which a soak runs."""

    def run(self, drawn: Drawn, folder: Path) -> PlanResult:
        """Run the plan once; its cluster is gone afterwards.

        Raises:
            CouldNotRun: there is no verdict.
        """
        ...

    def play_round(self, drawn: Drawn, folder: Path, cluster: str, number: int) -> RoundDone:
        """Run the plan on the cluster of that name, which is started if it is not up.

        number: which cluster of the soak it is.

        Raises:
            CouldNotRun: there is no verdict.
        """
        ...

    def end_cluster(self, folder: Path | None) -> None:
        """Remove the cluster of rounds, if one is up.

        folder: of the run that ended it, which gets what its nodes still have; None: of none.
        """
        ...

    def simulate(self, drawn: Drawn) -> str:
        """Return what the plan shows in virtual time, "" where it cannot run there."""
        ...

    def new_run_id(self) -> str: ...

    def remove_leftovers(self, run_id: str) -> None:
        """Remove containers, networks and volumes of a run that was killed.

        Raises:
            CouldNotRun: the engine is away.
        """
        ...

    def now_s(self) -> float:
        """Return a time that only grows."""
        ...

    def utc(self) -> str: ...

    def load(self) -> float: ...

    def free_bytes(self, path: Path) -> int: ...

    def pause(self, seconds: float) -> None:
        """Wait: the machine cannot run plans at present."""
        ...
