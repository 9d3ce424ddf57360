"""Triggers of the rows about truncations to a leader's log, done wrongly or left out.

Rows 1 (KAFKA-1211), 2 (KIP-101), 3 (KAFKA-6361), 4 (KAFKA-7415), 5 (KAFKA-7164), 6 (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from highwater_checker.catalogue.story import (
    EPOCH_UNKNOWN,
    SHOWS_LOG_END,
    TO_HIGH_WATERMARK,
    PartitionStory,
    Seen,
    leads,
    reaches,
)
from highwater_core.events import EventKind, TraceEvent


def truncated_below_committed_records(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 1: a replica cut committed records, down to its own high watermark, and then led.

    It led before it had fetched the records again. Or it may yet be elected: it has not fetched
    them, and the epoch of the cut is not over (that of the command; of the newest state where
    the command came late). A leader may commit the records after the cut, too: it goes on
    counting the log end that the follower had.
    """
    story = PartitionStory(trace, topic, partition)
    for cut in story.of(EventKind.LOG_TRUNCATED):
        if cut.event.detail.get("reason") == TO_HIGH_WATERMARK:
            evidence = _lost_by(story, cut, offset)
            if evidence is not None:
                return evidence
    return None


def _lost_by(story: PartitionStory, cut: Seen, offset: int) -> str | None:
    """Return how the cut to a high watermark lost what is committed there, as row 1 has it."""
    if not reaches(offset, cut.offset):
        return None
    committed = story.committed_by_others(cut)
    if committed is None:
        return None
    wanted = committed.offset if offset < 0 else min(committed.offset, offset + 1)
    evidence = (
        f"broker {cut.node} cut its log from {cut.event.detail.get('from_offset')} to its high "
        f"watermark {cut.offset} in epoch {cut.epoch}; leader {committed.node} had committed up to "
        f"{committed.offset} in epoch {committed.epoch}"
    )
    led = story.led_without(cut, wanted)
    if led is not None:
        return f"{evidence}; it then {leads(led)} without having fetched it back"
    is_over = story.latest_epoch() > max(cut.epoch, story.latest_epoch(before=cut.place)) + 1
    if is_over or story.is_back(cut, wanted):
        return None
    return f"{evidence}; it has not fetched it back"


