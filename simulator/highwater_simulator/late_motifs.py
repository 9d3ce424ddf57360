"""Motifs of messages that arrive late, twice or never, perhaps while an operator works.

Each has a random stream of its own.
"""

from __future__ import annotations

from highwater_chaos import faults as f
from highwater_chaos.plan import Observed, Step, When
from highwater_simulator.draws import Targets
from highwater_simulator.motifs import Motif, end_of_leadership


def late_answers(t: Targets, at_ms: int) -> list[Step]:
    """A follower reads a leader's answer after the leader was deposed and has other records.

    Meanwhile it cannot learn of the next leader, which lacks some of the follower's records.
    Source: KAFKA-18723.
    """
    at = t.partition()
    leader, roles = f"leader of {at}", ["follower", "last follower"]
    deaf, next_leader = (f"{role} of {at}" for role in t.draw.shuffled(roles))
    late_ms, behind_ms = t.draw.of((250, 600, 900)), t.draw.of((300, 500))
    begun = When(Observed.FOLLOWER_BEHIND, partition=at)
    deposed_ms = t.draw.of((30, 100, 200))
    deposed = When(Observed.FOLLOWER_BEHIND, partition=at, then_after_ms=deposed_ms)
    return [
        Step(at_ms, f.Cut("any", deaf, "control", False, 4_000)),
        Step(at_ms + 5, f.Cut(leader, next_leader, "replication", True, behind_ms)),
        Step(at_ms + 10, f.SlowLink(leader, deaf, "replication", late_ms, 0, 1_500), begun),
        Step(at_ms + 11, f.ExpireSession(leader), deposed),
    ]


