"""Later additions to generated plans: each from a random stream of its own, after the rest.

So a seed's plan keeps its earlier parts. Every function takes a plan and returns it, mostly
unchanged, or with one addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from highwater_chaos import faults as f
from highwater_chaos.draw import Draw
from highwater_chaos.fault_problems import is_described
from highwater_chaos.plan import ACKS_ALL, Observed, Plan, Producer, Step, Topic, When
from highwater_core.config import Preset
from highwater_core.fail_points import FailPoint
from highwater_simulator.budget import is_losing
from highwater_simulator.disk_motifs import DISK_MOTIFS, flipped_identity
from highwater_simulator.draws import Targets
from highwater_simulator.group_draws import with_groups
from highwater_simulator.late_motifs import LATE_MOTIFS, contested_election, late_answers
from highwater_simulator.motifs import zombie_leader
from highwater_simulator.strangers import EXTREMES, NAMES

LONGEST_NAME = 249
_MINIMUM = "min.insync.replicas"


class Given(NamedTuple):
    """The faults that the plan's family allows."""

    may_lose: bool
    """Whether disks may lose data."""
    is_about_joins: bool


def _file_answers(plan: Plan, draw: Draw, given: Given) -> Plan:
    """In half of all plans every fetched record is read from its file as it arrives."""
    from_bytes = draw.of((1, 1, 400, plan.network.sends_file_from_bytes))
    return replace(plan, network=replace(plan.network, sends_file_from_bytes=from_bytes))


def _many_in_sync(plan: Plan, draw: Draw, given: Given) -> Plan:
    """min.insync.replicas is the number of replicas, or higher, which has the same effect."""
    topic = plan.workload.topics[0]
    if given.is_about_joins or topic.replication_factor < 3 or not draw.chance(0.12):
        return plan
    minimum = topic.replication_factor + draw.of((0, 0, 1))
    return _with_topics(plan, replace(topic, min_insync_replicas=minimum))


