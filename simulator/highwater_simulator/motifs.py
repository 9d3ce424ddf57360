"""Motifs: short sequences of faults in which replication protocols are known to have failed.

Each is drawn as a whole, with its own targets and times, and then mixed with single faults. They
are taken from the catalogue of historical bugs (docs/reference/catalogue.md) and from other
simulators (swizzle-clogging); none depends on the bug that it may show.
"""

from __future__ import annotations

from collections.abc import Callable

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_simulator.draws import Targets

Motif = Callable[[Targets, int], list[Step]]


def fast_failovers(t: Targets, at_ms: int) -> list[Step]:
    """Leader after leader fails, perhaps while one follower cannot fetch from the others."""
    leader = f"leader of {t.partition()}"
    steps: list[Step] = []
    if t.draw.chance(0.7):
        for peer in t.draw.of(((t.broker(),), (t.broker(), t.broker()))):
            cut = f.Cut(t.draw.of(t.brokers), peer, "replication", t.draw.chance(0.7), 3_000)
            steps.append(Step(max(0, at_ms - t.draw.of((20, 100, 400))), cut))
    gap_ms = t.draw.of((60, 300, 700, 1_300, 2_600))
    for number in range(t.draw.of((2, 2, 3, 4))):
        steps.append(Step(at_ms + number * gap_ms, end_of_leadership(t, leader)))
    return steps


def end_of_leadership(t: Targets, leader: str) -> f.Fault:
    """Draw a fault that ends a leadership."""
    for_ms = t.draw.of((400, 1_000, 2_000, 4_000))
    ends: tuple[f.Fault, ...] = (
        f.Kill(leader, for_ms),
        f.Terminate(leader, for_ms),
        f.Isolate(leader, for_ms),
        f.ExpireSession(leader),
        f.Pause(leader, for_ms),
    )
    return t.draw.of(ends)


def there_and_back(t: Targets, at_ms: int) -> list[Step]:
    """Leadership goes to another broker and comes back; one follower learns of neither.

    Before, some records reach only that follower. Source: KAFKA-7164, KAFKA-6880.
    """
    at = t.partition()
    leader, deaf = f"leader of {at}", f"last follower of {at}"
    back_ms = t.draw.of((600, 1_200, 2_200))
    ends: tuple[f.Fault, ...] = (
        f.ExpireSession(leader),
        f.Kill(leader, 60),
        f.Terminate(leader, 1),
    )
    behind = f.Cut(leader, f"follower of {at}", "replication", True, t.draw.of((300, 800)))
    return [
        Step(at_ms, f.Cut("any", deaf, "control", False, back_ms + t.draw.of((600, 2_000)))),
        Step(at_ms + 5, behind),
        Step(
            at_ms + 10,
            t.draw.of(ends),
            When(Observed.FOLLOWER_BEHIND, partition=at, then_after_ms=t.draw.of((5, 50, 150))),
        ),
        Step(at_ms + back_ms, t.draw.of(ends)),
    ]


def split_tails(t: Targets, at_ms: int) -> list[Step]:
    """Two leaders in turn append records that only some get. Source: KAFKA-6361, KIP-279."""
    at = t.partition()
    leader = f"leader of {at}"
    gap_ms = t.draw.of((30, 100, 300))
    return [
        Step(at_ms, f.Cut(leader, f"follower of {at}", "replication", True, 2_500)),
        Step(
            at_ms + 1,
            f.Kill(leader, t.draw.of((1_500, 3_000))),
            When(Observed.FOLLOWER_BEHIND, partition=at, then_after_ms=gap_ms),
        ),
        Step(
            at_ms + 2,
            f.Cut(leader, f.ANY, "replication", True, 2_000),
            When(Observed.EVENT, event="became_leader", partition=at),
        ),
        Step(
            at_ms + 3,
            f.Kill(leader, t.draw.of((300, 1_000, 2_000))),
            When(Observed.EVENT, event="became_leader", partition=at, then_after_ms=gap_ms + 60),
        ),
    ]


