"""The one judge of a run, of either world: from the files in its folder to its verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from highwater_checker.changed_files import watched_is_founded, without_unfounded
from highwater_checker.contents import with_neighbours
from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import POLL, HistoryEvent, OperationType
from highwater_checker.idle import Idle, hidden_for_long, without_idle_checks
from highwater_checker.invariants.acknowledged_records import check_acknowledged_records
from highwater_checker.invariants.committed_before import check_committed_before
from highwater_checker.invariants.committed_offsets import (
    check_committed_offsets,
    has_commits,
)
from highwater_checker.invariants.compactions import check_compactions
from highwater_checker.invariants.coordinators import check_coordinators, has_coordinators
from highwater_checker.invariants.deliveries import check_deliveries
from highwater_checker.invariants.duplicates import (
    anything,
    check_duplicates,
    of_processes,
)
from highwater_checker.invariants.empty_fetches import check_empty_fetches
from highwater_checker.invariants.generations import check_generations, deleted_groups, has_members
from highwater_checker.invariants.going_on import check_going_on
from highwater_checker.invariants.high_watermark_in_run import check_high_watermark_in_run
from highwater_checker.invariants.inconsistent_offsets import check_inconsistent_offsets
from highwater_checker.invariants.isr import PartitionRecord, check_isr
from highwater_checker.invariants.leader_uniqueness import check_leader_uniqueness
from highwater_checker.invariants.order import check_order
from highwater_checker.invariants.reads import check_reads
from highwater_checker.invariants.replica_equality import CHECK as REPLICA_EQUALITY
from highwater_checker.invariants.replica_equality import (
    CHECK_OF_HIGH_WATERMARKS,
    check_high_watermarks_are_held,
    check_replica_equality,
)
from highwater_checker.invariants.successors import check_successors
from highwater_checker.invariants.transitions import STATE_CHANGES, check_transitions
from highwater_checker.invariants.truncations import check_truncations
from highwater_checker.leaders_logs import LeadersLogs
from highwater_checker.looks import assigned_replicas, leaderships
from highwater_checker.naming import name_findings
from highwater_checker.requirements import (
    acknowledged_is_committed,
    enough_was_acknowledged,
    histories_are_whole,
    nodes_answered,
    records_have_logs,
    replicas_were_in_sync,
    replicas_were_read,
    starts_are_the_runs_own,
)
from highwater_checker.run_folder.documents import Excused, PromisedGroup
from highwater_checker.run_folder.evidence import Evidence, read_evidence
from highwater_checker.run_folder.histories import (
    followed_processes,
    incarnations_of,
    last_process,
)
from highwater_checker.run_folder.intents import starts_in
from highwater_checker.segments import ReplicaLog
from highwater_checker.verdict import Requirement, Verdict, judge
from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition

SEGMENTS_DECODE = "segments decode"
OF_LOGS = frozenset({SEGMENTS_DECODE, REPLICA_EQUALITY, CHECK_OF_HIGH_WATERMARKS})
"""The checks that look at replicas' logs and the final look alone."""
ABOUT_RECORDS = frozenset(
    {
        "I1", "I4", "I9", "I11", "I20", "I22",
        "unseen", "inconsistent-offsets", "realtime-send", "nonmonotonic-send",
        "nonmonotonic-poll",
    }
)  # fmt: skip
"""Invariants of records, which lost disks may violate; of epochs and ISRs they excuse none.

Records that get the offsets of lost ones lie below records that were sent before them.
"""


def judge_run(folder: Path) -> Verdict:
    """Return the verdict of a run from the files of its folder alone.

    Damaged or missing files are reported, and never make the verdict better.
    """
    return judge_evidence(read_evidence(folder))


def judge_evidence(evidence: Evidence) -> Verdict:
    """Return the verdict of a run's evidence.

    All checks that the evidence allows are made. Findings that a preset's known flaws explain have
    the flaws' rows, and are findings all the same.
    """
    found = with_neighbours([*_checks(evidence), *_checks_of_reads(evidence)], evidence.logs.all())
    found = [_without_excused(each, evidence) for each in found]
    found = [
        without_unfounded(each, evidence.changed, is_of_logs=each.check in OF_LOGS)
        for each in found
    ]
    presets = _presets_of(evidence)
    if presets:
        found = name_findings(found, evidence.traces, presets, evidence.end_wall_ns)
    if evidence.watched is not None and watched_is_founded(evidence.changed):
        found.append(evidence.watched)
    checks = without_idle_checks(found, _reasons_to_be_idle(evidence))
    idle = [each.check for each in found if each not in checks]
    return judge(checks, [*evidence.requirements, *_requirements(evidence)], idle)