def late_isr_writes(t: Targets, at_ms: int) -> list[Step]:
    """A leader's AlterPartition requests arrive late and twice, while its ISR goes on changing."""
    at = t.partition()
    leader, late_ms = f"leader of {at}", t.draw.of((250, 700, 1_500))
    link = leader, "active controller", "control"
    steps = [Step(at_ms, f.SlowLink(*link, late_ms, late_ms // 2, t.draw.of((1_000, 2_500))))]
    for number in range(t.draw.of((2, 3))):
        away_ms = t.draw.of((400, 900, 1_500))
        away: tuple[f.Fault, ...] = (
            f.Cut(leader, f"follower of {at}", "replication", True, away_ms),
            f.Pause(f"last follower of {at}", away_ms),
            f.Kill(f"follower of {at}", away_ms),
        )
        steps.append(Step(at_ms + number * t.draw.of((300, 900)), t.draw.of(away)))
    if t.draw.chance(0.4):
        steps.append(Step(at_ms + 600, f.Cut(*link[1::-1], "control", False, 800)))
    if t.draw.chance(0.4):
        steps.append(Step(at_ms + 1_200, end_of_leadership(t, leader)))
    return steps


def late_expansion(t: Targets, at_ms: int) -> list[Step]:
    """A leader's request to add a follower to the ISR arrives again after the follower has left.

    The first copy is slow; the second, on another connection, is not. Source: KIP-497.
    """
    at, follower = t.partition(), t.draw.of(t.brokers)
    leader, away_ms = f"leader of {at}", t.draw.of((1_200, 2_500, 2_500))
    late_ms, slow_ms = t.draw.of((2_000, 3_500)), t.draw.of((250, 1_100, 1_100))
    back_ms, again_ms = at_ms + away_ms, t.draw.of((5, 60))
    written = When(Observed.EVENT, event="isr_written", partition=at, then_after_ms=again_ms)
    return [
        Step(at_ms, f.Cut(leader, follower, "replication", True, away_ms)),
        Step(back_ms - 20, f.SlowLink(leader, "active controller", "control", late_ms, 0, slow_ms)),
        Step(back_ms, f.Cut(leader, follower, "replication", True, 4_000), written),
    ]


def expansion_without_an_answer(t: Targets, at_ms: int) -> list[Step]:
    """A leader adds a follower to the ISR, gets no answer, and is deposed without learning of it.

    Only the added follower learns of the election; the leader and the rest of the old ISR go on,
    and may commit without it. Source: KIP-497; KAFKA-1382.
    """
    at, brokers = t.partition(), t.draw.shuffled(t.brokers)
    leader, (follower, other) = f"leader of {at}", (*brokers, *brokers)[:2]
    away_ms, late_ms = t.draw.of((1_200, 2_500)), t.draw.of((30, 50, 120))
    back_ms = at_ms + away_ms - 50
    proposed = When(Observed.EVENT, event="isr_change_proposed", partition=at)
    deposed = When(
        Observed.EVENT, event="isr_change_proposed", partition=at, then_after_ms=late_ms + 2
    )
    return [
        Step(at_ms, f.Cut(leader, follower, "replication", True, away_ms)),
        Step(back_ms, f.DelayAt(leader, "before_isr_write", late_ms, 1, 3_000)),
        Step(back_ms, f.LoseZooKeeperReply(leader), proposed),
        Step(back_ms, f.Cut("active controller", leader, "control", True, 7_000), proposed),
        Step(back_ms, f.Cut("active controller", other, "control", True, 7_000), proposed),
        Step(back_ms, f.Cut(leader, "zookeeper", "zookeeper", True, 2_000), deposed),
    ]


def copies_of_commands(t: Targets, at_ms: int) -> list[Step]:
    """A broker is cut off from its controllers twice: late copies of two commands arrive.

    They were sent on connections that were given up. A topic is created between the two, and
    deleted when the broker is reachable again.
    """
    broker, factor = t.draw.of(t.brokers), min(3, len(t.brokers))
    first_ms, second_ms = t.draw.of((500, 1_600)), t.draw.of((500, 1_600, 2_600))
    between_ms = t.draw.of((12, 40))
    again_ms = at_ms + first_ms + between_ms
    may_be: tuple[f.Fault, ...] = f.ExpireSession(t.broker()), f.CreateTopic("y", 1, factor)
    meanwhile = t.draw.of(may_be)
    return [
        Step(at_ms, f.Cut("any", broker, "control", True, first_ms)),
        Step(at_ms + 20, meanwhile),
        Step(again_ms - between_ms + 5, f.CreateTopic("x", t.draw.of((1, 2)), factor)),
        Step(again_ms, f.Cut("any", broker, "control", True, second_ms)),
        Step(again_ms + second_ms + t.draw.of((1, 30, 120)), f.DeleteTopic("x")),
    ]


def contested_election(t: Targets, at_ms: int) -> list[Step]:
    """Controllers with different delays to ZooKeeper stand for one election; the winner dies.

    If each controller is slower than the one before by about half, it reads before the quicker one
    has written, and writes its decision after the quicker one's death. Source: KAFKA-6082.
    """
    gone = When(Observed.EVENT, event="controller_elected", then_after_ms=t.draw.of((0, 0, 10)))
    late_ms, percent = t.draw.of((40, 70, 120)), t.draw.of((130, 150, 180))
    ends: tuple[f.Fault, ...] = (
        f.ExpireSession("active controller"),
        f.Kill("active controller", 400),
    )
    steps: list[Step] = []
    for place, each in enumerate(t.draw.shuffled(t.controllers)):
        latency_ms = late_ms * percent**place // 100**place
        steps.append(Step(at_ms, f.SlowLink(each, "zookeeper", "zookeeper", latency_ms, 0, 3_000)))
    return [
        *steps,
        Step(at_ms + 50, f.ExpireSession("active controller")),
        Step(at_ms + 60, t.draw.of(ends), gone),
    ]


def lowered_minimum(t: Targets, at_ms: int) -> list[Step]:
    """min.insync.replicas is raised and lowered while replicas leave the ISR one after the other.

    Source: KIP-966: a replica may lose its eligibility to lead.
    """
    topic = t.topic()
    first, second, third = (*t.draw.shuffled(t.brokers), "broker-0", "broker-1")[:3]
    lowered_ms, gap_ms = t.draw.of((400, 900)), t.draw.of((300, 700, 1_200))
    key = "min.insync.replicas"
    return [
        Step(at_ms, f.ChangeConfig(topic, key, "3")),
        Step(at_ms + 150, f.Kill(first, lowered_ms + gap_ms + t.draw.of((300, 700)))),
        Step(at_ms + 150 + lowered_ms, f.ChangeConfig(topic, key, "2")),
        Step(at_ms + 150 + lowered_ms + gap_ms, f.Kill(second, 4_000)),
        Step(at_ms + 150 + lowered_ms + 2 * gap_ms, f.Kill(third, t.draw.of((1_500, 3_000)))),
    ]


def unread_minimum(t: Targets, at_ms: int) -> list[Step]:
    """A replica leaves the ISR before its leader has read that min.insync.replicas was raised.

    The controller has read the new minimum, and takes the replica for eligible to lead. Then this
    replica alone is left. Source: KIP-966.
    """
    at, late_ms = t.partition(), t.draw.of((250, 600))
    leader, gone_ms = f"leader of {at}", t.draw.of((1_500, 2_500))
    leaves: tuple[f.Fault, ...] = (
        f.Terminate(f"follower of {at}", gone_ms),
        f.ExpireSession(f"follower of {at}"),
    )
    all_gone_ms = at_ms + gone_ms - t.draw.of((100, 600))
    return [
        Step(at_ms, f.SlowLink("zookeeper", leader, "zookeeper", late_ms, 0, gone_ms)),
        Step(at_ms + 50, f.ChangeConfig(t.topic(), "min.insync.replicas", "3")),
        Step(at_ms + t.draw.of((60, 120)), t.draw.of(leaves)),
        Step(all_gone_ms, f.Kill(leader, 4_000)),
        Step(all_gone_ms, f.Kill(f"last follower of {at}", 4_000)),
    ]


def leaving_clients(t: Targets, at_ms: int) -> list[Step]:
    """Clients, and a leader, are killed in the middle of requests, and start again."""
    steps = [
        Step(at_ms + number * t.draw.of((1, 90, 400)), f.KillClient(f.ANY, t.draw.of((5, 300))))
        for number in range(t.draw.of((1, 2, 4)))
    ]
    if t.draw.chance(0.5):
        leader = f"leader of {t.partition()}"
        steps.append(Step(at_ms + t.draw.of((1, 100)), end_of_leadership(t, leader)))
    return steps


LATE_MOTIFS: tuple[Motif, ...] = (
    late_answers,
    late_answers,
    late_isr_writes,
    late_expansion,
    expansion_without_an_answer,
    copies_of_commands,
    contested_election,
    lowered_minimum,
    unread_minimum,
    leaving_clients,
)
