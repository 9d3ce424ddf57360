"""Whether and how fast a planted bug is caught in containers: one run of its plan, measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.runs.plans.outcome import PlanResult
from highwater_chaos.plan import Plan
from highwater_checker.finding import Finding
from highwater_checker.history import HistoryEvent
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import CLOCK, BadDocument
from highwater_checker.run_folder.histories import read_history
from highwater_checker.run_folder.intents import Phase, read_intents
from highwater_checker.run_folder.lines import read_traces
from highwater_checker.verdict import Outcome
from highwater_core.events import EventKind, TraceEvent

_NS_PER_S = 1e9
_LEADS = (EventKind.BECAME_LEADER,)
_ELECTED = (EventKind.BECAME_LEADER, EventKind.LEADER_ELECTED)


@dataclass(frozen=True, slots=True)
class Detection:
    """One run of a plan that has a bug, or of one that has none (bug "").

    Units: seconds.
    to_verdict_s: the whole run, with start and stop of the cluster.
    to_violation_s: from the proof of the first fault to the violation; None where only the logs at
    the end show it, or where it happened before that proof.
    named: the violated invariants.
    """

    bug: str
    title: str
    invariant: str
    outcome: Outcome
    named: tuple[str, ...]
    to_verdict_s: float
    to_violation_s: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether the bug was caught by its check, or the run without one passed."""
        if not self.bug:
            return self.outcome is Outcome.PASS
        return self.outcome is Outcome.FAIL and self.invariant in self.named


def detect(plan: Plan, run: Callable[[Plan], PlanResult]) -> Detection:
    """Run the plan once, and return the result; the run's folder stays."""
    expected = plan.expected
    invariant = "" if expected is None else expected.invariant
    began_s = time.monotonic()
    result = run(plan)
    to_verdict_s = time.monotonic() - began_s
    findings = [finding for check in result.verdict.checks for finding in check.findings]
    return Detection(
        bug=plan.planted,
        title=plan.title,
        invariant=invariant,
        outcome=result.verdict.outcome,
        named=tuple(sorted({finding.invariant for finding in findings})),
        to_verdict_s=to_verdict_s,
        to_violation_s=_to_violation_s(result.folder, findings),
    )


def _to_violation_s(folder: Path, findings: Sequence[Finding]) -> float | None:
    fault_ns = _first_proven_ns(folder)
    if fault_ns is None:
        return None
    reads = [e for path in (folder / names.HISTORY).glob("c*.jsonl") for e in read_history(path)]
    traces = _by_run_time(folder, read_traces(folder / names.TRACE))
    violated_ns = first_violation_ns(findings, traces, reads, fault_ns)
    return None if violated_ns is None else (violated_ns - fault_ns) / _NS_PER_S


def first_violation_ns(
    findings: Sequence[Finding],
    traces: Sequence[tuple[int, TraceEvent]],
    reads: Sequence[HistoryEvent],
    since_ns: int,
) -> int | None:
    """Return the time of the first violation among the findings, None where no event shows it.

    Units: all times from the run's start; earlier ones than since_ns are ignored. A violation
    happens
    - of I1 and I4: when a leader begins without the lost record;
    - of I7 and I11: when the second leader of an epoch, or the truncation, is traced;
    - of I9: when a consumer has read the record;
    - of I3: at the end, where the logs are compared.
    """
    found: list[int] = []
    for finding in findings:
        at = finding.topic, finding.partition
        events = [(ns, event) for ns, event in traces if (event.topic, event.partition) == at]
        found += [ns for ns in _times(finding, events, reads) if ns >= since_ns][:1]
    return min(found, default=None)


def _times(
    finding: Finding, events: Sequence[tuple[int, TraceEvent]], reads: Sequence[HistoryEvent]
) -> Iterator[int]:
    """Yield the times at which the finding's violation may have happened, in order."""
    place = finding.topic, finding.partition, finding.offset
    match finding.invariant:
        case "I1" | "I4":
            for ns, event in events:
                if event.kind in _LEADS and -1 < (event.offset or 0) <= finding.offset:
                    yield ns
        case "I11":
            for ns, event in events:
                if event.kind is EventKind.LOG_TRUNCATED and event.offset == finding.offset:
                    yield ns
        case "I7":
            yield from _repeated_epochs(events)
        case "I9":
            for read in reads:
                if (read.topic, read.partition, read.offset) == place and read.value:
                    yield read.time_ns


def _repeated_epochs(events: Sequence[tuple[int, TraceEvent]]) -> Iterator[int]:
    """Yield the times at which a second broker began to lead an epoch."""
    leaders: dict[int | None, int] = {}
    for ns, event in events:
        if event.kind in _ELECTED:
            leader = int(event.detail.get("leader", event.node))
            if leaders.setdefault(event.leader_epoch, leader) != leader:
                yield ns


# ---------------------------------------------------------------- files of a run


def _first_proven_ns(folder: Path) -> int | None:
    lines = read_intents(folder / names.INTENTS)
    return next((line.at_ns for line in lines if line.phase is Phase.ACTING), None)


def _by_run_time(folder: Path, traces: Sequence[TraceEvent]) -> list[tuple[int, TraceEvent]]:
    """Return the events by the time since the run's start; all nodes have one host's wall clock.

    Raises:
        BadDocument: the folder does not say when the run began.
    """
    start = CLOCK.read(folder)
    if start is None or (start_wall_ns := start.start_wall_ns) is None:
        raise BadDocument(CLOCK.name, "it does not say when the run began")
    timed = ((event.ts_ns - start_wall_ns, event) for event in traces)
    return sorted(timed, key=lambda each: each[0])
