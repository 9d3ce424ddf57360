"""I12, from traces of controllers: partitions and replicas change states as their tables allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from highwater_checker.finding import CheckResult, Finding, Traced
from highwater_checker.wording import Wording
from highwater_core.events import EventKind, TraceEvent

CHECK = "states change as their tables have it (I12)"

_HOSTED = ("NewReplica", "OnlineReplica", "OfflineReplica", "ReplicaDeletionIneligible")
VALID_PREVIOUS: Mapping[str, tuple[str, ...]] = {
    "NewPartition": ("NonExistentPartition",),
    "OnlinePartition": ("NewPartition", "OnlinePartition", "OfflinePartition"),
    "OfflinePartition": ("NewPartition", "OnlinePartition", "OfflinePartition"),
    "NonExistentPartition": ("OfflinePartition",),
    "NewReplica": ("NonExistentReplica",),
    "OnlineReplica": _HOSTED,
    "OfflineReplica": _HOSTED,
    "ReplicaDeletionStarted": ("OfflineReplica",),
    "ReplicaDeletionSuccessful": ("ReplicaDeletionStarted",),
    "ReplicaDeletionIneligible": ("OfflineReplica", "ReplicaDeletionStarted"),
    "NonExistentReplica": ("ReplicaDeletionSuccessful",),
}
"""Source: docs/explanation/replication.md, "Partition states" and "Replica states"."""

MADE = (EventKind.PARTITION_STATE_CHANGED, EventKind.REPLICA_STATE_CHANGED)
NOT_MADE = (EventKind.TRANSITION_REFUSED, EventKind.STATE_CHANGE_FAILED)
STATE_CHANGES = (*MADE, *NOT_MADE)


def wrong_transition(event: TraceEvent) -> str | None:
    """Return the finding's message for one of the STATE_CHANGES, None for a sound one.

    A controller has a bug if it attempts a transition that its own tables refuse, or makes a new
    replica of a leader. A failed election is sound: there may be no replica that can lead.
    """
    before, after = event.detail["from_state"], event.detail["to_state"]
    if event.kind in MADE:
        is_sound = before in VALID_PREVIOUS.get(after, ())
        wording = Wording.WRONG_TRANSITION
    else:
        is_sound = event.kind is EventKind.STATE_CHANGE_FAILED and after != "NewReplica"
        wording = Wording.WRONG_TRANSITION_TRIED
    if is_sound:
        return None
    return wording.filled(node=event.node, from_state=before, to_state=after)


def check_transitions(events: Iterable[TraceEvent]) -> CheckResult:
    """Find changes of state, made or attempted, that the tables do not allow.

    Source: docs/reference/invariants.md, I12.
    """
    findings: list[Finding] = []
    examined = 0
    for event in events:
        if event.kind not in STATE_CHANGES:
            continue
        examined += 1
        wrong = wrong_transition(event)
        if wrong is not None:
            partition = -1 if event.partition is None else event.partition
            traced = (Traced.of(event),)
            findings.append(Finding("I12", wrong, event.topic or "", partition, traced=traced))
    return CheckResult(CHECK, examined, tuple(findings))
