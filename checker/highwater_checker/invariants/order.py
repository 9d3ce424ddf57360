"""Order: a record that was sent after an acknowledgement has a higher offset.

Source: docs/reference/invariants.md, realtime-send and nonmonotonic-send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.history import Acknowledged, nobody
from highwater_checker.lives_of_records import UNKNOWN_LIFE
from highwater_checker.wording import Wording

SENT_ONCE = 1
_NO_OFFSET = -1


def check_order(
    acknowledged: Sequence[Acknowledged],
    sends_one_at_a_time: Callable[[str], bool],
    is_idempotent: Callable[[str], bool] = nobody,
) -> CheckResult:
    """Find acks=all records at offsets that contradict the order in which they were sent.

    A record whose send began after another's acknowledgement has a higher offset, for any clients.
    For a client with one request in flight, records that were each sent once have the order of
    their sends; a retried one may have been overtaken. An idempotent client's records all have
    that order (KIP-98). Each life of a topic has its own order.
    acknowledged_records.py checks that the log has the records at these offsets.
    sends_one_at_a_time, is_idempotent: called with a process.
    """
    findings: list[Finding] = []
    known = [ack for ack in acknowledged if ack.life.life != UNKNOWN_LIFE]
    for own in _grouped(known, lambda ack: (ack.topic, ack.partition, ack.life.life)):
        findings += _below_acknowledged_records(own)
        for sent in _grouped(own, lambda ack: ack.process):
            if is_idempotent(sent[0].process):
                findings += _below_sent_records(sent, "I20")
            elif sends_one_at_a_time(sent[0].process):
                findings += _below_sent_records([ack for ack in sent if ack.tries == SENT_ONCE])
    return CheckResult("records lie in the order of sends", len(known), tuple(findings))


def _below_acknowledged_records(own: Sequence[Acknowledged]) -> Iterator[Finding]:
    """Yield the sends with an offset below a record that was acknowledged before they began."""
    by_end = sorted(own, key=lambda ack: ack.acknowledged_ns)
    highest: Acknowledged | None = None
    ended = 0
    for ack in sorted(own, key=lambda ack: ack.invoked_ns):
        while ended < len(by_end) and by_end[ended].acknowledged_ns < ack.invoked_ns:
            if highest is None or by_end[ended].offset > highest.offset:
                highest = by_end[ended]
            ended += 1
        if highest is not None and ack.offset <= highest.offset:
            what = Wording.BELOW_ACKNOWLEDGED.filled(
                value=ack.value,
                offset=ack.offset,
                first_value=highest.value,
                first_offset=highest.offset,
            )
            yield _finding("realtime-send", ack, what)


def _below_sent_records(
    sent: Sequence[Acknowledged], invariant: str = "nonmonotonic-send"
) -> Iterator[Finding]:
    """Yield the records of one client that are below one that it sent before; operations rise."""
    highest = _NO_OFFSET
    for ack in sorted(sent, key=lambda ack: ack.operation_id):
        if ack.offset <= highest:
            what = Wording.BELOW_SENT.filled(value=ack.value, offset=ack.offset, highest=highest)
            yield _finding(invariant, ack, what)
        highest = max(highest, ack.offset)


def _grouped(
    acknowledged: Iterable[Acknowledged], key: Callable[[Acknowledged], object]
) -> list[list[Acknowledged]]:
    groups: dict[object, list[Acknowledged]] = {}
    for ack in acknowledged:
        groups.setdefault(key(ack), []).append(ack)
    return list(groups.values())


def _finding(invariant: str, ack: Acknowledged, message: str) -> Finding:
    return Finding(
        invariant,
        message,
        ack.topic,
        ack.partition,
        ack.offset,
        operation=ack.operation,
    )
