"""Plans in words: the cluster, the load and, one line a step, the faults with their times."""

from __future__ import annotations

from collections.abc import Iterator

from highwater_chaos import faults as f
from highwater_chaos.builds import EVERY_NODE
from highwater_chaos.plan import Group, Observed, Plan, PlanTopology, Producer, Step, Topic, When

_ACKS = {-1: "all", 0: "0", 1: "1"}

_OBSERVED: dict[Observed, str] = {
    Observed.ISR_IS_LEADER: "the ISR{of} is the leader alone",
    Observed.FOLLOWER_BEHIND: "an ISR member{of} is behind the leader's log end",
    Observed.HIGH_WATERMARK_BEHIND: "an ISR member{of} is behind the leader's high watermark",
    Observed.LEADER_EPOCH: "the leader epoch{of} is {count}",
}


def say_fault(fault: f.Fault) -> str:
    """Return the fault with its duration."""
    words = fault.phrase.format_map(_Fields(fault))
    if isinstance(fault, f.Cut) and fault.both_ways:
        words = words.replace(" -> ", " <-> ")
    if isinstance(fault, f.Kill) and fault.disk is f.DiskAtStart.EMPTY:
        words += " and empty its disk"
    if isinstance(fault, f.Pause) and fault.by is f.PauseBy.SIGSTOP:
        words += " by SIGSTOP"
    if isinstance(fault, f.KillClient) and fault.client == f.ANY:
        words = "kill every client"
    if isinstance(fault, f.DiskErrors) and fault.within:
        words += f", of {fault.within} alone,"
    if isinstance(fault, f.FailFolder) and fault.folder is not None:
        words = f"fail log folder {f.log_folder_name(fault.folder)} of {fault.node}"
    if isinstance(fault, f.ThrottleReplication) and fault.bytes_per_s is None:
        words = f"lift the throttle of topic {fault.topic}'s replication"
    if isinstance(fault, f.LoseZooKeeperReply | f.DelayAt) and fault.count != 1:
        words += f" ({fault.count} times)"
    if isinstance(fault, f.Upgrade) and fault.preset is not None:
        words += f", preset {fault.preset}"
    if isinstance(fault, f.CrashAt) and fault.restart_after_ms is not None:
        words += f", started again after {fault.restart_after_ms} ms"
    for_ms = getattr(fault, "for_ms", None)
    return words if for_ms is None else f"{words}{fault.lasting.format(for_ms=for_ms)}"


class _Fields(dict[str, object]):
    """The fields of a fault by name, for format_map."""

    def __init__(self, fault: f.Fault) -> None:
        super().__init__({name: getattr(fault, name) for name in fault.__struct_fields__})


def say_when(when: When) -> str:
    """Return the condition."""
    of = f" of {when.partition}" if when.partition else ""
    if when.state is Observed.EVENT:
        on = f" on {when.node}" if when.node else ""
        times = f" {when.count} times" if when.count != 1 else ""
        words = f"{when.event}{of}{on} was traced{times}"
    else:
        words = _OBSERVED[when.state].format(of=of, count=when.count)
    return words + (f", {when.then_after_ms} ms later" if when.then_after_ms else "")


def say_step(step: Step) -> str:
    """Return the step with its time or condition."""
    if step.when is None:
        return f"at {step.at_ms} ms: {say_fault(step.do)}"
    start = f"from {step.at_ms} ms on, " if step.at_ms else ""
    return f"{start}once {say_when(step.when)}: {say_fault(step.do)}"


def say_plan(plan: Plan) -> Iterator[str]:
    """Yield the cluster, its settings, the load, then each step."""
    yield _say_topology(plan.topology)
    for owner in ("broker", "controller"):
        settings = getattr(plan.topology, f"{owner}_settings")
        if settings:
            listed = ", ".join(f"{name} {value}" for name, value in settings.items())
            yield f"{owner} settings: {listed}"
    for node, build in plan.topology.builds.items():
        others = "every other node" if len(plan.topology.builds) > 1 else "every node"
        whose = others if node == EVERY_NODE else node
        preset = "" if build.preset is None else f", preset {build.preset}"
        yield f"{whose} begins with image {build.image}{preset}"
    for topic in plan.workload.topics:
        yield _say_topic(topic)
    for producer in plan.workload.producers:
        yield _say_producer(producer)
    if plan.workload.consumers:
        yield counted(len(plan.workload.consumers), "consumer")
    for group in plan.workload.groups:
        yield _say_group(group)
    for step in plan.steps:
        yield say_step(step)
    kept = f" for {', '.join(plan.core)}; the others stay cut off" if plan.core else ""
    yield f"at {plan.quiet_after_ms} ms all is healed{kept}"
    if plan.probes_shrinking:
        yield "then a record is to be committed without one follower, which cannot fetch"


def counted(count: int, noun: str) -> str:
    """Return "1 broker", "2 brokers"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def say_value(value: str | bool) -> str:
    """Return a toggle's value as plan files have it."""
    return str(value).lower() if isinstance(value, bool) else value


def _say_topology(topology: PlanTopology) -> str:
    own = ", ".join(f"{name} {say_value(value)}" for name, value in topology.toggles.items())
    toggles = f" with {own}" if own else ""
    several = topology.log_folders_per_broker > 1
    folders = f" with {topology.log_folders_per_broker} log folders each" if several else ""
    return (
        f"{counted(topology.brokers, 'broker')}{folders}, "
        f"{counted(topology.controllers, 'controller')}, preset {topology.preset}{toggles}"
    )


def _say_topic(topic: Topic) -> str:
    return (
        f"topic {topic.name}: {counted(topic.partitions, 'partition')}, "
        f"{counted(topic.replication_factor, 'replica')}, "
        f"min.insync.replicas {topic.min_insync_replicas}"
    )


def _say_producer(producer: Producer) -> str:
    default = Producer()
    shown = [f"acks={_ACKS[producer.acks]}"]
    for name, words in (
        ("max_in_flight", "{} requests in flight"),
        ("batch_max_records", "batches of {}"),
        ("linger_ms", "linger {} ms"),
        ("request_timeout_ms", "requests time out after {} ms"),
        ("delivery_timeout_ms", "records after {} ms"),
    ):
        value = getattr(producer, name)
        if value != getattr(default, name):
            shown.append(words.format(value))
    if not producer.retries:
        shown.append("no retries")
    if producer.idempotent:
        shown.append("idempotent")
    rate = f"{producer.rate_per_s} records a second"
    return f"a producer to {producer.topic}: {rate}, {', '.join(shown)}"


def _say_group(group: Group) -> str:
    shown = f"a group of {counted(group.members, 'member')} that read {group.topic}"
    shown += f" and commit every {group.commit_every_ms} ms"
    return f"{shown}, and go and come every {group.stays_ms} ms" if group.stays_ms else shown