def _reasons_to_be_idle(evidence: Evidence) -> set[Idle]:
    """Return the reasons that hold; without consumers there is no check of reads."""
    reasons = {Idle.FEW_LOOKS, Idle.NOTHING_COMPACTED}
    if not hidden_for_long(evidence.looks):
        reasons.add(Idle.NOTHING_HIDDEN)
    if not _is_replicated(evidence):
        reasons.add(Idle.ONE_REPLICA)
    return reasons


def _is_replicated(evidence: Evidence) -> bool:
    """Return whether there must be two replicas to compare of a topic that clients write to."""
    if evidence.promises.only_in_sync:
        counted = Counter((log.topic, log.partition) for log in evidence.logs.of_clients())
        return any(count > 1 for count in counted.values())
    topics = evidence.promises.topics
    return not topics or any(topic.replication_factor > 1 for topic in topics)


# ---------------------------------------------------------------- checks


def _checks(evidence: Evidence) -> Iterator[CheckResult]:
    logs, traces, promised = evidence.logs.all(), evidence.traces, evidence.promised
    yield CheckResult(
        SEGMENTS_DECODE,
        len(logs) + len(evidence.logs.damage),
        evidence.logs.damage,
        unread=evidence.unread,
    )
    if evidence.final_look is not None:
        yield check_acknowledged_records(evidence.asked_of_logs, logs)
        yield check_successors(promised, logs, traces)
        of_clients = evidence.logs.of_clients()
        yield check_duplicates(
            evidence.sends, of_clients, evidence.is_idempotent, _may_be_unsent(evidence)
        )
        by_partition = evidence.logs.by_partition.values()
        yield _merged(REPLICA_EQUALITY, [check_replica_equality(logs) for logs in by_partition])
        yield check_high_watermarks_are_held(logs, evidence.final_look.time_ns)
    yield check_order(promised, evidence.sends_one_at_a_time, evidence.is_idempotent)
    yield check_inconsistent_offsets(promised, evidence.reads, evidence.life_of_read)
    looks = sorted(evidence.all_looks, key=lambda look: look.time_ns)
    yield check_leader_uniqueness(traces, looks)
    yield check_truncations(traces)
    if any(event.kind in STATE_CHANGES for event in traces):
        yield check_transitions(traces)
    yield check_isr(_leader_records(evidence))
    yield check_committed_before(traces)
    yield check_compactions(traces)
    if has_coordinators(traces):
        yield check_coordinators(traces)
    events = [event for history in evidence.histories.values() for event in history]
    if has_commits(events):
        yield check_committed_offsets(events, evidence.incomplete)
    if has_members(events):
        yield check_generations(events, deleted_groups(traces), evidence.incomplete.processes)
        yield check_deliveries(events, evidence.asked_of_logs, logs, evidence.incomplete)
    going_on = check_going_on(_whole_histories(evidence), lambda: _leaders_logs(evidence))
    if going_on.examined:
        yield going_on
    if evidence.looks:
        yield check_high_watermark_in_run(evidence.looks, traces)
    if evidence.probes:
        yield check_empty_fetches(evidence.probes, evidence.looks, traces)


def _checks_of_reads(evidence: Evidence) -> Iterator[CheckResult]:
    """Yield a check of each consumer and group, of all its processes.

    A consumer's last process must read to the end, a group's processes together.
    Without a final look, reads are compared with each other alone. What an incomplete history
    lacks counts as read.
    """
    incomplete = evidence.incomplete
    for consumer in evidence.promises.consumers:
        incarnations = incarnations_of(consumer.client, evidence.histories)
        last = last_process(consumer.client, {*evidence.histories, *incomplete.processes})
        found = [
            check_reads(
                evidence.histories[process],
                _logs_for(evidence, consumer.topic, evidence.histories[process]),
                evidence.life_of_read,
                of_topic=consumer.topic,
                to_the_end=process == last
                and process not in incomplete.processes
                and evidence.promises.to_the_end,
            )
            for process in incarnations
        ]
        if found:
            yield _merged(f"{consumer.client}: {found[0].check}", found)
    for group in evidence.promises.groups:
        history = _history_of_members(group, evidence)
        found_of_group = check_reads(
            history,
            _logs_for(evidence, group.topic, history),
            evidence.life_of_read,
            of_topic=group.topic,
            to_the_end=group.to_the_end
            and not incomplete.is_of(group.group_id)
            and evidence.promises.to_the_end,
        )
        yield replace(found_of_group, check=f"{group.group_id}: {found_of_group.check}")


def _logs_for(evidence: Evidence, topic: str, history: Sequence[HistoryEvent]) -> list[ReplicaLog]:
    """Return the logs of the topic, and of others from which the client read."""
    topics = {topic, *(event.topic for event in history if event.function == POLL)}
    return [log for log in evidence.logs.all() if log.topic in topics]


