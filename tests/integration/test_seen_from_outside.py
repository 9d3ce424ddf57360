"""The commands for topics, metrics in Prometheus' format, and a broker's controlled shutdown."""

from __future__ import annotations

import json
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner, Result

from highwater.cli import make_app
from highwater.cluster.cluster import Cluster
from highwater.cluster.settling import await_full_isr
from highwater.cluster.topology import Topology
from highwater.waiting import eventually
from tests.support.metadata import await_known

pytestmark = pytest.mark.docker

WITHIN_S = 60.0


def ask(cluster: Cluster, *words: str, fails: bool = False) -> Result:
    result = CliRunner().invoke(make_app(), [*words, "--run", cluster.run_id])
    assert (result.exit_code != 0) == fails, (result.output, result.exception)
    return result


def described(cluster: Cluster, topic: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        ask(cluster, "topics", "describe", topic, "--json").stdout
    )
    return found


def scraped(cluster: Cluster) -> dict[tuple[str, str], float]:
    """Return the values of metrics whose only label is the node, by name and node."""
    text = ask(cluster, "metrics").stdout
    return {
        (sample.name, sample.labels["node"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if set(sample.labels) == {"node"}
    }


def scraped_whole(cluster: Cluster) -> dict[tuple[str, str], float]:
    """Return the values once every node answers within a scrape's half second, else nothing."""
    found = scraped(cluster)
    up = [value for (name, _), value in found.items() if name == "highwater_node_up"]
    return found if all(up) else {}


def targets_of(cluster: Cluster) -> list[str]:
    (group,) = json.loads(ask(cluster, "metrics", "--targets").stdout)
    assert group["labels"] == {"run": cluster.run_id}
    assert len(group["targets"]) == len(cluster.node_ids)
    targets: list[str] = group["targets"]
    return targets


def scraped_at(target: str) -> set[str]:
    """Return the names of the samples that a node tells by itself."""
    with urlopen(f"http://{target}/metrics", timeout=WITHIN_S) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {sample.name for family in families for sample in family.samples}


def test_topics_metrics_and_a_controlled_shutdown_by_commands() -> None:
    with Cluster(Topology(brokers=3, controllers=2, session_timeout_ms=6_000)) as cluster:
        cluster.start()
        ask(
            cluster, "topics", "create", "outside", "--replicas", "1,2", "--config",
            "min.insync.replicas=2",
        )  # fmt: skip
        await_full_isr(cluster, "outside")
        await_known(cluster, "outside")
        found = described(cluster, "outside")
        assert found["config"] == {"min.insync.replicas": "2"}
        assert found["partitions"] == [
            {"partition": 0, "leader": 1, "leader_epoch": 0, "replicas": [1, 2], "isr": [1, 2],
             "offline": []}
        ]  # fmt: skip
        ask(cluster, "topics", "expand", "outside", "--to", "2", "--replicas", "2,1")
        await_full_isr(cluster, "outside", 2)
        await_known(cluster, "outside", 2)
        (listed,) = json.loads(ask(cluster, "topics", "list", "--json").stdout)
        assert (listed["topic"], listed["partitions"], listed["replicas"]) == ("outside", 2, 2)
        ask(cluster, "topics", "create", "outside", fails=True)
        ask(cluster, "topics", "describe", "no-such-topic", fails=True)

        if cluster.control_endpoint(0).host == cluster.address(0):  # else they are not reached
            told = [scraped_at(target) for target in targets_of(cluster)]
            assert all("highwater_node_up" in names for names in told)
            assert "kafka_network_requestmetrics_totaltimems_sum" in told[0]
            assert "kafka_server_delayedoperationpurgatory_purgatorysize" in told[0]
        before = eventually(lambda: scraped_whole(cluster), within=WITHIN_S, what="5 nodes up")
        nodes = [cluster.topology.node(node).name for node in cluster.node_ids]
        assert [before["highwater_node_up", node] for node in nodes] == [1] * 5
        active = "kafka_controller_kafkacontroller_activecontrollercount"
        (leading,) = [n for n in nodes if before.get((active, n)) == 1]
        partitions = "kafka_controller_kafkacontroller_globalpartitioncount"
        offline = "kafka_controller_kafkacontroller_offlinepartitionscount"
        lacking = "kafka_server_replicamanager_underreplicatedpartitions"
        unclean = "kafka_controller_controllerstats_uncleanleaderelections_total"
        assert (before[partitions, leading], before[offline, leading]) == (2, 0)
        assert (before[lacking, "broker-1"], before[unclean, leading]) == (0, 0)

        stopped = json.loads(ask(cluster, "shutdown-broker", "1", "--json").stdout)
        assert stopped["exit_code"] == 0
        (moved,) = stopped["moved"]
        assert moved["partition"] == ["outside", 0]
        assert (moved["leader"], moved["leader_epoch"], moved["isr"]) == (2, 1, [2])
        assert cluster.status(1) == "exited"
        assert scraped(cluster)["highwater_node_up", "broker-1"] == 0
        eventually(  # one is led already; of the other's smaller ISR broker 2 may hear later
            lambda: scraped(cluster).get((lacking, "broker-2")) == 2,
            within=WITHIN_S,
            what="two partitions lack a replica",
            state=lambda: scraped(cluster),
        )
        ask(cluster, "shutdown-broker", "1", fails=True)

        cluster.start_node(1)
        await_full_isr(cluster, "outside", 2)
        ask(cluster, "topics", "delete", "outside")
        assert json.loads(ask(cluster, "topics", "list", "--json").stdout) == []
