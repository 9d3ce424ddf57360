"""The nodes' metrics as text for Prometheus; no I/O.

A metric that Kafka has too bears the name that Prometheus' JMX exporter gives it by its example
configuration for Kafka (MBeans in lower case); the others begin with highwater_.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from highwater_core.messages import NodeSnapshot, ReplicaSnapshot

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_CONTROLLER = "kafka_controller_kafkacontroller"
_STATS = "kafka_controller_controllerstats"
_MANAGER = "kafka_controller_controllereventmanager"

_OF_THE_CLUSTER: Mapping[str, tuple[str, str]] = {
    "offline_partitions": (f"{_CONTROLLER}_offlinepartitionscount", "without a live leader"),
    "preferred_replica_imbalance": (
        f"{_CONTROLLER}_preferredreplicaimbalancecount",
        "led by another than the preferred replica",
    ),
    "topics": (f"{_CONTROLLER}_globaltopiccount", "topics"),
    "partitions": (f"{_CONTROLLER}_globalpartitioncount", "partitions"),
    "topics_to_delete": (f"{_CONTROLLER}_topicstodeletecount", "topics being deleted"),
    "reassigning_partitions": (
        "highwater_controller_reassigning_partitions",
        "whose replicas are being moved",
    ),
    "deletions_failed": ("highwater_controller_deletions_failed", "deletions put aside"),
}
"""Gauges of the active controller; a standby's are 0, as Kafka's are."""

_TOTALS: Mapping[str, tuple[str, str]] = {
    "unclean_elections": (
        f"{_STATS}_uncleanleaderelections_total",
        "leaders elected from outside the ISR",
    ),
    "leaders_elected": ("highwater_controller_leaders_elected_total", "leaders elected"),
    "elections_won": ("highwater_controller_elections_won_total", "terms as active controller"),
    "commands_timed_out": (
        "highwater_controller_commands_timed_out_total",
        "how often a command has waited for another command_timeout_ms",
    ),
    "commands_dropped": (
        "highwater_controller_commands_dropped_total",
        "commands that a broker could not take",
    ),
    "transitions_refused": (
        "highwater_controller_transitions_refused_total",
        "state changes that are not in the tables",
    ),
}

_REPLICAS = "kafka_server_replicamanager"
_OF_A_BROKER: Mapping[str, tuple[str, str, str]] = {
    "isr_shrinks": (f"{_REPLICAS}_isrshrinks_total", "counter", "ISRs that its leaders shrank"),
    "isr_expands": (f"{_REPLICAS}_isrexpands_total", "counter", "ISRs that its leaders expanded"),
    "under_min_isr_partitions": (
        f"{_REPLICAS}_underminisrpartitioncount",
        "gauge",
        "led, with an ISR smaller than min.insync.replicas",
    ),
    "at_min_isr_partitions": (
        f"{_REPLICAS}_atminisrpartitioncount",
        "gauge",
        "led, with an ISR of just min.insync.replicas",
    ),
    "offline_replicas": (
        f"{_REPLICAS}_offlinereplicacount",
        "gauge",
        "replicas in a log folder that failed",
    ),
    "waiting_requests": (
        "highwater_broker_waiting_requests",
        "gauge",
        "requests in the purgatory",
    ),
}
REQUESTS, REQUEST_MS = "requests.", "request_ms."
"""Before the name of a request, in a snapshot's counters: how many were answered, and the sum of
their times from the begin of their handling to their answer. Kafka's time begins earlier, with the
wait for a thread; here a request that is not yet handled waits unread."""
_REQUESTS = "kafka_network_requestmetrics"

_KAFKAS_TIMES: Mapping[str, str] = {
    "ControllerZnodeChanged": "controllerchange",
    "BrokersChanged": "leaderelection",
    "TopicsChanged": "topicchange",
    "ReassignmentsWritten": "partitionreassignment",
    "DeletionsRequested": "topicdeletion",
    "IsrChangesNotified": "isrchange",
    "PreferredElectionsWritten": "manualleaderbalance",
    "RebalanceDue": "autoleaderbalance",
}
"""Kafka's ...RateAndTimeMs for each event; Kafka times BrokerChange as LeaderElection."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: a value and its labels. suffix: _count or _sum of a summary."""

    value: int | float
    labels: Mapping[str, str]
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its samples; kind: "gauge", "counter" or "summary"."""

    name: str
    kind: str
    about: str
    samples: tuple[Sample, ...]


def prometheus_text(nodes: Mapping[str, NodeSnapshot | None]) -> str:
    """Return the nodes' metrics by name of node; None is a node that does not answer.

    Each sample has the label node. All samples of a metric stand together.
    """
    found: dict[str, Metric] = {}
    for node, snapshot in nodes.items():
        for metric in metrics_of(snapshot):
            samples = tuple(
                Sample(each.value, {"node": node, **each.labels}, each.suffix)
                for each in metric.samples
            )
            earlier = found[metric.name].samples if metric.name in found else ()
            found[metric.name] = Metric(metric.name, metric.kind, metric.about, earlier + samples)
    return text_of(found.values())


def text_of(metrics: Iterable[Metric]) -> str:
    """Return the metrics as Prometheus reads them; no two have one name."""
    return "".join(line + "\n" for metric in metrics for line in _lines(metric))


def metrics_of(snapshot: NodeSnapshot | None) -> Iterator[Metric]:
    """Yield one node's metrics."""
    yield gauge("highwater_node_up", "whether the node answers", int(snapshot is not None))
    if snapshot is None:
        return
    yield gauge("highwater_node_incarnation", "starts on its disk", snapshot.incarnation)
    about = "anonymous resident memory"
    yield gauge("highwater_node_memory_bytes", about, snapshot.resident_bytes)
    counters = dict(snapshot.counters)
    yield gauge("process_open_fds", "open descriptors", counters.get("open_files", 0))
    yield gauge("process_threads", "threads", counters.get("threads", 0))
    if snapshot.kind == "controller":
        yield from _of_controller(snapshot)
    else:
        yield from _of_broker(snapshot)