def straggler(t: Targets, at_ms: int) -> list[Step]:
    """A follower is kept out of the ISR, a little behind, when leadership changes.

    Source: KAFKA-7128: it may then be ahead of the new leader's stale high watermark.
    """
    at = t.partition()
    leader = f"leader of {at}"
    latency_ms = t.draw.of((150, 400, 1_000))
    slow = f.SlowLink(leader, f"last follower of {at}", "replication", latency_ms, 0, 4_000)
    return [
        Step(at_ms, slow),
        Step(
            at_ms + t.draw.of((500, 1_200, 2_400)),
            end_of_leadership(t, leader),
            When(Observed.HIGH_WATERMARK_BEHIND, partition=at),
        ),
    ]


def late_controller(t: Targets, at_ms: int) -> list[Step]:
    """An old controller's commands arrive after those of the next one."""
    at = t.partition()
    late_ms = t.draw.of((300, 900, 2_000))
    slow = f.SlowLink("active controller", t.broker(), "control", late_ms, late_ms // 2, 2_500)
    ends: tuple[f.Fault, ...] = (
        f.ExpireSession("active controller"),
        f.Pause("active controller", 2 * late_ms),
        f.Kill("active controller", 800),
    )
    return [
        Step(at_ms, slow),
        Step(at_ms + 10, f.ExpireSession(f"leader of {at}")),
        Step(at_ms + t.draw.of((30, 120, 400)), t.draw.of(ends)),
        Step(at_ms + t.draw.of((500, 1_200)), f.ExpireSession(f"leader of {at}")),
    ]


def zombie_leader(t: Targets, at_ms: int) -> list[Step]:
    """A leader is deposed and does not know it: clients and followers still reach it."""
    leader = f"leader of {t.partition()}"
    for_ms = t.draw.of((800, 2_000, 4_000))
    steps = [
        Step(at_ms, f.Cut(leader, "zookeeper", "zookeeper", True, for_ms)),
        Step(at_ms, f.Cut("any", leader, "control", t.draw.chance(0.5), for_ms + 500)),
    ]
    if t.draw.chance(0.5):
        follower = t.draw.of(t.brokers)
        steps.append(Step(at_ms, f.Cut("any", follower, "control", False, for_ms + 1_000)))
    return steps


def lagging_follower(t: Targets, at_ms: int) -> list[Step]:
    """A follower falls behind within the allowed lag; then the leader fails."""
    at = t.partition()
    delay_ms = t.draw.of((30, 150, 500))
    behind: tuple[f.Fault, ...] = (
        f.Cut(f"leader of {at}", f"follower of {at}", "replication", True, delay_ms + 200),
        f.SlowLink(f"leader of {at}", f"follower of {at}", "replication", delay_ms, 0, 2_000),
        f.Pause(f"follower of {at}", delay_ms),
    )
    when = When(
        t.draw.of((Observed.FOLLOWER_BEHIND, Observed.HIGH_WATERMARK_BEHIND)),
        partition=at,
        then_after_ms=t.draw.of((0, 1, 10)),
    )
    end = end_of_leadership(t, f"leader of {at}")
    return [Step(at_ms, t.draw.of(behind)), Step(at_ms, end, when)]


def bounce_in_a_write(t: Targets, at_ms: int) -> list[Step]:
    """A broker that was down is restarted while the write that adds it to the ISR is under way.

    It may be registered again, and not yet fetch, when the write takes effect. Source: KIP-903,
    KIP-841.
    """
    at = t.partition()
    who = t.draw.of(("active controller", f"leader of {at}"))
    point = "before_state_write" if who == "active controller" else "before_isr_write"
    bounced = t.draw.of(t.brokers)  # by name: out of the ISR it does not count as a follower
    away_ms, hold_ms = t.draw.of((400, 1_200, 2_200, 3_500)), t.draw.of((100, 700, 1_500, 4_000))
    back_ms = at_ms + away_ms
    disk = f.DiskAtStart.EMPTY if t.may_lose and t.draw.chance(0.8) else f.DiskAtStart.KEPT
    event, after_ms = t.draw.of(("isr_change_proposed", "fail_point_hit")), t.draw.of((0, 5, 50))
    when = When(Observed.EVENT, event=event, then_after_ms=after_ms)
    steps = [
        Step(at_ms, f.Pause(bounced, away_ms)),
        Step(t.draw.of((at_ms, back_ms)), f.DelayAt(who, point, hold_ms, 4, 4_000)),
        Step(back_ms, f.Kill(bounced, t.draw.of((1, 30, 600)), disk), when),
    ]
    if t.draw.chance(0.7):  # else its old registration blocks the new one until its session ends
        steps.insert(2, Step(back_ms, f.ExpireSession(bounced), when))
    if t.draw.chance(0.85):
        held = f.DelayAt(bounced, "before_first_fetch", t.draw.of((700, 2_000, 5_000)), 2, 6_000)
        steps.append(Step(back_ms, held))
    return steps


def back_with_nothing(t: Targets, at_ms: int) -> list[Step]:
    """A broker that is about to join the ISR restarts with an empty disk before the ISR is written.

    If its session does not expire meanwhile, it joins by its fetches, without an election. Only for
    schedules in which disks may lose data. Source: KIP-903.
    """
    at = t.partition()
    bounced = t.draw.of(t.brokers)
    away_ms, hold_ms = t.draw.of((1_000, 1_800)), t.draw.of((700, 2_000, 4_000))
    back_ms = at_ms + away_ms
    proposed = When(Observed.EVENT, event="isr_change_proposed", then_after_ms=t.draw.of((0, 5)))
    emptied = f.Kill(bounced, t.draw.of((1, 30)), f.DiskAtStart.EMPTY)
    return [
        Step(at_ms, f.Pause(bounced, away_ms)),
        Step(back_ms - 50, f.DelayAt(f"leader of {at}", "before_isr_write", hold_ms, 4, 6_000)),
        Step(back_ms - 50, f.DelayAt(bounced, "before_first_fetch", 5_000, 4, 6_000)),
        Step(back_ms, f.ExpireSession(bounced), proposed),
        Step(back_ms, emptied, proposed),
    ]


def crawling_joiner(t: Targets, at_ms: int) -> list[Step]:
    """A follower out of the ISR catches up with a new leader batch by batch.

    That leader's high watermark is below the committed end until another ISR member has fetched
    from it. The follower stands still at the offset at which it is proposed for the ISR. Source:
    KAFKA-7128.
    """
    at, joiner = t.partition(), t.draw.of(t.brokers)
    leader, out_ms = f"leader of {at}", t.draw.of((900, 1_500, 2_500))
    silent_ms, late_ms = t.draw.of((700, 2_000)), t.draw.of((1, 20, 60))
    change_ms, behind = at_ms + out_ms, When(Observed.HIGH_WATERMARK_BEHIND, partition=at)
    stops: tuple[f.Fault, ...] = (
        f.Pause(joiner, t.draw.of((200, 700))),
        f.Cut(joiner, f.ANY, "replication", True, 700),
    )
    steps = [
        Step(at_ms, f.Cut(leader, joiner, "replication", True, out_ms + 4_000)),
        Step(at_ms, f.SlowLink(leader, f.ANY, "replication", late_ms, 0, out_ms)),
        *(
            Step(change_ms, f.DelayAt(f"{who} of {at}", "before_first_fetch", silent_ms, 2, 3_000))
            for who in ("follower", "last follower")
        ),
        Step(change_ms, end_of_leadership(t, leader), behind),
    ]
    if t.draw.chance(0.7):
        proposed = When(Observed.EVENT, event="isr_change_proposed", partition=at)
        steps.append(Step(change_ms + 1, t.draw.of(stops), proposed))
    if t.draw.chance(0.3):
        fails_ms = change_ms + t.draw.of((50, 200, 700))
        steps.append(Step(fails_ms, end_of_leadership(t, leader)))
    return steps


def late_fetches(t: Targets, at_ms: int) -> list[Step]:
    """A follower's fetches from before its new registration arrive after later ones.

    Source: KIP-903.
    """
    follower, slow_ms = t.draw.of(t.brokers), t.draw.of((300, 900))
    link = follower, f"leader of {t.partition()}", "replication"
    late_ms, again_ms = t.draw.of((1_500, 3_000, 6_000)), at_ms + slow_ms - 20
    return [
        Step(at_ms, f.SlowLink(*link, late_ms, 0, slow_ms)),
        Step(again_ms, f.ExpireSession(follower)),
        Step(again_ms + t.draw.of((0, 5)), f.Kill(follower, t.draw.of((30, 300)))),
    ]


def deposed_controller(t: Targets, at_ms: int) -> list[Step]:
    """A controller is paused in the middle of its work until another one is elected."""
    hold_ms = t.draw.of((600, 1_500, 3_000))
    held: tuple[f.Fault, ...] = (
        f.Pause("active controller", hold_ms),
        f.Cut("active controller", "zookeeper", "zookeeper", True, hold_ms),
        f.ExpireSession("active controller"),
    )
    point = t.draw.of(("before_state_write", "after_state_write", "before_command_sent"))
    return [
        Step(at_ms, f.DelayAt("active controller", point, hold_ms, 6, hold_ms)),
        Step(at_ms + t.draw.of((0, 20, 200)), end_of_leadership(t, f"leader of {t.partition()}")),
        Step(at_ms + t.draw.of((10, 250, 900)), t.draw.of(held)),
        Step(at_ms + hold_ms // 2, f.Kill(t.broker(), t.draw.of((5, 300, 1_500)))),
    ]


def late_commands(t: Targets, at_ms: int) -> list[Step]:
    """Commands to a broker arrive late, after their own retries."""
    broker = t.broker()
    late = f.SlowLink("any", broker, "control", t.draw.of((300, 900, 2_500)), 400, 3_000)
    return [
        Step(at_ms, late),
        Step(at_ms + 50, f.Terminate(t.broker(), 200)),
        Step(at_ms + 200, end_of_leadership(t, f"leader of {t.partition()}")),
        Step(at_ms + 600, f.ResetConnections("active controller", broker, "control")),
        Step(at_ms + 900, f.Kill(broker, t.draw.of((1, 400)))),
    ]


def recreated_topic(t: Targets, at_ms: int) -> list[Step]:
    """A topic is deleted while a replica is down, and created again."""
    away = t.draw.of(t.brokers)
    gap_ms = t.draw.of((300, 700))
    factor = min(2, len(t.brokers))
    return [
        Step(at_ms, f.CreateTopic("x", 1, factor, records=3)),
        Step(at_ms + gap_ms, f.Kill(away, 3 * gap_ms)),
        Step(at_ms + gap_ms + 50, f.DeleteTopic("x")),
        Step(at_ms + 3 * gap_ms, f.CreateTopic("x", 1, factor, records=1)),
    ]


def all_down(t: Targets, at_ms: int) -> list[Step]:
    """Every broker goes down, one soon after the other; they return in another order."""
    gap_ms = t.draw.of((0, 5, 150, 700))
    steps = [
        Step(at_ms + number * gap_ms, f.Kill(broker, t.draw.of((100, 800, 2_000, 3_000))))
        for number, broker in enumerate(t.brokers)
    ]
    if t.draw.chance(0.3):
        steps.append(Step(at_ms + gap_ms, f.Kill("active controller", 500)))
    return steps


def swizzle(t: Targets, at_ms: int) -> list[Step]:
    """Some nodes are cut off one by one, and come back in another order."""
    steps: list[Step] = []
    for number in range(t.draw.of((2, 3))):
        for_ms = t.draw.of((300, 900, 1_800, 3_000))
        steps.append(Step(at_ms + 120 * number, f.Isolate(t.node(), for_ms)))
    return steps


MOTIFS: tuple[Motif, ...] = (
    fast_failovers,
    there_and_back,
    there_and_back,
    split_tails,
    split_tails,
    straggler,
    straggler,
    late_controller,
    zombie_leader,
    lagging_follower,
    lagging_follower,
    bounce_in_a_write,
    deposed_controller,
    late_commands,
    recreated_topic,
    all_down,
    swizzle,
)

JOIN_MOTIFS: tuple[Motif, ...] = (
    back_with_nothing,
    back_with_nothing,
    crawling_joiner,
    crawling_joiner,
    crawling_joiner,
    late_fetches,
    late_fetches,
    bounce_in_a_write,
    straggler,
)
"""Motifs of replicas that leave the ISR and join it again."""
