"""Nodes' numbers as text that Prometheus' own parser reads."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from highwater.commands.metrics import metrics_server
from highwater.project import project_root
from highwater.soak.folder import SoakFolder
from highwater.soak.status import Doing, Status, write_status
from highwater.watching.metrics import read_metrics
from highwater_checker.run_folder import names
from highwater_checker.verdict import Outcome
from highwater_core.ids import (
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import NodeSnapshot, ReplicaSnapshot, UnansweredCommand
from highwater_core.prometheus import CONTENT_TYPE, prometheus_text

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_of(text: str) -> Samples:
    """Return each sample's value by its name and labels; each has one."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


def replica(topic: str, role: str, isr: tuple[int, ...]) -> ReplicaSnapshot:
    return ReplicaSnapshot(
        topic_partition=TopicPartition(topic, 0),
        role=role,
        leader=NodeId(0),
        leader_epoch=LeaderEpoch(1),
        controller_epoch=ControllerEpoch(1),
        partition_epoch=PartitionEpoch(0),
        high_watermark=Offset(5),
        log_start_offset=Offset(2),
        log_end_offset=Offset(6),
        isr=tuple(map(NodeId, isr)),
        assigned_replicas=(NodeId(0), NodeId(1)),
    )


BROKER = NodeSnapshot(
    NodeId(0),
    "broker",
    3,
    "fenced",
    ControllerEpoch(1),
    replicas=(
        replica("a", "leader", (0,)),
        replica("b", "leader", (0, 1)),
        replica("c", "follower", ()),
        replica("d", "offline", ()),
    ),
    counters=(
        ("waiting_requests", 4),
        ("waiting_fetches", 3),
        ("requests.FetchFollower", 9),
        ("request_ms.FetchFollower", 4_500),
        ("requests.Produce", 2),
        ("request_ms.Produce", 1),
        ("isr_shrinks", 7),
        ("isr_expands", 6),
        ("under_min_isr_partitions", 2),
        ("at_min_isr_partitions", 3),
        ("offline_replicas", 5),
    ),
)
CONTROLLER = NodeSnapshot(
    NodeId(1000),
    "controller",
    1,
    "fenced",
    ControllerEpoch(1),
    active_controller=True,
    live_brokers=(NodeId(0), NodeId(1)),
    counters=(
        ("events_waiting", 7),
        ("commands_waiting", 2),
        ("offline_partitions", 3),
        ("unclean_elections", 5),
        ("commands_timed_out", 6),
        ("events_taken", 11),
        ("events_waited_ms", 99),
        ("events_handled.BrokersChanged", 2),
        ("handling_ms.BrokersChanged", 80),
    ),
    unanswered_commands=(UnansweredCommand(NodeId(2), "LeaderAndIsrRequest", 12_345),),
)
STANDBY = NodeSnapshot(NodeId(1001), "controller", 1, "fenced", ControllerEpoch(1))


def test_a_controller_tells_kafkas_metrics_by_the_names_of_the_jmx_exporter() -> None:
    found = samples_of(prometheus_text({"controller-1000": CONTROLLER, "controller-1001": STANDBY}))
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    assert value(found, active, node="controller-1000") == 1
    assert value(found, active, node="controller-1001") == 0
    of = {"node": "controller-1000"}
    offline = "kafka_controller_kafkacontroller_offlinepartitionscount"
    unclean = "kafka_controller_controllerstats_uncleanleaderelections_total"
    manager = "kafka_controller_controllereventmanager"
    elections = "kafka_controller_controllerstats_leaderelectionrateandtimems"
    assert value(found, offline, **of) == 3
    assert value(found, unclean, **of) == 5
    assert value(found, f"{manager}_eventqueuesize", **of) == 7
    assert value(found, f"{manager}_eventqueuetimems_count", **of) == 11
    assert value(found, f"{manager}_eventqueuetimems_sum", **of) == 99
    assert value(found, f"{elections}_count", **of) == 2
    assert value(found, f"{elections}_sum", **of) == 80
    assert value(found, offline, node="controller-1001") == 0


def test_each_event_and_each_command_without_an_answer_has_its_own_labels() -> None:
    found = samples_of(prometheus_text({"controller-1000": CONTROLLER}))
    times = "highwater_controller_event_handling_ms"
    of = {"node": "controller-1000"}
    assert value(found, f"{times}_sum", event="BrokersChanged", **of) == 80
    waiting = "highwater_controller_unanswered_command_ms"
    assert value(found, waiting, broker="2", request="LeaderAndIsrRequest", **of) == 12_345
    assert value(found, "highwater_controller_commands_timed_out_total", **of) == 6


