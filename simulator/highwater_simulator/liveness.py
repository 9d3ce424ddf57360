"""The state that a healed cluster must reach: L1-L11, checked until nothing is missing.

The core are the nodes that were healed for good. It must make progress without the other nodes.
Missing progress is excused only where a check computes that it needs another node.
Source: docs/reference/invariants.md; docs/explanation/simulator.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from highwater_broker.log.folders import topic_aside
from highwater_broker.roles import Leading
from highwater_chaos.fault_problems import is_topic_name
from highwater_core import znodes
from highwater_core.first_design_znodes import decode_leader, leader_path
from highwater_core.ids import NodeId, TopicId, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.messages import NodeSnapshot
from highwater_core.topic_znode import decode_topic
from highwater_core.znodes import PartitionLeadership
from highwater_simulator.disk import joined
from highwater_simulator.disk_tree import FolderNode
from highwater_simulator.failed_folders import failed_folders
from highwater_simulator.minima import least_in_sync
from highwater_simulator.oracle.checkpoints import checkpointed_high_watermarks
from highwater_simulator.world import World

_FETCHER = re.compile(
    r"ReplicaFetcherThread-(?P<leader>[0-9]+)(-[0-9]+)?(-by-name)?(-more-[0-9]+)?"
)
_REPLICA_FOLDER = re.compile(r"(?P<topic>.+)-[0-9]+(\.[0-9]+-(delete|stray))?")
_BUSY_COUNTERS = ("events_waiting", "commands_waiting")


@dataclass(frozen=True, slots=True)
class Missing:
    """One condition that does not hold yet, with its liveness property."""

    invariant: str
    message: str
    topic_partition: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class Core:
    """The nodes that were healed for good."""

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]

    def is_whole(self, world: World) -> bool:
        return len(self.brokers) == len(world.brokers)


def extend_core(world: World, core: Core) -> Core:
    """Return the core, extended so that it has a member of every ISR: one that may lead.

    A member whose log folder has failed is chosen only if the ISR has no other: it will leave it.
    """
    brokers = list(core.brokers)
    for at in partitions_of(world):
        leadership = world.partition_state(at)
        isr = [] if leadership is None else [int(broker) for broker in leadership.isr]
        able = [broker for broker in isr if not _is_in_failed_folder(world, broker, at)] or isr
        if able and not any(broker in brokers for broker in able):
            brokers.append(able[0])
    return Core(tuple(sorted(brokers)), core.controllers)


def partitions_of(world: World) -> list[TopicPartition]:
    """Return every partition that ZooKeeper knows, sorted."""
    return sorted(assignments_of(world))


def assignments_of(world: World) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the assigned replicas of every partition that ZooKeeper knows."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    prefix = f"{znodes.TOPICS}/"
    for path, (data, _) in world.zookeeper.dump().items():
        if path.startswith(prefix) and path.count("/") == 3:
            topic = path.removeprefix(prefix)
            for at, replicas in decode_topic(data, topic)[0].items():
                found[at] = tuple(int(broker) for broker in replicas)
    return found


def missing(world: World, core: Core) -> Iterator[Missing]:
    """Yield the conditions that the core does not meet yet.

    A topic with an invalid name, written into ZooKeeper by hand, is ignored.
    """
    yield from _controller(world, core)
    assigned = assignments_of(world)
    yield from _deletions(world, core, assigned)
    yield from _reassignments(world, core)
    for at, replicas in assigned.items():
        if is_topic_name(at.topic) and not _is_being_deleted(world, at.topic):
            minimum = least_in_sync(world, at.topic, len(replicas))
            yield from _partition(world, core, at, replicas, minimum)
    for broker in core.brokers:
        snapshot = world.snapshot(broker)
        if snapshot is None:
            yield Missing("L1", f"broker {broker} does not run")
        else:
            yield from _replicas_left_over(broker, snapshot, assigned)
            yield from _folders_left_over(world, broker, assigned)
            yield from _fetchers(broker, snapshot)
            yield from _topics_left_over(world, broker, assigned)


def _leader_by_its_path(world: World, at: TopicPartition) -> int:
    """Return who leads without a controller, -1 for nobody.

    The state keeps the last leader's name when its session ends, and the path goes.
    """
    path = leader_path(at)
    found = world.zookeeper.data(path)
    return -1 if found is None else int(decode_leader(found[0], path).broker)


def held_by_failed_folders(world: World, core: Core) -> Iterator[Missing]:
    """Yield L11: what a failed log folder still holds, and what it takes beyond its own.

    A replica in it neither leads nor is in an ISR. The last member of an ISR stays in it: no other
    replica is known to have the committed records. Replicas in its broker's other folders go on.
    Without a controller nobody tells the leader: a member leaves once it lacks a record.
    """
    brokers = [broker for broker in core.brokers if failed_folders(world, broker)]
    for at, replicas in sorted(assignments_of(world).items()) if brokers else ():
        leadership = world.partition_state(at)
        if leadership is None or _is_being_deleted(world, at.topic):
            continue
        failed = [broker for broker in brokers if _is_in_failed_folder(world, broker, at)]
        leader = leadership.leader if world.controllers else _leader_by_its_path(world, at)
        if leader in failed:
            yield Missing("L11", f"its leader's log folder has failed: {leader}", at)
        members = [int(broker) for broker in leadership.isr]
        lagging = [each for each in failed if world.controllers or _lags(world, each, at)]
        if len(members) > 1 and any(broker in lagging for broker in members):
            yield Missing("L11", f"of the ISR {members} the log folders of {failed} failed", at)
        for broker in brokers:
            has_it = broker in replicas and world.brokers[broker].disk.replica_folders(str(at))
            if has_it and broker not in failed and world.hosted(broker, at) is None:
                yield Missing(
                    "L11", f"broker {broker} does not serve it: another folder failed", at
                )


def _lags(world: World, broker: int, at: TopicPartition) -> bool:
    """Return whether the leader knows that the broker lacks records."""
    leadership = world.partition_state(at)
    if leadership is None or leadership.leader < 0:
        return True
    leader = world.hosted(int(leadership.leader), at)
    role = leader.role if leader is not None else None
    if leader is None or not isinstance(role, Leading):
        return True
    progress = role.followers.get(NodeId(broker))
    return progress is None or progress.log_end_offset < leader.log.log_end_offset


def _is_in_failed_folder(world: World, broker: int, at: TopicPartition) -> bool:
    """Return whether every log folder with the replica has failed; a broker's only one has all."""
    disk, failed = world.brokers[broker].disk, failed_folders(world, broker)
    homes = [disk.in_log_folder(path)[0] for path in disk.replica_folders(str(at))]
    return bool(failed) and all(home in failed for home in homes or disk.log_folders)


