"""Explains a failed run: the first violation as a story, with the lines of evidence."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.errors import HarnessError
from highwater.report.happenings import entries_of_run
from highwater_checker.finding import Finding
from highwater_checker.history import POLL
from highwater_checker.judging import judge_evidence
from highwater_checker.meanings import meaning_of
from highwater_checker.naming import kind_of
from highwater_checker.run_folder.evidence import Evidence, read_evidence, start_of_run
from highwater_checker.run_folder.evidence_lines import EvidenceLine, evidence_of
from highwater_checker.stories.entries import JUDGE, Entry, Note
from highwater_checker.stories.finding_story import Subject, story_of_finding
from highwater_checker.stories.story import Story
from highwater_checker.verdict import Verdict
from highwater_core.ids import TopicPartition

MOST_ALSO = 20
WITHOUT_CLOCK = (
    "without clock.json clients and faults are left out, and times count from the first event"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """Findings of one invariant in one partition.

    first: the number of the first of them among the verdict's findings, from 1.
    """

    invariant: str
    topic: str
    partition: int
    count: int
    first: int


@dataclass(frozen=True, slots=True)
class Explained:
    """One finding of a run, told.

    number: which of the verdict's findings it is, from 1.
    also: the findings of the same record, by other checks, MOST_ALSO at most.
    meaning: of the invariant, in a sentence.
    evidence: the lines of the run's files that show it.
    lacks: what the story has not, since a file is missing.
    """

    number: int
    finding: Finding
    also: tuple[str, ...]
    meaning: str
    story: Story
    evidence: tuple[EvidenceLine, ...]
    lacks: tuple[str, ...] = ()

    @property
    def seen_s(self) -> float | None:
        """When the finding shows, in seconds from the run's start; None without a clock."""
        if self.lacks or not self.story.entries:
            return None
        return max(0.0, self.story.entries[-1].at_ns / 1e9)


def command_to_explain(folder: Path) -> str:
    """Return the command line that tells how the run of the folder failed."""
    return f"highwater explain {shlex.quote(str(folder))}"


def judge_and_explain(folder: Path, number: int = 1) -> tuple[Verdict, Explained | None]:
    """Judge the run of the folder; explain the finding of that number, None without findings.

    Raises:
        HarnessError: there are findings, and none of that number.
    """
    evidence = read_evidence(folder)
    verdict = judge_evidence(evidence)
    if not verdict.findings:
        return verdict, None
    return verdict, explain_finding(folder, evidence, verdict, number)


def explain_finding(
    folder: Path, evidence: Evidence, verdict: Verdict, number: int = 1
) -> Explained:
    """Return the verdict's finding of that number, from 1, as a story.

    The story ends at the last event, look, probe or answer that shows the finding. Where a replica
    is found to lack something at the end, it is that of the whole run.

    Raises:
        HarnessError: there is no such finding.
    """
    findings = verdict.findings
    if not 1 <= number <= len(findings):
        raise HarnessError(f"the verdict has {len(findings)} findings, none of number {number}")
    finding = findings[number - 1]
    same = [each for each in findings if each != finding and _is_of_one_record(each, finding)]
    told = (finding, *same[:MOST_ALSO])
    at = TopicPartition(finding.topic, finding.partition) if finding.partition >= 0 else None
    start_wall_ns = start_of_run(folder)
    has_clock = start_wall_ns is not None
    entries = entries_of_run(folder, start_wall_ns, evidence, at, told)
    about = Subject(at, {event for each in told for event in each.traced}, _is_of_group(finding))
    story = _story(entries, about, told, has_clock)
    lines = dict.fromkeys(line for own in evidence_of(folder, told) for line in own)
    also = list(dict.fromkeys(map(str, told[1:])))
    if len(same) > MOST_ALSO:
        also.append(f"... and {len(same) - MOST_ALSO} more of the same record or place")
    return Explained(
        number,
        finding,
        tuple(also),
        meaning_of(finding.invariant),
        story,
        tuple(lines),
        () if has_clock else (WITHOUT_CLOCK,),
    )


def kinds_of(findings: Sequence[Finding]) -> list[Kind]:
    """Return the kinds of findings, in the order of the first of each."""
    counts = Counter(map(kind_of, findings))
    first = {kind_of(each): number for number, each in reversed(list(enumerate(findings, 1)))}
    return [Kind(*kind, counts[kind], first[kind]) for kind in counts]


def _is_of_one_record(one: Finding, other: Finding) -> bool:
    """Return whether both are of one record, or one operation; a poll reads many records."""
    if (one.topic, one.partition) != (other.topic, other.partition):
        return False
    if one.operation and one.operation == other.operation and f" {POLL} " not in one.operation:
        return True
    return one.offset >= 0 and one.offset == other.offset


def _is_of_group(finding: Finding) -> bool:
    return finding.invariant in ("I14", "I21", "I22")


def _story(
    entries: Sequence[Entry], about: Subject, told: Sequence[Finding], has_clock: bool
) -> Story:
    seen_ns = _seen_ns(entries, about, told, has_clock)
    before = [each for each in entries if seen_ns is None or each.at_ns <= seen_ns]
    at_ns = before[-1].at_ns if before else 0
    ending = Entry(at_ns, JUDGE, Note(JUDGE, str(told[0])))
    return story_of_finding([*before, ending], about)


def _seen_ns(
    entries: Sequence[Entry], about: Subject, told: Sequence[Finding], has_clock: bool
) -> int | None:
    """Return when the last of the evidence was there, None where only the run's end shows it."""
    times = [entry.at_ns for entry in entries if about.is_shown(entry)]
    if has_clock:  # else events have another time
        times += [time_ns for each in told for time_ns in each.looks]
        times += [each.probed.asked_ns for each in told if each.probed is not None]
    is_of_a_log = told[0].broker >= 0
    if not times and is_of_a_log:
        return None
    operations = tuple(f"{each.operation}: " for each in told if each.operation)
    times += [
        entry.at_ns
        for entry in entries
        if isinstance(entry.event, Note) and operations and entry.event.what.startswith(operations)
    ]
    return max(times, default=None)
