"""I9: a consumer's fetch in [high watermark, log end) gets nothing and no error.

Source: docs/reference/invariants.md, I9; docs/reference/catalogue.md, row 23
(KAFKA-725); V3 design, section C.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from highwater_checker.finding import CheckResult, Finding
from highwater_checker.lives import Life, Lives
from highwater_checker.looks import Look, incarnation_at, replica_at
from highwater_checker.probes import NO_ANSWER, Probe
from highwater_checker.wording import Wording
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.messages import ReplicaSnapshot

CHECK = "fetches in [HW, LEO) are empty (I9)"
STOOD_BETWEEN = "stood in [HW, LEO)"
STOOD_ABOVE = "stood at an old leader's HW above the new one's"


@dataclass(frozen=True, slots=True)
class Known:
    """The leader that answered a probe, from a look before and one after it.

    Within one leadership neither log end nor high watermark falls.
    began: its BECAME_LEADER, where the traces have it.
    led_throughout: it led in both looks.
    looks: their times.
    """

    least_end_offset: int
    least_high_watermark: int
    most_high_watermark: int
    log_start_offset: int
    began: TraceEvent | None
    led_throughout: bool
    looks: tuple[int, int]


def check_empty_fetches(
    probes: Sequence[Probe], looks: Sequence[Look], events: Sequence[TraceEvent]
) -> CheckResult:
    """Find answers with records at or above their high watermark, or errors for offsets in the log.

    Examined are the empty answers that certainly hid records: the offset was at or above the
    answer's high watermark and below the leader's log end. Noted apart are answers at an offset
    that an older leader had reported as high watermark, above that of the new leader, whose trace
    shows that it began below it.
    """
    leaders = _Leaders(looks, events)
    told = _Told(probes)
    findings: list[Finding] = []
    examined = between = above = 0
    for probe in probes:
        if probe.error == NO_ANSWER:
            continue
        known = leaders.of(probe)
        findings.extend(_wrong(probe, known))
        if probe.error or not probe.is_empty or known is None:
            continue
        stands_between = probe.high_watermark <= probe.offset < known.least_end_offset
        stands_above = (
            probe.offset > probe.high_watermark
            and _began_below(known.began, probe.offset)
            and told.before_by_another(probe)
        )
        between += stands_between
        above += stands_above
        examined += stands_between or stands_above
    noted = ((STOOD_BETWEEN, between), (STOOD_ABOVE, above))
    return CheckResult(CHECK, examined, tuple(findings), noted)


def _wrong(probe: Probe, known: Known | None) -> Iterator[Finding]:
    if not probe.is_empty and probe.last_record >= probe.high_watermark:
        yield _finding(probe, Wording.GOT_UNCOMMITTED)
    if known is None or probe.offset < known.log_start_offset:
        return
    is_of_a_leader = known.led_throughout or probe.error == ErrorCode.OFFSET_OUT_OF_RANGE.name
    if probe.error and is_of_a_leader and probe.offset <= known.least_end_offset:
        yield _finding(probe, Wording.GOT_ERROR, known)
    told, least, most = (
        probe.high_watermark,
        known.least_high_watermark,
        known.most_high_watermark,
    )
    if not probe.error and not least <= told <= most:
        yield _finding(probe, Wording.TOLD_HIGH_WATERMARK, known)


def _finding(probe: Probe, wording: Wording, known: Known | None = None) -> Finding:
    facts = {} if known is None else asdict(known)
    return Finding(
        "I9",
        wording.filled(**asdict(probe), **facts),
        probe.topic,
        probe.partition,
        probe.offset,
        probe.broker,
        f"probe at {probe.asked_ns / 1e9:.3f} s",
        looks=() if known is None else known.looks,
        probed=probe.probed,
    )


def _began_below(began: TraceEvent | None, offset: int) -> bool:
    """Return whether the epoch began with its high watermark below the offset, its log end not."""
    return (
        began is not None
        and began.offset is not None
        and int(began.detail["high_watermark"]) < offset <= began.offset
    )


class _Told:
    """The high watermarks in answers to consumers, with the broker and the time."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        self._answers: dict[tuple[str, int], list[Probe]] = {}
        for probe in sorted(probes, key=lambda each: each.answered_ns):
            if not probe.error:
                self._answers.setdefault((probe.topic, probe.partition), []).append(probe)

    def before_by_another(self, probe: Probe) -> bool:
        """Return whether another broker had reported the probe's offset as high watermark."""
        answers = self._answers.get((probe.topic, probe.partition), [])
        return any(
            each.high_watermark >= probe.offset
            and each.broker != probe.broker
            and each.answered_ns <= probe.asked_ns
            for each in answers
        )


class _Leaders:
    """The leaderships of the brokers that answered probes, from looks and traces."""

    def __init__(self, looks: Sequence[Look], events: Sequence[TraceEvent]) -> None:
        self._looks = looks
        self._times = [look.time_ns for look in looks]
        self._lives = Lives(events)
        self._began: dict[tuple[int, int, Life], list[TraceEvent]] = {}
        for event in events:
            life = self._lives.of_event(event)
            if event.kind is EventKind.BECAME_LEADER and life is not None:
                key = event.node, event.incarnation, life
                self._began.setdefault(key, []).append(event)

    def of(self, probe: Probe) -> Known | None:
        """Return the leader; None unless its leadership lasted from one look to the other."""
        at = TopicPartition(probe.topic, probe.partition)
        first = bisect_right(self._times, probe.asked_ns) - 1
        last = bisect_left(self._times, probe.answered_ns) + 1
        if first < 0 or last >= len(self._looks):
            return None
        before, after = self._looks[first], self._looks[last]
        incarnation = incarnation_at(after, probe.broker)
        was, now = replica_at(before, probe.broker, at), replica_at(after, probe.broker, at)
        if now is None or now.role != "leader":
            return None
        if incarnation_at(before, probe.broker) not in (incarnation, -1):
            return None
        began = self._began_in(probe.broker, incarnation, was, now)
        looks = before.time_ns, after.time_ns
        if was is not None and was.role == "leader":
            return _in_one_epoch(was, now, began, looks)
        if began is None or began.offset is None:
            return None
        return Known(
            began.offset,
            int(began.detail["high_watermark"]),
            int(now.high_watermark),
            int(now.log_start_offset),
            began,
            led_throughout=False,
            looks=looks,
        )

    def _began_in(
        self,
        broker: int,
        incarnation: int,
        was: ReplicaSnapshot | None,
        now: ReplicaSnapshot,
    ) -> TraceEvent | None:
        """Return the event that began its epoch, if it began no other since the look before."""
        life = self._lives.of(now.topic_partition, now.topic_id)
        if life is None:
            return None
        own = self._began.get((broker, incarnation, life), [])
        epoch = int(now.leader_epoch)
        since = int(was.leader_epoch) if was and was.topic_id == now.topic_id else -1
        begun = {event.leader_epoch: event for event in own}
        others = [e for e in begun if e is not None and since < e < epoch]
        return None if others else begun.get(now.leader_epoch)


def _in_one_epoch(
    was: ReplicaSnapshot,
    now: ReplicaSnapshot,
    began: TraceEvent | None,
    looks: tuple[int, int],
) -> Known | None:
    if was.leader_epoch != now.leader_epoch or was.topic_id != now.topic_id:
        return None
    return Known(
        int(was.log_end_offset),
        int(was.high_watermark),
        int(now.high_watermark),
        int(now.log_start_offset),
        began,
        led_throughout=True,
        looks=looks,
    )