HighWatermarks = Mapping[tuple[int, TopicPartition, TopicId], int]
"""By broker, hosted partition, and the id of its topic."""


def hosted_high_watermarks(world: World, core: Core) -> HighWatermarks:
    """Return the high watermarks of the core's brokers."""
    return {
        (broker, replica.topic_partition, replica.topic_id): replica.high_watermark
        for broker in core.brokers
        if (snapshot := world.snapshot(broker)) is not None
        for replica in snapshot.replicas
    }


def not_checkpointed(world: World, had: HighWatermarks) -> Iterator[Missing]:
    """Yield each earlier high watermark that is not on its broker's disk yet (I15).

    Topics that were deleted since, and later topics of their names, need no checkpoint.
    """
    listed = {broker: checkpointed_high_watermarks(world, broker) for broker, _, _ in had}
    for (broker, at, topic_id), high_watermark in had.items():
        hosted = world.hosted(broker, at)
        on_disk = listed[broker].get(at, -1)
        if hosted is not None and hosted.topic_id == topic_id and on_disk < high_watermark:
            said = f"broker {broker} had high watermark {high_watermark}; on its disk: {on_disk}"
            yield Missing("I15", said, at)


def _deletions(
    world: World, core: Core, assigned: Mapping[TopicPartition, tuple[int, ...]]
) -> Iterator[Missing]:
    """L6: topics to delete are gone, unless a replica's broker is down."""
    prefix = f"{znodes.DELETE_TOPICS}/"
    for path in world.zookeeper.dump():
        topic = path.removeprefix(prefix)
        hosts = [broker for at, brokers in assigned.items() if at.topic == topic
                 for broker in brokers]  # fmt: skip
        if path.startswith(prefix) and all(broker in core.brokers for broker in hosts):
            yield Missing("L6", f"the deletion of topic {topic} is under way")