def led_after_losing_its_end(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 2: a leader lost its log's unflushed end in a crash, and appends other records there."""
    story = PartitionStory(trace, topic, partition)
    for recovered in story.of(EventKind.LOG_RECOVERED):
        held = story.highest_end(recovered.node, before=recovered.place)
        if held <= recovered.offset or not reaches(offset, recovered.offset):
            continue
        wanted = held if offset < 0 else min(held, offset + 1)
        led = story.led_without(recovered, wanted)
        if led is not None:
            return (
                f"broker {recovered.node} held offsets up to {held}, came back from a crash with "
                f"{recovered.offset} and {leads(led)} from there"
            )
    return None


def kept_an_epoch_that_its_leader_lacks(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 3: the leader answers for its follower's last epoch, which it lacks, and says only where.

    The follower's log does not reach that far, so it cuts nothing. Each keeps what it has of an
    epoch that the other lacks.
    """
    story = PartitionStory(trace, topic, partition)
    for told in reversed(list(story.of(EventKind.BECAME_FOLLOWER))):
        own = _held(story, told.node, told.place)
        leaders = _held(story, told.leader, told.place)
        asked = max((each.epoch for each in own), default=-1)
        if asked in {-1, *(each.epoch for each in leaders)}:
            continue
        for mine, theirs, at in _written_apart(own, leaders):
            if reaches(offset, at) and not _was_cut(story, told, at):
                return (
                    f"broker {told.node}, whose last epoch was {asked}, followed {told.leader}, "
                    f"which had none of it, in epoch {told.epoch} and kept its log up to "
                    f"{told.offset}; at {at} it has a record of epoch {mine.epoch}, "
                    f"{told.leader} one of {theirs.epoch}"
                )
    return None


def _written_apart(own: list[Seen], leaders: list[Seen]) -> Iterator[tuple[Seen, Seen, int]]:
    """Yield two appends of different epochs to one offset, and the offset."""
    for mine in own:
        for theirs in leaders:
            at = max(mine.offset, theirs.offset)
            if mine.epoch != theirs.epoch and at < min(_end(mine), _end(theirs)):
                yield mine, theirs, at


def _held(story: PartitionStory, node: int, before: int) -> list[Seen]:
    """Return appends whose records the node has at that place: its own, or of whom it followed.

    A follower fetches from its log's end on, so it has none whose batch its leader began below.
    """
    held: list[Seen] = []
    following, fetches_from = (-1, -1), 0
    for seen in story.seen:
        if seen.place >= before:
            break
        if seen.kind is EventKind.LOG_APPENDED:
            is_fetched = (seen.node, seen.epoch) == following and seen.offset >= fetches_from
            if seen.node == node or is_fetched:
                held.append(seen)
        elif seen.node == node and seen.kind in SHOWS_LOG_END:
            held = [each for each in held if each.offset < seen.offset]
            fetches_from = seen.offset
            if seen.kind is EventKind.BECAME_FOLLOWER:
                following = seen.leader, seen.epoch
            elif seen.kind is EventKind.BECAME_LEADER:
                following = -1, -1
    return held


def _end(appended: Seen) -> int:
    return int(appended.event.detail["end_offset"])


def _was_cut(story: PartitionStory, told: Seen, offset: int) -> bool:
    """Return whether the follower has cut that offset since it was told to follow."""
    return any(
        cut.node == told.node and cut.place > told.place and cut.offset <= offset
        for cut in story.of(EventKind.LOG_TRUNCATED)
    )


def leads_without_having_written(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 4: a leader has appended no record in its epoch, so its epoch cache lacks the epoch.

    Or a follower asked it for an epoch above all that it has, got no answer, and so cut its log to
    a high watermark below what is committed. Nothing else excuses a violation with an offset.
    """
    story = PartitionStory(trace, topic, partition)
    if offset < 0:
        appended = _appended(story)
        for leader in _leading(story, len(trace)).values():
            if (leader.node, leader.epoch) not in appended:
                return (
                    f"broker {leader.node} leads epoch {leader.epoch} from {leader.offset} on and "
                    f"has written nothing in it"
                )
    for cut in story.of(EventKind.LOG_TRUNCATED):
        if not str(cut.event.detail.get("reason")).startswith(EPOCH_UNKNOWN):
            continue
        evidence = _lost_by(story, cut, offset)
        asked = None if evidence is None else _leader_without_the_epoch(story, cut)
        if asked is not None:
            return (
                f"leader {asked.node} had written nothing in epoch {cut.epoch} when it was asked: "
                f"{evidence}"
            )
    return None


def _leader_without_the_epoch(story: PartitionStory, cut: Seen) -> Seen | None:
    """Return the leader that the follower asked, if all that it had is of an earlier epoch."""
    asked = max((each.epoch for each in _held(story, cut.node, cut.place)), default=-1)
    fetchers = [seen for seen in story.of(EventKind.FETCHER_STARTED) if seen.node == cut.node]
    begun = [seen.place for seen in fetchers if seen.place < cut.place]
    for leader in _leading(story, cut.place).values():
        at = max(leader.place, *begun[-1:])
        known = max((each.epoch for each in _held(story, leader.node, at)), default=-1)
        if leader.epoch == cut.epoch and known < asked:
            return leader
    return None


def _leading(story: PartitionStory, before: int) -> dict[int, Seen]:
    """Return each broker's leadership that lasts at that place of the trace."""
    leading: dict[int, Seen] = {}
    for seen in story.of(
        EventKind.BECAME_LEADER, EventKind.BECAME_FOLLOWER, EventKind.REPLICA_STARTED
    ):
        if seen.place >= before:
            break
        leading.pop(seen.node, None)
        if seen.kind is EventKind.BECAME_LEADER:
            leading[seen.node] = seen
    return leading


def _appended(story: PartitionStory) -> set[tuple[int, int]]:
    """Return (node, epoch) of each leader that still has the first record it appended in it."""
    starts: dict[tuple[int, int], int] = {}
    for seen in story.of(EventKind.LOG_APPENDED, EventKind.LOG_RECOVERED):
        if seen.kind is EventKind.LOG_APPENDED:
            starts.setdefault((seen.node, seen.epoch), seen.offset)
            continue
        for node, epoch in tuple(starts):
            if node == seen.node and starts[node, epoch] >= seen.offset:
                del starts[node, epoch]
    return set(starts)


@dataclass(frozen=True, slots=True)
class _LedAgain:
    """A broker that led, lost records, and led again.

    first, again: its leaderships before and after the loss.
    cut: the loss, by a truncation as another leader's follower, or by a crash (LOG_RECOVERED).
    """

    leader: int
    first: Seen
    cut: Seen
    again: Seen

    @property
    def epoch(self) -> int:
        """The first epoch in which another leader may have written at the lost offsets."""
        is_lost = self.cut.kind is EventKind.LOG_RECOVERED
        return self.again.epoch if is_lost else self.cut.epoch

    def __str__(self) -> str:
        if self.cut.kind is EventKind.LOG_RECOVERED:
            return f"the leader had come back from a crash with {self.cut.offset}"
        return (
            f"the leader had cut its log from {self.cut.event.detail.get('from_offset')} to "
            f"{self.cut.offset} in epoch {self.cut.epoch}"
        )


def kept_its_log_for_a_leader_that_had_cut_its_own(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 5: a follower missed an epoch, has the same leader after it, and does not truncate.

    What it cut before its leader did is beside the point: it has fetched since.
    """
    story = PartitionStory(trace, topic, partition)
    for led in _led_again(story):
        for before, after in _same_leader_told_again(story, led):
            is_cut = any(
                cut.node == after.node and led.cut.place < cut.place
                for cut in story.of(EventKind.LOG_TRUNCATED)
            )
            if not is_cut and after.offset > led.cut.offset and reaches(offset, led.cut.offset):
                return (
                    f"broker {after.node} followed {led.leader} in epochs {before.epoch} and "
                    f"{after.epoch}, was told of none between, and kept its log up to "
                    f"{after.offset}; the leader had cut its own to {led.cut.offset} in epoch "
                    f"{led.cut.epoch}"
                )
    return None


def _same_leader_told_again(story: PartitionStory, led: _LedAgain) -> list[tuple[Seen, Seen]]:
    """Return each follower's last command before the leader's cut and its next one, after it."""
    found: list[tuple[Seen, Seen]] = []
    last: dict[int, Seen] = {}
    for seen in story.of(
        EventKind.BECAME_FOLLOWER,
        EventKind.BECAME_LEADER,
        EventKind.REPLICA_STARTED,
        EventKind.REPLICA_STOPPED,
    ):
        before = last.get(seen.node)
        last[seen.node] = seen
        if (
            before is not None
            and before.kind is seen.kind is EventKind.BECAME_FOLLOWER
            and before.leader == seen.leader == led.leader
            and before.epoch < led.cut.epoch < seen.epoch  # a lost end has no epoch
        ):
            found.append((before, seen))
    return found


def fetched_in_an_older_epoch(
    trace: Sequence[TraceEvent], topic: str, partition: int, offset: int
) -> str | None:
    """Row 6: a follower goes on fetching from a leader whose new epoch it does not know.

    Either the leader has lost records meanwhile, by a truncation or a crash. Or the follower hears
    of the epoch late: it then leads an epoch older than that of records in its log. Or it is in
    the ISR of that epoch, and then gets a command to delete it that was sent before.
    """
    story = PartitionStory(trace, topic, partition)
    return (
        _fetched_over_a_cut(story, offset)
        or _led_an_epoch_below_its_log(story, offset)
        or _deleted_in_an_epoch_before_its_isr(story)
    )


def _fetched_over_a_cut(story: PartitionStory, offset: int) -> str | None:
    for led in _led_again(story):
        for told in story.of(EventKind.BECAME_FOLLOWER):
            if told.leader != led.leader or told.epoch >= led.epoch:
                continue
            if told.place > led.cut.place or _was_told_more(story, told, led.again.place):
                continue
            if reaches(offset, led.cut.offset):
                return (
                    f"broker {told.node} was told of leader {led.leader} in epoch {told.epoch} and "
                    f"of nothing more until that led again in epoch {led.again.epoch}; meanwhile "
                    f"{led}"
                )
    return None


def _led_an_epoch_below_its_log(story: PartitionStory, offset: int) -> str | None:
    """Return the evidence that a leader's log has records of a higher epoch than it leads.

    It fetched these records as a follower, in an older epoch, from a leader that wrote them.
    """
    for told in story.of(EventKind.BECAME_FOLLOWER):
        led = story.next_role(told)
        if led is None or led.kind is not EventKind.BECAME_LEADER:
            continue
        if story.restarted(told.node, after=told.place, before=led.place) is not None:
            continue
        for written in story.of(EventKind.LOG_APPENDED):
            if written.node != told.leader or not told.place < written.place < led.place:
                continue
            is_ahead = written.epoch > max(told.epoch, led.epoch) and written.offset < led.offset
            if is_ahead and reaches(offset, written.offset):
                return (
                    f"broker {told.node} was told of leader {told.leader} in epoch {told.epoch} "
                    f"and of nothing more while that wrote {written.offset} in epoch "
                    f"{written.epoch}; its log went up to {led.offset} when it was told to lead "
                    f"epoch {led.epoch}"
                )
    return None


def _deleted_in_an_epoch_before_its_isr(story: PartitionStory) -> str | None:
    """Return the evidence that a replica was deleted in an epoch older than an ISR that it is in.

    The leader of the later epoch counted its fetches, though it had not heard of that epoch.
    """
    isr: Seen | None = None
    for seen in story.of(EventKind.ISR_CHANGED, EventKind.REPLICA_STOPPED):
        if seen.kind is EventKind.ISR_CHANGED:
            isr = seen if isr is None or seen.epoch >= isr.epoch else isr
            continue
        is_counted = isr is not None and seen.node in isr.isr and seen.epoch < isr.epoch
        if isr is not None and is_counted and seen.event.detail.get("deleted"):
            return (
                f"leader {isr.node} of epoch {isr.epoch} took broker {seen.node} into the ISR, "
                f"which knew of epoch {seen.epoch} and deleted its replica in that epoch"
            )
    return None


def _was_told_more(story: PartitionStory, told: Seen, before: int) -> bool:
    """Return whether the follower got another command, or was restarted, before that place."""
    following = story.next_role(told)
    is_told = following is not None and following.place < before
    return is_told or story.restarted(told.node, after=told.place, before=before) is not None


def _led_again(story: PartitionStory) -> list[_LedAgain]:
    found: list[_LedAgain] = []
    leaderships = story.leaderships()
    for cut in story.of(EventKind.LOG_TRUNCATED, EventKind.LOG_RECOVERED):
        is_recovery = cut.kind is EventKind.LOG_RECOVERED
        if is_recovery and story.highest_end(cut.node, before=cut.place) <= cut.offset:
            continue
        earlier = [led for led in leaderships if led.node == cut.node and led.place < cut.place]
        later = [led for led in leaderships if led.node == cut.node and led.place > cut.place]
        if earlier and later:
            found.append(_LedAgain(cut.node, earlier[-1], cut, later[0]))
    return found