def _retention(plan: Plan, draw: Draw, given: Given) -> Plan:
    """Segments are small, and retention removes old ones, perhaps where logs diverge."""
    if not draw.chance(0.15):
        return plan
    kept = draw.of((("retention_bytes", 700), ("retention_bytes", 2_500), ("retention_ms", 1_200)))
    settings = {
        "segment_bytes": draw.of((300, 600)),
        "log_retention_check_interval_ms": draw.of((90, 400)),
        kept[0]: kept[1],
    }
    plan = _with_settings(plan, settings)
    if not draw.chance(0.4):
        return plan
    targets = Targets(draw, plan.topology, plan.workload.topics, may_lose=given.may_lose)
    at_ms = draw.between(0, plan.quiet_after_ms // 2)
    return _with_steps(plan, zombie_leader(targets, at_ms))


def _large_records(plan: Plan, draw: Draw, given: Given) -> Plan:
    """One fetch has more than a socket takes at once."""
    if not draw.chance(0.06):
        return plan
    value_bytes = draw.of((9_000, 40_000))
    producers = tuple(
        replace(each, value_bytes=value_bytes, rate_per_s=min(each.rate_per_s, 15))
        for each in plan.workload.producers
    )
    larger = replace(plan, workload=replace(plan.workload, producers=producers))
    settings = plan.topology.broker_settings
    too_small = settings.get("segment_bytes", value_bytes) < value_bytes * 5
    return _with_settings(larger, {"segment_bytes": value_bytes * 10}) if too_small else larger


def _topic_without_id(plan: Plan, draw: Draw, given: Given) -> Plan:
    """One topic has no id and others have: this changes the versions of messages."""
    if not draw.chance(0.06):
        return plan
    plain = replace(plan.workload.topics[0], name="plain", partitions=1, has_id=False)
    network = replace(plan.network, through_codecs=True)
    return replace(_with_topics(plan, *plan.workload.topics, plain), network=network)


def _config_changes(plan: Plan, draw: Draw, given: Given) -> Plan:
    """An operator changes the topic's configuration."""
    if not draw.chance(0.12):
        return plan
    minima = ("2",) if given.is_about_joins else ("2", "3") if given.may_lose else ("1", "2", "3")
    changes: tuple[tuple[str, tuple[str, ...]], ...] = (
        (_MINIMUM, minima),
        (_MINIMUM, minima),
        ("segment.bytes", ("600", "1073741824")),
        ("retention.bytes", ("900", "-1")),
        ("max.message.bytes", ("300", "1048588")),
    )
    steps: list[Step] = []
    for _ in range(draw.of((1, 2, 3))):
        key, values = draw.of(changes)
        fault = f.ChangeConfig(plan.workload.topics[0].name, key, draw.of(values))
        steps.append(Step(draw.between(0, plan.quiet_after_ms), fault))
    return _with_steps(plan, steps)


def _moved_replicas(plan: Plan, draw: Draw, given: Given) -> Plan:
    """An operator moves replicas, once or several times, and elects preferred leaders."""
    if not draw.chance(0.2):
        return plan
    topic = draw.of(plan.workload.topics)
    numbers = tuple(range(plan.topology.brokers))
    least = min(max(2, topic.min_insync_replicas, topic.replication_factor), len(numbers))
    steps: list[Step] = []
    at_ms = draw.between(0, plan.quiet_after_ms // 2)
    for _ in range(draw.of((1, 1, 2, 3))):
        partition = draw.between(0, topic.partitions)
        replicas = tuple(draw.shuffled(numbers))[: draw.between(least, len(numbers) + 1)]
        steps.append(Step(at_ms, f.MoveReplicas(topic.name, replicas, partition)))
        at_ms += draw.of((1, 40, 300, 1_200))
        also = draw.of((None, None, f.ElectPreferred, f.GiveUpMoving))
        if also is not None:
            steps.append(Step(at_ms, also(topic.name, partition)))
    if draw.chance(0.5):  # a node dies in the middle of it
        gone = f.Kill(draw.of(("active controller", "broker-0")), draw.of((800, 2_500)))
        steps.append(Step(steps[0].at_ms + draw.between(1, 300), gone))
    return _with_steps(plan, steps)


def _throttled(plan: Plan, draw: Draw, given: Given) -> Plan:
    """Replication is throttled: a replica out of sync needs seconds to copy all records."""
    if not draw.chance(0.1):
        return plan
    producers = plan.workload.producers
    a_second = sum(each.rate_per_s * (each.value_bytes + 100) for each in producers)
    written = a_second * (plan.quiet_after_ms + 1_000) // 1_000
    topic = draw.of(plan.workload.topics).name
    throttle = f.ThrottleReplication(topic, 1 + written // draw.of((1, 2, 4)))
    at_ms = draw.between(0, plan.quiet_after_ms)
    steps = [Step(at_ms, throttle)]
    if draw.chance(0.3):
        steps.append(Step(at_ms + draw.of((200, 1_500)), f.ThrottleReplication(topic)))
    return _with_steps(plan, steps)


def _several_fetchers(plan: Plan, draw: Draw, given: Given) -> Plan:
    """Followers have several fetchers for each leader."""
    if not draw.chance(0.1):
        return plan
    return _with_settings(plan, {"num_replica_fetchers": draw.of((2, 3))})


def _changed_fetchers(plan: Plan, draw: Draw, given: Given) -> Plan:
    """The number of fetchers changes while they fetch, once or twice."""
    if not draw.chance(0.1):
        return plan
    at_ms = draw.between(0, plan.quiet_after_ms)
    steps = [Step(at_ms, f.ChangeFetchers(draw.of((1, 2, 3))))]
    if draw.chance(0.5):
        later = at_ms + draw.of((1, 60, 700))
        steps.append(Step(later, f.ChangeFetchers(draw.of((1, 2, 3)))))
    return _with_steps(plan, steps)


def _long_names(plan: Plan, draw: Draw, given: Given) -> Plan:
    """A topic has the longest valid name, and is deleted."""
    if not draw.chance(0.05):
        return plan
    name, at_ms = "n" * draw.of((200, 240, LONGEST_NAME)), draw.between(0, plan.quiet_after_ms // 2)
    factor = min(2, plan.topology.brokers)
    steps = [Step(at_ms, f.CreateTopic(name, 1, factor, records=1))]
    if draw.chance(0.8):
        steps.append(Step(at_ms + draw.of((300, 900)), f.DeleteTopic(name)))
    return _with_steps(plan, steps)


_STRANGE: tuple[tuple[f.Strange, int], ...] = (
    (f.Strange.SAME_PARTITION_AGAIN, 2),
    (f.Strange.SEVERAL_BATCHES, 2),
    (f.Strange.FORGED_COUNT, 1),
    (f.Strange.FORGED_TIMESTAMPS, 2),
    (f.Strange.LONG_NAMES, 1),
    (f.Strange.LONG_VALUES, 1),
    (f.Strange.EXTREME_CONFIGS, 6),
    (f.Strange.NAMES_IN_ZOOKEEPER, 2),
    (f.Strange.TRANSACTIONS_AND_GROUPS, 1),
    (f.Strange.MANY_ASSIGNMENTS, 1),
)


def _strangers(plan: Plan, draw: Draw, given: Given) -> Plan:
    """A client sends requests that no sound client sends."""
    if not draw.chance(0.12):
        return plan
    kind = draw.weighted(_STRANGE)
    counts = {f.Strange.EXTREME_CONFIGS: EXTREMES, f.Strange.NAMES_IN_ZOOKEEPER: NAMES}
    count = draw.between(1, 1 + len(counts.get(kind, "two")))
    at_ms = draw.between(0, plan.quiet_after_ms)
    return _with_steps(plan, [Step(at_ms, f.StrangeRequests(kind, count))])


def _more_motifs(plan: Plan, draw: Draw, given: Given) -> Plan:
    if not draw.chance(0.5 if given.may_lose else 0.35):
        return plan
    motifs = (*LATE_MOTIFS, *DISK_MOTIFS, *DISK_MOTIFS) if given.may_lose else LATE_MOTIFS
    motif = draw.of(motifs)
    if motif is contested_election and not plan.core:  # the active controller has lost its session
        plan = replace(plan, topology=replace(plan.topology, controllers=3))
    targets = Targets(draw, plan.topology, plan.workload.topics, may_lose=given.may_lose)
    more = _with_steps(plan, motif(targets, draw.between(0, plan.quiet_after_ms // 2)))
    if motif is not late_answers:
        return more
    # Every answer is read late, and the run waits for late answers. A producer of its own writes on
    # while leadership changes, so that there are records that no other replica has yet.
    more = _with_settings(more, {"replica_fetch_timeout_ms": 1_500})
    more = replace(more, network=replace(more.network, sends_file_from_bytes=1))
    busy = Producer(
        plan.workload.topics[0].name, rate_per_s=60, acks=1, max_in_flight=5, request_timeout_ms=300
    )
    return replace(
        more, workload=replace(more.workload, producers=(*more.workload.producers, busy))
    )


def _flipped_identities(plan: Plan, draw: Draw, given: Given) -> Plan:
    """A bit flips in the identity of the disk that loses data in this plan, or of another.

    The plan stays unchanged if its first loss names a broker by its role: see budget.
    """
    if not given.may_lose or not draw.chance(0.12):
        return plan
    in_order = sorted(plan.steps, key=lambda step: step.at_ms)
    losers = [getattr(step.do, "node", "") for step in in_order if is_losing(step.do)]
    if losers and is_described(losers[0]):
        return plan
    targets = Targets(draw, plan.topology, plan.workload.topics, may_lose=True)
    broker = losers[0] if losers else draw.of(targets.brokers)
    at_ms = draw.between(0, plan.quiet_after_ms // 2)
    return _with_steps(plan, flipped_identity(targets, broker, at_ms))


def _failed_folders(plan: Plan, draw: Draw, given: Given) -> Plan:
    """A log folder fails while its broker serves; perhaps the node that must act on it dies too."""
    return _with_failed_folder(plan, draw) if draw.chance(0.15) else plan


def _with_failed_folder(plan: Plan, draw: Draw) -> Plan:
    at = f"{plan.workload.topics[0].name}-0"
    broker = draw.of((f"leader of {at}", f"follower of {at}", "broker-0"))
    at_ms = draw.between(0, plan.quiet_after_ms // 2)
    steps = [Step(at_ms, f.FailFolder(broker, draw.of((None, 700, 1_500, 3_000))))]
    also = draw.of((None, "active controller", f"leader of {at}", f"last follower of {at}"))
    if also is not None:
        steps.append(Step(at_ms + draw.of((50, 300, 900)), f.Kill(also, draw.of((200, 1_500)))))
    # Often the first failed operation takes the folder offline, as in Kafka.
    probes = {"log_folder_probe_attempts": draw.of((1, 1, 3)), "log_folder_probe_interval_ms": 100}
    return _with_steps(_with_settings(plan, probes), steps)


def _expanded_topics(plan: Plan, draw: Draw, given: Given) -> Plan:
    """A topic gets more partitions; perhaps the controller dies meanwhile, or replicas move."""
    if not draw.chance(0.15):
        return plan
    topic, at_ms = plan.workload.topics[0], draw.between(0, plan.quiet_after_ms // 2)
    steps: list[Step] = []
    count = topic.partitions
    for _ in range(draw.of((1, 1, 2))):
        count += draw.of((1, 2))
        steps.append(Step(at_ms, f.ExpandTopic(topic.name, count)))
        at_ms += draw.of((1, 60, 500))
    also = draw.of((None, "killed", "killed", "armed", "moved"))
    just_after_ms = steps[0].at_ms + draw.between(0, 60)
    if also == "killed":
        steps.append(Step(just_after_ms, f.Kill("active controller", draw.of((300, 1_500)))))
    elif also == "armed":
        point = draw.of((FailPoint.BEFORE_TOPIC_WRITE, FailPoint.AFTER_TOPIC_WRITE))
        crash = f.CrashAt("active controller", point.value, draw.of((50, 700)), 1_000)
        steps.insert(0, Step(steps[0].at_ms, crash))
    elif also == "moved":
        replicas = tuple(draw.shuffled(tuple(range(plan.topology.brokers))))
        moved = f.MoveReplicas(topic.name, replicas[: topic.replication_factor], count - 1)
        steps.append(Step(just_after_ms, moved))
    return _with_steps(plan, steps)


def _compacted(plan: Plan, draw: Draw, given: Given) -> Plan:
    """The first topic is compacted again and again; its records have a few keys."""
    if not draw.chance(0.08):
        return plan
    topic, *others = plan.workload.topics
    keys = draw.of((2, 4, 12))
    producers = tuple(
        replace(each, keys=keys) if each.topic == topic.name else each
        for each in plan.workload.producers
    )
    plan = _with_topics(plan, replace(topic, is_compacted=True), *others)
    plan = replace(plan, workload=replace(plan.workload, producers=producers))
    settings = {
        "segment_bytes": draw.of((300, 700)),
        "min_cleanable_dirty_ratio": 0,
        "log_cleaner_backoff_ms": draw.of((60, 300)),
        "log_cleaner_keys_max": draw.of((2, 500_000)),
        "log_flush_interval_ms": draw.of((90, 500)),
    }
    return _with_settings(plan, settings)


def _idempotent(plan: Plan, draw: Draw, given: Given) -> Plan:
    """Producers with acks=all are idempotent; most retry soon, so that they send batches twice."""
    if not draw.chance(0.3):
        return plan
    producers = tuple(
        replace(
            each,
            idempotent=True,
            max_in_flight=draw.of((1, 5, 5)),
            request_timeout_ms=draw.of((150, 300, each.request_timeout_ms)),
        )
        if each.acks == ACKS_ALL and each.retries
        else each
        for each in plan.workload.producers
    )
    plan = replace(plan, workload=replace(plan.workload, producers=producers))
    # Small segments: a restarted broker begins with their producer snapshots.
    return _with_settings(plan, {"segment_bytes": 600}) if draw.chance(0.3) else plan


def _groups(plan: Plan, draw: Draw, given: Given) -> Plan:
    """Groups read as well, and commit their positions."""
    return with_groups(plan, draw, may_lose=given.may_lose) if draw.chance(0.25) else plan


def _several_log_folders(plan: Plan, draw: Draw, given: Given) -> Plan:
    """Brokers have several log folders, all of them in use; mostly one of them fails."""
    return with_several_log_folders(plan, draw) if draw.chance(0.1) else plan


def with_several_log_folders(plan: Plan, draw: Draw) -> Plan:
    """Return the plan with several log folders; each folder that fails in it is one of them."""
    count = draw.of((2, 2, 3))
    if not any(isinstance(step.do, f.ExpandTopic) for step in plan.steps):
        topic, *others = plan.workload.topics
        spread = replace(topic, partitions=max(count, topic.partitions))
        plan = _with_topics(plan, spread, *others)
    plan = replace(plan, topology=replace(plan.topology, log_folders_per_broker=count))
    if not any(isinstance(step.do, f.FailFolder) for step in plan.steps):
        plan = _with_failed_folder(plan, draw) if draw.chance(0.7) else plan
    steps = tuple(
        replace(step, do=replace(step.do, folder=draw.between(0, count)))
        if isinstance(step.do, f.FailFolder)
        else step
        for step in plan.steps
    )
    return replace(plan, steps=steps)


def _unclean_elections(plan: Plan, draw: Draw, given: Given) -> Plan:
    """Anybody may lead; perhaps the one in sync dies, while replicas move to brokers without any.

    Not where records go otherwise: a record that a lost one had succeeded is compacted away, a
    later leader's log may start above the loss by retention. Under fenced alone: elsewhere logs
    that diverge may never be equal again (KIP-101, KIP-279).
    """
    topic = plan.workload.topics[0]
    is_judged = not _removes_records(plan) and plan.topology.preset is Preset.FENCED
    if given.is_about_joins or not is_judged or not draw.chance(0.08):
        return plan
    at = f"{topic.name}-0"
    leader, at_ms = f"leader of {at}", draw.between(0, plan.quiet_after_ms // 2)
    wished = {"unclean.leader.election.enable": "true"}
    if not given.may_lose:
        wished[_MINIMUM] = "1"  # with two, those that lag are eligible to lead (KIP-966)
    steps = [Step(at_ms, f.ChangeConfig(topic.name, *wish)) for wish in wished.items()]
    if not given.may_lose and draw.chance(0.5):
        plan = _with_steps(plan, steps)
        return _alone_while_replicas_move(plan, draw, at_ms // 2)
    alone = When(Observed.ISR_IS_LEADER, partition=at, then_after_ms=draw.of((1, 100)))
    if draw.chance(0.8):
        away = f.Cut(leader, f.ANY, "replication", True, draw.of((2_500, 4_000)))
        steps.append(Step(at_ms + draw.of((1, 200)), away))
    killed_ms = at_ms + draw.of((300, 900, 2_200))
    if draw.chance(0.7):
        replicas = tuple(draw.shuffled(tuple(range(plan.topology.brokers))))
        moved = f.MoveReplicas(topic.name, replicas[: topic.replication_factor], 0)
        steps.append(Step(at_ms + 201, moved, draw.of((None, alone, alone))))
    then = When(alone.state, partition=at, then_after_ms=draw.of((150, 400)))
    kill = f.Kill(leader, draw.of((800, 2_500)))
    steps.append(Step(killed_ms, kill, draw.of((None, then, then))))
    return _with_steps(plan, steps)


def _fast_failure_detection(plan: Plan, draw: Draw, given: Given) -> Plan:
    """The controller takes leads from brokers whose connections broke, and may be wrong."""
    if plan.topology.preset is not Preset.FENCED or not draw.chance(0.1):
        return plan
    toggles = plan.topology.toggles | {"fast_failure_detection": True}
    return replace(plan, topology=replace(plan.topology, toggles=toggles))


def _alone_while_replicas_move(plan: Plan, draw: Draw, at_ms: int) -> Plan:
    """The only replica in sync dies after its partition's replicas began to move.

    One that the move adds is empty, another may have most records, and anybody may lead.
    """
    topic, *others = plan.workload.topics
    brokers = tuple(draw.shuffled(tuple(range(plan.topology.brokers))))
    # One broker has no replica before the move.
    factor = max(2, min(topic.replication_factor, len(brokers) - 1))
    at = f"{topic.name}-0"
    leader = f"leader of {at}"
    alone = When(Observed.ISR_IS_LEADER, partition=at, then_after_ms=1)
    soon_ms = draw.of((1, 60, 200))
    begun = When(Observed.EVENT, partition=at, event="reassignment_begun", then_after_ms=soon_ms)
    steps = [
        Step(at_ms + 100, f.Cut(leader, f.ANY, "replication", True, 6_000)),
        Step(at_ms + 101, f.MoveReplicas(topic.name, brokers[:factor], 0), alone),
        Step(at_ms + 102, f.Kill(leader, draw.of((2_500, 4_000))), begun),
    ]
    plan = _with_topics(plan, replace(topic, replication_factor=factor), *others)
    return _with_steps(plan, steps)


def _removes_records(plan: Plan) -> bool:
    """Return whether compaction or retention removes records of the first topic."""
    changed = [step.do.key for step in plan.steps if isinstance(step.do, f.ChangeConfig)]
    names = [*plan.topology.broker_settings, *changed]
    is_limited = any(name.startswith("retention") for name in names)
    return is_limited or plan.workload.topics[0].is_compacted


_ADDED: dict[str, Callable[[Plan, Draw, Given], Plan]] = {
    "file answers": _file_answers,
    "many in sync": _many_in_sync,
    "retention": _retention,
    "large records": _large_records,
    "topic without id": _topic_without_id,
    "config changes": _config_changes,
    "long names": _long_names,
    "strangers": _strangers,
    "more motifs": _more_motifs,
    "flipped identities": _flipped_identities,
    "moved replicas": _moved_replicas,
    "throttled": _throttled,
    "several fetchers": _several_fetchers,
    "failed folders": _failed_folders,
    "expanded topics": _expanded_topics,
    "compacted": _compacted,
    "idempotent": _idempotent,
    "groups": _groups,
    "changed fetchers": _changed_fetchers,
    "several log folders": _several_log_folders,
    "unclean elections": _unclean_elections,
    "fast failure detection": _fast_failure_detection,
}
"""The functions by the names of their random streams."""


def with_more(plan: Plan, draw_of: Callable[[str], Draw], given: Given) -> Plan:
    """Return the plan with all of these additions; draw_of returns the stream of a name."""
    for name, add in _ADDED.items():
        plan = add(plan, draw_of(name), given)
    return plan


def _with_settings(plan: Plan, settings: dict[str, int]) -> Plan:
    topology = plan.topology
    together = topology.broker_settings | settings
    return replace(plan, topology=replace(topology, broker_settings=together))


def _with_topics(plan: Plan, *topics: Topic) -> Plan:
    return replace(plan, workload=replace(plan.workload, topics=topics))


def _with_steps(plan: Plan, steps: list[Step]) -> Plan:
    return replace(plan, steps=(*plan.steps, *steps))