def _reassignments(world: World, core: Core) -> Iterator[Missing]:
    """L6: no replica is being moved, unless there is no leader or a replica that stays is down."""
    prefix = f"{znodes.TOPICS}/"
    is_moving = False
    for path, (data, _) in world.zookeeper.dump().items():
        if path.startswith(prefix) and path.count("/") == 3:
            content = decode_topic(data, path.removeprefix(prefix))
            for at, each in content.reassignments.items():
                staying = [b for b in content.assignment[at] if b not in each.removing]
                is_moving = True
                led = world.partition_state(at)
                is_led = led is not None and led.leader in core.brokers
                if is_led and all(broker in core.brokers for broker in staying):
                    yield Missing("L6", f"replicas are being moved to {staying}", at)
    if world.zookeeper.data(znodes.REASSIGN_PARTITIONS) is not None and not is_moving:
        yield Missing("L6", f"{znodes.REASSIGN_PARTITIONS} is there, and nothing is being moved")
    if world.zookeeper.data(znodes.PREFERRED_REPLICA_ELECTION) is not None:
        yield Missing("L6", f"{znodes.PREFERRED_REPLICA_ELECTION} is still there")


def _is_being_deleted(world: World, topic: str) -> bool:
    return world.zookeeper.data(znodes.delete_topic_path(topic)) is not None


def _controller(world: World, core: Core) -> Iterator[Missing]:
    if not world.controllers:
        return  # brokers command themselves
    active = [
        controller
        for controller in core.controllers
        if (snapshot := world.snapshot(controller)) is not None and snapshot.active_controller
    ]
    if len(active) != 1:
        yield Missing("L1", f"{active or 'no controller'} active in the core")
        return
    snapshot = world.snapshot(active[0])
    if snapshot is None:
        return
    down = [each for each in core.controllers if world.snapshot(each) is None]
    if down:
        yield Missing("L1", f"{down} do not run")
    if sorted(int(b) for b in snapshot.live_brokers) != sorted(core.brokers):
        yield Missing("L1", f"the controller takes {list(snapshot.live_brokers)} for alive")
    busy = [name for name, count in snapshot.counters if name in _BUSY_COUNTERS and count]
    if busy:
        yield Missing("L10", f"the controller's queues are not empty: {', '.join(busy)}")


def _partition(
    world: World, core: Core, at: TopicPartition, replicas: tuple[int, ...], minimum: int
) -> Iterator[Missing]:
    leadership = world.partition_state(at)
    wanted = [broker for broker in replicas if broker in core.brokers]
    if leadership is None:
        if wanted:  # else no node of the core could be its first leader
            yield Missing("L2", "it has no state", at)
        return
    if not any(int(broker) in core.brokers for broker in leadership.isr):
        return  # no node of the core may lead it; after extend_core that is only a new topic
    if leadership.leader < 0 or leadership.leader not in core.brokers:
        yield Missing("L2", f"its leader is {leadership.leader}", at)
        return
    if sorted(leadership.isr) != sorted(wanted):
        yield Missing("L4", f"its ISR is {list(leadership.isr)}, not {sorted(wanted)}", at)
    # With fewer in sync than min.insync.replicas no record is committed, and none need be.
    yield from _leader(world, at, leadership, commits=len(wanted) >= minimum)
    for broker in wanted:
        if broker != leadership.leader:
            yield from _follower(world, at, leadership, broker)
    for broker in core.brokers:
        yield from _metadata(world, at, leadership, broker)


def _leader(
    world: World, at: TopicPartition, leadership: PartitionLeadership, *, commits: bool
) -> Iterator[Missing]:
    replica = world.replica(int(leadership.leader), at)
    if replica is None or replica.role != "leader":
        yield Missing("L3", f"broker {leadership.leader} does not know that it leads", at)
        return
    found = world.zookeeper.data(znodes.partition_state_path(at))
    written = -1 if found is None else found[1].node_version
    known = (replica.leader_epoch, tuple(sorted(replica.isr)), replica.partition_epoch)
    if known != (leadership.leader_epoch, tuple(sorted(leadership.isr)), written):
        yield Missing(
            "L3",
            f"its leader knows epoch, ISR and partition epoch {known}; written: "
            f"{leadership.leader_epoch}, {list(leadership.isr)}, {written}",
            at,
        )
    if commits and at.topic == OFFSETS_TOPIC and not _is_loaded(world, at, leadership):
        yield Missing("L9", f"broker {leadership.leader} has not loaded its groups", at)
    if commits and replica.high_watermark != replica.log_end_offset:
        yield Missing(
            "L5",
            f"its high watermark is {replica.high_watermark}, its end {replica.log_end_offset}",
            at,
        )


