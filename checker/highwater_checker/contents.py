"""Replicas' records as text: by offset, and around one offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.segments import ReplicaLog

EITHER_SIDE = 3
"""How many records before and after an offset are shown."""
MOST_SHOWN = 20
"""Most findings of a check that are shown with the records around them."""
_VALUE_CHARACTERS = 40
_SHOWN_CHARACTERS = _VALUE_CHARACTERS - len("...")
_BEFORE = 8
"""How many characters are shown before two values differ."""


def values_by_offset(replica: ReplicaLog) -> dict[int, str]:
    """Return each record's value by its offset, ascending; invalid text is replaced."""
    return {
        offset: (value or b"").decode("utf-8", "replace")
        for batch in replica.batches
        for offset, _, value in batch.records()
    }


def one_of_each_partition(replicas: Iterable[ReplicaLog]) -> list[ReplicaLog]:
    """Return one replica of each partition: the one whose high watermark is the highest."""
    found: dict[tuple[str, int], ReplicaLog] = {}
    for replica in replicas:
        known = found.setdefault((replica.topic, replica.partition), replica)
        if replica.high_watermark > known.high_watermark:
            found[replica.topic, replica.partition] = replica
    return list(found.values())


def show(value: str | None) -> str:
    """Return a value in quotes, cut to a readable length; "nothing" for None."""
    if value is None:
        return "nothing"
    is_short = len(value) <= _VALUE_CHARACTERS
    return repr(value if is_short else value[:_SHOWN_CHARACTERS] + "...")


def tell_apart(facts: Mapping[str, object]) -> dict[str, object]:
    """Return the facts; long values that begin alike are cut to where they differ."""
    long = {
        name: fact
        for name, fact in facts.items()
        if isinstance(fact, str) and len(fact) > _VALUE_CHARACTERS
    }
    if len(set(long.values())) < 2:  # a value may have megabytes
        return dict(facts)
    together = enumerate(zip_longest(*long.values()))
    at = next(place for place, each in together if len(set(each)) > 1)
    if at < _SHOWN_CHARACTERS:
        return dict(facts)
    return {**facts, **{name: "..." + fact[at - _BEFORE :] for name, fact in long.items()}}


def with_neighbours(
    results: Iterable[CheckResult], replicas: Sequence[ReplicaLog]
) -> list[CheckResult]:
    """Return the results; findings at an offset also get the replicas' records around it."""
    return [
        replace(
            result,
            findings=tuple(
                replace(finding, around=(*finding.around, *_around(finding, replicas)))
                if at < MOST_SHOWN
                else finding
                for at, finding in enumerate(result.findings)
            ),
        )
        for result in results
    ]


def _around(finding: Finding, replicas: Sequence[ReplicaLog]) -> tuple[str, ...]:
    own = [r for r in replicas if (r.topic, r.partition) == (finding.topic, finding.partition)]
    if finding.offset < 0:
        return ()
    near = [_near(replica, finding.offset) for replica in own]
    shown = _shown([{at: value for at, (_, value) in records.items()} for records in near])
    return tuple(
        f"broker {replica.broker_id}: {_in_words(records, values)}; "
        f"the log ends at {replica.log_end_offset}"
        for replica, records, values in zip(own, near, shown, strict=True)
    )


def _near(replica: ReplicaLog, offset: int) -> dict[int, tuple[int, str]]:
    """Return the records near the offset: their leader epochs and values, by offset."""
    return {
        at: (batch.leader_epoch, (value or b"").decode("utf-8", "replace"))
        for batch in replica.batches
        if batch.base_offset <= offset + EITHER_SIDE and batch.next_offset >= offset - EITHER_SIDE
        for at, _, value in batch.records()
        if abs(at - offset) <= EITHER_SIDE
    }


def _shown(values: Sequence[Mapping[int, str]]) -> list[dict[int, str]]:
    """Return each replica's values by offset, cut; what differs at an offset differs when cut."""
    shown: list[dict[int, str]] = [{} for _ in values]
    for at in sorted({at for each in values for at in each}):
        there = {str(place): each[at] for place, each in enumerate(values) if at in each}
        for place, value in tell_apart(there).items():
            shown[int(place)][at] = show(str(value))
    return shown


def _in_words(records: Mapping[int, tuple[int, str]], values: Mapping[int, str]) -> str:
    told = (f"{at} {values[at]} of epoch {epoch}" for at, (epoch, _) in records.items())
    return ", ".join(told) or "no record near it"
