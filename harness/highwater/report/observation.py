"""The changes between two looks at a cluster, in words; no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from highwater_checker.looks import Look, leaderships
from highwater_core.ids import TopicPartition, is_controller
from highwater_core.messages import NodeSnapshot


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two looks, in words; kind names it for machines."""

    time_ns: int
    kind: str
    text: str
    node: int = -1
    topic_partition: TopicPartition | None = None
    leader_epoch: int = -1


def active_controller(look: Look) -> NodeSnapshot | None:
    """Return the snapshot of the active controller with the highest controller epoch."""
    active = [s for s in look.nodes.values() if s is not None and s.active_controller]
    return max(active, key=lambda snapshot: snapshot.controller_epoch, default=None)


def has_controllers(look: Look) -> bool:
    """Return whether a node that was asked is a controller; under v2 there is none."""
    return any(is_controller(node_id) for node_id in look.nodes)


def describe_look(look: Look) -> str:
    """Return a line: nodes without answer, the active controller's brokers, the leaders."""
    silent = sorted(node for node, snapshot in look.nodes.items() if snapshot is None)
    controller = active_controller(look)
    known = "no active controller"
    if controller is not None:
        known = (
            f"controller {controller.node_id} of epoch {controller.controller_epoch} knows brokers "
            f"{list(controller.live_brokers)}, {dict(controller.counters)}"
        )
    led = "; ".join(
        f"{key} by {each.leader} in epoch {each.leader_epoch}, ISR {list(each.isr)}"
        for key, each in leaderships(look).items()
    )
    return f"silent: {silent}; {known}; led: {led or 'nothing'}"


def changes_between(before: Look, after: Look) -> list[Change]:
    """Return the changes of nodes, then of the controller, then of partitions in order."""
    return [
        *_node_changes(before, after),
        *_controller_changes(before, after),
        *_partition_changes(before, after),
    ]


def _node_changes(before: Look, after: Look) -> list[Change]:
    changes = []
    for node_id in sorted(after.nodes):
        was, now = before.nodes.get(node_id), after.nodes[node_id]
        if was is not None and now is None:
            changes.append(Change(after.time_ns, "node_gone", f"node {node_id} is gone", node_id))
        elif was is None and now is not None:
            text = f"node {node_id} answers (incarnation {now.incarnation})"
            changes.append(Change(after.time_ns, "node_answers", text, node_id))
    return changes


def _controller_changes(before: Look, after: Look) -> list[Change]:
    was, now = active_controller(before), active_controller(after)
    if now is None or (was is not None and was.controller_epoch >= now.controller_epoch):
        return []
    text = f"controller {now.node_id} is active at controller_epoch {now.controller_epoch}"
    return [Change(after.time_ns, "controller_elected", text, now.node_id)]


def _partition_changes(before: Look, after: Look) -> list[Change]:
    changes = []
    known = leaderships(before)
    for topic_partition, now in leaderships(after).items():
        was = known.get(topic_partition)
        isr = ", ".join(str(broker) for broker in now.isr)
        if was is None or (was.leader, was.leader_epoch) != (now.leader, now.leader_epoch):
            text = (
                f"{topic_partition}: broker {now.leader} leads at leader_epoch "
                f"{now.leader_epoch}, ISR [{isr}], HW {now.high_watermark}, "
                f"LEO {now.log_end_offset}"
            )
            kind = "leader_changed"
        elif was.isr != now.isr:
            text = f"{topic_partition}: ISR [{isr}]"
            kind = "isr_changed"
        else:
            continue
        changes.append(
            Change(after.time_ns, kind, text, now.leader, topic_partition, now.leader_epoch)
        )
    return changes