def _read_without_a_log(evidence: Evidence) -> set[TopicPartition]:
    """Return the partitions of which a record was read, in a life that goes on, and no log was."""
    logs = {(log.topic, log.partition) for log in evidence.logs.all()}
    return {
        TopicPartition(event.topic, event.partition)
        for event in evidence.reads
        if event.type is OperationType.OK
        and (event.topic, event.partition) not in logs
        and not evidence.life_of_read(event).is_over
    }


def _history_of_members(group: PromisedGroup, evidence: Evidence) -> list[HistoryEvent]:
    """Return what all members of the group did, in the order of time."""
    events = (
        event
        for member in group.members
        for process in incarnations_of(member, evidence.histories)
        for event in evidence.histories[process]
    )
    return sorted(events, key=lambda event: event.time_ns)


def _may_be_unsent(evidence: Evidence) -> Callable[[str], bool]:
    """Return whether a record with a value may be there without a known send.

    Killed processes may not have written all of their sends; their values begin with their names.
    """
    if not evidence.promises.writers_are_known:
        return anything
    return of_processes(followed_processes(evidence.histories))


def _whole_histories(evidence: Evidence) -> list[Sequence[HistoryEvent]]:
    """Return the histories that lack no line: one that is missing may say why a consumer left."""
    histories = evidence.histories.items()
    return [own for process, own in histories if process not in evidence.incomplete.processes]


def _leaders_logs(evidence: Evidence) -> LeadersLogs:
    starts = {
        at: max(log.log_start_offset for log in logs)
        for at, logs in evidence.logs.by_partition.items()
        if logs
    }
    return LeadersLogs(evidence.traces, evidence.start_wall_ns, starts)


def _merged(check: str, results: Sequence[CheckResult]) -> CheckResult:
    return CheckResult(
        check=check,
        examined=sum(result.examined for result in results),
        findings=tuple(finding for result in results for finding in result.findings),
    )


def _leader_records(evidence: Evidence) -> list[PartitionRecord]:
    """Return every state of a partition that a leader reported in a look, each once."""
    found = {
        PartitionRecord(
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            assigned_replicas=assigned_replicas(look, topic_partition),
            seen_ns=look.time_ns,
        ): None
        for look in sorted(evidence.all_looks, key=lambda look: look.time_ns)
        for topic_partition, leadership in leaderships(look).items()
    }
    return list(found)


def _without_excused(result: CheckResult, evidence: Evidence) -> CheckResult:
    """Return the result without records that were lost lawfully; their number is noted.

    Lawfully: by disks alone, or by an unclean election that an operator allowed.
    """
    kept = tuple(each for each in result.findings if not _is_excused(each, evidence.excused))
    count = len(result.findings) - len(kept)
    if not count:
        return result
    return replace(
        result, findings=kept, noted=(*result.noted, ("excused by records lost lawfully", count))
    )


def _is_excused(finding: Finding, excused: Sequence[Excused]) -> bool:
    return finding.invariant in ABOUT_RECORDS and any(
        (finding.topic, finding.partition) == (each.topic, each.partition)
        and (finding.offset < 0 or finding.offset >= each.start_offset)
        for each in excused
    )


def _presets_of(evidence: Evidence) -> set[Preset]:
    """Return the presets that the nodes reported: one, but where some were upgraded to another."""
    nodes = (node for look in evidence.all_looks for node in look.nodes.values())
    told = (node.preset for node in nodes if node is not None)
    started = (event for event in evidence.traces if event.kind is EventKind.NODE_STARTED)
    traced = (str(event.detail.get("preset", "")) for event in started)
    known = {each.value for each in Preset}
    return {Preset(name) for name in chain(told, traced) if name in known}


# ---------------------------------------------------------------- requirements


def _requirements(evidence: Evidence) -> Iterator[Requirement]:
    """Yield what the run's files must hold for its checks to prove anything."""
    promises, logs = evidence.promises, evidence.logs
    yield enough_was_acknowledged(promises, len(evidence.sends.acknowledged))
    if evidence.final_look is not None:
        yield replicas_were_read(promises, logs.by_partition, logs.missing)
        yield replicas_were_in_sync(logs.lagging)
        yield from nodes_answered(promises, evidence.final_look, evidence.node_count)
        without = _read_without_a_log(evidence) | evidence.acknowledged_without_a_log()
        yield records_have_logs(without)
        yield from acknowledged_is_committed(
            promises, evidence.asked_of_logs, logs.by_partition, evidence.excused
        )
    before = evidence.slices.last_starts()
    yield from starts_are_the_runs_own(
        promises, evidence.traces, starts_in(evidence.intents), before
    )
    yield from histories_are_whole(promises, evidence.histories, evidence.torn_while_alive)