def _of_controller(snapshot: NodeSnapshot) -> Iterator[Metric]:
    counters = dict(snapshot.counters)
    is_active = int(snapshot.active_controller)
    yield gauge(f"{_CONTROLLER}_activecontrollercount", "1: it is the active one", is_active)
    yield gauge(f"{_CONTROLLER}_activebrokercount", "brokers that live", len(snapshot.live_brokers))
    for counter, (name, about) in _OF_THE_CLUSTER.items():
        yield gauge(name, about, counters.get(counter, 0))
    for counter, (name, about) in _TOTALS.items():
        yield Metric(name, "counter", about, (Sample(counters.get(counter, 0), {}),))
    yield gauge(f"{_MANAGER}_eventqueuesize", "events that wait", counters.get("events_waiting", 0))
    yield gauge(
        "kafka_controller_controllerchannelmanager_totalqueuesize",
        "commands that wait, those in flight included",
        counters.get("commands_waiting", 0),
    )
    taken, waited_ms = counters.get("events_taken", 0), counters.get("events_waited_ms", 0)
    yield _summary(
        f"{_MANAGER}_eventqueuetimems", "how long events waited", _sums(taken, waited_ms, {})
    )
    yield from _handling_times(counters)
    yield Metric(
        "highwater_controller_unanswered_command_ms",
        "gauge",
        "how long a command has waited for its answer, where that is too long",
        tuple(
            Sample(each.waiting_ms, {"broker": str(each.broker_id), "request": each.request})
            for each in snapshot.unanswered_commands
        ),
    )