def _is_loaded(world: World, at: TopicPartition, leadership: PartitionLeadership) -> bool:
    node = world.broker_node(int(leadership.leader))
    return node is not None and at in dict(node.groups.ownership.loaded())


def _follower(
    world: World, at: TopicPartition, leadership: PartitionLeadership, broker: int
) -> Iterator[Missing]:
    replica = world.replica(broker, at)
    leader = world.replica(int(leadership.leader), at)
    if replica is None or (replica.role, replica.leader, replica.leader_epoch) != (
        "follower",
        leadership.leader,
        leadership.leader_epoch,
    ):
        role = "no replica" if replica is None else f"{replica.role} in {replica.leader_epoch}"
        yield Missing("L8", f"broker {broker} does not follow the leader: {role}", at)
        return
    if leader is None:
        return
    # With too few in sync, a new leader's high watermark may stay below the deleted records of an
    # earlier leader.
    high_watermark = max(leader.high_watermark, replica.log_start_offset)
    ends = replica.log_end_offset, replica.high_watermark
    if ends != (leader.log_end_offset, high_watermark):
        yield Missing("L8", f"broker {broker} has end and high watermark {ends}", at)


def _metadata(
    world: World, at: TopicPartition, leadership: PartitionLeadership, broker: int
) -> Iterator[Missing]:
    node = world.broker_node(broker)
    cached = None if node is None else node.metadata.partition(at.topic, at.partition)
    told = None if cached is None else (cached.leader, cached.leader_epoch, sorted(cached.isr))
    wanted = (leadership.leader, leadership.leader_epoch, sorted(leadership.isr))
    if told != wanted:
        yield Missing("L3", f"broker {broker} tells clients {told}, not {wanted}", at)


def _replicas_left_over(
    broker: int, snapshot: NodeSnapshot, assigned: Mapping[TopicPartition, tuple[int, ...]]
) -> Iterator[Missing]:
    """I13: no broker has an unassigned replica, once no deletion goes on."""
    for replica in snapshot.replicas:
        at = replica.topic_partition
        if broker not in assigned.get(at, ()):
            yield Missing("I13", f"broker {broker} hosts a replica that nobody assigned", at)


def _folders_left_over(
    world: World, broker: int, assigned: Mapping[TopicPartition, tuple[int, ...]]
) -> Iterator[Missing]:
    """I13: no disk has a log of a deleted topic, under any folder name.

    A log that was renamed and that the disk refused to remove stays until the next start. One that
    was set aside because another log folder has a later one stays as long as its topic.
    """
    topics = dict.fromkeys(name for at in assigned for name in (at.topic, topic_aside(at.topic)))
    disk = world.brokers[broker].disk
    for folder in disk.log_folders:
        content = disk.find(folder)
        entries = content.entries if isinstance(content, FolderNode) else {}
        for name, node in entries.items():
            replica = _REPLICA_FOLDER.fullmatch(name) if isinstance(node, FolderNode) else None
            if replica is None or replica["topic"] in topics:
                continue
            path = joined(folder, name)
            if path not in disk.unremoved or replica[2] is None:
                yield Missing("I13", f"broker {broker} keeps {path}, of a topic that is gone")


def _fetchers(broker: int, snapshot: NodeSnapshot) -> Iterator[Missing]:
    """L8: the broker has fetchers for each leader that it follows, and no others.

    A leader's fetchers have different names: by number, one for topics without an id, and by
    number again those that take what another has no room for.
    """
    followed = [each.leader for each in snapshot.replicas if each.role == "follower"]
    wanted = sorted({int(leader) for leader in followed if leader >= 0})
    fetchers = {task.name: task.count for task in snapshot.tasks if _FETCHER.fullmatch(task.name)}
    found = sorted({int(_FETCHER.sub(r"\g<leader>", name)) for name in fetchers})
    if found != wanted or any(count > 1 for count in fetchers.values()):
        yield Missing("L8", f"broker {broker} has fetchers {fetchers}, and follows {wanted}")


def _topics_left_over(
    world: World, broker: int, assigned: Mapping[TopicPartition, tuple[int, ...]]
) -> Iterator[Missing]:
    """L3: brokers' metadata has no topic that does not exist."""
    node = world.broker_node(broker)
    known = dict.fromkeys(at.topic for at in assigned)
    told = () if node is None else node.metadata.topics()
    strange = [topic for topic in told if topic not in known]
    if strange:
        yield Missing("L3", f"broker {broker} tells clients of {strange}, which are no more")