def test_a_broker_counts_its_leaderships_and_under_replicated_partitions() -> None:
    found = samples_of(prometheus_text({"broker-0": BROKER}))
    manager = "kafka_server_replicamanager"
    counted = {
        name: value(found, f"{manager}_{name}", node="broker-0")
        for name in (
            "partitioncount",
            "leadercount",
            "underreplicatedpartitions",
            "offlinereplicacount",
            "underminisrpartitioncount",
            "atminisrpartitioncount",
            "isrshrinks_total",
            "isrexpands_total",
        )
    }
    assert counted == {
        "partitioncount": 4,
        "leadercount": 2,
        "underreplicatedpartitions": 1,
        "offlinereplicacount": 5,
        "underminisrpartitioncount": 2,
        "atminisrpartitioncount": 3,
        "isrshrinks_total": 7,
        "isrexpands_total": 6,
    }
    at_a = {"node": "broker-0", "topic": "a", "partition": "0"}
    assert value(found, "kafka_cluster_partition_underreplicated", **at_a) == 1
    assert value(found, "kafka_log_log_logendoffset", **at_a) == 6
    assert value(found, "highwater_broker_high_watermark", **at_a) == 5


def test_a_broker_has_kafkas_names_for_requests_and_their_times() -> None:
    found = samples_of(prometheus_text({"broker-0": BROKER}))
    metrics = "kafka_network_requestmetrics"
    for request, count, took_ms in (("FetchFollower", 9, 4_500), ("Produce", 2, 1)):
        labels = {"node": "broker-0", "request": request}
        assert value(found, f"{metrics}_requests_total", **labels) == count
        assert value(found, f"{metrics}_totaltimems_count", **labels) == count
        assert value(found, f"{metrics}_totaltimems_sum", **labels) == took_ms
    purgatory = "kafka_server_delayedoperationpurgatory_purgatorysize"
    assert value(found, purgatory, node="broker-0", delayedOperation="Fetch") == 3


def test_a_node_that_does_not_answer_is_down_and_tells_nothing_else() -> None:
    found = samples_of(prometheus_text({"broker-0": None, "broker-1": BROKER}))
    assert value(found, "highwater_node_up", node="broker-0") == 0
    assert value(found, "highwater_node_up", node="broker-1") == 1
    assert [name for name, labels in found if ("node", "broker-0") in labels] == [
        "highwater_node_up"
    ]


def test_a_client_that_says_nothing_keeps_no_other_from_its_metrics() -> None:
    with metrics_server("127.0.0.1", 0, lambda: "one 1\n") as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        with socket.create_connection(("127.0.0.1", server.server_port)):
            url = f"http://127.0.0.1:{server.server_port}/metrics"
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.read() == b"one 1\n"
        server.shutdown()
        thread.join(30)


@pytest.mark.parametrize("sent", [b"GET /met", b"GET /metrics HTTP/1.0\r\n\r\n"])
def test_a_client_that_leaves_in_the_middle_leaves_no_traceback(
    sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    is_made = threading.Event()

    def make_text() -> str:
        is_made.wait(30)
        return "one 1\n" * 500_000

    with metrics_server("127.0.0.1", 0, make_text) as server:
        server.daemon_threads = False  # closing waits for its requests
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        client = socket.create_connection(("127.0.0.1", server.server_port))
        client.sendall(sent)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # a reset
        is_made.set()
        server.shutdown()
        thread.join(30)
    assert capfd.readouterr().err == ""


def test_metrics_are_served_anew_at_each_scrape() -> None:
    texts = iter(("one 1\n", "two 2\n"))
    with metrics_server("127.0.0.1", 0, lambda: next(texts)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        answers = []
        for _ in range(2):
            with urllib.request.urlopen(f"{base}/metrics", timeout=30) as answer:  # noqa: S310
                assert answer.headers["Content-Type"] == CONTENT_TYPE
                answers.append(answer.read())
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{base}/other", timeout=30)  # noqa: S310
        refused.value.close()
        server.shutdown()
        thread.join(30)
    assert answers == [b"one 1\n", b"two 2\n"]
    assert refused.value.code == 404


def test_the_dashboard_asks_for_metrics_that_nodes_soaks_and_runs_have(
    tmp_path: Path,
) -> None:
    folder = SoakFolder(tmp_path)
    done = dict.fromkeys(Outcome, 1)
    status = Status(Doing.RUNNING, "", 3, "soak-1", 1.0, 9.0, done, (), "2026-01-01T00:00:00Z")
    write_status(folder.status, status)
    looks = folder.runs / "soak-1" / names.LOOKS
    looks.parent.mkdir(parents=True)
    looks.write_bytes(b"")
    text = prometheus_text({"broker-0": BROKER, "controller-1000": CONTROLLER})
    families = text_string_to_metric_families(text + read_metrics(tmp_path))
    told = {sample.name for family in families for sample in family.samples}
    path = project_root() / "compose" / "monitoring" / "grafana-dashboard.json"
    panels = json.loads(path.read_text("utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    wanted = {
        name for expr in asked for name in re.findall(r"(?:kafka|highwater|process)_\w+", expr)
    }
    assert len(asked) == len(panels) >= 10
    assert wanted <= told, wanted - told