def _handling_times(counters: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the handling time of each event: some under Kafka's name, all under ours."""
    times = _counts_and_times(counters, "events_handled.", "handling_ms.")
    for event, kafkas in _KAFKAS_TIMES.items():
        samples = _sums(*times.get(event, (0, 0)), {})
        yield _summary(f"{_STATS}_{kafkas}rateandtimems", f"handling of {event}", samples)
    by_event = (
        sample
        for event, (count, took_ms) in times.items()
        for sample in _sums(count, took_ms, {"event": event})
    )
    about = "how long each event was handled for"
    yield _summary("highwater_controller_event_handling_ms", about, by_event)


def _of_broker(snapshot: NodeSnapshot) -> Iterator[Metric]:
    replicas = snapshot.replicas
    led = [each for each in replicas if each.role == "leader"]
    lacking = sum(_is_under_replicated(each) for each in led)
    yield gauge(f"{_REPLICAS}_partitioncount", "replicas that it hosts", len(replicas))
    yield gauge(f"{_REPLICAS}_leadercount", "partitions that it leads", len(led))
    yield gauge(
        f"{_REPLICAS}_underreplicatedpartitions", "led, with an ISR that lacks a replica", lacking
    )
    counters = dict(snapshot.counters)
    for counter, (name, kind, about) in _OF_A_BROKER.items():
        yield Metric(name, kind, about, (Sample(counters.get(counter, 0), {}),))
    yield Metric(
        "kafka_cluster_partition_underreplicated",
        "gauge",
        "1: the ISR lacks a replica, as the partition's leader has it",
        tuple(Sample(int(_is_under_replicated(each)), _place(each)) for each in led),
    )
    waiting = Sample(counters.get("waiting_fetches", 0), {"delayedOperation": "Fetch"})
    yield Metric(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "gauge",
        "fetches in the purgatory",
        (waiting,),
    )
    yield from _request_times(counters)
    offsets = {
        "kafka_log_log_logstartoffset": ("the first offset that is kept", "log_start_offset"),
        "kafka_log_log_logendoffset": ("the next offset to assign", "log_end_offset"),
        "highwater_broker_high_watermark": ("below it all is committed", "high_watermark"),
    }
    for name, (about, field) in offsets.items():
        samples = tuple(Sample(getattr(each, field), _place(each)) for each in replicas)
        yield Metric(name, "gauge", about, samples)


def _request_times(counters: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the number and the time of the requests of each kind, with Kafka's names for them."""
    times = _counts_and_times(counters, REQUESTS, REQUEST_MS)
    yield Metric(
        f"{_REQUESTS}_requests_total",
        "counter",
        "requests answered",
        tuple(Sample(count, {"request": request}) for request, (count, _) in times.items()),
    )
    by_request = (
        sample
        for request, (count, took_ms) in times.items()
        for sample in _sums(count, took_ms, {"request": request})
    )
    about = "from the begin of a request's handling to its answer"
    yield _summary(f"{_REQUESTS}_totaltimems", about, by_request)


def _counts_and_times(
    counters: Mapping[str, int], counted: str, timed: str
) -> dict[str, tuple[int, int]]:
    """Return count and summed time (ms) by the names that follow these prefixes of counters."""
    names = (name.removeprefix(counted) for name in counters if name.startswith(counted))
    return {name: (counters[f"{counted}{name}"], counters[f"{timed}{name}"]) for name in names}


def _is_under_replicated(led: ReplicaSnapshot) -> bool:
    return len(set(led.isr) & set(led.assigned_replicas)) < len(led.assigned_replicas)


def _place(replica: ReplicaSnapshot) -> Mapping[str, str]:
    topic, partition = replica.topic_partition
    return {"topic": topic, "partition": str(partition)}


def gauge(name: str, about: str, value: int | float) -> Metric:
    """Return a metric of one value without labels."""
    return Metric(name, "gauge", about, (Sample(value, {}),))


def _summary(name: str, about: str, samples: Iterable[Sample]) -> Metric:
    return Metric(name, "summary", about, tuple(samples))


def _sums(count: int, total: int, labels: Mapping[str, str]) -> tuple[Sample, Sample]:
    return Sample(count, labels, "_count"), Sample(total, labels, "_sum")


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.about}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for sample in metric.samples:
        labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in sample.labels.items())
        yield f"{metric.name}{sample.suffix}{{{labels}}} {sample.value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
