"""The sentences of findings, which the judge and the pipeline fill with their facts."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

from highwater_checker.contents import show, tell_apart

_STATE = (
    "leader {leader} of leader_epoch {leader_epoch}, ISR {isr:brokers}, "
    "assigned {assigned_replicas:brokers}"
)
_COMMITTED = "in epoch {epoch} all up to {end_offset} was committed"
_FETCHED = "a consumer that fetched at {offset}"
_START = "node {node}, incarnation {incarnation}"


class Wording(Enum):
    """A finding's sentence; {name} stands for a fact.

    {name:shown} is a record's value, {name:brokers} ids of brokers, {name:batch} a batch,
    {name:appends} (node, leader epoch) pairs.
    """

    # C00
    TOLD_TWICE = f"{_START}: seq {{seq}} is told twice"
    BEGINS_LATE = f"{_START}: begins with seq {{seq}}"
    LEAVES_A_GAP = f"{_START}: seq {{seq}} follows {{previous}}"
    LACKS_DETAILS = f"{_START}: {{kind}} at seq {{seq}} has no usable {{lacking}}"

    # Logs
    DAMAGED = "{damage}"
    UNLIKE = "broker {reference} holds {expected:batch}, broker {node} holds {found:batch}"
    UNLIKE_RECORD = (
        "broker {reference} holds {value:shown} at {offset}, broker {node} holds {held:shown}"
    )
    STARTS_ABOVE_HIGH_WATERMARK = "its log starts at {offset}, HW {high_watermark}"
    ENDS_BELOW_HIGH_WATERMARK = "its log ends at {offset}, HW {high_watermark}"

    # Clients' records
    LOST = "{value:shown} was acknowledged; there is {held:shown}"
    UNREAD = "{value:shown} was acknowledged; no replica of its partition was read"
    SUCCESSOR_LACKS = (
        "{value:shown} of leader_epoch {epoch} was acknowledged; appended there: "
        "{appends:appends}; broker {broker} began leader_epoch {began} with a log that ended at "
        "{end_offset}"
    )
    ABORTED_READ = "{value:shown} was never sent, said its client, and is at {offsets}"
    DUPLICATE = "{value:shown} was sent once and is at {offsets}"
    REPEATED = "{value:shown} is of an idempotent producer and is at {offsets}"
    BELOW_ACKNOWLEDGED = (
        "{value:shown} lies at {offset}, sent after {first_value:shown} was acknowledged at "
        "{first_offset}"
    )
    BELOW_SENT = "{value:shown} lies at {offset}, sent after what lies at {highest}"
    TOLD_OTHERWISE = "{value:shown} here; {first} had {first_value:shown}"
    READ_TWICE = "read {first_value:shown}, then {value:shown}"
    READ_UNCOMMITTED = "{value:shown} came with the high watermark {high_watermark}"
    READ_AND_GONE = "{value:shown} was read; broker {broker} holds {held:shown}"
    NEVER_READ = "{value:shown} on broker {broker} was never read"
    REFUSED_WITHOUT_CAUSE = (
        "{process} was told that it is out of range; the log of whoever led then began no higher "
        "and ended no lower"
    )
    READ_BELOW = (
        "{value:shown} at {read_offset} was read by {process}, which was to go on here; the log of "
        "whoever led then began no higher and ended no lower"
    )

    # Committed offsets
    LEADS_WITHOUT_GROUPS = "in leader_epoch {leader_epoch} it leads, and has not loaded its groups"
    KEEPS_GROUPS = "in leader_epoch {leader_epoch} it leads no more, and keeps its groups"
    LOADED_WITHOUT_LEADING = "in leader_epoch {leader_epoch} it loads groups out of its turn"
    LOAD_STOPPED_EARLY = (
        "in leader_epoch {leader_epoch} it read groups up to {end_offset} only: before the epoch "
        "began, more was committed"
    )
    OFFSET_LOST = "group {group} was told {fetched}; acknowledged, or committed since: {offsets}"
    TWO_OWNERS = "generation {generation} of group {group}: {process} and {first} were assigned it"
    OUTDATED_COMMIT = (
        "a commit of generation {generation} of group {group} was acknowledged; it began after "
        "generation {newest} had been assigned"
    )
    DELIVERED_AGAIN = (
        "{value:shown} was delivered again: {process} was to go on at {next_offset} then"
    )
    NOT_DELIVERED = (
        "{value:shown} lies below {committed}, which group {group} was to commit; no member had it"
    )
    REPLACED_COMMIT = (
        "a commit to group {group} was acknowledged; it began after {successor} had taken the "
        "place of the same instance"
    )

    # Leaders
    TWO_LEADERS = "brokers {first} and {leader} both led at leader_epoch {leader_epoch}"
    WRITTEN_TWICE = "leader_epoch {leader_epoch} was written more than once"
    EMPTY_ISR = f"the ISR is empty: {_STATE}"
    STRANGER_IN_ISR = f"the ISR holds a broker that is not assigned: {_STATE}"
    LEADER_NOT_IN_ISR = f"the leader is not in the ISR: {_STATE}"
    TWICE_IN_ISR = f"the ISR names a broker twice: {_STATE}"
    BEGAN_WITHOUT = (
        "broker {broker} leads epoch {leader_epoch} with a log up to {offset}; " + _COMMITTED
    )

    COMPACTED_UNCOMMITTED = (
        "broker {node} compacted by records up to {offset}; committed was what is below "
        "{high_watermark}"
    )
    WRONG_TRANSITION = "controller {node} took it from {from_state} to {to_state}"
    WRONG_TRANSITION_TRIED = "controller {node} would have taken it from {from_state} to {to_state}"

    # Followers and consumers
    CUT_BELOW_HIGH_WATERMARK = (
        "broker {node} cut its log to {offset}, below its high watermark {high_watermark}: {reason}"
    )
    CUT_OFF_COMMITTED = (
        "broker {broker}, in the ISR of epoch {leader_epoch}, cut its log from {from_offset} to "
        "{offset}; " + _COMMITTED
    )
    MEMBER_LACKS = (
        "leader {node} of leader_epoch {leader_epoch} had the high watermark {high_watermark} with "
        "the ISR {isr:brokers} before {before_s:.2f} s; after that broker {broker}'s log ended at "
        "{offset}"
    )
    GOT_UNCOMMITTED = (
        _FETCHED + " got records up to {last_record}; the high watermark was {high_watermark}"
    )
    GOT_ERROR = _FETCHED + " got {error}; the log ended at {least_end_offset} or above"
    TOLD_HIGH_WATERMARK = (
        _FETCHED + " was told the high watermark {high_watermark}; it was in "
        "[{least_high_watermark}, {most_high_watermark}]"
    )

    def filled(self, **facts: object) -> str:
        """Return the sentence with the facts; facts that it does not name are left out."""
        shown = [name for _, name, spec, _ in _FORMATTER.parse(self.value) if spec == "shown"]
        values = tell_apart({str(name): facts[str(name)] for name in shown})
        return _FORMATTER.vformat(self.value, (), {**facts, **values})


class BatchLike(Protocol):
    """A batch of a log, or the pipeline's row of one."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


def _batch(batch: BatchLike | None) -> str:
    if batch is None:
        return "no batch"
    return f"[{batch.base_offset}, {batch.next_offset}) of epoch {batch.leader_epoch}"


def _appends(appends: Iterable[tuple[int, int]] | None) -> str:
    """Return the appending brokers with their leader epochs."""
    by = [f"broker {node} in leader_epoch {epoch}" for node, epoch in appends or ()]
    return ", ".join(by) or "nobody traced it"


def _brokers(ids: Iterable[int]) -> str:
    return f"[{', '.join(map(str, ids))}]"


class _Formatter(string.Formatter):
    _WAYS: Mapping[str, Callable[[Any], str]] = {
        "shown": show,
        "brokers": _brokers,
        "batch": _batch,
        "appends": _appends,
    }

    def format_field(self, value: Any, format_spec: str) -> str:
        way = self._WAYS.get(format_spec)
        return super().format_field(value, format_spec) if way is None else way(value)


_FORMATTER = _Formatter()
